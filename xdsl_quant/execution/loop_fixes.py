"""Rewrites of loops, before they become branches, for which MLIR has no pass."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.small_floats import small_float

from .building import has_identity_layout
from .compilation_error import CompilationError
from .mlir_bindings import arith, cf, functions_in, ir, linalg, made_by, memref, ops_in

_OF_SHAPES = (
    "arith.",
    "cf.assert",
    "func.",
    "index.",
    "memref.dim",
    "memref.store",
    "scf.",
)


def depends_on_shapes_alone(module: Any, names: Collection[str]) -> bool:
    """
    Whether functions compute sizes without reading any element.

    They may store the sizes, but allocate no memory and call no function.
    """
    return all(
        op.name.startswith(_OF_SHAPES) and op.name != "func.call"
        for function in functions_in(module, names)
        for op in ops_in(function)
    )


def copy_in_loops(module: Any) -> None:
    """
    Erase copies of a memref to itself, and let copies be loops where memory has gaps: MLIR
    calls a function for these.

    Copies to themselves are left where results are computed in place, but a memref has
    become more static than the one that it was written to.
    """
    for copy in ops_in(module, "memref.copy"):
        source, target = copy.operands
        if _uncast(source) == _uncast(target):
            copy.erase()
        elif not all(map(_is_contiguous, copy.operands)):
            with ir.InsertionPoint(copy), copy.location:
                linalg.copy(source, outs=[target])
            copy.erase()


def _is_contiguous(buffer: Any) -> bool:
    # Without a rank, there are no loops.
    is_ranked = isinstance(buffer.type, ir.MemRefType)
    return not is_ranked or has_identity_layout(buffer.type)


def _uncast(buffer: Any) -> Any:
    while cast := made_by(buffer, "memref.cast"):
        buffer = cast.operands[0]
    return buffer


def store_whole_bytes(module: Any) -> None:
    """
    Store integers with 8, 16, 32 or 64 bits, whatever their width in registers is, and
    floats of fewer than 8 bits as integers of 8.

    With other widths, such as i4 and i1, MLIR reads some constants wrong, and some loads
    and stores terminate the process. Of others LLVM makes no vectors.
    """
    for op in ops_in(module):
        for region in op.regions:
            for block in region:
                for argument in block.arguments:
                    argument.set_type(_in_bytes(argument.type))
        for result in op.results:
            result.set_type(_in_bytes(result.type))
        if op.name == "func.func":
            _update_signature(op)
        elif op.name == "memref.global":
            _update_constant(op)
    for load in ops_in(module, "memref.load"):
        (value,), (buffer, *indices) = load.results, load.operands
        if buffer.type.element_type != value.type:
            with ir.InsertionPoint(load), load.location:
                number = arith.trunci(
                    _bits_of(value.type), memref.load(buffer, indices)
                )
                if number.type != value.type:
                    number = arith.bitcast(value.type, number)
                value.replace_all_uses_with(number)
            load.erase()
    for store in ops_in(module, "memref.store"):
        value, whole_type = store.operands[0], store.operands[1].type.element_type
        if whole_type != value.type:
            with ir.InsertionPoint(store), store.location:
                bits = _bits_of(value.type)
                number = value if bits == value.type else arith.bitcast(bits, value)
                store.operands[0] = arith.extui(whole_type, number)
    module.operation.verify()


def _bits_of(type_: Any) -> Any:
    """The integer type with the bits of a number."""
    return ir.IntegerType.get_signless(type_.width)


def _in_bytes(type_: Any) -> Any:
    """
    A memref type with integers of whole bytes, also for floats that have fewer bits; any
    other type as it is.

    Raises:
        CompilationError: if integers are wider than 64 bits, but not as wide as in memory:
            MLIR allocates 12 bytes for an i72, and LLVM for x86-64 stores 16.
    """
    if not isinstance(type_, ir.MemRefType | ir.UnrankedMemRefType):
        return type_
    element_type = type_.element_type
    is_float = isinstance(element_type, ir.FloatType)
    if not isinstance(element_type, ir.IntegerType) and not (
        is_float and element_type.width < 8
    ):
        return type_
    if element_type.width > 64:
        if element_type.width % 128:
            raise CompilationError(
                f"unsupported integers of {element_type.width} bits in memory; widen them "
                "to 128 bits"
            )
        return type_
    width = next(width for width in (8, 16, 32, 64) if element_type.width <= width)
    if width == element_type.width:
        return type_
    whole = ir.IntegerType.get_signless(width)
    if isinstance(type_, ir.UnrankedMemRefType):
        return ir.UnrankedMemRefType.get(whole, type_.memory_space)
    return ir.MemRefType.get(type_.shape, whole, type_.layout, type_.memory_space)


def _update_signature(function: Any) -> None:
    type_ = function.attributes["function_type"].value
    types = ([_in_bytes(t) for t in ts] for ts in (type_.inputs, type_.results))
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))


def _update_constant(constant: Any) -> None:
    type_ = constant.attributes["type"].value
    whole = _in_bytes(type_)
    if whole == type_:
        return
    constant.attributes["type"] = ir.TypeAttr.get(whole)
    elements = constant.attributes["initial_value"]
    if isinstance(elements, ir.DenseElementsAttr):
        integers = _integers(elements, type_.element_type)
        dtype = f"int{whole.element_type.width}"
        constant.attributes["initial_value"] = ir.DenseElementsAttr.get(
            np.broadcast_to(integers, type_.shape).astype(dtype, order="C"),
            type=ir.RankedTensorType.get(type_.shape, whole.element_type),
        )


def _integers(elements: Any, element_type: Any) -> NDArray[np.int64]:
    """
    The elements of a tensor attribute, of widths that the bindings do not give access to;
    of floats their codes.

    Bits above the width are undefined. Of equal elements there may be only one.
    """
    if element_type.width == 1:
        return np.array(elements).astype(np.int64)
    text, _, _ = str(elements).rpartition(":")
    if (found := re.search('"0x(.*)"', text)) is not None:
        # Each number in as many bytes as it needs, the lowest first.
        data = np.frombuffer(bytes.fromhex(found[1]), np.uint8)
        data = data.reshape(-1, (element_type.width + 7) // 8)
        integers = np.pad(data, [(0, 0), (0, 8 - data.shape[-1])]).view("<i8")
    else:
        numbers = np.array(re.findall(r"-?\d[-+.e\d]*", text))
        integers = (
            small_float(str(element_type)).encode(numbers.astype(np.float64))
            if isinstance(element_type, ir.FloatType)
            else numbers
        )
    is_splat = integers.size == 1
    return integers.astype(np.int64).reshape(() if is_splat else elements.type.shape)


_BYTES = 256
_TABULATED = ir.F16Type, ir.F32Type, ir.F64Type
"""Types whose constants NumPy reads."""


def look_up_whole_bytes(module: Any) -> None:
    """
    Look up the lowest bits of a byte as the whole byte, in a table that repeats the numbers
    of the given one.

    Without AVX-512, elements of a table are loaded one by one. LLVM masks their indices in
    a vector, and takes longer to get them out of it than to load them.
    """
    constants = {
        constant.attributes["sym_name"].value: constant
        for constant in ops_in(module, "memref.global")
    }
    repeated: dict[str, Any] = {}
    for load in ops_in(module, "memref.load"):
        table = made_by(load.operands[0], "memref.get_global")
        if table is None or (byte := byte_looked_up(load)) is None:
            continue
        name = table.attributes["name"].value
        if name not in repeated:
            repeated[name] = _repeated_table(constants[name])
        with ir.InsertionPoint(load), load.location:
            constant = repeated[name]
            bytes_type = constant.attributes["type"].value
            whole = memref.get_global(bytes_type, constant.attributes["sym_name"].value)
            load.operands[0] = whole
            load.operands[1] = arith.index_castui(ir.IndexType.get(), byte)


def byte_looked_up(load: Any) -> Any:
    """The byte of which as many bits are the index as a small table has; or `None`."""
    type_ = load.operands[0].type
    size = type_.shape[0] if type_.rank == 1 else 0
    if not isinstance(type_.element_type, _TABULATED) or not 1 < size < _BYTES:
        return None
    index = made_by(load.operands[1], "arith.index_cast")
    masked = index and made_by(index.operands[0], "arith.andi")
    mask = masked and made_by(masked.operands[1], "arith.constant")
    if not mask or mask.attributes["value"].value + 1 != size or size & (size - 1):
        return None
    value = masked.operands[0]
    while value.type.width != 8:
        resized = made_by(value, "arith.trunci", "arith.extsi", "arith.extui")
        if resized is None or 1 << resized.operands[0].type.width < size:
            return None
        value = resized.operands[0]
    return value


def _repeated_table(constant: Any) -> Any:
    """A constant with an element for each byte."""
    type_ = constant.attributes["type"].value
    numbers = np.resize(np.array(constant.attributes["initial_value"]), _BYTES)
    whole = ir.RankedTensorType.get([_BYTES], type_.element_type)
    with ir.InsertionPoint(constant), constant.location:
        copy = constant.clone()
    copy.attributes["sym_name"] = ir.StringAttr.get(
        f"{constant.attributes['sym_name'].value}_of_bytes"
    )
    copy.attributes["type"] = ir.TypeAttr.get(
        ir.MemRefType.get([_BYTES], type_.element_type)
    )
    copy.attributes["initial_value"] = ir.DenseElementsAttr.get(numbers, type=whole)
    return copy


_NARROWING = (
    "arith.fptosi",
    "arith.fptoui",
    "arith.index_cast",
    "arith.index_castui",
    "arith.trunci",
    "arith.truncf",
)

_SHORT = 16
"""LLVM makes masked vectors only for loops that it knows to be shorter."""


def keep_vectors_whole(module: Any) -> None:
    """
    Let LLVM make no vectors of short loops that narrow numbers. Where a single element is
    left for the last vector, LLVM 22 stores it on CPUs with AVX-512 as wide as it was
    before it was narrowed, over what lies behind it.
    """
    with module.context:
        annotation = ir.Attribute.parse(
            "#llvm.loop_annotation<vectorize = <disable = true>>"
        )
    for loop in ops_in(module, "scf.for"):
        count = len(iterations(loop))
        # Vectors have an even number of elements: only an odd count leaves one over.
        if count % 2 and 1 < count < _SHORT and ops_in(loop, *_NARROWING):
            loop.attributes["loop_annotation"] = annotation


def iterations(loop: Any) -> range:
    """The numbers of an `scf.for`, none if they are not known."""
    bounds = [made_by(value, "arith.constant") for value in [*loop.operands][:3]]
    numbers = [bound.attributes["value"].value for bound in bounds if bound is not None]
    return range(*numbers) if len(numbers) == len(bounds) else range(0)


def check_divisions(module: Any) -> None:
    """
    Guard divisions against traps: assert that no divisor is zero, and divide by -1 as the
    negation of a division by 1, which wraps around.
    """
    signed = ("divsi", "remsi", "floordivsi", "ceildivsi")
    unsigned = ("divui", "remui", "ceildivui")
    for op in ops_in(module, *(f"arith.{name}" for name in (*signed, *unsigned))):
        left, right = op.operands
        if _is_harmless_divisor(right):
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


def _is_harmless_divisor(value: Any) -> bool:
    constant = made_by(value, "arith.constant")
    return constant is not None and constant.attributes["value"].value not in (0, -1)
