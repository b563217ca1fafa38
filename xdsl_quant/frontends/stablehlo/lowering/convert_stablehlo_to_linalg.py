"""
StableHLO ops on floats, integers and booleans to linalg.

Ops that compute become a `linalg.generic`; data movement ops become ops of the tensor
dialect where possible, and control flow becomes ops of scf. Each op or group of ops has a
rewrite pattern in the folder `linalg`; `LOWERINGS` lists them.

Data movement ops also accept quantized tensors: they move stored values between
`quant.scast`s. `reduce` accepts them if the casts in its region are lowered already. Other
arithmetic on quantized tensors has to be converted to floats or integers first.

The arith dialect accepts signless integers only, so types such as `ui8` become `i8` in the
whole module, including function signatures. Bits are unchanged.

All ops are lowered before the first one is replaced, so a failing pass changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import isa

from xdsl_quant.diagnostics import fail, op_name, refuse
from xdsl_quant.dialects.quant import StorageCastOp
from xdsl_quant.dialects.quant.traits import (
    AcceptsStoredValues,
    CastsQuantization,
    Reduces,
    has_quantization_trait,
)
from xdsl_quant.frontends.stablehlo.calls import endless_call
from xdsl_quant.frontends.stablehlo.dialect import (
    MapOp,
    ReturnOp,
    ScatterOp,
    SortOp,
    TypeExtensionsAttr,
)
from xdsl_quant.frontends.stablehlo.dialect.shardy import (
    ManualComputationOp,
    erase_shardings,
)
from xdsl_quant.pass_outcome import CountingPass, PassOutcome, ops_of_dialect
from xdsl_quant.transforms.building.signless_types import has_signedness, make_signless
from xdsl_quant.transforms.building.type_replacement import defined_values, set_type
from xdsl_quant.unsupported import Unsupported
from xdsl_quant.xdsl_patches import patched_pass

from .adoption import adopt_ops
from .linalg import (
    broadcasting,
    contraction,
    data_movement,
    deprecated,
    dynamic_shapes,
    dynamic_slices,
    elementwise,
    normalization,
    reduction,
    representations,
    scatter,
    select_and_scatter,
    sorting,
)
from .linalg.control_flow import ControlFlowOp, check_control_flow, convert_control_flow
from .linalg.lowering import LinalgLowering, Replacement

LOWERINGS: Sequence[LinalgLowering[Any]] = (
    elementwise.LowerElementwise(),
    representations.LowerBitcastConvert(),
    normalization.LowerBatchNormInference(),
    deprecated.LowerBroadcast(),
    broadcasting.LowerBroadcasting(),
    data_movement.LowerBroadcastInDim(),
    data_movement.LowerConcatenate(),
    data_movement.LowerConstant(),
    contraction.LowerConvolution(),
    deprecated.LowerDot(),
    contraction.LowerDotGeneral(),
    dynamic_shapes.LowerDynamicBroadcastInDim(),
    dynamic_shapes.LowerDynamicIota(),
    dynamic_shapes.LowerDynamicPad(),
    dynamic_shapes.LowerDynamicReduceWindow(),
    dynamic_shapes.LowerDynamicReshape(),
    dynamic_shapes.LowerShapeAssertion(),
    dynamic_slices.LowerDynamicSlice(),
    dynamic_slices.LowerDynamicUpdateSlice(),
    deprecated.LowerEinsum(),
    data_movement.LowerGather(),
    data_movement.LowerGetDimensionSize(),
    data_movement.LowerIota(),
    reduction.LowerMap(),
    data_movement.LowerOptimizationBarrier(),
    data_movement.LowerPad(),
    dynamic_shapes.LowerRealDynamicSlice(),
    reduction.LowerReduce(),
    reduction.LowerReduceWindow(),
    data_movement.LowerReshape(),
    dynamic_slices.LowerReverse(),
    scatter.LowerScatter(),
    select_and_scatter.LowerSelectAndScatter(),
    data_movement.LowerSetDimensionSize(),
    data_movement.LowerSlice(),
    sorting.LowerSort(),
    sorting.LowerTopK(),
    deprecated.LowerTorchIndexSelect(),
    data_movement.LowerTranspose(),
    deprecated.LowerUnaryEinsum(),
)
"""Rewrite patterns of the pass."""


def _replacement(op: Operation) -> Replacement:
    """Return the lowered form of an op, or raise `PassFailedException`."""
    for inner in op.walk():
        _check_cast(inner)
    name = op_name(op)
    lowering = next((lowering for lowering in LOWERINGS if lowering.handles(op)), None)
    try:
        if lowering is None:
            target = op.properties.get("call_target_name")
            called = f"calls '{target.data}', which " if isa(target, StringAttr) else ""
            raise Unsupported(f"{called}has no conversion to linalg")
        return lowering.replacement(op)
    except Unsupported as e:
        fail(op, f"'{name}' op {e}")


def _check_control_flow(op: ControlFlowOp) -> None:
    """Raise `PassFailedException` if an op cannot be converted to `scf`."""
    try:
        check_control_flow(op)
    except Unsupported as e:
        fail(op, f"'{op.name}' op {e}")


def _check_cast(op: Operation) -> None:
    """Raise `PassFailedException` if an op is a quantization cast."""
    if not has_quantization_trait(op, CastsQuantization):
        return
    problem = "in the region of a reduction: run 'lower-quant-ops' first"
    if (name := op_name(op)).startswith("stablehlo."):
        problem = (
            "a quantization cast: run 'convert-quantized-stablehlo-to-linalg' "
            "instead, or 'stablehlo-casts-to-quant' first"
        )
    fail(op, f"'{name}' op is {problem}")


def _is_lowered(op: Operation) -> bool:
    """Return True if the pass must replace an op."""
    name = op_name(op)
    is_manual = name == ManualComputationOp.name
    is_own = name.startswith(("chlo.", "stablehlo.")) or is_manual
    return is_own or name in elementwise.FORMULAS


def _is_lowered_with_parent(op: Operation) -> bool:
    """Return True for ops in the region of a computation, and terminators of regions."""
    parent = op.parent_op()
    return (
        isinstance(parent, MapOp | ScatterOp | SortOp)
        or (isinstance(op, ReturnOp) and isinstance(parent, ControlFlowOp))
        or (parent is not None and has_quantization_trait(parent, Reduces))
    )


# Types with bounds or a signedness


def _erase_bounds(ops: Sequence[Operation]) -> Sequence[tuple[SSAValue, Attribute]]:
    """Erase `#stablehlo.bounds` from types; return the values with their former types."""
    bounded: list[tuple[SSAValue, Attribute]] = []
    for value in (value for op in ops for value in defined_values(op)):
        type_ = value.type
        if isa(type_, TensorType) and isinstance(type_.encoding, TypeExtensionsAttr):
            bounded.append((value, type_))
            set_type(value, TensorType(type_.element_type, type_.shape))
    return bounded


def _check_signedness(op: Operation) -> None:
    """Raise `PassFailedException` if an op that is kept has signed or unsigned integers."""
    if has_quantization_trait(op, AcceptsStoredValues) or _is_lowered(op):
        return
    for value in (*op.operands, *defined_values(op)):
        if has_signedness(value.type):
            fail(
                op,
                f"'{op_name(op)}' op has a value of type '{value.type}', which this pass "
                "converts to a signless type; lower the op first",
            )


def _insert(replacements: Sequence[Replacement]) -> None:
    """Replace ops by their lowered forms, and fold the casts between these."""
    casts = [
        new
        for replacement in replacements
        for new in replacement.block.ops
        if isinstance(new, StorageCastOp)
    ]
    for replacement in replacements:
        replacement.insert()
    for cast in casts:
        if (folded := cast.fold()) is not None:
            cast.result.replace_all_uses_with(folded[0])
    for cast in reversed(casts):
        if cast.result.first_use is None:
            Rewriter.erase_op(cast)


@dataclass(frozen=True)
class ConvertStableHLOToLinalgPass(CountingPass):
    """Convert StableHLO to linalg, tensor, arith and math, or fail and change nothing."""

    name = "convert-stablehlo-to-linalg"

    @patched_pass
    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        adopt_ops(op)
        if (recursion := endless_call(op)) is not None:
            call, name = recursion
            refuse(call, "never returns", f"function '{name}' calls itself")
        all_ops = [*op.walk()]
        bounded = _erase_bounds(all_ops)
        candidates = ops_of_dialect(op, "stablehlo")
        replacements: list[Replacement] = []
        control_flow: list[ControlFlowOp] = []
        try:
            for inner in all_ops:
                if isinstance(inner, ControlFlowOp):
                    _check_control_flow(inner)
                    control_flow.append(inner)
                elif _is_lowered(inner) and not _is_lowered_with_parent(inner):
                    replacements.append(_replacement(inner))
            values = (value for inner in all_ops for value in defined_values(inner))
            if has_signs := any(has_signedness(value.type) for value in values):
                for inner in all_ops:
                    _check_signedness(inner)
        except PassFailedException:
            for replacement in replacements:
                replacement.discard()
            for value, type_ in bounded:
                set_type(value, type_)
            raise
        if bounded:
            for inner in all_ops:
                if isinstance(inner, FuncOp) and not inner.is_declaration:
                    inner.update_function_type()
        erase_shardings(op)
        _insert(replacements)
        for inner in control_flow:
            convert_control_flow(inner)
        if has_signs:
            make_signless(op)
        changed = len(replacements) + len(control_flow) + has_signs
        return PassOutcome(candidates, changed, "ops of StableHLO")
