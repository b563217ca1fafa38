"""
Replace quantized types by their storage types at the boundaries of functions.

The types of function arguments, block arguments and call results become storage types
in place. `quant.scast` converts back to quantized types, or to storage types:

* after an argument or call result that had a quantized type, for uses other than calls,
  returns and branches;
* after any other op whose quantized result is passed to a call, return or branch.

A value that is only passed on gets no cast. Casts are in MLIR's order: each cast is
inserted right after the definition of its operand, so the last one inserted comes first.
(Results of one op that are needed in several blocks are cast in the textual order of
the blocks; MLIR uses the dominator tree.)

Existing storage casts that reverse each other are folded, as in MLIR. MLIR's conversion
also folds all other ops, among them a `quant.qcast` followed by a `quant.dcast`. That fold
changes numbers. This pass leaves other folds to `canonicalize`.

An error leaves the module unchanged. Unlike MLIR's pass, this pass supports quantized
arguments of blocks other than the entry block. It also supports function values: their
types change in place, without a cast.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, LocationAttr, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue, Use
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from xdsl_quant.diagnostics import fail, op_name, refusing
from xdsl_quant.dialects.quant import QuantizedType, StorageCastOp, StoredQuantizedType
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.runtime.garbage_collection import without_garbage_collection
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.cast_folding import find_folds, remove_folded
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern
from xdsl_quant.transforms.building.type_replacement import (
    TypeReplacement,
    defined_values,
    is_quantized,
    set_type,
)


class StrippedTypes(TypeReplacement):
    """Replacement of quantized types by their storage types."""

    def replace_quantized(
        self, type_: Attribute, quantized_type: QuantizedType
    ) -> Attribute:
        storage = StoredQuantizedType.cast_to_signless_storage_type(type_)
        if storage is None:
            raise ValueError(
                f"'{quantized_type}' has no storage type; convert it to '!quant.uniform' "
                "first"
            )
        return storage


def _is_call(op: Operation) -> bool:
    # xDSL does not have `func.call_indirect`: it is an unregistered op.
    return isinstance(op, CallOp) or op_name(op) == "func.call_indirect"


def _is_boundary_value(value: SSAValue) -> bool:
    """Return True if a value is a function's block argument or a call's result."""
    owner = value.owner
    if isinstance(owner, Block):
        return isinstance(owner.parent_op(), FuncOp)
    return _is_call(owner)


def _boundary_name(value: OpResult | BlockArgument) -> str:
    if isinstance(value, OpResult):
        return f"result #{value.index}"
    kind = "argument" if value.block.prev_block is None else "block argument"
    return f"{kind} #{value.index}"


def _targets(op: Operation) -> list[SSAValue]:
    """Return the arguments of successor blocks: a branch passes its last operands."""
    if not isinstance(op.parent_op(), FuncOp):
        return []
    return [arg for block in op.successors for arg in block.args]


def _passed_operands(op: Operation) -> Sequence[int]:
    """Return the indices of operands that are passed to a call, a return or a block."""
    count = len(op.operands)
    if _is_call(op) or isinstance(op, ReturnOp):
        return range(count)
    return range(max(count - len(_targets(op)), 0), count)


def _is_passed(use: Use) -> bool:
    return use.index in _passed_operands(use.operation)


class _Interface(NamedTuple):
    """Quantized values that enter or leave a function or block at one op."""

    entering: Sequence[OpResult | BlockArgument]
    """Quantized arguments of the blocks of a function, or results of a call."""

    passing: Sequence[int]
    """Indices of quantized operands that are passed on and need a cast."""

    function_values: Sequence[SSAValue]


@dataclass(frozen=True)
class StripFuncQuantTypes(CheckedPattern[_Interface]):
    """
    Replace quantized types by storage types in the signature of a function and the
    arguments of its blocks, or in the operands and results of a call, a return or a branch.

    Callers are not updated, so apply the pattern to a whole module.
    """

    _types: StrippedTypes = field(
        default_factory=StrippedTypes, init=False, compare=False, repr=False
    )

    _stored: dict[SSAValue, SSAValue] = field(
        default_factory=dict[SSAValue, SSAValue], init=False, compare=False, repr=False
    )
    """Storage cast of each passed value."""

    # Planning

    def plan(self, op: Operation) -> _Interface | None:
        entering: Sequence[OpResult | BlockArgument] = ()
        if isinstance(op, FuncOp):
            self._check_types(op, op.function_type.inputs, "argument")
            self._check_types(op, op.function_type.outputs, "result")
            for block in op.body.blocks:
                self._check_types(op, block.arg_types, "block argument")
            entering = [arg for block in op.body.blocks for arg in block.args]
        elif _is_call(op):
            self._check_types(op, op.result_types, "result")
            entering = op.results
        self._check_branch(op)
        passed = _passed_operands(op)
        self._check_types(op, [op.operands[i].type for i in passed], "operand")
        interface = _Interface(
            [value for value in entering if is_quantized(value)],
            self._operands_to_cast(op, passed),
            [v for v in defined_values(op) if isinstance(v.type, FunctionType)],
        )
        for value in interface.function_values:
            self._check_type(op, value.type, "function value")
        for value in interface.entering:
            if not all(map(_is_passed, value.uses)):
                self._check_castable(op, value, _boundary_name(value))
        for i in interface.passing:
            self._check_castable(op, op.operands[i], f"operand #{i}")
        return interface if any(interface) or isinstance(op, FuncOp) else None

    @staticmethod
    def _operands_to_cast(op: Operation, passed: Sequence[int]) -> Sequence[int]:
        """Return the indices in `passed` of quantized operands that need a cast."""
        return [
            i
            for i in passed
            if is_quantized(op.operands[i]) and not _is_boundary_value(op.operands[i])
        ]

    def _check_branch(self, op: Operation) -> None:
        targets = _targets(op)
        operands = op.operands[len(op.operands) - len(targets) :]
        types, operand_types = ([v.type for v in vs] for vs in (targets, operands))
        # The block arguments may already have storage types.
        legal = (operand_types, [*map(self._types.replace, operand_types)])
        has_quantized = any(map(is_quantized, (*targets, *operands)))
        if has_quantized and types not in legal:
            fail(
                op,
                f"'{op_name(op)}' op has successors with quantized arguments, but its "
                "last operands do not have the types of these arguments",
            )

    def _check_types(
        self, op: Operation, types: Iterable[Attribute], kind: str
    ) -> None:
        for index, type_ in enumerate(types):
            self._check_type(op, type_, f"{kind} #{index}")

    def _check_type(self, op: Operation, type_: Attribute, subject: str) -> None:
        with refusing(op, f"{subject} cannot be stripped"):
            self._types.replace(type_)

    def _check_castable(self, op: Operation, value: SSAValue, subject: str) -> None:
        quantized_type = QuantizedType.get_quantized_element_type(value.type)
        assert quantized_type is not None
        with refusing(op, f"{subject} cannot be stripped"):
            quantized_type.verify_container(value.type)

    # Rewriting

    def rewrite(
        self, op: Operation, plan: _Interface, rewriter: PatternRewriter
    ) -> None:
        for value in plan.function_values:
            set_type(value, self._types.replace(value.type))
        replaced = isinstance(op, FuncOp) and self._types.replace_in_signature(op)
        self._strip_entering(op, plan.entering)
        # Folding may have removed the need for a cast since planning.
        if passing := self._operands_to_cast(op, plan.passing):
            operands = list(op.operands)
            for index in passing:
                operands[index] = self._stored_value(op, operands[index])
            op.operands = operands
        if replaced or plan.function_values or plan.entering or passing:
            rewriter.notify_op_modified(op)

    def _strip_entering(
        self, op: Operation, values: Sequence[OpResult | BlockArgument]
    ) -> None:
        operands_of_users: dict[Operation, list[SSAValue]] = {}
        for value in values:
            quantized = value.type
            set_type(value, self._types.replace(quantized))
            uses = [use for use in value.uses if not _is_passed(use)]
            if not uses:
                continue
            location = op.location if isinstance(value, OpResult) else value.location
            cast_value = _insert_cast(value, quantized, value.name_hint, location)
            for use in uses:
                user = use.operation
                if user not in operands_of_users:
                    operands_of_users[user] = list(user.operands)
                operands_of_users[user][use.index] = cast_value
        # Set all operands at once: one by one is quadratic in their number.
        for user, operands in operands_of_users.items():
            user.operands = operands

    def _stored_value(self, op: Operation, value: SSAValue) -> SSAValue:
        """Return the storage cast of a quantized value, inserted on first use."""
        if (cached := self._stored.get(value)) is None:
            hint = value.name_hint
            cached = self._stored[value] = _insert_cast(
                value,
                self._types.replace(value.type),
                None if hint is None else f"{hint}_stripped",
                op.location,
            )
        return cached


def _insert_cast(
    value: SSAValue, type_: Attribute, name_hint: str | None, location: LocationAttr
) -> SSAValue:
    """Insert a storage cast right after the definition of its operand."""
    owner = value.owner
    is_argument = isinstance(owner, Block)
    point = InsertPoint.at_start(owner) if is_argument else InsertPoint.after(owner)
    result = LoweringBuilder(point, location=location).op(
        StorageCastOp, (value,), type_
    )
    result.name_hint = name_hint
    return result


@dataclass(frozen=True)
class StripFuncQuantTypesPass(CountingPass):
    """
    Replace quantized types by their storage types in the signatures and block arguments
    of all `func.func`, and in all calls, returns and branches.

    Inside of functions, `quant.scast` converts between quantized and storage types.

    See external [documentation](https://mlir.llvm.org/docs/Passes/#-strip-func-quant-types).
    """

    name = "strip-func-quant-types"

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        storage_casts = [o for o in op.walk() if isinstance(o, StorageCastOp)]
        pattern = StripFuncQuantTypes()
        with without_garbage_collection():
            pattern.plan_module(op)
            # MLIR's conversion folds these as well.
            folds = find_folds(storage_casts)
            remove_folded(storage_casts, folds)
            changed = pattern.rewrite_planned()
        return PassOutcome(
            storage_casts,
            changed + len(folds),
            "functions or calls with quantized types",
        )
