"""Choice of the target, and specifications of kernels from observed ranges."""

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import AnyFloat, IntegerType, ModuleOp
from xdsl.ir import BlockArgument
from xdsl.rewriter import Rewriter

from xdsl_quant.diagnostics import counted_names, location_prefix, quoted
from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    DequantizeCastOp,
    NoQuantizedType,
    QuantizeCastOp,
    RegionOp,
    StatisticsRefOp,
)
from xdsl_quant.dialects.quant.traits import AffineOpCoefficient, quantization_trait
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type
from xdsl_quant.runtime.loading import apply_passes
from xdsl_quant.transforms.propagation.module_kernels import (
    fitting_signature,
    float_ops_outside_kernels,
    kernels_of,
)
from xdsl_quant.transforms.propagation.port_ranges import port_ranges, set_specs
from xdsl_quant.transforms.propagation.quant_constraints_to_specs import (
    QuantConstraintsToSpecsPass,
)
from xdsl_quant.transforms.propagation.quant_fuse_kernels import fuse_kernels
from xdsl_quant.transforms.propagation.quant_inline_regions import inline_regions
from xdsl_quant.transforms.propagation.resolution.report import PropagationReport
from xdsl_quant.transforms.propagation.target_files import TargetError, read_target
from xdsl_quant.transforms.propagation.target_spec import TargetSpec
from xdsl_quant.transforms.statistics.quant_import_stats import ImportStatistics
from xdsl_quant.transforms.statistics.ranges.statistics_file import KeyStatistics

from .kernel_widths import result_widths
from .recipe import Recipe
from .report import is_float_kernel
from .selection import Selection
from .user_warnings import warn_user


def chosen_target(module: ModuleOp, targets: Sequence[str | TargetSpec]) -> TargetSpec:
    """
    Return the target with the most kernels for the ops of a module; the first of several.

    Raises:
        TargetError: if none of the targets can be read.
        ValueError: if no target has a kernel for the module.
    """
    specs, mistakes = known_targets(targets)
    for mistake in mistakes:
        warn_user(f"{mistake}; trying the other targets of the recipe")
    counts = [fuse_kernels(module.clone(), spec) for spec in specs]
    if not any(counts):
        names = quoted(spec.name for spec in specs)
        found = counted_names(float_ops_outside_kernels(module)) or "no float op"
        raise ValueError(f"no op of the model has a kernel in {names}, found {found}")
    return specs[counts.index(max(counts))]


def known_targets(
    targets: Sequence[str | TargetSpec],
) -> tuple[Sequence[TargetSpec], Sequence[TargetError]]:
    """Return the readable targets, and the errors of unreadable ones."""
    specs: list[TargetSpec] = []
    mistakes: list[TargetError] = []
    for each in targets:
        try:
            specs.append(read_target(each) if isinstance(each, str) else each)
        except TargetError as e:
            mistakes.append(e)
    if not specs:
        raise mistakes[0]
    return specs, mistakes


def warn_of_activations(recipe: Recipe, target: TargetSpec) -> None:
    """Warn if `target` and the targets of the recipe share no activation width."""
    if recipe.targets == Recipe.targets:
        return
    known, _ = known_targets(recipe.targets)
    recipe_widths = {bits for each in known for bits in result_widths(each)}
    if recipe_widths.isdisjoint(widths := result_widths(target)):
        expected, found = (
            " or ".join(map(str, sorted(each))) for each in (recipe_widths, widths)
        )
        warn_user(
            f"recipe '{recipe.name}' expects activations of {expected} bits, found "
            f"{found or 'none'} in target '{target.name}'; leave the target out, or use "
            "another recipe"
        )


def set_ranges(
    module: ModuleOp, ranges: Mapping[str, KeyStatistics], selection: Selection
) -> None:
    """
    Replace each `quant.stats_ref` by `quant.stats`, or by casts that keep the value in
    floating point; erase it if no quantized kernel takes or returns the value.
    """
    float_kernels = {*selection.float_kernels}
    kernels = {
        kernel
        for number, kernel in enumerate(kernels_of(module))
        if number not in float_kernels
    }
    for op in [*module.walk()]:
        if not isinstance(op, StatisticsRefOp):
            continue
        users = {use.operation for use in op.result.uses}
        if isinstance(op.parent_op(), RegionOp) or not kernels & {
            op.input.owner,
            *users,
        }:
            Rewriter.replace_op(op, (), (op.input,))
        elif selection.is_float(op.stats_key.data):
            expressed = scalar_or_element_type(op.input.type)
            assert isinstance(expressed, AnyFloat)
            none = NoQuantizedType(expressed)
            quantize = QuantizeCastOp(op.input, with_element_type(op.input.type, none))
            dequantize = DequantizeCastOp(quantize, op.input.type)
            Rewriter.replace_op(op, (quantize, dequantize))
    ImportStatistics(ranges, "calibration", "keep").rewrite_module(module)


def specify(module: ModuleOp, float_kernels: Sequence[RegionOp]) -> None:
    """
    Convert statistics to specifications of kernels.

    Args:
        module: a model with kernels, which changes.
        float_kernels: the kernels that stay in floating point; they are inlined.
    """
    inline_regions(float_kernels)
    apply_passes(module, [QuantConstraintsToSpecsPass()], is_routine=True)


def ask_for_weights(kernel: RegionOp, bits: int, target: TargetSpec) -> None:
    """Specify a minimum width of weights; warn if no signature supports this width."""
    had_signature = _has_signature(kernel, target)
    _specify_weights(kernel, bits)
    if had_signature and not _has_signature(kernel, target):
        warn_user(
            f"{location_prefix(kernel.location)}kernel '{kernel.kernel}' stays in floating "
            f"point: no signature with weights of {bits} bits in target '{target.name}'; "
            "use fewer bits or another target"
        )


def _has_signature(kernel: RegionOp, target: TargetSpec) -> bool:
    known = target.kernels.get(kernel.kernel)
    return known is not None and bool(fitting_signature(kernel, known, [*kernel.specs]))


def _specify_weights(kernel: RegionOp, bits: int) -> None:
    ranges = port_ranges(kernel)
    specs = [*kernel.specs]
    for op in kernel.body.block.ops:
        trait = quantization_trait(op, AffineOpCoefficient)
        if trait is not None and isinstance(
            port := op.operands[trait.operand], BlockArgument
        ):
            expressed = scalar_or_element_type(port.type)
            assert isinstance(expressed, AnyFloat)
            specs[port.index] = AnyQuantizedType(IntegerType(bits), expressed)
            ranges.pop(port.index, None)
    set_specs(kernel, specs, ranges)


def check_has_quantized_kernel(
    module: ModuleOp, target: TargetSpec, report: PropagationReport
) -> None:
    """Raise a `ValueError` if all kernels stay in floating point."""
    if all(map(is_float_kernel, kernels_of(module))):
        reasons = "".join(each.float_reason for each in report.float_kernels[:1])
        raise ValueError(
            f"no kernel of '{target.name}' can be quantized, the first one stays in "
            f"floating point: {reasons or 'one of its values stays in floating point'}"
        )
