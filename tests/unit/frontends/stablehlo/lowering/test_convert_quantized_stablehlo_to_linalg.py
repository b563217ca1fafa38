"""Every quantized op of the dialect is lowered in one pass, and runs."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.execution import compile
from xdsl_quant.frontends.stablehlo.dialect import ConvertOp, ReturnOp, StableHLO
from xdsl_quant.frontends.stablehlo.lowering.convert_quantized_stablehlo_to_linalg import (
    ConvertQuantizedStableHLOToLinalgPass,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.arrays import numpy_dtype
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE

Array = NDArray[Any]

PASS = "convert-quantized-stablehlo-to-linalg"
QDQ = (
    "stablehlo-legalize-quantized-op-to-qdq,stablehlo-casts-to-quant,"
    "lower-quant-ops{rounding-mode=nearest-even fuse=true keep-qdq=true},"
    "convert-stablehlo-to-linalg"
)


def test_registered():
    assert XDSL_QUANT_UNIVERSE.all_passes[PASS]() is (
        ConvertQuantizedStableHLOToLinalgPass
    )


# Programs with every op

RANGES = {
    "i4": (-8, 7),
    "ui4": (0, 15),
    "i8": (-128, 127),
    "u8": (0, 255),
    "ui8": (0, 255),
    "i16": (-32768, 32767),
    "u16": (0, 65535),
    "i32": (-(2**31), 2**31 - 1),
    "ui32": (0, 2**32 - 1),
}


class Types:
    """Random types of one storage type and one expressed type."""

    def __init__(self, source: random.Random, storage: str, expressed: str):
        self.storage, self.expressed = storage, expressed
        low, high = RANGES[storage]
        self._prefix = f"!quant.uniform<{storage}:{expressed}"

        def scale() -> str:
            return f"{2.0 ** source.uniform(-6, 2):e}"

        def zero_point() -> int:
            return source.choice((0, source.randint(low, high)))

        self.per_tensor = [
            f"{self._prefix}, {scale()}:{zero_point()}>" for _ in range(3)
        ]
        self.per_axis = [
            f"{self._prefix}:1, {{{','.join(f'{scale()}:{zero_point()}' for _ in '123')}}}>"
            for _ in range(3)
        ]
        scales = [scale() for _ in range(3)]
        self.weights = f"{self._prefix}:1, {{{','.join(scales)}}}>"
        self.centered = f"{self._prefix}, {scales[0]}>"
        self.kernel = f"{self._prefix}:2, {{{','.join(scales)}}}>"
        self.turned = self.per_axis[0].replace(":1, {", ":0, {")
        self.constants = [source.randint(low, high) for _ in range(6)]
        if storage[0] == "u" and storage[1] != "i":
            width = int(storage[1:])
            self.constants = [
                (c + (1 << width - 1)) % (1 << width) - (1 << width - 1)
                for c in self.constants
            ]
        integer = storage if storage[1] == "i" else f"i{storage[1:]}"
        self.values = f"dense<{[self.constants[:3], self.constants[3:]]}>"
        self.values += f" : tensor<2x3x{integer}>"


def t(shape: str, element: str) -> str:
    return f"tensor<{shape}{element}>"


FUNCTIONS = (
    *("negate", "abs", "sign", "ceil", "floor", "round_nearest_even"),
    *("round_nearest_afz", "exponential", "exponential_minus_one", "log"),
    *("log_plus_one", "logistic", "tanh", "sqrt", "rsqrt", "cbrt", "sine", "cosine"),
    "tan",
)


def ops(types: Types) -> Iterator[tuple[str, str, str]]:
    """The text of an op, what it takes, and its result."""
    q, r, s = (t("2x3x", type_) for type_ in types.per_tensor)
    q0, r0, s0 = (t("", type_) for type_ in types.per_tensor)
    p = [t("2x3x", type_) for type_ in types.per_axis]
    f, b = t("2x3x", types.expressed), t("2x3x", "i1")
    for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum"):
        yield f"{name} %q, %r", f"({q}, {r})", s
        yield f"{name} %q, %q", f"({q}, {q})", q
    yield "add %p0, %p1", f"({p[0]}, {p[1]})", p[2]
    for name in FUNCTIONS:
        yield f"{name} %q", f"({q})", s
    for name in ("power", "remainder", "atan2"):
        yield f"{name} %q, %r", f"({q}, {r})", s
    yield "reduce_precision %q, format = e5m3", f"({q})", q
    yield "is_finite %q", f"({q})", b
    for direction in ("EQ", "NE", "GE", "GT", "LE", "LT"):
        yield f"compare {direction}, %q, %r", f"({q}, {r})", b
    yield "compare LT, %q, %q", f"({q}, {q})", b
    yield "select %b, %q, %q", f"({b}, {q}, {q})", s
    yield "clamp %r, %q, %s", f"({r}, {q}, {s})", r
    yield "clamp %q0, %q, %r0", f"({q0}, {q}, {r0})", s
    yield "uniform_quantize %f", f"({f})", q
    yield "uniform_quantize %f", f"({f})", p[0]
    yield "uniform_quantize %q", f"({q})", r
    yield "uniform_quantize %p0", f"({p[0]})", q
    yield "uniform_dequantize %q", f"({q})", f
    yield "uniform_dequantize %p1", f"({p[1]})", f
    yield f"constant() <{{value = {types.values}}}>", "()", q
    turned, flat = t("3x2x", types.turned), t("6x", types.per_tensor[0])
    yield "reshape %q", f"({q})", flat
    yield "transpose %p0, dims = [1, 0]", f"({p[0]})", turned
    yield (
        "broadcast_in_dim %p0, dims = [0, 1]",
        f"({p[0]})",
        t("2x3x4x", types.per_axis[0]),
    )
    yield "concatenate %q, %q, dim = 0", f"({q}, {q})", t("4x3x", types.per_tensor[0])
    yield (
        '"stablehlo.gather"(%q, %j) <{dimension_numbers = #stablehlo.gather<'
        "offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], "
        "index_vector_dim = 1>, slice_sizes = array<i64: 2, 1>}>",
        f"({q}, tensor<4xi32>)",
        t("2x4x", types.per_tensor[0]),
    )
    yield (
        '"stablehlo.reduce_window"(%q, %q0) <{window_dimensions = array<i64: 1, 2>}> ({'
        f"^bb0(%u: {q0}, %v: {q0}): %w0 = stablehlo.maximum %u, %v : {q0} "
        f"stablehlo.return %w0 : {q0} }})",
        f"({q}, {q0})",
        t("2x2x", types.per_tensor[0]),
    )
    yield '"stablehlo.optimization_barrier"(%q)', f"({q})", q
    yield "reverse %q, dims = [1]", f"({q})", q
    yield (
        "dynamic_slice %q, %n, %n, sizes = [1, 3]",
        f"({q}, tensor<i32>, tensor<i32>)",
        t("1x3x", types.per_tensor[0]),
    )
    yield (
        "dynamic_update_slice %q, %q, %n, %n",
        f"({q}, {q}, tensor<i32>, tensor<i32>)",
        q,
    )
    unknown, shape = t("?x3x", types.per_tensor[0]), "tensor<2xi32>"
    yield "dynamic_reshape %q, %d", f"({q}, {shape})", unknown
    yield (
        "dynamic_broadcast_in_dim %q, %d, dims = [0, 1]",
        f"({q}, {shape})",
        unknown,
    )
    yield "dynamic_iota %d, dim = 1", f"({shape})", t("?x3x", types.per_tensor[1])
    yield (
        "dynamic_pad %q, %q0, %d, %z, %d",
        f"({q}, {q0}, {shape}, {shape}, {shape})",
        t("?x?x", types.per_tensor[0]),
    )
    yield (
        "real_dynamic_slice %q, %z, %d, %d",
        f"({q}, {shape}, {shape}, {shape})",
        t("?x?x", types.per_tensor[0]),
    )
    yield (
        '"stablehlo.dynamic_gather"(%q, %j, %d) <{dimension_numbers = #stablehlo.gather<'
        "offset_dims = [0, 1], start_index_map = [1], index_vector_dim = 1>}>",
        f"({q}, tensor<4xi32>, {shape})",
        t("?x?x4x", types.per_tensor[0]),
    )
    yield "slice %q [0:2, 1:3]", f"({q})", t("2x2x", types.per_tensor[0])
    yield (
        "pad %q, %q0, low = [1, 0], high = [0, -1], interior = [1, 0]",
        f"({q}, {q0})",
        t("4x2x", types.per_tensor[0]),
    )
    for name in ("add", "multiply", "maximum", "minimum"):
        yield (
            f"reduce(%q init: %q0) applies stablehlo.{name} across dimensions = [1]",
            f"({q}, {q0})",
            t("2x", types.per_tensor[0]),
        )
    for name in ("add", "multiply"):
        yield (
            f'"stablehlo.reduce"(%q, %r0) <{{dimensions = array<i64: 1>}}> ({{'
            f"^bb0(%u: {s0}, %v: {s0}): %w0 = stablehlo.{name} %u, %v : {s0} "
            f"stablehlo.return %w0 : {s0} }})",
            f"({q}, {r0})",
            t("2x", types.per_tensor[0]),
        )
    yield (
        '"stablehlo.select_and_scatter"(%q, %q, %q0) <{window_dimensions = array<i64: '
        f"1, 1>}}> ({{^bb0(%u: {q0}, %v: {q0}): %w0 = stablehlo.compare GE, %u, %v : "
        f"({q0}, {q0}) -> tensor<i1> stablehlo.return %w0 : tensor<i1> }}, {{"
        f"^bb0(%u: {q0}, %v: {q0}): %w0 = stablehlo.maximum %u, %v : {q0} "
        f"stablehlo.return %w0 : {q0} }})",
        f"({q}, {q}, {q0})",
        q,
    )
    yield "broadcast %q, sizes = [2]", f"({q})", t("2x2x3x", types.per_tensor[0])
    yield (
        '"stablehlo.torch_index_select"(%q, %j) <{batch_dims = 0 : i64, dim = 1 : i64}>',
        f"({q}, tensor<4xi32>)",
        t("2x4x", types.per_tensor[0]),
    )
    yield "set_dimension_size %q, %m, dim = 1", f"({q}, tensor<i32>)", q
    yield (
        '"stablehlo.batch_norm_inference"(%q, %x, %x, %x, %y) <{epsilon = 1.0 : f32, '
        "feature_index = 1 : i64}>",
        f"({q}, {', '.join([t('3x', types.per_tensor[0])] * 4)})",
        q,
    )
    square = t("3x3x", types.centered)
    yield "dot %e, %e", f"({square}, {square})", square
    yield 'einsum %e, %e, config = "ab,cb->ac"', f"({square}, {square})", square
    yield 'unary_einsum %e, config = "ab->ba"', f"({square})", square
    yield '"stablehlo.iota"() <{iota_dimension = 1 : i64}>', "()", r
    yield "get_dimension_size %p0, dim = 1", f"({p[0]})", "tensor<i32>"
    w = t("3x3x", types.weights)
    dot = "contracting_dims = [1] x [0]"
    yield f"dot_general %q, %w, {dot}", f"({q}, {w})", r
    yield f"dot_general %f, %w, {dot}", f"({f}, {w})", f
    image, kernel = t("1x4x2x", types.per_tensor[0]), t("2x2x3x", types.kernel)
    yield (
        "convolution(%i, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = "
        "{pad = [[1, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}",
        f"({image}, {kernel})",
        t("1x4x3x", types.per_tensor[2]),
    )
    yield (
        '"stablehlo.dynamic_conv"(%i, %c, %o) <{batch_group_count = 1 : i64, '
        "dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, "
        "feature_group_count = 1 : i64}>",
        f"({image}, {t('2x2x3x', types.centered)}, tensor<1x2xi32>)",
        t("1x?x3x", types.per_tensor[2]),
    )


def parameters(types: Types) -> dict[str, str]:
    q, r, s = types.per_tensor
    return {
        "q": t("2x3x", q),
        "r": t("2x3x", r),
        "s": t("2x3x", s),
        "q0": t("", q),
        "r0": t("", r),
        **{f"p{i}": t("2x3x", type_) for i, type_ in enumerate(types.per_axis)},
        "f": t("2x3x", types.expressed),
        "b": t("2x3x", "i1"),
        "j": "tensor<4xi32>",
        "n": "tensor<i32>",
        "w": t("3x3x", types.weights),
        "i": t("1x4x2x", q),
        "k": t("2x2x3x", types.kernel),
        "c": t("2x2x3x", types.centered),
        "d": "tensor<2xi32>",
        "z": "tensor<2xi32>",
        "o": "tensor<1x2xi32>",
        "m": "tensor<i32>",
        "e": t("3x3x", types.centered),
        "x": t("3x", q),
        "y": t("3x", q),
    }


def _with_dialect(text: str) -> str:
    return text if text.startswith('"') else f"stablehlo.{text}"


def program(types: Types) -> str:
    """A function `f` that returns the results of all ops."""
    all_ops = [*ops(types)]
    arguments = ", ".join(
        f"%{name}: {type_}" for name, type_ in parameters(types).items()
    )
    lines = [
        f"  %{i} = {_with_dialect(text)} : {operands} -> {result}\n"
        for i, (text, operands, result) in enumerate(all_ops)
    ]
    results = ", ".join(result for _, _, result in all_ops)
    names = ", ".join(f"%{i}" for i in range(len(all_ops)))
    return (
        f"func.func @f({arguments}) -> ({results}) {{\n{''.join(lines)}"
        f"  return {names} : {results}\n}}\n"
    )


def arguments(seed: int, types: Types) -> list[Array]:
    rng = np.random.default_rng(seed)
    low, high = RANGES[types.storage]
    module = parse_module(program(types))
    function: Any = module.body.block.first_op
    arrays: list[Array] = []
    for name, type_ in zip(
        parameters(types), function.function_type.inputs, strict=True
    ):
        dtype: Any = numpy_dtype(type_)
        shape: tuple[int, ...] = type_.get_shape()
        if name == "b":
            arrays.append(np.asarray(rng.integers(0, 2, shape), bool))
        elif name in "jn":
            arrays.append(np.asarray(rng.integers(-1, 4, shape), dtype))
        elif name == "m":
            arrays.append(np.array(3, dtype))
        elif name == "y":
            # A variance is not negative.
            arrays.append(np.full(shape, high, dtype))
        elif name in "dzo":
            arrays.append(
                np.array({"d": [2, 3], "z": [0, 0], "o": [[1, 0]]}[name], dtype)
            )
        elif name == "f":
            arrays.append(np.asarray(rng.normal(0, 9, shape), dtype))
        else:
            values: Any = rng.integers(low, high, shape, endpoint=True)
            arrays.append(np.asarray(values, dtype))
    return arrays


CASES = [
    (storage, ("f32", "f64", "f32", "bf16", "f32", "f16")[i % 6])
    for i, storage in enumerate(RANGES)
]


NOT_QUANTIZED = {
    f"stablehlo.{name}"
    for name in (
        *("and", "or", "xor", "not", "shift_left", "shift_right_arithmetic"),
        *("shift_right_logical", "popcnt", "count_leading_zeros"),
        *("real", "imag", "complex", "custom_call", "while", "if", "case"),
        *("map", "sort", "scatter", "bitcast_convert", "composite"),
    )
}


READ_ONLY = {
    op.name
    for op in StableHLO.operations
    if op.__module__.rpartition(".")[2]
    in ("collectives", "linear_algebra", "random_numbers", "transfers")
} | {"stablehlo.batch_norm_training", "stablehlo.batch_norm_grad"}
"""Ops that are verified and kept, but not run."""


def test_programs_have_every_op():
    text = program(Types(random.Random(0), "i8", "f32"))
    found = {op.name for op in parse_module(text).walk()}
    unquantized = {ConvertOp.name, ReturnOp.name, *NOT_QUANTIZED, *READ_ONLY}
    assert {op.name for op in StableHLO.operations} - unquantized <= found


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("storage", "expressed"), CASES)
def test_every_op_runs(storage: str, expressed: str):
    types = Types(random.Random(f"{storage} {expressed}"), storage, expressed)
    text, values = program(types), arguments(7, types)
    module = parse_module(text)
    apply_passes(module, PASS)
    module.verify()
    assert not any(op.name.startswith("stablehlo.") for op in module.walk())
    interpreted = run_function(module, "f", *values)
    compiled = compile(module, "f")(*values)
    in_floats = parse_module(text)
    apply_passes(in_floats, QDQ)
    expected = run_function(in_floats, "f", *values)
    is_exact = expressed in ("f32", "f64") and RANGES[storage][1] < 1 << 16
    for (op, _, _), one, other, real in zip(
        ops(types), interpreted, compiled, expected, strict=True
    ):
        one, real = np.asarray(one), np.asarray(real)
        assert one.dtype == other.dtype, op
        np.testing.assert_array_equal(one, other, err_msg=op)
        if not is_exact:
            continue
        if one.dtype.kind in "iu":
            distance = np.abs(one.astype(np.int64) - real.astype(np.int64))
            assert distance.max() <= 1, op
        else:
            np.testing.assert_array_equal(one, real, err_msg=op)


# The pass as a whole

TANH_AND_RELU = """
!q = !quant.uniform<i16:f32, 0.5:3>
!r = !quant.uniform<i16:f32, 0.01:-7>
func.func @f(%x: tensor<4x!q>, %z: tensor<4x!r>) -> tensor<4x!q> {
  %t = stablehlo.tanh %x : (tensor<4x!q>) -> tensor<4x!r>
  %y = stablehlo.maximum %t, %z : (tensor<4x!r>, tensor<4x!r>) -> tensor<4x!q>
  return %y : tensor<4x!q>
}"""


@pytest.mark.parametrize("rounding", ["single", "double"])
def test_it_is_the_pipeline_of_its_documentation(rounding: str):
    texts: list[str] = []
    for passes in (
        f"{PASS}{{rounding={rounding}}}",
        f"stablehlo-legalize-quant-to-integer{{rounding={rounding} fallback=qdq}},"
        "stablehlo-casts-to-quant,"
        "lower-quant-ops{rounding-mode=nearest-even fuse=true keep-qdq=true},"
        "convert-stablehlo-to-linalg",
    ):
        module = parse_module(TANH_AND_RELU)
        apply_passes(module, passes)
        texts.append(str(module))
    assert texts[0] == texts[1]
    # `maximum` is computed with integers, and `tanh` of 16 bits is not.
    assert "math.tanh" in texts[0]
    assert "arith.maxsi" in texts[0]


def test_advice_leads_somewhere():
    module = parse_module(TANH_AND_RELU)
    apply_passes(module, "stablehlo-legalize-quant-to-integer{fallback=keep}")
    with pytest.raises(IRError, match=f"'stablehlo.tanh' op .*: run '{PASS}' instead"):
        apply_passes(module, "convert-stablehlo-to-linalg")
    apply_passes(module, PASS)
    x, z = np.array([-128, 2, 3, 127], np.int16), np.full(4, -7, np.int16)
    assert run_function(module, "f", x, z)[0].tolist() == [3, 3, 3, 5]
    assert compile(module, "f")(x, z).tolist() == [3, 3, 3, 5]


def test_what_has_no_conversion_leaves_the_module_as_it_was():
    module = parse_module(
        """
        !q = !quant.uniform<i8:f32, 0.5>
        func.func @f(%x: tensor<?x!q>) -> tensor<4x!q> {
          %y = stablehlo.add %x, %x : tensor<?x!q>
          %z = stablehlo.custom_call @z(%y) : (tensor<?x!q>) -> tensor<4x!q>
          return %z : tensor<4x!q>
        }""",
        "model.mlir",
    )
    before, ops_before = str(module), [*module.walk()]
    with pytest.raises(IRError) as error:
        apply_passes(module, PASS)
    assert str(error.value).startswith(
        "model.mlir:5:11: error: 'stablehlo.custom_call' op calls 'z', which has no "
        "conversion to linalg"
    )
    assert str(module) == before
    assert [*module.walk()] == ops_before


def test_what_integers_cannot_compute_is_computed_with_floats():
    text = """
    !q = !quant.uniform<i32:f64, 67108864.0>
    !r = !quant.uniform<i32:f64, 0.3>
    func.func @f(%x: tensor<2x!q>) -> tensor<2x!r> {
      %y = stablehlo.subtract %x, %x : (tensor<2x!q>, tensor<2x!q>) -> tensor<2x!r>
      return %y : tensor<2x!r>
    }"""
    module = parse_module(text)
    with pytest.raises(IRError, match="use 'fallback=qdq' to compute it with floats"):
        apply_passes(module, "stablehlo-legalize-quant-to-integer")
    apply_passes(module, PASS)
    assert "arith.subf" in str(module)
    assert run_function(module, "f", np.array([5, 6], np.int32))[0].tolist() == [0, 0]


def test_regions_of_reductions():
    text = """
    !q = !quant.uniform<i8:f32, 0.5:3>
    func.func @f(%x: tensor<3x!q>, %i: tensor<!q>) -> (tensor<!q>, tensor<!q>) {
      %r = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [0]
        : (tensor<3x!q>, tensor<!q>) -> tensor<!q>
      %s = stablehlo.reduce(%x init: %i) applies stablehlo.multiply across dimensions = [0]
        : (tensor<3x!q>, tensor<!q>) -> tensor<!q>
      return %r, %s : tensor<!q>, tensor<!q>
    }"""
    module = parse_module(text)
    apply_passes(module, "stablehlo-legalize-quant-to-integer{fallback=qdq}")
    names = [op.name for op in module.walk()]
    # Only one of them has an integer form.
    types = [o.operand_types[0] for o in module.walk() if o.name == "stablehlo.reduce"]
    assert [str(type_).startswith("tensor<3xi8>") for type_ in types] == [True, False]
    assert names.count("stablehlo.uniform_dequantize") == 2
    apply_passes(module, PASS)
    results = run_function(module, "f", np.array([5, 9, 7], np.int8), np.int8(5))
    assert [int(result) for result in results] == [17, 15]
