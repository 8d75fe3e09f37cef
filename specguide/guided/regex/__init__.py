"""Regular expressions of guides: read in one dialect, and written such that all backends read them
alike."""
