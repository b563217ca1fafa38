"""
Results that are written with non-temporal stores, which bypass the cache.

A store reads its cache line first, unless the whole line is written at once by
non-temporal stores. So a result that does not fit the cache costs less to write with
these, and one that does costs more. LLVM makes vectors of non-temporal stores only where it
knows that they are aligned, which nobody knows of an array.

Therefore the loops of a result go on as they are, but write to a small buffer that stays in
the cache. Whenever there is enough in it, whole lines are copied to the result. This works
because these loops visit the elements in the order in which they are in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from .. import mlir_bindings as mlir
from ..building import index, indexing_maps, input_count, is_dynamic
from ..mlir_bindings import FieldValue, Op, Values, arith, func, ir, llvm, memref, scf
from .memrefs import buffer_of, is_distinct_buffer

_LINE = 64
"""Bytes of a cache line."""

_CHUNK = 128 * _LINE
"""Bytes in the buffer that are enough to be copied; the buffer is twice as large."""

_MARK = '"streamed"'
"""A memory space: stores to it become streaming stores."""

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
"""Copies bytes from one address to another, whole lines with non-temporal stores."""


# Before there are loops


_DYNAMIC_SIZE = 1024
"""Stands for a dynamic size where only a comparison with others matters."""


def writes_more_than_it_reads(module: ir.Module, name: str) -> bool:
    """
    Return True if memrefs, in which the kernel `name` stores its results, have more
    bytes than tensors, its arguments.
    """
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
    Return the ops that compute a result of the kernel `name` in such a way that it can
    be streamed.

    They are of `linalg`, so their loops will go through all elements in turn.
    """
    blocks = [*map(mlir.body_of, mlir.functions_in(module, (name,)))]
    generics = mlir.ops_in(module, "linalg.generic")
    return [op for op in generics if op.block in blocks and _is_streamable(op)]


def mark_results(streamable: Sequence[ir.Operation]) -> None:
    """Mark the results of ops, so that they are known when there are loops."""
    for op in streamable:
        index = len(op.operands) - 1
        with ir.InsertionPoint(op), op.location:
            output, type_ = op.operands[index], mlir.shaped_type(op.operands[index])
            marked = ir.MemRefType.get(
                type_.shape, type_.element_type, memory_space=ir.Attribute.parse(_MARK)
            )
            op.operands[index] = memref.memory_space_cast(marked, output)


def _is_streamable(generic: ir.Operation) -> bool:
    """
    Return True if an op writes each element of a result in turn, and does not read any.
    """
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
        and all(_is_apart(value, result) for value in (*others, *inside))
    )


def _is_contiguous_type(type_: ir.Type) -> bool:
    """
    Return True if the memref is contiguous, has rank > 0 and a power-of-two element
    width.
    """
    return (
        isinstance(type_, ir.MemRefType)
        and type_.rank > 0
        and type_.affine_map == ir.AffineMap.get_identity(type_.rank)
        and getattr(type_.element_type, "width", None) in (8, 16, 32, 64)
    )


def _is_apart(value: ir.Value, result: ir.Value) -> bool:
    """Return True if a value is certainly not in the memory of a result."""
    if not isinstance(value.type, ir.MemRefType | ir.UnrankedMemRefType):
        return True
    buffer = buffer_of(value)
    return buffer != result and is_distinct_buffer(buffer)


# When there are loops


@dataclass(frozen=True)
class _Buffer:
    """What the loops of a kernel write to, one loop nest after the other."""

    copy: str
    """The function that copies to a result."""

    memory: FieldValue
    """A memref of bytes."""

    state: FieldValue
    """A memref of two i64: the number of pending bytes, and the address they go to."""

    @staticmethod
    def of(module: ir.Module, name: str) -> _Buffer:
        """Return a buffer in the kernel `name`."""
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
        """Return the buffer as elements."""
        type_ = ir.MemRefType.get([length], element_type)
        return memref.view(type_, self.memory, index(0), [])

    def begin(self, result: ir.Value) -> None:
        """Start with nothing in the buffer and the first element of a result."""
        self._set(0, _i64(0))
        self._set(1, _address_of(result))

    def count(self, element_size: int) -> ir.Value:
        """Return the number of pending elements."""
        count = arith.divui(self._get(0), _i64(element_size))
        return arith.index_cast(ir.IndexType.get(), count)

    def advance(self, length: ir.Value, element_size: int) -> None:
        """Count more elements as pending, and copy all if they are enough."""
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
        """Copy the rest."""
        self._copy()
        # Only a fence puts non-temporal stores in order with others.
        llvm.fence(llvm.AtomicOrdering.seq_cst)

    def _copy(self) -> None:
        arguments = [_address_of(self.memory), self._get(1), self._get(0)]
        func.call([], self.copy, arguments)

    def _get(self, position: int) -> ir.Value:
        return memref.load(self.state, [index(position)])

    def _set(self, position: int, value: ir.Value) -> None:
        memref.store(value, self.state, [index(position)])


def stream_marked_results(module: ir.Module, name: str) -> None:
    """Let the loops of marked results write to a buffer of the kernel `name`."""
    buffer = _Buffer.of(module, name)
    for store in mlir.ops_in(module, "memref.store"):
        type_ = store.operands[1].type
        if isinstance(type_, ir.MemRefType) and str(type_.memory_space) == _MARK:
            with store.location:
                _stream(store, buffer)


def _stream(store: ir.Operation, buffer: _Buffer) -> None:
    """
    Let one loop nest write to the buffer.

    Its innermost loop becomes two, of which the inner one writes at most a chunk. Before
    it there is less than a chunk in the buffer, so there is room.
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
