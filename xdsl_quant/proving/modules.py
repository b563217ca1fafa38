"""The casts of a type, or of all types that a module casts to or from."""

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
from xdsl_quant.dialects.quant.ops import nan_result
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.loading import parse_type

from .casts import CastProver
from .formula import Cast
from .terms import UnsupportedError
from .translation import located

_NEAREST = Rounding()


def provers(
    source: ModuleOp | Attribute | str,
    rounding: Rounding = _NEAREST,
    *,
    fuse: bool = False,
    scales: tuple[float, float] | None = None,
    seconds: float = 60.0,
) -> Sequence[CastProver]:
    """
    Return one for each pair of scale and zero point, and each result for NaN.

    Args:
        source: a quantized type or its text; or a module, for all its casts.
        rounding: how casts are lowered.
        fuse: the option of `lower-quant-ops`.
        scales: from where to where scales are, in place of those of the types.
        seconds: how long the solver may take for a claim.

    Raises:
        UnsupportedError: if a type is no `!quant.uniform`, or there are no casts.
        IRError: if a text is no type.
        ValueError: if there is no such rounding, or no such scales of a type.
    """
    if (mistake := rounding.mistake()) is not None:
        raise ValueError(mistake)
    if isinstance(source, ModuleOp):
        casts = [*dict.fromkeys(_casts_in(source, rounding))]
        if not casts:
            raise UnsupportedError(
                "the module has no casts, nothing to prove; --after compares it with "
                "what passes make of it"
            )
    else:
        type_ = parse_type(source) if isinstance(source, str) else source
        casts = [*dict.fromkeys(_casts_of(type_, rounding))]
    if scales is not None:
        for cast in casts:
            _check_scales(scales, cast, fuse)
    return [CastProver(cast, fuse, scales, seconds) for cast in casts]


def has_casts(module: ModuleOp) -> bool:
    """Return True if there is a cast."""
    return any(isinstance(o, _CASTS) for o in module.walk())


_DYNAMIC_CASTS = DynamicQuantizeCastOp | DynamicDequantizeCastOp
_CASTS = QuantizeCastOp | DequantizeCastOp | _DYNAMIC_CASTS


def _check_scales(scales: tuple[float, float], cast: Cast, fuse: bool) -> None:
    """
    Raises:
        ValueError: if there are no scales from the first to the second number.
    """
    low, high = scales
    known = float_format(cast.expressed)
    # Of no scales, anything would be proved.
    if not known.smallest <= low <= high <= known.largest:
        raise ValueError(
            f"there are no scales of '{cast.expressed}' from {low} to {high}, expected two "
            f"numbers from {known.smallest} to {known.largest}, the smaller one first"
        )
    first, last = cast.expressed.unpack(cast.expressed.pack([low, high]), 2)
    if fuse and first == last and math.frexp(first)[0] == 0.5:
        raise ValueError(
            f"there are no scales with fuse, found only {first}, a power of two; give a "
            "type with this scale"
        )


def _casts_in(module: ModuleOp, rounding: Rounding) -> Iterator[Cast]:
    for op in module.walk():
        try:
            yield from _casts_of_op(op, rounding)
        except UnsupportedError as error:
            raise located(op, error) from None


def _casts_of_op(op: Operation, rounding: Rounding) -> Iterator[Cast]:
    if isinstance(op, _DYNAMIC_CASTS):
        raise UnsupportedError(
            f"unsupported '{op.name}' op, scales are operands; use quant-casts-from-dynamic"
            ", or prove it for all scales of a type"
        )
    if isinstance(op, QuantizeCastOp):
        own = rounding._replace(nan=nan_result(op, rounding.nan))
        yield from _casts_of(op.result.type, own)
    elif isinstance(op, DequantizeCastOp):
        yield from _casts_of(op.input.type, rounding)


def _casts_of(type_: Attribute, rounding: Rounding) -> Iterator[Cast]:
    element = scalar_or_element_type(type_)
    if not isinstance(element, UniformType):
        raise UnsupportedError(f"'{element}' is no '!quant.uniform' type")
    if (reason := element.unsupported_storage) is not None:
        raise UnsupportedError(reason)
    for each in element.per_tensor_types():
        yield Cast(each, rounding)
