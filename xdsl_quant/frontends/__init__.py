"""Frontends: dialects and files of other tools. Each is a slice that can be deleted."""
