"""Resolve constraints into parameters: state, work list, and report."""
