"""
Which ops of a block form the kernels of a target.

A kernel takes the values that its ops use and that others define, one port for each use, in
the order of uses: ports of a kernel of one op are the operands of that op. Constants such
as weights, and the destinations of linalg ops, are ports, too. So nothing is part of a
kernel but the ops of a pattern, and statistics of the values between them. Its results are
the values that others use, and all results of its last op.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from itertools import compress, product
from operator import itemgetter

from xdsl.dialects.builtin import MemRefType, ModuleOp, UnrankedMemRefType
from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.irdl import IRDLOperation
from xdsl.traits import ConstantLike, IsTerminator, get_effects
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import isa

from xdsl_quant.diagnostics import fail, op_name
from xdsl_quant.dialects.quant import RegionOp, StatisticsOp, StatisticsRefOp, traits
from xdsl_quant.dialects.quant.traits import (
    has_quantization_trait,
    quantization_trait,
    quantization_traits,
)
from xdsl_quant.dialects.quant.types import QuantizedType, scalar_or_element_type

from .target_spec import KernelSpec, MatchFn, PatternStep, TargetSpec

COMPUTATIONS = (
    traits.ComputesElementwise,
    traits.MovesElements,
    traits.MultipliesAndAccumulates,
    traits.OrdersElements,
    traits.Reduces,
)
"""What ops say that compute with values, and nothing else."""


_STATISTICS = StatisticsOp | StatisticsRefOp
"""Ops that pass a value on: between the ops of a kernel, they are part of it."""


@dataclass(frozen=True)
class KernelMatch:
    """Ops that form a kernel, in their order."""

    kernel: KernelSpec
    ops: Sequence[Operation]
    outputs: Sequence[SSAValue]
    """Results of the ops that others use, and those of the last op."""

    positions: Sequence[int]
    """Where the ops are in their block."""

    float_constants: AbstractSet[SSAValue]
    """The constants at ports that take them as floats, such as the 0 of a rectifier."""


def kernel_matches(
    block: Block, target: TargetSpec, constants: AbstractSet[SSAValue]
) -> Sequence[KernelMatch]:
    """
    Return the kernels of a block that have no op in common: those of the most ops
    before others, then those whose last op is first, then those that are first in the
    target.

    Args:
        block: the block.
        target: the kernels.
        constants: the values that are constant.
    """
    matcher = _Matcher(target, constants, {op: i for i, op in enumerate(block.ops)})
    by_size: dict[int, list[KernelMatch]] = {}
    for op in block.ops:
        for match in matcher.matches(op):
            size = sum(not isinstance(each, _STATISTICS) for each in match.ops)
            by_size.setdefault(size, []).append(match)
    taken: set[Operation] = set()
    chosen: list[KernelMatch] = []
    for size in sorted(by_size, reverse=True):
        for match in by_size[size]:
            if taken.isdisjoint(match.ops):
                taken.update(match.ops)
                chosen.append(match)
    as_floats = {op: match.float_constants for match in chosen for op in match.ops}
    return [
        match
        for match in chosen
        if not all(
            value in constants and _are_in(value, as_floats) for value in match.outputs
        )
    ]


def _are_in(
    value: SSAValue, constants: Mapping[Operation, AbstractSet[SSAValue]]
) -> bool:
    """True if all users of a value have it among their constants, and there are any."""
    users = [use.operation for use in value.uses]
    return bool(users) and all(value in constants.get(user, ()) for user in users)


def constant_values(module: ModuleOp) -> AbstractSet[SSAValue]:
    """Results of constants, and of ops without effects that take nothing but these."""
    constants: set[SSAValue] = set()
    for op in module.walk():
        if not op.results or op.regions:
            continue
        sources = _moved_operands(op)
        if op.has_trait(ConstantLike) or (
            sources and constants.issuperset(sources) and has_no_effects(op)
        ):
            constants.update(op.results)
    return constants


def is_constant(value: SSAValue, *, through_kernels: bool = False) -> bool:
    """
    True if a value is a constant, or depends on constants alone.

    Args:
        value: the value.
        through_kernels: whether kernels may compute it from constants.
    """
    values, seen = [value], {value}
    while values:
        op = values.pop().owner
        if not isinstance(op, Operation):
            return False
        if op.has_trait(ConstantLike):
            continue
        sources = _moved_operands(op)
        is_pure = (
            through_kernels
            if isinstance(op, RegionOp)
            else not op.regions and has_no_effects(op)
        )
        if not sources or not is_pure:
            return False
        values += [source for source in sources if source not in seen]
        seen.update(sources)
    return True


def _moved_operands(op: Operation) -> Sequence[SSAValue]:
    """Return the operands whose elements are in the results."""
    moves = quantization_trait(op, traits.MovesElements)
    return op.operands if moves is None else moves.moved(op)


def has_no_effects(op: Operation) -> bool:
    """
    Return True if an op is known to have no effects: it says so, or it says what it
    computes, and takes no memory.
    """
    if isinstance(op, _STATISTICS):
        return True
    if (effects := get_effects(op)) is not None:
        return not effects
    memory = MemRefType | UnrankedMemRefType
    return has_quantization_trait(op, *COMPUTATIONS) and not any(
        isinstance(value.type, memory) for value in (*op.operands, *op.results)
    )


DIALECTS_OF_CONTROL_FLOW = ("builtin", "cf", "func", "scf")
"""Dialects whose ops pass values on."""


@cache
def unsupported_reason(op_type: type[Operation], name: str) -> str | None:
    """
    Why an op cannot be part of a kernel, as an apposition; `None` if it can.

    Args:
        op_type: the class of the op.
        name: its name, also if it is not registered.
    """
    dialect, _, _ = name.partition(".")
    if dialect in (*DIALECTS_OF_CONTROL_FLOW, "quant"):
        return f"an op of dialect '{dialect}'"
    if op_type.has_trait(ConstantLike):
        return "a constant"
    if op_type.has_trait(IsTerminator):
        return "a terminator"
    if any(
        isinstance(trait, traits.CastsQuantization)
        for trait in quantization_traits(op_type, name)
    ):
        return "a cast of quantized values"
    if issubclass(op_type, IRDLOperation) and not op_type.get_irdl_definition().results:
        return "an op without results"
    return None


def pattern_names(op: Operation) -> Sequence[str]:
    """
    What patterns call an op: its name, and, if it has a region, the name with those of the
    ops in there, e.g. `linalg.generic[arith.addf,arith.maximumf]`.
    """
    name = op_name(op)
    if len(op.regions) != 1 or len(op.regions[0].blocks) != 1:
        return (name,)
    body = (inner for inner in op.regions[0].block.ops if inner.next_op is not None)
    return name, f"{name}[{','.join(map(op_name, body))}]"


def uses_from_outside(ops: Sequence[Operation]) -> Iterator[Use]:
    """Yield the uses in ops, and in their regions, of values that others define."""
    inside = {inner for op in ops for inner in op.walk()}
    for inner in (inner for op in ops for inner in op.walk()):
        for index, operand in enumerate(inner.operands):
            owner = operand.owner
            definer = owner if isinstance(owner, Operation) else owner.parent_op()
            if definer not in inside:
                yield Use(inner, index)


class _Matcher:
    def __init__(
        self,
        target: TargetSpec,
        constants: AbstractSet[SSAValue],
        positions: Mapping[Operation, int],
    ):
        self.constants = constants
        self.positions = positions
        self.candidates = defaultdict[
            str | None, list[tuple[int, KernelSpec, Sequence[PatternStep] | MatchFn]]
        ](list)
        """
        Patterns without options by the name of their last op, each with its position in the
        target and its kernel; those in Python by `None`.
        """
        for number, kernel in enumerate(target.kernels.values()):
            for pattern in kernel.patterns:
                if callable(pattern):
                    self.candidates[None].append((number, kernel, pattern))
                    continue
                for steps in without_options(pattern.steps):
                    for name in steps[-1].names:
                        self.candidates[name].append((number, kernel, steps))

    def matches(self, op: Operation) -> Iterator[KernelMatch]:
        """Yield the kernels that end with an op, in the order of the target."""
        names = (None, *pattern_names(op))
        candidates = [each for name in names for each in self.candidates.get(name, ())]
        for _, kernel, steps in sorted(candidates, key=itemgetter(0)):
            ops = self.found(op, steps) if callable(steps) else _chain(op, steps)
            if ops and (match := self.match(kernel, ops)) is not None:
                yield match

    def found(self, op: Operation, function: MatchFn) -> Sequence[Operation]:
        """
        Return the ops that a pattern in Python has found, in their order.

        Raises:
            PassFailedException: if it fails, or returns no ops.
        """
        name = getattr(function, "__name__", repr(function))
        try:
            ops: object = function(op) or ()
        except PassFailedException:
            raise
        except Exception as e:
            fail(op, f"pattern '{name}' failed: {type(e).__name__}: {e}")
        if not isa(ops, Sequence[Operation]):
            fail(op, f"pattern '{name}' returned '{ops}', expected ops or None")
        if not ops or ops[-1] is not op or any(o not in self.positions for o in ops):
            return ()
        return sorted({*ops}, key=self.positions.__getitem__)

    def match(self, kernel: KernelSpec, ops: Sequence[Operation]) -> KernelMatch | None:
        """Return the kernel of some ops; `None` if they cannot be one."""
        if any(
            not isinstance(op, _STATISTICS)
            and unsupported_reason(type(op), op_name(op))
            for op in ops
        ):
            return None
        # An op alone may be one that does not say its effects.
        has_effects = (
            get_effects(ops[0]) if len(ops) == 1 else not all(map(has_no_effects, ops))
        )
        if has_effects or not (outputs := self.outputs(ops)):
            return None
        inputs = [use.operation.operands[use.index] for use in uses_from_outside(ops)]
        input_types, output_types = (
            [scalar_or_element_type(value.type) for value in values]
            for values in (inputs, outputs)
        )
        # Kernels that are quantized already are no kernels of floats.
        if any(isinstance(t, QuantizedType) for t in (*input_types, *output_types)):
            return None
        fitted = kernel.signature(
            input_types, output_types, lambda number: inputs[number] in self.constants
        )
        if fitted is None:
            return None
        positions = [self.positions[op] for op in ops]
        float_constants = {
            value
            for port, value in zip(fitted.inputs, inputs, strict=True)
            if port.is_constant and port.storage is None
        }
        return KernelMatch(kernel, ops, outputs, positions, float_constants)

    def outputs(self, ops: Sequence[Operation]) -> Sequence[SSAValue]:
        """
        Return the results; none if others would use them before the kernel has them.
        """
        inside = {inner for op in ops for inner in op.walk()}
        last = self.positions[ops[-1]]
        outputs: list[SSAValue] = []
        for result in (result for op in ops[:-1] for result in op.results):
            others = {use.operation for use in result.uses} - inside
            if any(self.position(other, ops[0]) <= last for other in others):
                return ()
            if others:
                outputs.append(result)
        return [*outputs, *ops[-1].results]

    def position(self, op: Operation, sibling: Operation) -> int:
        """
        Return the position of an op, or of the one that has it, in the block of
        another.
        """
        while (
            op.parent is not sibling.parent and (parent := op.parent_op()) is not None
        ):
            op = parent
        return self.positions.get(op, len(self.positions))


def without_options(steps: Sequence[PatternStep]) -> Iterator[Sequence[PatternStep]]:
    """Yield a pattern with each choice of its optional steps."""
    choices = [(True, False) if step.is_optional else (True,) for step in steps]
    for choice in product(*choices):
        if any(choice):
            yield [*compress(steps, choice)]


def _chain(op: Operation, steps: Sequence[PatternStep]) -> Sequence[Operation]:
    """Return the ops of a pattern that ends with an op; none if they are not there."""
    *earlier, last = steps
    if not any(name in last.names for name in pattern_names(op)):
        return ()
    if not earlier:
        return (op,)
    for operand in op.operands:
        between: list[Operation] = []
        user, owner = op, operand.owner
        while isinstance(owner, _STATISTICS) and _is_only_user(user, owner):
            between.append(owner)
            user, owner = owner, owner.operands[0].owner
        if (
            isinstance(owner, Operation)
            and owner.parent is op.parent
            and _is_only_user(user, owner)
            and (ops := _chain(owner, earlier))
        ):
            return (*ops, *reversed(between), op)
    return ()


def _is_only_user(op: Operation, producer: Operation) -> bool:
    return all(
        use.operation is op for result in producer.results for use in result.uses
    )
