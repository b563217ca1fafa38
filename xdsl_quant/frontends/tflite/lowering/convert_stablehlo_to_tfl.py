"""
The pass `convert-stablehlo-to-tfl`: convert StableHLO to TensorFlow Lite ops.

Images become NHWC and weights OHWI: transposes remain where images enter or leave a
network, and cancel elsewhere. Biases and activation functions are fused. Ops between casts
then become integer kernels, as in the pass `tfl-fuse-qdq`.

Before:

```mlir
%1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
    : (tensor<1x8xf32>, tensor<8x4xf32>) -> tensor<1x4xf32>
%2 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
%3 = stablehlo.add %1, %2 : tensor<1x4xf32>
%4 = stablehlo.maximum %3, %zeros : tensor<1x4xf32>
```

After, with the weights transposed:

```mlir
%4 = "tfl.fully_connected"(%0, %w_t, %b) <{fused_activation_function = "RELU", ...}>
    : (tensor<1x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<1x4xf32>
```
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import (
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
    f32,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
)
from xdsl.rewriter import InsertPoint
from xdsl.transforms.dead_code_elimination import is_trivially_dead
from xdsl.utils.exceptions import PassFailedException, VerifyException

from xdsl_quant.diagnostics import located_message, op_name
from xdsl_quant.dialects.quant import QuantizedType, ScaledQuantizedType
from xdsl_quant.dialects.quant.traits import MovesElements, has_quantization_trait
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.runtime.garbage_collection import without_garbage_collection
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.transforms.building.type_replacement import set_type
from xdsl_quant.unsupported import Unsupported
from xdsl_quant.xdsl_patches import patched_pass

from .from_stablehlo import CONVERSIONS
from .from_stablehlo.building import TFLBuilder
from .from_stablehlo.dynamic_ranges import restore_dynamic_ranges
from .from_stablehlo.layouts import SIMPLIFICATIONS, AddZeroBias, ReshapeUnitDimensions
from .from_stablehlo.preparation import prepare_stablehlo
from .from_stablehlo.quantization import (
    CAST_PATTERNS,
    CancelCasts,
    FoldAccumulatorConstant,
    make_signed,
)
from .tfl_fuse_qdq import TFLFuseQDQPass

_DIALECTS = ("chlo", "quant", "stablehlo")
"""Dialects of which the pass converts all ops."""


def _is_of_stablehlo(op: Operation) -> bool:
    dialect, _, _ = op_name(op).partition(".")
    is_in_region = isinstance(parent := op.parent_op(), Operation) and not isinstance(
        parent, FuncOp
    )
    return dialect in _DIALECTS and not is_in_region


_ELEMENTS = f32, i1, i32, i64

_MOVED_ELEMENTS = *_ELEMENTS, i8, i16, IntegerType(8, Signedness.UNSIGNED)


def _check_has_kernel(value: SSAValue, op: Operation) -> None:
    """
    Check that LiteRT has kernels for the elements of a tensor.

    Raises:
        Unsupported: if it has none.
    """
    if not isinstance(value.type, TensorType):
        raise Unsupported(f"has the type '{value.type}'; expected a ranked tensor")
    element_type = element_type_of(value)
    moves = has_quantization_trait(op, MovesElements) or isinstance(
        op, stablehlo.ConstantOp | stablehlo.ConvertOp
    )
    expected = _MOVED_ELEMENTS if moves else _ELEMENTS
    if not isinstance(element_type, QuantizedType) and element_type not in expected:
        names = ", ".join(map(str, expected))
        raise Unsupported(
            f"has elements of type '{element_type}', for which LiteRT has no kernel; "
            f"expected {names} or a quantized type"
        )
    if isinstance(element_type, ScaledQuantizedType) and (
        element_type.storage_type_integral_width == 16
    ):
        middle = 0 if element_type.is_signed else 1 << 15
        if (element_type.get_zero_points() != middle).any():
            raise Unsupported(
                f"has elements of type '{element_type}'; LiteRT has 16-bit values "
                f"without zero point only: expected {middle}"
            )


def _conversion_results(block: Block, op: Operation) -> Sequence[SSAValue]:
    """
    Build the conversion of an op in a block, and return its results.

    Raises:
        Unsupported: if the op has none, or TensorFlow Lite's dialect refuses it.
    """
    if (conversion := CONVERSIONS.get(type(op))) is None:
        raise Unsupported(
            "has no conversion to TensorFlow Lite; use other ops, or keep it with "
            "'partial=true'"
        )
    if any(len(region.blocks) > 1 for region in op.regions):
        raise Unsupported("has a region of several blocks")
    for value in (*op.operands, *op.results):
        _check_has_kernel(value, op)
    try:
        b = TFLBuilder(InsertPoint.at_end(block), location=op.location)
        built = conversion(b, op)
        values = (built,) if isinstance(built, SSAValue) else built
        for value, result in zip(values, op.results, strict=True):
            _set_type(block, result, value)
        for new_op in block.ops:
            new_op.verify()
    except Unsupported:
        raise
    except (VerifyException, ValueError, ArithmeticError, LookupError) as e:
        message = " ".join(str(e).split())
        raise Unsupported(f"is invalid in TensorFlow Lite: {message}") from e
    return values


def _set_type(block: Block, result: SSAValue, value: SSAValue) -> None:
    """Set the type of a result; it has moved quantized dimensions or static sizes."""
    if value.type == result.type:
        return
    is_new = isinstance(value.owner, Operation) and value.owner.parent is block
    if not is_new or len(shape_of(value)) != len(shape_of(result)):
        raise Unsupported(f"has the type '{result.type}', expected '{value.type}'")
    set_type(value, result.type)


@dataclass(frozen=True)
class StablehloToTFL(RewritePattern):
    """
    Convert an op to TensorFlow Lite ops with the same result types; erase unused ops.

    Apply the pattern to the last op of a function first: some conversions recognize several
    StableHLO ops by the ops that compute their operands.
    """

    unsupported: dict[Operation, str] = field(
        default_factory=dict[Operation, str], init=False, compare=False
    )
    """Unsupported ops, with reasons such as `has interior padding`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not _is_of_stablehlo(op):
            return
        if is_trivially_dead(op):
            rewriter.erase(op)
            return
        block = Block()
        try:
            values = _conversion_results(block, op)
        except Unsupported as e:
            self.unsupported[op] = str(e)
            block.erase(safe_erase=False)
            return
        for value, result in zip(values, op.results, strict=True):
            value.name_hint = value.name_hint or result.name_hint
        rewriter.replace(op, [block.detach_op(o) for o in tuple(block.ops)], values)


def _apply(module: ModuleOp, *patterns: RewritePattern) -> None:
    applier = GreedyRewritePatternApplier([*patterns])
    PatternRewriteWalker(applier).rewrite_module(module)


def _convert(module: ModuleOp) -> Mapping[Operation, str]:
    """Convert all ops; return the unsupported ones in the order of the module."""
    pattern = StablehloToTFL()
    for function in [op for op in module.walk() if isinstance(op, FuncOp)]:
        for block in function.body.blocks:
            for op in reversed([*block.ops]):
                pattern.match_and_rewrite(op, PatternRewriter(op))
    return dict(reversed(pattern.unsupported.items()))


def _fuse(ctx: Context, module: ModuleOp) -> None:
    """Remove transposes, and fuse layers and casts."""
    _apply(module, *SIMPLIFICATIONS)
    for function in module.ops:
        if isinstance(function, FuncOp) and len(function.body.blocks) == 1:
            make_signed(function)
    _apply(module, *CAST_PATTERNS)
    TFLFuseQDQPass().rewrite(ctx, module)
    _apply(
        module,
        CancelCasts(),
        FoldAccumulatorConstant(),
        ReshapeUnitDimensions(),
        AddZeroBias(),
    )


def _converted_copy(
    ctx: Context, module: ModuleOp
) -> tuple[ModuleOp, Mapping[Operation, str]]:
    """
    Convert a copy of a module.

    Returns:
        The copy, and the ops that it still has because TensorFlow Lite does not support
        them, with reasons such as `has interior padding`.
    """
    module = module.clone()
    with without_garbage_collection():
        hybrid_patterns = restore_dynamic_ranges(module)
        prepare_stablehlo(ctx, module)
        unsupported = _convert(module)
        _fuse(ctx, module)
        _apply(module, *hybrid_patterns)
    return module, unsupported


@dataclass(frozen=True)
class ConvertStablehloToTFLPass(CountingPass):
    """
    Convert StableHLO ops, and casts of `quant`, to TensorFlow Lite ops; images become NHWC.
    Ops between casts become integer kernels, if TensorFlow Lite has them.

    If TensorFlow Lite does not support an op, the pass fails with one line for each such
    op, and leaves the module unchanged.
    """

    name = "convert-stablehlo-to-tfl"

    partial: bool = False
    """Keep ops that TensorFlow Lite does not support, instead of failing."""

    @patched_pass
    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        candidates = [inner for inner in op.walk() if _is_of_stablehlo(inner)]
        module, unsupported = _converted_copy(ctx, op)
        if unsupported and not self.partial:
            raise PassFailedException(
                "\n".join(
                    located_message(kept, f"'{op_name(kept)}' op {reason}")
                    for kept, reason in unsupported.items()
                )
            )
        op.detach_region(op.body)
        op.add_region(module.detach_region(module.body))
        return PassOutcome(
            candidates,
            len(candidates) - len(unsupported),
            "StableHLO ops",
            [*unsupported],
            "they have no conversion to TensorFlow Lite",
        )
