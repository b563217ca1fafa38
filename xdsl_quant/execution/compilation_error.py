"""What is raised for a module that cannot be compiled."""


class CompilationError(ValueError):
    """A module cannot be compiled; the message says why."""
