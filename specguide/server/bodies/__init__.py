"""The fields of request bodies.

Begin with `base_body`, from which all bodies derive, and `shared_fields`, which several have;
`requests` has the bodies of OpenAI's APIs. `fields` lists the known fields that are not honoured,
with the reasons, and `ignored` handles unknown fields; `built_in_tools` names the tools that OpenAI
runs itself. `sampling_defaults` reads the model's own defaults for sampling.
"""
