"""
Export kernels that contain one composite op (`stablehlo.composite`) or call.

Fixed kernels: the op takes and returns quantized values, and calls a copy of its function
that dequantizes arguments and quantizes results:

```mlir
%y = stablehlo.composite "my.gelu" %x {decomposition = @gelu_quantized}
    : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<i8:f32, 0.25>>
```

The kernels around it use these values without casts. Code generation: the kernel contains
the ops of the function instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from xdsl.dialects.builtin import (
    FunctionType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from xdsl_quant.diagnostics import refuse
from xdsl_quant.dialects.quant import RegionOp
from xdsl_quant.dialects.quant.dialect_ops import QUANT_OPS, DialectOps
from xdsl_quant.dialects.quant.traits import CastsQuantization, has_quantization_trait
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type
from xdsl_quant.runtime.entry_function import (
    functions_by_name,
    inline_call,
    referenced_symbols,
)
from xdsl_quant.runtime.plugins import dialect_ops
from xdsl_quant.transforms.propagation.kernel_matching import (
    composite_name,
    is_constant,
)
from xdsl_quant.transforms.propagation.module_kernels import (
    ParametersType,
    is_float_value,
    kernels_of,
    operands_of,
    ports_of,
)
from xdsl_quant.transforms.propagation.port_ranges import result_rounding


def export_composites(
    module: ModuleOp, mode: Literal["fixed", "codegen"]
) -> Sequence[FuncOp]:
    """
    Replace kernels that call a function by calls on quantized values (`fixed`), or inline
    the function into the kernel (`codegen`). Kernels with undecided ports are kept.

    Returns:
        The functions on quantized values, to add to the module after other kernels are
        exported.
    """
    functions = functions_by_name(module)
    export = _Export(module, functions)
    called: set[str] = set()
    for kernel in kernels_of(module):
        op, *rest = kernel.body.block.ops
        if composite_name(op) is None or len(rest) != 1:
            continue
        called.update(referenced_symbols(op))
        if mode == "codegen":
            _inline_functions(kernel, functions)
        elif _has_parameters(kernel):
            export.run(kernel, op)
    return _detached(module, [*export.copies.values()], called)


def _inline_functions(kernel: RegionOp, functions: dict[str, FuncOp]) -> None:
    """
    Inline calls in a kernel until none is left, except of functions with branches.

    Raises:
        PassFailedException: if a function calls itself.
    """
    todo: list[tuple[Operation, tuple[str, ...]]] = [
        (op, ()) for op in kernel.body.block.ops
    ]
    for op, callers in todo:
        symbols = () if composite_name(op) is None else referenced_symbols(op)
        name = next(iter(symbols), "")
        function = functions.get(name)
        if function is None or len(function.body.blocks) != 1:
            continue
        if name in callers:
            refuse(
                op,
                "has no finite code",
                f"function '{name}' calls itself",
                "use 'mode=fixed' to keep the call",
            )
        previous, following = op.prev_op, op.next_op
        inline_call(op, function)
        inner = kernel.body.block.first_op if previous is None else previous.next_op
        while inner is not following and inner is not None:
            todo.append((inner, (*callers, name)))
            inner = inner.next_op


def _has_parameters(kernel: RegionOp) -> bool:
    """Return True if a kernel has parameters at all ports of floats that vary."""
    ports = [*ports_of(kernel)]
    return any(isinstance(spec, ParametersType) for _, spec in ports) and not any(
        is_float_value(value)
        and not isinstance(spec, ParametersType)
        and not is_constant(value)
        for value, spec in ports
    )


def _detached(
    module: ModuleOp, copies: list[FuncOp], names: set[str]
) -> Sequence[FuncOp]:
    """
    Detach the private functions with these names, and the functions that only they call,
    from a module that no longer references them.

    Returns:
        `copies`, and the detached functions that these reference.
    """
    detached: list[FuncOp] = []
    while names:
        name = names.pop()
        function = functions_by_name(module).get(name)
        if (
            function is not None
            and function.sym_visibility == StringAttr("private")
            and name not in referenced_symbols(module)
        ):
            names.update(referenced_symbols(function))
            function.detach()
            detached.append(function)
    # A function is detached after all of its callers.
    for function in detached:
        name = function.sym_name.data
        if any(name in referenced_symbols(op) for op in copies):
            copies.append(function)
        else:
            function.erase()
    return copies


@dataclass
class _Export:
    """Calls on quantized values, and the functions that they call."""

    module: ModuleOp
    functions: dict[str, FuncOp]
    copies: dict[tuple[str, FunctionType], FuncOp] = field(
        default_factory=dict[tuple[str, FunctionType], FuncOp]
    )
    """Functions on quantized values by original and type."""

    def run(self, kernel: RegionOp, op: Operation) -> None:
        """Replace a kernel by a call of its function on quantized values."""
        indices = range(len(kernel.results))
        (name,) = referenced_symbols(op)
        function = self.functions.get(name)
        if function is None or any(result_rounding(kernel, i) for i in indices):
            return
        ops = _dialect_ops_of(function, kernel)
        values: dict[SSAValue, SSAValue] = {
            argument: _quantized(ops, kernel, value, spec)
            for argument, value, spec in operands_of(kernel)
        }
        types = [
            _type_at_port(value.type, spec)
            for value, spec in zip(kernel.results, kernel.output_specs, strict=True)
        ]
        operands = [values[operand] for operand in op.operands]
        copy = self._copy(function, ops, [v.type for v in operands], types)
        new = type(op).create(
            operands=operands,
            result_types=types,
            properties=_referring_to(copy, op.properties),
            attributes=op.attributes.copy(),
        )
        _insert_before(kernel, op, [new])
        for old, result in zip(kernel.results, new.results, strict=True):
            result.name_hint = old.name_hint
            if result.type != old.type:
                expressed = ops.dequantize(result)
                _insert_before(kernel, op, [expressed])
                (result,) = expressed.results
            old.replace_all_uses_with(result)
        _erase_with_casts(kernel)

    def _copy(
        self,
        function: FuncOp,
        ops: DialectOps,
        arguments: Sequence[Attribute],
        results: Sequence[Attribute],
    ) -> FuncOp:
        type_ = FunctionType.from_lists(arguments, results)
        name = function.sym_name.data
        if (name, type_) not in self.copies:
            self.copies[name, type_] = copy = _on_quantized(function, ops, type_)
            copy.sym_name = StringAttr(self._unused_name(name))
            self.functions[copy.sym_name.data] = copy
        return self.copies[name, type_]

    def _unused_name(self, name: str) -> str:
        quantized, number = f"{name}_quantized", 0
        while quantized in self.functions:
            quantized, number = f"{name}_quantized_{number}", number + 1
        return quantized


def _dialect_ops_of(function: FuncOp, kernel: RegionOp) -> DialectOps:
    """Return the ops of the first dialect in a function whose casts support the types."""
    specs = [spec for spec in kernel.specs if isinstance(spec, ParametersType)]
    (op, _) = kernel.body.block.ops
    for inner in (op, *function.walk()):
        ops = dialect_ops(inner.name.partition(".")[0])
        if ops is not QUANT_OPS:
            return ops if all(map(ops.accepts, specs)) else QUANT_OPS
    return QUANT_OPS


def _type_at_port(type_: Attribute, spec: Attribute) -> Attribute:
    return with_element_type(type_, spec) if isinstance(spec, ParametersType) else type_


def _quantized(
    ops: DialectOps, kernel: RegionOp, value: SSAValue, spec: Attribute
) -> SSAValue:
    """Return a value as stored at a port: the operand of a cast, or the result of one."""
    if not isinstance(spec, ParametersType):
        return value
    cast = value.owner
    if isinstance(cast, Operation) and has_quantization_trait(cast, CastsQuantization):
        (source,) = cast.operands
        if scalar_or_element_type(source.type) == spec:
            return source
    new_ops = ops.build_quantize(value, with_element_type(value.type, spec))
    _insert_before(kernel, kernel, new_ops)
    return new_ops[-1].results[0]


def _insert_before(
    point: Operation, source: Operation, new_ops: Sequence[Operation]
) -> None:
    """Insert ops before an op, with the location of the op that they implement."""
    for op in new_ops:
        op.location = source.location
    Rewriter.insert_op(new_ops, InsertPoint.before(point))


def _erase_with_casts(kernel: RegionOp) -> None:
    """Erase a kernel, and the casts that only it used."""
    casts = [value.owner for value in kernel.inputs]
    Rewriter.erase_op(kernel)
    for cast in casts:
        if isinstance(cast, Operation) and cast.parent and is_trivially_dead(cast):
            Rewriter.erase_op(cast)


def _referring_to(
    function: FuncOp, properties: dict[str, Attribute]
) -> dict[str, Attribute]:
    """Return the properties of a call, with the name of another function."""
    name = SymbolRefAttr(function.sym_name)
    return {
        key: name if isinstance(value, SymbolRefAttr) else value
        for key, value in properties.items()
    }


def _on_quantized(function: FuncOp, ops: DialectOps, type_: FunctionType) -> FuncOp:
    """Return a private copy of a function with quantized arguments and results."""
    copy = function.clone()
    copy.sym_visibility = StringAttr("private")
    copy.function_type = type_
    if copy.is_declaration:
        return copy
    block = copy.body.blocks[0]
    first = block.first_op
    assert first is not None
    for argument, argument_type in zip([*block.args], type_.inputs, strict=True):
        if argument.type == argument_type:
            continue
        new = block.insert_arg(argument_type, argument.index)
        new.name_hint, new.location = argument.name_hint, argument.location
        cast = ops.dequantize(new)
        _insert_before(first, first, [cast])
        argument.replace_all_uses_with(cast.results[0])
        block.erase_arg(argument)
    for op in [op for op in copy.walk() if isinstance(op, ReturnOp)]:
        for index, (value, result) in enumerate(
            zip(op.operands, type_.outputs, strict=True)
        ):
            if value.type != result:
                new_ops = ops.build_quantize(value, result)
                _insert_before(op, op, new_ops)
                op.operands[index] = new_ops[-1].results[0]
    return copy
