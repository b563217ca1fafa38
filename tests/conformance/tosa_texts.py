"""Functions of one TOSA op, and what becomes of them when a type is changed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Op:
    """
    An op with types. An operand that is a list of numbers is a constant shape, of that
    value.
    """

    name: str
    operands: Sequence[str | Sequence[int]]
    result: str
    properties: str = ""

    def __str__(self) -> str:
        lines: list[str] = []
        types = [
            f"!tosa.shape<{len(operand)}>" if not isinstance(operand, str) else operand
            for operand in self.operands
        ]
        for index, operand in enumerate(self.operands):
            if not isinstance(operand, str):
                values = f"dense<{list(operand)}> : tensor<{len(operand)}xindex>"
                lines.append(
                    f'%{index} = "tosa.const_shape"() <{{values = {values}}}> : '
                    f"() -> {types[index]}"
                )
        arguments = ", ".join(
            f"%{index}: {operand}"
            for index, operand in enumerate(self.operands)
            if isinstance(operand, str)
        )
        operands = ", ".join(f"%{index}" for index in range(len(types)))
        properties = f" <{{{self.properties}}}>" if self.properties else ""
        lines.append(
            f'%r = "tosa.{self.name}"({operands}){properties} : '
            f"({', '.join(types)}) -> {self.result}"
        )
        body = "\n".join(f"  {line}" for line in lines)
        return f"func.func @f({arguments}) {{\n{body}\n  func.return\n}}"


def _ops(
    names: str,
    operands: Sequence[str | Sequence[int]],
    result: str,
    properties: str = "",
) -> Iterator[Op]:
    return (Op(name, operands, result, properties) for name in names.split())


_F32, _I32, _I8, _I1 = (f"tensor<2x3x{e}>" for e in ("f32", "i32", "i8", "i1"))
_ONE = "tensor<1xi8>"
_ANY = "tensor<2x3x!quant.any<i16:f32>>"
_PER_AXIS = "tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25}>>"
_PADDED = (
    "acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 1, 0, 0>, "
    "stride = array<i64: 1, 2>"
)
_TRANSPOSED = (
    "acc_type = i32, out_pad = array<i64: 0, 1, 0, 0>, stride = array<i64: 1, 2>"
)
_POOL = (
    "kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>"
)
_IMAGE, _BIAS = "tensor<1x4x5x2xi8>", "tensor<3xi32>"
_RESIZED = (_IMAGE, (4, 2, 4, 2), (0, 0), (2, 2))
_RESCALE = (
    "input_unsigned = false, output_unsigned = false, per_channel = false, "
    "rounding_mode = #tosa.rounding_mode<DOUBLE_ROUND>, scale32 = true"
)
_IGNORE = "nan_mode = #tosa.nan_mode<IGNORE>"

ADDED: Sequence[Op] = (
    *_ops("abs ceil erf exp floor identity log rsqrt sigmoid tanh", (_F32,), _F32),
    *_ops("abs bitwise_not clz identity", (_I32,), _I32),
    *_ops("identity", (_PER_AXIS,), _PER_AXIS),
    *_ops("identity", (_ANY,), _ANY),
    Op("logical_not", (_I1,), _I1),
    Op("cast", (_F32,), _I8),
    Op("negate", (_I8, _ONE, _ONE), _I8),
    Op(
        "negate",
        (
            "tensor<2x3x!quant.uniform<u8:f32, 0.5>>",
            "tensor<1xui8>",
            "tensor<1xui8>",
        ),
        "tensor<2x3x!quant.uniform<u8:f32, 0.5>>",
    ),
    *_ops("pow maximum minimum", (_F32, "tensor<1x3xf32>"), _F32),
    *_ops("maximum minimum", (_F32, _F32), _F32, _IGNORE),
    *_ops(
        "bitwise_and bitwise_or bitwise_xor intdiv logical_left_shift "
        "logical_right_shift",
        (_I32, "tensor<2x1xi32>"),
        _I32,
    ),
    Op("arithmetic_right_shift", (_I32, _I32), _I32, "round = true"),
    *_ops("logical_and logical_or logical_xor", (_I1, _I1), _I1),
    *_ops("equal greater greater_equal", (_I32, _I32), _I1),
    Op("select", (_I1, _I8, "tensor<1x1xi8>"), _I8),
    Op(
        "apply_scale",
        ("i32", "i32", "i8"),
        "i32",
        "rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>",
    ),
    Op("table", (_I8, "tensor<256xi8>"), _I8),
    Op("table", ("tensor<2x3xi16>", "tensor<513xi16>"), _I32),
    Op("argmax", (_I8,), "tensor<2xi32>", "axis = 1 : i32"),
    Op("argmax", (_F32,), "tensor<3xi32>", f"axis = 0 : i32, {_IGNORE}"),
    Op("reshape", (_I8, (3, 2)), "tensor<3x2xi8>"),
    Op("reshape", ("tensor<1xi8>", ()), "tensor<i8>"),
    Op("tile", (_I8, (2, 2)), "tensor<4x6xi8>"),
    Op("pad", (_I8, (1, 1, 0, 0), _ONE), "tensor<4x3xi8>"),
    Op("slice", (_I8, (0, 1), (2, 2)), "tensor<2x2xi8>"),
    Op("transpose", (_I8,), "tensor<3x2xi8>", "perms = array<i32: 1, 0>"),
    Op("reverse", (_I8,), _I8, "axis = 1 : i32"),
    Op("gather", ("tensor<2x5x3xi8>", "tensor<2x4xi32>"), "tensor<2x4x3xi8>"),
    *(
        Op(
            "resize",
            _RESIZED,
            f"tensor<1x8x10x2x{e}>",
            f"mode = #tosa.resize_mode<{m}>",
        )
        for m, e in (("NEAREST_NEIGHBOR", "i8"), ("BILINEAR", "i32"))
    ),
    *(
        Op(
            "conv2d",
            (_IMAGE, "tensor<3x3x3x2xi8>", _BIAS, _ONE, _ONE),
            "tensor<1x3x2x3xi32>",
            properties,
        )
        for properties in (_PADDED, _PADDED.replace("pad", "local_bound = true, pad"))
    ),
    Op(
        "depthwise_conv2d",
        (_IMAGE, "tensor<3x3x2x3xi8>", "tensor<6xi32>", _ONE, _ONE),
        "tensor<1x3x2x6xi32>",
        _PADDED,
    ),
    Op(
        "transpose_conv2d",
        (_IMAGE, "tensor<3x3x3x2xi8>", _BIAS, _ONE, _ONE),
        "tensor<1x7x11x3xi32>",
        _TRANSPOSED,
    ),
    *(
        Op(
            "cast_from_block_scaled",
            (f"tensor<2x64x{e}>", "tensor<2x2xf8E8M0FNU>"),
            "tensor<2x64xbf16>",
            "block_size = #tosa.block_size<BLOCK_SIZE_32>",
        )
        for e in ("f4E2M1FN", "!tosa.mxint8")
    ),
)
"""The ops that are added to xDSL's."""

PRESENT: Sequence[Op] = (
    *_ops("add sub", (_I32, "tensor<1x3xi32>"), _I32),
    *_ops("cos reciprocal sin", (_F32,), _F32),
    Op("mul", (_I8, _I8, _ONE), _I32),
    Op("mul", (_I32, _I32, _ONE), _I32),
    Op(
        "matmul",
        ("tensor<2x3x4xi8>", "tensor<2x4x5xi8>", _ONE, _ONE),
        "tensor<2x3x5xi32>",
    ),
    Op(
        "matmul",
        (
            "tensor<1x3x4x!quant.uniform<i8:f32, 0.5:-25>>",
            "tensor<1x4x5x!quant.uniform<i8:f32, 0.25:18>>",
            _ONE,
            _ONE,
        ),
        "tensor<1x3x5x!quant.uniform<i32:f32, 0.125>>",
    ),
    Op("clamp", (_I8,), _I8, "min_val = -3 : i8, max_val = 4 : i8"),
    *(
        Op("clamp", (type_,), type_, f"min_val = 3 : {e}, max_val = 4 : {e}, {_IGNORE}")
        for type_, e in (
            ("tensor<2x3x!quant.uniform<i8:f32, 0.5>>", "i8"),
            ("tensor<2x3x!quant.uniform<u8<0:9>:f32, 0.5:3>>", "ui8"),
        )
    ),
    Op("clamp", (_F32,), _F32, f"min_val = 0.0 : f32, max_val = 4.0 : f32, {_IGNORE}"),
    *_ops(
        "reduce_max reduce_min reduce_product reduce_sum",
        (_I32,),
        "tensor<2x1xi32>",
        "axis = 1 : i32",
    ),
    *_ops(
        "reduce_max reduce_min",
        (_F32,),
        "tensor<1x3xf32>",
        f"axis = 0 : i32, {_IGNORE}",
    ),
    *_ops("reduce_all reduce_any", (_I1,), "tensor<2x1xi1>", "axis = 1 : i32"),
    Op(
        "avg_pool2d",
        (_IMAGE, _ONE, _ONE),
        "tensor<1x3x4x2xi8>",
        f"acc_type = i32, {_POOL}",
    ),
    Op("max_pool2d", (_IMAGE,), "tensor<1x3x4x2xi8>", _POOL),
    Op(
        "max_pool2d",
        ("tensor<1x4x5x2xf32>",),
        "tensor<1x3x4x2xf32>",
        _POOL.replace("pad", f"{_IGNORE}, pad"),
    ),
    Op("concat", (_I8, _I8), "tensor<2x6xi8>", "axis = 1 : i32"),
    Op("const", (), "tensor<2xi8>", "values = dense<[3, 2]> : tensor<2xi8>"),
    *(
        Op(
            "rescale",
            (_I32, "tensor<1xi32>", _ONE, "tensor<1xi32>", _ONE),
            _I8,
            _RESCALE.replace("DOUBLE", mode),
        )
        for mode in ("DOUBLE", "SINGLE")
    ),
)
"""Ops that xDSL has."""

ELEMENTS = (
    *(
        "i1",
        "i4",
        "i8",
        "i16",
        "i32",
        "i48",
        "i64",
        "ui8",
        "ui32",
        "si8",
        "i24",
        "index",
    ),
    *("f16", "bf16", "f32", "f64", "f8E4M3FN", "f8E8M0FNU", "complex<f32>"),
    "!quant.uniform<i8:f32, 0.5>",
    "!quant.uniform<u8:f32, 0.5:3>",
    "!quant.uniform<i12:f32, 0.5>",
)


def _replaced(op: Op, index: int, type_: str) -> Op:
    if index == len(op.operands):
        return replace(op, result=type_)
    operands = list(op.operands)
    operands[index] = type_
    return replace(op, operands=operands)


def _changed_shapes(shape: Sequence[str]) -> Iterator[Sequence[str]]:
    for index in range(len(shape)):
        for size in ("1", "2", "3", "4", "?", "0"):
            yield [*shape[:index], size, *shape[index + 1 :]]
    yield ["1", *shape]
    yield shape[1:]


def with_other_elements(op: Op) -> Iterator[Op]:
    """The op with another element type of one operand or the result, and of all of them."""
    for element in ELEMENTS:
        everywhere = op
        for index, type_ in enumerate((*op.operands, op.result)):
            if isinstance(type_, str) and type_.startswith("tensor"):
                shape = type_[len("tensor<") : -1].rpartition("x")[0]
                other = f"tensor<{shape}{'x' if shape else ''}{element}>"
                yield _replaced(op, index, other)
                everywhere = _replaced(everywhere, index, other)
        yield everywhere


def with_other_shapes(op: Op) -> Iterator[Op]:
    """The op with another shape of one operand or the result."""
    for index, type_ in enumerate((*op.operands, op.result)):
        if isinstance(type_, str) and type_.startswith("tensor"):
            *shape, element = type_[len("tensor<") : -1].split("x")
            for changed in _changed_shapes(shape):
                yield _replaced(op, index, f"tensor<{'x'.join((*changed, element))}>")
        elif not isinstance(type_, str):
            for sizes in (type_[1:], (*type_, 1)):
                operands = list(op.operands)
                operands[index] = sizes
                yield replace(op, operands=operands)
