"""The first pass over JSON Schemas: it replaces negations by forms. Begin with `positive`."""
