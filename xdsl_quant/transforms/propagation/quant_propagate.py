"""
Resolve the constraints of kernels into quantization parameters for every port.

The specifications of `quant.region` ports are the input, and the target adds constraints
between ports. Afterwards all ports with resolved parameters have uniform types:

* A uniform type is kept. A range is converted to parameters by the target's range rule.
  `!quant.any` sets a minimum width, `!quant.none` keeps a value in floating point, and
  a float type has no effect.
* Constants get parameters from their content, even if they have a range. The scale of a
  bias is the product of the scales of the factors.
* Parameters propagate along constraints until nothing changes. A value has one set of
  parameters; a kernel that needs different ones specifies them at its port. A rescale
  is needed where the specifications of producer and user differ.

The pass duplicates functions called with different parameters and constants used with
different parameters. It is idempotent.

Before, with the target `tflite-int8`:

```mlir
%y = quant.region "tfl.tanh" (%x_1 = %x : tensor<4xf32>
    as !quant.calibrated<f32<-1.0:1.0>>) -> (tensor<4xf32>) { ... }
```

After:

```mlir
%y = quant.region "tfl.tanh" (%x_1 = %x : tensor<4xf32>
    as !quant.uniform<i8:f32, 0.0078431372549019607:-1>)
    -> (tensor<4xf32> as !quant.uniform<i8:f32, 7.812500e-03>) { ... }
```
"""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import BinaryIO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.diagnostics import counted, location_prefix, warn
from xdsl_quant.dialects.quant import (
    NoQuantizedType,
    QuantizedType,
    RegionOp,
    StatisticsOp,
)
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.runtime.atomic_files import has_suffix, open_atomically

from .module_kernels import kernels_of
from .resolution.axes import ports_without_axis
from .resolution.functions import merge_copies, separate_calls, warn_of_public_functions
from .resolution.kernels import Range, build_graph
from .resolution.report import PropagationReport, build_report, name_of, undecided_port
from .resolution.statistics import clamped_constants, clamped_values
from .resolution.work_list import Resolver
from .resolution.writing import duplicate_constants, overruled_specs, write_specs
from .target_files import target_of_option
from .target_spec import TargetSpec


@dataclass(frozen=True)
class QuantPropagatePass(CountingPass):
    """
    Replace specifications of kernels by uniform types that fulfil the target's constraints.
    """

    name = "quant-propagate"

    target: str | None = None
    """Name of a built-in or plugin target, or path of a `.toml` file; required."""

    report: str | None = None
    """File for a report of decisions: JSON if named `*.json`, else tables."""

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        target = target_of_option(self.target)
        try:
            # Open the report before the module changes, so a failure leaves it
            # unchanged.
            opened = open_atomically(self.report) if self.report is not None else None
            with opened or nullcontext() as stream:
                return self._propagate(op, target, stream)
        except OSError as e:
            raise PassFailedException(
                f"cannot write report '{self.report}': {e.strerror or e}"
            ) from None

    def _propagate(
        self, op: ModuleOp, target: TargetSpec, stream: BinaryIO | None
    ) -> PassOutcome:
        before = {kernel: kernel.specs for kernel in kernels_of(op)}
        propagation = Propagation(op, target)
        propagation.warn_of_float_kernels()
        propagation.warn_of_missing_dimensions()
        propagation.warn_of_clamped_constants()
        propagation.warn_of_clamped_values()
        propagation.warn_of_specifications()
        warn_of_public_functions(propagation.copies)
        if stream is not None and self.report is not None:
            report = propagation.report()
            text = report.json() if has_suffix(self.report, ".json") else str(report)
            stream.write(text.encode())
        return PassOutcome(
            [*before],
            sum(kernel.specs != before.get(kernel) for kernel in kernels_of(op)),
            "kernels, which 'quant-fuse-kernels' creates",
            # Kernels without parameters have a warning; others were decided before.
            is_explained=bool(before),
        )


class Propagation:
    """Propagation of a module in place, with its report and warnings."""

    def __init__(self, module: ModuleOp, target: TargetSpec):
        """
        Args:
            module: the module, whose kernels get uniform types as specifications.
            target: the target with the kernels.

        Raises:
            PassFailedException: if a Python constraint or the attribute
                `quant.port_stats` of a kernel is invalid; the module is unchanged then.
        """
        self._module = module
        self._target = target
        separated = separate_calls(module)
        with separated.undone_if_failed():
            self.graph = build_graph(module, target, separated.calls)
            Resolver(self.graph, target.range_rule).run()
        values = self.graph.all_values
        self._constants, self._cut_off = (
            clamped_constants(values),
            clamped_values(values),
        )
        self._without_axis = ports_without_axis(self.graph.kernels)
        self._overruled = overruled_specs(self.graph.kernels)
        write_specs(self.graph.kernels)
        duplicate_constants(values)
        self.copies = merge_copies(separated)
        self._left = dict.fromkeys(kernels_of(module))
        """Kernels of the module after merging functions."""

    def warn_of_float_kernels(self) -> None:
        """Warn on standard error about kernels left in floating point."""
        reasons = dict(self.graph.float_kernels) | {
            kernel.op: f"{port} of kernel '{kernel.name}' has no parameters"
            for kernel in self.graph.kernels
            if (port := undecided_port(kernel)) is not None
        }
        reasons = {
            op: reasons[op]
            for op in self._left
            if op in reasons
            and not any(isinstance(spec, NoQuantizedType) for spec in op.specs)
        }
        if not reasons:
            return
        op, reason = next(iter(reasons.items()))
        place = location_prefix(op.location)
        if not self.graph.kernels:
            remedy = (
                "change the specification"
                if op.kernel in self._target.kernels
                and any(isinstance(spec, QuantizedType) for spec in op.specs)
                else "use the target that the kernels were fused for"
            )
            warn(f"no kernel is propagated: {reason}; {remedy}", place)
            return
        remedy = "option report=FILE lists all of them"
        if any(map(_has_statistics, reasons)):
            remedy = "run 'quant-constraints-to-specs' first to convert statistics to "
            remedy += "specifications"
        problem = f"{len(reasons)} of {len(self._left)} kernels stay in floating point"
        warn(f"{problem}, the first because {reason}; {remedy}", place)

    def warn_of_clamped_constants(self) -> None:
        """
        Warn on standard error about constants that are out of range of the scale that
        they share with other values. Results may be wrong.
        """
        found = [each for each in self._constants if each.kernel.op in self._left]
        for first in found[:1]:
            first.kernel.warn(
                f"{counted(len(found), 'constant')} clamped, first at "
                f"{first.kernel.port_text(first.port)}: elements {_from_to(first.numbers)} "
                f"exceed the range {_from_to(first.limits)} of the shared scale; add "
                "statistics of the result"
            )

    def warn_of_clamped_values(self) -> None:
        """Warn on standard error about values out of the range of their parameters."""
        found = [each for each in self._cut_off if each.kernel.op in self._left]
        for first in found[:1]:
            kernel, port = first.kernel, first.port
            kernel.warn(
                f"{counted(len(found), 'value')} clamped, first "
                f"'{name_of(first.value.ssa)}' at {kernel.port_text(port)}: statistics "
                f"{_from_to(first.numbers)} exceed the range {_from_to(first.limits)} "
                f"({kernel.decision(port)}); add a specification, or widen the "
                "statistics of the values that share its scale"
            )

    def warn_of_missing_dimensions(self) -> None:
        """Warn on standard error about weights that lack their per-axis dimension."""
        found = [each for each in self._without_axis if each[0].op in self._left]
        for kernel, port in found[:1]:
            kernel.warn(
                f"{counted(len(found), 'weight')} without per-axis scales, first "
                f"'{kernel.op.inputs[port].type}' at {kernel.port_text(port)}: missing "
                f"dimension {kernel.constraints.coefficients[port]}; change "
                "'coefficient-axis' in the target"
            )

    def warn_of_specifications(self) -> None:
        """Warn on standard error about specifications that constraints overrule."""
        found = [each for each in self._overruled if each.kernel.op in self._left]
        for first in found[:1]:
            first.kernel.warn(
                f"{counted(len(found), 'specification')} replaced to satisfy constraints, "
                f"first '{first.before}' at {first.kernel.port_text(first.port)}, by "
                f"'{first.after}' ({first.decision}); remove them"
            )

    def report(self) -> PropagationReport:
        """Return the decisions and reasons; call it before the module changes."""
        return build_report(self._module, self._target.name, self.graph, self.copies)


def _from_to(range_: Range) -> str:
    return f"from {range_[0]:g} to {range_[1]:g}"


def _has_statistics(op: RegionOp) -> bool:
    """Return True if values of a kernel have statistics ops instead of ranges."""
    return any(
        isinstance(value.owner, StatisticsOp)
        or any(isinstance(use.operation, StatisticsOp) for use in value.uses)
        for value in (*op.inputs, *op.results)
    )


def propagate(module: ModuleOp, target: TargetSpec) -> PropagationReport:
    """
    Replace specifications of kernels by uniform types that fulfil the target's constraints.

    Args:
        module: the module, which is changed.
        target: the target with the kernels.

    Returns:
        The decisions and their reasons.

    Raises:
        PassFailedException: if a Python constraint or the attribute `quant.port_stats`
            of a kernel is invalid; the module is unchanged then.
    """
    return Propagation(module, target).report()
