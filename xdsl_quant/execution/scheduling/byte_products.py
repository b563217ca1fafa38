"""
Lowering of 8-bit integer products to functions for AVX-512 VNNI, AVX-VNNI or AMX.

`vpdpbusd` multiplies 64 unsigned by 64 signed bytes and adds the products in groups of
four to 16 i32 accumulators. Four consecutive bytes of the left factor are broadcast and
multiplied by 16 packed columns of the right factor. A constant right factor is packed
at compile time, any other before each product. Convolutions are products too: the left
factor is read in place through the window's strides.

The left factor must be unsigned: signed bytes are loaded with 128 added, by flipping a
bit. A constant per column corrects the sums for this offset and the zero point; a term
per row corrects them for a zero point of the right factor.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from .. import mlir_bindings as mlir
from ..building import input_count, iterator_types_of
from ..cpu import Cpu
from ..mlir_bindings import Values, func, ir, memref
from ..runtime_library import ThreadFunctions
from .amx_code import tile_product_text
from .buffer_planning import ALIGNMENT
from .byte_contractions import ByteContraction, BytesOperand, byte_contraction_of
from .contractions import contraction_of, materialize_operand
from .epilogues import Epilogue, epilogue_of
from .memrefs import shared_symbol_table, strides_by_loop
from .packing import (
    RowSums,
    Transposition,
    packing_text,
    row_sums_text,
    transposition_text,
)
from .tile_check import tiles_are_exact
from .vector_code import LANES, Axis, Memref
from .vnni_code import ChannelProduct, Product, RuntimeMatrix, WeightedSum, product_text

_MARK = "xdsl_quant.bytes"

_MIN_THREADED_PRODUCTS = 1 << 25
"""Minimum number of multiply-accumulates that pays for another thread."""


def mark_byte_products(module: ir.Module) -> None:
    """
    Mark products of bytes on tensors for `call_byte_products`, and prevent loop fusion
    that would break them up.

    Computed factors are materialized in memory. Elementwise ops on the sums become the
    epilogue of the last product only: they are not fused into other loops.
    """
    generic = mlir.ops_in(module, "linalg.generic")
    for op in generic:
        found = byte_contraction_of(contraction_of(op))
        if found is None:
            continue
        op.attributes[_MARK] = ir.UnitAttr.get(module.context)
        for factor in (found.lhs, found.rhs):
            if factor.is_computed:
                materialize_operand(op, [*op.operands].index(factor.value))
    position = {result: i for i, op in enumerate(generic) for result in op.results}
    combined: set[ir.Value] = set()
    """Results of elementwise ops on sums of products."""
    for op in generic:
        if is_byte_product(op):
            continue
        inputs = [*op.operands][: input_count(op)]
        found = [(i, value) for i, value in enumerate(inputs) if value in combined]
        for i, value in found:
            # Elementwise integer ops are the epilogue of the last product.
            if (
                not _is_elementwise(op)
                or any(position[value] < position[later] for _, later in found)
                or _converts_bytes(op, value)
            ):
                materialize_operand(op, i)
        if _is_elementwise(op) and any(
            value in combined or _is_sum_of_product(value) for value in op.operands
        ):
            combined.update(op.results)


def _is_sum_of_product(value: ir.Value) -> bool:
    owner = mlir.defining_op(value, "linalg.generic")
    return owner is not None and is_byte_product(owner)


def _is_elementwise(op: ir.Operation) -> bool:
    return all("parallel" in kind for kind in iterator_types_of(op))


def _converts_bytes(op: ir.Operation, value: ir.Value) -> bool:
    """Return True if an op computes floats from bytes."""
    has_floats = all(isinstance(mlir.element(x), ir.FloatType) for x in op.results)
    return has_floats and mlir.bits(mlir.element(value)) == 8


def is_byte_product(op: ir.Operation) -> bool:
    """Return True if an op is marked by `mark_byte_products`."""
    return _MARK in op.attributes


def call_byte_products(module: ir.Module, cpu: Cpu, threads: int) -> ThreadFunctions:
    """
    Replace marked products on memrefs, with their elementwise epilogues, by calls of
    new functions, and return the functions that several threads call. `threads` is the
    number of threads for large products.
    """
    names = mlir.unused_names(module, "byte_product")
    calls = _ProductCalls(module, cpu, threads, names)
    with shared_symbol_table(module):
        for op in [*filter(is_byte_product, mlir.ops_in(module, "linalg.generic"))]:
            _call_product(op, calls)
    return calls.by_threads


class _ProductCalls:
    """Builder of functions that compute products, and of calls to these functions."""

    def __init__(self, module: ir.Module, cpu: Cpu, threads: int, names: Iterator[str]):
        self.by_threads: dict[str, tuple[int, Sequence[str]]] = {}
        self._module = module
        self._cpu = cpu
        self._threads = threads
        self._names = names

    def compute(self, contraction: ByteContraction, epilogue: Epilogue | None) -> None:
        """Add functions that compute a product and its epilogue, and calls of them."""
        results = _result_operands(contraction.source.op, epilogue)
        buffers, bytes_ = _buffers(contraction), contraction.bytes
        if contraction.transposition is not None:
            bytes_ = self._transpose(contraction.transposition, bytes_)
        operands = [bytes_, *results, *buffers]
        product = contraction.with_loops(operands)
        if isinstance(product, ChannelProduct):
            sizes = [_element_bytes(operand.value) for operand in operands]
            product, epilogue = _with_pixels(product, epilogue, sizes)
        elif contraction.packing is not None:
            product = self._pack(contraction, product, buffers)
        if product.weights_zero_point:
            self._sum_rows(contraction, product, (bytes_, buffers[0]))
        self._multiply(product, epilogue, [operand.value for operand in operands])
        for buffer in (*buffers, *([bytes_] if contraction.transposition else ())):
            memref.dealloc(buffer.value)

    def _call(
        self,
        operands: Sequence[BytesOperand],
        text: Callable[[str, Sequence[Memref]], str],
    ) -> None:
        """Add a function for these memrefs to the module, and call it."""
        name, values = next(self._names), [operand.value for operand in operands]
        add_text(self._module, text(name, [*map(memref_argument, values)]))
        func.call([], name, values)

    def _transpose(
        self, transposition: Transposition, source: BytesOperand
    ) -> BytesOperand:
        target = source._replace(value=_allocated(transposition.size))
        self._call([source, target], partial(transposition_text, transposition))
        return target

    def _pack(
        self,
        contraction: ByteContraction,
        product: Product,
        buffers: Sequence[BytesOperand],
    ) -> Product:
        """Pack the right factor; return the product with the packed layout."""
        assert contraction.packing is not None
        assert isinstance(product.weights, RuntimeMatrix)
        bits = self._cpu.vnni_bits
        vectors = product.vectors(bits)
        operands = [contraction.matrix, *buffers[-2:]]
        batches = (
            contraction.loops(contraction.batches, operands)
            if contraction.batches
            else []
        )
        packing = replace(contraction.packing, batches=batches, vectors=vectors)
        self._call(operands, partial(packing_text, packing, bits))
        return replace(product, weights=product.weights._replace(vectors=vectors))

    def _sum_rows(
        self,
        contraction: ByteContraction,
        product: WeightedSum,
        operands: Sequence[BytesOperand],
    ) -> None:
        """Compute the zero-point-corrected sum of each row."""
        assert isinstance(product, Product)
        rows = contraction.loops([*contraction.batches, *contraction.rows], operands)
        signs = product.is_signed, product.zero_point
        sums = RowSums(rows, product.reductions, *signs)
        self._call(operands, partial(row_sums_text, sums, self._cpu.vnni_bits))

    def _multiply(
        self, product: WeightedSum, epilogue: Epilogue | None, values: Values
    ) -> None:
        """Compute the product, on several threads if it is large."""
        parts = _parts_of_rows(product, [*map(memref_argument, values)], self._threads)
        functions = {n: part for part, n in zip(parts, self._names, strict=False)}
        for name, part in functions.items():
            add_text(self._module, _fastest_text(name, *part, epilogue, self._cpu))
        name, *others = functions
        if others:
            name = next(self._names)
            _declare_for_threads(self._module, name, values, [*functions])
            self.by_threads[name] = len(values), [*functions]
        func.call([], name, values)


def _call_product(op: ir.Operation, calls: _ProductCalls) -> None:
    contraction = byte_contraction_of(contraction_of(op))
    if contraction is None:
        return
    epilogue = epilogue_of(op, contraction.column)
    last = epilogue.op if epilogue else op
    ops = [op, *(mlir.ops_in(epilogue.op) if epilogue else ())]
    with (
        ir.Location.fused([each.location for each in ops]),
        ir.InsertionPoint(last),
    ):
        calls.compute(contraction, epilogue)
    op.erase()
    if epilogue is not None:
        epilogue.erase()


def _declare_for_threads(
    module: ir.Module, name: str, arguments: Values, functions: Sequence[str]
) -> None:
    """Declare a function that runs `functions` on threads; make `functions` public."""
    with ir.InsertionPoint(module.body):
        new = mlir.declare(name, [value.type for value in arguments])
    parts = mlir.functions_in(module, functions)
    for function in (new, *parts):
        function.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
    for function in parts:
        del function.attributes["sym_visibility"]


def _result_operands(
    op: ir.Operation, epilogue: Epilogue | None
) -> Sequence[BytesOperand]:
    """Return the memrefs of the result and of other operands of the epilogue."""
    if epilogue is not None:
        memrefs, steps = epilogue.memrefs, epilogue.steps
    else:
        memrefs = [op.operands[2]]
        identity = ir.AffineMap.get_identity(mlir.shaped_type(memrefs[0]).rank)
        steps = [strides_by_loop(identity.results, memrefs[0]) or {}]
    return [
        BytesOperand(value, {d: step * _element_bytes(value) for d, step in by.items()})
        for value, by in zip(memrefs, steps, strict=True)
    ]


def _element_bytes(value: ir.Value) -> int:
    return mlir.bits(mlir.element(value)) // 8


# Run-time preparation


def _buffers(contraction: ByteContraction) -> Sequence[BytesOperand]:
    """
    Allocate the buffers that a product needs: row sums if weights have a zero point;
    packed bytes and column sums if the matrix is packed at run time.
    """
    product = contraction.product
    buffers: list[BytesOperand] = []
    if product.weights_zero_point:
        buffers.append(_buffer(contraction, [*range(len(contraction.source.shape))], 4))
    if contraction.packing is not None:
        vectors = -(-contraction.packing.width // LANES)
        buffers.append(
            _buffer(contraction, contraction.batches, vectors * product.packed_bytes)
        )
        buffers.append(_buffer(contraction, contraction.batches, vectors * 64))
    return buffers


def _buffer(
    contraction: ByteContraction, dimensions: Sequence[int], size: int
) -> BytesOperand:
    """Allocate `size` bytes for each index of these dimensions, except the column."""
    steps: dict[int, int] = {}
    for d in reversed(dimensions):
        if d != contraction.column:
            steps[d] = size
            size *= contraction.source.shape[d]
    return BytesOperand(_allocated(size), steps)


def _allocated(size: int) -> ir.Value:
    type_ = ir.MemRefType.get([size], ir.IntegerType.get_signless(8))
    return memref.alloc(type_, [], [], alignment=ALIGNMENT)


def _fastest_text(
    name: str,
    memrefs: Sequence[Memref],
    product: WeightedSum,
    epilogue: Epilogue | None,
    cpu: Cpu,
) -> str:
    if cpu.has_tiles:
        text = tile_product_text(name, memrefs, product, epilogue)
        if text is not None and tiles_are_exact(cpu):
            return text
    return product_text(name, memrefs, product, epilogue, cpu.vnni_bits)


def add_text(module: ir.Module, text: str) -> None:
    """Parse ops and append them to the module."""
    for op in ir.Module.parse(text).body.operations:
        module.body.append(op.detach_from_parent())


def _parts_of_rows(
    product: WeightedSum, memrefs: Sequence[Memref], threads: int
) -> Sequence[tuple[Sequence[Memref], WeightedSum]]:
    """Split a large product for threads; return the memrefs and product of each part."""
    loops = [*product.batches, *product.rows]
    first, *inner = loops
    size = math.prod(loop.size for loop in loops) * product.weights.size
    count = min(threads, first.size) if size >= _MIN_THREADED_PRODUCTS else 1
    ends = [first.size * i // count for i in range(count + 1)]
    return [
        (
            [
                memref._replace(offset=memref.offset + start * step)
                for memref, step in zip(memrefs, first.steps, strict=True)
            ],
            _with_loops(product, [Axis(end - start, first.steps), *inner]),
        )
        for start, end in pairwise(ends)
    ]


def _with_loops(product: WeightedSum, loops: Sequence[Axis]) -> WeightedSum:
    count = len(product.batches)
    return replace(product, batches=loops[:count], rows=loops[count:])


def _with_pixels(
    product: ChannelProduct, epilogue: Epilogue | None, sizes: Sequence[int]
) -> tuple[ChannelProduct, Epilogue | None]:
    """
    Merge adjacent pixels with few channels, so that their channels fill a vector.
    `sizes` are the element sizes of the memrefs in bytes.
    """
    assert isinstance(product.weights, np.ndarray)
    width, row = product.weights.shape[1], product.rows[-1]
    count, rest = divmod(LANES, width)
    steps = [row.steps[0] * product.repeats, *row.steps[1:]]
    is_contiguous = steps == [width * size for size in sizes]
    if count < 2 or rest or row.size % count or not is_contiguous:
        return product, epilogue
    pixels = Axis(row.size // count, [count * step for step in row.steps])
    rows, weights = [*product.rows[:-1], pixels], np.tile(product.weights, count)
    product = replace(product, rows=rows, weights=weights)
    return product, epilogue and epilogue.repeat_columns(count)


def memref_argument(value: ir.Value) -> Memref:
    """Return the argument of a generated function for a memref."""
    type_ = value.type
    assert isinstance(type_, ir.MemRefType)
    _, offset = type_.get_strides_and_offset()
    element = type_.element_type
    return Memref(str(type_), str(element), offset * mlir.bits(element) // 8)
