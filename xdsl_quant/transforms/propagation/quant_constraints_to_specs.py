"""
Convert constraints on values to specifications of kernel ports. Constraints are pairs
of casts, statistics, fake quantization, quantized element types before or after a cast,
and specifications of other ports. Casts may also be those of a frontend dialect, e.g.
`tfl.quantize` and `stablehlo.uniform_dequantize`.

A constraint on a value applies to all ports that define or use it. Values connected by
casts of the quant dialect, statistics, fake quantization or `quant.coupled_ref` count
as one value. All values of `quant.coupled_ref`s with one key get the same
specification; ranges are united.

A cast with parameters, or fake quantization, applies to the uses of its result. If the
value has no other uses, it also applies to the definition of the value. Otherwise only
ports after the cast get its parameters, and the value is rescaled for them.

Several constraints on a value must be equal, with these exceptions. Quantization
parameters and `!quant.none` override ranges. A type that is at least as wide as
`!quant.any` overrides it. Uses in kernels and uses outside of kernels may have different
parameters, with a rescale in between. Ports without parameters then get those of the
value's definition or, if it has none, of a cast.

Constraints on a value without ports apply across calls: to the ports of the same value in
callers and callees, unless these ports have a range. The pass duplicates functions that
are called with different constraints.

Ops inside kernels are ignored. An error leaves the module unchanged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import NamedTuple, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.disjoint_set import DisjointSet

from xdsl_quant.diagnostics import (
    counted_names,
    fail,
    location_prefix,
    refuse,
    refusing,
    warn,
)
from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    ConstFakeQuantOp,
    ConstFakeQuantPerAxisOp,
    CoupledRefOp,
    DequantizeCastOp,
    NoQuantizedType,
    QuantizeCastOp,
    QuantizedType,
    RegionOp,
    ScaledQuantizedType,
    StatisticsOp,
    StatisticsRefOp,
    StoredQuantizedType,
)
from xdsl_quant.dialects.quant.fake_quantization import FakeQuantOp
from xdsl_quant.dialects.quant.ops import stated_attributes
from xdsl_quant.dialects.quant.regions import is_specification
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.transforms.statistics.quant_convert_simulated_quantization import (
    quantized_result_type,
)
from xdsl_quant.transforms.statistics.quant_stats_to_calibrated import check_real_values
from xdsl_quant.transforms.statistics.ranges.value_ranges import (
    ValueRanges,
    attribute_ranges,
    calibrated_ranges,
    recorded_ranges,
)

from .dialect_casts import casts_as_quant
from .module_kernels import kernels_of, ops_outside_kernels
from .port_ranges import port_ranges, set_coupled_ports, set_result_rounding, set_specs
from .resolution.functions import merge_copies, separate_calls, warn_of_public_functions

LinkOp = (
    StatisticsOp
    | StatisticsRefOp
    | CoupledRefOp
    | ConstFakeQuantOp
    | ConstFakeQuantPerAxisOp
    | QuantizeCastOp
    | DequantizeCastOp
)
"""Op whose operand and result count as one value for constraints."""


_UNDECIDED = AnyQuantizedType | CalibratedQuantizedType
"""Types without parameters."""


class KernelPort(NamedTuple):
    """Operand or result of a kernel."""

    kernel: RegionOp
    number: int
    """Port number; operands come first."""

    value: SSAValue
    spec: Attribute
    ranges: ValueRanges | None
    """Ranges from a calibrated type or from attributes."""

    @property
    def type(self) -> Attribute:
        """The specification, or a calibrated type with the ranges from attributes."""
        if self.ranges is None or not isinstance(self.spec, AnyFloat):
            return self.spec
        return self.ranges.calibrated_type(self.spec)

    @property
    def is_output(self) -> bool:
        """True if the kernel defines the value."""
        return self.number >= len(self.kernel.inputs)

    def __str__(self) -> str:
        kind, number = "input", self.number
        if self.is_output:
            kind, number = "output", number - len(self.kernel.inputs)
        return f"{kind} #{number} of kernel '{self.kernel.kernel}'"


def kernel_ports(kernel: RegionOp) -> Iterator[KernelPort]:
    """
    Yield the ports of a kernel.

    Raises:
        PassFailedException: if the attribute `quant.port_stats` is invalid.
    """
    values, ranges = (*kernel.inputs, *kernel.results), port_ranges(kernel)
    for number, (value, spec) in enumerate(zip(values, kernel.specs, strict=True)):
        yield KernelPort(kernel, number, value, spec, ranges.get(number))


Port = KernelPort
ports_of = kernel_ports
"""Name of `kernel_ports` in version 0.1."""


@dataclass(frozen=True, eq=False)
class Constraint:
    """Constraint on the quantization of a value, with its origin."""

    op: Operation
    subject: str
    """Op or port with the constraint, for messages."""

    type: QuantizedType
    ranges: ValueRanges | None = None
    """Ranges of a calibrated type or `!quant.any`."""

    is_given: bool = False
    """True for specifications, and types of values quantized outside of kernels."""

    is_definition: bool = False
    """True if the value's definition has this type."""

    @property
    def is_specified_use(self) -> bool:
        """True if the constraint specifies parameters of an operand."""
        return (
            isinstance(self.op, RegionOp)
            and not self.is_definition
            and isinstance(self.type, ScaledQuantizedType)
        )

    def __str__(self) -> str:
        place = location_prefix(self.op.location).removesuffix(": ")
        return f"{self.type} of {self.subject}{f' at {place}' if place else ''}"

    def _calibrated(self, type_: Attribute) -> CalibratedQuantizedType | None:
        """Return the calibrated type for a value's ranges, or `None` without ranges."""
        expressed_type = scalar_or_element_type(type_)
        if self.ranges is None or not isinstance(expressed_type, AnyFloat):
            return None
        return self.ranges.calibrated_type(expressed_type)

    def type_for(self, type_: Attribute) -> QuantizedType:
        """Return the required type of a value, adapted to the value's float type."""
        if isinstance(self.type, AnyQuantizedType):
            return self.type
        return self._calibrated(type_) or self.type

    def parts(self, type_: Attribute) -> Sequence[Constraint]:
        """Split `!quant.any` with ranges into constraints on storage and on range."""
        calibrated = self._calibrated(type_)
        if calibrated is None or not isinstance(self.type, AnyQuantizedType):
            return (self,)
        return replace(self, ranges=None), replace(self, type=calibrated)


def constraint_of(op: LinkOp, *, exact_bits: bool = False) -> Constraint | None:
    """
    Return the constraint of an op, or `None` if it has none or only repeats the
    preceding cast.

    Args:
        op: the op.
        exact_bits: the option of `quant-convert-simulated-quantization`.

    Raises:
        PassFailedException: if no quantized type exists for fake quantization.
    """
    if isinstance(op, DequantizeCastOp) and isinstance(op.input.owner, QuantizeCastOp):
        return None
    with refusing(op, "cannot be converted"):
        type_, ranges = _type_and_ranges(op, exact_bits)
    if type_ is None:
        return None
    is_definition = isinstance(op, DequantizeCastOp)
    is_used = isinstance(op, QuantizeCastOp) and not all(
        isinstance(use.operation, DequantizeCastOp) for use in op.result.uses
    )
    return Constraint(
        op,
        f"'{op.name}' op",
        type_,
        ranges,
        is_given=is_definition or is_used,
        is_definition=is_definition,
    )


def _type_and_ranges(
    op: LinkOp, exact_bits: bool
) -> tuple[QuantizedType | None, ValueRanges | None]:
    match op:
        case StatisticsOp():
            check_real_values(op)
            ranges = recorded_ranges(op)
            expressed_type = scalar_or_element_type(op.input.type)
            assert isinstance(expressed_type, AnyFloat)
            return ranges.calibrated_type(expressed_type), ranges
        case ConstFakeQuantOp() | ConstFakeQuantPerAxisOp():
            quantized = quantized_result_type(op, exact_bits=exact_bits)
            return QuantizedType.get_quantized_element_type(quantized), None
        case _:
            value = op.result if isinstance(op, QuantizeCastOp) else op.input
            type_ = QuantizedType.get_quantized_element_type(value.type)
            if isinstance(type_, CalibratedQuantizedType):
                return type_, calibrated_ranges(type_, op.attributes)
            if isinstance(type_, AnyQuantizedType):
                return type_, attribute_ranges(op.attributes)
            return type_, None


def _fulfils(type_: QuantizedType, required: QuantizedType) -> bool:
    """Return True if a type satisfies the constraint of another type."""
    if isinstance(required, CalibratedQuantizedType):
        return isinstance(type_, ScaledQuantizedType | NoQuantizedType)
    if not isinstance(required, AnyQuantizedType):
        return type_ == required
    if (
        not isinstance(type_, StoredQuantizedType)
        or type_.is_signed != required.is_signed
    ):
        return False
    width, least = (t.storage_type_integral_width for t in (type_, required))
    return width > least or (width == least and not isinstance(type_, AnyQuantizedType))


def _united_constraints(a: Constraint, b: Constraint) -> Constraint:
    """Return `a` with the union of the ranges of both constraints."""
    assert a.ranges is not None
    assert b.ranges is not None
    assert isinstance(a.type.expressed_type, AnyFloat)
    ranges = a.ranges.union(b.ranges)
    type_ = ranges.calibrated_type(a.type.expressed_type)
    return replace(a, type=type_, ranges=ranges)


def _axis_agrees(a: ValueRanges, b: ValueRanges) -> bool:
    """Return True if the per-axis ranges are equal, or missing on one side."""
    if a.axis_ranges is None or b.axis_ranges is None:
        return True
    return a.axis == b.axis and a.axis_ranges.tolist() == b.axis_ranges.tolist()


@dataclass(eq=False)
class _LinkGroup:
    """Link ops and kernel ports of a value, or of coupled values."""

    links: list[LinkOp] = field(default_factory=list[LinkOp])
    ports: list[KernelPort] = field(default_factory=list[KernelPort])

    passed: list[_LinkGroup] = field(default_factory=list["_LinkGroup"])
    """Groups without ports that contain the same value in callers and callees."""

    @cached_property
    def couplings(self) -> Sequence[CoupledRefOp]:
        return [op for op in self.links if isinstance(op, CoupledRefOp)]

    @property
    def values(self) -> Sequence[SSAValue]:
        """Values of link ops and at ports; operands of link ops come first."""
        return [
            *(op.input for op in self.links),
            *(op.result for op in self.links),
            *(port.value for port in self.ports),
        ]

    def specifications(
        self, constraints: Sequence[Constraint]
    ) -> Iterator[tuple[KernelPort, Constraint]]:
        """
        Yield each port that gets a new specification, with its constraint. Raise
        `PassFailedException` if constraints contradict each other.
        """
        ranges = [c for c in constraints if c.ranges is not None]
        others = [c for c in constraints if c.ranges is None]
        own = self._specified_uses()
        if own and not self._has_common_spec(own):
            # These uses keep their parameters: resolve only the other ports.
            remaining = [c for c in constraints if not c.is_specified_use]
            ports = [port for port in self.ports if port not in own]
            if remaining and ports:
                yield from _LinkGroup(self.links, ports).specifications(remaining)
            return
        is_rescaled = (
            not self.couplings
            and len({c.type for c in others}) > 1
            and all(isinstance(c.type, ScaledQuantizedType) for c in others)
        )
        if not is_rescaled:
            chosen = self.resolved([*others, *ranges])
            yield from ((port, chosen) for port in self.ports)
            return
        definitions = [c for c in others if c.is_definition]
        casts = [c for c in others if not c.is_given]
        if sources := (definitions or casts)[:1] or ranges:
            chosen = self.resolved(sources)
            for port in self.ports:
                if not isinstance(port.spec, ScaledQuantizedType):
                    yield port, chosen

    def _specified_uses(self) -> Sequence[KernelPort]:
        """Return the operand ports whose specification has parameters."""
        return [
            port
            for port in self.ports
            if not self.couplings
            and not port.is_output
            and isinstance(port.spec, ScaledQuantizedType)
        ]

    def _has_common_spec(self, own: Sequence[KernelPort]) -> bool:
        """Return True if all uses have the same parameters, so the value may have them."""
        uses = [port for port in self.ports if not port.is_output]
        values = {port.value for port in self.ports}
        values.update(link.result for link in self.links)
        return (
            len(own) == len(uses)
            and len({port.spec for port in own}) == 1
            and all(
                isinstance(use.operation, RegionOp | LinkOp | CallOp)
                for value in values
                for use in value.uses
            )
        )

    def resolved(self, constraints: Sequence[Constraint]) -> Constraint:
        """
        Merge constraints; types other than `!quant.any` override ranges. Raise
        `PassFailedException` if constraints contradict each other.
        """
        ranges = [c for c in constraints if c.ranges is not None]
        others = [c for c in constraints if c.ranges is None]
        if others and ranges:
            storage = reduce(self._merged, others)
            if isinstance(storage.type, AnyQuantizedType):
                return replace(storage, ranges=reduce(self._merged, ranges).ranges)
        return reduce(self._merged, [*others, *ranges])

    def _merged(self, a: Constraint, b: Constraint) -> Constraint:
        if a.ranges is not None and b.ranges is not None:
            if self.couplings:
                return _united_constraints(a, b)
            if a.type == b.type and _axis_agrees(a.ranges, b.ranges):
                return a if b.ranges.axis is None else b
        elif a.type == b.type or _fulfils(a.type, b.type):
            return a
        elif _fulfils(b.type, a.type):
            return b
        values = "a value"
        if self.couplings:
            values = f"values coupled by '{self.couplings[0].coupled_key.data}'"
        problem = f"contradictory constraints on {values}, found {a} and {b}"
        fail(b.op, f"{problem}; keep one of them")


def _cast_type(link: LinkOp, *, exact_bits: bool) -> QuantizedType | None:
    """Return the parameters of a cast or fake quantization, or `None`."""
    if isinstance(link, DequantizeCastOp | StatisticsOp | StatisticsRefOp):
        return None
    constraint = constraint_of(link, exact_bits=exact_bits)
    if constraint is None or not isinstance(constraint.type, ScaledQuantizedType):
        return None
    return constraint.type


class _Splitting:
    """Split of a group at casts that apply to only some uses."""

    def __init__(self, group: _LinkGroup, *, exact_bits: bool):
        self._group = group
        self._links = {*group.links}
        self._cast_types = {
            link: type_
            for link in group.links
            if (type_ := _cast_type(link, exact_bits=exact_bits)) is not None
        }
        self.branches: list[_LinkGroup] = []
        """Group of the uses before casts, then a group for the uses of each cast."""

        if group.couplings or not self._cast_types:
            self.branches = [group]
            return
        results = {link.result for link in group.links}
        roots = [value for value in dict.fromkeys(group.values) if value not in results]
        given = (
            port.spec
            for port in group.ports
            if port.is_output and isinstance(port.spec, ScaledQuantizedType)
        )
        self._add_branch([], roots, next(given, None))

    def _add_branch(
        self,
        casts: Sequence[LinkOp],
        values: Sequence[SSAValue],
        type_: Attribute | None,
    ) -> None:
        """
        Add a branch with parameters `type_` that starts at `values`, the results of
        `casts`.
        """
        members, links = {*values}, {*casts}
        pending: list[SSAValue] = [*values]
        is_used = False
        while True:
            next_casts, has_other_uses = self._follow(pending, members, links)
            is_used |= has_other_uses
            types = {self._cast_types[cast] for cast in next_casts}
            if is_used or len(types) != 1 or type_ not in (None, *types):
                break
            # All uses come after equal casts.
            (type_,) = types
            links.update(next_casts)
            pending = [cast.result for cast in next_casts]
            members.update(pending)
        group = self._group
        self.branches.append(
            _LinkGroup(
                [link for link in group.links if link in links],
                [port for port in group.ports if port.value in members],
                [] if self.branches else group.passed,
            )
        )
        for each in dict.fromkeys(self._cast_types[cast] for cast in next_casts):
            same = [cast for cast in next_casts if self._cast_types[cast] == each]
            self._add_branch(same, [cast.result for cast in same], each)

    def _follow(
        self, pending: list[SSAValue], members: set[SSAValue], links: set[LinkOp]
    ) -> tuple[Sequence[LinkOp], bool]:
        """
        Collect the link ops that use `pending`. Return the casts among the users, and
        True if there are other users.
        """
        casts: dict[LinkOp, None] = {}
        is_used = False
        while pending:
            for use in pending.pop().uses:
                op = use.operation
                if not isinstance(op, LinkOp) or op not in self._links:
                    is_used = True
                elif op in self._cast_types:
                    casts[op] = None
                elif op.result not in members:
                    links.add(op)
                    members.add(op.result)
                    pending.append(op.result)
        return [*casts], is_used


def _passed(call: CallOp, function: FuncOp) -> Iterator[tuple[SSAValue, SSAValue]]:
    """Yield pairs of operand and argument, then of result and returned value."""
    yield from zip(call.operands, function.body.block.args, strict=False)
    end = function.body.blocks[-1].last_op
    if len(function.body.blocks) == 1 and isinstance(end, ReturnOp):
        yield from zip(call.results, end.operands, strict=False)


_T = TypeVar("_T")


def _connected(pairs: Iterable[tuple[_T, _T]]) -> DisjointSet[_T]:
    """Return the sets of items that pairs connect."""
    pairs = [*pairs]
    joined = DisjointSet([value for pair in pairs for value in pair])
    for a, b in pairs:
        joined.union(a, b)
    return joined


def _link_groups(
    links: Sequence[LinkOp], ports: Sequence[KernelPort], calls: Mapping[CallOp, FuncOp]
) -> Sequence[_LinkGroup]:
    """Group the link ops and ports of a module by value; coupled values share a group."""
    pairs: list[tuple[SSAValue | str, SSAValue | str]] = []
    pairs += [(port.value, port.value) for port in ports]
    for op in links:
        pairs.append((op.input, op.result))
        if isinstance(op, CoupledRefOp):
            pairs.append((op.input, op.coupled_key.data))
    coupled = _connected(pairs)
    groups = defaultdict[object, _LinkGroup](_LinkGroup)
    for op in links:
        groups[coupled.find(op.input)].links.append(op)
    for port in ports:
        groups[coupled.find(port.value)].ports.append(port)
    if passed := [pair for call in calls.items() for pair in _passed(*call)]:
        _find_passed([*groups.values()], passed)
    return [*groups.values()]


def _find_passed(
    groups: Sequence[_LinkGroup], passed: Sequence[tuple[SSAValue, SSAValue]]
) -> None:
    """Set `passed` of each group, given the pairs of values that calls pass."""
    members = {g: g.values for g in groups if not g.couplings or g.ports}
    pairs = [(values[0], value) for values in members.values() for value in values]
    linked = _connected([*passed, *pairs])
    by_value = defaultdict[SSAValue, list[_LinkGroup]](list)
    for group, (first, *_) in members.items():
        if not group.ports:
            by_value[linked.find(first)].append(group)
    for group, (first, *_) in members.items():
        if group.ports:
            group.passed = by_value[linked.find(first)]


def _warn_of_links(ops: Sequence[Operation], problem: str, remedy: str) -> None:
    if ops:
        place = location_prefix(ops[0].location)
        warn(f"{problem}, found {counted_names(ops)}; {remedy}", place)


def _replace_at_ports(op: LinkOp, source: SSAValue) -> None:
    """Let kernels and link ops use `source`; erase the cast if it has no other uses."""
    op.result.replace_uses_with_if(
        source, lambda use: isinstance(use.operation, RegionOp | LinkOp)
    )
    if op.result.first_use is None:
        Rewriter.erase_op(op)


def _remove(links: Iterable[LinkOp], branches: Container[LinkOp]) -> None:
    """
    Remove link ops. A cast stays if other ops use or define its quantized value. It also
    stays for uses outside of kernels if no kernel defines the value, or if the cast
    belongs to a branch. A `quant.stats_ref` always stays, and so does a cast that states
    its rounding, unless a kernel rounds its operand.
    """
    quantizes: list[QuantizeCastOp] = []
    for op in links:
        source, rounding_op = op.input, op
        is_kept = op in branches
        match op:
            case QuantizeCastOp():
                quantizes.append(op)
                continue
            case DequantizeCastOp() if isinstance(source.owner, QuantizeCastOp):
                rounding_op, source = source.owner, source.owner.input
                is_kept |= not isinstance(source.owner, RegionOp)
            case ConstFakeQuantOp() | ConstFakeQuantPerAxisOp():
                is_kept |= bool(stated_attributes(op)) and not isinstance(
                    source.owner, RegionOp
                )
            case DequantizeCastOp() | StatisticsRefOp():
                continue
            case _:
                is_kept = False
        if is_kept:
            if not stated_attributes(rounding_op):
                _replace_at_ports(op, source)
            continue
        # In a graph region, an op may be its own operand and must stay.
        if source is not op.result and source.type == op.result.type:
            Rewriter.replace_op(op, (), (source,))
    for op in quantizes:
        if not op.result.uses:
            Rewriter.erase_op(op)


def _stated_rounding(links: Iterable[LinkOp]) -> Mapping[str, Attribute]:
    """
    Return the rounding attributes of the casts of a value.

    Raises:
        PassFailedException: if they round differently.
    """
    casts = [op for op in links if isinstance(op, QuantizeCastOp | FakeQuantOp)]
    stated = [*map(stated_attributes, casts)]
    for cast, attributes in zip(casts, stated, strict=True):
        if attributes != stated[0]:
            problem = "cannot become a specification"
            reason = "another cast of its operand rounds differently"
            refuse(cast, problem, reason, "remove one of them")
    return stated[0] if stated else {}


class _Resolution:
    """Specifications resolved from the constraints of a module."""

    def __init__(
        self,
        module: ModuleOp,
        calls: Mapping[CallOp, FuncOp],
        names: Mapping[Operation, str],
        *,
        exact_bits: bool,
    ):
        self._names = names
        """Names for messages of the casts of other dialects."""

        self._exact_bits = exact_bits
        ops = [*ops_outside_kernels(module)]
        self.links = [op for op in ops if isinstance(op, LinkOp)]
        self.specs = defaultdict[RegionOp, dict[int, Constraint]](dict)
        """Constraints of ports, by kernel and port number."""

        self.rounding = defaultdict[RegionOp, dict[int, Mapping[str, Attribute]]](dict)
        """Rounding attributes of casts of results, by kernel and port number."""

        self.coupled = defaultdict[RegionOp, dict[int, str]](dict)
        """Coupling keys of ports without parameters, by kernel and port number."""

        self.specified: set[LinkOp] = set()
        """Link ops that specifications replace."""

        self.branches: set[LinkOp] = set()
        """Link ops that constrain only some uses of a value."""

        self.elsewhere: set[LinkOp] = set()
        """Link ops on values that no kernel takes or returns."""

        self.unconstrained: set[LinkOp] = set()
        """`quant.coupled_ref` ops whose values have no constraints."""

        ports = [x for op in ops if isinstance(op, RegionOp) for x in kernel_ports(op)]
        pairs = [(op.input, op.result) for op in self.links]
        self._same = _connected([*pairs, *((port.value, port.value) for port in ports)])
        self._at_ports = {self._same.find(port.value) for port in ports}
        self._resolve_all(_link_groups(self.links, ports, calls))

    def _resolve_all(self, groups: Sequence[_LinkGroup]) -> None:
        for group in groups:
            if group.ports:
                self._resolve(group)
        without_ports = {link for g in groups if not g.ports for link in g.links}
        self.elsewhere |= without_ports - self.specified

    def _resolve(self, whole: _LinkGroup) -> None:
        """Resolve the constraints on each group of uses that share parameters."""
        branches = _Splitting(whole, exact_bits=self._exact_bits).branches
        for index, group in enumerate(branches):
            if not group.ports:
                # Without ports, all uses of these casts are outside of kernels.
                continue
            if index:
                self.branches.update(group.links)
            constraints = self._constraints(group)
            constraints += self._passed_constraints(group, constraints)
            if not constraints:
                self.unconstrained.update(group.couplings)
                continue
            for port, chosen in group.specifications(constraints):
                _check_port(port, chosen)
                self.specs[port.kernel][port.number] = chosen
                casts = [x for x in group.links if x.input is port.value]
                if port.is_output and (stated := _stated_rounding(casts)):
                    self.rounding[port.kernel][port.number] = stated
                if group.couplings and isinstance(chosen.type, _UNDECIDED):
                    key = group.couplings[0].coupled_key.data
                    self.coupled[port.kernel][port.number] = key
            elsewhere = [
                x for x in group.links if self._same.find(x.input) not in self._at_ports
            ]
            self.elsewhere.update(elsewhere)
            # Keep a coupling for its values without ports.
            remaining = {*elsewhere, *group.couplings} if elsewhere else set[LinkOp]()
            self.specified.update(x for x in group.links if x not in remaining)

    def _passed_constraints(
        self, group: _LinkGroup, constraints: Sequence[Constraint]
    ) -> list[Constraint]:
        """
        Return the constraints from callers and callees that pass the value of a group
        and have no ports for it. Ranges are united: each may belong to another call.
        """
        has_range = any(c.ranges is not None for c in constraints)
        known = {c.type for c in constraints if isinstance(c.type, ScaledQuantizedType)}
        used: list[Constraint] = []
        for passed in group.passed:
            applicable = [
                c
                for c in self._constraints(passed)
                if (c.ranges is None or not has_range)
                # Different parameters mean a rescale before the call.
                and not (
                    known
                    and isinstance(c.type, ScaledQuantizedType)
                    and c.type not in known
                )
            ]
            if applicable:
                self.specified.update(passed.links)
            used += applicable
        ranges = [c for c in used if c.ranges is not None]
        united = [reduce(_united_constraints, ranges)] if ranges else []
        return [*(c for c in used if c.ranges is None), *united]

    def _constraints(self, group: _LinkGroup) -> list[Constraint]:
        constraints = [
            part
            for link in group.links
            if (found := constraint_of(link, exact_bits=self._exact_bits)) is not None
            for part in replace(
                found, subject=f"'{self._names.get(link, link.name)}' op"
            ).parts(link.input.type)
        ]
        for port in group.ports:
            if isinstance(type_ := port.type, QuantizedType):
                found = Constraint(
                    port.kernel,
                    str(port),
                    type_,
                    port.ranges,
                    is_given=True,
                    is_definition=port.is_output,
                )
                constraints += found.parts(port.value.type)
        return constraints

    def warn_of_remaining(self, module: ModuleOp) -> bool:
        """Warn about link ops that constrain no port. Return True after a warning."""
        # Search again: merging functions erased the links in one of two copies.
        links = [x for x in ops_outside_kernels(module) if isinstance(x, LinkOp)]
        has_kernels = bool(kernels_of(module))
        # Statistics outside of kernels are harmless.
        needless = StatisticsOp | StatisticsRefOp if has_kernels else StatisticsRefOp
        elsewhere = [
            x for x in links if x in self.elsewhere and not isinstance(x, needless)
        ]
        unconstrained = [x for x in links if x in self.unconstrained]
        remedy = "run 'quant-fuse-kernels' first to create kernels"
        if has_kernels:
            remedy = (
                "add kernels for the ops next to them to the target, or remove them"
            )
        problem = "constraints of values outside of kernels have no effect"
        _warn_of_links(elsewhere, problem, remedy)
        problem = "couplings of values without constraints have no effect"
        _warn_of_links(unconstrained, problem, "add statistics, or remove them")
        return bool(elsewhere or unconstrained)


@dataclass(frozen=True)
class QuantConstraintsToSpecsPass(CountingPass):
    """
    Convert casts, statistics, fake quantization and couplings to specifications of
    kernel ports.
    """

    name = "quant-constraints-to-specs"

    exact_bits: bool = False
    """True to keep the bits of fake quantization; else round up to 8, 16 or 32."""

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        separated = separate_calls(op)
        with separated.undone_if_failed(), casts_as_quant(op) as names:
            resolution = _Resolution(
                op, separated.calls, names, exact_bits=self.exact_bits
            )
            for kernel, constraints in resolution.specs.items():
                _specify(kernel, constraints)
                set_result_rounding(kernel, resolution.rounding[kernel])
            for kernel, keys in resolution.coupled.items():
                set_coupled_ports(kernel, keys)
            links = (x for x in resolution.links if x in resolution.specified)
            _remove(links, resolution.branches)
        warn_of_public_functions(merge_copies(separated))
        return PassOutcome(
            resolution.links,
            len(resolution.specs) + len(resolution.coupled),
            "casts, statistics or fake quantization of values at the ports of kernels",
            is_explained=resolution.warn_of_remaining(op),
        )


def _check_port(port: KernelPort, constraint: Constraint) -> None:
    """Raise `PassFailedException` if a constraint does not apply to a port's type."""
    type_ = port.value.type
    if not is_specification(constraint.type_for(type_), type_):
        problem = f"{port} has type '{type_}', which does not support {constraint}"
        fail(port.kernel, f"{problem}; remove one of the constraints")


def _specify(kernel: RegionOp, constraints: dict[int, Constraint]) -> None:
    """Apply constraints, by port number, to the specifications of a kernel."""
    set_specs(
        kernel,
        [
            constraints[port.number].type_for(port.value.type)
            if port.number in constraints
            else port.spec
            for port in kernel_ports(kernel)
        ],
        {
            number: constraint.ranges
            for number, constraint in constraints.items()
            if constraint.ranges is not None
        },
    )
