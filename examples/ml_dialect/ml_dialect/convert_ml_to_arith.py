"""
Lower `ml` to `arith`.

Each op has two lowerings; the first one that applies is used:

1. Integer arithmetic on stored values, if operands and result have the same per-tensor
   type and the stored result is an integer expression of the stored operands. With scale
   `s`, zero point `z` and expressed values `(a - z) * s` and `(b - z) * s`:

       add:  a + b - z
       sub:  a - b + z
       mul:  (a - z) * (b - z) * s + z      for an integer s

   The lowering computes in an integer type without overflow, and clamps the result to the
   storage range. The result is exact for every rounding mode of `quant.qcast`. `div` and
   `mod` have no such lowering: `div` has to round, and the lowering of `quant.qcast`
   chooses the rounding mode and the stored value of NaN, the result of `mod` by 0.
2. The fallback: dequantize, compute with floats, quantize. Float operands are not
   dequantized, float results are not quantized.

Integer tensors are lowered to one `linalg.generic` with `arith` on scalars in its body,
for static and dynamic shapes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    NoneAttr,
    TensorType,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint
from xdsl.utils.type import get_encoding

from xdsl_quant.dialects.quant import StorageCastOp, UniformQuantizedType
from xdsl_quant.transforms.building.dequantize_fallback import (
    DequantizeFallback,
    lower_with_fallback,
    replace_with_built,
)
from xdsl_quant.xdsl_patches import patched_pass
from xdsl_quant.xdsl_patches.arith import RemFOp

from .dialect import AddOp, BinaryOp, DivOp, ModOp, MulOp, SubOp

ComputeElement = Callable[[SSAValue, SSAValue, Builder], SSAValue]


def _constant(value: int, type_: IntegerType, builder: Builder) -> SSAValue:
    return builder.insert(arith.ConstantOp(IntegerAttr(value, type_))).result


def _elementwise(
    lhs: SSAValue, rhs: SSAValue, compute: ComputeElement, builder: Builder
) -> SSAValue:
    """
    Apply `compute`, the code for two scalars, to two scalars or tensors of the same type.
    """
    if not isinstance(lhs.type, TensorType):
        return compute(lhs, rhs, builder)
    type_ = cast(TensorType[Attribute], lhs.type)

    sizes: list[SSAValue] = []
    for axis, size in enumerate(type_.get_shape()):
        if size != DYNAMIC_INDEX:
            continue
        axis_op = builder.insert(arith.ConstantOp(IntegerAttr(axis, IndexType())))
        sizes.append(builder.insert(tensor.DimOp(lhs, axis_op)).result)
    empty_op = builder.insert(tensor.EmptyOp(sizes, type_))

    element_type = type_.get_element_type()
    body = Block(arg_types=[element_type] * 3)
    body_builder = Builder(InsertPoint.at_end(body))
    element = compute(body.args[0], body.args[1], body_builder)
    body_builder.insert(YieldOp(element))

    rank = type_.get_num_dims()
    generic_op = GenericOp(
        [lhs, rhs],
        [empty_op.tensor],
        Region(body),
        [AffineMapAttr(AffineMap.identity(rank))] * 3,
        [IteratorTypeAttr.parallel()] * rank,
        [type_],
    )
    return builder.insert(generic_op).results[0]


def _integer_type(bound: int) -> IntegerType | None:
    """
    Return the narrowest of i8, i16, i32, i64 that represents `-bound` to `bound`.
    """
    for width in (8, 16, 32, 64):
        if bound < 1 << (width - 1):
            return IntegerType(width)
    return None


def _wide_type(
    op: AddOp | SubOp | MulOp, quantized_type: UniformQuantizedType
) -> IntegerType | None:
    """
    Return an integer type in which `op` never overflows. Return `None` without such a type,
    or if the result is not an integer expression of the stored operands.
    """
    is_signed = quantized_type.is_signed
    # Largest magnitude of a stored value.
    reach = 1 << (quantized_type.storage_type_integral_width - is_signed)
    if quantized_type.zero_point.data not in range(-reach if is_signed else 0, reach):
        return None
    if not isinstance(op, MulOp):
        return _integer_type(3 * reach)
    if not (scale := quantized_type.scale.data).is_integer():
        return None
    return _integer_type((2 * reach) ** 2 * int(scale) + reach)


def _compute_stored(
    op: AddOp | SubOp | MulOp,
    quantized_type: UniformQuantizedType,
    wide_type: IntegerType,
) -> ComputeElement:
    """Return a function that builds the code for two stored values."""
    extend_op = arith.ExtSIOp if quantized_type.is_signed else arith.ExtUIOp

    def compute(lhs: SSAValue, rhs: SSAValue, builder: Builder) -> SSAValue:
        lhs = builder.insert(extend_op(lhs, wide_type)).result
        rhs = builder.insert(extend_op(rhs, wide_type)).result
        zero_point = _constant(quantized_type.zero_point.data, wide_type, builder)
        match op:
            case AddOp():
                sum_op = builder.insert(arith.AddiOp(lhs, rhs))
                result_op = arith.SubiOp(sum_op, zero_point)
            case SubOp():
                difference_op = builder.insert(arith.SubiOp(lhs, rhs))
                result_op = arith.AddiOp(difference_op, zero_point)
            case MulOp():
                lhs_op = builder.insert(arith.SubiOp(lhs, zero_point))
                rhs_op = builder.insert(arith.SubiOp(rhs, zero_point))
                product_op = builder.insert(arith.MuliOp(lhs_op, rhs_op))
                scale = _constant(int(quantized_type.scale.data), wide_type, builder)
                scaled_op = builder.insert(arith.MuliOp(product_op, scale))
                result_op = arith.AddiOp(scaled_op, zero_point)
        result = builder.insert(result_op).result

        storage_min = _constant(
            quantized_type.storage_type_min.data, wide_type, builder
        )
        storage_max = _constant(
            quantized_type.storage_type_max.data, wide_type, builder
        )
        raised_op = builder.insert(arith.MaxSIOp(result, storage_min))
        clamped_op = builder.insert(arith.MinSIOp(raised_op, storage_max))
        storage_type = quantized_type.signless_storage_type
        return builder.insert(arith.TruncIOp(clamped_op, storage_type)).result

    return compute


class LowerToStoredArithmetic(RewritePattern):
    """
    Lower ops that are exact on stored values to integer arithmetic.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: AddOp | SubOp | MulOp, rewriter: PatternRewriter, /
    ) -> None:
        type_ = op.result.type
        if op.lhs.type != type_ or op.rhs.type != type_:
            return
        if not isinstance(get_encoding(type_), NoneAttr):
            return
        quantized_type = UniformQuantizedType.get_quantized_element_type(type_)
        if not isinstance(quantized_type, UniformQuantizedType):
            return
        # The storage types si8 and ui8 have no storage cast.
        if quantized_type.storage_type != quantized_type.signless_storage_type:
            return
        if (wide_type := _wide_type(op, quantized_type)) is None:
            return
        stored_type = quantized_type.cast_to_storage_type(type_)
        assert stored_type is not None
        compute = _compute_stored(op, quantized_type, wide_type)

        def lower(builder: Builder) -> Sequence[SSAValue]:
            lhs = builder.insert(StorageCastOp(op.lhs, stored_type)).result
            rhs = builder.insert(StorageCastOp(op.rhs, stored_type)).result
            stored = _elementwise(lhs, rhs, compute, builder)
            return (builder.insert(StorageCastOp(stored, type_)).result,)

        replace_with_built(op, rewriter, lower)


class LowerToFloatArithmetic(DequantizeFallback[BinaryOp]):
    """
    Lower any op to float arithmetic.
    """

    op_type = BinaryOp
    lowers_float_ops = True

    _FLOAT_OPS: ClassVar[
        dict[type[BinaryOp], type[arith.FloatingPointLikeBinaryOperation]]
    ] = {
        AddOp: arith.AddfOp,
        SubOp: arith.SubfOp,
        MulOp: arith.MulfOp,
        DivOp: arith.DivfOp,
        ModOp: RemFOp,
    }

    def lower_float(
        self,
        op: BinaryOp,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        builder: Builder,
    ) -> Sequence[SSAValue]:
        lhs, rhs = operands
        return builder.insert(self._FLOAT_OPS[type(op)](lhs, rhs)).results


@dataclass(frozen=True)
class ConvertMlToArithPass(ModulePass):
    """
    Lower `ml` to `arith`: to integer arithmetic where it is exact, otherwise to floats.
    """

    name = "convert-ml-to-arith"

    @patched_pass
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lower_with_fallback(op, [LowerToStoredArithmetic(), LowerToFloatArithmetic()])
