"""Ops of TensorFlow Lite: against its reference kernels, and against NumPy."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pymicro_wakeword
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, NameLoc
from xdsl.interpreter import Interpreter, PythonValues
from xdsl.ir import Operation
from xdsl.utils.exceptions import InterpretationError

from tests.unit.frontends.tflite.files.models import DTYPES, model_of
from tests.unit.frontends.tflite.formulas.cases import Case, Tensor, cases
from tests.unit.machines.numpy.running import parse, run, run_body, same_bits
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tflite.files.model import (
    Model,
    Operator,
    Subgraph,
    TensorQuantization,
)
from xdsl_quant.frontends.tflite.files.model import Tensor as FileTensor
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.machines.numpy import (
    StatefulModel,
    register_implementations,
    run_function,
)
from xdsl_quant.numerics import dequantize, quantize
from xdsl_quant.runtime.loading import parse_module

# Quantized ops, against the reference kernels


def floor_divide(x: Any, y: Any) -> Any:
    return np.floor(x / y)


_EXPRESSED: dict[str, Callable[..., Any]] = {
    "NEG": np.negative,
    "FLOOR_DIV": floor_divide,
    "FLOOR_MOD": np.mod,
}
"""Ops whose kernels ignore zero points or scales."""


def values_of(case: Case) -> list[NDArray[Any]]:
    return [
        operand.array.astype(DTYPES[operand.type])
        for operand in case.operands
        if operand and not operand.is_constant and not operand.is_variable
    ]


def expressed_of(tensor: Tensor | None) -> NDArray[Any]:
    assert tensor is not None
    return dequantize(tensor.array.astype(DTYPES[tensor.type]), tensor.parameters)


def expected_of(case: Case) -> list[NDArray[Any]]:
    if (function := _EXPRESSED.get(case.op)) is None:
        return [result.array.astype(DTYPES[result.type]) for result in case.results]
    with np.errstate(all="ignore"):
        values = function(*map(expressed_of, case.operands))
    return [quantize(values, case.results[0].parameters)]


@pytest.mark.sampled
@pytest.mark.parametrize("op", sorted({case.op for case in cases()}))
def test_reference_kernels(op: str, request: pytest.FixtureRequest):
    step = 1 if request.config.getoption("--all-cases") else 3
    for case in [case for case in cases() if case.op == op][::step]:
        module = read_tflite(write_model(model_of(case)))
        results = run_function(module, "main", *values_of(case))
        for result, expected in zip(results, expected_of(case), strict=True):
            assert same_bits(result, expected), case.name


# Whole models, against the runtime

PATHS = sorted(Path(pymicro_wakeword.__file__).parent.rglob("*.tflite"))


def reference(content: bytes) -> Any:
    runtime = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = runtime.Interpreter(
        model_content=content,
        experimental_op_resolver_type=runtime.OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
        num_threads=1,
    )
    interpreter.allocate_tensors()
    return interpreter


class Recorder(Interpreter.Listener):
    """The results of all ops by the names of the tensors that they are in a file."""

    def __init__(self):
        self.results: defaultdict[str, list[Any]] = defaultdict(list)

    def did_interpret_op(self, op: Operation, results: PythonValues) -> None:
        if isinstance(op.location, NameLoc) and results:
            self.results[op.location.desc.data].append(results[0])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_streaming_models(path: Path):
    content = path.read_bytes()
    expected = reference(content)
    recorder = Recorder()
    module = read_tflite(content)
    interpreter = Interpreter(module, listeners=(recorder,))
    register_implementations(interpreter)
    model = StatefulModel(module)
    details = expected.get_tensor_details()
    (argument,), (result,) = expected.get_input_details(), expected.get_output_details()
    random = np.random.default_rng(0)
    count = 0
    for _ in range(20):
        values = random.integers(-128, 128, tuple(argument["shape"])).astype(np.int8)
        expected.set_tensor(argument["index"], values)
        expected.invoke()
        outputs = model.step(values)
        assert same_bits(outputs[0], expected.get_tensor(result["index"]))
        recorder.results.clear()
        assert same_bits(interpreter.call_op("main", (values,))[0], outputs[0])
        for detail in details:
            computed = recorder.results.get(detail["name"], [])
            # A constant may be two, for operands of different kinds.
            for array in computed:
                if isinstance(array, np.ndarray):
                    assert same_bits(array, expected.get_tensor(detail["index"]))
                    count += array.size
    assert count > 100_000


SCALE = np.float32(0.05)


def quantization(scale: np.float32, zero_point: int) -> TensorQuantization:
    return TensorQuantization(np.array([scale]), np.array([zero_point], np.int64), 0)


def unsigned(name: str, shape: list[int], data: Any = None) -> FileTensor:
    parameters = quantization(SCALE, 120)
    return FileTensor(name, "UINT8", shape, data=data, quantization=parameters)


def integers(values: list[int]) -> FileTensor:
    data = np.array(values, np.int32).view(np.uint8)
    return FileTensor("constant", "INT32", [len(values)], data=data)


def bias(values: list[int]) -> FileTensor:
    return replace(integers(values), quantization=quantization(SCALE * SCALE, 0))


_STRIDES = {"padding": 0, "stride_h": 2, "stride_w": 1, "fused_activation_function": 1}
_DILATIONS = {"dilation_h_factor": 1, "dilation_w_factor": 2}
_WEIGHTS = np.random.default_rng(6).integers(0, 256, 3 * 3 * 3 * 4).astype(np.uint8)
_CENTERS = {"align_corners": False, "half_pixel_centers": True}


@pytest.mark.parametrize(
    ("code", "options", "operands", "shape"),
    [
        (
            "CONV_2D",
            {**_STRIDES, **_DILATIONS},
            [unsigned("w", [3, 3, 3, 4], _WEIGHTS), bias([90, -900, 0])],
            [1, 3, 7, 3],
        ),
        (
            "DEPTHWISE_CONV_2D",
            {**_STRIDES, **_DILATIONS, "depth_multiplier": 3},
            [unsigned("w", [1, 3, 3, 12], _WEIGHTS), bias([9, -9, 300] * 4)],
            [1, 3, 7, 12],
        ),
        ("RESIZE_BILINEAR", _CENTERS, [integers([4, 9])], [1, 4, 9, 4]),
        ("HARD_SWISH", {}, [], [1, 6, 7, 4]),
    ],
)
def test_unsigned_stored_values(
    code: str, options: dict[str, Any], operands: list[FileTensor], shape: list[int]
):
    tensors = [unsigned("x", [1, 6, 7, 4]), *operands, unsigned("y", shape)]
    result = len(tensors) - 1
    operator = Operator(code, [*range(result)], [result], options)
    content = write_model(Model([Subgraph("main", tensors, [0], [result], [operator])]))
    values = np.random.default_rng(7).integers(0, 256, (1, 6, 7, 4)).astype(np.uint8)
    expected = reference(content)
    expected.set_tensor(expected.get_input_details()[0]["index"], values)
    expected.invoke()
    (computed,) = run_function(read_tflite(content), "main", values)
    index = expected.get_output_details()[0]["index"]
    assert same_bits(computed, expected.get_tensor(index))


def test_state_is_kept():
    content = PATHS[0].read_bytes()
    random = np.random.default_rng(1)
    frames = random.integers(-128, 128, (2, 1, 3, 40)).astype(np.int8)
    models = [StatefulModel(read_tflite(content)) for _ in range(2)]
    first = [models[0].step(frames[0]) for _ in range(20)]
    fresh = models[1].step(frames[0])
    assert same_bits(first[0][0], fresh[0])


# State

COUNTER = """
func.func @main(%step: tensor<2xi32>) -> tensor<2xi32> {
  "tfl.call_once"() <{session_init_function = "init"}> : () -> ()
  %h = "tfl.var_handle"() <{container = "", shared_name = "sum"}>
    : () -> tensor<*x!tf_type.resource>
  %0 = "tfl.read_variable"(%h) : (tensor<*x!tf_type.resource>) -> tensor<2xi32>
  %1 = tfl.add %0, %step {fused_activation_function = "NONE"} : tensor<2xi32>
  "tfl.assign_variable"(%h, %1)
    : (tensor<*x!tf_type.resource>, tensor<2xi32>) -> ()
  %2 = "tfl.read_variable"(%h) : (tensor<*x!tf_type.resource>) -> tensor<2xi32>
  return %2 : tensor<2xi32>
}
func.func private @init() {
  %h = "tfl.var_handle"() <{container = "", shared_name = "sum"}>
    : () -> tensor<*x!tf_type.resource>
  %0 = "tfl.pseudo_const"() <{value = dense<[10, 20]> : tensor<2xi32>}>
    : () -> tensor<2xi32>
  "tfl.assign_variable"(%h, %0)
    : (tensor<*x!tf_type.resource>, tensor<2xi32>) -> ()
  return
}"""


def test_variables():
    module = parse(COUNTER)[1]
    model = StatefulModel(module)
    (result,) = model.step([1, 2])
    assert result.tolist() == [11, 22]
    # Nobody else has the array of the variable.
    result[:] = 0
    assert model.step([1, 2])[0].tolist() == [12, 24]
    assert StatefulModel(module).step([0, 0])[0].tolist() == [10, 20]
    assert run_function(module, "main", [0, 1])[0].tolist() == [10, 21]


def test_errors_keep_the_state():
    model = StatefulModel(COUNTER)
    model.step([1, 1])
    with pytest.raises(ValueError, match="shape"):
        model.step([1])
    assert model.step([0, 0])[0].tolist() == [11, 21]


def test_variable_without_value():
    text = COUNTER.replace('"tfl.call_once"() <{session_init_function = "init"}>', "")
    text = text.replace(": () -> ()\n  %h", "%h", 1)
    with pytest.raises(
        InterpretationError,
        match=r"'tfl.read_variable' op reads variable 'sum' before it is assigned",
    ):
        StatefulModel(text).step([1, 1])


def test_svdf_of_floats():
    text = """
func.func @f(%x: tensor<1x2xf32>, %f: tensor<2x2xf32>, %t: tensor<2x3xf32>)
    -> tensor<1x2xf32> {
  %none = "tfl.no_value"() <{value}> : () -> none
  %s = "tfl.pseudo_const"() <{value = dense<0.0> : tensor<1x6xf32>}>
    : () -> tensor<1x6xf32>
  %0 = "tfl.svdf"(%x, %f, %t, %none, %s) <{
    fused_activation_function = "NONE", rank = 1 : i32
  }> : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2x3xf32>, none, tensor<1x6xf32>)
    -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}"""
    random = np.random.default_rng(0)
    features, time = (random.standard_normal(s).astype("f") for s in ((2, 2), (2, 3)))
    frames = random.standard_normal((5, 1, 2)).astype(np.float32)
    model = StatefulModel(text)
    results = [model.step(frame, features, time)[0] for frame in frames]
    columns = np.concatenate([np.zeros((2, 2), np.float32), frames[:, 0] @ features.T])
    for index, result in enumerate(results):
        expected = (columns[index : index + 3].T * time).sum(axis=1)
        np.testing.assert_allclose(result[0], expected, rtol=1e-5, atol=1e-6)


# Floats and plain integers, against NumPy

X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32) * 3
Y = np.random.default_rng(1).standard_normal((3, 1)).astype(np.float32)
ACTIVATION = 'fused_activation_function = "NONE"'


def run_op(op: str, properties: str, types: str, *arrays: Any) -> NDArray[Any]:
    """The result of an op, given the types of operands and of the result."""
    operand_types, result_type = types.split(" -> ")
    names = ", ".join(f"%a{i}" for i in range(len(arrays)))
    text = (
        f'%r0 = "tfl.{op}"({names}) <{{{properties}}}> : ({operand_types}) '
        f"-> {result_type}"
    )
    pairs = zip(arrays, re.split(", (?=tensor)", operand_types), strict=True)
    return run_body(text, result_type, *pairs)[0]


def logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any) -> Any:
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


FUNCTIONS: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("abs", "", np.abs),
    ("neg", "", np.negative),
    ("sqrt", "", np.sqrt),
    ("rsqrt", "", lambda x: 1 / np.sqrt(x)),
    ("exp", "", np.exp),
    ("log", "", np.log),
    ("sin", "", np.sin),
    ("cos", "", np.cos),
    ("square", "", np.square),
    ("floor", "", np.floor),
    ("ceil", "", np.ceil),
    ("round", "", np.rint),
    ("tanh", "", np.tanh),
    ("logistic", "", logistic),
    ("relu", "", lambda x: np.maximum(x, 0)),
    ("relu6", "", lambda x: np.clip(x, 0, 6)),
    ("relu_n1_to_1", "", lambda x: np.clip(x, -1, 1)),
    ("relu_0_to_1", "", lambda x: np.clip(x, 0, 1)),
    ("leaky_relu", "alpha = 0.5 : f32", lambda x: np.maximum(x, x / 2)),
    ("elu", "", lambda x: np.maximum(x, 0) + np.exp(np.minimum(x, 0)) - 1),
    ("hard_swish", "", lambda x: x * np.clip(x + 3, 0, 6) / 6),
    (
        "gelu",
        "approximate = true",
        lambda x: x * logistic(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)),
    ),
    ("softmax", "beta = 1.0 : f32", softmax),
    ("softmax", "beta = 0.5 : f32", lambda x: softmax(x / 2)),
    ("log_softmax", "", lambda x: np.log(softmax(x))),
    (
        "l2_normalization",
        ACTIVATION,
        lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True),
    ),
]


@pytest.mark.parametrize(("op", "properties", "function"), FUNCTIONS)
def test_float_functions(op: str, properties: str, function: Any):
    values = np.abs(X) if op in ("sqrt", "rsqrt", "log") else X
    result = run_op(op, properties, "tensor<2x3x4xf32> -> tensor<2x3x4xf32>", values)
    expected = function(values.astype(np.float64))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    assert result.dtype == np.float32


FUNCTIONS_OF_TWO: list[tuple[str, str, Callable[[Any, Any], Any], str]] = [
    ("add", ACTIVATION, np.add, "f32"),
    ("sub", ACTIVATION, np.subtract, "f32"),
    ("mul", ACTIVATION, np.multiply, "f32"),
    ("div", ACTIVATION, np.divide, "f32"),
    ("floor_div", "", floor_divide, "f32"),
    ("floor_mod", "", np.mod, "f32"),
    ("squared_difference", "", lambda x, y: (x - y) ** 2, "f32"),
    ("maximum", "", np.maximum, "f32"),
    ("minimum", "", np.minimum, "f32"),
    ("equal", "", np.equal, "i1"),
    ("not_equal", "", np.not_equal, "i1"),
    ("greater", "", np.greater, "i1"),
    ("greater_equal", "", np.greater_equal, "i1"),
    ("less", "", np.less, "i1"),
    ("less_equal", "", np.less_equal, "i1"),
]


@pytest.mark.parametrize(
    ("op", "properties", "function", "element_type"), FUNCTIONS_OF_TWO
)
def test_float_functions_of_two(
    op: str, properties: str, function: Any, element_type: str
):
    types = f"tensor<2x3x4xf32>, tensor<3x1xf32> -> tensor<2x3x4x{element_type}>"
    result = run_op(op, properties, types, X, Y)
    assert same_bits(result, function(X, Y))


def test_activations():
    types = "tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>"
    values, zeros = np.array([-7, -0.5, 0.5, 7], np.float32), np.zeros(4, np.float32)
    for name, expected in (
        ("RELU", [0, 0, 0.5, 7]),
        ("RELU6", [0, 0, 0.5, 6]),
        ("RELU_N1_TO_1", [-1, -0.5, 0.5, 1]),
        ("SIGN_BIT", [1, 1, 0, 0]),
        ("TANH", np.tanh(values).tolist()),
    ):
        properties = f'fused_activation_function = "{name}"'
        assert run_op("add", properties, types, values, zeros).tolist() == expected


@pytest.mark.parametrize(
    ("op", "properties", "expected"),
    [
        ("add", ACTIVATION, [-2147483648, -4, 10]),
        ("mul", ACTIVATION, [2147483647, -21, 21]),
        ("div", ACTIVATION, [2147483647, -2, 2]),
        ("floor_div", "", [2147483647, -3, 2]),
        ("floor_mod", "", [0, 2, 1]),
        ("maximum", "", [2147483647, 3, 7]),
    ],
)
def test_integers(op: str, properties: str, expected: list[int]):
    types = "tensor<3xi32>, tensor<3xi32> -> tensor<3xi32>"
    result = run_op(op, properties, types, [2147483647, -7, 7], [1, 3, 3])
    assert result.tolist() == expected


def test_power():
    types = "tensor<3xi32>, tensor<3xi32> -> tensor<3xi32>"
    assert run_op("pow", "", types, [2, -3, 5], [10, 3, 0]).tolist() == [1024, -27, 1]
    with pytest.raises(InterpretationError, match=r"'tfl\.pow' op cannot be computed"):
        run_op("pow", "", types, [2, -3, 5], [-1, 3, 0])


@pytest.mark.parametrize("op", ["div", "floor_div", "floor_mod"])
def test_division_by_zero(op: str):
    types = "tensor<1xi32>, tensor<1xi32> -> tensor<1xi32>"
    properties = ACTIVATION if op == "div" else ""
    with pytest.raises(
        InterpretationError,
        match=f"'tfl.{op}' op cannot be computed: division by zero",
    ):
        run_op(op, properties, types, [1], [0])


def test_logic():
    types = "tensor<4xi1>, tensor<4xi1> -> tensor<4xi1>"
    lhs, rhs = [False, False, True, True], [False, True, False, True]
    assert run_op("logical_and", "", types, lhs, rhs).tolist() == [0, 0, 0, 1]
    assert run_op("logical_or", "", types, lhs, rhs).tolist() == [0, 1, 1, 1]
    types = "tensor<4xi1> -> tensor<4xi1>"
    assert run_op("logical_not", "", types, lhs).tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("types", "values", "expected"),
    [
        ("tensor<3xf32> -> tensor<3xi32>", [-1.9, 1.9, 300.0], [-1, 1, 300]),
        ("tensor<3xi32> -> tensor<3xi8>", [-1, 300, 128], [-1, 44, -128]),
        ("tensor<3xi32> -> tensor<3xi1>", [0, 256, -1], [0, 1, 1]),
        ("tensor<2xi1> -> tensor<2xi32>", [False, True], [0, 1]),
        ("tensor<3xi8> -> tensor<3xf32>", [-128, 0, 127], [-128, 0, 127]),
        ("tensor<3xf32> -> tensor<3xi1>", [0.0, 0.5, -1.0], [0, 1, 1]),
    ],
)
def test_casts(types: str, values: list[Any], expected: list[Any]):
    assert run_op("cast", "", types, values).tolist() == expected


@pytest.mark.parametrize(
    ("op", "function", "rtol"),
    [
        ("mean", np.mean, 1e-6),
        ("sum", np.sum, 1e-6),
        ("reduce_prod", np.prod, 1e-5),
        ("reduce_max", np.max, 0),
        ("reduce_min", np.min, 0),
    ],
)
def test_float_reductions(op: str, function: Any, rtol: float):
    types = "tensor<2x3x4xf32>, tensor<2xi32> -> tensor<1x3x1xf32>"
    result = run_op(op, "keep_dims = true", types, X, [0, -1])
    expected = function(X.astype(np.float64), axis=(0, 2), keepdims=True)
    np.testing.assert_allclose(result, expected, rtol=rtol)
    types = "tensor<2x3x4xf32>, tensor<2xi32> -> tensor<3xf32>"
    assert same_bits(run_op(op, "keep_dims = false", types, X, [0, -1]), result.ravel())


def test_integer_mean():
    types = "tensor<4xi32>, tensor<1xi32> -> tensor<i32>"
    assert run_op("mean", "keep_dims = false", types, [-1, -2, -2, -2], [0]) == -1


WINDOW = f'{ACTIVATION}, padding = "SAME", stride_h = 1 : i32, stride_w = 2 : i32'
DILATION = "dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32"
IMAGE = np.random.default_rng(2).standard_normal((1, 4, 5, 2)).astype(np.float32)
FILTER = np.random.default_rng(3).standard_normal((3, 3, 3, 2)).astype(np.float32)


def places(fill: float) -> Any:
    """The 3x3 elements below each place with strides (1, 2), as rows of positions."""
    padded = np.pad(IMAGE[0], ((1, 1), (1, 1), (0, 0)), constant_values=fill)
    return np.array(
        [[padded[y : y + 3, 2 * x : 2 * x + 3] for x in range(3)] for y in range(4)]
    )


def test_float_convolutions():
    bias = np.array([1, 2, 3], np.float32)
    result = run_op(
        "conv_2d",
        f"{WINDOW}, {DILATION}",
        "tensor<1x4x5x2xf32>, tensor<3x3x3x2xf32>, tensor<3xf32> -> tensor<1x4x3x3xf32>",
        IMAGE,
        FILTER,
        bias,
    )
    expected = np.einsum("yxijc,oijc->yxo", places(0), FILTER) + bias
    np.testing.assert_allclose(result[0], expected, rtol=1e-4, atol=1e-5)
    result = run_op(
        "depthwise_conv_2d",
        f"{WINDOW}, {DILATION}, depth_multiplier = 1 : i32",
        "tensor<1x4x5x2xf32>, tensor<1x3x3x2xf32>, tensor<2xf32> -> tensor<1x4x3x2xf32>",
        IMAGE,
        FILTER[:1],
        bias[:2],
    )
    expected = np.einsum("yxijc,ijc->yxc", places(0), FILTER[0]) + bias[:2]
    np.testing.assert_allclose(result[0], expected, rtol=1e-4, atol=1e-5)


def test_float_transposed_convolution():
    # It is the gradient: <conv(x), y> = <x, transposed(y)>.
    weights = FILTER.transpose(3, 1, 2, 0)
    y = np.random.default_rng(4).standard_normal((1, 4, 3, 3)).astype(np.float32)
    result = run_op(
        "transpose_conv",
        WINDOW,
        "tensor<4xi32>, tensor<2x3x3x3xf32>, tensor<1x4x3x3xf32>, tensor<2xf32> "
        "-> tensor<1x4x5x2xf32>",
        [1, 4, 5, 2],
        np.ascontiguousarray(weights),
        y,
        np.zeros(2, np.float32),
    )
    sums = np.einsum("yxijc,oijc->yxo", places(0), FILTER)
    np.testing.assert_allclose((sums * y[0]).sum(), (IMAGE * result).sum(), rtol=1e-4)


def test_float_pools():
    properties = f"{WINDOW}, filter_height = 3 : i32, filter_width = 3 : i32"
    types = "tensor<1x4x5x2xf32> -> tensor<1x4x3x2xf32>"
    result = run_op("max_pool_2d", properties, types, IMAGE)
    assert same_bits(result[0], places(-np.inf).max(axis=(2, 3)))
    result = run_op("average_pool_2d", properties, types, IMAGE)
    expected = np.nanmean(places(np.nan), axis=(2, 3))
    np.testing.assert_allclose(result[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "expected"),
    # Ties are rounded away from zero: means are -2.5, 2.5, -1.75 and 1.25.
    [("max_pool_2d", [-1, 4, 3, 2]), ("average_pool_2d", [-3, 3, -2, 1])],
)
def test_pools_of_plain_integers(op: str, expected: list[int]):
    windows = [[-1, -4, -1, -4], [1, 4, 1, 4], [3, -10, 0, 0], [0, 2, 1, 2]]
    image = np.array(windows, np.int8).reshape(4, 2, 2).transpose(1, 0, 2)
    properties = f"{ACTIVATION}, filter_height = 2 : i32, filter_width = 2 : i32, "
    properties += 'padding = "VALID", stride_h = 2 : i32, stride_w = 2 : i32'
    types = "tensor<1x2x8x1xi8> -> tensor<1x1x4x1xi8>"
    result = run_op(op, properties, types, image.reshape(1, 2, 8, 1))
    assert result.ravel().tolist() == expected


def test_float_products():
    weights = np.random.default_rng(5).standard_normal((5, 4)).astype(np.float32)
    bias = np.arange(5).astype(np.float32)
    for keep, shape in (("true", "2x3x5"), ("false", "6x5")):
        result = run_op(
            "fully_connected",
            f'{ACTIVATION}, keep_num_dims = {keep}, weights_format = "DEFAULT"',
            f"tensor<2x3x4xf32>, tensor<5x4xf32>, tensor<5xf32> -> tensor<{shape}xf32>",
            X,
            weights,
            bias,
        )
        expected = (X @ weights.T + bias).reshape(result.shape)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    result = run_op(
        "batch_matmul",
        "adj_x = true, adj_y = false",
        "tensor<2x3x4xf32>, tensor<3x5xf32> -> tensor<2x4x5xf32>",
        X,
        np.ascontiguousarray(weights[:, :3].T),
    )
    expected = X.transpose(0, 2, 1) @ weights[:, :3].T
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_float_resizing():
    image = np.array([0, 1, 2, 3], np.float32).reshape(1, 2, 2, 1)
    types = "tensor<1x2x2x1xf32>, tensor<2xi32> -> tensor<1x3x3x1xf32>"
    properties = "align_corners = true, half_pixel_centers = false"
    result = run_op("resize_bilinear", properties, types, image, [3, 3])
    assert result.ravel().tolist() == [0, 0.5, 1, 1, 1.5, 2, 2, 2.5, 3]
    properties = "align_corners = false, half_pixel_centers = true"
    result = run_op("resize_nearest_neighbor", properties, types, image, [3, 3])
    assert result.ravel().tolist() == [0, 1, 1, 2, 3, 3, 2, 3, 3]


def test_choosing():
    types = "tensor<2xi1>, tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>"
    x, y = X[0, :2, :3], X[1, :2, :3]
    result = run_op("select", "", types, [True, False], x, y)
    assert same_bits(result, np.stack([x[0], y[1]]))
    types = "tensor<3xi1>, tensor<2x3xf32>, tensor<2x1xf32> -> tensor<2x3xf32>"
    result = run_op("select_v2", "", types, [True, False, True], x, y[:, :1])
    assert same_bits(result, np.where([True, False, True], x, y[:, :1]))


def test_sorting():
    values, indices = run(
        """
func.func @f(%x: tensor<5xf32>) -> (tensor<3xf32>, tensor<3xi32>) {
  %k = "tfl.pseudo_const"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>
  %0:2 = "tfl.topk_v2"(%x, %k)
    : (tensor<5xf32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<3xi32>
}""",
        [0.25, 0.5, -1.0, 0.5, 0.0],
    )
    assert values.tolist() == [0.5, 0.5, 0.25]
    assert indices.tolist() == [1, 3, 0]


def test_making_tensors():
    types = "tensor<i32>, tensor<i32>, tensor<i32> -> tensor<?xi32>"
    assert run_op("range", "", types, 7, 0, -3).tolist() == [7, 4, 1]
    types = "tensor<2xi32>, tensor<f32> -> tensor<?x?xf32>"
    assert run_op("fill", "", types, [1, 2], 0.5).tolist() == [[0.5, 0.5]]
    result = run_op("shape", "", "tensor<?x4xf32> -> tensor<2xi64>", X[0])
    assert same_bits(result, np.array([3, 4]))


def test_wrong_shape():
    types = "tensor<2xi32>, tensor<f32> -> tensor<1x1xf32>"
    with pytest.raises(
        InterpretationError,
        match=r"'tfl.fill' op has a value of shape '1x2' for the type 'tensor<1x1xf32>'",
    ):
        run_op("fill", "", types, [1, 2], 0.5)


def test_index_out_of_bounds():
    types = "tensor<3xf32>, tensor<1xi32> -> tensor<1xf32>"
    for index in (3, -1):
        with pytest.raises(
            InterpretationError,
            match=f"'tfl.gather' op has index {index}, expected 0 to 2",
        ):
            run_op("gather", "axis = 0 : i32", types, [1.0, 2.0, 3.0], [index])


def test_control_flow():
    text = """
func.func @f(%x: tensor<i32>, %limit: tensor<i32>) -> (tensor<i32>, tensor<i32>) {
  %r = "tfl.while"(%x) ({
  ^bb0(%a: tensor<i32>):
    %c = tfl.less(%a, %limit) : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "tfl.yield"(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%b: tensor<i32>):
    %d = tfl.add %b, %b {fused_activation_function = "NONE"} : tensor<i32>
    "tfl.yield"(%d) : (tensor<i32>) -> ()
  }) : (tensor<i32>) -> tensor<i32>
  %c = tfl.less(%x, %limit) : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %s = "tfl.if"(%c) ({
    "tfl.yield"(%x) : (tensor<i32>) -> ()
  }, {
    "tfl.yield"(%limit) : (tensor<i32>) -> ()
  }) : (tensor<i1>) -> tensor<i32>
  return %r, %s : tensor<i32>, tensor<i32>
}"""
    assert [int(x) for x in run(text, 3, 100)] == [192, 3]
    assert [int(x) for x in run(text, 300, 100)] == [300, 100]


# Without an integer kernel

I8 = "!quant.uniform<i8:f32, 0.5:3>"
PER_AXIS = "!quant.uniform<i8:f32:1, {0.5:3, 0.25:-7}>"
STORED = np.arange(-128, 128).astype(np.int8)


def expressed(stored: Any, scale: Any = 0.5, zero_point: Any = 3) -> Any:
    return ((stored.astype(np.int64) - zero_point) * scale).astype(np.float32)


def stored(values: Any, scale: Any = 0.5, zero_point: Any = 3) -> Any:
    return np.clip(np.rint(values / scale) + zero_point, -128, 127).astype(np.int8)


def test_quantized_division():
    types = f"tensor<256x{I8}>, tensor<1x{I8}> -> tensor<256x{I8}>"
    result = run_op("div", ACTIVATION, types, STORED, [8])
    assert same_bits(result, stored(expressed(STORED) / np.float32(2.5)))


def test_activations_with_scales_per_axis():
    values = STORED.reshape(-1, 2)
    scales = np.array([0.5, 0.25]), np.array([3, -7])
    types = f"tensor<128x2x{PER_AXIS}> -> tensor<128x2x{I8}>"
    result = run_op("relu", "", types, values)
    assert same_bits(result, stored(np.maximum(expressed(values, *scales), 0)))
    types = f"tensor<128x2xf32> -> tensor<128x2x{PER_AXIS}>"
    floats = np.linspace(-20, 20, 256, dtype=np.float32).reshape(-1, 2)
    properties = f"qtype = tensor<128x2x{PER_AXIS}>"
    result = run_op("quantize", properties, types, floats)
    assert same_bits(result, stored(floats, *scales))
    types = f"tensor<128x2x{PER_AXIS}> -> tensor<128x2xf32>"
    assert same_bits(
        run_op("dequantize", "", types, values), expressed(values, *scales)
    )


def test_weights_beside_floats():
    weights = STORED[:8].reshape(2, 4)
    result = run_op(
        "fully_connected",
        f'{ACTIVATION}, keep_num_dims = false, weights_format = "DEFAULT"',
        f"tensor<3x4xf32>, tensor<2x4x{I8}>, tensor<2xf32> -> tensor<3x2xf32>",
        X[0],
        weights,
        np.ones(2, np.float32),
    )
    expected = X[0] @ expressed(weights).T + 1
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_weights_with_zero_points_per_axis():
    weights = np.array([[1, 2], [3, 4]], np.int8)
    kernel = "!quant.uniform<i8:f32:0, {0.5:1, 0.25:-2}>"
    result = run_op(
        "fully_connected",
        f'{ACTIVATION}, keep_num_dims = false, weights_format = "DEFAULT"',
        f"tensor<128x2x{I8}>, tensor<2x2x{kernel}>, tensor<2xi32> -> tensor<128x2x{I8}>",
        STORED.reshape(128, 2),
        weights,
        [4, -8],
    )
    scales = np.array([[0.5], [0.25]]), np.array([[1], [-2]])
    sums = expressed(STORED.reshape(128, 2)) @ expressed(weights, *scales).T
    assert same_bits(result, stored(sums + np.array([1, -1], np.float32)))


# What cannot be run


def module_of(operator: Operator) -> ModuleOp:
    tensors = [FileTensor("x", "FLOAT32", [2]), FileTensor("y", "FLOAT32", [2])]
    model = Model([Subgraph("main", tensors, [0], [1], [operator])])
    return read_tflite(write_model(model))


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (
            Operator("CUSTOM", [0], [1], {}, "Mine", b""),
            "loc(\"y\"): error: 'tfl.custom' op cannot be run: unsupported custom operator "
            "'Mine'; split the model before it",
        ),
        (
            Operator("CUMSUM", [0], [1], {}),
            "loc(\"y\"): error: 'tfl.cumsum' op cannot be run: unsupported operator",
        ),
    ],
)
def test_unsupported_ops(operator: Operator, message: str):
    with pytest.raises(InterpretationError) as e:
        run_function(module_of(operator), "main", [1.0, 2.0])
    assert str(e.value).startswith(message)


@pytest.mark.parametrize(("is_set", "expected"), [(True, [-2, -1]), (False, [-3, -2])])
def test_sums_of_16_bits_with_powers_of_two(is_set: bool, expected: list[int]):
    """With the option each operand is rounded, without it the sum is."""

    def tensor(name: str, scale: float) -> FileTensor:
        quantization = TensorQuantization(
            np.array([scale], np.float32), np.array([0], np.int64)
        )
        return FileTensor(name, "INT16", [2], quantization=quantization)

    tensors = [tensor("x", 0.25), tensor("y", 1.0), tensor("z", 1.0)]
    options = {"fused_activation_function": 0, "pot_scale_int16": is_set}
    operator = Operator("ADD", [0, 1], [2], options)
    subgraph = Subgraph("main", tensors, [0, 1], [2], [operator])
    module = read_tflite(write_model(Model([subgraph])))
    x, y = np.array([2, 6], np.int16), np.array([-3, -3], np.int16)
    (result,) = run_function(module, "main", x, y)
    assert result.tolist() == expected


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        (
            "!quant.uniform<f8E4M3FN:f32, 0.5>",
            "unsupported storage type 'f8E4M3FN', expected an integer type",
        ),
    ],
)
def test_types_that_tensorflow_lite_has_not(type_: str, reason: str):
    module = parse_module(
        f"func.func @main(%x: tensor<2x{type_}>) -> tensor<2x{type_}> {{\n"
        f'  %y = "tfl.relu"(%x) : (tensor<2x{type_}>) -> tensor<2x{type_}>\n'
        f"  return %y : tensor<2x{type_}>\n}}",
        "m.mlir",
    )
    with pytest.raises(InterpretationError) as e:
        run_function(module, "main", [1, 2])
    assert str(e.value) == (
        f"m.mlir:2:3: error: 'tfl.relu' op cannot be computed: {reason}"
    )
