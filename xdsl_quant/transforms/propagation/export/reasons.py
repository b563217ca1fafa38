"""Why kernels stay in floating point."""

from __future__ import annotations

from xdsl.dialects.builtin import NameLoc
from xdsl.ir import Operation

from xdsl_quant.diagnostics import sentence_of
from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    RegionOp,
    ScaledQuantizedType,
)
from xdsl_quant.unsupported import Unsupported


class UnsupportedParameters(Unsupported):
    """Why a kernel whose ports have parameters is not computed with stored values."""


class ResultOutOfRange(Unsupported):
    """
    Why a kernel and its results stay in floating point: they have numbers that the type of
    a result would cut off.
    """

    def __init__(self, message: str, number: float):
        super().__init__(message)
        self.number = number
        """One of these numbers."""


def check_parameters(region: RegionOp) -> None:
    """
    Raises:
        UnsupportedParameters: if stored values of a port are not integers with scales and
            zero points alone.
    """
    for spec in region.specs:
        if isinstance(spec, BlockScaledQuantizedType):
            raise UnsupportedParameters(
                "unsupported type '!quant.block_scaled', expected '!quant.uniform'"
            )
        if isinstance(spec, ScaledQuantizedType) and (
            (reason := spec.unsupported_storage) is not None
        ):
            raise UnsupportedParameters(reason)


def reason_of(error: Exception, name: str) -> str:
    """
    What an error says about an op, as a part of a sentence that has the location of the
    kernel and the name of the op already.
    """
    sentence = sentence_of(error)
    _, is_located, message = sentence.partition("error: ")
    return (message if is_located else sentence).removeprefix(f"'{name}' op ")


def in_names_of_kernel(reason: str, op: Operation) -> str:
    """
    A reason about an op, or an op in it, with the name of the op of StableHLO that it was
    made of, if that is its location.
    """
    location = op.location
    if isinstance(location, NameLoc) and location.desc.data.startswith("stablehlo."):
        for inner in op.walk():
            reason = reason.replace(f"'{inner.name}'", f"'{location.desc.data}'")
    return reason


def check_uses_own_values(op: Operation) -> None:
    """
    Raises:
        Unsupported: if an op uses, in its regions, values from outside of it.
    """
    if not op.regions:
        return
    own = {
        value
        for inner in op.walk()
        for values in (
            inner.results,
            *(block.args for region in inner.regions for block in region.blocks),
        )
        for value in values
    }
    inside = (inner for inner in op.walk() if inner is not op)
    if not all(value in own for inner in inside for value in inner.operands):
        raise Unsupported(f"'{op.name}' uses values from outside of its regions")
