"""
The pass `convert-tfl-to-stablehlo`: lower TensorFlow Lite ops to StableHLO.

Types do not change, including quantized ones. Ops that compute become float ops between
`quant.dcast` and `quant.qcast`; data movement ops and constants keep stored values.
`quant-fuse-kernels`, `quant-constraints-to-specs` and `quant-export` then build
quantized StableHLO ops with the parameters of the model.

Before:

```mlir
%1 = "tfl.tanh"(%0) : (tensor<4x!quant.uniform<i8:f32, 0.5>>)
    -> tensor<4x!quant.uniform<i8:f32, 0.0078125>>
```

After:

```mlir
%2 = quant.dcast %0 : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
%3 = stablehlo.tanh %2 : tensor<4xf32>
%1 = quant.qcast %3 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.0078125>>
```
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    ModuleOp,
    NoneType,
    TensorType,
)
from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import PassFailedException, VerifyException

from xdsl_quant.diagnostics import located_message, op_name
from xdsl_quant.dialects.quant import StoredQuantizedType
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.tensor_kinds import TENSOR_OR_PER_AXIS
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.pass_outcome import CountingPass, PassOutcome, ops_of_dialect
from xdsl_quant.runtime.arrays import reinterpret_elements
from xdsl_quant.runtime.garbage_collection import without_garbage_collection
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern
from xdsl_quant.transforms.building.dequantize_fallback import replace_with_built
from xdsl_quant.unsupported import Unsupported

from .fallbacks import without_conversion
from .stablehlo import data_movement, elementwise, products
from .stablehlo.building import Lowering, TFLToStableHLOBuilder
from .tfl_infer_shapes import fold_shapes

Form: TypeAlias = Callable[[TFLToStableHLOBuilder], Sequence[SSAValue]]
"""Function that builds the replacement of an op, and returns its results."""

_CONSTANTS = tfl.ConstOp | tfl.QConstOp | arith.ConstantOp


def _rebuild_constant(b: TFLToStableHLOBuilder, op: _CONSTANTS) -> SSAValue:
    """Build a `stablehlo.constant` with the elements (stored values) of a constant."""
    (result,), value = op.results, op.value
    element_type = scalar_or_element_type(result.type)
    if isinstance(element_type, StoredQuantizedType) and isinstance(
        value, DenseIntOrFPElementsAttr | DenseResourceAttr
    ):
        # The attribute may be signless.
        value = reinterpret_elements(value, element_type.storage_type)
    return b.op(stablehlo.ConstantOp, (), result.type, {"value": value})


LOWERINGS: Mapping[type[Operation], Lowering] = {
    **elementwise.LOWERINGS,
    **data_movement.LOWERINGS,
    **products.LOWERINGS,
}
"""Lowerings to StableHLO by op class."""


def _rebuilding_form(op: Operation, *, is_stored: bool) -> Form:
    """Return a function that lowers an op on stored values or on floats."""

    def build(b: TFLToStableHLOBuilder) -> Sequence[SSAValue]:
        if isinstance(op, _CONSTANTS):
            return (_rebuild_constant(b, op),)
        operands = [
            None if isinstance(operand.type, NoneType) else operand
            for operand in op.operands
        ]
        if not is_stored:
            operands = [operand and b.dequantize(operand) for operand in operands]
        built = LOWERINGS[type(op)](b, op, *operands)
        values = (built,) if isinstance(built, SSAValue) else built
        return [
            b.as_type(value, result.type)
            for value, result in zip(values, op.results, strict=True)
        ]

    return build


def _verify(form: Form, op: Operation) -> None:
    """
    Verify the ops that `form` builds as a replacement of `op`.

    Raises:
        Unsupported: if an op is invalid, or the result types differ from those of `op`.
    """
    block = Block()
    try:
        builder = TFLToStableHLOBuilder(InsertPoint.at_end(block), location=op.location)
        values = form(builder)
        for built in block.ops:
            built.verify()
        for value, result in zip(values, op.results, strict=True):
            if value.type != result.type:
                raise Unsupported(
                    f"has results of type '{result.type}', expected '{value.type}'"
                )
    except Unsupported:
        raise
    except (VerifyException, ValueError, ArithmeticError, IndexError) as e:
        # Not all ops verify their shapes.
        raise Unsupported(f"is invalid in StableHLO: {' '.join(str(e).split())}") from e
    finally:
        block.erase()


@dataclass(frozen=True)
class TFLToStablehlo(CheckedPattern[Form]):
    """
    Lower an op of TensorFlow Lite, or a constant tensor, to StableHLO ops with the same
    result types.

    Unsupported ops, and the constants that they use, remain unchanged.
    """

    unsupported: dict[Operation, str] = field(
        default_factory=dict[Operation, str], init=False, compare=False
    )
    """Unsupported ops, with reasons such as `has a negative stride`."""

    def plan(self, op: Operation) -> Form | None:
        if isinstance(op, arith.ConstantOp):
            is_matched = isinstance(op.result.type, TensorType)
        else:
            is_matched = op_name(op).startswith("tfl.") and not (
                isinstance(op, tfl.NoValueOp)
                or op.has_trait(IsTerminator, value_if_unregistered=False)
            )
        if not is_matched:
            return None
        try:
            return self._form(op)
        except Unsupported as e:
            if not isinstance(op, arith.ConstantOp):
                self.unsupported[op] = str(e)
            return None

    def _form(self, op: Operation) -> Form:
        if not isinstance(op, _CONSTANTS) and type(op) not in LOWERINGS:
            raise Unsupported(without_conversion(op, "StableHLO"))
        for value in (*op.operands, *op.results):
            type_ = value.type
            if not isinstance(type_, NoneType) and not TENSOR_OR_PER_AXIS.accepts(
                type_
            ):
                raise Unsupported(
                    f"has the type '{type_}', which StableHLO does not support"
                )
        form = _rebuilding_form(op, is_stored=True)
        try:
            _verify(form, op)
        except Unsupported:
            if type(op) not in data_movement.LOWERINGS:
                raise
            form = _rebuilding_form(op, is_stored=False)
            _verify(form, op)
        return form

    def rewrite(self, op: Operation, plan: Form, rewriter: PatternRewriter) -> None:
        kept = [
            use
            for result in op.results
            for use in result.uses
            if isinstance(op, _CONSTANTS) and use.operation in self.unsupported
        ]
        if kept:
            # Unsupported ops keep the original constant.
            clone = rewriter.insert(op.clone(), InsertPoint.before(op))
            clone.location = op.location
            for use in kept:
                use.operation.operands[use.index] = clone.results[0]

        def build(builder: LoweringBuilder) -> Sequence[SSAValue]:
            point = builder.insertion_point
            return plan(TFLToStableHLOBuilder(point, location=op.location))

        replace_with_built(op, rewriter, build)


_SHAPE_ARITHMETIC = tfl.FillOp | tfl.RangeOp | tfl.RankOp | tfl.ShapeOp
"""Ops without a form in StableHLO, which are folded."""


@dataclass(frozen=True)
class ConvertTFLToStablehloPass(CountingPass):
    """
    Convert ops of TensorFlow Lite to StableHLO; quantized computations become float ops
    between `quant.dcast` and `quant.qcast`.

    If StableHLO does not support an op, the pass fails with one line for each such op,
    and leaves the module unchanged.
    """

    name = "convert-tfl-to-stablehlo"

    partial: bool = False
    """Keep ops that StableHLO does not support, instead of failing."""

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        tfl_ops = ops_of_dialect(op, "tfl")
        if any(isinstance(inner, _SHAPE_ARITHMETIC) for inner in tfl_ops):
            module = op.clone()
            if fold_shapes(module):
                outcome = self.rewrite(ctx, module)
                op.detach_region(op.body)
                op.add_region(module.detach_region(module.body))
                return outcome
        pattern = TFLToStablehlo()
        with without_garbage_collection():
            pattern.plan_module(op)
            if pattern.unsupported and not self.partial:
                raise PassFailedException(
                    "\n".join(
                        located_message(
                            kept,
                            f"'{op_name(kept)}' op {reason}; use 'partial=true' to keep "
                            "it",
                        )
                        for kept, reason in pattern.unsupported.items()
                    )
                )
            changed = pattern.rewrite_planned()
        for inner in [*op.walk()]:
            # Sizes and axes are attributes now, so their constants are unused.
            if isinstance(inner, stablehlo.ConstantOp | tfl.NoValueOp) and not any(
                result.first_use for result in inner.results
            ):
                Rewriter.erase_op(inner)
        return PassOutcome(
            tfl_ops,
            changed,
            "ops of TensorFlow Lite",
            [*pattern.unsupported],
            "they have no conversion to StableHLO",
        )
