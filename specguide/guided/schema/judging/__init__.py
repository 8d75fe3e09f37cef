"""Questions about schemas as they were given, whose answers may be uncertain.

Begin with `question` and `instance`: whether a value is an instance of a subschema, by the rules of
each keyword. `disjoint` asks whether two subschemas share one.
"""
