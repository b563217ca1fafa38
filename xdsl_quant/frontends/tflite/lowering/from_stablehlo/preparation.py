"""Preparation of StableHLO modules: calls, constants, accumulators and quantized ops."""

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.diagnostics import refusing
from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizedType,
    ScaledQuantizedType,
    StorageCastOp,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.calls import called_functions, inline_calls
from xdsl_quant.frontends.stablehlo.constants import replace_arith_constants
from xdsl_quant.frontends.stablehlo.dialect.reduction import ReductionOp, region_op
from xdsl_quant.frontends.stablehlo.lowering.adoption import adopt_ops
from xdsl_quant.frontends.stablehlo.lowering.stablehlo_legalize_quantized_op_to_qdq import (
    decompose,
)
from xdsl_quant.frontends.stablehlo.models import STABLEHLO_MODELS
from xdsl_quant.runtime.entry_function import functions_by_name
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.type_replacement import defined_values, set_type
from xdsl_quant.transforms.statistics.quant_convert_const import QuantConvertConstPass

from .building import DEQUANTIZE, QUANTIZE
from .control_flow import outline_control_flow
from .quantization import quantize_signature


def prepare_stablehlo(ctx: Context, module: ModuleOp) -> None:
    """
    Prepare the conversion of a module, in place: inline calls, decompose quantized ops to
    casts and float ops, simplify what frontends emit, and quantize arguments and results
    that are stored values.

    Raises:
        PassFailedException: if a function calls itself, or a quantized op has unknown
            semantics.
    """
    functions = functions_by_name(module)
    called = {name for _, name in called_functions(module)}
    for function in functions.values():
        with refusing(function, "has calls that cannot be inlined"):
            inline_calls(function, functions)
    for name in called:
        visibility = functions[name].sym_visibility
        if visibility is not None and visibility.data == "private":
            Rewriter.erase_op(functions[name])
    adopt_ops(module)
    unify_constants(module)
    QuantConvertConstPass().rewrite(ctx, module)
    expand_accumulators(module)
    for op in [*module.walk()]:
        decompose_extremum(op)
    decompose(module.walk())
    for op in [*module.walk()]:
        if op.parent is not None:
            hoist_dequantize(op)
    for op in [*module.walk()]:
        if op.parent is not None:
            STABLEHLO_MODELS.simplify(op)
    for function in functions_by_name(module).values():
        if len(function.body.blocks) == 1:
            quantize_signature(function)
    outline_control_flow(module)


def unify_constants(module: ModuleOp) -> None:
    """
    Replace constants of `arith`, and casts of constants of stored values, by
    `stablehlo.constant`.
    """
    replace_arith_constants(module)
    for op in [*module.walk()]:
        if not isinstance(op, StorageCastOp):
            continue
        source, type_ = op.input.owner, op.result.type
        is_tensor = isinstance(type_, TensorType)
        if not isinstance(source, stablehlo.ConstantOp) or not is_tensor:
            continue
        constant = stablehlo.ConstantOp.create(
            result_types=[type_],
            properties={"value": source.value},
            location=source.location,
        )
        constant.output.name_hint = op.result.name_hint
        Rewriter.replace_op(op, constant)


def has_accumulator_storage(value: SSAValue) -> bool:
    """Return True for values that are stored in 32 bits: biases, sums of products."""
    type_ = scalar_or_element_type(value.type)
    return (
        isinstance(type_, ScaledQuantizedType)
        and type_.storage_type_integral_width == 32
    )


def expand_accumulators(module: ModuleOp) -> None:
    """
    Replace quantized values of 32 bits by floats, as TensorFlow Lite has no such values
    except biases: its kernels accumulate in 32 bits themselves.
    """
    for op in [*module.walk()]:
        if isinstance(op, stablehlo.ConstantOp):
            if has_accumulator_storage(op.output):
                _dequantize_constant(op)
            continue
        if op.parent_op() is module:
            # Arguments of functions keep their types.
            continue
        for value in defined_values(op):
            if has_accumulator_storage(value):
                expressed = QuantizedType.cast_to_expressed_type(value.type)
                assert expressed is not None
                set_type(value, expressed)
    for op in [*module.walk()]:
        if isinstance(op, QUANTIZE | DEQUANTIZE):
            _replace_float_cast(op)
        if isinstance(op, QUANTIZE) and op.parent is not None:
            _decompose_requantize(op)


def _dequantize_constant(op: stablehlo.ConstantOp) -> None:
    expressed = QuantizedType.cast_to_expressed_type(op.output.type)
    assert expressed is not None
    builder = LoweringBuilder(InsertPoint.after(op), location=op.location)
    value = builder.op(DequantizeCastOp, (op.output,), expressed)
    op.output.replace_uses_with_if(value, lambda use: use.operation is not value.owner)


def _replace_float_cast(op: Operation) -> None:
    """Replace a cast from or to a former accumulator."""
    source, result = op.operands[0], op.results[0]
    is_float = isinstance(scalar_or_element_type(source.type), AnyFloat)
    if isinstance(op, DEQUANTIZE):
        if is_float:
            Rewriter.replace_op(op, (), (source,))
    elif isinstance(scalar_or_element_type(result.type), AnyFloat):
        if is_float:
            Rewriter.replace_op(op, (), (source,))
            return
        cast = DequantizeCastOp.create(
            operands=[source], result_types=[result.type], location=op.location
        )
        Rewriter.replace_op(op, cast)


def _decompose_requantize(op: Operation) -> None:
    """Dequantize the operand of a cast between quantized types."""
    (source,) = op.operands
    expressed = QuantizedType.cast_to_expressed_type(source.type)
    if expressed is not None:
        builder = LoweringBuilder(InsertPoint.before(op), location=op.location)
        op.operands[0] = builder.op(DequantizeCastOp, (source,), expressed)


def decompose_extremum(op: Operation) -> None:
    """
    Dequantize the operands of a maximum or minimum over dimensions or windows, and quantize
    its result, which is one of the elements.
    """
    if not isinstance(op, ReductionOp) or len(op.inputs) != 1:
        return
    applied, type_ = region_op(op), op.results[0].type
    is_extremum = isinstance(applied, stablehlo.MaximumOp | stablehlo.MinimumOp)
    expressed = QuantizedType.cast_to_expressed_type(type_)
    if not is_extremum or expressed is None:
        return
    before = LoweringBuilder(InsertPoint.before(op), location=op.location)
    for index, operand in enumerate(op.operands):
        float_type = QuantizedType.cast_to_expressed_type(operand.type)
        assert float_type is not None
        op.operands[index] = before.op(DequantizeCastOp, (operand,), float_type)
    for inner in op.body.walk():
        for value in defined_values(inner):
            set_type(value, _float_type(value))
    for argument in op.body.block.args:
        set_type(argument, _float_type(argument))
    (result,) = op.results
    set_type(result, expressed)
    after = LoweringBuilder(InsertPoint.after(op), location=op.location)
    stored = after.op(QuantizeCastOp, (result,), type_)
    result.replace_uses_with_if(stored, lambda use: use.operation is not stored.owner)


def _float_type(value: SSAValue) -> Attribute:
    return QuantizedType.cast_to_expressed_type(value.type) or value.type


def hoist_dequantize(op: Operation) -> None:
    """Dequantize values before they are broadcast, not after."""
    if not isinstance(op, DEQUANTIZE):
        return
    broadcast = op.operands[0].owner
    if not isinstance(broadcast, stablehlo.BroadcastInDimOp):
        return
    builder = LoweringBuilder(InsertPoint.before(op), location=op.location)
    expressed = QuantizedType.cast_to_expressed_type(broadcast.operands[0].type)
    assert expressed is not None
    value = builder.op(DequantizeCastOp, broadcast.operands, expressed)
    inner = value.owner
    result = builder.op(
        stablehlo.BroadcastInDimOp, (value,), op.results[0].type, broadcast.properties
    )
    Rewriter.replace_op(op, (), (result,))
    assert isinstance(inner, Operation)
    hoist_dequantize(inner)
