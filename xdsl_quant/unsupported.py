"""The exception raised by formulas, machines and lowerings for unsupported ops."""


class Unsupported(ValueError):
    """
    Raised when an op, a formula or a machine does not support types, parameters or sizes.
    The message continues the name of the op: `'tfl.add' op has per-axis values`.
    """
