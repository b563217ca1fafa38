"""GPTQ: rounding weights with regard to the inputs that they are multiplied by."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.numerics.gptq import InputOrder, gptq

Array = NDArray[Any]
RNG = np.random.default_rng(0)
MIX = RNG.normal(size=(20, 20)) * np.exp(-np.arange(20) / 6)
INPUTS = RNG.normal(size=(300, 20)) @ MIX + 0.5
HESSIAN = INPUTS.T @ INPUTS
WEIGHTS = RNG.normal(size=(20, 6))


def nearest(weights: Array, scales: Array, low: int, high: int) -> Array:
    return np.rint(weights / scales).clip(low, high).astype(np.int64)


def error(weights: Array, stored: Array, scales: Array, inputs: Array) -> float:
    return float(np.square(inputs @ (weights - stored * scales)).sum())


def of_paper(
    weights: Array, hessian: Array, scales: Array, low: int, high: int, damping: float
) -> Array:
    """
    Formulas 2 and 3 of the paper: the update of all weights that are left by the inverse of
    the hessian, from which an input is removed by a step of Gaussian elimination.
    """
    rest, scales = weights.copy(), np.broadcast_to(scales, weights.shape)
    damped = hessian + damping * np.diag(hessian).mean() * np.eye(len(hessian))
    linalg: Any = np.linalg
    inverse: Array = linalg.inv(damped)
    stored = np.zeros(weights.shape, np.int64)
    for k in range(len(weights)):
        stored[k] = nearest(rest[k], scales[k], low, high)
        error = rest[k] - stored[k] * scales[k]
        column: Array = inverse[:, k] / inverse[k, k]
        rest -= np.outer(column, error)
        inverse -= np.outer(column, inverse[k])
    return stored


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("damping", [0.01, 0.3])
@pytest.mark.parametrize("lazy", [1, 7, 10, 128])
def test_integers_are_those_of_the_formulas(
    bits: int, damping: float, lazy: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("xdsl_quant.numerics.gptq._LAZY", lazy)
    last = 2 ** (bits - 1) - 1
    scales = np.abs(WEIGHTS).max(0) / last
    arguments = WEIGHTS, HESSIAN, scales
    expected = of_paper(*arguments, -last, last, damping)
    found = gptq(*arguments, (-last, last), order="natural", damping=damping)
    assert found.dtype == np.int64
    assert np.array_equal(found, expected)
    assert not np.array_equal(found, nearest(WEIGHTS, scales, -last, last))


def test_the_default_damping_is_that_of_the_paper():
    scales = np.abs(WEIGHTS).max(0) / 7
    expected = of_paper(WEIGHTS, HESSIAN, scales, -8, 7, 0.01)
    found = gptq(WEIGHTS, HESSIAN, scales, (-8, 7), order="natural")
    assert np.array_equal(found, expected)
    assert not np.array_equal(of_paper(WEIGHTS, HESSIAN, scales, -8, 7, 0.02), expected)


def test_two_inputs_by_hand():
    # Damping adds 1e-9 to 1, which rounds nothing else.
    hessian = np.array([[1.0, 0.5], [0.5, 1.0]])
    options: Any = {"order": "natural", "damping": 1e-9}
    # 0.4 becomes 0, and half of it is added to the second weight: 0.3 + 0.2 is near 1 / 2.
    for second, expected in ((0.29, 0), (0.31, 1)):
        found = gptq([[0.4], [second]], hessian, 1, (-1, 1), **options)
        assert found.tolist() == [[0], [expected]]
    # What is saturated is an error, too: 3 - 1 adds 1 to the second weight.
    found = gptq([[3], [0.4]], hessian, 1, (-1, 3), **options)
    assert found.tolist() == [[3], [0]]
    found = gptq([[3], [0.4]], hessian, 1, (-1, 1), **options)
    assert found.tolist() == [[1], [1]]
    found = gptq([[-3], [0.6]], hessian, 1, (-1, 1), **options)
    assert found.tolist() == [[-1], [0]]


def test_the_input_with_the_largest_squares_is_first():
    hessian = HESSIAN.copy()
    order = np.argsort(-np.diag(hessian))
    assert not np.array_equal(order, np.arange(20))
    scales = RNG.uniform(0.1, 0.3, WEIGHTS.shape)
    expected = np.empty(WEIGHTS.shape, np.int64)
    expected[order] = gptq(
        WEIGHTS[order],
        hessian[np.ix_(order, order)],
        scales[order],
        (-7, 7),
        order="natural",
    )
    found = gptq(WEIGHTS, hessian, scales, (-7, 7))
    assert np.array_equal(found, expected)
    assert np.array_equal(hessian, HESSIAN)
    natural = gptq(WEIGHTS, hessian, scales, (-7, 7), order="natural")
    assert not np.array_equal(found, natural)


def test_of_inputs_with_the_same_squares_the_first_one_is_first():
    hessian = 0.9 + np.diag(np.tile([0.1, 0.2], 10))
    order = np.concatenate([np.arange(1, 20, 2), np.arange(0, 20, 2)])
    arguments = WEIGHTS[order], hessian[np.ix_(order, order)], 0.2, (-7, 7)
    expected = np.empty(WEIGHTS.shape, np.int64)
    expected[order] = gptq(*arguments, order="natural")
    assert np.array_equal(gptq(WEIGHTS, hessian, 0.2, (-7, 7)), expected)


@pytest.mark.parametrize("order", ["natural", "activation"])
def test_groups_are_products_of_their_own(order: InputOrder):
    # Sizes of inputs change no integer, as damping is a part of them.
    sizes = np.array([1, 1e4, 1e-4]).reshape(3, 1, 1)
    shift = np.stack([np.roll(HESSIAN, i, (0, 1)) for i in range(3)]) * sizes
    weights = RNG.normal(size=(3, 20, 4))
    scales = np.abs(weights).max(1, keepdims=True) / 7
    found = gptq(weights, shift, scales, (-7, 7), order=order)
    for i in range(3):
        one = gptq(weights[i], shift[i] / sizes[i], scales[i], (-7, 7), order=order)
        assert np.array_equal(found[i], one)
    # There may be more dimensions.
    parts = weights[:, None], shift[:, None], scales[:, None]
    more = gptq(*parts, (-7, 7), order=order)
    assert np.array_equal(more[:, 0], found)


def test_inputs_that_are_independent_or_always_0():
    scales = np.abs(WEIGHTS).max(0) / 3
    plain = nearest(WEIGHTS, scales, -3, 3)
    diagonal = np.diag(np.arange(20) + 0.5)
    assert np.array_equal(gptq(WEIGHTS, diagonal, scales, (-3, 3)), plain)
    assert np.array_equal(gptq(WEIGHTS, np.zeros((20, 20)), scales, (-3, 3)), plain)
    hessian = HESSIAN.copy()
    hessian[3], hessian[:, 3] = 0, 0
    hessian[3, 3] = 0
    rest = np.delete(np.arange(20), 3)
    found = gptq(WEIGHTS, hessian, scales, (-3, 3))
    assert np.array_equal(found[3], plain[3])
    assert not np.array_equal(found[rest], plain[rest])
    # The input counts as one with the square 1 where damping is chosen.
    hessian /= 100 * np.diag(hessian).mean()
    scales = np.abs(WEIGHTS).max(0) / 7
    results: list[Array] = []
    for hessian[3, 3] in (0, 1, 2):
        results.append(gptq(WEIGHTS, hessian, scales, (-7, 7)))
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[1], results[2])


@pytest.mark.parametrize("order", ["natural", "activation"])
def test_products_change_less_than_with_nearest_integers(order: InputOrder):
    for bits in (2, 4, 8):
        last = 2 ** (bits - 1) - 1
        blocks = np.abs(WEIGHTS).reshape(5, 4, 6).max(1).repeat(4, 0) / last
        for scales in (np.abs(WEIGHTS).max() / last, blocks):
            found = gptq(WEIGHTS, HESSIAN, scales, (-last, last), order=order)
            assert (np.abs(found) <= last).all()
            plain = nearest(WEIGHTS, np.asarray(scales), -last, last)
            errors = [error(WEIGHTS, each, scales, INPUTS) for each in (found, plain)]
            assert errors[0] < 0.6 * errors[1]


def test_arguments_stay_as_they_are():
    arrays = WEIGHTS.copy(), HESSIAN.copy(), np.full(6, 0.3)
    gptq(*arrays, (-7, 7))
    gptq(*arrays, (-7, 7), order="natural")
    assert np.array_equal(arrays[0], WEIGHTS)
    assert np.array_equal(arrays[1], HESSIAN)


def test_mistakes():
    for weights, hessian, scales, options, message in (
        (
            [[1.0]],
            [[1.0]],
            1,
            {"order": "best"},
            "unknown order 'best', available: 'natural', 'activation'",
        ),
        ([[1.0]], [[1.0]], 1, {"damping": 0}, "expected a positive damping, found 0"),
        ([[1.0]], [[1.0]], 1, {"damping": np.nan}, "positive damping, found nan"),
        ([[np.inf]], [[1.0]], 1, {}, "expected finite weights, found inf"),
        ([[1.0]], [[np.nan]], 1, {}, "expected finite hessian, found nan"),
        ([[1.0]], [[1.0]], [np.inf], {}, "expected finite scales, found inf"),
        ([[1.0]], [[1.0]], 0, {}, "expected positive scales, found 0.0"),
        ([1.0], [[1.0]], 1, {}, "shape (..., inputs, outputs), found (1,)"),
        (np.empty((0, 3)), np.eye(0), 1, {}, "(..., inputs, outputs), found (0, 3)"),
        ([[1.0]], [1.0], 1, {}, "expected a hessian of shape (1, 1), found (1,)"),
        ([[1.0, 2]], np.eye(2), 1, {}, "hessian of shape (1, 1), found (2, 2)"),
        (np.ones((2, 3, 1)), np.eye(3), 1, {}, "of shape (2, 3, 3), found (3, 3)"),
    ):
        given: Any = options
        with pytest.raises(ValueError, match=f"{re.escape(message)}$"):
            gptq(np.array(weights), np.array(hessian), scales, (-7, 7), **given)
    for position, what in enumerate(("weights", "hessian", "scales")):
        arguments: list[Any] = [[[1.0]], [[1.0]], [1.0]]
        arguments[position] = np.array([["1"]])
        first, second, third = arguments
        with pytest.raises(
            TypeError, match=f"^expected numbers as {what}, found dtype <U1"
        ):
            gptq(first, second, third, (-7, 7))


# Other implementations


def torchao_gptq() -> ModuleType:
    """
    The module of torchao without its `assert`s: one of them wants a CUDA device, and
    nothing else does but a call that waits for it.
    """
    module = import_module("torchao.prototype.gptq.api")
    assert module.__file__ is not None
    copy = ModuleType(module.__name__)
    copy.__dict__.update(__package__=module.__package__, __file__=module.__file__)
    text = Path(module.__file__).read_text()
    exec(compile(text, module.__file__, "exec", optimize=1), copy.__dict__)
    return copy


@pytest.mark.filterwarnings("ignore")
def test_integers_are_those_of_torchao(monkeypatch: pytest.MonkeyPatch):
    torch: Any = pytest.importorskip("torch")
    pytest.importorskip("torchao")
    library: Any = torchao_gptq()
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    configuration: Any = import_module("torchao.quantization").Int8WeightOnlyConfig
    config = library.GPTQConfig(
        step="convert", base_config=configuration(version=2), percdamp=0.05
    )
    # The largest weight is 127.5 steps, which is 127 if it is positive.
    signs = np.where(WEIGHTS.max(0) > -WEIGHTS.min(0), 1, -1)
    weights = (WEIGHTS * signs).astype(np.float32)
    tensors = (torch.tensor(x.T.copy()).float() for x in (2 * HESSIAN, weights))
    theirs: Any = library.gptq_quantize(*tensors, config)
    scales = theirs.scale.numpy().astype(np.float64).reshape(-1)
    stored = theirs.qdata.numpy().T
    ours = gptq(weights, HESSIAN, scales, (-128, 127), order="natural", damping=0.05)
    assert np.array_equal(ours, stored)
    assert not np.array_equal(ours, nearest(weights, scales, -128, 127))


@pytest.mark.skipif(find_spec("onnx_ir") is None, reason="onnxruntime needs onnx_ir")
@pytest.mark.parametrize("order", ["natural", "activation"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_the_error_is_not_more_than_that_of_onnxruntime(bits: int, order: InputOrder):
    pytest.importorskip("onnxruntime")
    library: Any = import_module(
        "onnxruntime.quantization.neural_compressor.weight_only"
    )
    theirs: Array = library.gptq(
        WEIGHTS.copy(),
        2 * HESSIAN / len(INPUTS),
        num_bits=bits,
        group_size=-1,
        scheme="sym",
        actorder=order == "activation",
    )
    scales = 2 * np.abs(WEIGHTS).max(0) / (2**bits - 1)
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    stored = np.rint(theirs / scales).astype(np.int64)
    ours = gptq(WEIGHTS, HESSIAN, scales, (low, high), order=order)
    errors = [error(WEIGHTS, each, scales, INPUTS) for each in (ours, stored)]
    # In 1.32 it takes the transposed factor, and integers are the nearest ones.
    assert errors[0] <= errors[1]
