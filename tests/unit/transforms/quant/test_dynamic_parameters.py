"""
Scales and zero points that are chosen for values at run time: interpreted, lowered and
compiled they are those of onnxruntime's `DynamicQuantizeLinear`, bit for bit.
"""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriteWalker,
    RewritePattern,
)
from xdsl.utils.exceptions import PassFailedException

from tests.unit.machines.numpy.running import FLOAT_DTYPES, same_bits
from xdsl_quant import execution
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import (
    DynamicParameters,
    choose_dynamic_parameters,
    choose_parameters,
    dequantize,
    quantize,
)
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.building.dynamic_arithmetic import (
    LowerChooseParameters,
    LowerDynamicCast,
)

Array = NDArray[Any]

PER_TENSOR = """
func.func @f(%x: tensor<?xf32>) -> (tensor<?xi8>, f32, i8) {
  %scale, %zero_point = quant.choose_parameters %x as <u8> : tensor<?xf32> to f32, i8
  %q = quant.dynamic_qcast %x, %scale, %zero_point as <u8>
      : tensor<?xf32>, f32, i8 to tensor<?xi8>
  return %q, %scale, %zero_point : tensor<?xi8>, f32, i8
}"""

PER_TOKEN = """
func.func @f(%x: tensor<?x?xf32>) -> (tensor<?x?xi8>, tensor<?xf32>, tensor<?xi8>) {
  %scale, %zero_point = quant.choose_parameters %x {0:1} as <u8>
      : tensor<?x?xf32> to tensor<?xf32>, tensor<?xi8>
  %q = quant.dynamic_qcast %x, %scale, %zero_point {0:1} as <u8>
      : tensor<?x?xf32>, tensor<?xf32>, tensor<?xi8> to tensor<?x?xi8>
  return %q, %scale, %zero_point : tensor<?x?xi8>, tensor<?xf32>, tensor<?xi8>
}"""

INF, NAN = np.inf, np.nan

SPECIAL = (
    (0.0, 0.0),
    (0.0, -0.0),
    (3.0, 3.0),
    (-3.0, -3.0),
    (-3.0, -1.0),
    (1.0, INF),
    (-1.0, INF),
    (-INF, 1.0),
    (-INF, INF),
    (-INF, -INF),
    (1e-45, 0.0),
    (-1e-45, 0.0),
    (1e-38, -1e-38),
    (3e38, -3e38),
    (-1e-42, 0.0),
)


@cache
def _model() -> Any:
    onnx: Any = import_module("onnx")
    helper, types = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [
            helper.make_node(
                "DynamicQuantizeLinear", ["x"], ["q", "scale", "zero_point"]
            )
        ],
        "quantize",
        [helper.make_tensor_value_info("x", types.FLOAT, [None])],
        [
            helper.make_tensor_value_info("q", types.UINT8, [None]),
            helper.make_tensor_value_info("scale", types.FLOAT, []),
            helper.make_tensor_value_info("zero_point", types.UINT8, []),
        ],
    )
    opset = helper.make_opsetid("", 21)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10)


@cache
def _session() -> Any:
    runtime: Any = import_module("onnxruntime")
    return runtime.InferenceSession(
        _model().SerializeToString(), providers=["CPUExecutionProvider"]
    )


@cache
def _evaluator() -> Any:
    return import_module("onnx.reference").ReferenceEvaluator(_model())


def onnxruntime(x: Array) -> Sequence[Array]:
    return _session().run(None, {"x": x})


def of_numerics(x: Array) -> Sequence[Array]:
    parameters = choose_dynamic_parameters(x)
    return (
        quantize(x, parameters, zero_point_order="after-rounding"),
        parameters.scales.astype(x.dtype),
        parameters.zero_points.astype(np.uint8),
    )


def check(results: Sequence[Array], expected: Sequence[Array]) -> None:
    """Check the results of IR, whose integers are signless, or of numerics."""
    for result, right in zip(results, expected, strict=True):
        if right.dtype == np.uint8:
            result, right = (np.asarray(a).view(np.int8) for a in (result, right))
        assert same_bits(np.asarray(result), right)


@cache
def _lowered(text: str, fuse: bool = True) -> Any:
    module = parse_module(text)
    apply_passes(
        module,
        "lower-quant-ops{rounding-mode=nearest-even zero-point-order=after-rounding "
        f"fuse={str(fuse).lower()}}}",
    )
    return module


@cache
def _compiled(text: str, fuse: bool = True) -> execution.CompiledFunction:
    return execution.compile(text, zero_point_order="after-rounding", fuse=fuse)


FLOATS = st.floats(width=32, allow_nan=False)
FINITE = st.floats(-(2.0**100), 2.0**100, width=32)


@pytest.mark.parametrize("values", SPECIAL)
def test_special_values(values: Sequence[float]):
    x = np.array(values, np.float32)
    expected = onnxruntime(x)
    check(of_numerics(x), expected)
    check(run_function(PER_TENSOR, "f", x, zero_point_order="after-rounding"), expected)
    for fuse in (False, True):
        check(run_function(_lowered(PER_TENSOR, fuse), "f", x), expected)
        check(_compiled(PER_TENSOR, fuse)(x), expected)


@settings(deadline=None)
@given(arrays.arrays(np.float32, st.integers(1, 70), elements=FLOATS))
def test_any_values(x: Array):
    expected = onnxruntime(x)
    check(of_numerics(x), expected)
    check(_compiled(PER_TENSOR)(x), expected)


@settings(deadline=None)
@given(arrays.arrays(np.float32, st.integers(1, 70), elements=FINITE))
def test_reference_evaluator(x: Array):
    with np.errstate(all="ignore"):
        expected = _evaluator().run(None, {"x": x})
    if not x.any():
        # Whatever the scale of zeros is, nothing but zeros is stored.
        expected[1] = np.array(1, np.float32)
    if expected[1] == 0:
        # What is NaN here has no defined integer in NumPy.
        return
    check(of_numerics(x), expected)


@settings(deadline=None)
@given(
    arrays.arrays(
        np.float32, st.tuples(st.integers(1, 4), st.integers(1, 9)), elements=FLOATS
    )
)
def test_per_token(x: Array):
    expected = [np.stack(parts) for parts in zip(*map(onnxruntime, x), strict=True)]
    check(run_function(PER_TOKEN, "f", x, zero_point_order="after-rounding"), expected)
    check(run_function(_lowered(PER_TOKEN), "f", x), expected)
    check(_compiled(PER_TOKEN)(x), expected)


@settings(deadline=None)
@given(arrays.arrays(np.float32, st.integers(1, 20), elements=FLOATS), st.data())
def test_nan_is_not_looked_at(x: Array, data: st.DataObject):
    # In onnxruntime this depends on where it is among the values.
    position = data.draw(st.integers(0, x.size))
    (_, *parameters), (_, *others) = map(
        _compiled(PER_TENSOR), (x, np.insert(x, position, NAN))
    )
    check(parameters, others)
    check(of_numerics(np.insert(x, position, NAN))[1:], of_numerics(x)[1:])


def test_random_values():
    random = np.random.default_rng(0)
    count = 0
    for exponent in range(-30, 30):
        for offset in (-3, 0, 0.5, 3):
            x = random.normal(offset, 1, 1000).astype(np.float32) * np.float32(
                2.0**exponent
            )
            expected = onnxruntime(x)
            check(of_numerics(x), expected)
            check(_evaluator().run(None, {"x": x}), expected)
            check(_compiled(PER_TENSOR)(x), expected)
            count += x.size
    assert count == 240_000


# Other types


@pytest.mark.sampled(17)
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("axes", [(), (0,), (1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("storage", ["u8", "i8<-127:127>", "i4", "i16", "u32", "i32"])
@pytest.mark.parametrize("expressed", ["f16", "bf16", "f32", "f64"])
def test_types(expressed: str, storage: str, axes: Sequence[int], symmetric: bool):
    if symmetric and storage.startswith("u"):
        return
    random = np.random.default_rng(0)
    x = random.normal(1, 10000, (2, 3, 4)).astype(FLOAT_DTYPES[expressed])
    x[:, 0] = 0
    x[0, 1, 0] = NAN
    name = storage.partition("<")[0]
    stored = f"i{name[1:]}"
    shape = "".join(f"{x.shape[axis]}x" for axis in axes)
    scale, zero_point = (
        f"tensor<{shape}{type_}>" if axes else type_ for type_ in (expressed, stored)
    )
    types = [scale] if symmetric else [scale, zero_point]
    blocks = f"{{{', '.join(f'{axis}:1' for axis in axes)}}}" if axes else ""
    results = "%s" if symmetric else "%s, %z"
    i = f"tensor<2x3x4x{stored}>"
    f = f"tensor<2x3x4x{expressed}>"
    operands = ", ".join((f, *types))
    text = f"""
func.func @f(%x: {f}) -> ({i}, {f}) {{
  {results} = quant.choose_parameters %x {blocks} as <{storage}> : {f} to {
        ", ".join(types)
    }
  %q = quant.dynamic_qcast %x, {results} {blocks} as <{storage}> : {operands} to {i}
  %y = quant.dynamic_dcast %q, {results} {blocks} as <{storage}> : {i}, {
        ", ".join(types)
    } to {f}
  return %q, %y : {i}, {f}
}}"""
    low, high = (-127, 127) if "<" in storage else (None, None)
    parameters = choose_dynamic_parameters(
        x,
        dict.fromkeys(axes, 1),
        storage=name,
        storage_min=low,
        storage_max=high,
        symmetric=symmetric,
    )
    stored_values = quantize(x, parameters)
    expected = stored_values, dequantize(stored_values, parameters)
    module = parse_module(text)
    apply_passes(module, "lower-quant-ops{rounding-mode=nearest-even}")
    for m in (text, module):
        q, y = run_function(m, "f", x)
        assert same_bits(
            q.view(expected[0].dtype) & _mask(name), expected[0] & _mask(name)
        )
        assert same_bits(y, expected[1])
    if storage in ("i8<-127:127>", "i32") and axes in ((), (0, 2)):
        q, y = execution.compile(text)(x)
        assert same_bits(np.asarray(q), expected[0])
        assert same_bits(np.asarray(y), expected[1])


@pytest.mark.parametrize(
    ("low", "high", "zero_point"),
    [
        # f32 has all these integers: the zero point is computed in it, and one more.
        (-(1 << 24), 1 << 24, 5592406),
        (-(1 << 24) - 1, (1 << 24) - 2, 5592404),
        (0, (1 << 25) - 1, 22369621),
    ],
)
def test_compute_type_of_wide_storage(low: int, high: int, zero_point: int):
    storage = "i32" if low < 0 else "u32"
    text = f"""
func.func @f(%x: tensor<2xf32>) -> (f32, i32) {{
  %s, %z = quant.choose_parameters %x as <{storage}<{low}:{high}>>
      : tensor<2xf32> to f32, i32
  return %s, %z : f32, i32
}}"""
    x = np.array([-0.6, 0.3], np.float32)
    parameters = choose_dynamic_parameters(
        x, storage=storage, storage_min=low, storage_max=high
    )
    module = parse_module(text)
    apply_passes(module, "lower-quant-ops{rounding-mode=nearest-even}")
    expected = 2.6822091214739885e-08, zero_point
    assert (parameters.scales, parameters.zero_points) == expected
    assert run_function(text, "f", x) == expected
    assert run_function(module, "f", x) == expected


def _mask(name: str) -> int:
    return 15 if name == "i4" else -1 if name[0] == "i" else (1 << int(name[1:])) - 1


def test_rule():
    for low, high in ((-1.0, 2.0), (1.0, 3.0), (-3.0, -2.0), (0.0, 0.0), (-0.1, 0.3)):
        x = np.array([low, high], np.float32)
        parameters = choose_parameters(x[0], x[1], storage="u8", rule="onnx")
        _, scale, zero_point = onnxruntime(x)
        assert parameters.scales == scale
        assert parameters.zero_points == zero_point
        dynamic = choose_dynamic_parameters(x)
        assert dynamic.scales == parameters.scales
        assert dynamic.zero_points == parameters.zero_points


def test_symmetric():
    x = np.array([[-2.54, 1.0], [0.0, 0.0]], np.float32)
    parameters = choose_dynamic_parameters(x, {0: 1}, storage="i8", symmetric=True)
    assert same_bits(
        parameters.scales.astype(np.float32), np.array([0.02, 1], np.float32)
    )
    assert not parameters.has_zero_points
    for storage, low, high in (("u8", 0, 255), ("i8", -5, 0), ("i8", -5, -3)):
        message = f"negative and positive .* found {low} to {high} of '{storage}'"
        with pytest.raises(ValueError, match=message):
            choose_dynamic_parameters(
                x, storage=storage, storage_min=low, storage_max=high, symmetric=True
            )
    with pytest.raises(TypeError, match="expected floats, found dtype int8"):
        choose_dynamic_parameters(np.zeros(2, np.int8))


@pytest.mark.parametrize("axis", [2, -1])
def test_wrong_axes(axis: int):
    message = r"for dimensions of shape \(3, 4\), found dimensions \[-?\d\]"
    with pytest.raises(ValueError, match=message):
        choose_dynamic_parameters(np.ones((3, 4)), {axis: 1})


@pytest.mark.parametrize("size", [0, -1])
def test_wrong_block_size(size: int):
    with pytest.raises(ValueError, match="expected positive block sizes, found"):
        choose_dynamic_parameters(np.ones((3, 4)), {1: size})


def test_block_sizes_that_are_no_mapping():
    with pytest.raises(
        TypeError, match="expected pairs of dimension and block size, found 0"
    ):
        choose_dynamic_parameters(np.ones(3), cast(Any, 0))


# Blocks

IN_BLOCKS = """
!x = tensor<{shape}xf32>
!q = tensor<{shape}xi8>
!s = tensor<{counts}xf32>
!z = tensor<{counts}xi8>
func.func @f(%x: !x) -> (!q, !s, !z, !x) {{
  %s, %z = quant.choose_parameters %x {blocks} as <u8> : !x to !s, !z
  %q = quant.dynamic_qcast %x, %s, %z {blocks} as <u8> : !x, !s, !z to !q
  %y = quant.dynamic_dcast %q, %s, %z {blocks} as <u8> : !q, !s, !z to !x
  return %q, %s, %z, %y : !q, !s, !z, !x
}}"""


def in_blocks(x: Array, blocks: dict[int, int]) -> Sequence[Array]:
    """Each block by onnxruntime."""
    counts = [-(-x.shape[axis] // size) for axis, size in blocks.items()]
    results = (
        np.empty(x.shape, np.uint8),
        np.empty(counts, np.float32),
        np.empty(counts, np.uint8),
    )
    for index in np.ndindex(*counts):
        part = [slice(None)] * x.ndim
        for i, (axis, size) in zip(index, blocks.items(), strict=True):
            part[axis] = slice(i * size, (i + 1) * size)
        block = x[*part]
        q, s, z = onnxruntime(block.reshape(-1))
        results[0][*part] = q.reshape(block.shape)
        results[1][index], results[2][index] = s, z
    return results


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("shape", "blocks"),
    [
        ((3, 8), {0: 1, 1: 4}),
        ((3, 10), {0: 1, 1: 4}),
        ((3, 10), {1: 4}),
        ((7,), {0: 3}),
        ((7,), {0: 100}),
        ((5, 2, 6), {0: 2, 2: 3}),
        ((5, 2, 6), {0: 2, 1: 2, 2: 4}),
    ],
)
def test_blocks(shape: tuple[int, ...], blocks: dict[int, int], dynamic: bool):
    x = np.random.default_rng(0).normal(1, 3, shape).astype(np.float32)
    x[..., 0] = 0
    counts = [-(-shape[axis] // size) for axis, size in blocks.items()]
    text = IN_BLOCKS.format(
        shape="x".join("?" * len(shape) if dynamic else map(str, shape)),
        counts="x".join("?" * len(counts) if dynamic else map(str, counts)),
        blocks=f"{{{', '.join(f'{axis}:{size}' for axis, size in blocks.items())}}}",
    )
    parameters = choose_dynamic_parameters(x, blocks)
    q, s, z = in_blocks(x, blocks)
    y = dequantize(q, parameters)
    check([quantize(x, parameters, zero_point_order="after-rounding")], [q])
    check([parameters.scales.astype(np.float32)], [s])
    check([parameters.zero_points.astype(np.uint8)], [z])
    check(run_function(text, "f", x, zero_point_order="after-rounding"), (q, s, z, y))
    check(run_function(_lowered(text), "f", x), (q, s, z, y))
    check(_compiled(text)(x), (q, s, z, y))


# Floats and tables


def test_floats():
    """The scale is the largest magnitude divided by that of the float type."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.random.default_rng(0).normal(0, 3, (5, 70)).astype(np.float32)
    x[1, :32], x[2, 3], x[3, 40], x[4, 0] = 0, np.inf, np.nan, 1e-45
    for name, largest in (("f8E4M3FN", 448), ("f8E5M2", 57344), ("f4E2M1FN", 6)):
        text = IN_BLOCKS.format(shape="5x70", counts="5x3", blocks="{0:1, 1:32}")
        text = text.replace(", %z", "").replace(", !z", "").replace(" %z,", "")
        text = text.replace("xi8>", f"x{name}>").replace("u8", name)
        padded = np.pad(x, ((0, 0), (0, 26))).reshape(5, 3, 32)
        magnitudes = np.fmax.reduce(np.abs(padded), axis=2)
        scales = np.where(
            magnitudes == 0, np.float32(1), magnitudes / np.float32(largest)
        )
        dtype = ml_dtypes.finfo(getattr(ml_dtypes, _ML_NAMES[name])).dtype
        with np.errstate(all="ignore"):
            quotients = x / scales.repeat(32, 1)[:, :70]
            quotients = np.where(np.isnan(quotients), -largest, quotients)
            q = np.clip(quotients, -largest, largest).astype(dtype)
            y = q.astype(np.float32) * scales.repeat(32, 1)[:, :70]
        expected = q, scales, y
        parameters = choose_dynamic_parameters(
            x, {0: 1, 1: 32}, storage=name, symmetric=True
        )
        check([quantize(x, parameters)], [q])
        check(run_function(text, "f", x), expected)
        check(run_function(_lowered(text), "f", x), expected)
        check(execution.compile(text)(x), expected)


_ML_NAMES = {
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "f4E2M1FN": "float4_e2m1fn",
}


def test_tables():
    """The ends are the smallest and the largest number of the table that is in range."""
    table = (-0.75, 3.0, 0.0, -1.5, 8.0)
    numbers = ",".join(map(str, table))
    text = IN_BLOCKS.format(shape="5x70", counts="5", blocks="{0:1}")
    text = text.replace(", %z", "").replace(", !z", "").replace(" %z,", "")
    text = text.replace("u8", f"!quant.quantile<ui8:f32, {{{numbers}}}, <3:7>><3:6>")
    x = np.random.default_rng(0).normal(0, 3, (5, 70)).astype(np.float32)
    scales = np.abs(x).max(1) / np.float32(1.5)
    distances = abs((x / scales[:, None])[..., None] - np.array(table[:4], np.float32))
    q = (distances.argmin(-1) + 3).astype(np.uint8)
    y = np.array(table, np.float32)[q - 3] * scales[:, None]
    parameters = choose_dynamic_parameters(
        x,
        {0: 1},
        storage="u8",
        table=table,
        table_min=3,
        storage_max=6,
        symmetric=True,
    )
    check([quantize(x, parameters)], [q])
    for results in (
        run_function(text, "f", x),
        run_function(_lowered(text), "f", x),
        execution.compile(text)(x),
    ):
        check(results, (q, scales, y))
    with pytest.raises(ValueError, match="found 0 to 3 of 'u8'"):
        choose_dynamic_parameters(x, storage="u8", table=(0, 3), symmetric=True)


@pytest.mark.parametrize(
    "options", [{"storage": "f8E5M2"}, {"storage": "u8", "table": (-1, 1)}]
)
def test_floats_and_tables_have_no_zero_points(options: dict[str, Any]):
    message = "unsupported zero points for float and table storage; use symmetric=True"
    with pytest.raises(ValueError, match=f"^{message}$"):
        choose_dynamic_parameters(np.ones(4), **options)
    with pytest.raises(ValueError, match=r"unsupported zero points for .* storage"):
        DynamicParameters(1.0, 0, **options)


def test_masked_values():
    with pytest.raises(TypeError, match="unsupported masked array in values"):
        choose_dynamic_parameters(cast(Any, np.ma).array([1.0, 2.0], mask=[0, 1]))


def test_no_tokens():
    """A dimension without indices has no scales, interpreted, lowered and compiled."""
    text = """
func.func @f(%x: tensor<?x4xf32>) -> (tensor<?x4xi8>, tensor<?xf32>, tensor<?xi8>) {
  %s, %z = quant.choose_parameters %x {0:1} as <u8>
    : tensor<?x4xf32> to tensor<?xf32>, tensor<?xi8>
  %q = quant.dynamic_qcast %x, %s, %z {0:1} as <u8>
    : tensor<?x4xf32>, tensor<?xf32>, tensor<?xi8> to tensor<?x4xi8>
  return %q, %s, %z : tensor<?x4xi8>, tensor<?xf32>, tensor<?xi8>
}"""
    x = np.zeros((0, 4), np.float32)
    lowered = parse_module(text)
    apply_passes(lowered, "lower-quant-ops{rounding-mode=nearest-even}")
    for results in (
        run_function(text, "f", x),
        run_function(lowered, "f", x),
        execution.compile(text)(x),
    ):
        assert [(r.shape, r.dtype.name) for r in results] == [
            ((0, 4), "int8"),
            ((0,), "float32"),
            ((0,), "int8"),
        ]


@pytest.mark.parametrize("text", [PER_TENSOR, PER_TOKEN])
def test_patterns_of_their_own(text: str):
    module, expected = parse_module(text), parse_module(text)
    patterns: list[RewritePattern] = [
        LowerChooseParameters(),
        LowerDynamicCast("nearest-even"),
    ]
    walker = PatternRewriteWalker(GreedyRewritePatternApplier(patterns))
    assert walker.rewrite_module(module)
    # The walker removes dead ops, the pass does not.
    apply_passes(module, "canonicalize")
    apply_passes(expected, "lower-quant-ops{rounding-mode=nearest-even},canonicalize")
    assert str(module) == str(expected)


@pytest.mark.parametrize("pattern", [LowerChooseParameters(), LowerDynamicCast()])
def test_patterns_refuse_types_without_constants(pattern: Any):
    module = parse_module(PER_TENSOR.replace("f32", "f80"))
    before = str(module)
    with pytest.raises(
        PassFailedException, match="no constants of expressed type 'f80'"
    ):
        pattern.rewrite_module(module)
    assert str(module) == before
