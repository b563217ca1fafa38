"""
Rewrite variables and op state of TensorFlow Lite models into function arguments and
results.

A function that reads or assigns variables gets an argument and a result for each
variable, and for the states of each recurrent op. Argument attributes give the initial
value, and the index of the result to pass as this argument in the next call: see
[`state_arguments`][xdsl_quant.runtime.state_arguments.state_arguments]. The function is
then free of side effects, and can be lowered and compiled like any other.

```mlir
func.func @count(%step: tensor<i32>) -> tensor<i32> {
  "tfl.call_once"() <{session_init_function = "init"}> : () -> ()
  %h = "tfl.var_handle"() <{container = "", shared_name = "sum"}>
      : () -> tensor<*x!tf_type.resource>
  %0 = "tfl.read_variable"(%h) : (tensor<*x!tf_type.resource>) -> tensor<i32>
  %1 = tfl.add %0, %step {fused_activation_function = "NONE"} : tensor<i32>
  "tfl.assign_variable"(%h, %1) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()
  return %1 : tensor<i32>
}
```

becomes, if `@init` assigns 10 to the variable,

```mlir
func.func @count(
  %step: tensor<i32>,
  %sum: tensor<i32> {tfl.initial_value = dense<10> : tensor<i32>, tfl.next_state = 1 : i32}
) -> (tensor<i32>, tensor<i32>) {
  %0 = tfl.add %sum, %step {fused_activation_function = "NONE"} : tensor<i32>
  return %0, %0 : tensor<i32>, tensor<i32>
}
```

* Stateful functions that are called are inlined. Private ones are erased, unless a
  signature names them (`tf_saved_model.exported_names`).
* `tfl.if` and `tfl.while` yield assigned values as additional results; loops also take
  them as operands.
* A variable has an initial value if the function of a `tfl.call_once` assigns a
  constant to it. Other variables must be assigned before they are read, in each call
  of the function; they get no arguments.

Any other use of a variable is an error, and leaves the module unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NameLoc, NoneAttr, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from xdsl_quant.diagnostics import fail, op_name
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.dialect.recurrent import RecurrentOp
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.runtime.garbage_collection import without_garbage_collection

from .fallbacks import has_state
from .state.functions import Copies, Functions
from .state.signatures import State, declare_state

_Variable = tuple[str, str] | tuple[RecurrentOp, int]
"""Container and name of a variable, or an op and the index of an operand with a state."""

_Access = tfl.ReadVariableOp | tfl.AssignVariableOp

_Changing = tfl.AssignVariableOp | RecurrentOp

_Constant = tfl.ConstOp | tfl.QConstOp


# Values of variables


def _name_of(variable: _Variable, default: str = "state") -> str:
    names = [name for name in reversed(variable) if isinstance(name, str) and name]
    return names[0] if names else default


def _initial_state(variable: _Variable, constant: _Constant) -> State:
    location = constant.location
    name = location.desc.data if isinstance(location, NameLoc) else "state"
    return State(_name_of(variable, name), constant.output.type, constant.value)


_Values = dict[_Variable, SSAValue]
"""Current values of the variables that have been assigned."""


class _Rewriting:
    def __init__(self, function: FuncOp, copies: Copies):
        self.copies = copies
        self.function = copies.copy(function)
        self.initial: dict[_Variable, State] = {}
        """Names, types and initial values of variables that have initial values."""

        self.arguments: dict[_Variable, BlockArgument] = {}
        """Arguments of variables, added when a variable's initial value is first used."""

        self.types: dict[_Variable, Attribute] = {}
        self.is_used = False
        """True after the first read or assignment of a variable."""

        self.initialized = set[str]()

    def rewrite(self) -> FuncOp:
        """
        Return the rewritten copy of the function.

        Raises:
            PassFailedException: if the state of the function cannot become arguments.
        """
        function = self.function
        if len(function.body.blocks) != 1 or not isinstance(
            end := function.body.block.last_op, ReturnOp
        ):
            fail(
                function,
                f"'func.func' op '@{function.sym_name.data}' has state, expected one "
                "block that ends with 'func.return'",
            )
        handles = [op for op in function.walk() if isinstance(op, tfl.VarHandleOp)]
        for handle in handles:
            _check_uses(handle)
        values: _Values = {}
        self._rewrite_block(function.body.block, values)
        for variable in values:
            self._argument(variable)
        for handle in handles:
            Rewriter.erase_op(handle)
        results = [self._value(variable, values) for variable in self.arguments]
        end.operands = [*end.operands, *filter(None, results)]
        declare_state(function, [self.initial[v] for v in self.arguments])
        return function

    def _rewrite_block(self, block: Block, values: _Values) -> None:
        for op in [*block.ops]:
            match op:
                case tfl.ReadVariableOp() | tfl.AssignVariableOp():
                    self.is_used = True
                    self._access(op, values)
                case RecurrentOp() if not op.next_states:
                    self._recurrent(op, values)
                case tfl.CallOnceOp():
                    self._call_once(op)
                case tfl.IfOp() if _is_any_stateful(op):
                    self._if(op, values)
                case tfl.WhileOp() if _is_any_stateful(op):
                    self._while(op, values)
                case _:
                    _check_has_no_state(op)

    # Values of variables

    def _argument(self, variable: _Variable) -> SSAValue | None:
        """Return the argument of a variable; `None` if it has no initial value."""
        if variable in self.arguments or variable not in self.initial:
            return self.arguments.get(variable)
        name, type_, _ = self.initial[variable]
        block = self.function.body.block
        location = NameLoc(StringAttr(name), NoneAttr())
        argument = block.insert_arg(type_, len(block.args), location)
        argument.name_hint = re.sub(r"[^\w$.-]", "_", name)
        self.arguments[variable] = argument
        return argument

    def _value(self, variable: _Variable, values: _Values) -> SSAValue | None:
        """Return the current value of a variable; `None` if it may be unassigned."""
        return values.get(variable) or self._argument(variable)

    def _check_type(self, op: Operation, variable: _Variable, type_: Attribute) -> None:
        """Check that all ops that access a variable use the same type."""
        if (known := self.types.setdefault(variable, type_)) != type_:
            fail(
                op,
                f"'{op.name}' op has type '{type_}' for variable '{_name_of(variable)}', "
                f"expected '{known}' as elsewhere",
            )

    # Ops

    def _variables(self, op: _Changing) -> Sequence[_Variable]:
        """Return the variables that an op changes."""
        if isinstance(op, tfl.AssignVariableOp):
            return [_variable_of(op)]
        original = cast(RecurrentOp, self.copies.originals[op])
        for index in op.STATES:
            constant = op.operands[index].owner
            if not isinstance(constant, _Constant):
                fail(op, f"'{op.name}' op has a state that is not a constant")
            state = _initial_state((original, index), constant)
            self.initial.setdefault((original, index), state)
        return [(original, index) for index in op.STATES]

    def _access(self, op: _Access, values: _Values) -> None:
        variable = _variable_of(op)
        if isinstance(op, tfl.AssignVariableOp):
            self._check_type(op, variable, op.value.type)
            values[variable] = op.value
            Rewriter.erase_op(op)
            return
        self._check_type(op, variable, op.result.type)
        if (value := self._value(variable, values)) is None:
            fail(
                op,
                f"'tfl.read_variable' op reads variable '{_name_of(variable)}' before it "
                "is assigned, expected an initial value from 'tfl.call_once'",
            )
        Rewriter.replace_op(op, (), (value,))

    def _recurrent(self, op: RecurrentOp, values: _Values) -> None:
        variables = self._variables(op)
        operands = [*op.operands]
        for variable, index in zip(variables, op.STATES, strict=True):
            self._check_type(op, variable, operands[index].type)
            state = self._value(variable, values)
            assert state is not None
            operands[index] = state
        constants = [state.owner for state in op.states]
        new_op = type(op).create(
            operands=operands,
            result_types=[*op.result_types, *(operands[i].type for i in op.STATES)],
            properties=op.properties,
            attributes=op.attributes,
            regions=[op.detach_region(region) for region in [*op.regions]],
            location=op.location,
        )
        Rewriter.replace_op(op, new_op, new_op.results[:1])
        values.update(zip(variables, new_op.next_states, strict=True))
        for constant in dict.fromkeys(constants):
            if isinstance(constant, Operation) and not constant.results[0].first_use:
                Rewriter.erase_op(constant)

    def _call_once(self, op: tfl.CallOnceOp) -> None:
        name = op.session_init_function.data
        if name not in self.initialized:
            if self.is_used or op.parent_op() is not self.function:
                fail(
                    op,
                    "'tfl.call_once' op is in a region or after the use of a variable, "
                    "expected it at the start of a function",
                )
            for assign in self._initial_values(op, name):
                variable = _variable_of(assign)
                self._check_type(assign, variable, assign.value.type)
                constant = cast(_Constant, assign.value.owner)
                self.initial[variable] = _initial_state(variable, constant)
            self.initialized.add(name)
        Rewriter.erase_op(op)

    def _initial_values(
        self, op: tfl.CallOnceOp, name: str
    ) -> Iterator[tfl.AssignVariableOp]:
        for inner in self.copies.functions.body_of(name, op).ops:
            if isinstance(inner, tfl.AssignVariableOp):
                if isinstance(inner.value.owner, _Constant):
                    yield inner
                    continue
            elif isinstance(
                inner, _Constant | tfl.NoValueOp | tfl.VarHandleOp | ReturnOp
            ):
                continue
            fail(
                inner,
                f"'{op_name(inner)}' op is in '@{name}', which 'tfl.call_once' calls, "
                "expected only assignments of constants to variables",
            )

    # Control flow

    def _if(self, op: tfl.IfOp, values: _Values) -> None:
        branches = (op.then_region, op.else_region)
        ends = [values.copy(), values.copy()]
        for region, end in zip(branches, ends, strict=True):
            if region.blocks:
                self._rewrite_block(region.block, end)
        changed: list[_Variable] = []
        yielded: tuple[list[SSAValue], list[SSAValue]] = ([], [])
        for variable in ends[0] | ends[1]:
            then_value, else_value = (self._value(variable, end) for end in ends)
            if then_value is None or else_value is None:
                # One branch does not assign the variable.
                values.pop(variable, None)
            elif then_value is else_value:
                values[variable] = then_value
            else:
                changed.append(variable)
                yielded[0].append(then_value)
                yielded[1].append(else_value)
        if changed:
            for region, more in zip(branches, yielded, strict=True):
                _yield(op, region, more)
            self._replace(op, op.operands, changed, yielded[0], values)

    def _while(self, op: tfl.WhileOp, values: _Values) -> None:
        for inner in filter(_is_changing, op.cond.walk()):
            fail(
                inner,
                f"'{inner.name}' op changes state in the condition of 'tfl.while', "
                "expected it in the body",
            )
        changing = cast(Iterator[_Changing], filter(_is_changing, op.body.walk()))
        starts = {
            variable: value
            for variable in dict.fromkeys(chain(*map(self._variables, changing)))
            if (value := self._value(variable, values)) is not None
        }
        for region in op.regions:
            inside = values.copy()
            for variable, start in starts.items():
                block = region.block
                argument = block.insert_arg(start.type, len(block.args))
                inside[variable] = argument
            self._rewrite_block(region.block, inside)
            if region is op.body:
                _yield(op, region, [inside[variable] for variable in starts])
        operands = [*op.operands, *starts.values()]
        self._replace(op, operands, [*starts], [*starts.values()], values)

    def _replace(
        self,
        op: tfl.IfOp | tfl.WhileOp,
        operands: Sequence[SSAValue],
        variables: Sequence[_Variable],
        like: Sequence[SSAValue],
        values: _Values,
    ) -> None:
        """Replace an op by one that also returns the values of variables after the op."""
        new_op = type(op).create(
            operands=operands,
            result_types=[*op.result_types, *(value.type for value in like)],
            properties=op.properties,
            attributes=op.attributes,
            regions=[op.detach_region(region) for region in [*op.regions]],
            location=op.location,
        )
        results = new_op.results
        Rewriter.replace_op(op, new_op, results[: len(results) - len(variables)])
        values.update(
            zip(variables, results[len(results) - len(variables) :], strict=True)
        )


def _inner_ops(op: Operation) -> Iterator[Operation]:
    for region in op.regions:
        yield from region.walk()


def _check_has_no_state(op: Operation) -> None:
    for inner in filter(has_state, _inner_ops(op)):
        fail(
            inner,
            f"'{inner.name}' op uses a variable in a region of '{op_name(op)}'; only "
            "regions of 'tfl.if' and 'tfl.while' may have state",
        )


def _is_changing(op: Operation) -> bool:
    return isinstance(op, _Changing) and has_state(op)


def _is_any_stateful(op: Operation) -> bool:
    return any(map(has_state, _inner_ops(op)))


def _variable_of(op: _Access) -> tuple[str, str]:
    handle = op.resource_id.owner
    if not isinstance(handle, tfl.VarHandleOp):
        fail(
            op,
            f"'{op.name}' op has a handle that is not the result of 'tfl.var_handle'",
        )
    return _named(handle)


def _named(handle: tfl.VarHandleOp) -> tuple[str, str]:
    return handle.container.data, handle.shared_name.data


def _check_uses(handle: tfl.VarHandleOp) -> None:
    for use in handle.resource_handle.uses:
        if not isinstance(use.operation, _Access):
            fail(
                use.operation,
                f"'{op_name(use.operation)}' op has the handle of variable "
                f"'{_name_of(_named(handle))}' as an operand, expected "
                "'tfl.read_variable' or 'tfl.assign_variable'",
            )


def _yield(
    op: tfl.IfOp | tfl.WhileOp, region: Region, values: Sequence[SSAValue]
) -> None:
    """Append values to the operands of a region's terminator."""
    if not region.blocks:
        region.add_block(Block([tfl.YieldOp(())]))
    if not isinstance(end := region.block.last_op, tfl.YieldOp):
        fail(op, f"'{op.name}' op has a region that does not end with 'tfl.yield'")
    end.operands = [*end.operands, *values]


@dataclass(frozen=True)
class TFLVariablesToArgumentsPass(CountingPass):
    """
    Turn variables and states of recurrent ops into arguments and results of functions.

    Argument attributes hold the initial values that `tfl.call_once` assigns.
    """

    name = "tfl-variables-to-arguments"

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        with without_garbage_collection():
            functions = Functions(op)
            functions.check(op)
            copies = Copies(functions)
            # Rewrite copies first: an error leaves the module unchanged.
            new_functions = {
                function: _Rewriting(function, copies).rewrite()
                for function in functions.public_functions()
            }
            vanishing = functions.unneeded_functions()
            for function, new_function in new_functions.items():
                Rewriter.replace_op(function, new_function)
            for function in vanishing:
                Rewriter.erase_op(function)
        return PassOutcome(
            [*new_functions], len(new_functions), "functions with variables"
        )
