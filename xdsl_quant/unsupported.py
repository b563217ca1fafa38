"""The one exception for what has no form: formulas, machines and lowerings raise it."""


class Unsupported(ValueError):
    """
    Raised when an op, a formula or a machine has no form for types, parameters or sizes.
    About an op, the message is the predicate of a sentence: `has per-axis values`.
    """
