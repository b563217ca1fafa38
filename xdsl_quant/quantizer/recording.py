"""Instrumented modules that run on samples and record some of their values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.calibration.instrumented_function import InstrumentedFunction
from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    DequantizeCastOp,
    QuantizedType,
    StatisticsRefOp,
)
from xdsl_quant.dialects.quant.dialect_ops import QUANT_OPS
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.numerics import QuantizationParameters, dequantize, quantize
from xdsl_quant.numerics.block_scaled import (
    BlockScaledParameters,
    dequantize_blocks,
    quantize_blocks,
)
from xdsl_quant.runtime.batches import Arguments, Batch, as_tuple
from xdsl_quant.runtime.loading import apply_passes
from xdsl_quant.transforms.propagation.export.fixed import dialect_ops_of
from xdsl_quant.transforms.propagation.module_kernels import kernels_of
from xdsl_quant.transforms.propagation.quant_export import QuantExportPass

from .dynamic_ranges import quantize_activations
from .signal_noise import Floats

_TO_LINALG = "convert-quantized-stablehlo-to-linalg"
"""Pass that lowers StableHLO ops, quantized or not."""


def represents_floats(type_: Attribute) -> bool:
    """Return True if the element type is a float or has scales."""
    return isinstance(
        scalar_or_element_type(type_), AnyFloat | UniformType | BlockScaledQuantizedType
    )


has_floats = represents_floats
"""Former name of `represents_floats`, kept for compatibility."""


def record(value: SSAValue, key: str, before: Operation | None = None) -> None:
    """
    Insert a `quant.stats_ref` with a key after a value, or before an op. Quantized
    values are first dequantized by a `quant.dcast`. Existing ops still use `value`.
    """
    ops: list[Operation] = []
    recorded = value
    if (type_ := QuantizedType.cast_to_expressed_type(value.type)) is not None:
        cast = DequantizeCastOp(value, type_)
        ops.append(cast)
        recorded = cast.result
    ops.append(StatisticsRefOp(recorded, key))
    if before is not None:
        point = InsertPoint.before(before)
    elif isinstance(owner := value.owner, Operation):
        point = InsertPoint.after(owner)
    else:
        point = InsertPoint.at_start(owner)
    Rewriter.insert_op(ops, point)


def record_results(
    function: FuncOp, prefix: str, order: Sequence[int] | None = None
) -> None:
    """
    Record the results of a function with the keys `prefix` + number. The numbers are
    positions in `order`, a permutation of the results.
    """
    terminator = function.body.blocks[-1].last_op if function.body.blocks else None
    if isinstance(terminator, ReturnOp):
        values = terminator.operands
        for number, index in enumerate(range(len(values)) if order is None else order):
            if represents_floats((value := values[index]).type):
                record(value, f"{prefix}{number}", terminator)


def stored_arguments(function: FuncOp, values: Arguments) -> Arguments:
    """Quantize floats for the quantized arguments of a function."""
    types = function.function_type.inputs.data
    if len(values) != len(types):
        # Let the call of the function raise the error.
        return values
    return tuple(map(_stored, values, types))


def _stored(value: ArrayLike, type_: Attribute) -> ArrayLike:
    array, element_type = np.asarray(value), scalar_or_element_type(type_)
    if not isinstance(element_type, UniformType) or array.dtype.kind != "f":
        return value
    parameters = QuantizationParameters.from_integer_type(element_type)
    return quantize(array.astype(parameters.expressed_dtype), parameters)


def as_stored(values: Floats, type_: UniformType | BlockScaledQuantizedType) -> Floats:
    """Return floats after fake quantization with the parameters of a type."""
    if isinstance(type_, BlockScaledQuantizedType):
        blocks = BlockScaledParameters.from_type(type_)
        floats = values.astype(blocks.expressed_dtype)
        return dequantize_blocks(quantize_blocks(floats, blocks), blocks)
    parameters = QuantizationParameters.from_integer_type(type_)
    floats = values.astype(parameters.expressed_dtype)
    return dequantize(quantize(floats, parameters), parameters)


def export_kernels(module: ModuleOp) -> None:
    """Export kernels as ops of their dialect, or else as integer arithmetic."""
    has_ops = all(
        isinstance(kernel.body.block.first_op, CallOp)
        or dialect_ops_of(kernel) is not QUANT_OPS
        for kernel in kernels_of(module)
    )
    mode = "fixed" if has_ops else "codegen"
    apply_passes(module, [QuantExportPass(mode=mode)], is_routine=True)


def lower_stablehlo(module: ModuleOp) -> None:
    """
    Lower ops of StableHLO, quantized or not, so that the module can run. Float contractions
    with quantized weights quantize their activations.
    """
    quantize_activations(module)
    if any(op.name.startswith(("chlo.", "stablehlo.")) for op in module.walk()):
        apply_passes(module, _TO_LINALG, is_routine=True)


@dataclass
class RecordedModule:
    """A runnable module that records values by key."""

    function: InstrumentedFunction

    constants: Sequence[Floats] = ()
    """Arguments that each call passes after the arguments of the batch."""

    is_interpreted: bool = False
    """True to interpret the module: with few batches, compiling it takes longer."""

    @staticmethod
    def of(module: ModuleOp, entry: str | None) -> RecordedModule:
        """
        Lower and instrument a module.

        Args:
            module: the module; its StableHLO ops are lowered in place.
            entry: the name of the function.

        Raises:
            ValueError: if the module cannot be run.
        """
        lower_stablehlo(module)
        return RecordedModule(InstrumentedFunction.of(module, entry))

    def values(
        self, batch: Batch, keys: Collection[str] | None = None
    ) -> Mapping[str, Floats]:
        """Run a batch; return the last values recorded for `keys` (default: all)."""
        sink = _Sink({}, (lambda _: True) if keys is None else keys.__contains__)
        run = self.function.runnable(brief=self.is_interpreted)
        run(sink, (*as_tuple(batch), *self.constants))
        return sink.values


@dataclass(frozen=True)
class _Sink:
    values: dict[str, Floats]

    # A field, as a method that calls it takes as long again for each value.
    needs: Callable[[str], bool]

    def record(self, key: str, value: Floats, /) -> None:
        """Copy a value, whose memory is reused afterwards."""
        self.values[key] = value.copy()

    def reduce_min_max(self, positions: object, min_max: object, /) -> None:
        """Raise an error: this class records whole values."""
        raise AssertionError
