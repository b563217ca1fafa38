"""Integers of several runtimes."""
