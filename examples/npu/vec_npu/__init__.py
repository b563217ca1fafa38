"""A hardware target with its own dialect, constraint and patterns."""
