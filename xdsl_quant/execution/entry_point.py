"""
Entry points of modules, and conversions between arrays and arguments or results.

MLIR loads and stores an `i4` or `i1` as a byte whose upper bits must be zero. Arrays
therefore have elements of 8, 16, 32 or 64 bits, and generated ops truncate and extend
the values. Loop fusion makes these conversions free.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ArrayAttr,
    DictionaryAttr,
    IndexType,
    IntegerType,
    ModuleOp,
    NoneAttr,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    UnrankedTensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from xdsl_quant.dialects.quant import StoredQuantizedType
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.numerics.arrays import Array, DType
from xdsl_quant.runtime.arrays import (
    allows_shape,
    integer_width,
    numpy_dtype,
    shape_of,
    shortened,
)
from xdsl_quant.runtime.buffers import signature_error_message
from xdsl_quant.runtime.entry_function import (
    entry_function,
    reachable_symbols,
    unused_prefix,
)
from xdsl_quant.runtime.host_functions import check_host_functions
from xdsl_quant.transforms.building.signless_types import has_signedness, signless

from .compilation_error import CompilationError


class OpLines:
    """Builder of MLIR ops as text lines."""

    def __init__(self):
        self.lines: list[str] = []
        self._count = 0

    def add(self, text: str) -> str:
        """Add an op with one result and return the name of the result."""
        self._count += 1
        self.lines.append(f"%{self._count} = {text}")
        return f"%{self._count}"


@dataclass(frozen=True)
class Boundary:
    """Conversion between an array and a value in the signature of the entry point."""

    type_: Attribute
    """Type in the signature, possibly quantized."""

    dtype: DType

    @staticmethod
    def of(type_: Attribute, name: str) -> Boundary:
        """
        Return the boundary for a type.

        Raises:
            CompilationError: if arrays do not support the type; `name` is the value's
                name in the message.
        """
        problem = f"{name} has type '{shortened(type_)}'"
        if isinstance(type_, UnrankedTensorType):
            raise CompilationError(f"{problem}; expected a ranked tensor")
        if not isinstance(getattr(type_, "encoding", NoneAttr()), NoneAttr):
            raise CompilationError(f"{problem}; expected a tensor without encoding")
        try:
            dtype = numpy_dtype(type_)
        except TypeError as e:
            raise CompilationError(f"{problem}: {e}") from None
        boundary = Boundary(type_, dtype)
        if has_signedness(type_) and not boundary.accepts_full_range:
            raise CompilationError(
                f"{problem}; integers of {integer_width(type_)} bits must be signless"
            )
        return boundary

    # Types

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Sizes of a tensor; empty for a scalar."""
        return shape_of(self.type_)

    @cached_property
    def dynamic_dimensions(self) -> Sequence[int]:
        return [i for i, size in enumerate(self.shape) if size == DYNAMIC_INDEX]

    @cached_property
    def accepts_full_range(self) -> bool:
        """True if every value of the dtype is valid for the type."""
        width = integer_width(self.type_)
        return self.dtype.kind not in "iu" or width == 8 * self.dtype.itemsize

    def is_same(self, array: Array) -> bool:
        """Return True if an array needs no conversion and no check of its values."""
        return (
            self.accepts_full_range
            and array.dtype == self.dtype
            and (array.shape == self.shape or allows_shape(self.type_, array.shape))
        )

    @property
    def _is_scalar(self) -> bool:
        return not isinstance(self.type_, TensorType)

    @cached_property
    def _inner_element(self) -> Attribute:
        element_type = scalar_or_element_type(self.type_)
        if isinstance(element_type, StoredQuantizedType):
            return element_type.stored_type
        return signless(element_type)

    @cached_property
    def _outer_element(self) -> Attribute:
        if isinstance(self._inner_element, AnyFloat):
            return self._inner_element
        return IntegerType(8 * self.dtype.itemsize)

    @property
    def is_plain(self) -> bool:
        """True if the value is a tensor with the same memory layout as the array."""
        return not self._is_scalar and self._outer_element == self._inner_element

    @cached_property
    def _sizes(self) -> str:
        return "".join("?x" if s == DYNAMIC_INDEX else f"{s}x" for s in self.shape)

    @cached_property
    def memref(self) -> str:
        """Memref type of the array."""
        return f"memref<{self._sizes}{self._outer_element}>"

    @cached_property
    def tensor(self) -> str:
        return f"tensor<{self._sizes}{self._outer_element}>"

    def _with_shape(self, element_type: Attribute) -> str:
        if self._is_scalar:
            return str(element_type)
        return f"tensor<{self._sizes}{element_type}>"

    @cached_property
    def lowered_type(self) -> str:
        """Type of the value after quantized types are lowered."""
        return self._with_shape(self._inner_element)

    # Conversions

    def enter(self, code: OpLines, array: str) -> str:
        """Convert an array to an argument of the entry point; return the argument."""
        value = array
        if self._is_scalar:
            value = code.add(f"tensor.extract {value}[] : {self.tensor}")
        if self._outer_element == self._inner_element:
            return value
        op = "index_cast" if isinstance(self._inner_element, IndexType) else "trunci"
        outer = self._with_shape(self._outer_element)
        return code.add(f"arith.{op} {value} : {outer} to {self.lowered_type}")

    def leave(self, code: OpLines, value: str, buffer: str) -> None:
        """Write a result of the entry point to the memory of an array."""
        if self._outer_element != self._inner_element:
            op = "extsi" if self.dtype.kind == "i" else "extui"
            if isinstance(self._inner_element, IndexType):
                op = "index_cast"
            outer = self._with_shape(self._outer_element)
            value = code.add(f"arith.{op} {value} : {self.lowered_type} to {outer}")
        code.lines.append(
            f"memref.store {value}, {buffer}[] : {self.memref}"
            if self._is_scalar
            else f"bufferization.materialize_in_destination {value} in restrict writable "
            f"{buffer} : ({self.tensor}, {self.memref}) -> ()"
        )


# Entry point


@dataclass(frozen=True)
class EntryPoint:
    """Function in a module of its own, with only the symbols that it uses."""

    name: str

    module: ModuleOp
    """Copy of the function and its callees, which may be modified."""

    symbols: Collection[str]

    arguments: Sequence[Boundary]

    results: Sequence[Boundary]

    host_declarations: Mapping[str, Sequence[Boundary]]
    """Arguments of the host functions that the module declares, by name."""

    @staticmethod
    def of(
        module: ModuleOp, name: str | None, host_names: Collection[str] = ()
    ) -> EntryPoint:
        """
        Return the entry point `name`; by default the only public function or `main`.

        Raises:
            CompilationError: if the function is missing or calls a missing function, or
                a host function or a type in a signature is unsupported.
            ImportError: if a type needs a package that is not installed.
        """
        try:
            function = entry_function(module, name)
            check_host_functions(module, host_names)
        except ValueError as e:
            raise CompilationError(str(e)) from None
        if (mistake := signature_error_message(function)) is not None:
            raise CompilationError(mistake)
        needed = reachable_symbols(module, function)
        declarations = {
            name: op
            for name, op in needed.items()
            if isinstance(op, FuncOp) and op.is_declaration
        }
        for missing in declarations.keys() - {*host_names}:
            raise CompilationError(
                f"function '{missing}' has no body; define it in the module or pass a host "
                "function"
            )
        ops = [_private(op.clone()) for op in needed.values()]
        entry_name = function.sym_name.data
        type_ = function.function_type
        return EntryPoint(
            entry_name,
            ModuleOp(ops, {**module.attributes}),
            needed.keys(),
            _boundaries(type_.inputs, "argument", entry_name),
            _boundaries(type_.outputs, "result", entry_name),
            {name: _host_arguments(op) for name, op in declarations.items()},
        )


def _boundaries(
    types: Iterable[Attribute], noun: str, function: str
) -> Sequence[Boundary]:
    return [
        Boundary.of(type_, f"{noun} {i} of '{function}'")
        for i, type_ in enumerate(types)
    ]


def _private(op: Operation) -> Operation:
    """
    Make a function private, so that it is removed once all calls are inlined. If it is
    a declaration, mark its arguments as read-only.
    """
    if isinstance(op, FuncOp):
        op.sym_visibility = StringAttr("private")
        if op.is_declaration:
            reads = DictionaryAttr({"bufferization.access": StringAttr("read")})
            op.arg_attrs = ArrayAttr([reads] * len(op.function_type.inputs))
            op.attributes["llvm.emit_c_interface"] = UnitAttr()
    return op


def _host_arguments(declaration: FuncOp) -> Sequence[Boundary]:
    name = declaration.sym_name.data
    arguments = _boundaries(declaration.function_type.inputs, "argument", name)
    for i, argument in enumerate(arguments):
        if not argument.is_plain:
            raise CompilationError(
                f"argument {i} of '{name}' has type '{shortened(argument.type_)}'; "
                "expected a tensor of floats or of 8, 16, 32 or 64-bit integers"
            )
    return arguments


# Wrapper functions


@dataclass(frozen=True)
class EntryWrapper:
    """
    MLIR text of functions around an entry point that take and return arrays.

    * The kernel writes all results to buffers of the caller. Its attributes keep
      bufferization from writing to other arrays, and enable LLVM's widest vectors.
    * The sizes function computes all dynamic result sizes. It, too, calls the entry
      point, but only ops on argument sizes usually remain after dead code elimination.
    """

    entry: EntryPoint

    @cached_property
    def kernel_name(self) -> str:
        """Name of the function that takes argument arrays, then result arrays."""
        return unused_prefix("xdsl_quant_kernel", self.entry.symbols)

    @property
    def dynamic_size_count(self) -> int:
        """Number of dynamic sizes in all results."""
        return sum(len(result.dynamic_dimensions) for result in self.entry.results)

    @property
    def sizes_name(self) -> str | None:
        """
        Name of the function that takes all argument arrays and an array of i64 for the
        dynamic result sizes; `None` if all are static.
        """
        return f"{self.kernel_name}_result_sizes" if self.dynamic_size_count else None

    @property
    def names(self) -> Sequence[str]:
        """Names of the functions, the kernel first."""
        if self.sizes_name is None:
            return (self.kernel_name,)
        return self.kernel_name, self.sizes_name

    # Text

    @property
    def text(self) -> str:
        return f"{self._kernel_text()}\n{self._sizes_text()}"

    def _kernel_text(self) -> str:
        code = OpLines()
        buffers = [f"%out{i}: {b.memref}" for i, b in enumerate(self.entry.results)]
        for i, value in enumerate(self._call(code)):
            self.entry.results[i].leave(code, value, f"%out{i}")
        return self._function(self.kernel_name, buffers, code)

    def _sizes_text(self) -> str:
        if self.sizes_name is None:
            return ""
        code = OpLines()
        type_ = f"memref<{self.dynamic_size_count}xi64>"
        sizes: list[str] = []
        for value, result in zip(self._call(code), self.entry.results, strict=True):
            for dimension in result.dynamic_dimensions:
                index = code.add(f"arith.constant {dimension} : index")
                size = code.add(f"tensor.dim {value}, {index} : {result.lowered_type}")
                sizes.append(code.add(f"arith.index_cast {size} : index to i64"))
        for i, size in enumerate(sizes):
            index = code.add(f"arith.constant {i} : index")
            code.lines.append(f"memref.store {size}, %sizes[{index}] : {type_}")
        return self._function(self.sizes_name, [f"%sizes: {type_}"], code)

    def _call(self, code: OpLines) -> Sequence[str]:
        """Call the entry point and return the names of its results."""
        values = [a.enter(code, f"%in{i}") for i, a in enumerate(self.entry.arguments)]
        call = (
            f"func.call {SymbolRefAttr(self.entry.name)}({', '.join(values)}) : "
            f"({', '.join(a.lowered_type for a in self.entry.arguments)}) -> "
            f"({', '.join(r.lowered_type for r in self.entry.results)})"
        )
        if not self.entry.results:
            code.lines.append(call)
            return ()
        code.lines.append(f"%results:{len(self.entry.results)} = {call}")
        return [f"%results#{i}" for i in range(len(self.entry.results))]

    def _function(self, name: str, buffers: Sequence[str], code: OpLines) -> str:
        arrays = [
            # Bufferization must not reuse the caller's arrays for intermediate values.
            f"%in{i}: {argument.tensor} {{bufferization.writable = false}}"
            for i, argument in enumerate(self.entry.arguments)
        ]
        lines = "\n  ".join((*code.lines, "func.return"))
        # Forbid inlining, which would drop the vector width.
        return (
            f"func.func @{name}({', '.join((*arrays, *buffers))}) attributes "
            "{llvm.emit_c_interface, passthrough = "
            '["noinline", ["prefer-vector-width", "512"]]} {\n'
            f"  {lines}\n}}"
        )
