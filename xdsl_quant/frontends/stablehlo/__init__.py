"""StableHLO: its dialect, and what its ops compute."""
