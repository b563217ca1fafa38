"""
What `quant.qcast` and `quant.dynamic_qcast` make of NaN, if the op says so itself: a module
from a dialect that defines it has one answer, whatever the options are that it is run or
lowered with.
"""

from typing import cast, get_args

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from xdsl_quant.rounding_mode import NanResult

NAN_ATTRIBUTE = "quant.nan"
"""
The discardable attribute of a `quant.qcast` or `quant.dynamic_qcast`: one of the texts of
`NanResult`.
"""


def nan_result(op: Operation, default: NanResult) -> NanResult:
    """
    What becomes of NaN in a cast.

    Args:
        op: the cast.
        default: what it is if the op does not say it.

    Raises:
        ValueError: if what the op says is not known.
    """
    if (attribute := op.attributes.get(NAN_ATTRIBUTE)) is None:
        return default
    if isinstance(attribute, StringAttr) and attribute.data in get_args(NanResult):
        return cast(NanResult, attribute.data)
    known = " or ".join(f'"{name}"' for name in get_args(NanResult))
    raise ValueError(f"attribute '{NAN_ATTRIBUTE}' must be {known}, not {attribute}")
