"""
Replace quantized types by their storage types wherever functions pass values.

The types of arguments, of call results and of block arguments of functions become storage
types in place. Where another op still needs a quantized value, a `quant.scast` makes it:

* after an argument or a call that had a quantized type, for those uses that are not
  themselves a call, a return or a branch;
* after any other op with a quantized result that is passed, returned or branched with.

Hence a value that is only passed on has no cast at all. The order of casts is MLIR's: each
cast is inserted right after the definition of its operand, so that the last one comes
first. (Results of one op that are needed in several blocks are cast in the order of the
blocks in the text; MLIR takes that of the dominator tree.)

Of the casts that are there already, one storage cast after another goes if it reverses it,
as in MLIR. MLIR's conversion folds all other ops as well, and with them a quantization that
is followed by a dequantization, which changes numbers. This is left to `canonicalize`.

Everything that may fail is checked before the first change. MLIR fails where this pass
does not: quantized arguments of blocks other than the entry block, and functions used as
values. The type of a function value has no cast, and changes wherever such a value is
defined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import (
    FunctionType,
    LocationAttr,
    ModuleOp,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.diagnostics import fail, op_name
from xdsl_quant.dialects.quant import (
    QuantizedType,
    StorageCastOp,
    StoredQuantizedType,
)
from xdsl_quant.transforms.building.cast_folding import find_folds, remove_folded
from xdsl_quant.transforms.building.garbage_collection import without_garbage_collection
from xdsl_quant.transforms.building.type_replacement import (
    TypeReplacement,
    defined_values,
    set_type,
)


class _NoStorageTypeError(Exception):
    """A quantized type does not say how its values are stored."""


class _StorageTypes(TypeReplacement):
    """Quantized types replaced by their storage types."""

    def replace_quantized(
        self, type_: Attribute, quantized_type: QuantizedType
    ) -> Attribute:
        storage = StoredQuantizedType.cast_to_signless_storage_type(type_)
        if storage is None:
            raise _NoStorageTypeError(
                f"'{quantized_type}' has no storage type: give the value a uniform type "
                "first"
            )
        return storage


def _is_quantized(value: SSAValue) -> bool:
    return QuantizedType.get_quantized_element_type(value.type) is not None


def _is_call(op: Operation) -> bool:
    # xDSL does not have `func.call_indirect`: it is an unregistered op.
    return isinstance(op, CallOp) or op_name(op) == "func.call_indirect"


def _place(value: SSAValue) -> str:
    """Where a function or a call has a value."""
    if isinstance(value, OpResult):
        return f"result #{value.index}"
    assert isinstance(value, BlockArgument)
    kind = "argument" if value.block.prev_block is None else "block argument"
    return f"{kind} #{value.index}"


def _is_function_branch(op: Operation) -> bool:
    """Whether an op leads from one block of a function to others."""
    return bool(op.successors) and isinstance(op.parent_op(), FuncOp)


def _why_not_castable(type_: Attribute, storage: Attribute) -> str | None:
    """Why there is no cast between a quantized type and its storage type, if so."""
    # Whether a per-axis or sub-channel type fits its tensor is known to the cast.
    cast_op = StorageCastOp(Block(arg_types=(storage,)).args[0], type_)
    try:
        cast_op.verify_()
    except VerifyException as e:
        return str(e)
    finally:
        cast_op.erase()
    return None


@dataclass
class _FunctionInterfaces:
    """The places of a module where values enter and leave functions and blocks."""

    types: _StorageTypes = field(default_factory=_StorageTypes)

    functions: list[FuncOp] = field(default_factory=list[FuncOp])
    """All functions."""

    function_values: list[SSAValue] = field(default_factory=list[SSAValue])
    """Values that are functions."""

    entering: dict[SSAValue, Operation] = field(
        default_factory=dict[SSAValue, Operation]
    )
    """Quantized block arguments and results of calls, with the function or the call."""

    passing: dict[Operation, int] = field(default_factory=dict[Operation, int])
    """
    Calls, returns and branches, and the number of leading operands that they do not pass
    on but use themselves.
    """

    storage_casts: list[StorageCastOp] = field(default_factory=list[StorageCastOp])
    """All storage casts."""

    _castable: dict[Attribute, str | None] = field(
        default_factory=dict[Attribute, str | None]
    )
    """Types of which it is known why they cannot be cast, or that they can be."""

    # Looking

    def add(self, op: Operation) -> None:
        """
        Look at an op.

        Raises:
            PassFailedException: if something has no storage type, or if it is unknown
                which operands of a branch become block arguments.
        """
        if isinstance(op, FuncOp):
            self._add_function(op)
        elif _is_call(op):
            self.passing[op] = 0
            self._add_entering(op, op.results, "result")
            self._check_types(op, op.operand_types, "operand")
        elif isinstance(op, ReturnOp):
            self.passing[op] = 0
            self._check_types(op, op.operand_types, "operand")
        elif isinstance(op, StorageCastOp):
            self.storage_casts.append(op)
        elif _is_function_branch(op):
            self._add_branch(op)
        self._add_function_values(op)

    def _add_function_values(self, op: Operation) -> None:
        for value in defined_values(op):
            if isinstance(value.type, FunctionType):
                self.function_values.append(value)
                self._check_type(op, value.type, "function value")

    def _add_function(self, function: FuncOp) -> None:
        self.functions.append(function)
        self._check_types(function, function.function_type.inputs, "argument")
        self._check_types(function, function.function_type.outputs, "result")
        for block in function.body.blocks:
            self._add_entering(function, block.args, "block argument")

    def _add_entering(
        self, op: Operation, values: Sequence[SSAValue], kind: str
    ) -> None:
        self._check_types(op, [value.type for value in values], kind)
        for value in values:
            if _is_quantized(value):
                self.entering[value] = op

    def _add_branch(self, branch: Operation) -> None:
        """
        Operands of a branch that become block arguments are its last ones, by convention
        of all ops that have block arguments and no operands in between.
        """
        targets = [arg for block in branch.successors for arg in block.args]
        if not any(map(_is_quantized, targets)):
            return
        own = len(branch.operands) - len(targets)
        target_types = [arg.type for arg in targets]
        if target_types != [o.type for o in branch.operands[own:]]:
            fail(
                branch,
                f"'{op_name(branch)}' op has successors with quantized arguments, but its "
                "last operands do not have the types of these arguments",
            )
        self.passing[branch] = own

    def _check_types(
        self, op: Operation, types: Iterable[Attribute], kind: str
    ) -> None:
        for index, type_ in enumerate(types):
            self._check_type(op, type_, f"{kind} #{index}")

    def _check_type(self, op: Operation, type_: Attribute, what: str) -> None:
        try:
            self.types.replace(type_)
        except _NoStorageTypeError as e:
            fail(op, f"'{op_name(op)}' op {what} cannot be stripped: {e}")

    # Checking

    def check_casts(self) -> None:
        """
        Check that all casts that are needed exist.

        Raises:
            PassFailedException: with the reason and the place of one that does not.
        """
        for value, op in self.entering.items():
            if not all(map(self._is_passed, value.uses)):
                self._check_castable(op, value, _place(value))
        for op, own in self.passing.items():
            for index, operand in enumerate(op.operands[own:], own):
                if operand not in self.entering and _is_quantized(operand):
                    self._check_castable(op, operand, f"operand #{index}")

    def _check_castable(self, op: Operation, value: SSAValue, what: str) -> None:
        type_ = value.type
        if type_ not in self._castable:
            reason = _why_not_castable(type_, self.types.replace(type_))
            self._castable[type_] = reason
        if (reason := self._castable[type_]) is not None:
            fail(op, f"'{op_name(op)}' op {what} cannot be stripped: {reason}")

    def _is_passed(self, use: Use) -> bool:
        """Whether a use passes the value to a call, a return or a block."""
        own = self.passing.get(use.operation)
        return own is not None and use.index >= own

    # Rewriting

    def strip(self) -> None:
        """Change all types, and insert casts."""
        # MLIR's conversion folds them on this occasion.
        remove_folded(self.storage_casts, find_folds(self.storage_casts))
        for value in self.function_values:
            set_type(value, self.types.replace(value.type))
        for function in self.functions:
            self.types.replace_in_signature(function)
        self._strip_entering()
        self._strip_passing()

    def _strip_entering(self) -> None:
        operands_of_users: dict[Operation, list[SSAValue]] = {}
        for value in self.entering:
            quantized = value.type
            set_type(value, self.types.replace(quantized))
            uses = [use for use in value.uses if not self._is_passed(use)]
            if not uses:
                continue
            location = (
                value.location
                if isinstance(value, BlockArgument)
                else self.entering[value].location
            )
            cast_value = _insert_cast(value, quantized, value.name_hint, location)
            for use in uses:
                user = use.operation
                if user not in operands_of_users:
                    operands_of_users[user] = list(user.operands)
                operands_of_users[user][use.index] = cast_value
        # An op with many operands gets all of its new ones at once.
        for user, operands in operands_of_users.items():
            user.operands = operands

    def _strip_passing(self) -> None:
        stored: dict[SSAValue, SSAValue] = {}
        for op, own in self.passing.items():
            operands = list(op.operands)
            quantized = [
                (index, operand)
                for index, operand in enumerate(operands)
                if index >= own and _is_quantized(operand)
            ]
            for index, operand in quantized:
                if operand not in stored:
                    hint = operand.name_hint
                    stored[operand] = _insert_cast(
                        operand,
                        self.types.replace(operand.type),
                        None if hint is None else f"{hint}_stripped",
                        op.location,
                    )
                operands[index] = stored[operand]
            if quantized:
                op.operands = operands


def _insert_cast(
    value: SSAValue, type_: Attribute, name_hint: str | None, location: LocationAttr
) -> SSAValue:
    """Insert a storage cast right after the definition of its operand."""
    cast_op = StorageCastOp.create(
        operands=(value,), result_types=(type_,), location=location
    )
    cast_op.result.name_hint = name_hint
    owner = value.owner
    insert_point = (
        InsertPoint.at_start(owner)
        if isinstance(owner, Block)
        else InsertPoint.after(owner)
    )
    Rewriter.insert_op(cast_op, insert_point)
    return cast_op.result


@dataclass(frozen=True)
class StripFuncQuantTypesPass(ModulePass):
    """
    Replace quantized types by their storage types in the signatures and block arguments
    of all `func.func`, and in all calls, returns and branches.

    Inside of functions, `quant.scast` converts between the two.

    See external [documentation](https://mlir.llvm.org/docs/Passes/#-strip-func-quant-types).
    """

    name = "strip-func-quant-types"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        interfaces = _FunctionInterfaces()
        with without_garbage_collection():
            for inner_op in op.walk():
                interfaces.add(inner_op)
            interfaces.check_casts()
            interfaces.strip()
