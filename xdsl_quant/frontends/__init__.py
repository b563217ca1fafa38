"""Frontends: dialects and files of other tools. Each subpackage is optional."""
