"""Recurrent layers compared with onnxruntime, for what ONNX's node cases do not cover."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.unit.frontends.onnx.import_errors import import_error
from tests.unit.frontends.onnx.onnxruntime_results import check_node
from xdsl_quant.numerics.arrays import Array

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_LENGTH, _BATCH, _INPUTS, _HIDDEN = 5, 2, 3, 4


def _floats(random: np.random.Generator, *shape: int) -> Array:
    return random.normal(size=shape).astype(np.float32)


def _operands(
    op_type: str,
    directions: int = 1,
    *,
    length: int = _LENGTH,
    lengths: Sequence[int] | None = None,
    has_states: bool = False,
    has_peepholes: bool = False,
) -> list[Array | None]:
    """Draw the operands of a layer."""
    random = np.random.default_rng(1)
    rows = _GATES[op_type] * _HIDDEN
    state = directions, _BATCH, _HIDDEN
    operands: list[Array | None] = [
        _floats(random, length, _BATCH, _INPUTS),
        _floats(random, directions, rows, _INPUTS),
        _floats(random, directions, rows, _HIDDEN),
        _floats(random, directions, 2 * rows),
        None if lengths is None else np.array(lengths, np.int32),
        _floats(random, *state) if has_states else None,
    ]
    if op_type == "LSTM":
        operands += [
            _floats(random, *state) if has_states else None,
            _floats(random, directions, 3 * _HIDDEN) if has_peepholes else None,
        ]
    return operands


def _check(op_type: str, operands: Sequence[Array | None], **attributes: Any) -> None:
    check_node(
        op_type,
        *operands,
        result_count=3 if op_type == "LSTM" else 2,
        constants=[1, 2, 3],
        rtol=1e-4,
        atol=1e-5,
        hidden_size=_HIDDEN,
        **attributes,
    )


@pytest.mark.parametrize("op_type", _GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [None, [3, 5]])
def test_directions(
    op_type: str, direction: str, lengths: Sequence[int] | None
) -> None:
    count = 2 if direction == "bidirectional" else 1
    operands = _operands(op_type, count, lengths=lengths, has_states=True)
    _check(op_type, operands, direction=direction)


@pytest.mark.parametrize("op_type", _GATES)
def test_one_element(op_type: str) -> None:
    _check(op_type, _operands(op_type, length=1, has_states=True))


@pytest.mark.parametrize("op_type", _GATES)
def test_clip(op_type: str) -> None:
    _check(op_type, _operands(op_type), clip=0.5)


def test_lstm() -> None:
    _check("LSTM", _operands("LSTM", has_peepholes=True, has_states=True), clip=1.5)
    _check("LSTM", _operands("LSTM", has_peepholes=True), input_forget=1)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_gru_that_resets_last(direction: str) -> None:
    operands = _operands("GRU", has_states=True)
    _check("GRU", operands, linear_before_reset=1, direction=direction)
    operands[3] = None
    check_node(
        "GRU",
        *operands,
        result_count=2,
        rtol=1e-4,
        atol=1e-5,
        hidden_size=_HIDDEN,
        linear_before_reset=1,
    )


@pytest.mark.parametrize(
    ("names", "alpha", "beta"),
    [
        (["Affine", "Relu"], [0.5], [0.25]),
        (["LeakyRelu", "ThresholdedRelu"], [0.1, 0.2], []),
        (["ScaledTanh", "HardSigmoid"], [0.9, 0.3], [0.8, 0.4]),
        (["Elu", "Softsign"], [0.7], []),
        (["Softplus", "Tanh"], [], []),
        (["Sigmoid", "LeakyRelu"], [], []),
    ],
)
def test_activations(
    names: Sequence[str], alpha: Sequence[float], beta: Sequence[float]
) -> None:
    attributes = {"activation_alpha": alpha, "activation_beta": beta}
    _check(
        "RNN",
        _operands("RNN", 2),
        activations=names,
        direction="bidirectional",
        **{name: numbers for name, numbers in attributes.items() if numbers},
    )


def test_compiled_layers() -> None:
    for op_type in _GATES:
        check_node(
            op_type,
            *_operands(op_type, 2, lengths=[3, 5]),
            result_count=2,
            rtol=1e-4,
            atol=1e-5,
            hidden_size=_HIDDEN,
            direction="bidirectional",
            is_compiled=True,
        )


def test_errors() -> None:
    operands = [value for value in _operands("RNN") if value is not None]
    assert import_error("RNN", *operands[:2], operands[1]) == (
        "operand 'W' has shape 1x4x3; expected 1x3x3"
    )
    assert import_error("RNN", *operands, direction="bidirectional") == (
        "has the direction 'bidirectional', but weights of 1 directions"
    )
    assert import_error("RNN", *operands, activations=["Tanh", "Tanh"]) == (
        "has 2 activations; expected 1"
    )
    assert import_error("RNN", *operands, activations=["Swish"]) == (
        "has the unknown activation 'Swish'; expected one of Affine, Elu, HardSigmoid, "
        "LeakyRelu, Relu, ScaledTanh, Sigmoid, Softplus, Softsign, Tanh, ThresholdedRelu"
    )
