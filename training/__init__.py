"""How the shipped small model and its draft heads were made; every step is a command that can be
run again."""
