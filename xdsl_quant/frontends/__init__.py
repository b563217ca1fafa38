"""Frontends: dialects and files of other tools. Each subpackage can be deleted."""
