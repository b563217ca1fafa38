"""
The greedy work list: constraints of kernels are applied until no parameters change.

Items are taken from the end of the list, which begins as kernels and constants in the order
of the text. Once a value has parameters they stay: a constraint that asks for others is
fulfilled by a rescale at the port of the kernel. So each constraint that was fulfilled
stays fulfilled, and the list ends.
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
from .axes import carried, channel_axis, coefficient_axis, coefficient_ranges
from .kernels import SPECIFICATION, Graph, Kernel, PortValue
from .parameters import ParameterChoice, with_scales
from .statistics import remove_redundant_statistics, unite_ranges

_LARGEST_BIAS = (2**31 - 1) // 2
"""Stored biases from here on might overflow when products are added."""


class Resolver:
    """Decides the parameters of all values that constraints say anything about."""

    def __init__(self, graph: Graph, rule: RangeRule):
        self.graph = graph
        self.rule: RangeRule = rule
        self.work: list[Kernel | PortValue] = []
        self.waiting: list[Kernel] = []
        """
        Kernels of which an operand was decided by another one that takes it. Their turn is
        when the list is empty.
        """

    def run(self) -> None:
        """Decide what can be decided."""
        values = self.graph.all_values
        if self.rule != "tflite":
            unite_ranges(self.graph.kernels)
        remove_redundant_statistics(values)
        for value in values:
            self._decide_by_range(value)
        self.work = [*self.graph.items]
        self._work_off()
        for value in values:
            if _is_only_moved(value):
                self._choose_for_content(value)
                self._work_off()
            elif (parameters := _first_specification(value)) is not None:
                self._decide(value, parameters, SPECIFICATION)
                self._push_producer(value)
                self._work_off()

    def _work_off(self) -> None:
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

    # What is known before propagation

    def _decide_by_range(self, value: PortValue) -> None:
        if value.parameters is None and value.range is not None:
            choice = self._choice(value)
            try:
                if (of_axis := coefficient_ranges(value)) is None:
                    parameters = choice.for_range(*value.range)
                else:
                    axis, pairs = of_axis
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
        """Give the values that are coupled with one its parameters, if it has one scale."""
        if value.parameters is None or not value.parameters.is_per_tensor:
            return
        others = [*value.coupled]
        # From now on all of them have parameters.
        value.coupled.clear()
        for other in others:
            if other.parameters is None:
                other.parameters = value.parameters
                other.decision = "coupling"
                other.is_immutable = value.is_immutable
                self._fit_ports(other)
                self._push_users(other)
                self._push_producer(other)

    def _choice(self, value: PortValue) -> ParameterChoice:
        """How a value is stored where it is computed, or where it is first used."""
        kernel, port = min(value.ports, key=lambda p: p[0].ports[p[1]].is_wildcard)
        choice = kernel.choice(port, self.rule)
        is_power_of_two = any(k.constraints.is_power_of_two for k, _ in value.ports)
        return replace(choice, is_power_of_two=is_power_of_two)

    def _fit_ports(self, value: PortValue) -> None:
        """Rescale at ports that store values in another way."""
        assert value.parameters is not None
        for kernel, port in value.ports:
            if port in kernel.rescaled or kernel.accepts(port, value.parameters):
                continue
            self._rescale(kernel, port, value.parameters, kernel.rule_text("storage"))

    def _rescale(
        self, kernel: Kernel, port: int, parameters: UniformType, decision: str
    ) -> None:
        """Give a port parameters of its own."""
        kernel.rescaled[port] = self._acceptable(kernel, port, parameters), decision

    def _acceptable(
        self, kernel: Kernel, port: int, parameters: UniformType
    ) -> UniformType:
        """Parameters for the same range that a port may have."""
        if kernel.accepts(port, parameters):
            return parameters
        try:
            return kernel.choice(port, self.rule).for_range_of(parameters)
        except ValueError:
            # No scale of the expressed type is right.
            return parameters

    # Constants

    def _decide_by_content(self, value: PortValue) -> None:
        """The parameters of a weight, or of any constant that nothing else decides."""
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
        """Apply the constraints of a kernel; whether nothing is left to be decided."""
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
        """
        Give all ports of a kernel of same scale the parameters of one that has several
        scales; whether that was possible.
        """
        ports = [port for port, value in enumerate(kernel.values) if value is not None]
        known = [port for port in ports if kernel.parameters(port) is not None]
        if not known:
            return False
        fixed = (port for port in known if _is_immutable(kernel, port))
        source = next(fixed, known[0])
        carried_to = {port: carried(kernel, source, port) for port in ports}
        decision = kernel.rule_text("same scale")
        if None in carried_to.values():
            for port in ports:
                if (value := kernel.values[port]) is not None:
                    value.float_reason = (
                        f"{kernel.port_name(source)} of {kernel.name} has several scales, "
                        "and they belong to no known dimension of other ports"
                    )
            return False
        for port, parameters in carried_to.items():
            if parameters is not None:
                self._set(kernel, port, parameters, decision)
        return True

    def _set(
        self, kernel: Kernel, port: int, parameters: UniformType, decision: str
    ) -> None:
        """Set the parameters at a port: those of the value, unless it has others."""
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
        """The first user in the text is the next in turn."""
        self.work += [user for user, _ in reversed(value.users)]

    def _push_producer(self, value: PortValue) -> None:
        if value.producer is not None:
            self.work.append(value.producer[0])

    def _wait(self, value: PortValue) -> None:
        """
        Let the other users of a value wait. TensorFlow Lite forgets them, so that a second
        run would decide what the first one left.
        """
        self.waiting += [user for user, _ in value.users if not user.is_done]

    # Products of scales

    def _multiply(
        self, kernel: Kernel, port: int, factors: Sequence[int], rule: str
    ) -> bool:
        """
        Set a port to the product of the scales of others; whether that was possible, or
        needless.
        """
        value = kernel.values[port] if port < len(kernel.values) else None
        if value is None or (rule == "bias" and value.parameters is not None):
            return True
        known = [found for i in factors if (found := kernel.parameters(i)) is not None]
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
        Return the parameters of a bias: if it would not fit storage, its scale is
        enlarged, and with it that of the filter, so that it is the product of scales
        still.
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
        Apply a constraint in Python.

        Raises:
            PassFailedException: if it fails, or changes a port to no uniform type.
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
            expected = "the indices of changed operands and those of changed results"
            fail(kernel.op, f"{subject} returned '{returned}', expected {expected}")
        for kind, ports, changed, found in (
            ("operand", kernel.inputs, changed_inputs, inputs),
            ("result", kernel.outputs, changed_outputs, outputs),
        ):
            for index in changed:
                is_port = 0 <= index < min(len(ports), len(found))
                if not is_port or kernel.values[ports[index]] is None:
                    changed_port = f"{kind} {index}, which is not quantized"
                    fail(kernel.op, f"{subject} changed {changed_port}")
                port = ports[index]
                parameters = _checked_parameters(kernel, port, found[index], subject)
                self._set(kernel, port, parameters, kernel.rule_text(name))


def _filter_and_input(
    kernel: Kernel, bias: int, factors: Sequence[int]
) -> tuple[int, int] | None:
    """
    Return the ports of a constant filter of 8 bits and of its input, if they are
    factors.
    """
    filters = [f for f in factors if f in kernel.constraints.coefficients]
    if len(factors) != 2 or len(filters) != 1:
        return None
    (port,), (other,) = filters, {*factors} - {*filters}
    filter = kernel.values[port]
    if filter is None or not filter.is_constant or filter.is_immutable:
        return None
    storages = [kernel.ports[i].storage for i in (port, other, bias)]
    widths = [each.storage_type_integral_width for each in storages if each is not None]
    return (port, other) if widths == [8, 8, 32] else None


def _set_filter_scales(
    kernel: Kernel,
    filter_port: int,
    input_port: int,
    is_large: NDArray[np.bool_],
    bias_scales: Floats,
) -> None:
    """Enlarge the scales of a filter where those of the bias were."""
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
    kernel: Kernel, port: int, found: Attribute, subject: str
) -> UniformType:
    """Raise unless a constraint in Python made a uniform type for a port."""
    value = kernel.values[port]
    assert value is not None
    type_ = value.ssa.type
    if not isinstance(found, UniformType) or not is_specification(found, type_):
        expected = f"'!quant.uniform' of elements of '{type_}'"
        made = f"{subject} made {kernel.port_name(port)} '{found}'"
        fail(kernel.op, f"{made}; expected {expected}")
    return found


def _is_only_moved(value: PortValue) -> bool:
    """
    Return True if a value is a constant that a kernel moves, and nothing decides the
    result.
    """
    if value.parameters is not None or not value.is_constant or not value.users:
        return False
    kernel, _ = value.users[0]
    inputs = (kernel.values[port] for port in kernel.inputs)
    return kernel.constraints.is_same_scale and all(
        x is None or x.is_constant for x in inputs
    )


def _first_specification(value: PortValue) -> UniformType | None:
    """
    Return the parameters of the first kernel that takes a value, if those of all
    kernels that take it are specified, and nothing else decides it.
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
    Return the parameters that all ports of a kernel of same scale take. What was said
    before propagation comes before what propagation decided; then that of an only
    operand comes before that of an only result, and this before the first that is
    known.
    """
    known = [
        (port, parameters)
        for port in range(len(kernel.ports))
        if (parameters := kernel.parameters(port)) is not None
        # Which dimension has several scales is another one at another port.
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
