"""Lowering of quantized modules to builtin types with xDSL passes, before MLIR runs."""

import math
from io import StringIO
from typing import cast

from xdsl.context import Context
from xdsl.dialects import tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    DenseResourceAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import isa

from xdsl_quant.diagnostics import location_prefix
from xdsl_quant.dialects.quant import QuantizedType, StorageCastOp, StoredQuantizedType
from xdsl_quant.dialects.quant.traits import AcceptsStoredValues, has_quantization_trait
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.arrays import numpy_dtype, shortened
from xdsl_quant.runtime.garbage_collection import without_garbage_collection
from xdsl_quant.runtime.loading import IRError, multiverse_context
from xdsl_quant.runtime.missing_lowering import lower_stablehlo_ops, missing_lowering
from xdsl_quant.runtime.plugins import dialect_ops, dialects_in, optional_module
from xdsl_quant.transforms.building.builder import shape_of
from xdsl_quant.transforms.building.signless_types import has_signedness, make_signless
from xdsl_quant.transforms.building.type_replacement import (
    TypeReplacement,
    defined_values,
    set_type,
)
from xdsl_quant.transforms.quant.arith_expand_small_floats import (
    ArithExpandSmallFloatsPass,
)
from xdsl_quant.transforms.quant.lower_quant_ops import LowerQuantOpsPass
from xdsl_quant.transforms.statistics.quant_convert_simulated_quantization import (
    QuantConvertSimulatedQuantizationPass,
)
from xdsl_quant.transforms.statistics.quant_remove_instrumentation import (
    QuantRemoveInstrumentationPass,
)
from xdsl_quant.xdsl_patches.resources import replace_resources, resource_data

from .compilation_error import CompilationError


@without_garbage_collection()
def lower(
    module: ModuleOp, rounding: Rounding, fuse: bool, *, print_locations: bool = False
) -> str:
    """
    Lower a module in place and return its MLIR text.

    Raises:
        CompilationError: if an op has no lowering, or a quantized type remains.
    """
    try:
        lower_stablehlo_ops(module, rounding)
    except IRError as e:
        raise CompilationError(str(e)) from None
    if (message := missing_lowering([module])) is not None:
        raise CompilationError(message)
    _check_bytes(module)
    # Folding needs all dialects, as these materialize constants.
    ctx = multiverse_context()
    try:
        _lower_quantization(ctx, module, rounding, fuse)
    except PassFailedException as e:
        raise CompilationError(str(e)) from None
    _replace_quantized_types(module)
    if any(has_signedness(v.type) for op in module.walk() for v in defined_values(op)):
        make_signless(module)
    remove_empty_data_movement(module)
    CanonicalizePass().apply(ctx, module)
    named_ops = optional_module("frontends.linalg_named_ops.generalization")
    if named_ops is not None:
        named_ops.generalize_named_ops(module)
    # The text has no resource section: replace resources by their data.
    replace_resources(module, _checked_data)
    text = _module_text(module, print_locations=print_locations)
    # MLIR builds with assertions abort on some types that are valid here.
    if "!quant." in text:
        raise CompilationError("unsupported quantized type in an attribute")
    return text


def _lower_quantization(
    ctx: Context, module: ModuleOp, rounding: Rounding, fuse: bool
) -> None:
    found = map(dialect_ops, sorted(dialects_in(module)))
    compiled = [ops for ops in found if ops.is_compiled]
    for ops in compiled:
        if not ops.mlir_passes:
            ops.to_linalg(ctx, module)
    # Compute with the exact bit width, whatever the storage width would be.
    QuantConvertSimulatedQuantizationPass(exact_bits=True).rewrite(ctx, module)
    QuantRemoveInstrumentationPass().rewrite(ctx, module)
    # Check at run time, as a wrong dynamic size must not cause out-of-bounds reads.
    LowerQuantOpsPass(
        rounding.mode,
        fuse,
        runtime_checks=True,
        keep_qdq=True,
        zero_point_order=rounding.zero_point_order,
        nan=rounding.nan,
    ).rewrite(ctx, module)
    ArithExpandSmallFloatsPass().rewrite(ctx, module)
    # After the casts: MLIR's passes support no quantized types.
    for ops in compiled:
        if ops.mlir_passes:
            ops.to_linalg(ctx, module)


_BYTES = 8
"""Assumed bytes per element: the maximum, as lowering may widen elements."""

_MAX_BYTES = (1 << 63) - 1
"""Largest byte size: MLIR terminates the process if a stride exceeds 64 bits."""


def _check_bytes(module: ModuleOp) -> None:
    """
    Verify that the byte sizes of all tensors are addressable.

    Raises:
        CompilationError: if a tensor is too large.
    """
    for op in module.walk():
        for value in defined_values(op):
            type_ = value.type
            if not isa(type_, TensorType):
                continue
            # MLIR multiplies all sizes, even if one of them is 0.
            count = math.prod(size for size in type_.get_shape() if size > 0)
            if count * _BYTES > _MAX_BYTES:
                raise CompilationError(
                    f"{location_prefix(op.location)}error: '{op.name}' op has a tensor "
                    f"with too many elements: '{shortened(type_)}'"
                )


def _module_text(module: ModuleOp, *, print_locations: bool) -> str:
    stream = StringIO()
    for op in module.ops:
        # A new printer restarts SSA names for each op.
        Printer(stream, print_debuginfo=print_locations).print_op(op)
        stream.write("\n")
    return stream.getvalue()


def _checked_data(op: Operation, value: DenseResourceAttr) -> bytes:
    key, type_ = value.resource_handle.data, cast(TensorType[IntegerType], value.type)
    try:
        data = resource_data(value)
        size = math.prod(type_.get_shape()) * numpy_dtype(type_).itemsize
    except (TypeError, ValueError) as e:
        raise CompilationError(f"unreadable resource '{key}': {e}") from None
    if data is None:
        raise CompilationError(f"missing data of resource '{key}'")
    if len(data) != size:
        raise CompilationError(
            f"resource '{key}' has {len(data)} bytes; expected {size} for "
            f"'{shortened(type_)}'"
        )
    return bytes(data)


class _LoweredTypes(TypeReplacement):
    """Replacement of quantized types by their storage types."""

    def replace_quantized(
        self, type_: Attribute, quantized_type: QuantizedType
    ) -> Attribute:
        storage = StoredQuantizedType.cast_to_signless_storage_type(type_)
        if storage is None:
            raise CompilationError(f"'{shortened(quantized_type)}' has no storage type")
        return storage


def _replace_quantized_types(module: ModuleOp) -> None:
    """
    Replace quantized types by storage types everywhere, and remove storage casts.
    `strip-func-quant-types` does so only at function boundaries. No op depends on
    quantized types at this point.
    """
    types = _LoweredTypes()
    ops = [*module.walk()]
    for op in ops:
        _check_moves_quantized(op)
    for op in ops:
        if isinstance(op, FuncOp):
            types.replace_in_signature(op)
        for value in defined_values(op):
            set_type(value, types.replace(value.type))
    for op in ops:
        if isinstance(op, StorageCastOp) and op.input.type == op.result.type:
            op.result.replace_all_uses_with(op.input)
            Rewriter.erase_op(op)


def _check_moves_quantized(op: Operation) -> None:
    if has_quantization_trait(op, AcceptsStoredValues):
        return
    for value in (*op.operands, *defined_values(op)):
        if QuantizedType.get_quantized_element_type(value.type) is not None:
            raise CompilationError(
                f"'{op.name}' op has an operand or result of unsupported quantized type "
                f"'{shortened(value.type)}'"
            )


# Data movement without elements


_Move = tensor.ConcatOp | tensor.ExtractSliceOp | tensor.InsertSliceOp | tensor.PadOp


def remove_empty_data_movement(module: ModuleOp) -> None:
    """Remove data movement ops with empty results; simplify those with empty operands."""
    for op in [*module.walk()]:
        if not isinstance(op, _Move):
            continue
        if _is_empty(op.result):
            Rewriter.replace_op(op, tensor.EmptyOp((), op.result.type))
        elif isinstance(op, tensor.InsertSliceOp) and _is_empty(op.source):
            Rewriter.replace_op(op, (), [op.dest])
        elif isinstance(op, tensor.ConcatOp):
            _drop_empty_operands(op)
        elif isinstance(op, tensor.PadOp):
            _pad_at_end(op)


def _is_empty(value: SSAValue) -> bool:
    """Return True if a tensor is empty and has a static shape."""
    type_ = value.type
    is_static = isa(type_, TensorType) and type_.has_static_shape()
    return is_static and 0 in shape_of(value)


def _drop_empty_operands(op: tensor.ConcatOp) -> None:
    operands = [value for value in op.inputs if not _is_empty(value)]
    if len(operands) == len(op.inputs):
        return
    if [operand.type for operand in operands] == [op.result.type]:
        Rewriter.replace_op(op, (), operands)
        return
    op.operands = operands


def _pad_at_end(op: tensor.PadOp) -> None:
    """
    Move all padding of a dimension of size 0 to its end. The body takes indices of the
    result, so this changes no element.
    """
    low, high = [*op.static_low.get_values()], [*op.static_high.get_values()]
    for axis, size in enumerate(shape_of(op.source)):
        if size == 0 and DYNAMIC_INDEX not in (low[axis], high[axis]):
            low[axis], high[axis] = 0, low[axis] + high[axis]
    op.static_low = DenseArrayBase.from_list(i64, low)
    op.static_high = DenseArrayBase.from_list(i64, high)
