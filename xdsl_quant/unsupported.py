"""The exception that formulas and lowerings raise for unsupported ops."""


class Unsupported(ValueError):
    """
    Raised when the types, parameters or sizes of an op are unsupported. The message
    continues the name of the op: `'tfl.add' op has per-axis values`.
    """
