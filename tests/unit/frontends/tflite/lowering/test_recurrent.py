"""LSTMs and low-rank filters, compared with LiteRT over several calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.utils.exceptions import InterpretationError, VerifyException

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from tests.oracles.drawing import Draw
from tests.oracles.products import svdf
from tests.oracles.recurrent import NARROW, lstm
from tests.unit.frontends.tflite.files.litert import LiteRT
from tests.unit.frontends.tflite.files.models import inputs_of, model_of
from tests.unit.frontends.tflite.formulas.cases import Case
from xdsl_quant.dialects.tfl import LSTMOp, UnidirectionalSequenceLSTMOp
from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.frontends.tflite import TFLiteFileError, read_tflite, write_tflite
from xdsl_quant.frontends.tflite.dialect.attributes import LSTMKernel, LSTMKernelAttr
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.frontends.tflite.formulas.fixed_point import (
    logistic_of_16_bits,
    tanh_of_16_bits,
)
from xdsl_quant.machines.numpy import StatefulModel
from xdsl_quant.numerics.primitives import scanned
from xdsl_quant.runtime.loading import apply_passes
from xdsl_quant.runtime.stateful_function import StatefulFunction

Array = NDArray[Any]
Step = Callable[..., Sequence[Array]]

LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"
CELL = "LSTM"
KINDS = ("i8", "f32", "f32 x i8")


def sized(case: Case, make: Callable[[Case], bytes]) -> Case:
    """A case whose result has the shape that the runtime gives it."""
    inputs = inputs_of(case)
    (array,) = LiteRT(make(case)).run(*inputs)
    (result,) = case.results
    return case._replace(results=[result._replace(array=np.zeros(array.shape))])


def content_of(case: Case) -> bytes:
    return write_model(model_of(case))


def drawn(op: str, kind: str, index: int) -> Case:
    make = svdf if op == "SVDF" else lstm
    return sized(make(Draw(op, kind, 0, index)), content_of)


def interpreted(file: bytes) -> Step:
    return StatefulModel(read_tflite(file)).step


def compiled(file: bytes) -> Step:
    return StatefulFunction(read_tflite(file), compile).step


def check_steps(op: str, kind: str, index: int, way: Callable[[bytes], Step]) -> None:
    case = drawn(op, kind, index)
    file, inputs = content_of(case), inputs_of(case)
    model, step = LiteRT(file), way(file)
    for _ in range(3):
        (expected,) = (array.copy() for array in model.run(*inputs))
        (result,) = step(*inputs)
        if kind in ("i8", NARROW):
            np.testing.assert_array_equal(result, expected)
        else:
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        *((op, kind) for op in ("SVDF", LSTM, CELL) for kind in KINDS),
        (CELL, NARROW),
    ],
)
def test_states_of_several_calls(op: str, kind: str):
    for index in range(4):
        check_steps(op, kind, index, interpreted)


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        (LSTM, "i8"),
        (LSTM, "f32 x i8"),
        ("SVDF", "f32 x i8"),
        (CELL, NARROW),
    ],
)
def test_states_of_several_calls_compiled(op: str, kind: str):
    check_steps(op, kind, 1, compiled)


def check_written(case: Case) -> None:
    """The runtime computes the same with the file that is written of a file's module."""
    file = content_of(case)
    written = write_tflite(read_tflite(file))
    inputs = inputs_of(case)
    for results in zip(
        LiteRT(file).run(*inputs), LiteRT(written).run(*inputs), strict=True
    ):
        np.testing.assert_array_equal(*results)
    assert write_tflite(read_tflite(written)) == written


def test_written_lstm_of_narrow_sums():
    """The real dialect has no properties for its 12 intermediate tensors."""
    check_written(drawn(CELL, NARROW, 2))


@pytest.mark.parametrize("op", [LSTM, CELL])
@pytest.mark.parametrize("kind", KINDS)
def test_files(op: str, kind: str, litert_converter: Mlir):
    """The runtime computes the same with written files; the text is the real one."""
    case = drawn(op, kind, 2)
    check_written(case)
    file = content_of(case)
    module = read_tflite(file)
    real, ours = litert_converter.imported(file), litert_converter.run(str(module))
    assert isinstance(real, Accepted)
    assert isinstance(ours, Accepted)
    pairs = zip(real.text.splitlines(), ours.text.splitlines(), strict=True)
    different = [pair[1] for pair in pairs if pair[0] != pair[1]]
    # Memory of states, which the real importer does not write.
    assert all("_const" in line or "_qconst" in line for line in different)
    assert len(different) <= 2


def test_lowered_lstm_is_a_loop():
    module = read_tflite(content_of(drawn(LSTM, "i8", 0)))
    apply_passes(module, "tfl-variables-to-arguments,convert-tfl-to-linalg")
    names = [op.name for op in module.walk()]
    assert names.count("scf.for") == 1
    assert not any(name.startswith("tfl.") for name in names)


def test_hidden_states_of_slightly_other_parameters_than_the_outputs():
    """Without a projection they are the outputs, as in LiteRT."""
    case = first("i8", lambda case: case.operands[16] is None)
    *gates, hidden = case.intermediates
    other = hidden._replace(
        scales=[1.004 * hidden.scales[0]], zero_points=[hidden.zero_points[0] + 1]
    )
    file, inputs = (
        content_of(case._replace(intermediates=[*gates, other])),
        inputs_of(case),
    )
    (expected,) = LiteRT(file).run(*inputs)
    np.testing.assert_array_equal(interpreted(file)(*inputs)[0], expected)
    assert (expected != LiteRT(content_of(case)).run(*inputs)[0]).any()


def test_hidden_states_of_other_parameters_than_the_outputs():
    """Without a projection they are the outputs; the kernel would shift all of these."""
    case = first("i8", lambda case: case.operands[16] is None)
    *gates, hidden = case.intermediates
    other = [*gates, hidden._replace(scales=[2 * hidden.scales[0]])]
    result, expected = (
        interpreted(content_of(each))(*inputs_of(case))[0]
        for each in (case._replace(intermediates=other), case)
    )
    np.testing.assert_array_equal(result, expected)


# Arithmetic


def test_functions_of_16_bits():
    values = np.arange(-(1 << 15), 1 << 15)
    exact = 1 / (1 + np.exp(-values / 2**12))
    assert np.abs(logistic_of_16_bits(values) - exact * 2**15).max() < 7
    for bits in range(7):
        exact = np.tanh(values * 2.0 ** (bits - 15))
        assert np.abs(tanh_of_16_bits(values, bits) - exact * 2**15).max() < 13


def test_scan():
    def step(x: Array, total: Array, count: Array) -> tuple[Array, Array]:
        return total + x, count + 1

    inputs = np.array([[1, 2], [3, 4], [5, 6]])
    results = scanned(inputs, step, np.array([10, 20]), np.array(0))
    assert [result.tolist() for result in results] == [
        [[11, 22], [14, 26], [19, 32]],
        [19, 32],
        3,
    ]


# Errors


def first(kind: str, has: Callable[[Case], bool], op: str = LSTM) -> Case:
    """The first LSTM with something."""
    cases = (lstm(Draw(op, kind, 0, index)) for index in range(99))
    return sized(next(filter(has, cases)), content_of)


def changed(case: Case, index: int, **fields: Any) -> Case:
    operands = [*case.operands]
    operand = operands[index]
    assert operand is not None
    operands[index] = operand._replace(**fields)
    return case._replace(operands=operands)


def with_diagonal(case: Case) -> Case:
    for index in range(5, 9):
        if (weights := case.operands[index]) is not None:
            case = changed(case, index, array=weights.array[:, 0])
    return case


UNSUPPORTED: list[tuple[str, Callable[[Case], Case], str]] = [
    (
        "i8",
        lambda case: changed(case, 19, scales=[0.001]),
        "has cell states of scale 0.001.*; expected a power of two from 2",
    ),
    (
        "i8",
        lambda case: changed(case, 18, zero_points=[99]),
        "has outputs whose scale or zero point is not that of the output state",
    ),
    (
        "i8",
        lambda case: changed(case, 2, zero_points=[1]),
        "has an operand #2 of type '.*'; expected storage 'i8' and zero point 0",
    ),
    (
        "i8",
        lambda case: case._replace(intermediates=()),
        "has no intermediate types, which the integer kernel requires",
    ),
    (
        "f32 x i8",
        lambda case: changed(case, 2, zero_points=[1]),
        "has weights of storage 'i8' and zero point 1 with float activations; "
        "expected 'i8' and 0",
    ),
    ("f32", with_diagonal, "has diagonal recurrent weights"),
]


@pytest.mark.parametrize(("kind", "change", "message"), UNSUPPORTED)
def test_unsupported(kind: str, change: Callable[[Case], Case], message: str):
    case = change(first(kind, lambda case: True))
    file = content_of(case)
    with pytest.raises(InterpretationError, match=f"lstm' op {message}"):
        interpreted(file)(*inputs_of(case))
    with pytest.raises(CompilationError, match=f"lstm' op {message}"):
        compiled(file)


def without(case: Case, *indices: int) -> Case:
    operands = [*case.operands]
    for index in indices:
        operands[index] = None
    return case._replace(operands=operands)


def with_operands(case: Case, likes: dict[int, int]) -> Case:
    """A case with further operands, like those of other indices."""
    operands = [*case.operands]
    for index, like in likes.items():
        operands[index] = operands[like]
    return case._replace(operands=operands)


NARROW_UNSUPPORTED: list[tuple[Callable[[Case], Case], str]] = [
    (
        lambda case: with_operands(case, {1: 2, 5: 6, 12: 13, 20: 21}),
        "has an input gate of its own",
    ),
    (lambda case: with_operands(case, {10: 21, 11: 21}), "has peephole weights"),
    (lambda case: without(case, 21, 22, 23), "has no layer normalization"),
    (lambda case: without(case, 17), "has no projection bias"),
    (
        lambda case: changed(case, 19, scales=[2**-14]),
        "has cell states of scale 6.1.*e-05; expected 2",
    ),
]


@pytest.mark.parametrize(("change", "message"), NARROW_UNSUPPORTED)
def test_unsupported_narrow_sums(change: Callable[[Case], Case], message: str):
    """LiteRT's kernel ignores these parts, or reads memory that is not there."""
    case = first(NARROW, lambda case: True, CELL)
    with pytest.raises(InterpretationError, match=f"'tfl.lstm' op {message}"):
        interpreted(content_of(change(case)))(*inputs_of(case))


def test_basic_kernel():
    case = drawn(CELL, "f32", 0)
    file = content_of(case._replace(options={**case.options, "kernel_type": 1}))
    with pytest.raises(
        TFLiteFileError, match="has kernel type BASIC, which is unsupported"
    ):
        read_tflite(file)
    module = read_tflite(content_of(case))
    (op,) = (op for op in module.walk() if isinstance(op, LSTMOp))
    op.properties["kernel_type"] = LSTMKernelAttr(LSTMKernel.BASIC)
    with pytest.raises(InterpretationError, match="has kernel type BASIC"):
        StatefulModel(module).step(*inputs_of(case))


def test_some_types_of_intermediate_tensors_are_not_written():
    module = read_tflite(content_of(drawn(CELL, NARROW, 0)))
    (op,) = (op for op in module.walk() if isinstance(op, LSTMOp))
    del op.properties["cell_gate_intermediate"]
    with pytest.raises(
        TFLiteFileError,
        match="states 11 types of intermediate tensors; expected all of 5 or 12, or none",
    ):
        write_tflite(module)


def test_files_with_other_intermediate_tensors():
    case = first("i8", lambda case: True)
    file = content_of(case._replace(intermediates=case.intermediates[:3]))
    with pytest.raises(
        TFLiteFileError, match=r"has 3 intermediate tensors.*expected 5"
    ):
        read_tflite(file)


def test_no_file_has_next_states():
    module = read_tflite(content_of(first("i8", lambda case: True)))
    apply_passes(module, "tfl-variables-to-arguments")
    (op,) = (op for op in module.walk() if isinstance(op, UnidirectionalSequenceLSTMOp))
    assert [value.type for value in op.next_states] == [s.type for s in op.states]
    swapped = [*op.operands[:18], *reversed(op.states), *op.operands[20:]]
    wrong = type(op).create(
        operands=swapped, result_types=op.result_types, properties=op.properties
    )
    with pytest.raises(
        VerifyException,
        match="requires the next states to have the types of the states",
    ):
        wrong.verify()
    wrong.erase()
    with pytest.raises(TFLiteFileError, match="has its next state as a result"):
        write_tflite(module)
