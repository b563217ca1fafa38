"""
Quantized reductions, computed with integers and with floats, interpreted and compiled.

StableHLO's own interpreter has no quantized reductions, so the reference is NumPy's.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.unit.frontends.stablehlo.lowering.stablehlo_programs import (
    quantization,
    stored_values,
    tensor,
)
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

Array = np.ndarray[Any, Any]

TO_INTEGER = "stablehlo-legalize-quant-to-integer"
KEEP = f"{TO_INTEGER}{{fallback=keep}}"
TO_QDQ = "stablehlo-legalize-quantized-op-to-qdq,stablehlo-casts-to-quant"
TO_LINALG = "convert-stablehlo-to-linalg"
STRIP = "strip-func-quant-types,canonicalize"


def _qdq(options: str = "") -> str:
    lowering = f"lower-quant-ops{{rounding-mode=nearest-even keep-qdq=true{options}}}"
    return f"{TO_QDQ},{lowering},{TO_LINALG},{STRIP}"


PIPELINES = {
    "integer": f"{TO_INTEGER},{TO_LINALG},{STRIP}",
    "qdq": _qdq(),
    "fused qdq": _qdq(" fuse=true"),
}

SHAPE = (3, 4, 5)

KINDS = {
    "i4": quantization("i4", 0.5, -3),
    "u4": quantization("u4", 0.25, 9),
    "i8": quantization("i8", 0.3, 7),
    "i8 without a zero point": quantization("i8", 0.3),
    "narrow i8": quantization("i8", 0.3, 5, bounds=(-100, 90)),
    "u8": quantization("u8", 0.11, 131),
    "i16": quantization("i16", 0.003, -300),
    "u16": quantization("u16", 0.003, 40000),
}


def reductions(
    shape: Sequence[int],
    cases: Sequence[tuple[str, Sequence[int]]],
    quantized: QuantizationParameters,
) -> str:
    """A function `f` of a tensor and an initial value, with a result for each case."""
    operand, scalar = tensor(shape, quantized), tensor((), quantized)
    results = [
        tensor([size for d, size in enumerate(shape) if d not in dimensions], quantized)
        for _, dimensions in cases
    ]
    ops = [
        f"  %r{i} = stablehlo.reduce(%x init: %i) applies stablehlo.{op} across "
        f"dimensions = {[*dimensions]} : ({operand}, {scalar}) -> {result}\n"
        for i, ((op, dimensions), result) in enumerate(zip(cases, results, strict=True))
    ]
    names, types = ", ".join(f"%r{i}" for i in range(len(ops))), ", ".join(results)
    return (
        f"func.func @f(%x: {operand}, %i: {scalar}) -> ({types}) {{\n{''.join(ops)}"
        f"  return {names} : {types}\n}}\n"
    )


def reduction(
    op: str,
    shape: Sequence[int],
    dimensions: Sequence[int],
    quantized: QuantizationParameters,
) -> str:
    """A function `f` of a tensor and an initial value."""
    return reductions(shape, [(op, dimensions)], quantized)


def run(text: str, passes: str, *arguments: Any) -> list[Array]:
    """The results, which are the same interpreted and compiled."""
    module = parse_module(text)
    apply_passes(module, passes)
    interpreted = run_function(module, None, *arguments)
    compiled: Any = compile(module)(*arguments)
    compiled = compiled if len(interpreted) > 1 else (compiled,)
    for one, other in zip(interpreted, compiled, strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(other, one)
    return [np.asarray(result) for result in interpreted]


def reference(
    op: str,
    values: Array,
    init_value: int,
    dimensions: Sequence[int],
    quantized: QuantizationParameters,
) -> Array:
    """One element after the other, in the order of memory, with a clamp at each step."""
    kept = [d for d in range(values.ndim) if d not in dimensions]
    shape = [values.shape[d] for d in kept]
    elements = values.astype(np.int64).transpose(*kept, *dimensions)
    result = np.full(shape, init_value, np.int64)
    for element in np.moveaxis(elements.reshape(*shape, -1), -1, 0):
        if op == "add":
            total = result + element - int(quantized.zero_points)
            result = np.clip(total, quantized.storage_min, quantized.storage_max)
        else:
            result = getattr(np, op)(result, element)
    return result.astype(quantized.storage_dtype)


def same_stored(
    actual: Array, expected: Array, quantized: QuantizationParameters
) -> None:
    """Equal as stored values; those without a sign come as those with the same bits."""
    width = quantized.storage_width
    mask = (1 << width) - 1
    np.testing.assert_array_equal(
        actual.astype(np.int64) & mask, expected.astype(np.int64) & mask
    )


OPS = ["add", "maximum", "minimum"]
DIMENSIONS: list[list[int]] = [[1], [0, 2], [0, 1, 2], []]
CASES = [(op, dimensions) for op in OPS for dimensions in DIMENSIONS]


@pytest.mark.sampled(14)
@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("kind", KINDS)
def test_one_op(kind: str, pipeline: str):
    quantized = KINDS[kind]
    values = stored_values(3, SHAPE, quantized)
    middle = int(quantized.zero_points) + 1
    init_value = np.array(middle, quantized.storage_dtype)
    text = reductions(SHAPE, CASES, quantized)
    results = run(text, PIPELINES[pipeline], values, init_value)
    for (op, dimensions), actual in zip(CASES, results, strict=True):
        expected = reference(op, values, middle, dimensions, quantized)
        same_stored(actual, expected, quantized)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_sums_saturate_on_the_way(pipeline: str):
    quantized = quantization("i8", 0.5, 3)
    values = np.array([[127, 127, -128], [-128, -128, 127], [3, 4, 2]], np.int8)
    text = reduction("add", (3, 3), [1], quantized)
    (actual,) = run(text, PIPELINES[pipeline], values, np.int8(3))
    # Without a clamp in between, the first two were 120 and -128.
    assert actual.tolist() == [-4, -4, 3]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("op", OPS)
def test_nothing_to_reduce(op: str, pipeline: str):
    quantized = quantization("i8", 0.5, 3)
    text = reduction(op, (2, 0), [1], quantized)
    (actual,) = run(text, PIPELINES[pipeline], np.zeros((2, 0), np.int8), np.int8(-7))
    assert actual.tolist() == [-7, -7]


def test_sums_of_wide_integers():
    quantized = quantization("i32", 1.0, -(1 << 31))
    values = np.array([[2**31 - 1, 5], [-(2**31), -(2**31) + 9]], np.int32)
    text = reduction("add", (2, 2), [1], quantized)
    (actual,) = run(text, PIPELINES["integer"], values, np.int32(-(2**31) + 1))
    assert actual.tolist() == [2**31 - 1, -(2**31) + 10]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_sizes_that_are_not_known(pipeline: str):
    quantized = quantization("u8", 0.5, 3)
    values = stored_values(0, (4, 6), quantized)
    text = reduction("add", (4, 6), [1], quantized)
    text = text.replace("4x6x", "?x?x").replace("<4x", "<?x")
    (actual,) = run(text, PIPELINES[pipeline], values, np.uint8(200))
    same_stored(actual, reference("add", values, 200, [1], quantized), quantized)


Q = "!quant.uniform<i8:f32, 5.000000e-01:3>"
WIDE = "!quant.uniform<i32:f32, 5.000000e-01:3>"

IN_A_REGION = """
func.func @f(%x: tensor<2x3x{q}>, %i: tensor<{q}>) -> tensor<2x{q}> {{
  %r = stablehlo.reduce(%x init: %i) across dimensions = [1]
      : (tensor<2x3x{q}>, tensor<{q}>) -> tensor<2x{q}>
    reducer(%a: tensor<{q}>, %b: tensor<{q}>) {{
    {body}
    stablehlo.return %c : tensor<{q}>
  }}
  return %r : tensor<2x{q}>
}}"""


def test_operands_in_the_other_order():
    text = IN_A_REGION.format(q=Q, body=f"%c = stablehlo.add %b, %a : tensor<{Q}>")
    module = parse_module(text)
    apply_passes(module, TO_INTEGER)
    assert "tensor<2x3xi8>, tensor<i8>) -> tensor<2xi8>" in str(module)
    values = np.array([[100, 100, -50], [3, 3, 3]], np.int8)
    (actual,) = run(text, PIPELINES["integer"], values, np.int8(3))
    assert actual.tolist() == [74, 3]


LEFT_ALONE = {
    "several ops": f"%d = stablehlo.negate %b : tensor<{Q}>\n"
    f"%c = stablehlo.add %a, %d : tensor<{Q}>",
    "another op": f"%c = stablehlo.multiply %a, %b : tensor<{Q}>",
    "one argument alone": f"%c = stablehlo.add %b, %b : tensor<{Q}>",
}


@pytest.mark.parametrize("kind", LEFT_ALONE)
def test_other_regions_stay_and_are_computed_with_floats(kind: str):
    text = IN_A_REGION.format(q=Q, body=LEFT_ALONE[kind])
    assert "without integer form, found 1 'stablehlo.reduce'; use" in message_of(
        text, TO_INTEGER
    )
    module = parse_module(text)
    apply_passes(module, KEEP)
    assert str(module) == str(parse_module(text))
    values = np.array([[100, 5, -50], [3, 4, 5]], np.int8)
    result: Array = np.full(2, 7.0)
    for column in range(3):
        a: Array = (result - 3) * 0.5
        b: Array = (values[:, column].astype(float) - 3) * 0.5
        real: Array = {
            "several ops": a + np.clip(-b, -65.5, 62.0),
            "another op": a * b,
            "one argument alone": b + b,
        }[kind]
        result = np.clip(np.round(real / 0.5 + 3), -128, 127)
    for pipeline in ("qdq", "fused qdq"):
        (actual,) = run(text, PIPELINES[pipeline], values, np.int8(7))
        assert actual.tolist() == result.tolist()


@pytest.mark.parametrize("pipeline", ["qdq", "fused qdq"])
def test_constants_in_a_region(pipeline: str):
    unsigned = "!quant.uniform<u8:f32, 5.000000e-01:3>"
    body = f"""%k = stablehlo.constant() <{{value = dense<-2> : tensor<i8>}}>
        : () -> tensor<{unsigned}>
    %m = stablehlo.minimum %b, %k : tensor<{unsigned}>
    %c = stablehlo.maximum %a, %m : tensor<{unsigned}>"""
    values = np.array([[255, 3, 7], [1, 253, 9]], np.uint8)
    text = IN_A_REGION.format(q=unsigned, body=body)
    (actual,) = run(text, PIPELINES[pipeline], values, np.uint8(0))
    assert (actual.astype(int) & 255).tolist() == [254, 253]


def test_integer_scales():
    quantized = quantization("i8", 0.3, 7)
    values = stored_values(1, (3, 4), quantized)
    module = parse_module(reduction("add", (3, 4), [0], quantized))
    apply_passes(module, "quant-scales-to-fixed-point")
    assert "quant.fixed_point" in str(module)
    (actual,) = run(str(module), PIPELINES["integer"], values, np.int8(9))
    assert (actual == reference("add", values, 9, [0], quantized)).all()


def test_no_float_is_left():
    module = parse_module(reduction("add", SHAPE, [1], KINDS["i8"]))
    apply_passes(module, PIPELINES["integer"])
    assert "f32" not in str(module)


# Accumulators of other types


def with_accumulator(
    op: str,
    operand: QuantizationParameters,
    init_value: QuantizationParameters,
    accumulator: QuantizationParameters,
    result: QuantizationParameters,
    window: int | None = None,
) -> str:
    """A reduction `f` of `3x6` along its last dimension, or over windows along it."""
    x, i, r = tensor((3, 6), operand), tensor((), init_value), tensor((3,), result)
    name, attributes, w = (
        "reduce",
        "dimensions = array<i64: 1>",
        tensor((), accumulator),
    )
    if window is not None:
        r, name = tensor((3, 7 - window), result), "reduce_window"
        attributes = f"window_dimensions = array<i64: 1, {window}>"
    return f"""
    func.func @f(%x: {x}, %i: {i}) -> {r} {{
      %r = "stablehlo.{name}"(%x, %i) ({{
      ^bb0(%a: {w}, %b: {w}):
        %c = stablehlo.{op} %a, %b : {w}
        stablehlo.return %c : {w}
      }}) {{{attributes}}} : ({x}, {i}) -> {r}
      return %r : {r}
    }}"""


def requantized(
    values: Array,
    source: QuantizationParameters,
    target: QuantizationParameters,
    pipeline: str,
) -> Array:
    """Rounded half up with integers, half to even with floats; scales are powers of 2."""
    real = (values.astype(np.int64) - int(source.zero_points)) * float(source.scales)
    stored = real / float(target.scales) + int(target.zero_points)
    stored = np.floor(stored + 0.5) if pipeline == "integer" else np.round(stored)
    return np.clip(stored, target.storage_min, target.storage_max).astype(np.int64)


I8 = quantization("i8", 0.5, 3)

ACCUMULATORS = {
    # Operand, initial value, accumulator and result.
    "wider": (I8, I8, quantization("i32", 0.5), quantization("i32", 0.5)),
    "with a zero point": (I8, I8, quantization("i16", 0.5, -700), None),
    "of finer scale": (I8, I8, quantization("i32", 0.125, 9), None),
    "of coarser scale": (I8, I8, quantization("i16", 2.0), None),
    "of the same width": (I8, I8, quantization("i8", 4.0, -7), None),
    "of the initial value": (
        I8,
        quantization("i32", 0.5),
        quantization("i32", 0.5),
        None,
    ),
    "of three types": (
        I8,
        quantization("u8", 0.25, 200),
        quantization("i16", 0.5),
        None,
    ),
    "unsigned": (quantization("u8", 0.5, 130), I8, quantization("u16", 0.5, 900), None),
    "of 4 bits": (quantization("i4", 0.5, 1), quantization("i4", 1.0), I8, None),
    "then requantized": (
        I8,
        I8,
        quantization("i32", 0.5),
        quantization("i32", 4.0, -5),
    ),
}


@pytest.mark.sampled(20)
@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("kind", ACCUMULATORS)
def test_accumulator(kind: str, window: int | None, op: str, pipeline: str):
    operand, init_value, accumulator, result = ACCUMULATORS[kind]
    result = result or accumulator
    text = with_accumulator(op, operand, init_value, accumulator, result, window)
    values = stored_values(5, (3, 6), operand)
    first = int(init_value.zero_points) + 2
    (actual,) = run(
        text, PIPELINES[pipeline], values, np.array(first, init_value.storage_dtype)
    )
    wide = requantized(values, operand, accumulator, pipeline)
    start = int(requantized(np.array(first), init_value, accumulator, pipeline))
    if window is not None:
        wide = np.lib.stride_tricks.sliding_window_view(wide, window, axis=1)
    sums = reference(op, wide, start, [wide.ndim - 1], accumulator)
    same_stored(actual, requantized(sums, accumulator, result, pipeline), result)


def test_wide_sums_do_not_saturate():
    wide = quantization("i32", 0.5)
    text = with_accumulator("add", I8, I8, wide, wide)
    values = np.array([[127] * 6, [-128] * 6, [3] * 6], np.int8)
    for pipeline in PIPELINES.values():
        (actual,) = run(text, pipeline, values, np.int8(4))
        assert actual.tolist() == [745, -785, 1]


TWO_INPUTS = """
!q = !quant.uniform<i8:f32, 5.000000e-01:3>
!w = !quant.uniform<i32:f32, 5.000000e-01>
!h = !quant.uniform<i16:f32, 5.000000e-01>
func.func @f(%x: tensor<2x3x!q>, %i: tensor<!q>) -> (tensor<2x!w>, tensor<2x!h>) {
  %r, %s = stablehlo.reduce(%x init: %i), (%x init: %i) across dimensions = [1]
      : (tensor<2x3x!q>, tensor<2x3x!q>, tensor<!q>, tensor<!q>)
      -> (tensor<2x!w>, tensor<2x!h>)
    reducer(%a: tensor<!w>, %b: tensor<!w>) (%c: tensor<!h>, %d: tensor<!h>) {
    %e = stablehlo.add %a, %b : tensor<!w>
    %g = stablehlo.maximum %c, %d : tensor<!h>
    stablehlo.return %e, %g : tensor<!w>, tensor<!h>
  }
  return %r, %s : tensor<2x!w>, tensor<2x!h>
}"""


def test_accumulators_of_two_inputs():
    values = np.array([[127, 127, 5], [-128, -128, -3]], np.int8)
    for pipeline in ("qdq", "fused qdq"):
        sums, largest = run(TWO_INPUTS, PIPELINES[pipeline], values, np.int8(4))
        assert (sums.tolist(), sums.dtype) == ([251, -267], np.int32)
        assert (largest.tolist(), largest.dtype) == ([124, 1], np.int16)


# Messages


def message_of(text: str, passes: str) -> str:
    module = parse_module(text, "model.mlir")
    with pytest.raises(IRError) as error:
        apply_passes(module, passes)
    return str(error.value)


def test_what_to_run_first():
    text = reduction("add", SHAPE, [1], KINDS["i8"])
    assert (
        "'stablehlo.reduce' op is arithmetic on a quantized tensor: run "
        "'convert-quantized-stablehlo-to-linalg' instead"
    ) in message_of(text, TO_LINALG)
    wide = quantization("i32", 0.5)
    assert (
        "'stablehlo.reduce' op is arithmetic on a quantized tensor: run "
        "'convert-quantized-stablehlo-to-linalg' instead"
    ) in message_of(with_accumulator("add", I8, I8, wide, wide), TO_LINALG)
    only_qdq = TO_QDQ.split(",")[0]
    assert (
        "'stablehlo.uniform_dequantize' op is a quantization cast: run "
        "'convert-quantized-stablehlo-to-linalg' instead, or 'stablehlo-casts-to-quant' "
        "first"
    ) in message_of(text, f"{only_qdq},{TO_LINALG}")
    assert (
        "'quant.dcast' op is in the region of a reduction: run 'lower-quant-ops' first"
    ) in message_of(text, f"{TO_QDQ},{TO_LINALG}")
