"""Changes on the way to machine code for which MLIR has no pass."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .compilation_error import CompilationError
from .mlir_bindings import bindings, ops_in
from .runtime_library import FAIL

# Before tensors become buffers


def check_has_no_llvm(module: Any) -> None:
    """
    Raises:
        CompilationError: if there is an op of the LLVM dialect, which nothing checks and
            which may end the process.
    """
    for op in ops_in(module):
        if op.name.startswith("llvm."):
            raise CompilationError(
                f"'{op.name}' op cannot be compiled: ops of the llvm dialect may end the "
                "process, so a module must have none"
            )


_BRANCHES = ("arith.select", "scf.for", "scf.if", "scf.index_switch", "scf.while")


def has_dynamic_branches(module: Any) -> bool:
    """Whether a tensor may be one of several, and these may be of different sizes."""
    ir = bindings().ir
    return any(
        isinstance(result.type, ir.RankedTensorType)
        and not result.type.has_static_shape
        for op in ops_in(module, *_BRANCHES)
        for result in op.results
    )


def copy_what_while_loops_carry(module: Any) -> None:
    """
    Let each iteration of an `scf.while` have tensors of its own.

    MLIR does not see that what one iteration hands to the next is the same tensor there,
    and would write to it though others need it.
    """
    ir = bindings().ir
    for loop in ops_in(module, "scf.while"):
        for region in loop.regions:
            end = [*region.blocks[0].operations][-1].operation
            for i, value in enumerate(end.operands):
                if isinstance(value.type, ir.RankedTensorType):
                    end.operands[i] = _copied(value, end)


def _copied(value: Any, before: Any) -> Any:
    ir = bindings().ir
    # Of the sizes, what is copied, and a hint, only the second is there.
    segments = ir.DenseI32ArrayAttr.get([0, 1, 0], before.context)
    with ir.InsertionPoint(before), before.location:
        return ir.Operation.create(
            "bufferization.alloc_tensor",
            results=[value.type],
            operands=[value],
            attributes={"operandSegmentSizes": segments},
        ).result


def may_write_results_at_once(module: Any) -> bool:
    """
    Whether values may be in the arrays of results before these are written.

    MLIR puts a value there if a result is made of it by ops that may work in place. It
    does not see that the array then has another value, once the result is written to it:
    what makes other results of the first value would read that.
    """
    ends = ops_in(module, "bufferization.materialize_in_destination")
    for end in ends:
        block = [op.operation for op in end.block.operations]
        later = block[block.index(end) + 1 :]
        read = {value for op in later for value in _origins(op.operands)}
        made_of = _origins(end.operands[:1]) - {end.operands[0]}
        if any(_is_computed(value) for value in made_of & read):
            return False
    return True


def _is_computed(value: Any) -> bool:
    is_result = isinstance(value, bindings().ir.OpResult)
    return is_result and value.owner.name != "tensor.empty"


def _origins(values: Iterable[Any]) -> set[Any]:
    """Values, and all with which they may share memory if ops work in place."""
    ir = bindings().ir
    found: set[Any] = set()
    todo = [*values]
    while todo:
        value = todo.pop()
        if value in found or not isinstance(value.type, ir.RankedTensorType):
            continue
        found.add(value)
        if not isinstance(value, ir.OpResult):
            todo += value.owner.owner.operands
            continue
        op = value.owner.operation
        is_linalg = op.name.startswith("linalg.")
        # The last operands of these are what results are written to.
        todo += [*op.operands][-len(op.results) if is_linalg else 0 :]
        ends = [[*block.operations][-1] for region in op.regions for block in region]
        todo += [v for end in ends for v in end.operands]
    return found


def reshape_where_sizes_are_dynamic(module: Any) -> None:
    """
    Make a `tensor.reshape` of each `tensor.expand_shape` with more than one dynamic size.

    MLIR ends the process if one dimension becomes several of them.
    """
    ir, arith, tensor = bindings().ir, bindings().arith, bindings().tensor
    for op in ops_in(module, "tensor.expand_shape"):
        source, *sizes = op.operands
        if len(sizes) < 2:
            continue
        with ir.InsertionPoint(op), op.location:
            type_, index = op.results[0].type, ir.IndexType.get()
            rest = iter(sizes)
            shape = [
                next(rest) if type_.is_dynamic_dim(i) else arith.constant(index, size)
                for i, size in enumerate(op.attributes["static_output_shape"])
            ]
            shape = tensor.from_elements(
                ir.RankedTensorType.get([type_.rank], index), shape
            )
            op.results[0].replace_all_uses_with(tensor.reshape(type_, source, shape))
        op.erase()


# Before loops become branches

_OF_SHAPES = ("arith.", "cf.assert", "func.", "memref.dim", "memref.store", "scf.")


def depends_on_shapes_alone(module: Any, names: Collection[str]) -> bool:
    """
    Whether functions find sizes without looking at any element.

    They may write what they find, but have no memory of their own, and call nothing.
    """
    functions = [
        function
        for function in ops_in(module, "func.func")
        if function.attributes["sym_name"].value in names
    ]
    return all(
        op.name.startswith(_OF_SHAPES) and op.name != "func.call"
        for function in functions
        for op in ops_in(function)
    )


def erase_self_copies(module: Any) -> None:
    """
    Erase copies of a memref to itself.

    They are left where results are computed in place, but their sizes have become
    better known than those of the place.
    """
    for copy in ops_in(module, "memref.copy"):
        source, target = map(_uncast, copy.operands)
        if source == target:
            copy.erase()


def _uncast(memref: Any) -> Any:
    ir = bindings().ir
    while isinstance(memref, ir.OpResult) and memref.owner.name == "memref.cast":
        memref = memref.owner.operands[0]
    return memref


def store_whole_bytes(module: Any) -> None:
    """
    Keep integers in memory that have 8, 16, 32 or 64 bits, whatever they have in registers.

    Of other widths, i4 and i1 for example, MLIR reads some constants wrong and ends the
    process at some loads and stores.
    """
    ir = bindings().ir
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
        ((value,), memref) = load.results, load.operands[0].type
        if memref.element_type != value.type:
            with ir.InsertionPoint(load), load.location:
                whole = bindings().memref.load(load.operands[0], [*load.operands][1:])
                value.replace_all_uses_with(bindings().arith.trunci(value.type, whole))
            load.erase()
    for store in ops_in(module, "memref.store"):
        value, memref = store.operands[0], store.operands[1].type
        if memref.element_type != value.type:
            with ir.InsertionPoint(store), store.location:
                store.operands[0] = bindings().arith.extui(memref.element_type, value)
    module.operation.verify()


def _in_bytes(type_: Any) -> Any:
    """A memref type with integers of whole bytes; any other type as it is."""
    ir = bindings().ir
    if not isinstance(type_, ir.MemRefType | ir.UnrankedMemRefType):
        return type_
    element_type = type_.element_type
    if not isinstance(element_type, ir.IntegerType) or element_type.width > 64:
        return type_
    width = next(width for width in (8, 16, 32, 64) if element_type.width <= width)
    if width == element_type.width:
        return type_
    whole = ir.IntegerType.get_signless(width)
    if isinstance(type_, ir.UnrankedMemRefType):
        return ir.UnrankedMemRefType.get(whole, type_.memory_space)
    return ir.MemRefType.get(type_.shape, whole, type_.layout, type_.memory_space)


def _update_signature(function: Any) -> None:
    ir = bindings().ir
    type_ = function.attributes["function_type"].value
    types = ([_in_bytes(t) for t in ts] for ts in (type_.inputs, type_.results))
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))


def _update_constant(constant: Any) -> None:
    ir = bindings().ir
    type_ = constant.attributes["type"].value
    whole = _in_bytes(type_)
    if whole == type_:
        return
    constant.attributes["type"] = ir.TypeAttr.get(whole)
    elements = constant.attributes["initial_value"]
    if not isinstance(elements, ir.DenseElementsAttr):
        return
    dtype = f"int{whole.element_type.width}"
    values = _integers(elements, type_.element_type.width)
    constant.attributes["initial_value"] = ir.DenseElementsAttr.get(
        values.astype(dtype).reshape(type_.shape),
        type=ir.RankedTensorType.get(type_.shape, whole.element_type),
    )


def _integers(elements: Any, width: int) -> NDArray[np.int64]:
    """
    The numbers of a tensor attribute, which tells them for few widths.

    Bits beyond those of the width do not matter.
    """
    if width == 1:
        return np.array(elements).astype(np.int64)
    if elements.is_splat:
        count = math.prod(elements.type.shape)
        return np.full(count, elements.get_splat_value().value, np.int64)
    text, _, _ = str(elements).rpartition(":")
    if (found := re.search('"0x(.*)"', text)) is None:
        return np.array(re.findall(r"-?\d+", text), np.int64)
    # Each number in as many bytes as it needs, the lowest first.
    data = np.frombuffer(bytes.fromhex(found[1]), np.uint8)
    data = data.reshape(-1, (width + 7) // 8)
    words = np.zeros((len(data), 8), np.uint8)
    words[:, : data.shape[1]] = data
    return words.view("<i8").reshape(-1)


def check_divisions(module: Any) -> None:
    """
    Keep divisions from what ends the process: zero by an assertion, and overflow by an
    opposite that wraps around.
    """
    ir, arith = bindings().ir, bindings().arith
    signed = ("divsi", "remsi", "floordivsi", "ceildivsi")
    unsigned = ("divui", "remui", "ceildivui")
    for op in ops_in(module, *(f"arith.{name}" for name in (*signed, *unsigned))):
        left, right = op.operands
        if _is_harmless_divisor(right):
            continue
        with ir.InsertionPoint(op), op.location:
            zero = arith.constant(right.type, 0)
            _assert(arith.cmpi(arith.CmpIPredicate.ne, right, zero), "division by zero")
            if op.name.removeprefix("arith.") not in signed:
                continue
            # By -1 is the opposite by 1.
            minus_one, one = (arith.constant(right.type, value) for value in (-1, 1))
            is_opposite = arith.cmpi(arith.CmpIPredicate.eq, right, minus_one)
            opposite = arith.subi(zero, left)
            op.operands[0] = arith.select(is_opposite, opposite, left)
            op.operands[1] = arith.select(is_opposite, one, right)


def _is_harmless_divisor(value: Any) -> bool:
    ir = bindings().ir
    if not isinstance(value, ir.OpResult) or value.owner.name != "arith.constant":
        return False
    return value.owner.attributes["value"].value not in (0, -1)


def _assert(condition: Any, message: str) -> None:
    bindings().cf.AssertOp(condition, message)


_LIBM = ("log1p", "expm1")


def call_libm(module: Any) -> None:
    """
    Call the functions of libm for which MLIR has formulas that lose all digits near 0.

    There are no others for f16 than those for f32.
    """
    ir, arith, func = bindings().ir, bindings().arith, bindings().func
    f32 = ir.F32Type.get()
    names: set[str] = set()
    for op in ops_in(module, *(f"math.{name}" for name in _LIBM)):
        (operand,), (result,) = op.operands, op.results
        type_ = result.type if isinstance(result.type, ir.F64Type) else f32
        name = op.name.removeprefix("math.") + ("f" if type_ == f32 else "")
        if name not in names:
            names.add(name)
            with ir.InsertionPoint(module.body), op.location:
                func.FuncOp(name, ([type_], [type_]), visibility="private")
        with ir.InsertionPoint(op), op.location:
            if type_ == result.type:
                value = func.call([type_], name, [operand])
            else:
                wide = func.call([type_], name, [arith.extf(type_, operand)])
                value = arith.truncf(result.type, wide)
            result.replace_all_uses_with(value)
        op.erase()


def convert_integers_to_bf16(module: Any) -> None:
    """
    Let conversions of integers to bf16 round just once: MLIR goes by way of f32.

    Raises:
        CompilationError: if an integer has more than 64 bits.
    """
    ir, arith = bindings().ir, bindings().arith
    for op in ops_in(module, "arith.sitofp", "arith.uitofp"):
        (integer,), (result,) = op.operands, op.results
        if not isinstance(result.type, ir.BF16Type):
            continue
        if integer.type.width > 64:
            raise CompilationError(
                f"'{op.name}' op converts {integer.type.width} bits to bf16, but compiled "
                "code can do that with at most 64"
            )
        is_signed = op.name == "arith.sitofp"
        with ir.InsertionPoint(op), op.location:
            if integer.type.width > 32:
                integer = _to_odd_i64(integer, is_signed)
            convert = arith.sitofp if is_signed else arith.uitofp
            double = convert(ir.F64Type.get(), integer)
            result.replace_all_uses_with(arith.truncf(result.type, double))
        op.erase()


def _to_odd_i64(integer: Any, is_signed: bool) -> Any:
    """
    An integer that f64 has, which rounds to few bits as the given one does.

    If that needs more than 32 bits, the last 11 bits are zero or stand for a one before
    them.
    """
    ir, arith = bindings().ir, bindings().arith
    i32, i64 = (ir.IntegerType.get_signless(width) for width in (32, 64))
    extend = arith.extsi if is_signed else arith.extui
    if integer.type != i64:
        integer = extend(i64, integer)
    last, zero, one = (arith.constant(i64, value) for value in (0x7FF, 0, 0x800))
    is_inexact = arith.cmpi(arith.CmpIPredicate.ne, arith.andi(integer, last), zero)
    first = arith.andi(integer, arith.constant(i64, -0x800))
    odd = arith.ori(first, arith.select(is_inexact, one, zero))
    is_small = arith.cmpi(
        arith.CmpIPredicate.eq, extend(i64, arith.trunci(i32, integer)), integer
    )
    return arith.select(is_small, integer, odd)


def convert_floats_exactly(module: Any) -> None:
    """
    Let every conversion between floats round just once, and keep the smallest numbers.

    * MLIR marks the conversions round the arithmetic that it replaces as ones that may be
      left out, and then nothing would be rounded.
    * From f64 to 16 bits there is no instruction, and few systems have the function that
      LLVM calls.
    * The instructions for bf16 take the smallest numbers for zero.
    """
    ir = bindings().ir
    for op in ops_in(module, "arith.extf", "arith.truncf"):
        source, target = op.operands[0].type, op.results[0].type
        with ir.InsertionPoint(op), op.location:
            op.attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<none>")
            is_half = isinstance(target, ir.F16Type | ir.BF16Type)
            if is_half and isinstance(source, ir.F64Type):
                op.operands[0] = _to_odd_f32(op.operands[0])
            if isinstance(source, ir.BF16Type):
                op.operands[0] = single = _bf16_to_f32(op.operands[0])
                if target == single.type:
                    op.results[0].replace_all_uses_with(single)
                    op.erase()
            elif isinstance(target, ir.BF16Type):
                op.results[0].replace_all_uses_with(_f32_to_bf16(op.operands[0]))
                op.erase()


def _to_odd_f32(double: Any) -> Any:
    """
    Rounded to odd: a number that is not exact gets a one as its last bit. It can be
    rounded once more, to 16 bits, as if it were exact.
    """
    ir, arith, math_dialect = bindings().ir, bindings().arith, bindings().math
    f32, f64 = ir.F32Type.get(), ir.F64Type.get()
    i32 = ir.IntegerType.get_signless(32)
    nearest = arith.truncf(f32, double)
    size = math_dialect.absf(double)
    rounded_size = math_dialect.absf(arith.extf(f64, nearest))
    is_too_far = arith.cmpf(arith.CmpFPredicate.OGT, rounded_size, size)
    is_inexact = arith.cmpf(arith.CmpFPredicate.ONE, rounded_size, size)
    # Towards zero, and then the last bit.
    towards_zero = arith.subi(arith.bitcast(i32, nearest), arith.extui(i32, is_too_far))
    return arith.bitcast(f32, arith.ori(towards_zero, arith.extui(i32, is_inexact)))


_BF16_NAN = 0x7FC0


def _bf16_to_f32(half: Any) -> Any:
    """A bf16 is the upper half of an f32."""
    ir, arith = bindings().ir, bindings().arith
    i16, i32 = (ir.IntegerType.get_signless(width) for width in (16, 32))
    bits = arith.extui(i32, arith.bitcast(i16, half))
    return arith.bitcast(ir.F32Type.get(), arith.shli(bits, arith.constant(i32, 16)))


def _f32_to_bf16(single: Any) -> Any:
    """The upper half, one more if the lower half is too large; of two equals the even."""
    ir, arith = bindings().ir, bindings().arith
    i16, i32 = (ir.IntegerType.get_signless(width) for width in (16, 32))
    bits = arith.bitcast(i32, single)
    sixteen = arith.constant(i32, 16)
    is_odd = arith.andi(arith.shrui(bits, sixteen), arith.constant(i32, 1))
    half = arith.addi(is_odd, arith.constant(i32, 0x7FFF))
    rounded = arith.trunci(i16, arith.shrui(arith.addi(bits, half), sixteen))
    is_nan = arith.cmpf(arith.CmpFPredicate.UNO, single, single)
    result = arith.select(is_nan, arith.constant(i16, _BF16_NAN), rounded)
    return arith.bitcast(ir.BF16Type.get(), result)


# In the LLVM dialect


def check_is_llvm(module: Any) -> None:
    """
    Raises:
        CompilationError: if an op is left that is not of the LLVM dialect. LLVM would
            complain of the casts around it, on the standard error output.
    """
    cast_name = "builtin.unrealized_conversion_cast"
    left = [
        op.name
        for op in ops_in(module)
        if not op.name.startswith("llvm.") and op.name != "builtin.module"
    ]
    if left:
        name = next((name for name in left if name != cast_name), cast_name)
        raise CompilationError(f"MLIR has no lowering to LLVM for a '{name}' op")


def return_where_assertions_fail(module: Any, names: Collection[str]) -> None:
    """
    Let an assertion that fails report its message and leave the function, where MLIR
    prints the message and ends the process.

    Buffers for intermediate values, if there are any, are not freed then.

    Raises:
        CompilationError: if there is an assertion in a function that is none of `names`:
            leaving that one is not enough.
    """
    ir, llvm = bindings().ir, bindings().llvm
    for call in ops_in(module, "llvm.call"):
        callee = call.attributes["callee"].value if "callee" in call.attributes else ""
        if callee == "puts":
            call.attributes["callee"] = ir.FlatSymbolRefAttr.get(FAIL, module.context)
        elif callee == "abort":
            _check_function(call.parent, names)
            unreachable = call.block.operations[len(call.block.operations) - 1]
            with ir.InsertionPoint(unreachable), call.location:
                llvm.return_()
            unreachable.erase()
            call.erase()
    for function in ops_in(module, "llvm.func"):
        if function.attributes["sym_name"].value == "puts":
            function.attributes["sym_name"] = ir.StringAttr.get(FAIL, module.context)


def _check_function(function: Any, names: Collection[str]) -> None:
    name = function.attributes["sym_name"].value
    if name not in names:
        raise CompilationError(
            f"function '{name}' calls itself and has sizes to check at run time, which "
            "compiled code cannot do"
        )


def mark_buffers_as_distinct(module: Any, names: Collection[str]) -> None:
    """
    Tell LLVM that memory which is written to is no memory of another argument.

    MLIR forgets `llvm.noalias` of a memref when that becomes several arguments.
    """
    ir = bindings().ir
    for function in ops_in(module, "llvm.func"):
        if function.attributes["sym_name"].value not in names:
            continue
        with module.context:
            distinct = ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()})
            number = ir.DictAttr.get({})
            function.attributes["arg_attrs"] = ir.ArrayAttr.get(
                [
                    distinct if str(argument.type) == "!llvm.ptr" else number
                    for argument in function.regions[0].blocks[0].arguments
                ]
            )
