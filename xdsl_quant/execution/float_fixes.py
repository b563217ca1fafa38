"""Rewrites of float functions and conversions that MLIR lowers inexactly."""

from . import mlir_bindings as mlir
from .compilation_error import CompilationError
from .mlir_bindings import arith, func, ir, math

_LIBM = ("log1p", "expm1")


def call_libm(module: ir.Module) -> None:
    """
    Call libm for functions whose MLIR expansions are inaccurate near 0. f16 operands
    are converted to f32, as libm has no functions for them.
    """
    f32 = ir.F32Type.get()
    names: set[str] = set()
    for op in mlir.ops_in(module, *(f"math.{name}" for name in _LIBM)):
        (operand,), (result,) = op.operands, op.results
        type_ = result.type if isinstance(result.type, ir.F64Type) else f32
        name = op.name.removeprefix("math.") + ("f" if type_ == f32 else "")
        if name not in names:
            names.add(name)
            with ir.InsertionPoint(module.body), op.location:
                mlir.declare(name, [type_], type_)
        with ir.InsertionPoint(op), op.location:
            if type_ == result.type:
                value = func.call([type_], name, [operand])
            else:
                wide = func.call([type_], name, [arith.extf(type_, operand)])
                value = arith.truncf(result.type, wide)
        mlir.replace_op(op, value)


def convert_integers_to_bf16(module: ir.Module) -> None:
    """
    Make conversions from integers to bf16 round once; MLIR would round to f32 first.

    Raises:
        CompilationError: if an integer has more than 64 bits.
    """
    for op in mlir.ops_in(module, "arith.sitofp", "arith.uitofp"):
        (integer,), (result,) = op.operands, op.results
        if not isinstance(result.type, ir.BF16Type):
            continue
        if (width := mlir.bits(integer.type)) > 64:
            raise CompilationError(
                f"'{op.name}' op converts {width} bits to bf16; expected at most 64 bits"
            )
        is_signed = op.name == "arith.sitofp"
        with ir.InsertionPoint(op), op.location:
            if width > 32:
                integer = _to_odd_i64(integer, is_signed)
            convert = arith.sitofp if is_signed else arith.uitofp
            double = convert(ir.F64Type.get(), integer)
            mlir.replace_op(op, arith.truncf(result.type, double))


def _to_odd_i64(integer: ir.Value, is_signed: bool) -> ir.Value:
    """
    Return an i64 that converts to f64 exactly: the integer rounded to odd. If over 32 bits
    are significant, clear bits 0 to 10, and set bit 11 if any of the cleared bits was 1.
    """
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


def convert_floats_exactly(module: ir.Module) -> None:
    """
    Make each conversion between float types round once and keep subnormal values.

    * MLIR marks conversions around emulated arithmetic as foldable by LLVM, which would
      skip the rounding.
    * CPUs have no instruction that converts f64 to 16-bit floats, and few systems have
      the function that LLVM calls instead.
    * CPU instructions that convert bf16 flush subnormal values to zero.
    """
    for op in mlir.ops_in(module, "arith.extf", "arith.truncf"):
        source, target = op.operands[0].type, op.results[0].type
        with ir.InsertionPoint(op), op.location:
            op.attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<none>")
            is_half = isinstance(target, ir.F16Type | ir.BF16Type)
            if is_half and isinstance(source, ir.F64Type):
                op.operands[0] = _to_odd_f32(op.operands[0])
            if isinstance(source, ir.BF16Type):
                op.operands[0] = single = _bf16_to_f32(op.operands[0])
                if target == single.type:
                    mlir.replace_op(op, single)
            elif isinstance(target, ir.BF16Type):
                mlir.replace_op(op, _f32_to_bf16(op.operands[0]))


def _to_odd_f32(double: ir.Value) -> ir.Value:
    """
    Convert an f64 to f32, rounded to odd: the last bit of an inexact result is 1.
    Rounding this f32 to 16 bits then gives the correctly rounded result.
    """
    f32, f64 = ir.F32Type.get(), ir.F64Type.get()
    i32 = ir.IntegerType.get_signless(32)
    nearest = arith.truncf(f32, double)
    size = math.absf(double)
    rounded_size = math.absf(arith.extf(f64, nearest))
    is_too_far = arith.cmpf(arith.CmpFPredicate.OGT, rounded_size, size)
    is_inexact = arith.cmpf(arith.CmpFPredicate.ONE, rounded_size, size)
    # Round toward zero, then set the last bit.
    towards_zero = arith.subi(arith.bitcast(i32, nearest), arith.extui(i32, is_too_far))
    return arith.bitcast(f32, arith.ori(towards_zero, arith.extui(i32, is_inexact)))


_BF16_NAN = 0x7FC0


def _bf16_to_f32(half: ir.Value) -> ir.Value:
    """Convert a bf16 to f32: its bits become the upper half."""
    i16, i32 = (ir.IntegerType.get_signless(width) for width in (16, 32))
    bits = arith.extui(i32, arith.bitcast(i16, half))
    return arith.bitcast(ir.F32Type.get(), arith.shli(bits, arith.constant(i32, 16)))


def _f32_to_bf16(single: ir.Value) -> ir.Value:
    """Convert an f32 to bf16, i.e. round half to even to the upper 16 bits."""
    i16, i32 = (ir.IntegerType.get_signless(width) for width in (16, 32))
    bits = arith.bitcast(i32, single)
    sixteen = arith.constant(i32, 16)
    is_odd = arith.andi(arith.shrui(bits, sixteen), arith.constant(i32, 1))
    half = arith.addi(is_odd, arith.constant(i32, 0x7FFF))
    rounded = arith.trunci(i16, arith.shrui(arith.addi(bits, half), sixteen))
    is_nan = arith.cmpf(arith.CmpFPredicate.UNO, single, single)
    result = arith.select(is_nan, arith.constant(i16, _BF16_NAN), rounded)
    return arith.bitcast(ir.BF16Type.get(), result)
