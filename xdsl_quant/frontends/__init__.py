"""Frontends: dialects and files of other tools. Each of them can be deleted alone."""
