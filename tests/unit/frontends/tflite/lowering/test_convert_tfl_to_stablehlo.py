"""
Models of TensorFlow Lite as StableHLO, and the passes behind, which make quantized ops of
it: types and constants are those of the model, and results those of its interpreter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from tests.real_stablehlo import RealStableHLO
from tests.unit.frontends.tflite.files.models import DTYPES, inputs_of, model_of
from tests.unit.frontends.tflite.formulas.cases import Case, Tensor, cases
from tests.unit.frontends.tflite.test_interpreter import PATHS
from xdsl_quant.dialects.quant.types import QuantizedType
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.frontends.tflite.lowering.convert_tfl_to_stablehlo import (
    LOWERINGS,
    ConvertTFLToStablehloPass,
)
from xdsl_quant.frontends.tflite.lowering.stablehlo import data_movement
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import dequantize
from xdsl_quant.runtime.arrays import dense_elements
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

Array = NDArray[Any]

TO_QUANTIZED = (
    "convert-tfl-to-stablehlo,quant-fuse-kernels{target=stablehlo-int8},"
    "quant-constraints-to-specs,quant-export,quant-casts-to-stablehlo"
)
TO_QDQ = "stablehlo-legalize-quantized-op-to-qdq"

REASONS = (
    "has a bias of type 'tensor<[0-9]xi64>', expected a quantized or float type",
    "has an ellipsis, a new axis, or the attribute 'offset'",
    "has a negative stride",
)
"""What the pass says about cases of ops that it converts otherwise."""

OTHER_OPS = (
    "has no conversion to StableHLO",
    "has state",
    "has the type 'tensor<.*i8<-127:127>:f32, .*:-128>>', which StableHLO does not support",
)
"""What it says about others, and about a zero point that is no stored value."""

OF_FLOATS = {
    # Several ops, whose values between have no parameters.
    "SOFTMAX",
    "AVERAGE_POOL_2D",
    "BATCH_MATMUL",
    "CONCATENATION",
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "FULLY_CONNECTED",
    "MEAN",
    "SQUARED_DIFFERENCE",
    "SUM",
}
"""Ops that StableHLO or the target has no kernel for, or not with all types."""

TABLES = {"EXP", "RSQRT", "SOFTMAX", "TANH"}
"""Functions that the reference kernels interpolate if storage has 16 bits."""


def module_of(case: Case) -> ModuleOp:
    return read_tflite(write_model(model_of(case)))


def stored_constants(module: ModuleOp) -> Iterator[tuple[str, bytes]]:
    """The types of quantized constants, and what they store."""
    for op in module.walk():
        if not isinstance(op, tfl.QConstOp | stablehlo.ConstantOp):
            continue
        elements = dense_elements(op.value)
        # Scalars are made by the passes.
        if elements.ndim and QuantizedType.get_quantized_element_type(op.output.type):
            yield str(op.output.type), elements.tobytes()


def signatures(module: ModuleOp) -> Sequence[str]:
    return [str(op.function_type) for op in module.ops if isinstance(op, FuncOp)]


def dialects(module: ModuleOp) -> set[str]:
    return {op.name.partition(".")[0] for op in module.walk()}


def assert_model(module: ModuleOp, original: ModuleOp):
    """Types and constants are those of the model, and all of it is StableHLO."""
    module.verify()
    assert dialects(module) == {"builtin", "func", "stablehlo"}
    assert signatures(module) == signatures(original)
    assert sorted(stored_constants(module)) == sorted(stored_constants(original))


def refusal(module: ModuleOp, passes: str) -> str:
    """What passes say that fail; empty if they do not."""
    try:
        apply_passes(module, passes)
    except IRError as e:
        return str(e)
    return ""


def run(module: ModuleOp, *arguments: Any) -> Sequence[Array]:
    lowered = module.clone()
    apply_passes(lowered, "convert-quantized-stablehlo-to-linalg")
    return run_function(lowered, None, *arguments)


def difference(result: Array, expected: Array) -> int:
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    return int(np.abs(result.astype(np.int64) - expected.astype(np.int64)).max())


# Single ops

OPS = sorted({case.op for case in cases()})


def computing_op(module: ModuleOp) -> Operation:
    constants = tfl.ConstOp | tfl.QConstOp | tfl.NoValueOp
    return next(
        op
        for op in module.walk()
        if op.name.startswith("tfl.") and not isinstance(op, constants)
    )


def with_op(name: str, request: pytest.FixtureRequest) -> Sequence[Case]:
    step = 1 if request.config.getoption("--all-cases") else 9
    return [case for case in cases() if case.op == name][::step]


@pytest.mark.sampled
@pytest.mark.parametrize("name", OPS)
def test_quantized_ops(name: str, request: pytest.FixtureRequest):
    """At most one stored unit from the reference kernels; what moves is equal."""
    for case in with_op(name, request):
        original = module_of(case)
        op = computing_op(original)
        module = original.clone()
        if reason := refusal(module, TO_QUANTIZED):
            expected = REASONS if type(op) in LOWERINGS else OTHER_OPS
            assert any(re.search(words, reason) for words in expected), reason
            continue
        assert_model(module, original)
        assert "quant.float_kernels" not in module.attributes or name in OF_FLOATS
        if name in TABLES and case.results[0].type == "INT16":
            continue
        expected = run_function(original, None, *inputs_of(case))
        is_equal = type(op) in data_movement.LOWERINGS or isinstance(
            op, tfl.DequantizeOp
        )
        for one, other in zip(run(module, *inputs_of(case)), expected, strict=True):
            if one.dtype.kind == "f":
                np.testing.assert_array_equal(one, other, case.name)
            else:
                assert difference(one, other) <= (not is_equal), case.name


def in_float(tensor: Tensor | None) -> Tensor | None:
    """The floats that a tensor expresses."""
    if tensor is None or not tensor.scales:
        return tensor
    values = dequantize(tensor.array.astype(DTYPES[tensor.type]), tensor.parameters)
    return tensor._replace(
        type="FLOAT32", array=values, scales=[], zero_points=[], axis=None
    )


@pytest.mark.sampled
@pytest.mark.parametrize("name", OPS)
def test_ops_on_floats(name: str, request: pytest.FixtureRequest):
    for case in with_op(name, request):
        if "INT64" in (x.type for x in case.operands if x):
            continue
        operands, results = ([*map(in_float, x)] for x in (case.operands, case.results))
        case = case._replace(operands=operands, results=[x for x in results if x])
        if name in ("QUANTIZE", "DEQUANTIZE"):
            continue
        original = module_of(case)
        if type(computing_op(original)) not in LOWERINGS:
            continue
        module = original.clone()
        if reason := refusal(module, "convert-tfl-to-stablehlo"):
            assert any(re.search(words, reason) for words in REASONS), reason
            continue
        assert_model(module, original)
        with np.errstate(all="ignore"):
            expected = run_function(original, None, *inputs_of(case))
            results = run(module, *inputs_of(case))
        for one, other in zip(results, expected, strict=True):
            assert one.dtype == other.dtype
            # Sums may be in another order; an activation may hide how large they are.
            largest = np.abs(other[np.isfinite(other)]).max(initial=4)
            np.testing.assert_allclose(
                one, other, 1e-6, 1e-6 * largest, err_msg=case.name
            )


REFUSED_BY_REAL = re.compile(
    r"uniform<i[48][^ ]*:f32:0|uniform<u8|applies stablehlo.m..imum"
)
"""
What its interpreter fails on: scales for the first dimension, unsigned arguments, and
reductions.
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OPS)
def test_real_stablehlo(name: str):
    """It accepts the ops, and its results differ by at most one stored unit, too."""
    real = RealStableHLO()
    for case in [case for case in cases() if case.op == name][:2]:
        original = module_of(case)
        module = original.clone()
        if refusal(module, TO_QUANTIZED):
            continue
        text = str(module)
        assert real.text(text) is not None, case.name
        if REFUSED_BY_REAL.search(text) or case.results[0].type not in (
            "INT8",
            "INT16",
        ):
            continue
        if name in TABLES and case.results[0].type == "INT16":
            continue
        results = real.results(text, *inputs_of(case), passes=TO_QDQ)
        expected = run_function(original, None, *inputs_of(case))
        for one, other in zip(results, expected, strict=True):
            assert difference(one, other) <= 1, case.name


# Models


@pytest.mark.sampled(0)
@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_streaming_models(path: Path):
    """Published networks become quantized StableHLO that computes the same integers."""
    original = read_tflite(path)
    apply_passes(original, "tfl-variables-to-arguments")
    module = original.clone()
    passes = TO_QUANTIZED.replace("quant-export", "quant-export{fully-quantized=true}")
    apply_passes(module, passes)
    assert_model(module, original)
    assert RealStableHLO().text(str(module)) is not None
    (function,) = original.ops
    assert isinstance(function, FuncOp)
    types: Any = function.function_type.inputs.data
    random = np.random.default_rng(0)
    differences: list[int] = []
    for _ in range(5):
        arguments: list[Array] = [
            random.integers(-128, 128, type_.get_shape(), np.int8) for type_ in types
        ]
        expected = run_function(original, None, *arguments)
        results = run(module, *arguments)
        differences += map(difference, results, expected)
    # A kernel makes a difference of one, which another may take.
    assert max(differences) <= 2
    assert differences.count(0) > len(differences) // 2


@pytest.mark.parametrize("path", PATHS[:1])
def test_nothing_is_left_to_propagate(path: Path):
    module = read_tflite(path)
    apply_passes(module, "tfl-variables-to-arguments")
    other = module.clone()
    apply_passes(module, TO_QUANTIZED)
    propagate = "quant-propagate{target=stablehlo-int8},quant-export"
    apply_passes(other, TO_QUANTIZED.replace("quant-export", propagate))
    assert str(other) == str(module)


DENSE = """
!x = !quant.uniform<i8:f32, 0.5:3>
!w = !quant.uniform<i8<-127:127>:f32:0, {0.5, 0.25}>
!b = !quant.uniform<i32:f32:0, {0.25, 0.125}>
!y = !quant.uniform<i8:f32, 4194304.0:-7>
func.func @main(%x: tensor<SIZEx3x!x>) -> tensor<SIZEx2x!y> {
  %w = "tfl.pseudo_qconst"() <{qtype = tensor<2x3x!w>,
    value = dense<[[1, -127, 3], [4, 5, 127]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!w>
  %b = BIAS
  %y = "tfl.fully_connected"(%x, %w, %b) <{fused_activation_function = "NONE",
    keep_num_dims = false, weights_format = "DEFAULT"}>
    : (tensor<SIZEx3x!x>, tensor<2x3x!w>, BIAS_TYPE) -> tensor<SIZEx2x!y>
  func.return %y : tensor<SIZEx2x!y>
}
"""
BIAS = """"tfl.pseudo_qconst"() <{qtype = tensor<2x!b>,
    value = dense<[1073741825, -1610612735]> : tensor<2xi32>}> : () -> tensor<2x!b>"""


def dense(size: str, bias: str = BIAS, bias_type: str = "tensor<2x!b>") -> ModuleOp:
    text = DENSE.replace("SIZE", size).replace("BIAS_TYPE", bias_type)
    return parse_module(text.replace("BIAS", bias), "model.mlir")


# As many rows as channels: nothing but its place says which dimension has the scales.
@pytest.mark.parametrize("size", ["1", "2"])
def test_bias_of_32_bits(size: str):
    """It has more significant bits than a float, and stays as it is."""
    original = dense(size)
    module = original.clone()
    apply_passes(module, TO_QUANTIZED)
    assert_model(module, original)
    assert "quant.float_kernels" not in module.attributes
    x = np.arange(-3, 3, dtype=np.int8)[: 3 * int(size)].reshape(-1, 3)
    (expected,) = run_function(original, None, x)
    (result,) = run(module, x)
    # 2 ** 30 * 0.25 / 2 ** 22 - 7, and -(2 ** 30) * 1.5 * 0.125 / 2 ** 22 - 7.
    np.testing.assert_array_equal(result, [[57, -55]] * int(size))
    np.testing.assert_array_equal(result, expected)


NO_BIAS = '"tfl.no_value"() <{value}> : () -> none'


def test_dynamic_batch():
    original = dense("?", NO_BIAS, "none")
    module = original.clone()
    apply_passes(module, TO_QUANTIZED)
    assert_model(module, original)
    x = np.arange(-6, 6, dtype=np.int8).reshape(-1, 3)
    np.testing.assert_array_equal(run(module, x), run_function(original, None, x))


def test_dynamic_batch_with_a_bias():
    with pytest.raises(IRError) as failure:
        apply_passes(dense("?"), "convert-tfl-to-stablehlo")
    assert str(failure.value).startswith(
        "model.mlir:11:3: error: 'tfl.fully_connected' op has dynamic sizes, to which "
        "StableHLO cannot broadcast or reshape; set dynamic argument"
    )


REQUANTIZED = """
!p = !quant.uniform<i8:f32, 0.5>
!q = !quant.uniform<i8:f32, 0.25:3>
!r = !quant.uniform<i8:f32, 1.0>
func.func @main(%x: tensor<4x!p>, %f: tensor<4xf32>)
    -> (tensor<4x!q>, tensor<4x!r>, tensor<4x!q>, tensor<4x!r>) {
  %a = "tfl.abs"(%x) : (tensor<4x!p>) -> tensor<4x!p>
  %b = "tfl.quantize"(%a) <{qtype = tensor<4x!q>}> : (tensor<4x!p>) -> tensor<4x!q>
  %c = "tfl.abs"(%b) : (tensor<4x!q>) -> tensor<4x!r>
  %d = "tfl.quantize"(%f) <{qtype = tensor<4x!q>}> : (tensor<4xf32>) -> tensor<4x!q>
  %e = "tfl.quantize"(%f) <{qtype = tensor<4x!r>}> : (tensor<4xf32>) -> tensor<4x!r>
  %g = "tfl.abs"(%e) : (tensor<4x!r>) -> tensor<4x!r>
  func.return %b, %c, %d, %g : tensor<4x!q>, tensor<4x!r>, tensor<4x!q>, tensor<4x!r>
}
"""


def test_values_of_several_types():
    original = parse_module(REQUANTIZED)
    module = original.clone()
    apply_passes(module, TO_QUANTIZED)
    assert_model(module, original)
    names = [op.name for op in module.walk() if op.name.startswith("stablehlo")]
    abs_op, quantize_op = "stablehlo.abs", "stablehlo.uniform_quantize"
    assert sorted(names) == [*[abs_op] * 3, *[quantize_op] * 3]
    arguments = (
        np.array([-3, 5, 7, 127], np.int8),
        np.array([-1, 0.3, 4, 99], np.float32),
    )
    for one, other in zip(
        run(module, *arguments), run_function(original, None, *arguments), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_floats_that_are_used_as_they_are():
    """A sum that is quantized for one user is not rounded for another."""
    text = """
    !q = !quant.uniform<i8:f32, 0.5:3>
    func.func @main(%x: tensor<4x!q>) -> (tensor<4xf32>, tensor<4x!q>) {
      %a = "tfl.dequantize"(%x) : (tensor<4x!q>) -> tensor<4xf32>
      %b = "tfl.tanh"(%a) : (tensor<4xf32>) -> tensor<4xf32>
      %c = "tfl.quantize"(%b) <{qtype = tensor<4x!q>}> : (tensor<4xf32>) -> tensor<4x!q>
      func.return %b, %c : tensor<4xf32>, tensor<4x!q>
    }
    """
    module = parse_module(text)
    apply_passes(module, TO_QUANTIZED)
    x = np.array([3, 4, -7, 90], np.int8)
    floats, stored = run(module, x)
    expected = np.tanh((x - np.float32(3)) * np.float32(0.5))
    np.testing.assert_allclose(floats, expected, 1e-6)
    np.testing.assert_array_equal(stored, [3, 4, 1, 5])


def test_bounds_of_activations():
    """They have the scale of the result, not the coarse one of the operand."""
    text = """
    !x = !quant.uniform<i8:f32, 0.3>
    !y = !quant.uniform<i8:f32, 0.01>
    func.func @main(%x: tensor<4x!x>) -> tensor<4x!y> {
      %y = "tfl.relu_n1_to_1"(%x) : (tensor<4x!x>) -> tensor<4x!y>
      func.return %y : tensor<4x!y>
    }
    """
    module = parse_module(text)
    apply_passes(module, TO_QUANTIZED)
    (result,) = run(module, np.array([-4, -3, 2, 90], np.int8))
    np.testing.assert_array_equal(result, [-100, -90, 60, 100])


QDQ = """
!q = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%x: tensor<4x!q>) -> tensor<4xf32> {
  %a = "tfl.dequantize"(%x) : (tensor<4x!q>) -> tensor<4xf32>
  %b = "tfl.tanh"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = "tfl.quantize"(%b) <{qtype = tensor<4x!q>}> : (tensor<4xf32>) -> tensor<4x!q>
  %d = "tfl.dequantize"(%c) : (tensor<4x!q>) -> tensor<4xf32>
  func.return %d : tensor<4xf32>
}
"""


def test_casts_around_floats():
    """They become a quantized op, as those do that the pass makes itself."""
    module = parse_module(QDQ)
    apply_passes(module, TO_QUANTIZED)
    assert [op.name for op in module.walk() if op.name.startswith("stablehlo")] == [
        "stablehlo.tanh",
        "stablehlo.uniform_dequantize",
    ]


# What StableHLO has no form for

MIXED = """
!q = !quant.uniform<i8:f32, 0.5>
!s = !quant.uniform<i8:f32, 0.0625:127>
func.func @main(%x: tensor<1x4x!q>, %p: tensor<i1>) -> tensor<1x4x!s> {
  %c = arith.constant dense<2> : tensor<1xindex>
  %y = "tfl.if"(%p) ({
    %r = "tfl.tanh"(%x) : (tensor<1x4x!q>) -> tensor<1x4x!q>
    "tfl.yield"(%r) : (tensor<1x4x!q>) -> ()
  }, {
    "tfl.yield"(%x) : (tensor<1x4x!q>) -> ()
  }) : (tensor<i1>) -> tensor<1x4x!q>
  %z = "tfl.log_softmax"(%y) : (tensor<1x4x!q>) -> tensor<1x4x!s>
  func.return %z : tensor<1x4x!s>
}
"""


def test_refused():
    """One sentence for each op, and the module is as it was."""
    module = parse_module(MIXED, "model.mlir")
    before = str(module)
    with pytest.raises(PassFailedException) as failure:
        ConvertTFLToStablehloPass().apply(Context(), module)
    hint = "; use 'partial=true' to keep it"
    assert str(failure.value).split("\n") == [
        f"model.mlir:6:3: error: 'tfl.if' op has no conversion to StableHLO{hint}",
        "model.mlir:12:3: error: 'tfl.log_softmax' op has no conversion to StableHLO"
        f"{hint}",
    ]
    assert str(module) == before


def test_partial(capsys: pytest.CaptureFixture[str]):
    module = parse_module(MIXED, "model.mlir")
    apply_passes(module, TO_QUANTIZED.replace("hlo,", "hlo{partial=true},", 1))
    module.verify()
    assert capsys.readouterr().err == (
        "model.mlir:6:3: warning: 'convert-tfl-to-stablehlo' changed 1 of 5 ops, found 1 "
        "'tfl.if', 1 'tfl.log_softmax' left; they have no conversion to StableHLO\n"
        "warning: 'quant-casts-to-stablehlo' changed nothing, expected a 'quant.qcast' or "
        "a 'quant.dcast', found none\n"
    )
    assert [op.name for op in module.walk() if "." in op.name][2:] == [
        "arith.constant",
        "tfl.if",
        "stablehlo.tanh",
        "tfl.yield",
        "tfl.yield",
        "tfl.log_softmax",
        "func.return",
    ]


CONSTANTS = """
!q = !quant.uniform<i8:f32, 0.5>
func.func @main(%x: tensor<2x!q>) -> (tensor<4x!q>, tensor<2xi32>, tensor<2x!q>) {
  %c = "tfl.pseudo_const"() <{value = dense<2> : tensor<1xi32>}> : () -> tensor<1xi32>
  %w = "tfl.pseudo_qconst"() <{qtype = tensor<2x!q>, value = dense<[3, 4]> : tensor<2xi8>}>
    : () -> tensor<2x!q>
  %n = "tfl.pseudo_const"() <{value = dense<7> : tensor<2xi32>}> : () -> tensor<2xi32>
  %y = tfl.add(%x, %w) <{fused_activation_function = "NONE"}>
    : (tensor<2x!q>, tensor<2x!q>) -> tensor<2x!q>
  %z = "tfl.tile"(%w, %c) : (tensor<2x!q>, tensor<1xi32>) -> tensor<4x!q>
  func.return %z, %n, %y : tensor<4x!q>, tensor<2xi32>, tensor<2x!q>
}
"""


def test_constants_of_what_stays():
    """They stay, too, so that other passes know them; who else takes them has its own."""
    module = parse_module(CONSTANTS)
    apply_passes(module, TO_QUANTIZED.replace("hlo,", "hlo{partial=true},", 1))
    assert sorted(op.name for op in module.walk() if "fl." in op.name) == [
        "tfl.pseudo_const",
        "tfl.pseudo_qconst",
        "tfl.tile",
    ]
    names = [op.name for op in module.walk() if op.name.startswith("stablehlo")]
    assert sorted(names) == [
        "stablehlo.add",
        "stablehlo.constant",
        "stablehlo.constant",
    ]
    apply_passes(module, "convert-tfl-to-linalg,convert-quantized-stablehlo-to-linalg")
    results = run_function(module, None, np.array([-3, 100], np.int8))
    for result, expected in zip(results, [[3, 4] * 2, [7, 7], [0, 104]], strict=True):
        np.testing.assert_array_equal(result, expected)


def test_partial_types():
    """The zero point of weights in a file may be no stored value, which types here are."""
    narrow = "!quant.uniform<u8<1:255>:f32, 0.5>"
    module = parse_module(f"""
    !w = {narrow}
    !x = !quant.uniform<u8:f32, 0.5>
    func.func @main(%x: tensor<2x!x>) -> tensor<2x!x> {{
      %w = "tfl.pseudo_qconst"() <{{qtype = tensor<2x!w>, value = dense<5> : tensor<2xi8>}}>
        : () -> tensor<2x!w>
      %y = tfl.add(%x, %w) <{{fused_activation_function = "NONE"}}>
        : (tensor<2x!x>, tensor<2x!w>) -> tensor<2x!x>
      func.return %y : tensor<2x!x>
    }}
    """)
    before = str(module)
    apply_passes(module, "convert-tfl-to-stablehlo{partial=true}")
    assert str(module) == before


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (
            '"tfl.cast"(%x) : (tensor<2x4x!q>) -> tensor<2x4xi32>',
            "'tfl.cast' op casts quantized values; use 'tfl.quantize' or 'tfl.dequantize'",
        ),
        (
            '"tfl.relu"(%x) : (tensor<2x4x!q>) -> tensor<*x!q>',
            "'tfl.relu' op has the type 'tensor<*x!quant.uniform<i8:f32, 5.000000e-01>>', "
            "which StableHLO does not support",
        ),
        (
            'tfl.add(%x, %x) <{fused_activation_function = "SIGN_BIT"}> '
            ": (tensor<2x4x!q>, tensor<2x4x!q>) -> tensor<2x4x!q>",
            "'tfl.add' op has the unsupported activation 'SIGN_BIT'",
        ),
        (
            '"tfl.transpose"(%x, %i) : (tensor<2x4x!q>, tensor<2xi32>) -> tensor<?x?x!q>',
            "'tfl.transpose' op has non-constant sizes, axes or indices",
        ),
        (
            '"tfl.abs"(%x) : (tensor<2x4x!q>) -> tensor<?x4x!q>',
            "'tfl.abs' op has dynamic sizes, to which StableHLO cannot broadcast",
        ),
    ],
)
def test_errors(op: str, message: str):
    text = f"""
    !q = !quant.uniform<i8:f32, 0.5>
    func.func @main(%x: tensor<2x4x!q>, %i: tensor<2xi32>) {{
      %y = {op}
      func.return
    }}
    """
    module = parse_module(text, "model.mlir")
    with pytest.raises(IRError) as failure:
        apply_passes(module, "convert-tfl-to-stablehlo")
    assert str(failure.value).startswith(f"model.mlir:4:7: error: {message}")
