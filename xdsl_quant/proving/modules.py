"""Provers for the casts of a type, or for all casts in a module."""

import math
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    DynamicDequantizeCastOp,
    DynamicQuantizeCastOp,
    QuantizeCastOp,
)
from xdsl_quant.dialects.quant.float_formats import float_format
from xdsl_quant.dialects.quant.ops import cast_rounding
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.loading import Model, as_module, model_path, parse_type

from .casts import CastProver
from .formula import Cast
from .terms import UnsupportedError
from .translation import with_location

_NEAREST = Rounding()


def provers(
    source: Model | Attribute,
    rounding: Rounding = _NEAREST,
    *,
    fuse: bool = False,
    scales: tuple[float, float] | None = None,
    seconds: float = 60.0,
) -> Sequence[CastProver]:
    """
    Return a prover for each combination of scale, zero point and result for NaN.

    Args:
        source: quantized type or its text, which is one line; or a module, its text or
            file, to prove all casts in it.
        rounding: rounding of the casts.
        fuse: option of `lower-quant-ops`.
        scales: range of scales (inclusive) that replaces the scales of the types.
        seconds: time limit of the solver for each claim.

    Raises:
        UnsupportedError: if a type is not `!quant.uniform`, or the module has no casts.
        IRError: if a text is not a type or a module.
        ValueError: if the rounding is unknown, or the range of scales is invalid.
    """
    if (mistake := rounding.error_message()) is not None:
        raise ValueError(mistake)
    casts = _casts_of_source(source, rounding)
    if scales is not None:
        for cast in casts:
            _check_scales(scales, cast, fuse)
    return [CastProver(cast, fuse, scales, seconds) for cast in casts]


def _casts_of_source(source: Model | Attribute, rounding: Rounding) -> Sequence[Cast]:
    if isinstance(source, str) and "\n" not in source and model_path(source) is None:
        source = parse_type(source)
    if isinstance(source, Attribute):
        return [*dict.fromkeys(_casts_of(source, rounding))]
    casts = [*dict.fromkeys(_casts_in(as_module(source), rounding))]
    if not casts:
        raise UnsupportedError(
            "the module has no casts to prove; use --after to compare it with the output "
            "of passes"
        )
    return casts


def has_casts(module: ModuleOp) -> bool:
    """Return True if a module has casts."""
    return any(isinstance(o, _CASTS) for o in module.walk())


_DYNAMIC_CASTS = DynamicQuantizeCastOp | DynamicDequantizeCastOp
_CASTS = QuantizeCastOp | DequantizeCastOp | _DYNAMIC_CASTS


def _check_scales(scales: tuple[float, float], cast: Cast, fuse: bool) -> None:
    low, high = scales
    known = float_format(cast.expressed)
    # Claims about an empty range would always be proved.
    if not known.smallest <= low <= high <= known.largest:
        raise ValueError(
            f"invalid range of scales of '{cast.expressed}': {low} to {high}; expected two "
            f"ascending numbers from {known.smallest} to {known.largest}"
        )
    first, last = cast.expressed.unpack(cast.expressed.pack([low, high]), 2)
    if fuse and first == last and math.frexp(first)[0] == 0.5:
        raise ValueError(
            f"empty range of scales: {first} is a power of two, and option fuse excludes "
            "these; use a type with this scale"
        )


def _casts_in(module: ModuleOp, rounding: Rounding) -> Iterator[Cast]:
    for op in module.walk():
        try:
            yield from _casts_of_op(op, rounding)
        except UnsupportedError as error:
            raise with_location(op, error) from None


def _casts_of_op(op: Operation, rounding: Rounding) -> Iterator[Cast]:
    if isinstance(op, _DYNAMIC_CASTS):
        raise UnsupportedError(
            f"unsupported '{op.name}' op with dynamic scales; use "
            "'quant-casts-from-dynamic', or prove all scales of a type"
        )
    if isinstance(op, QuantizeCastOp):
        yield from _casts_of(op.result.type, cast_rounding(op, rounding))
    elif isinstance(op, DequantizeCastOp):
        yield from _casts_of(op.input.type, cast_rounding(op, rounding))


def _casts_of(type_: Attribute, rounding: Rounding) -> Iterator[Cast]:
    element = scalar_or_element_type(type_)
    if not isinstance(element, UniformType):
        raise UnsupportedError(
            f"unsupported type '{element}'; expected '!quant.uniform'"
        )
    if (reason := element.unsupported_storage) is not None:
        raise UnsupportedError(reason)
    for each in element.per_tensor_types():
        yield Cast(each, rounding)
