"""The building blocks of the models: linear maps, norm, rotary positions, attention over pages,
gated MLP."""
