"""Regular expressions of guides: read in one dialect, written so that every backend reads them
alike."""
