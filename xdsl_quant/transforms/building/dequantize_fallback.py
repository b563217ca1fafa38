"""
Lowering for any op on quantized values: dequantize, compute with floats, quantize.

A frontend dialect usually lowers only some ops and quantized types to integers. For other
ops and types, `DequantizeFallback` reuses the dialect's float lowering, which is slower.
Between two ops lowered in this way, casts round the intermediate value. `canonicalize`, or
`lower-quant-ops` with `truncate`, folds these casts away.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeGuard, cast

from typing_extensions import TypeVar
from xdsl.dialects.builtin import ModuleOp, NoneAttr, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
)
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.diagnostics import refuse
from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp, QuantizedType

from .builder import LoweringBuilder
from .type_replacement import is_quantized

OperationT = TypeVar("OperationT", bound=Operation)


def _expressed_or_same_type(type_: Attribute) -> Attribute:
    return QuantizedType.cast_to_expressed_type(type_) or type_


def _expressed_name(quantized: SSAValue) -> str | None:
    """Return the name of the dequantized value: `%sum_f32` for `%sum`."""
    element_type = QuantizedType.get_quantized_element_type(quantized.type)
    if element_type is None or quantized.name_hint is None:
        return quantized.name_hint
    return f"{quantized.name_hint}_{element_type.expressed_type}"


def _dequantization_error(value: SSAValue) -> str | None:
    """Return the reason why a value cannot be dequantized, or `None` if it can."""
    quantized_type = QuantizedType.get_quantized_element_type(value.type)
    if quantized_type is None:
        return None
    if isinstance(quantized_type.expressed_type, NoneAttr):
        return f"'{quantized_type}' has no expressed type"
    try:
        quantized_type.verify_container(value.type)
    except VerifyException as e:
        return str(e)
    return None


class DequantizeFallback(RewritePattern, ABC, Generic[OperationT]):
    """
    Lower ops that have quantized operands or results with `lower_float`, which only
    sees floats.

    Quantized operands are dequantized (`quant.dcast`) and results quantized
    (`quant.qcast`) with the parameters of their types. Quantized values may be scalars,
    ranked or unranked tensors. Other values (floats, integers, indices) are passed
    unchanged, so mixed ops work as well. New ops get the location of the lowered op,
    unless `lower_float` sets one. Results keep their names, and floats are named after
    the quantized value (`%sum_f32` for `%sum`).

    Patterns with integer lowerings must precede this one in the list. Apply all patterns
    with
    [`lower_with_fallback`][xdsl_quant.transforms.building.dequantize_fallback.lower_with_fallback].

    Example:

    ```python
    from collections.abc import Sequence

    from xdsl.builder import Builder
    from xdsl.context import Context
    from xdsl.dialects import arith, builtin, func
    from xdsl.ir import Attribute, Dialect, SSAValue
    from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def
    from xdsl.parser import Parser

    from xdsl_quant.dialects.quant import Quant
    from xdsl_quant.transforms.building.dequantize_fallback import (
        DequantizeFallback,
        lower_with_fallback,
    )


    @irdl_op_definition
    class MulOp(IRDLOperation):
        name = "toy.mul"
        lhs = operand_def()
        rhs = operand_def()
        product = result_def()


    class LowerMul(DequantizeFallback[MulOp]):
        op_type = MulOp

        def lower_float(
            self,
            op: MulOp,
            operands: Sequence[SSAValue],
            result_types: Sequence[Attribute],
            builder: Builder,
        ) -> Sequence[SSAValue]:
            return builder.insert(arith.MulfOp(*operands)).results


    ctx = Context()
    for dialect in (
        arith.Arith,
        builtin.Builtin,
        func.Func,
        Quant,
        Dialect("toy", [MulOp]),
    ):
        ctx.load_dialect(dialect)

    module = Parser(
        ctx,
        '''
        !q = !quant.uniform<i8:f32, 5.0e-01>
        func.func @scaled(%x : tensor<4x!q>, %s : tensor<4xf32>) -> tensor<4x!q> {
          %y = "toy.mul"(%x, %s) : (tensor<4x!q>, tensor<4xf32>) -> tensor<4x!q>
          func.return %y : tensor<4x!q>
        }
        ''',
    ).parse_module()
    lower_with_fallback(module, [LowerMul()])
    print(module)
    ```

    prints

    ```mlir
    builtin.module {
      func.func @scaled(%x: tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>, %s: tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01>> {
        %x_f32 = quant.dcast %x : tensor<4x!quant.uniform<i8:f32, 5.000000e-01>> to tensor<4xf32>
        %y_f32 = arith.mulf %x_f32, %s : tensor<4xf32>
        %y = quant.qcast %y_f32 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
        func.return %y : tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
      }
    }
    ```
    """  # noqa: E501 - a line that must not be broken

    op_type: type[OperationT]
    """Class of the ops to lower, or a base class of several."""

    dequantize_op: ClassVar[type[Operation]] = DequantizeCastOp
    """Cast of quantized operands."""

    quantize_op: ClassVar[type[Operation]] = QuantizeCastOp
    """Cast of floats to quantized results."""

    lowers_float_ops: ClassVar[bool] = False
    """True if `lower_float` also lowers ops without quantized operands and results."""

    @abstractmethod
    def lower_float(
        self,
        op: OperationT,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        builder: LoweringBuilder,
    ) -> Sequence[SSAValue]:
        """
        Insert the lowering for floats with `builder`, and return the new results.

        Args:
            op: the op to lower, for its attributes. Do not use its operands and
                results, and refuse unsupported ops in `check`, not here.
            operands: the operands of `op`; quantized operands are dequantized. Float
                operands may have different types if the quantized types of `op` may
                have different expressed types.
            result_types: the required types of the returned values: those of `op`, with
                expressed types in place of quantized ones.
            builder: inserts the ops.
        """

    def check(self, op: OperationT) -> None:
        """
        Raise an error if `op` cannot be lowered.

        By default, require that quantized operands and results have an expressed type,
        and types that match the shapes of their tensors.
        """
        for kind, values in (("operand", op.operands), ("result", op.results)):
            for index, value in enumerate(values):
                if (reason := _dequantization_error(value)) is not None:
                    refuse(op, f"{kind} #{index} cannot be dequantized", reason)

    def matches(self, op: Operation) -> TypeGuard[OperationT]:
        """Return True if this pattern lowers `op`."""
        return isinstance(op, self.op_type) and (
            self.lowers_float_ops
            or any(map(is_quantized, op.operands))
            or any(map(is_quantized, op.results))
        )

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not self.matches(op):
            return
        self.check(op)

        def lower(builder: LoweringBuilder) -> Sequence[SSAValue]:
            operands = [self._dequantize(operand, builder) for operand in op.operands]
            result_types = [_expressed_or_same_type(type_) for type_ in op.result_types]
            floats = self.lower_float(op, operands, result_types, builder)
            return [
                self._quantize(value, result, builder)
                for value, result in zip(floats, op.results, strict=True)
            ]

        replace_with_built(op, rewriter, lower)

    def _dequantize(self, operand: SSAValue, builder: LoweringBuilder) -> SSAValue:
        if not is_quantized(operand):
            return operand
        type_ = _expressed_or_same_type(operand.type)
        value = builder.op(self.dequantize_op, (operand,), type_)
        value.name_hint = _expressed_name(operand)
        return value

    def _quantize(
        self, value: SSAValue, result: SSAValue, builder: LoweringBuilder
    ) -> SSAValue:
        if value.name_hint is None:
            value.name_hint = _expressed_name(result)
        if not is_quantized(result):
            return value
        return builder.op(self.quantize_op, (value,), result.type)


def replace_with_built(
    op: Operation,
    rewriter: PatternRewriter,
    build: Callable[[LoweringBuilder], Sequence[SSAValue]],
) -> None:
    """
    Replace `op` by the ops that `build` inserts, and its results by the values that
    `build` returns. New ops get the location of `op`, unless they have one.
    """
    block = Block()
    results = build(LoweringBuilder(InsertPoint.at_end(block), location=op.location))
    for new_op in block.walk():
        if isinstance(new_op.location, UnknownLoc):
            new_op.location = op.location
    rewriter.replace(op, [block.detach_op(o) for o in tuple(block.ops)], results)


def lower_with_fallback(module: ModuleOp, patterns: Sequence[RewritePattern]) -> None:
    """
    Rewrite each op of a module by the first pattern that matches it.

    All fallbacks check the ops first: if one refuses an op, the module is unchanged.
    Ops that the patterns create are not visited.
    """
    fallbacks = [
        cast(DequantizeFallback[Operation], pattern)
        for pattern in patterns
        if isinstance(pattern, DequantizeFallback)
    ]
    for op in module.walk():
        for fallback in fallbacks:
            if fallback.matches(op):
                fallback.check(op)
    applier = GreedyRewritePatternApplier(list(patterns), dce_enabled=False)
    PatternRewriteWalker(applier, apply_recursively=False).rewrite_module(module)
