"""
Models of one op in TOSA, lowered by MLIR and executed: the integers of the reference
kernels.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pymicro_wakeword
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from tests.unit.frontends.tflite.files.models import DTYPES, inputs_of, model_of
from tests.unit.frontends.tflite.formulas.cases import Case, Tensor, cases
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.frontends.tflite.formulas.elementwise import quantize
from xdsl_quant.frontends.tflite.lowering.convert_tfl_to_tosa import (
    LOWERINGS,
    ConvertTFLToTosaPass,
)
from xdsl_quant.frontends.tflite.lowering.tfl_variables_to_arguments import (
    TFLVariablesToArgumentsPass,
)
from xdsl_quant.frontends.tosa.dialect_ops import TOSA_OPS
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.runtime.loading import multiverse_context, parse_module
from xdsl_quant.runtime.stateful_function import StatefulFunction

from .tosa_execution import (
    FALLBACKS,
    VALIDATE,
    as_signless,
    converted,
    executable,
    expected_of,
    fallback_of,
    group_of,
    run,
    validated,
)

NO_TABLE = "has 16-bit values, expected 8-bit values for a square root table"
NO_FORM = "has no integer form in TOSA"
NO_KERNEL = "has no integer kernel"

REFUSED: Mapping[str, Sequence[str]] = {
    "FLOOR_DIV": [NO_KERNEL],
    "FLOOR_MOD": [NO_KERNEL],
    "NEG": ["has a zero point", "on quantized values has no integer kernel"],
    "REDUCE_PROD": [NO_FORM],
    "SQRT": [NO_TABLE],
}
"""What the pass says about cases that it does not convert."""

NOT_LOWERED_BY_MLIR = {"TRANSPOSE_CONV/16"}
"""Valid TOSA of which MLIR 22 makes invalid ops."""


_GROUPS: defaultdict[str, list[Case]] = defaultdict(list)
for _case in cases():
    _GROUPS[group_of(_case)].append(_case)


@pytest.fixture(scope="module")
def mlir() -> Iterator[Mlir]:
    with Mlir() as worker:
        yield worker


def parse(text: str) -> ModuleOp:
    return Parser(multiverse_context(), text).parse_module()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("group", _GROUPS)
def test_integers(mlir: Mlir, group: str, request: pytest.FixtureRequest):
    step = 6 if request.config.getoption("--all-cases") else 18
    for case in _GROUPS[group][::step]:
        try:
            module = converted(case)
        except PassFailedException as error:
            said = str(error)
            assert any(words in said for words in REFUSED.get(case.op, ())), said
            continue
        answer = validated(mlir, module)
        assert isinstance(answer, Accepted), f"{case.name}: {answer}"
        if group in NOT_LOWERED_BY_MLIR:
            continue
        results = run(module, inputs_of(case))
        # There may be a state, too.
        for result, expected in zip(results, expected_of(case), strict=False):
            np.testing.assert_array_equal(np.asarray(result), expected, case.name)


def integers(low: int, high: int, dtype: Any = np.int32) -> NDArray[Any]:
    return np.random.default_rng(5).integers(low, high, (2, 5)).astype(dtype)


WIDE = integers(-(1 << 60), 1 << 60, dtype=np.int64)
WITH_NAN = np.array(
    [[np.nan, 2, 3, 4, 1], [-np.inf, np.nan, 7, 7, -np.inf]], np.float32
)
TWO, FIVE = "dense<[1, 0]> : tensor<2xi32>", "dense<1> : tensor<i32>"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "types", "result", "constant", "values"),
    [
        ("arg_max", "2x5xf32", "2xi64", FIVE, WITH_NAN),
        ("arg_min", "2x5xf32", "2xi32", FIVE, WITH_NAN),
        ("arg_max", "2x5xi32", "2xi64", FIVE, integers(-3, 3)),
        ("arg_min", "2x5xi32", "2xi32", FIVE, integers(-3, 3)),
        ("arg_max", "2x5xui8", "2xi64", FIVE, integers(0, 256, dtype=np.uint8)),
        ("reverse_v2", "2x5xi64", "2x5xi64", TWO, WIDE),
        ("gather", "2x5xi64", "2x5xi64", TWO, WIDE),
        ("gather", "2x5xi1", "2x5xi1", TWO, integers(0, 2, dtype=np.bool_)),
        ("gather", "2x5xui8", "2x5xui8", TWO, integers(0, 256, dtype=np.uint8)),
        ("neg", "2x5xi64", "2x5xi64", None, WIDE),
        ("sum", "2x5xi64", "2xi64", FIVE, integers(-9, 9, dtype=np.int64)),
        ("mean", "2x5xi32", "2xi32", FIVE, integers(-9, 9)),
        ("cast", "2x5xui8", "2x5xi64", None, integers(0, 256, dtype=np.uint8)),
        ("cast", "2x5xi64", "2x5xui8", None, WIDE),
        ("cast", "2x5xui8", "2x5xi1", None, integers(0, 2, dtype=np.uint8)),
        ("cast", "2x5xi1", "2x5xf32", None, integers(0, 2, dtype=np.bool_)),
    ],
)
def test_elements_that_are_not_quantized(
    mlir: Mlir,
    name: str,
    types: str,
    result: str,
    constant: str | None,
    values: NDArray[Any],
):
    """The result of `convert-tfl-to-linalg`."""
    properties = {
        "gather": "<{axis = 0 : i32, batch_dims = 0 : i32}>",
        "sum": "<{keep_dims = false}>",
        "mean": "<{keep_dims = false}>",
    }.get(name, "")
    operands, given, made = "%x", f"tensor<{types}>", ""
    if constant is not None:
        type_ = constant.rpartition(" : ")[2]
        made = f'%c = "tfl.pseudo_const"() <{{value = {constant}}}> : () -> {type_}'
        operands, given = "%x, %c", f"{given}, {type_}"
    text = f"""
      func.func @main(%x: tensor<{types}>) -> tensor<{result}> {{
        {made}
        %0 = "tfl.{name}"({operands}) {properties} : ({given}) -> tensor<{result}>
        func.return %0 : tensor<{result}>
      }}
    """
    module, other = parse(text), parse(text)
    module.verify()
    ConvertTFLToTosaPass(fallback="off").apply(Context(), module)
    module.verify()
    assert isinstance(validated(mlir, module), Accepted)
    expected = np.asarray(compile(other, "main")(values))
    (computed,) = run(module, [values])
    np.testing.assert_array_equal(as_signless(computed), as_signless(expected))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("op", ["AVERAGE_POOL_2D", "RESIZE_BILINEAR", "RSQRT", "SVDF"])
def test_floats(mlir: Mlir, op: str):
    for case in [case for case in cases() if case.op == op][:2]:
        case = case._replace(
            operands=[operand and as_float(operand) for operand in case.operands],
            results=[*map(as_float, case.results)],
        )
        values = inputs_of(case)
        module = converted(case)
        assert isinstance(validated(mlir, module), Accepted)
        results = run(module, values)
        other = StatefulFunction(read_tflite(write_model(model_of(case))), compile)
        expected = other.step(*values)
        np.testing.assert_allclose(
            results[0], expected[0], 1e-5, 1e-6, err_msg=case.name
        )


@pytest.mark.parametrize("sizes", [(6, 3), (7, 11), (9, 10)])
def test_interpolation_of_unsigned_values(mlir: Mlir, sizes: tuple[int, int]):
    """The reference kernel of these computes with floats; the interpreter is exact."""
    type_ = "!quant.uniform<u8:f32, 0.5:200>"
    image, resized = (
        f"tensor<1x{rows}x{columns}x3x{type_}>" for rows, columns in ((8, 5), sizes)
    )
    module = parse(
        f"""
        func.func @main(%x: {image}) -> {resized} {{
          %size = "tfl.pseudo_const"() <{{
            value = dense<{[*sizes]}> : tensor<2xi32>
          }}> : () -> tensor<2xi32>
          %0 = "tfl.resize_bilinear"(%x, %size) <{{
            align_corners = false, half_pixel_centers = true
          }}> : ({image}, tensor<2xi32>) -> {resized}
          func.return %0 : {resized}
        }}
        """
    )
    random = np.random.default_rng(1)
    values = random.integers(0, 256, (1, 8, 5, 3)).astype(np.uint8)
    (expected,) = run_function(module, "main", values)
    ConvertTFLToTosaPass(fallback="off").apply(Context(), module)
    assert isinstance(validated(mlir, module), Accepted)
    (result,) = run(module, [values])
    np.testing.assert_array_equal(np.asarray(result).view(np.uint8), expected)


def as_float(tensor: Tensor) -> Tensor:
    if not tensor.scales:
        return tensor
    array = tensor.array * np.float32(tensor.scales[0])
    return tensor._replace(
        type="FLOAT32", array=array.astype(np.float32), scales=[], zero_points=[]
    )


@pytest.mark.parametrize(
    ("storage", "scale", "zero_point"),
    [("i8", 0.1, 3), ("i8", 0.0072, -128), ("u8", 0.33, 100), ("i16", 3.1e-4, 0)],
)
def test_floats_are_quantized_exactly(
    mlir: Mlir, storage: str, scale: float, zero_point: int
):
    step = np.float32(scale)
    type_ = f"tensor<9000x!quant.uniform<{storage}:f32, {float(step)!r}:{zero_point}>>"
    module = parse(
        f"""
        func.func @main(%x: tensor<9000xf32>) -> {type_} {{
          %0 = "tfl.quantize"(%x) <{{qtype = {type_}}}> : (tensor<9000xf32>) -> {type_}
          func.return %0 : {type_}
        }}
        """
    )
    ConvertTFLToTosaPass().apply(Context(), module)
    assert isinstance(validated(mlir, module), Accepted)
    parameters = QuantizationParameters(float(step), zero_point, storage=storage)
    random = np.random.default_rng(2)
    low, high = parameters.storage_min, parameters.storage_max
    # Ties, the floats next to them, and numbers that are out of range.
    integers = random.integers(low - 3, high + 4, 9000)
    halves = random.choice([0, 0.5, -0.5, 0.3], 9000)
    values = ((integers - zero_point + halves) * step).astype(np.float32)
    values[::3] = np.nextafter(values[::3], np.float32(np.inf))
    values[1::3] = np.nextafter(values[1::3], np.float32(-np.inf))
    values[:7] = [np.inf, -np.inf, np.nan, 1e30, -1e30, 0.0, -0.0]
    expected = quantize(values, parameters)
    stored: Any = executable(module)(values)
    dtype = expected.astype({"i8": "i1", "u8": "u1", "i16": "i2"}[storage]).dtype
    np.testing.assert_array_equal(np.asarray(stored).view(dtype), expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("group", sorted(_GROUPS.keys() & FALLBACKS.keys()))
def test_fallback(mlir: Mlir, group: str):
    for case in _GROUPS[group][::3]:
        module = converted(case, "on")
        (entry,) = cast("ArrayAttr[DictionaryAttr]", module.attributes["tfl.fallback"])
        assert entry.data["op"] == StringAttr(f"tfl.{case.op.lower()}")
        assert isinstance(validated(mlir, module), Accepted)
        (computed,) = run(module, inputs_of(case))
        (result,) = case.results
        exact, is_defined = fallback_of(case)
        dtype = DTYPES[result.type]
        distance = np.abs(np.asarray(computed).view(dtype).astype(np.int64) - exact)
        assert distance[is_defined].max(initial=0) <= 1, case.name


def test_fallback_of_per_axis_values_with_a_constant(mlir: Mlir):
    per_axis = "tensor<3x2x!quant.uniform<i8:f32:1, {0.5:1, 0.25}>>"
    per_tensor = "tensor<3x2x!quant.uniform<i8:f32, 0.5>>"
    module = parse(
        f"""
        func.func @main(%x: {per_axis}) -> {per_tensor} {{
          %y = "tfl.pseudo_qconst"() <{{
            qtype = {per_tensor},
            value = dense<[[1, 2], [3, 4], [-5, 127]]> : tensor<3x2xi8>
          }}> : () -> {per_tensor}
          %0 = tfl.add(%y, %x) <{{fused_activation_function = "NONE"}}>
            : ({per_tensor}, {per_axis}) -> {per_tensor}
          func.return %0 : {per_tensor}
        }}
        """
    )
    ConvertTFLToTosaPass().apply(Context(), module)
    module.verify()
    assert isinstance(validated(mlir, module), Accepted)
    values = np.array([[1, 4], [-3, 8], [101, -128]], np.int8)
    expected = [[1, 4], [-1, 8], [95, 63]]
    result: Any = executable(module)(values)
    np.testing.assert_array_equal(np.asarray(result), expected)


# Whole models, with their state

PATHS = sorted(Path(pymicro_wakeword.__file__).parent.rglob("*.tflite"))


@pytest.mark.sampled(0)
@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_streaming_models(mlir: Mlir, path: Path):
    modules = [read_tflite(path.read_bytes()) for _ in range(2)]
    for module in modules:
        TFLVariablesToArgumentsPass().apply(Context(), module)
    ConvertTFLToTosaPass().apply(Context(), modules[0])
    modules[0].verify()
    answer = validated(mlir, modules[0])
    assert isinstance(answer, Accepted), answer
    step: Any = executable(modules[0])
    expected_step: Any = compile(modules[1], "main")
    random = np.random.default_rng(0)
    function = modules[0].body.block.first_op
    assert isinstance(function, FuncOp)
    shapes = [cast(TensorType, t).get_shape() for t in function.function_type.inputs]
    state = [np.zeros(shape, np.int8) for shape in shapes[1:]]
    for _ in range(20):
        values = random.integers(-128, 128, shapes[0]).astype(np.int8)
        results = [as_signless(array) for array in step(values, *state)]
        for result, expected in zip(
            results, expected_step(values, *state), strict=True
        ):
            np.testing.assert_array_equal(result, as_signless(np.asarray(expected)))
        state = results[1:]


PAGE = (Path(__file__).parents[5] / "docs" / "reference" / "tosa.md").read_text()


@pytest.mark.parametrize("passes", [VALIDATE, ",".join(TOSA_OPS.mlir_passes)])
def test_the_guide_has_the_passes_of_these_tests(passes: str):
    assert f"--pass-pipeline='builtin.module({passes})'" in PAGE


def test_the_guide_names_all_ops():
    section = PAGE.partition("## Ops")[2].partition("## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.M)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(op.name.removeprefix("tfl.") for op in LOWERINGS)


# What is refused


Q = "!quant.uniform<i8:f32, 0.5>"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            f"""func.func @f(%x: tensor<?x{Q}>) -> tensor<?x{Q}> {{
              func.return %x : tensor<?x{Q}>
            }}""",
            [
                "with a dynamic shape; set dynamic argument shapes with "
                "'tfl-infer-shapes{static=true}'"
            ],
        ),
        (
            """func.func @f() {
              %0 = "tfl.var_handle"() <{container = "", shared_name = "v"}>
                : () -> tensor<*x!tf_type.resource>
              func.return
            }""",
            ["'tfl.var_handle' op has state; run 'tfl-variables-to-arguments' first"],
        ),
        (
            """!t = tensor<4x!quant.uniform<f8E4M3FN:f32, 0.5>>
            func.func @f(%x: !t) -> !t {
              func.return %x : !t
            }""",
            [
                "'func.func' op has the type 'tensor<4x!quant.uniform<f8E4M3FN:f32, "
                "5.000000e-01>>': unsupported storage type 'f8E4M3FN', expected an "
                "integer type"
            ],
        ),
        *(
            (
                f"""func.func @f(%x: tensor<4x{type_}>) -> tensor<4x{type_}> {{
                  func.return %x : tensor<4x{type_}>
                }}""",
                [
                    f"'func.func' op has elements of type '{type_}', expected i1, "
                    "i8, i16, i32, i64, f16 or f32"
                ],
            )
            for type_ in (
                "!quant.none<f32>",
                "!quant.any<i8:f32>",
                "!quant.block_scaled<i4:f32:{}, scales = dense<5.000000e-01> : "
                "tensor<f16>>",
                "!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>",
            )
        ),
        (
            f"""func.func @f(%x: tensor<4x{Q}>) -> tensor<4x{Q}> {{
              %0 = "tfl.neg"(%x) : (tensor<4x{Q}>) -> tensor<4x{Q}>
              %1 = "tfl.relu"(%0) : (tensor<4x{Q}>) -> tensor<4x{Q}>
              %2 = "tfl.custom"(%1) <{{
                custom_code = "other", custom_option = #tfl<const_bytes : "0x">
              }}> : (tensor<4x{Q}>) -> tensor<4x{Q}>
              func.return %2 : tensor<4x{Q}>
            }}""",
            [
                "'tfl.neg' op on quantized values has no integer kernel",
                "'tfl.custom' op has no conversion to TOSA",
            ],
        ),
        (
            f"""func.func @f(%x: tensor<4x{Q}>) -> (tensor<4x{Q}>, tensor<4x{Q}>) {{
              %0 = "tfl.neg"(%x) : (tensor<4x{Q}>) -> tensor<4x{Q}>
              %1 = tfl.floor_div(%x, %x) : (tensor<4x{Q}>, tensor<4x{Q}>) -> tensor<4x{Q}>
              func.return %0, %1 : tensor<4x{Q}>, tensor<4x{Q}>
            }}""",
            [
                "'tfl.neg' op on quantized values has no integer kernel",
                "'tfl.floor_div' op has no integer kernel",
            ],
        ),
    ],
)
def test_each_op_without_form_is_named_once(body: str, words: Sequence[str]):
    module = parse(body)
    before = str(module)
    with pytest.raises(PassFailedException) as error:
        ConvertTFLToTosaPass(fallback="off").apply(Context(), module)
    lines = str(error.value).splitlines()
    assert str(module) == before
    for line, expected in zip(lines, words, strict=True):
        assert expected in line


def test_a_shift_that_tosa_does_not_have_is_refused():
    module = parse(
        """
        func.func @f(%x: tensor<1x1x1x1x!quant.uniform<i8:f32, 1.0e+9>>)
            -> tensor<1x1x1x1x!quant.uniform<i8:f32, 1.0e-9>> {
          %w = "tfl.pseudo_qconst"() <{
            qtype = tensor<1x1x1x1x!quant.uniform<i8<-127:127>:f32, 1.0>>,
            value = dense<1> : tensor<1x1x1x1xi8>
          }> : () -> tensor<1x1x1x1x!quant.uniform<i8<-127:127>:f32, 1.0>>
          %b = "tfl.no_value"() <{value}> : () -> none
          %0 = "tfl.conv_2d"(%x, %w, %b) <{
            dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32,
            fused_activation_function = "NONE", padding = "VALID",
            stride_h = 1 : i32, stride_w = 1 : i32
          }> : (tensor<1x1x1x1x!quant.uniform<i8:f32, 1.0e+9>>,
                tensor<1x1x1x1x!quant.uniform<i8<-127:127>:f32, 1.0>>, none)
              -> tensor<1x1x1x1x!quant.uniform<i8:f32, 1.0e-9>>
          func.return %0 : tensor<1x1x1x1x!quant.uniform<i8:f32, 1.0e-9>>
        }
        """
    )
    with pytest.raises(
        PassFailedException, match=r"has shifts from -29 .*, expected 2"
    ):
        ConvertTFLToTosaPass(fallback="off").apply(Context(), module)


@pytest.mark.parametrize(
    ("op", "operands", "wrong"),
    [
        ("gather", "%x, %i", "[[0], [4]]"),
        ("gather", "%x, %i", "[[-1], [2]]"),
        ("gather_nd", "%x, %i", "[[0], [4]]"),
        ("gather_nd", "%x, %i", "[[-1], [2]]"),
        ("embedding_lookup", "%i, %x", "[4, 2]"),
    ],
)
def test_constant_indices_out_of_range(op: str, operands: str, wrong: str):
    types = {"x": "tensor<4x3xf32>", "i": "tensor<2x1xi32>", "y": "tensor<2x1x3xf32>"}
    properties = ""
    if op == "gather":
        properties = "axis = 0 : i32, batch_dims = 0 : i32"
    else:
        types["y"] = "tensor<2x3xf32>"
    if op == "embedding_lookup":
        types["i"] = "tensor<2xi32>"
    names = [types[name.strip()[1]] for name in operands.split(",")]
    text = f"""func.func @f(%x: {types["x"]}) -> {types["y"]} {{
      %i = "tfl.pseudo_const"() <{{value = dense<{wrong}> : {types["i"]}}}>
          : () -> {types["i"]}
      %y = "tfl.{op}"({operands}) <{{{properties}}}>
          : ({", ".join(names)}) -> {types["y"]}
      return %y : {types["y"]}
    }}"""
    module = parse_module(text, "model.mlir")
    before = str(module)
    index = "4" if "4" in wrong else "-1"
    with pytest.raises(PassFailedException) as error:
        ConvertTFLToTosaPass().apply(Context(), module)
    assert str(module) == before
    assert str(error.value) == (
        f"model.mlir:4:7: error: 'tfl.{op}' op has index {index}, expected 0 to 3"
    )


OTHER_RESULT = "has a result with a scale or zero point other than that of the kernel"
NOT_FIXED = "has a result whose scale is not 2**-15, or a zero point"
LARGE_SCALE = "has an operand whose scale is 128 or more times that of its result"


@pytest.mark.parametrize(
    ("op", "types", "stored", "expected", "reason"),
    [
        # log(exp(0) / (exp(0) + exp(-0.5))) is -0.474, log(exp(-0.5) / ...) is -0.974.
        ("log_softmax", ("i8", "0.5", "i8", "0.5"), [0, -1], [-1, -2], OTHER_RESULT),
        # 0.3775 and 0.6225 in units of 1/128.
        ("softmax", ("i8", "0.5", "i8", "0.0078125"), [-1, 0], [48, 80], OTHER_RESULT),
        (
            "l2_normalization",
            ("i8", "0.5", "i8", "0.015625"),
            [3, 4],
            [38, 51],
            OTHER_RESULT,
        ),
        # 1 / (1 + exp(-1)) is 0.7310586, 1 / (1 + exp(1)) is 0.2689414.
        (
            "logistic",
            ("i16", "0.001", "i16", "0.0001"),
            [1000, -1000],
            [7311, 2689],
            NOT_FIXED,
        ),
        (
            "tanh",
            ("i16", "0.001", "i16", "0.0001"),
            [500, -2000],
            [4621, -9640],
            NOT_FIXED,
        ),
        ("hard_swish", ("i8", "200.0", "i8", "1.0"), [0, -1], [0, 0], LARGE_SCALE),
        ("hard_swish", ("i8", "200.0", "i8", "1.0"), [1, 2], [127, 127], LARGE_SCALE),
        (
            "reverse_v2",
            ("i8", "0.5", "i8", "0.25"),
            [3, -4],
            [-8, 6],
            "has operands whose scale or zero point is not that of its result",
        ),
    ],
)
def test_results_beside_the_parameters_of_the_kernel(
    mlir: Mlir,
    op: str,
    types: Sequence[str],
    stored: Sequence[int],
    expected: Sequence[int],
    reason: str,
):
    x, y = (
        f"tensor<1x2x!quant.uniform<{storage}:f32, {scale}>>"
        for storage, scale in (types[:2], types[2:])
    )
    properties = {
        "softmax": "beta = 1.0 : f32",
        "l2_normalization": 'fused_activation_function = "NONE"',
    }.get(op, "")
    is_reverse = op == "reverse_v2"
    module = parse(f"""func.func @main(%x: {x}) -> {y} {{
      %a = "tfl.pseudo_const"() <{{value = dense<1> : tensor<1xi32>}}>
          : () -> tensor<1xi32>
      %y = "tfl.{op}"(%x{", %a" * is_reverse}) <{{{properties}}}>
          : ({x}{", tensor<1xi32>" * is_reverse}) -> {y}
      func.return %y : {y}
    }}""")
    ConvertTFLToTosaPass().apply(Context(), module)
    module.verify()
    (entry,) = cast("ArrayAttr[DictionaryAttr]", module.attributes["tfl.fallback"])
    assert cast(StringAttr, entry.data["reason"]).data == reason
    assert isinstance(validated(mlir, module), Accepted)
    dtype = np.int8 if types[0] == "i8" else np.int16
    (result,) = run(module, [np.array([stored], dtype)])
    assert np.asarray(result).tolist() == [expected]


@pytest.mark.parametrize(
    ("result", "is_defined"), [("i32", False), ("i8", False), ("i32", True)]
)
def test_quantize_beyond_32_bits(mlir: Mlir, result: str, is_defined: bool):
    """The multiplication of TOSA is defined for results of 32 bits only."""
    scale = 1.0 if is_defined else 0.9
    types = "i32:f32, 1.0", f"{result}:f32, {scale}"
    x, y = (f"tensor<3x!quant.uniform<{type_}>>" for type_ in types)
    module = parse(f"""func.func @main(%x: {x}) -> {y} {{
      %y = "tfl.quantize"(%x) {{qtype = {y}}} : ({x}) -> {y}
      func.return %y : {y}
    }}""")
    if not is_defined:
        with pytest.raises(
            PassFailedException, match="values that exceed 32 bits before"
        ):
            ConvertTFLToTosaPass().apply(Context(), module)
        return
    ConvertTFLToTosaPass().apply(Context(), module)
    values = [2**31 - 1, -(2**31), 3]
    (found,) = run(module, [np.array(values, np.int32)])
    assert np.asarray(found).tolist() == values


SVDF_WITH_LARGE_SUMS = """
!x = tensor<1x1x!quant.uniform<i8:f32, 1.0>>
!state = tensor<1x4x!quant.uniform<i16:f32, 1.0>>
!y = tensor<1x1x!quant.uniform<i8:f32, 2.5e7>>
func.func @main(%x: !x, %w: !x, %time: !state, %s: !state) -> !y {
  %b = "tfl.no_value"() <{value}> : () -> none
  %y, %next = "tfl.svdf"(%x, %w, %time, %b, %s) <{rank = 1 : i32,
      fused_activation_function = "NONE"}> : (!x, !x, !state, none, !state) -> (!y, !state)
  func.return %y : !y
}"""


def test_svdf_accumulates_in_32_bits(mlir: Mlir):
    module = parse(SVDF_WITH_LARGE_SUMS)
    large = np.full((1, 4), 32767, np.int16)
    one = np.ones((1, 1), np.int8)
    values = one, one, large, large
    (expected,) = run_function(module, "main", *values)
    # 3 * 32767**2 + 32767 - 2**32, divided by the scale of the result.
    np.testing.assert_array_equal(expected, [[-43]])
    ConvertTFLToTosaPass().apply(multiverse_context(), module)
    (computed,) = run(module, values)
    np.testing.assert_array_equal(as_signless(computed), [[-43]])
