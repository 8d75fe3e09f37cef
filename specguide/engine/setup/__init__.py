"""What is known of an engine before its models are loaded.

Begin with `facts`: it looks at device and checkpoint, and resolves the configuration from that.
`target_folder` finds the checkpoint, `checkpoint_identity` tells whether two processes have the
same one, and `parts` lists the classes that an engine is built of. Nothing here keeps any state.
"""
