"""
Results that are written past the cache.

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
from typing import Any

from ..mlir_bindings import bindings, ops_in

_LINE = 64
"""Bytes of a cache line."""

_CHUNK = 128 * _LINE
"""Bytes in the buffer that are enough to be copied; the buffer is twice as large."""

_MARK = '"streamed"'
"""A memory space: stores to it become streaming stores."""

_HELPERS = """
// Copy a number of bytes from an address in the buffer to one in the result.
func.func private @{name}_copy(%buffer: index, %target: index, %size: index)
    attributes {{llvm.linkage = #llvm.linkage<internal>, passthrough = ["noinline"]}} {{
  %zero = arith.constant 0 : index
  %line = arith.constant 64 : index
  %in_line = arith.constant 63 : index
  %opposite = arith.subi %zero, %target : index
  %to_line = arith.andi %opposite, %in_line : index
  %head = arith.minui %to_line, %size : index
  %rest = arith.subi %size, %head : index
  %tail = arith.andi %rest, %in_line : index
  %end = arith.subi %size, %tail : index
  func.call @{name}_copy_part(%buffer, %target, %zero, %head)
      : (index, index, index, index) -> ()
  scf.for %i = %head to %end step %line {{
    %from = arith.addi %buffer, %i : index
    %to = arith.addi %target, %i : index
    %0 = arith.index_cast %from : index to i64
    %1 = arith.index_cast %to : index to i64
    %2 = llvm.inttoptr %0 : i64 to !llvm.ptr
    %3 = llvm.inttoptr %1 : i64 to !llvm.ptr
    %4 = llvm.load %2 {{alignment = 1 : i64}} : !llvm.ptr -> vector<16xi32>
    llvm.store %4, %3 {{alignment = 64 : i64, nontemporal}} : vector<16xi32>, !llvm.ptr
  }}
  func.call @{name}_copy_part(%buffer, %target, %end, %tail)
      : (index, index, index, index) -> ()
  return
}}

// Copy less than a line, from a start on.
func.func private @{name}_copy_part(
    %buffer: index, %target: index, %start: index, %size: index)
    attributes {{llvm.linkage = #llvm.linkage<internal>}} {{
  %from = arith.addi %buffer, %start : index
  %to = arith.addi %target, %start : index
  %0 = arith.index_cast %from : index to i64
  %1 = arith.index_cast %to : index to i64
  %2 = llvm.inttoptr %0 : i64 to !llvm.ptr
  %3 = llvm.inttoptr %1 : i64 to !llvm.ptr
  %4 = arith.index_cast %size : index to i64
  "llvm.intr.memcpy"(%3, %2, %4) <{{isVolatile = false}}>
      : (!llvm.ptr, !llvm.ptr, i64) -> ()
  return
}}

func.func private @{name}_begin(%state: memref<2xindex>, %target: index)
    attributes {{llvm.linkage = #llvm.linkage<internal>, passthrough = ["alwaysinline"]}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  memref.store %c0, %state[%c0] : memref<2xindex>
  memref.store %target, %state[%c1] : memref<2xindex>
  return
}}

func.func private @{name}_advance(%state: memref<2xindex>, %buffer: index, %size: index)
    attributes {{llvm.linkage = #llvm.linkage<internal>, passthrough = ["alwaysinline"]}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %enough = arith.constant {chunk} : index
  %before = memref.load %state[%c0] : memref<2xindex>
  %pending = arith.addi %before, %size : index
  memref.store %pending, %state[%c0] : memref<2xindex>
  %is_enough = arith.cmpi uge, %pending, %enough : index
  scf.if %is_enough {{
    %target = memref.load %state[%c1] : memref<2xindex>
    func.call @{name}_copy(%buffer, %target, %pending) : (index, index, index) -> ()
    %next = arith.addi %target, %pending : index
    memref.store %c0, %state[%c0] : memref<2xindex>
    memref.store %next, %state[%c1] : memref<2xindex>
  }}
  return
}}

// Only a fence puts streaming stores in order with others.
func.func private @{name}_finish(%state: memref<2xindex>, %buffer: index)
    attributes {{llvm.linkage = #llvm.linkage<internal>, passthrough = ["alwaysinline"]}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pending = memref.load %state[%c0] : memref<2xindex>
  %target = memref.load %state[%c1] : memref<2xindex>
  func.call @{name}_copy(%buffer, %target, %pending) : (index, index, index) -> ()
  llvm.fence seq_cst
  return
}}
"""
"""The functions that handle the buffer of the kernel `name`."""


# Before there are loops


def streamable_ops(module: Any, name: str) -> Sequence[Any]:
    """
    The ops that compute a result of the kernel `name` in such a way that it can be
    streamed.

    They are of `linalg`, so their loops will go through all elements in turn.
    """
    return [op for op in ops_in(module, "linalg.generic") if _is_streamable(op, name)]


def mark_results(streamable: Sequence[Any]) -> None:
    """Mark the results of ops, so that they are known when there are loops."""
    for op in streamable:
        index = len(op.operands) - 1
        with bindings().ir.InsertionPoint(op), op.location:
            marked = _marked(op.operands[index])
        op.operands[index] = marked


def _is_streamable(generic: Any, name: str) -> bool:
    """Whether an op writes each element of a result in turn, and does not read any."""
    ir = bindings().ir
    *_, outputs = generic.attributes["operandSegmentSizes"]
    block = generic.operation.block
    if outputs != 1 or not _is_entry_block(block, name):
        return False
    *others, output = generic.operands
    result = _root(output)
    if not isinstance(result, ir.BlockArgument) or not _is_plain(output.type):
        return False
    *_, indexing_map = generic.attributes["indexing_maps"]
    (body,) = generic.regions[0].blocks
    *_, old_value = body.arguments
    inside = (value for op in body for each in ops_in(op) for value in each.operands)
    return (
        indexing_map.value == ir.AffineMap.get_identity(output.type.rank)
        and not [*old_value.uses]
        and all(_is_apart(value, result) for value in (*others, *inside))
    )


def _is_entry_block(block: Any, name: str) -> bool:
    function = block.owner.operation
    return (
        function.name == "func.func"
        and function.attributes["sym_name"].value == name
        and block == function.regions[0].blocks[0]
    )


def _is_plain(type_: Any) -> bool:
    """Whether a memref has dimensions, no gaps, and elements of which lines are made."""
    ir = bindings().ir
    identity = ir.AffineMap.get_identity(type_.rank)
    return (
        type_.rank > 0
        and type_.affine_map == identity
        and getattr(type_.element_type, "width", None) in (8, 16, 32, 64)
    )


_VIEWS = (
    "memref.cast",
    "memref.collapse_shape",
    "memref.expand_shape",
    "memref.subview",
)


def _root(memref: Any) -> Any:
    """The memory that a memref is a view of."""
    ir = bindings().ir
    while isinstance(memref, ir.OpResult) and memref.owner.operation.name in _VIEWS:
        memref = memref.owner.operands[0]
    return memref


def _is_apart(value: Any, result: Any) -> bool:
    """Whether a value is certainly not in the memory of a result."""
    ir = bindings().ir
    if not isinstance(value.type, ir.MemRefType | ir.UnrankedMemRefType):
        return True
    root = _root(value)
    if isinstance(root, ir.BlockArgument):
        return root.owner == result.owner and root != result
    return root.owner.operation.name in ("memref.alloc", "memref.get_global")


def _marked(memref: Any) -> Any:
    ir, type_ = bindings().ir, memref.type
    marked = ir.MemRefType.get(
        type_.shape, type_.element_type, memory_space=ir.Attribute.parse(_MARK)
    )
    return bindings().memref.memory_space_cast(marked, memref)


# When there are loops


@dataclass(frozen=True)
class _Buffer:
    """What the loops of a kernel write to, all of them in turn."""

    kernel_name: str

    memory: Any
    """A memref of bytes."""

    state: Any
    """A memref of the number of bytes that are not copied yet, and where they belong."""

    @staticmethod
    def of(module: Any, name: str) -> _Buffer:
        """A buffer in the kernel `name`, with the functions that handle it."""
        ir, memref = bindings().ir, bindings().memref
        helpers = ir.Module.parse(_HELPERS.format(name=name, chunk=_CHUNK))
        for helper in [*helpers.body.operations]:
            module.body.append(helper.detach_from_parent())
        (kernel,) = (
            function
            for function in ops_in(module, "func.func")
            if function.attributes["sym_name"].value == name
        )
        memory = ir.MemRefType.get([2 * _CHUNK], ir.IntegerType.get_signless(8))
        state = ir.MemRefType.get([2], ir.IndexType.get())
        with ir.InsertionPoint.at_block_begin(kernel.regions[0].blocks[0]):
            return _Buffer(
                name,
                memref.alloca(memory, [], [], alignment=_LINE),
                memref.alloca(state, [], []),
            )

    def view(self, element_type: Any, length: int) -> Any:
        """The buffer as elements."""
        type_ = bindings().ir.MemRefType.get([length], element_type)
        return bindings().memref.view(type_, self.memory, _index(0), [])

    def begin(self, result: Any) -> None:
        """Start with nothing in the buffer and the first element of a result."""
        self._call("begin", self.state, _address(result))

    def count(self, element_size: Any) -> Any:
        """The number of elements that are not copied yet."""
        pending = bindings().memref.load(self.state, [_index(0)])
        return bindings().arith.divui(pending, element_size)

    def advance(self, size: Any) -> None:
        """Count more bytes, and copy all if they are enough."""
        self._call("advance", self.state, _address(self.memory), size)

    def finish(self) -> None:
        """Copy the rest."""
        self._call("finish", self.state, _address(self.memory))

    def _call(self, name: str, *operands: Any) -> None:
        ir = bindings().ir
        callee = ir.FlatSymbolRefAttr.get(f"{self.kernel_name}_{name}")
        ir.Operation.create("func.call", [], operands, {"callee": callee})


def stream_marked_results(module: Any, name: str) -> None:
    """Let the loops of marked results write to a buffer of the kernel `name`."""
    buffer = _Buffer.of(module, name)
    for store in ops_in(module, "memref.store"):
        if str(store.operands[1].type.memory_space) == _MARK:
            with store.location:
                _stream(store, buffer)
    module.operation.verify()


def _stream(store: Any, buffer: _Buffer) -> None:
    """
    Let one loop nest write to the buffer.

    Its innermost loop becomes two, of which the inner one writes at most a chunk. Before
    it there is less than a chunk in the buffer, so there is room.
    """
    ir, scf = bindings().ir, bindings().scf
    arith, memref = bindings().arith, bindings().memref
    value, marked, *indices = store.operands
    result = marked.owner.operands[0]
    element_type = result.type.element_type
    element_size = element_type.width // 8
    chunk = _CHUNK // element_size
    loop = store.parent
    with ir.InsertionPoint(_nest(loop, indices)):
        elements = buffer.view(element_type, 2 * chunk)
        buffer.begin(result)
    with ir.InsertionPoint(loop):
        begin, end, _ = loop.operands
        chunks = scf.ForOp(begin, end, _index(chunk))
    with ir.InsertionPoint(chunks.body):
        size = _index(element_size)
        chunk_begin = chunks.induction_variable
        chunk_end = arith.minsi(arith.addi(chunk_begin, _index(chunk)), end)
        shift = arith.subi(buffer.count(size), chunk_begin)
        length = arith.subi(chunk_end, chunk_begin)
        buffer.advance(arith.muli(length, size))
        scf.yield_([])
    loop.move_before(length.owner)
    loop.operands[0], loop.operands[1] = chunk_begin, chunk_end
    with ir.InsertionPoint.after(_nest(chunks, indices)):
        buffer.finish()
    with ir.InsertionPoint(store):
        memref.store(value, elements, [arith.addi(indices[-1], shift)])
    store.erase()


def _nest(innermost: Any, indices: Sequence[Any]) -> Any:
    """The outermost loop of a nest with these indices."""
    nest = innermost.operation
    for _ in indices[1:]:
        nest = nest.parent.operation
    return nest


def _index(value: int) -> Any:
    return bindings().arith.constant(bindings().ir.IndexType.get(), value)


def _address(memref: Any) -> Any:
    return bindings().memref.extract_aligned_pointer_as_index(memref)
