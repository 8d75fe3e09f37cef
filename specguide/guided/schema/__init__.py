"""JSON Schema: read in any draft, rewritten into the core that grammar backends enforce, checked
keyword by keyword."""
