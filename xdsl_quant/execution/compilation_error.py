"""Error raised when a module cannot be compiled."""


class CompilationError(ValueError):
    """Raised when a module cannot be compiled; the message states the reason."""
