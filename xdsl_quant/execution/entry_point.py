"""
The function of a module that is to be called, and conversions between its arguments and
results and NumPy arrays.

MLIR reads and writes an `i4` or `i1` in memory as a byte whose upper bits it expects to be
zero. So arrays have elements of 8, 16, 32 or 64 bits, and the numbers inside are narrowed
and widened by ops. Loop fusion makes this free.
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
from xdsl_quant.runtime.entry_function import (
    entry_function,
    symbols_reached,
    unused_prefix,
)
from xdsl_quant.runtime.host_functions import check_host_functions
from xdsl_quant.transforms.building.signless_types import has_signedness, signless

from .compilation_error import CompilationError


class OpLines:
    """Ops of MLIR under construction, as text."""

    def __init__(self):
        self.lines: list[str] = []
        self._count = 0

    def add(self, text: str) -> str:
        """Add an op with a result, whose name is returned."""
        self._count += 1
        self.lines.append(f"%{self._count} = {text}")
        return f"%{self._count}"


@dataclass(frozen=True)
class Boundary:
    """Converts between an array and a value in the signature of the entry point."""

    type_: Attribute
    """The type in the signature, possibly quantized."""

    dtype: DType

    @staticmethod
    def of(type_: Attribute, name: str) -> Boundary:
        """
        Raises:
            CompilationError: if no array stands for values of the type; the message calls
                the value `name`.
        """
        problem = f"{name} has type '{shortened(type_)}'"
        if isinstance(type_, UnrankedTensorType):
            raise CompilationError(
                f"{problem}, but compiled code needs to know the rank"
            )
        if not isinstance(getattr(type_, "encoding", NoneAttr()), NoneAttr):
            raise CompilationError(f"{problem}, but arrays have no encoding")
        try:
            dtype = numpy_dtype(type_)
        except TypeError as e:
            raise CompilationError(f"{problem}: {e}") from None
        boundary = Boundary(type_, dtype)
        if has_signedness(type_) and not boundary.takes_all_numbers:
            raise CompilationError(
                f"{problem}, but only signless integers may have {integer_width(type_)} "
                "bits"
            )
        return boundary

    # Types

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The sizes of a tensor; nothing for a scalar."""
        return shape_of(self.type_)

    @cached_property
    def dynamic_dimensions(self) -> Sequence[int]:
        return [i for i, size in enumerate(self.shape) if size == DYNAMIC_INDEX]

    @cached_property
    def takes_all_numbers(self) -> bool:
        """True if every number of the dtype is allowed."""
        width = integer_width(self.type_)
        return self.dtype.kind not in "iu" or width == 8 * self.dtype.itemsize

    def is_same(self, array: Array) -> bool:
        """Return whether an array needs neither conversion nor a check of its numbers."""
        return (
            self.takes_all_numbers
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
        """True if the value is a tensor that is in memory just what the array is."""
        return not self._is_scalar and self._outer_element == self._inner_element

    @cached_property
    def _sizes(self) -> str:
        return "".join("?x" if s == DYNAMIC_INDEX else f"{s}x" for s in self.shape)

    @cached_property
    def memref(self) -> str:
        """The type of the array in memory."""
        return f"memref<{self._sizes}{self._outer_element}>"

    @cached_property
    def tensor(self) -> str:
        """The type of the array as a value."""
        return f"tensor<{self._sizes}{self._outer_element}>"

    def _with_shape(self, element_type: Attribute) -> str:
        if self._is_scalar:
            return str(element_type)
        return f"tensor<{self._sizes}{element_type}>"

    @cached_property
    def inner(self) -> str:
        """The type that the entry point has after quantized types are stripped."""
        return self._with_shape(self._inner_element)

    # Conversions

    def enter(self, code: OpLines, array: str) -> str:
        """Return the value that the entry point takes, from an array."""
        value = array
        if self._is_scalar:
            value = code.add(f"tensor.extract {value}[] : {self.tensor}")
        if self._outer_element == self._inner_element:
            return value
        op = "index_cast" if isinstance(self._inner_element, IndexType) else "trunci"
        outer = self._with_shape(self._outer_element)
        return code.add(f"arith.{op} {value} : {outer} to {self.inner}")

    def leave(self, code: OpLines, value: str, buffer: str) -> None:
        """Write a result of the entry point to the memory of an array."""
        if self._outer_element != self._inner_element:
            op = "extsi" if self.dtype.kind == "i" else "extui"
            if isinstance(self._inner_element, IndexType):
                op = "index_cast"
            outer = self._with_shape(self._outer_element)
            value = code.add(f"arith.{op} {value} : {self.inner} to {outer}")
        code.lines.append(
            f"memref.store {value}, {buffer}[] : {self.memref}"
            if self._is_scalar
            else f"bufferization.materialize_in_destination {value} in restrict writable "
            f"{buffer} : ({self.tensor}, {self.memref}) -> ()"
        )


# The function


@dataclass(frozen=True)
class EntryPoint:
    """A function in a module of its own, in which there is nothing that it does not use."""

    name: str

    module: ModuleOp
    """A copy, free to be changed."""

    symbols: Collection[str]
    """The names of all functions and other symbols in the module."""

    arguments: Sequence[Boundary]

    results: Sequence[Boundary]

    host_declarations: Mapping[str, Sequence[Boundary]]
    """The arguments of the functions in the module that Python defines, by name."""

    @staticmethod
    def of(
        module: ModuleOp, name: str | None, host_names: Collection[str] = ()
    ) -> EntryPoint:
        """
        Return the entry point `name` of a module, or the one that needs no name: the
        only public function, or `main`. Python defines the functions `host_names`.

        Raises:
            CompilationError: if there is no such function, it needs one without a body,
                Python cannot define one, or there are no arrays for a type in a signature.
            ImportError: if a type needs a package that is not installed.
        """
        try:
            function = entry_function(module, name)
            check_host_functions(module, host_names)
        except ValueError as e:
            raise CompilationError(str(e)) from None
        needed = symbols_reached(module, function)
        declarations = {
            name: op
            for name, op in needed.items()
            if isinstance(op, FuncOp) and op.is_declaration
        }
        for missing in declarations.keys() - {*host_names}:
            raise CompilationError(
                f"function '{missing}' has no body: compiled code cannot call what is not "
                "in its module"
            )
        own_module = ModuleOp([_private(op.clone()) for op in needed.values()])
        entry_name = function.sym_name.data
        type_ = function.function_type
        return EntryPoint(
            entry_name,
            own_module,
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
    Mark a function as one that may vanish if all calls of it are inlined, and one without a
    body as one that only reads the memory of its arguments.
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
                f"argument {i} of '{name}' has type '{shortened(argument.type_)}', but "
                "Python cannot read the memory of such tensors"
            )
    return arguments


# The functions around it


@dataclass(frozen=True)
class EntryWrapper:
    """
    The functions around an entry point whose arguments and results are plain arrays, as
    MLIR text.

    * The kernel writes all results to buffers that the caller provides. It is marked in
      such a way that bufferization writes nothing else, and that LLVM takes the widest
      vectors.
    * If a result has a dynamic size, another function finds out all such sizes. It, too,
      calls the entry point, but MLIR throws away what is not needed for the sizes: usually
      all but the sizes of arguments.
    """

    entry: EntryPoint

    @cached_property
    def kernel_name(self) -> str:
        """The function that takes the arrays of all arguments and then of all results."""
        return unused_prefix("xdsl_quant_kernel", self.entry.symbols)

    @property
    def dynamic_size_count(self) -> int:
        """The number of dynamic sizes of all results."""
        return sum(len(result.dynamic_dimensions) for result in self.entry.results)

    @property
    def sizes_name(self) -> str | None:
        """
        The function that takes the arrays of all arguments and an array of i64, to which
        it writes the dynamic sizes of all results; `None` if there are none.
        """
        return f"{self.kernel_name}_result_sizes" if self.dynamic_size_count else None

    @property
    def names(self) -> Sequence[str]:
        """The functions that there are."""
        if self.sizes_name is None:
            return (self.kernel_name,)
        return self.kernel_name, self.sizes_name

    # Text

    @property
    def text(self) -> str:
        """The functions."""
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
                size = code.add(f"tensor.dim {value}, {index} : {result.inner}")
                sizes.append(code.add(f"arith.index_cast {size} : index to i64"))
        for i, size in enumerate(sizes):
            index = code.add(f"arith.constant {i} : index")
            code.lines.append(f"memref.store {size}, %sizes[{index}] : {type_}")
        return self._function(self.sizes_name, [f"%sizes: {type_}"], code)

    def _call(self, code: OpLines) -> Sequence[str]:
        """Call the entry point; the names of its results."""
        values = [a.enter(code, f"%in{i}") for i, a in enumerate(self.entry.arguments)]
        call = (
            f"func.call {SymbolRefAttr(self.entry.name)}({', '.join(values)}) : "
            f"({', '.join(a.inner for a in self.entry.arguments)}) -> "
            f"({', '.join(r.inner for r in self.entry.results)})"
        )
        if not self.entry.results:
            code.lines.append(call)
            return ()
        code.lines.append(f"%results:{len(self.entry.results)} = {call}")
        return [f"%results#{i}" for i in range(len(self.entry.results))]

    def _function(self, name: str, buffers: Sequence[str], code: OpLines) -> str:
        arrays = [
            # Or intermediate values are put into the arrays of the caller.
            f"%in{i}: {argument.tensor} {{bufferization.writable = false}}"
            for i, argument in enumerate(self.entry.arguments)
        ]
        lines = "\n  ".join((*code.lines, "func.return"))
        # Inlined into what calls it, the function would lose the width of vectors.
        return (
            f"func.func @{name}({', '.join((*arrays, *buffers))}) attributes "
            "{llvm.emit_c_interface, passthrough = "
            '["noinline", ["prefer-vector-width", "512"]]} {\n'
            f"  {lines}\n}}"
        )
