"""
Non-temporal stores of results, which bypass the cache.

A normal store first reads its cache line; non-temporal stores of a whole line do not.
They are faster for results that exceed the cache, and slower for smaller results. LLVM
vectorizes non-temporal stores only with a known alignment, which arrays lack.

The loops of a result therefore write to a small buffer that stays in the cache.
Whenever it holds a chunk, whole lines are copied to the result. This requires loops
that visit the elements in memory order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from .. import mlir_bindings as mlir
from ..building import buffer_of, index, indexing_maps, input_count, is_dynamic
from ..mlir_bindings import FieldValue, Op, Values, arith, func, ir, llvm, memref, scf
from .memrefs import is_distinct_buffer

_LINE = 64
"""Bytes of a cache line."""

_CHUNK = 128 * _LINE
"""Bytes in the buffer that trigger a copy; the buffer is twice as large."""

_MARK = '"streamed"'
"""Memory space that marks streamed results."""

_COPY = """
func.func private @{name}(%buffer: i64, %target: i64, %size: i64) attributes {{
    llvm.linkage = #llvm.linkage<internal>, passthrough = ["noinline"]}} {{
  %zero = arith.constant 0 : i64
  %line = arith.constant 64 : i64
  %in_line = arith.constant 63 : i64
  %opposite = arith.subi %zero, %target : i64
  %to_line = arith.andi %opposite, %in_line : i64
  %head = arith.minui %to_line, %size : i64
  %rest = arith.subi %size, %head : i64
  %tail = arith.andi %rest, %in_line : i64
  %end = arith.subi %size, %tail : i64
  %from = llvm.inttoptr %buffer : i64 to !llvm.ptr
  %to = llvm.inttoptr %target : i64 to !llvm.ptr
  "llvm.intr.memcpy"(%to, %from, %head) <{{isVolatile = false}}>
      : (!llvm.ptr, !llvm.ptr, i64) -> ()
  scf.for %i = %head to %end step %line : i64 {{
    %from_line = llvm.getelementptr %from[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i8
    %to_line_i = llvm.getelementptr %to[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i8
    %0 = llvm.load %from_line {{alignment = 1 : i64}} : !llvm.ptr -> vector<16xi32>
    llvm.store %0, %to_line_i {{alignment = 64 : i64, nontemporal}}
        : vector<16xi32>, !llvm.ptr
  }}
  %from_tail = llvm.getelementptr %from[%end] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %to_tail = llvm.getelementptr %to[%end] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  "llvm.intr.memcpy"(%to_tail, %from_tail, %tail) <{{isVolatile = false}}>
      : (!llvm.ptr, !llvm.ptr, i64) -> ()
  return
}}
"""
"""Function that copies bytes, whole lines with non-temporal stores."""


# Rewrites of linalg ops


_DYNAMIC_SIZE = 1024
"""Assumed size of a dynamic dimension, for comparison of total sizes."""


def writes_more_than_it_reads(module: ir.Module, name: str) -> bool:
    """Return True if the results of the kernel `name` exceed its arguments in bytes."""
    (kernel,) = mlir.functions_in(module, (name,))
    surplus = 0
    for type_ in (argument.type for argument in mlir.body_of(kernel).arguments):
        if isinstance(type_, ir.MemRefType | ir.RankedTensorType):
            sizes = (_DYNAMIC_SIZE if is_dynamic(n) else n for n in type_.shape)
            size = prod(sizes) * mlir.bits(type_.element_type)
            surplus += size if isinstance(type_, ir.MemRefType) else -size
    return surplus > 0


def streamable_ops(module: ir.Module, name: str) -> Sequence[ir.Operation]:
    """
    Return the `linalg` ops that compute a streamable result of the kernel `name`: their
    loops visit the elements in memory order.
    """
    blocks = [*map(mlir.body_of, mlir.functions_in(module, (name,)))]
    generics = mlir.ops_in(module, "linalg.generic")
    return [op for op in generics if op.block in blocks and _is_streamable(op)]


def mark_results(streamable: Sequence[ir.Operation]) -> None:
    """Mark the results of ops by a memory space, for the lowering of loops."""
    for op in streamable:
        index = len(op.operands) - 1
        with ir.InsertionPoint(op), op.location:
            output, type_ = op.operands[index], mlir.shaped_type(op.operands[index])
            marked = ir.MemRefType.get(
                type_.shape, type_.element_type, memory_space=ir.Attribute.parse(_MARK)
            )
            op.operands[index] = memref.memory_space_cast(marked, output)


def _is_streamable(generic: ir.Operation) -> bool:
    """Return True if an op writes a whole result in memory order without reading it."""
    *others, output = generic.operands
    if input_count(generic) != len(others):
        return False
    result = buffer_of(output)
    if not isinstance(result, ir.BlockArgument) or not _is_contiguous_type(output.type):
        return False
    *_, map_ = indexing_maps(generic)
    body = mlir.body_of(generic)
    *_, old_value = body.arguments
    inside = (
        value for op in body for each in mlir.ops_in(op) for value in each.operands
    )
    return (
        map_ == ir.AffineMap.get_identity(map_.n_dims)
        and not [*old_value.uses]
        and all(_cannot_alias(value, result) for value in (*others, *inside))
    )


def _is_contiguous_type(type_: ir.Type) -> bool:
    """Return True for a contiguous memref with a power-of-two element width."""
    return (
        isinstance(type_, ir.MemRefType)
        and type_.rank > 0
        and type_.affine_map == ir.AffineMap.get_identity(type_.rank)
        and getattr(type_.element_type, "width", None) in (8, 16, 32, 64)
    )


def _cannot_alias(value: ir.Value, result: ir.Value) -> bool:
    if not isinstance(value.type, ir.MemRefType | ir.UnrankedMemRefType):
        return True
    buffer = buffer_of(value)
    return buffer != result and is_distinct_buffer(buffer)


# Rewrites of loops


@dataclass(frozen=True)
class _Buffer:
    """Buffer that the loop nests of a kernel share."""

    copy: str
    """Symbol of the copy function."""

    memory: FieldValue
    state: FieldValue
    """Memref of two i64: number of pending bytes, and their target address."""

    @staticmethod
    def of(module: ir.Module, name: str) -> _Buffer:
        """Add a buffer to the kernel `name`."""
        copy = f"{name}_copy"
        helpers = ir.Module.parse(_COPY.format(name=copy))
        module.body.append(helpers.body.operations[0].detach_from_parent())
        (kernel,) = mlir.functions_in(module, (name,))
        i8, i64 = (ir.IntegerType.get_signless(width) for width in (8, 64))
        memory, state = ir.MemRefType.get([2 * _CHUNK], i8), ir.MemRefType.get([2], i64)
        with ir.InsertionPoint.at_block_begin(mlir.body_of(kernel)):
            return _Buffer(
                copy,
                memref.alloca(memory, [], [], alignment=_LINE),
                memref.alloca(state, [], []),
            )

    def view(self, element_type: ir.Type, length: int) -> ir.Value:
        type_ = ir.MemRefType.get([length], element_type)
        return memref.view(type_, self.memory, index(0), [])

    def begin(self, result: ir.Value) -> None:
        """Empty the buffer and point it to the first element of a result."""
        self._set(0, _i64(0))
        self._set(1, _address_of(result))

    def count(self, element_size: int) -> ir.Value:
        """Return the number of pending elements."""
        count = arith.divui(self._get(0), _i64(element_size))
        return arith.index_cast(ir.IndexType.get(), count)

    def advance(self, length: ir.Value, element_size: int) -> None:
        """Add pending elements, and copy all if they fill a chunk."""
        more = arith.muli(_as_i64(length), _i64(element_size))
        pending = arith.addi(self._get(0), more)
        self._set(0, pending)
        is_enough = arith.cmpi(arith.CmpIPredicate.uge, pending, _i64(_CHUNK))
        branch = scf.IfOp(is_enough)
        with ir.InsertionPoint(mlir.body_of(branch)):
            self._copy()
            self._set(0, _i64(0))
            self._set(1, arith.addi(self._get(1), pending))
            scf.yield_([])

    def finish(self) -> None:
        """Copy the remaining bytes."""
        self._copy()
        # Only a fence orders non-temporal stores with other stores.
        llvm.fence(llvm.AtomicOrdering.seq_cst)

    def _copy(self) -> None:
        arguments = [_address_of(self.memory), self._get(1), self._get(0)]
        func.call([], self.copy, arguments)

    def _get(self, position: int) -> ir.Value:
        return memref.load(self.state, [index(position)])

    def _set(self, position: int, value: ir.Value) -> None:
        memref.store(value, self.state, [index(position)])


def stream_marked_results(module: ir.Module, name: str) -> None:
    """Let the loops of marked results write to a buffer in the kernel `name`."""
    buffer = _Buffer.of(module, name)
    for store in mlir.ops_in(module, "memref.store"):
        type_ = store.operands[1].type
        if isinstance(type_, ir.MemRefType) and str(type_.memory_space) == _MARK:
            with store.location:
                _stream(store, buffer)


def _stream(store: ir.Operation, buffer: _Buffer) -> None:
    """
    Let a loop nest write to the buffer. Its innermost loop is split into chunks. Before
    each chunk the buffer holds less than one chunk, so the next one fits.
    """
    value, marked, *indices = store.operands
    result = marked.owner.operands[0]
    element_type = mlir.element(result)
    element_size = mlir.bits(element_type) // 8
    chunk = _CHUNK // element_size
    loop = store.parent
    assert loop is not None
    with ir.InsertionPoint(_nest(loop, indices)):
        elements = buffer.view(element_type, 2 * chunk)
        buffer.begin(result)
    with ir.InsertionPoint(loop):
        begin, end, _ = loop.operands
        chunks = scf.ForOp(begin, end, index(chunk))
    with ir.InsertionPoint(mlir.body_of(chunks)):
        chunk_begin = mlir.body_of(chunks).arguments[0]
        chunk_end = arith.minsi(arith.addi(chunk_begin, index(chunk)), end)
        shift = arith.subi(buffer.count(element_size), chunk_begin)
        length = arith.subi(chunk_end, chunk_begin)
        buffer.advance(length, element_size)
        scf.yield_([])
    loop.move_before(length.owner)
    loop.operands[0], loop.operands[1] = chunk_begin, chunk_end
    with ir.InsertionPoint.after(_nest(chunks, indices)):
        buffer.finish()
    with ir.InsertionPoint(store):
        memref.store(value, elements, [arith.addi(indices[-1], shift)])
    store.erase()


def _nest(innermost: Op, indices: Values) -> ir.Operation:
    """Return the outermost loop of a nest with these indices."""
    nest = innermost.operation
    for _ in indices[1:]:
        assert nest.parent is not None
        nest = nest.parent
    return nest


def _i64(value: int) -> ir.Value:
    i64 = ir.IntegerType.get_signless(64)
    return arith.constant(i64, value)


def _as_i64(value: ir.Value) -> ir.Value:
    i64 = ir.IntegerType.get_signless(64)
    return arith.index_cast(i64, value)


def _address_of(buffer: ir.Value) -> ir.Value:
    return _as_i64(memref.extract_aligned_pointer_as_index(buffer))
