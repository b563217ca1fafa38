"""
Fusion of casts and float ops of TensorFlow Lite to quantized ops.

An op is fused if each of its float operands is the result of a `tfl.dequantize` of
quantized values, each of its float results has no uses but `tfl.quantize` ops of one type,
and TensorFlow Lite's runtime supports the quantized op. Other ops stay in floating point.
A `tfl.quantize` of a constant becomes a constant of stored values, and the only use of
a `tfl.dequantize` by a `tfl.quantize` a requantization.

Parameters are those of the casts. `quant-fuse-kernels`, `quant-constraints-to-specs`,
`quant-propagate` and `quant-export` also compute missing ones, such as those of a bias.

```mlir
%1 = "tfl.dequantize"(%0) : (tensor<4x!quant.uniform<i8:f32, 0.1>>) -> tensor<4xf32>
%2 = "tfl.relu"(%1) : (tensor<4xf32>) -> tensor<4xf32>
%3 = "tfl.quantize"(%2) <{qtype = tensor<4x!quant.uniform<i8:f32, 0.2>>}>
    : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.2>>
```

becomes

```mlir
%3 = "tfl.relu"(%0) : (tensor<4x!quant.uniform<i8:f32, 0.1>>)
    -> tensor<4x!quant.uniform<i8:f32, 0.2>>
```
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.diagnostics import counted, error_summary, location_prefix, warn
from xdsl_quant.dialects.quant import ScaledQuantizedType
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.tflite.constraints import TFLiteConstraints, kernel_findings
from xdsl_quant.frontends.tflite.dialect import DequantizeOp, QuantizeOp
from xdsl_quant.frontends.tflite.dialect.base import TFLOp
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern
from xdsl_quant.transforms.propagation.module_kernels import is_float_value
from xdsl_quant.transforms.statistics.quant_convert_const import QuantizeConstant
from xdsl_quant.xdsl_patches import patched_pass


def _quantized_operand(value: SSAValue) -> SSAValue | None:
    """Return the quantized operand of the cast that defines a float, or `None`."""
    op = value.owner
    if not isinstance(op, DequantizeOp):
        return None
    is_quantized = isinstance(
        scalar_or_element_type(op.input.type), ScaledQuantizedType
    )
    return op.input if is_quantized else None


def _quantizations(value: SSAValue) -> Sequence[QuantizeOp]:
    """Return the users of a float, or `()` if they are not casts to a single type."""
    users = [use.operation for use in value.uses]
    casts = [user for user in users if isinstance(user, QuantizeOp)]
    is_single = len({cast.output.type for cast in casts}) == 1
    return casts if is_single and len(casts) == len(users) else ()


def unsupported_kernel_reason(op: Operation) -> str | None:
    """Return why the dialect or the runtime refuses a quantized op, or `None`."""
    try:
        op.verify()
    except VerifyException as e:
        return error_summary(e)
    findings_of = TFLiteConstraints(op).findings
    findings = [each.finding for each in kernel_findings(op)]
    findings += (x for value in (*op.operands, *op.results) for x in findings_of(value))
    return findings[0].message if findings else None


@dataclass(frozen=True)
class FuseQDQ(CheckedPattern[Operation]):
    """Fuse a float op with the casts of its operands and results."""

    unsupported: dict[Operation, str] = field(
        default_factory=dict[Operation, str], init=False, compare=False, repr=False
    )
    """Ops between casts that stay in floating point, with reasons."""

    def plan(self, op: Operation) -> Operation | None:
        """Return the quantized op, or `None` if casts are missing or it is unsupported."""
        if not isinstance(op, TFLOp) or isinstance(op, QuantizeOp | DequantizeOp):
            return None
        operands = [
            _quantized_operand(x) if is_float_value(x) else x for x in op.operands
        ]
        casts = [_quantizations(x) for x in op.results]
        is_dequantized = any(
            new not in (None, old)
            for old, new in zip(op.operands, operands, strict=True)
        )
        if op.regions or not is_dequantized or not all(casts):
            return None
        if None in operands:
            self.unsupported[op] = (
                f"operand #{operands.index(None)} is not dequantized; 'quant-propagate' "
                "computes missing parameters"
            )
            return None
        fused = type(op).create(
            operands=[x for x in operands if x is not None],
            result_types=[each[0].output.type for each in casts],
            properties=op.properties,
            attributes=op.attributes,
            location=op.location,
        )
        if (reason := unsupported_kernel_reason(fused)) is None:
            return fused
        fused.erase()
        self.unsupported[op] = reason
        return None

    def rewrite(
        self, op: Operation, plan: Operation, rewriter: PatternRewriter
    ) -> None:
        rewriter.insert(plan)
        for old, new in zip(op.results, plan.results, strict=True):
            for cast in _quantizations(old):
                new.name_hint = cast.output.name_hint or old.name_hint
                rewriter.replace(cast, (), (new,))
        rewriter.erase(op)


@dataclass(frozen=True)
class Requantize(CheckedPattern[QuantizeOp]):
    """
    Replace a `tfl.quantize` whose operand is dequantized for it alone: by its quantized
    operand if the types are equal, else by a requantization.
    """

    def plan(self, op: Operation) -> QuantizeOp | None:
        if not isinstance(op, QuantizeOp) or not op.input.has_one_use():
            return None
        if (stored := _quantized_operand(op.input)) is None:
            return None
        requantize = QuantizeOp.create(
            operands=[stored],
            result_types=op.result_types,
            properties=op.properties,
            attributes=op.attributes,
            location=op.location,
        )
        if (
            stored.type == op.output.type
            or unsupported_kernel_reason(requantize) is None
        ):
            return requantize
        requantize.erase()
        return None

    def rewrite(
        self, op: Operation, plan: QuantizeOp, rewriter: PatternRewriter
    ) -> None:
        if plan.input.type == plan.output.type:
            rewriter.replace(op, (), (plan.input,))
            plan.erase()
        else:
            plan.output.name_hint = op.results[0].name_hint
            rewriter.replace(op, plan)


class QuantizeTFLConstant(QuantizeConstant):
    """Fold a `tfl.quantize` of a constant."""

    def plan(self, op: Operation) -> Operation | None:
        return super().plan(op) if isinstance(op, QuantizeOp) else None


def _erase_unused_casts(module: ModuleOp) -> int:
    """Erase the casts without uses, and return their number."""
    casts = [op for op in module.walk() if isinstance(op, QuantizeOp | DequantizeOp)]
    for op in reversed(casts):
        if op.output.first_use is None:
            Rewriter.erase_op(op)
    return sum(op.parent is None for op in casts)


@dataclass(frozen=True)
class TFLFuseQDQPass(CountingPass):
    """
    Fuse float ops between `tfl.dequantize` and `tfl.quantize` to quantized ops, constants
    with their casts, and pairs of casts.
    """

    name = "tfl-fuse-qdq"

    @patched_pass
    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        casts = [x for x in op.walk() if isinstance(x, QuantizeOp)]
        changed = QuantizeTFLConstant().rewrite_module(op) + _erase_unused_casts(op)
        fusion = FuseQDQ()
        changed += fusion.rewrite_module(op) + Requantize().rewrite_module(op)
        _erase_unused_casts(op)
        _warn_of_unsupported(fusion.unsupported)
        expected = "float ops between 'tfl.dequantize' and 'tfl.quantize'"
        is_explained = bool(fusion.unsupported)
        return PassOutcome(casts, changed, expected, is_explained=is_explained)


def _warn_of_unsupported(reasons: Mapping[Operation, str]) -> None:
    """Warn on standard error about ops between casts that stay in floating point."""
    for op, reason in [*reasons.items()][:1]:
        ops = f"{counted(len(reasons), 'op')} between casts not fused"
        warn(f"{ops}, first '{op.name}': {reason}", location_prefix(op.location))
