"""Error raised when a module cannot be compiled."""


class CompilationError(ValueError):
    """Raised when a module cannot be compiled; the message states the reason."""

    def __init__(self, message: str, place: str = ""):
        """`place` is the text of the MLIR location at which a pass failed."""
        super().__init__(message)
        self.place = place
