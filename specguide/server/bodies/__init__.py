"""What the body of a request may say.

Begin with `base_body`, which all bodies derive from, and `shared_fields`, which several have;
`requests` has the bodies of OpenAI's APIs. `fields` says what becomes of fields that are known and
not honoured, and `ignored` what of those that nobody knows; `built_in_tools` names the tools that
OpenAI runs by itself. `sampling_defaults` is how requests are sampled that do not say it.
"""
