"""
Replace kernels by quantized ops once all parameters are known: `quant.region` becomes
quantized ops of its own dialect for targets with [fixed
kernels][xdsl_quant.transforms.propagation.export.fixed], or integer arithmetic for
[code generation][xdsl_quant.transforms.propagation.export.codegen].

A kernel stays in floating point if a port has no uniform type, or an op does not support
the quantized types. It then reads dequantized operands, and constants unchanged.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects import linalg, tensor
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.diagnostics import fail, location_prefix, op_name, warn
from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    NoQuantizedType,
    RegionOp,
    UniformQuantizedSubChannelType,
)
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.runtime.plugins import optional_module
from xdsl_quant.transforms.statistics.quant_convert_const import QuantizeConstant
from xdsl_quant.unsupported import Unsupported
from xdsl_quant.xdsl_patches import patched_pass

from .export.codegen import CodegenExport
from .export.fixed import FixedExport, widen_biases
from .export.float_kernels import KernelExport, UnsupportedParameters
from .kernel_matching import is_constant
from .module_kernels import (
    ParametersType,
    float_ops_outside_kernels,
    is_float_value,
    kernels_of,
    ports_of,
)

FLOAT_KERNELS = "quant.float_kernels"
"""Module attribute that lists the kernels in floating point, with reasons."""


RESCALES = "quant.rescales"
"""Module attribute with the number of rescales."""


_DECIDED = ParametersType | NoQuantizedType
_UNDECIDED = AnyQuantizedType | CalibratedQuantizedType


@dataclass(frozen=True)
class QuantExportPass(CountingPass):
    """
    Replace each `quant.region` by quantized ops of its dialect or by integer arithmetic
    if all its ports have uniform types. Other kernels are replaced by their float ops and
    casts; the module attribute `quant.float_kernels` lists these kernels with reasons.
    """

    name = "quant-export"

    mode: Literal["fixed", "codegen"] = "fixed"
    """Output form: quantized ops (`fixed`), or integer arithmetic (`codegen`)."""

    fully_quantized: bool = False
    """True to fail if a kernel or op stays in floating point."""

    push_rescales: bool = True
    """
    True to rescale once, after data movement and sums, instead of at each port
    (`codegen` only, see [`codegen`][xdsl_quant.transforms.propagation.export.codegen]).
    """

    @patched_pass
    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        is_fixed = self.mode == "fixed"
        if is_fixed and not self.push_rescales:
            raise PassFailedException(
                "option push-rescales=false has no effect in mode 'fixed', expected mode "
                "'codegen'"
            )
        is_undecided = _warn_without_parameters(op)
        composites = self._exported_composites(op)
        reference = self._reference(op)
        export: KernelExport
        if is_fixed:
            export = FixedExport(op)
            export.run()
            QuantizeConstant().rewrite_module(op)
            widen_biases(op)
        else:
            unpushed = reference if isinstance(reference, CodegenExport) else None
            export = CodegenExport(op, unpushed if self.push_rescales else None)
            export.run()
            if export.regions:
                # Without kernels, the counts of an earlier run remain valid.
                op.attributes[RESCALES] = _rescales(export)
        _warn_of_unsupported_parameters(export)
        if export.in_float:
            op.attributes[FLOAT_KERNELS] = ArrayAttr(
                map(StringAttr, _descriptions(export.in_float))
            )
        unexpected = [] if is_undecided else [*_unexpected(export)]
        op.body.block.add_ops(composites)
        found = [*export.regions, *composites]
        return PassOutcome(
            found,
            len(found) - len(unexpected),
            "a 'quant.region' with a quantized form, which 'quant-fuse-kernels' creates",
            [*filter(_is_decided, unexpected)],
            f"'{FLOAT_KERNELS}' says why they stay in floating point",
        )

    def _exported_composites(self, module: ModuleOp) -> Sequence[Operation]:
        """Export kernels that call a function, and return new functions to add."""
        composites = optional_module("transforms.composites.export")
        if composites is None:
            return []
        return composites.export_composites(module, self.mode)

    def _reference(self, module: ModuleOp) -> KernelExport | None:
        """Return a trial export of a copy; `None` if no option depends on its outcome."""
        is_fixed = self.mode == "fixed"
        if not self.fully_quantized and (is_fixed or not self.push_rescales):
            return None
        copy = module.clone()
        reference = FixedExport(copy) if is_fixed else CodegenExport(copy)
        reference.run()
        if self.fully_quantized:
            _check_fully_quantized(module, reference)
        return reference


def needs_parameters(value: SSAValue) -> bool:
    """Return True for a float value that is not constant, empty or filled."""
    return (
        is_float_value(value)
        and not isinstance(value.owner, tensor.EmptyOp | linalg.ops.FillOp)
        and not is_constant(value)
    )


def _warn_without_parameters(module: ModuleOp) -> bool:
    """
    Warn on standard error if no kernel is quantized and propagation seems missing: no port
    has parameters, or a port still has a range or width. Return True after a warning.
    """
    kernels = kernels_of(module)
    specs = [
        [spec for value, spec in ports_of(kernel) if needs_parameters(value)]
        for kernel in kernels
    ]
    every = [spec for each in specs for spec in each]
    is_undecided = (
        not any(map(_has_blocks, kernels))
        and all(any(not isinstance(s, _DECIDED) for s in each) for each in specs)
        and bool(every)
        and (
            any(isinstance(spec, _UNDECIDED) for spec in every)
            or not any(isinstance(spec, ParametersType) for spec in every)
        )
    )
    if is_undecided:
        found = f"found {len(kernels)} with ports without parameters"
        message = f"no kernel is quantized: {found}; run 'quant-propagate' first"
        warn(message, location_prefix(kernels[0].location))
    return is_undecided


def _has_blocks(kernel: RegionOp) -> bool:
    """Return True if a port, which is a constant, has sub-channel parameters."""
    return any(isinstance(s, UniformQuantizedSubChannelType) for s in kernel.specs)


def _is_decided(kernel: RegionOp) -> bool:
    """Return True if all ports of a kernel that need parameters have them."""
    return all(
        isinstance(spec, ParametersType)
        for value, spec in ports_of(kernel)
        if needs_parameters(value)
    )


def _unexpected(export: KernelExport) -> Iterator[RegionOp]:
    """
    Yield the kernels that unexpectedly stay in floating point. These have floats at
    ports, no port with `!quant.none`, and no other warning. They are not weight-only.
    """
    for region, reason in export.in_float.items():
        specs = [spec for value, spec in ports_of(region) if is_float_value(value)]
        if (
            specs
            and not isinstance(reason, UnsupportedParameters)
            and not any(isinstance(spec, NoQuantizedType) for spec in specs)
            and (_is_decided(region) or not _has_blocks(region))
        ):
            yield region


def _warn_of_unsupported_parameters(export: KernelExport) -> None:
    """Warn on standard error about kernels with parameters that stay in floating point."""
    unsupported = [
        (region, reason)
        for region, reason in export.in_float.items()
        if isinstance(reason, UnsupportedParameters)
    ]
    if not unsupported:
        return
    region, reason = unsupported[0]
    kernels = f"{len(unsupported)} of {len(export.regions)} kernels"
    message = f"{kernels} stay in floating point between casts: {reason}"
    place = location_prefix(region.location)
    warn(f"{message}; '{FLOAT_KERNELS}' lists them", place)


def _descriptions(in_float: Mapping[RegionOp, Unsupported]) -> Iterator[str]:
    """Yield a line with location and reason for each kernel in floating point."""
    for region, reason in in_float.items():
        yield f"{location_prefix(region.location)}kernel '{region.kernel}': {reason}"


def _check_fully_quantized(module: ModuleOp, copy: KernelExport) -> None:
    """Raise if floats would remain, before the module changes."""
    places = dict(zip(copy.regions, kernels_of(module), strict=True))
    kernels = [places[region] for region in copy.in_float]
    ops = [*float_ops_outside_kernels(module)]
    if not kernels and not ops:
        return
    in_no_kernel = (
        f"{location_prefix(op.location)}'{op_name(op)}' is in no kernel" for op in ops
    )
    places = "; ".join((*_descriptions(copy.in_float), *in_no_kernel))
    found = f"{len(kernels) + len(ops)} kernels or ops stay in floating point"
    fail((*kernels, *ops)[0], f"{found}, expected none: {places}")


def _rescales(export: CodegenExport) -> DictionaryAttr:
    """Return rescale counts with and without pushing, and bounds on differences."""
    numbers: dict[str, Attribute] = {"inserted": IntegerAttr(export.rescales, i64)}
    if export.reference is not None:
        numbers["at_ports"] = IntegerAttr(export.reference.rescales, i64)
        if (differences := export.differences) is not None:
            numbers["differences"] = DictionaryAttr(
                {
                    name: DenseArrayBase.from_list(i64, units)
                    for name, units in differences.items()
                }
            )
    return DictionaryAttr(numbers)
