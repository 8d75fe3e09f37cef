"""The building blocks of the models: projections, norms, rotary positions, attention over the paged
cache, gated MLPs and experts."""
