"""Rewrites of structured loops (`scf`) for which MLIR has no pass."""

import re
from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.small_floats import small_float

from . import mlir_bindings as mlir
from .building import memref_bytes
from .compilation_error import CompilationError
from .mlir_bindings import Values, arith, cf, ir, memref, scf

_SHAPE_OPS = (
    "arith.",
    "cf.assert",
    "func.",
    "index.",
    "memref.dim",
    "memref.store",
    "scf.",
)


def depends_on_shapes_alone(module: ir.Module, names: Collection[str]) -> bool:
    """
    Return True if functions compute sizes from the argument shapes alone. They may
    store the sizes, but not load elements, allocate memory or call functions.
    """
    return all(
        op.name.startswith(_SHAPE_OPS) and op.name != "func.call"
        for function in mlir.functions_in(module, names)
        for op in mlir.ops_in(function)
    )


def store_whole_bytes(module: ir.Module) -> None:
    """
    Store integers in memory with 8, 16, 32 or 64 bits, and floats of fewer than 8 bits
    as 8-bit integers.

    With other widths, such as i4 and i1, MLIR misreads some constants, some loads and
    stores terminate the process, and others are not vectorized.
    """
    for op in mlir.ops_in(module):
        for region in op.regions:
            for block in region:
                for argument in block.arguments:
                    mlir.change_type(argument, _in_bytes(argument.type))
        for result in op.results:
            mlir.change_type(result, _in_bytes(result.type))
        if op.name == "func.func":
            _update_signature(op)
        elif op.name == "memref.global":
            _update_constant(op)
    for load in mlir.ops_in(module, "memref.load"):
        (value,), (buffer, *indices) = load.results, load.operands
        if mlir.element(buffer) != value.type:
            with ir.InsertionPoint(load), load.location:
                stored = memref.load(buffer, indices)
                number = arith.trunci(_bits_of(value.type), stored)
                if number.type != value.type:
                    number = arith.bitcast(value.type, number)
            mlir.replace_op(load, number)
    for store in mlir.ops_in(module, "memref.store"):
        value, buffer, *_ = store.operands
        whole_type = mlir.element(buffer)
        if whole_type != value.type:
            with ir.InsertionPoint(store), store.location:
                bits = _bits_of(value.type)
                number = value if bits == value.type else arith.bitcast(bits, value)
                store.operands[0] = arith.extui(whole_type, number)
    module.operation.verify()


def _bits_of(type_: ir.Type) -> ir.Type:
    return ir.IntegerType.get_signless(mlir.bits(type_))


def _in_bytes(type_: ir.Type) -> ir.Type:
    """
    Return a memref type with elements of whole bytes, or any other type unchanged.

    Raises:
        CompilationError: if an integer width above 64 is not a multiple of 128: MLIR
            allocates 12 bytes for an i72, but LLVM for x86-64 stores 16.
    """
    if not isinstance(type_, ir.MemRefType | ir.UnrankedMemRefType):
        return type_
    element_type = type_.element_type
    is_small = isinstance(element_type, ir.FloatType) and element_type.width < 8
    if not is_small and not isinstance(element_type, ir.IntegerType):
        return type_
    bits = mlir.bits(element_type)
    if bits > 64:
        if bits % 128:
            raise CompilationError(
                f"unsupported integers of {bits} bits in memory; expected at most 64 or a "
                "multiple of 128"
            )
        return type_
    width = next(width for width in (8, 16, 32, 64) if bits <= width)
    if width == bits:
        return type_
    whole = ir.IntegerType.get_signless(width)
    if isinstance(type_, ir.UnrankedMemRefType):
        return ir.UnrankedMemRefType.get(whole, type_.memory_space)
    return ir.MemRefType.get(type_.shape, whole, type_.layout, type_.memory_space)


def _update_signature(function: ir.Operation) -> None:
    inputs, results = mlir.types_of_function(function)
    type_ = ir.FunctionType.get([*map(_in_bytes, inputs)], [*map(_in_bytes, results)])
    function.attributes["function_type"] = ir.TypeAttr.get(type_)


def _update_constant(constant: ir.Operation) -> None:
    type_ = mlir.type_of(constant)
    whole = _in_bytes(type_)
    if whole == type_:
        return
    assert isinstance(type_, ir.MemRefType)
    assert isinstance(whole, ir.MemRefType)
    constant.attributes["type"] = ir.TypeAttr.get(whole)
    elements = constant.attributes["initial_value"]
    if isinstance(elements, ir.DenseElementsAttr):
        integers = _dense_integers(elements, type_)
        dtype = f"int{mlir.bits(whole.element_type)}"
        constant.attributes["initial_value"] = mlir.dense_attr(
            np.broadcast_to(integers, type_.shape).astype(dtype, order="C"),
            ir.RankedTensorType.get(type_.shape, whole.element_type),
        )


def _dense_integers(
    elements: ir.DenseElementsAttr, type_: ir.MemRefType
) -> NDArray[np.int64]:
    """
    Return the elements of an attribute whose bit width MLIR's bindings do not support:
    one element for a splat, bit patterns for floats. Higher bits are undefined.
    """
    element_type = type_.element_type
    width = mlir.bits(element_type)
    if width == 1:
        return np.array(elements).astype(np.int64)
    text, _, _ = str(elements).rpartition(":")
    if (match := re.search('"0x(.*)"', text)) is not None:
        # Little-endian, in the fewest whole bytes per element.
        data = np.frombuffer(bytes.fromhex(match[1]), np.uint8)
        data = data.reshape(-1, (width + 7) // 8)
        integers = np.pad(data, [(0, 0), (0, 8 - data.shape[-1])]).view("<i8")
    else:
        numbers = np.array(re.findall(r"-?\d[-+.e\d]*", text))
        integers = (
            small_float(str(element_type)).encode(numbers.astype(np.float64))
            if isinstance(element_type, ir.FloatType)
            else numbers
        )
    is_splat = integers.size == 1
    return integers.astype(np.int64).reshape(() if is_splat else type_.shape)


_NARROWING = (
    "arith.fptosi",
    "arith.fptoui",
    "arith.index_cast",
    "arith.index_castui",
    "arith.trunci",
    "arith.truncf",
)

_MASKED_TRIP_COUNT = 16
"""Exclusive upper bound of the trip counts for which LLVM emits masked vectors."""


def disable_unsafe_vectorization(module: ir.Module) -> None:
    """
    Disable vectorization of short loops that narrow values. If a single element remains
    for the last vector, LLVM 22 on AVX-512 stores it at the width before narrowing,
    which overwrites adjacent memory.
    """
    with module.context:
        annotation = ir.Attribute.parse(
            "#llvm.loop_annotation<vectorize = <disable = true>>"
        )
    for loop in mlir.ops_in(module, "scf.for"):
        count = len(iterations(loop))
        # Vector widths are even: only an odd trip count leaves a single element.
        if (
            count % 2
            and 1 < count < _MASKED_TRIP_COUNT
            and mlir.ops_in(loop, *_NARROWING)
        ):
            loop.attributes["loop_annotation"] = annotation


def iterations(loop: ir.Operation) -> range:
    """Return the iterations of an `scf.for`; empty if its bounds are not constant."""
    bounds = [mlir.integer_of(value) for value in [*loop.operands][:3]]
    known = [bound for bound in bounds if bound is not None]
    return range(*known) if len(known) == len(bounds) else range(0)


def check_divisions(module: ir.Module) -> None:
    """
    Prevent traps of integer divisions: assert that divisors are not 0. If a divisor is
    -1, divide the negated (wrapping) dividend by 1 instead.
    """
    signed = ("divsi", "remsi", "floordivsi", "ceildivsi")
    unsigned = ("divui", "remui", "ceildivui")
    for op in mlir.ops_in(module, *(f"arith.{name}" for name in (*signed, *unsigned))):
        left, right = op.operands
        if mlir.integer_of(right) not in (None, 0, -1):
            continue
        with ir.InsertionPoint(op), op.location:
            zero = arith.constant(right.type, 0)
            is_defined = arith.cmpi(arith.CmpIPredicate.ne, right, zero)
            cf.AssertOp(is_defined, "division by zero")
            if op.name.removeprefix("arith.") not in signed:
                continue
            minus_one, one = (arith.constant(right.type, value) for value in (-1, 1))
            is_opposite = arith.cmpi(arith.CmpIPredicate.eq, right, minus_one)
            opposite = arith.subi(zero, left)
            op.operands[0] = arith.select(is_opposite, opposite, left)
            op.operands[1] = arith.select(is_opposite, one, right)


def allocated_bytes(module: ir.Module, name: str) -> int:
    """Return the total size in bytes of the static buffers that each call allocates."""
    (function,) = mlir.functions_in(module, [name])
    ops = mlir.operations_of(mlir.body_of(function))
    return sum(memref_bytes(op.result.type) for op in ops if op.name == "memref.alloc")


def free_where_assertions_fail(module: ir.Module) -> None:
    """
    Free the allocated buffers before a failed assertion returns. Only buffers that are
    freed in the block of their allocation are supported; others leak.
    """
    for function in mlir.ops_in(module, "func.func"):
        _free_in_region(function.regions[0], {})


def _free_in_region(region: ir.Region, outside: Mapping[ir.Value, None]) -> None:
    """Free buffers at failed assertions; `outside` lists those of enclosing blocks."""
    for block in region:
        # An ordered set.
        buffers = dict(outside)
        for op in mlir.operations_of(block):
            if op.name == "memref.alloc" and _is_freed_in(block, op.results[0]):
                buffers[op.results[0]] = None
            elif op.name == "memref.dealloc":
                buffers.pop(op.operands[0], None)
            elif op.name == "cf.assert" and buffers:
                _free_before_failing(op, [*buffers])
            for inner in op.regions:
                _free_in_region(inner, buffers)


def _is_freed_in(block: ir.Block, buffer: ir.Value) -> bool:
    frees = [user for user in mlir.users_of(buffer) if user.name == "memref.dealloc"]
    return len(frees) == 1 and frees[0].block == block


def _free_before_failing(assertion: ir.Operation, buffers: Values) -> None:
    (condition,) = assertion.operands
    with assertion.location:
        with ir.InsertionPoint(assertion):
            true = arith.constant(condition.type, ir.IntegerAttr.get(condition.type, 1))
            branch = scf.IfOp(arith.xori(condition, true))
        with ir.InsertionPoint(mlir.body_of(branch)):
            for buffer in buffers:
                memref.dealloc(buffer)
            scf.yield_([])
