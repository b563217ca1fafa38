"""
Match the ops of a block against the kernel patterns of a target.

A kernel has one port for each use of a value defined outside of it, in the order of
uses: a kernel with one op has the operands of the op as ports. Constants such as weights,
and destinations of linalg ops, are ports as well, so a kernel contains only the ops of
its pattern and the statistics between them. Results of a kernel are the values with users
outside, and all results of the last op.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from itertools import compress, product
from operator import itemgetter

from xdsl.dialects.builtin import (
    DictionaryAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    UnrankedMemRefType,
)
from xdsl.dialects.func import CallOp
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
"""Traits of ops that compute with values."""


_STATISTICS = StatisticsOp | StatisticsRefOp
"""Ops that return their operand; those between ops of a kernel belong to the kernel."""


@dataclass(frozen=True)
class KernelMatch:
    """Ops that form a kernel, in block order."""

    kernel: KernelSpec
    ops: Sequence[Operation]
    outputs: Sequence[SSAValue]
    """Results with users outside the kernel, and all results of the last op."""

    positions: Sequence[int]
    """Positions of the ops in their block."""

    float_constants: AbstractSet[SSAValue]
    """Constants at ports that the target keeps in floating point."""


def kernel_matches(
    block: Block, target: TargetSpec, constants: AbstractSet[SSAValue]
) -> Sequence[KernelMatch]:
    """
    Return disjoint kernels of a block. Kernels with more ops take precedence, then
    those whose last op comes first, then those listed first in the target.

    Args:
        block: the block to search.
        target: the target with the patterns.
        constants: the constant values of the module.
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
    """Return True if a value has users and `constants` lists it for each of them."""
    users = [use.operation for use in value.uses]
    return bool(users) and all(value in constants.get(user, ()) for user in users)


def constant_values(module: ModuleOp) -> AbstractSet[SSAValue]:
    """Return the results of constants and of effect-free ops on constants."""
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
    Return True if a value depends only on constants. With `through_kernels`, results of
    kernels whose operands are all constant count as constants.
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
    """Return the operands of an op; of data movement ops, only the moved tensors."""
    moves = quantization_trait(op, traits.MovesElements)
    return op.operands if moves is None else moves.moved_operands(op)


def has_no_effects(op: Operation) -> bool:
    """
    Return True if an op is known to have no side effects: by its effects trait, or
    because a quantization trait describes its computation and it uses no memrefs.
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
"""Dialects whose ops only pass values on."""


@cache
def unsupported_reason(op_type: type[Operation], name: str) -> str | None:
    """
    Return the reason why an op, registered or not, cannot be part of a kernel, or `None`.
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


COMPOSITE = "composite "
"""Prefix of the names of composite ops and functions in patterns."""


def composite_name(op: Operation) -> str | None:
    """Return the name of a composite op, or else of the function that a call calls."""
    name = op.get_attr_or_prop("name")
    if isinstance(entries := op.attributes.get("tfl.composite"), DictionaryAttr):
        name = entries.data.get("name")
    if isinstance(name, StringAttr) and (
        isinstance(op, CallOp) or op_name(op) == "stablehlo.composite"
    ):
        return name.data
    return op.callee.string_value() if isinstance(op, CallOp) else None


def pattern_names(op: Operation) -> Sequence[str]:
    """
    Return the names of an op in patterns: the op's name and, if there is a region, the
    name with the ops in the region, e.g. `linalg.generic[arith.addf,arith.maximumf]`.
    Calls and composites are named after the function or composite op, after `COMPOSITE`.
    """
    name = op_name(op)
    if (composite := composite_name(op)) is not None:
        is_call = isinstance(op, CallOp)
        return (*(() if is_call else (name,)), COMPOSITE + composite)
    if len(op.regions) != 1 or len(op.regions[0].blocks) != 1:
        return (name,)
    body = (inner for inner in op.regions[0].block.ops if inner.next_op is not None)
    return name, f"{name}[{','.join(map(op_name, body))}]"


def uses_from_outside(ops: Sequence[Operation]) -> Iterator[Use]:
    """Yield uses of outside values by ops and by the ops in their regions."""
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
        Patterns by the name of their last op, with the kernel and its position in the
        target. Optional steps are expanded; Python patterns have the key `None`.
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
        """Yield the kernels whose last op is `op`, in the target's order of patterns."""
        names = (None, *pattern_names(op))
        candidates = [each for name in names for each in self.candidates.get(name, ())]
        for _, kernel, steps in sorted(candidates, key=itemgetter(0)):
            ops = self.by_function(op, steps) if callable(steps) else _chain(op, steps)
            if ops and (match := self.match(kernel, ops)) is not None:
                yield match

    def by_function(self, op: Operation, function: MatchFn) -> Sequence[Operation]:
        """
        Return the ops that a Python pattern matches, in block order.

        Raises:
            PassFailedException: if the function fails or does not return ops.
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
        """Return the kernel that the ops form, or `None`."""
        if any(
            not isinstance(op, _STATISTICS)
            and unsupported_reason(type(op), pattern_names(op)[0])
            for op in ops
        ):
            return None
        # A kernel of a single op may have unknown effects.
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
        # Float kernels have no quantized operands or results.
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
        """Return the results of a kernel, or `()` if a user precedes its last op."""
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
        """Return the position of an op or its ancestor in the block of `sibling`."""
        while (
            op.parent is not sibling.parent and (parent := op.parent_op()) is not None
        ):
            op = parent
        return self.positions.get(op, len(self.positions))


def without_options(steps: Sequence[PatternStep]) -> Iterator[Sequence[PatternStep]]:
    """Yield the steps of a pattern for each choice of its optional steps."""
    choices = [(True, False) if step.is_optional else (True,) for step in steps]
    for choice in product(*choices):
        if any(choice):
            yield [*compress(steps, choice)]


def _chain(op: Operation, steps: Sequence[PatternStep]) -> Sequence[Operation]:
    """Return the chain of ops that matches a pattern and ends with `op`; else `()`."""
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
