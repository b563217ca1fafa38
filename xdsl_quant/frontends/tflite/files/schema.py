"""Schema of `.tflite` files, from the package `tflite`: enums and option tables of ops."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from xdsl_quant.runtime.extras import missing_package


def _members(holder: object) -> Mapping[str, Any]:
    return vars(holder)


@cache
def schema() -> Any:
    """
    Return the package `tflite`.

    Raises:
        ImportError: if it is not installed.
    """
    try:
        import tflite  # pyright: ignore[reportMissingTypeStubs] it has neither stubs nor hints
    except ImportError:
        raise missing_package("reading a '.tflite' file", "tflite", "tflite") from None
    return tflite


_NEWER_ENUMERATORS: Mapping[str, Mapping[int, str]] = {
    "TensorType": {
        19: "INT2",
        20: "UINT4",
        21: "FLOAT8_E4M3FN",
        22: "FLOAT8_E5M2",
    },
    "QuantizationDetails": {2: "BlockwiseQuantization", 3: "MultiAxisQuantization"},
    "BuiltinOperator": {209: "STABLEHLO_CASE"},
    "BuiltinOptions2": {22: "StablehloCaseOptions"},
}
"""Enumerators of LiteRT 2.3 that the package `tflite` 2.18 lacks."""


@cache
def enumerators(name: str) -> Mapping[int, str]:
    """Return the names of an enum by value."""
    enumeration = getattr(schema(), name)
    members = {
        number: member
        for member, number in _members(enumeration).items()
        if isinstance(number, int)
    }
    return {**members, **_NEWER_ENUMERATORS.get(name, {})}


@cache
def enumerator(enumeration: str, name: str) -> int:
    """Return the value of an enumerator."""
    values = {member: number for number, member in enumerators(enumeration).items()}
    return values[name]


COMPOSITE, COMPOSITE_OPTIONS = "STABLEHLO_COMPOSITE", "StableHLOCompositeOptions"
"""The op that calls a subgraph, and the name of its options."""

_OPTIONS = {
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "L2_POOL_2D": "Pool2DOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "MEAN": "ReducerOptions",
    "SUM": "ReducerOptions",
    "REDUCE_PROD": "ReducerOptions",
    "REDUCE_MAX": "ReducerOptions",
    "REDUCE_MIN": "ReducerOptions",
    "REDUCE_ANY": "ReducerOptions",
    "REDUCE_ALL": "ReducerOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "RANDOM_UNIFORM": "RandomOptions",
    "RANDOM_STANDARD_NORMAL": "RandomOptions",
    "MULTINOMIAL": "RandomOptions",
}
"""Names of option tables by op, if they do not follow from the name of the op."""


@cache
def _options_by_name() -> Mapping[str, str]:
    names = enumerators("BuiltinOptions").values()
    return {name.removesuffix("Options").lower(): name for name in names}


@cache
def options_name(code: str) -> str | None:
    """Return the name of an op's option table; `None` if it has none."""
    known = _OPTIONS.get(code)
    return known or _options_by_name().get(code.replace("_", "").lower())


_SUFFIXES = ("AsNumpy", "Length", "IsNone", "BufferHasIdentifier")


@cache
def option_fields(table: str) -> Mapping[str, str]:
    """Return the accessors of an option table by field name in snake case."""
    accessors = [
        name
        for name in _members(getattr(schema(), table))
        if name[0].isupper()
        and not name.startswith("GetRootAs")
        and not name.endswith(_SUFFIXES)
        and name != "Init"
    ]
    return {re.sub(r"(?<=.)(?=[A-Z])", "_", name).lower(): name for name in accessors}
