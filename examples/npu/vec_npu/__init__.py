"""A hardware target with a dialect, a constraint and a pattern of its own."""
