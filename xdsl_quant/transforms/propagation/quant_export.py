"""
Make ops of kernels, when all parameters are known: each `quant.region` becomes quantized
ops of the dialect of its ops, for targets with
[fixed kernels][xdsl_quant.transforms.propagation.export.fixed], or integer arithmetic, for
[code generation][xdsl_quant.transforms.propagation.export.codegen].

A kernel stays what it was in floating point if a port has no uniform type, or an op has no
quantized form with the types: it reads what is dequantized, and constants as they are.
"""

from collections.abc import Iterator, Mapping
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
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.diagnostics import fail, location_prefix, op_name, warn
from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    NoQuantizedType,
    RegionOp,
)
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.transforms.statistics.quant_convert_const import QuantizeConstant
from xdsl_quant.unsupported import Unsupported
from xdsl_quant.xdsl_patches import patched_pass

from .export.codegen import CodegenExport
from .export.fixed import FixedExport, widen_biases
from .export.float_kernels import KernelExport, UnsupportedParameters
from .kernel_matching import is_constant
from .module_kernels import (
    ParametersType,
    float_ops_of,
    is_float_value,
    kernels_of,
    ports_of,
)

FLOAT_KERNELS = "quant.float_kernels"
"""The attribute of a module that lists the kernels that stayed in floating point."""


RESCALES = "quant.rescales"
"""The attribute of a module that says how many rescales there are."""


_DECIDED = ParametersType | NoQuantizedType
_UNDECIDED = AnyQuantizedType | CalibratedQuantizedType


@dataclass(frozen=True)
class QuantExportPass(CountingPass):
    """
    Replace each `quant.region` whose ports all have uniform types by the quantized ops of
    the dialect of its ops, or by integer arithmetic, and every other one by its ops in
    floating point, between casts. The attribute `quant.float_kernels` of the module lists
    those, and why.
    """

    name = "quant-export"

    mode: Literal["fixed", "codegen"] = "fixed"
    """
    True if kernels become quantized ops, or integer arithmetic for code generation.
    """

    fully_quantized: bool = False
    """Fail if a kernel stays in floating point, or an op of floats is in no kernel."""

    push_rescales: bool = True
    """
    True if integers are rescaled once, after moves and sums, instead of at each port of
    a kernel. It is an option of `codegen`: see
    [`codegen`][xdsl_quant.transforms.propagation.export.codegen].
    """

    @patched_pass
    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        is_fixed = self.mode == "fixed"
        if is_fixed and not self.push_rescales:
            raise PassFailedException(
                "option push-rescales=false has no effect in mode 'fixed', expected mode "
                "'codegen'"
            )
        reference = self._reference(op)
        is_undecided = _warn_without_parameters(op)
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
                # Otherwise what an earlier run says still holds.
                op.attributes[RESCALES] = _rescales(export)
        _warn_of_unsupported_parameters(export)
        if export.in_float:
            op.attributes[FLOAT_KERNELS] = ArrayAttr(
                map(StringAttr, _descriptions(export.in_float))
            )
        unexpected = [] if is_undecided else [*_unexpected(export)]
        return PassOutcome(
            export.regions,
            len(export.regions) - len(unexpected),
            "a 'quant.region' with a quantized form, which 'quant-fuse-kernels' makes",
            [*filter(_is_decided, unexpected)],
            f"'{FLOAT_KERNELS}' says why they stay in floating point",
        )

    def _reference(self, module: ModuleOp) -> KernelExport | None:
        """Export a copy, if an option needs to know its outcome before the change."""
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
    """
    Return True if a port with a value is float, and neither constant nor a destination.
    """
    return (
        is_float_value(value)
        and not isinstance(value.owner, tensor.EmptyOp | linalg.ops.FillOp)
        and not is_constant(value)
    )


def _warn_without_parameters(module: ModuleOp) -> bool:
    """
    Say on standard error that all kernels stay in floating point, where nothing tells that
    parameters were decided: no port has any, or one has a range or a width still. Returns
    whether that is so.
    """
    kernels = kernels_of(module)
    specs = [
        [spec for value, spec in ports_of(kernel) if needs_parameters(value)]
        for kernel in kernels
    ]
    every = [spec for each in specs for spec in each]
    is_undecided = (
        all(any(not isinstance(s, _DECIDED) for s in each) for each in specs)
        and bool(every)
        and (
            any(isinstance(spec, _UNDECIDED) for spec in every)
            or not any(isinstance(spec, ParametersType) for spec in every)
        )
    )
    if is_undecided:
        found = f"found {len(kernels)} with ports without parameters"
        message = f"no kernel is quantized, {found}; 'quant-propagate' decides them"
        warn(message, location_prefix(kernels[0].location))
    return is_undecided


def _is_decided(kernel: RegionOp) -> bool:
    """True if all ports of a kernel that need parameters have them."""
    return all(
        isinstance(spec, ParametersType)
        for value, spec in ports_of(kernel)
        if needs_parameters(value)
    )


def _unexpected(export: KernelExport) -> Iterator[RegionOp]:
    """
    Yield the kernels that stay in floating point, but for those without floats, those
    with a port that is to stay so, and those that another warning is about.
    """
    for region, reason in export.in_float.items():
        specs = [spec for value, spec in ports_of(region) if is_float_value(value)]
        if (
            specs
            and not isinstance(reason, UnsupportedParameters)
            and not any(isinstance(spec, NoQuantizedType) for spec in specs)
        ):
            yield region


def _warn_of_unsupported_parameters(export: KernelExport) -> None:
    """Say on standard error which kernels have parameters, and stay in floating point."""
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
    """Which kernels stay in floating point, and why."""
    for region, reason in in_float.items():
        yield f"{location_prefix(region.location)}kernel '{region.kernel}': {reason}"


def _check_fully_quantized(module: ModuleOp, copy: KernelExport) -> None:
    """Fail if floats would stay, before the module changes."""
    places = dict(zip(copy.regions, kernels_of(module), strict=True))
    kernels = [places[region] for region in copy.in_float]
    ops = [*float_ops_of(module)]
    if not kernels and not ops:
        return
    in_no_kernel = (
        f"{location_prefix(op.location)}'{op_name(op)}' is in no kernel" for op in ops
    )
    places = "; ".join((*_descriptions(copy.in_float), *in_no_kernel))
    found = f"{len(kernels) + len(ops)} kernels or ops stay in floating point"
    fail((*kernels, *ops)[0], f"{found}, expected none: {places}")


def _rescales(export: CodegenExport) -> DictionaryAttr:
    """How many rescales there are, and what pushing changed."""
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
