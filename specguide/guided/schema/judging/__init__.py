"""Questions about subschemas as the user wrote them, with answers that may be uncertain.

Begin with `question` and `instance`: whether a value is an instance of a subschema, by a rule for
each keyword. `disjoint` proves that two subschemas have no instance in common.
"""
