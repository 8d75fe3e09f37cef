"""JSON Schema: read in any draft, freed of negations, rewritten into the core that grammar backends
enforce, checked keyword by keyword."""
