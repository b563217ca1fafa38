"""Places in the text of a module, as an error message names them."""

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Attribute


def place(location: Attribute) -> str:
    """A location as the start of a message, e.g. `model.mlir:3:5: `; nothing if unknown."""
    if not isinstance(location, FileLineColLoc):
        return ""
    parts = (location.filename, location.line, location.column)
    return f"{':'.join(str(part.data) for part in parts)}: "
