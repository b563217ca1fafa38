"""Functions of a module that have state, and copies with stateful calls inlined."""

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.diagnostics import fail, op_name
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.dialect.signatures import EXPORTED_NAMES
from xdsl_quant.runtime.entry_function import functions_by_name

from ..fallbacks import has_state


class Functions:
    """Functions of a module, and the names of functions that have state."""

    def __init__(self, module: ModuleOp):
        self.by_name = functions_by_name(module)
        ops = [*module.walk()]
        self.called = {op.callee.string_value() for op in ops if isinstance(op, CallOp)}
        self.initializers = {
            op.session_init_function.data
            for op in ops
            if isinstance(op, tfl.CallOnceOp)
        }
        self.stateful = self._stateful()

    def _stateful(self) -> set[str]:
        """Return the names of functions that have state, directly or through calls."""
        ops = {name: [*function.walk()] for name, function in self.by_name.items()}
        calls = {
            name: {op.callee.string_value() for op in inner if isinstance(op, CallOp)}
            for name, inner in ops.items()
        }
        stateful = {name for name, inner in ops.items() if any(map(has_state, inner))}
        while more := {n for n in calls if calls[n] & stateful} - stateful:
            stateful |= more
        return stateful

    def public_functions(self) -> Sequence[FuncOp]:
        """Return the public stateful functions, which get state arguments and results."""
        return [
            function
            for name, function in self.by_name.items()
            if name in self.stateful and not _is_inner(function)
        ]

    def unneeded_functions(self) -> Sequence[FuncOp]:
        """Return the private functions that the rewritten module no longer needs."""
        unused = self.stateful | (self.initializers - self.called)
        return [
            function
            for name, function in self.by_name.items()
            if name in unused and _is_inner(function)
        ]

    def body_of(self, name: str, user: Operation) -> Block:
        function = self.by_name.get(name)
        if function is None or len(function.body.blocks) != 1:
            fail(
                user,
                f"'{op_name(user)}' op calls '@{name}', expected a function of the "
                "module that has one block",
            )
        return function.body.block

    def check(self, module: ModuleOp) -> None:
        """
        Check that stateful ops are in functions, and that calls are the only uses of
        functions with state.

        Raises:
            PassFailedException: if a stateful op is elsewhere, or a function has another
                use.
        """
        others = (op for op in module.ops if not isinstance(op, FuncOp))
        for op in (inner for other in others for inner in other.walk()):
            if has_state(op):
                fail(op, f"'{op.name}' op is not in a function of the module")
        for op in module.walk():
            if isinstance(op, CallOp):
                continue
            for attribute in (*op.properties.values(), *op.attributes.values()):
                if not isinstance(attribute, SymbolRefAttr):
                    continue
                if (name := attribute.root_reference.data) in self.stateful:
                    fail(
                        op,
                        f"'{op_name(op)}' op refers to '@{name}', which has state, "
                        "expected only calls of it",
                    )


def _is_inner(function: FuncOp) -> bool:
    """Return True if nothing outside the module can call a function."""
    visibility = function.sym_visibility
    is_private = visibility is not None and visibility.data == "private"
    return is_private and EXPORTED_NAMES not in function.attributes


class Copies:
    """Copies of functions with calls of stateful functions inlined."""

    def __init__(self, functions: Functions):
        self.functions = functions
        self.originals: dict[Operation, Operation] = {}
        """Original op of each copied op."""

    def copy(self, function: FuncOp, callers: Sequence[str] = ()) -> FuncOp:
        callers = (*callers, function.sym_name.data)
        copy = function.clone()
        self.originals.update(zip(copy.walk(), function.walk(), strict=True))
        for op in [*copy.walk()]:
            if not isinstance(op, CallOp):
                continue
            if (name := op.callee.string_value()) not in self.functions.stateful:
                continue
            if name in callers:
                fail(op, f"'func.call' op recursively calls '@{name}', which has state")
            self._inline(op, name, callers)
        return copy

    def _inline(self, call: CallOp, name: str, callers: Sequence[str]) -> None:
        end = self.functions.body_of(name, call).last_op
        if not isinstance(end, ReturnOp):
            fail(call, f"'func.call' op calls '@{name}', which does not return")
        body = self.copy(self.functions.by_name[name], callers).body.block
        end = body.last_op
        assert end is not None
        parameters: dict[SSAValue, SSAValue] = dict(
            zip(body.args, call.arguments, strict=True)
        )
        results = [parameters.get(value, value) for value in end.operands]
        Rewriter.erase_op(end)
        Rewriter.inline_block(body, InsertPoint.before(call), call.arguments)
        Rewriter.replace_op(call, (), results)
