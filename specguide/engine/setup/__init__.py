"""What is known of an engine before its models are loaded.

Begin with `facts`: it looks at device and checkpoint, and resolves the configuration by that.
`target_folder` says where the checkpoint is, `checkpoint_identity` whether two processes have the
same one, and `parts` of what an engine is built. Nothing here keeps any state.
"""
