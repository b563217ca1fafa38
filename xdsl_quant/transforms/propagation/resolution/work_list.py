"""
Greedy work list that applies the constraints of kernels until no parameters change.

Initially the list contains the kernels and constants in textual order. Items are popped
from its end. Parameters of a value never change: a constraint that needs different
ones inserts a rescale at the port of its kernel. Fulfilled constraints therefore stay
fulfilled, and the work list terminates.
"""

import operator
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.diagnostics import fail
from xdsl_quant.dialects.quant.regions import is_specification
from xdsl_quant.dialects.quant.types import UniformType
from xdsl_quant.numerics import RangeRule
from xdsl_quant.numerics.arrays import Floats

from ..target_spec import QuantFn
from .axes import channel_axis, coefficient_axis, coefficient_ranges, mapped_parameters
from .kernels import SPECIFICATION, Graph, Kernel, PortValue
from .parameters import ParameterChoice, with_scales
from .statistics import remove_redundant_statistics, unite_ranges

_LARGEST_BIAS = (2**31 - 1) // 2
"""Largest absolute stored bias that cannot overflow when products are added."""


class Resolver:
    """Work list that chooses the parameters of all constrained values."""

    def __init__(self, graph: Graph, rule: RangeRule):
        self.graph = graph
        self.rule: RangeRule = rule
        self.work: list[Kernel | PortValue] = []
        self.waiting: list[Kernel] = []
        """Kernels to process last, because other kernels decided their operands."""

    def run(self) -> None:
        """Resolve all parameters that constraints determine."""
        values = self.graph.all_values
        if self.rule != "tflite":
            unite_ranges(self.graph.kernels)
        remove_redundant_statistics(values)
        for value in values:
            self._decide_by_range(value)
        self.work = [*self.graph.items]
        self._process()
        for value in values:
            if _is_only_moved(value):
                self._choose_for_content(value)
                self._process()
            elif (parameters := _first_specification(value)) is not None:
                self._decide(value, parameters, SPECIFICATION)
                self._push_producer(value)
                self._process()

    def _process(self) -> None:
        while self.work or self.waiting:
            while self.work:
                item = self._next()
                if isinstance(item, PortValue):
                    self._decide_by_content(item)
                elif not item.is_done:
                    item.is_done = self._apply(item)
            self.work += reversed(self.waiting)
            self.waiting.clear()

    def _next(self) -> Kernel | PortValue:
        return self.work.pop()

    # Before propagation

    def _decide_by_range(self, value: PortValue) -> None:
        if value.parameters is None and value.range is not None:
            choice = self._choice(value)
            try:
                if (per_axis := coefficient_ranges(value)) is None:
                    parameters = choice.for_range(*value.range)
                else:
                    axis, pairs = per_axis
                    parameters = choice.for_range(*pairs.T, is_weight=True, axis=axis)
            except ValueError as e:
                value.float_reason = str(e)
                return
            value.parameters, value.decision = parameters, "statistics"
            value.is_immutable = True
        if value.parameters is not None:
            self._fit_ports(value)
            self._share(value)

    def _share(self, value: PortValue) -> None:
        """Give a value's per-tensor parameters to the values coupled with it."""
        if value.parameters is None or not value.parameters.is_per_tensor:
            return
        coupled_values = [*value.coupled]
        # All coupled values have parameters after this loop: do not repeat it.
        value.coupled.clear()
        for coupled in coupled_values:
            if coupled.parameters is None:
                coupled.parameters = value.parameters
                coupled.decision = "coupling"
                coupled.is_immutable = value.is_immutable
                self._fit_ports(coupled)
                self._push_users(coupled)
                self._push_producer(coupled)

    def _choice(self, value: PortValue) -> ParameterChoice:
        """Return the settings of the first non-wildcard port, else of the first port."""
        kernel, port = min(value.ports, key=lambda p: p[0].ports[p[1]].is_wildcard)
        choice = kernel.choice(port, self.rule)
        is_power_of_two = any(k.constraints.is_power_of_two for k, _ in value.ports)
        return replace(choice, is_power_of_two=is_power_of_two)

    def _fit_ports(self, value: PortValue) -> None:
        """Rescale at ports that cannot store the value with its parameters."""
        assert value.parameters is not None
        for kernel, port in value.ports:
            if port in kernel.rescaled or kernel.accepts(port, value.parameters):
                continue
            self._rescale(kernel, port, value.parameters, kernel.rule_text("storage"))

    def _rescale(
        self, kernel: Kernel, port: int, parameters: UniformType, decision: str
    ) -> None:
        """Give a port parameters that differ from those of its value."""
        kernel.rescaled[port] = self._acceptable(kernel, port, parameters), decision

    def _acceptable(
        self, kernel: Kernel, port: int, parameters: UniformType
    ) -> UniformType:
        """Return the parameters, converted if the port does not accept them."""
        if kernel.accepts(port, parameters):
            return parameters
        try:
            return kernel.choice(port, self.rule).for_range_of(parameters)
        except ValueError:
            # The expressed type cannot represent a suitable scale.
            return parameters

    # Constants

    def _decide_by_content(self, value: PortValue) -> None:
        """Choose the parameters of a weight or an otherwise unconstrained constant."""
        kernel, port = value.users[0]
        constraints = kernel.constraints
        is_bias = any(port == bias for bias, _ in constraints.biases)
        if not (value.parameters is not None or constraints.is_same_scale or is_bias):
            self._choose_for_content(value)

    def _choose_for_content(self, value: PortValue) -> None:
        kernel, port = value.users[0]
        is_weight = port in kernel.constraints.coefficients
        axis, choice = coefficient_axis(kernel, port), self._choice(value)
        try:
            content = value.content()
            parameters = choice.for_content(content, is_weight=is_weight, axis=axis)
        except (ValueError, ImportError) as e:
            value.float_reason = str(e)
            return
        rule = "weight" if is_weight else "constant"
        self._decide(value, parameters, kernel.rule_text(rule))
        self._push_users(value)

    # Constraints

    def _apply(self, kernel: Kernel) -> bool:
        """Apply the constraints of a kernel. Return True if none is left to apply."""
        constraints = kernel.constraints
        is_done = not constraints.functions
        if constraints.is_same_scale:
            if (parameters := _shared_parameters(kernel)) is not None:
                for port, value in enumerate(kernel.values):
                    if value is not None:
                        decision = kernel.rule_text("same scale")
                        self._set(kernel, port, parameters, decision)
            elif not self._carry_axis(kernel):
                return False
        self._fix_results(kernel)
        for port, factors in constraints.products:
            is_done &= self._multiply(kernel, port, factors, "product")
        for port, factors in constraints.biases:
            is_done &= self._multiply(kernel, port, factors, "bias")
        for function in constraints.functions:
            self._call(kernel, function)
        return is_done

    def _fix_results(self, kernel: Kernel) -> None:
        for port, trait in kernel.constraints.fixed.items():
            if (value := kernel.values[port]) is not None:
                try:
                    fixed = kernel.choice(port, self.rule).for_fixed_result(trait)
                except ValueError as e:
                    value.float_reason = str(e)
                    continue
                self._set(kernel, port, fixed, kernel.rule_text("fixed result"))

    def _carry_axis(self, kernel: Kernel) -> bool:
        """Map per-axis parameters to all ports of a same-scale kernel, if possible."""
        ports = [port for port, value in enumerate(kernel.values) if value is not None]
        known = [port for port in ports if kernel.parameters(port) is not None]
        if not known:
            return False
        fixed = (port for port in known if _is_immutable(kernel, port))
        source = next(fixed, known[0])
        by_port = {port: mapped_parameters(kernel, source, port) for port in ports}
        decision = kernel.rule_text("same scale")
        if None in by_port.values():
            for port in ports:
                if (value := kernel.values[port]) is not None:
                    value.float_reason = (
                        f"{kernel.port_name(source)} of {kernel.name} has several scales, "
                        "and their axis maps to no known dimension of other ports"
                    )
            return False
        for port, parameters in by_port.items():
            if parameters is not None:
                self._set(kernel, port, parameters, decision)
        return True

    def _set(
        self, kernel: Kernel, port: int, parameters: UniformType, decision: str
    ) -> None:
        """Set the parameters of a port's value; rescale if it has other parameters."""
        parameters = self._acceptable(kernel, port, parameters)
        if kernel.parameters(port) == parameters:
            return
        value = kernel.values[port]
        assert value is not None
        if value.parameters is not None or port in kernel.rescaled:
            self._rescale(kernel, port, parameters, decision)
            return
        self._decide(value, parameters, decision)
        if port < kernel.input_count:
            self._push_producer(value)
            self._wait(value)
        else:
            self._push_users(value)

    def _decide(self, value: PortValue, parameters: UniformType, decision: str) -> None:
        value.parameters, value.decision = parameters, decision
        self._fit_ports(value)
        self._share(value)

    def _push_users(self, value: PortValue) -> None:
        """Push the users of a value, the first in textual order on top."""
        self.work += [user for user, _ in reversed(value.users)]

    def _push_producer(self, value: PortValue) -> None:
        if value.producer is not None:
            self.work.append(value.producer[0])

    def _wait(self, value: PortValue) -> None:
        """Process undecided users last; TensorFlow Lite waits for its second run."""
        self.waiting += [user for user, _ in value.users if not user.is_done]

    # Products of scales

    def _multiply(
        self, kernel: Kernel, port: int, factors: Sequence[int], rule: str
    ) -> bool:
        """Set a port's scale to a product of scales; return False if one is unknown."""
        value = kernel.values[port] if port < len(kernel.values) else None
        if value is None or (rule == "bias" and value.parameters is not None):
            return True
        known = [each for i in factors if (each := kernel.parameters(i)) is not None]
        if len(known) < len(factors):
            return False
        axis = channel_axis(kernel, value.ssa.type)
        try:
            parameters = kernel.choice(port, self.rule).for_product(known, axis)
            if parameters is None:
                value.float_reason = "factors have several scales that do not match"
                return True
            if rule == "bias":
                parameters = self._enlarged(kernel, port, factors, parameters)
        except ValueError as e:
            value.float_reason = str(e)
            return True
        self._set(kernel, port, parameters, kernel.rule_text(rule))
        return True

    def _enlarged(
        self,
        kernel: Kernel,
        port: int,
        factors: Sequence[int],
        parameters: UniformType,
    ) -> UniformType:
        """
        Return the parameters of a bias. If the bias would overflow its storage, enlarge
        its scale, and the scale of the filter to keep the product of scales.
        """
        bias = kernel.values[port]
        if bias is None or not bias.is_constant:
            return parameters
        sizes = np.abs(bias.content()).astype(np.float64)
        if not np.isfinite(sizes).all():
            raise ValueError("the constant has infinities or NaN")
        if (pair := _filter_and_input(kernel, port, factors)) is None:
            return parameters
        scales = parameters.get_scales()
        if not scales.ndim:
            sizes = sizes.max(initial=0.0)
        if sizes.shape != scales.shape:
            return parameters
        is_large = sizes / scales >= _LARGEST_BIAS
        if not is_large.any():
            return parameters
        enlarged = np.where(is_large, sizes / _LARGEST_BIAS, scales)
        _set_filter_scales(kernel, *pair, is_large, enlarged)
        return with_scales(parameters, enlarged)

    # Constraints in Python

    def _call(self, kernel: Kernel, function: QuantFn) -> None:
        """
        Apply a Python constraint. Raise `PassFailedException` if it fails, or does not
        set ports to uniform types.
        """
        specs = [kernel.parameters(i) or spec for i, spec in enumerate(kernel.op.specs)]
        count = kernel.input_count
        inputs, outputs = specs[:count], specs[count:]
        name = getattr(function, "__name__", repr(function))
        subject = f"constraint '{name}' of kernel '{kernel.name}'"
        try:
            returned = function(inputs, outputs)
        except PassFailedException:
            raise
        except Exception as e:
            fail(kernel.op, f"{subject} failed: {type(e).__name__}: {e}")
        try:
            changed_inputs, changed_outputs = (
                [*map(operator.index, ports)] for ports in returned
            )
        except (TypeError, ValueError):
            expected = "indices of changed operands and indices of changed results"
            fail(kernel.op, f"{subject} returned '{returned}', expected {expected}")
        for kind, ports, changed, new_specs in (
            ("operand", kernel.inputs, changed_inputs, inputs),
            ("result", kernel.outputs, changed_outputs, outputs),
        ):
            for index in changed:
                is_port = 0 <= index < min(len(ports), len(new_specs))
                if not is_port or kernel.values[ports[index]] is None:
                    changed_port = f"{kind} {index}, which is not quantized"
                    fail(kernel.op, f"{subject} changed {changed_port}")
                port = ports[index]
                spec = new_specs[index]
                parameters = _checked_parameters(kernel, port, spec, subject)
                self._set(kernel, port, parameters, kernel.rule_text(name))


def _filter_and_input(
    kernel: Kernel, bias: int, factors: Sequence[int]
) -> tuple[int, int] | None:
    """Return the ports of an 8-bit constant filter and its input, or `None`."""
    filters = [f for f in factors if f in kernel.constraints.coefficients]
    if len(factors) != 2 or len(filters) != 1:
        return None
    (filter_port,), (input_port,) = filters, {*factors} - {*filters}
    filter = kernel.values[filter_port]
    if filter is None or not filter.is_constant or filter.is_immutable:
        return None
    storages = [kernel.ports[i].storage for i in (filter_port, input_port, bias)]
    widths = [each.storage_type_integral_width for each in storages if each is not None]
    return (filter_port, input_port) if widths == [8, 8, 32] else None


def _set_filter_scales(
    kernel: Kernel,
    filter_port: int,
    input_port: int,
    is_large: NDArray[np.bool_],
    bias_scales: Floats,
) -> None:
    """Enlarge the filter scales at channels with an enlarged bias scale."""
    filter = kernel.values[filter_port]
    filter_parameters = kernel.parameters(filter_port)
    input_parameters = kernel.parameters(input_port)
    assert filter is not None
    assert filter_parameters is not None
    assert input_parameters is not None
    scales = np.where(
        is_large,
        bias_scales / input_parameters.get_scales(),
        filter_parameters.get_scales(),
    )
    filter.parameters = with_scales(filter_parameters, scales)
    filter.decision = kernel.rule_text("bias")


def _checked_parameters(
    kernel: Kernel, port: int, spec: Attribute, subject: str
) -> UniformType:
    """
    Return a port's uniform type from a Python constraint, or raise `PassFailedException`.
    """
    value = kernel.values[port]
    assert value is not None
    type_ = value.ssa.type
    if not isinstance(spec, UniformType) or not is_specification(spec, type_):
        expected = f"'!quant.uniform' for elements of '{type_}'"
        problem = f"{subject} set {kernel.port_name(port)} to '{spec}'"
        fail(kernel.op, f"{problem}; expected {expected}")
    return spec


def _is_only_moved(value: PortValue) -> bool:
    """Return True if the first user of a constant only moves or orders constants."""
    if value.parameters is not None or not value.is_constant or not value.users:
        return False
    kernel, _ = value.users[0]
    inputs = (kernel.values[port] for port in kernel.inputs)
    return kernel.constraints.is_same_scale and all(
        x is None or x.is_constant for x in inputs
    )


def _first_specification(value: PortValue) -> UniformType | None:
    """
    Return the first user's specification if all users have one and the value has no
    parameters.
    """
    if value.parameters is not None or value.is_constant:
        return None
    specified = [
        own[0]
        for kernel, port in value.users
        if (own := kernel.rescaled.get(port)) is not None and own[1] == SPECIFICATION
    ]
    return specified[0] if specified and len(specified) == len(value.users) else None


def _shared_parameters(kernel: Kernel) -> UniformType | None:
    """
    Return the per-tensor parameters for a same-scale kernel. Parameters from before
    propagation take precedence; then those of a single operand, of a single result, and
    of the first port.
    """
    known = [
        (port, parameters)
        for port in range(len(kernel.ports))
        if (parameters := kernel.parameters(port)) is not None
        # Per-axis parameters may need another axis at another port.
        and parameters.is_per_tensor
    ]
    for candidates in ([e for e in known if _is_immutable(kernel, e[0])], known):
        for only in (kernel.inputs, kernel.outputs):
            if len(only) == 1:
                for port, parameters in candidates:
                    if port in only:
                        return parameters
        if candidates:
            return candidates[0][1]
    return None


def _is_immutable(kernel: Kernel, port: int) -> bool:
    if (own := kernel.rescaled.get(port)) is not None:
        return own[1] == SPECIFICATION
    value = kernel.values[port]
    return value is not None and value.is_immutable
