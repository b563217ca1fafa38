"""Modules and files, compared with the real importer and run by LiteRT."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pymicro_wakeword
import pytest

from tests.conformance.answers import Accepted, Crashed
from tests.conformance.real_mlir import Mlir
from tests.unit.frontends.tflite.formulas.cases import Case, cases
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.frontends.tflite.files.model import (
    ABSENT,
    Model,
    Operator,
    Subgraph,
    Tensor,
)
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.runtime.loading import apply_passes, parse_module

from .litert import LiteRT
from .models import DTYPES, model_of

PATHS = sorted(Path(pymicro_wakeword.__file__).parent.rglob("*.tflite"))
STEPS = 20


@pytest.fixture(scope="module")
def single_ops(request: pytest.FixtureRequest) -> Sequence[Case]:
    """Files of one op."""
    step = 1 if request.config.getoption("--all-cases") else 7
    return [*cases()][::step]


def steps(file: bytes) -> Sequence[Sequence[object]]:
    """What all ops of a model give in steps with random arguments."""
    litert = LiteRT(file)
    random = np.random.default_rng(0)
    found: list[Sequence[object]] = []
    for _ in range(STEPS):
        arguments = [
            random.integers(-128, 128, shape).astype(dtype)
            for shape, dtype in litert.input_types()
        ]
        results = litert.run(*arguments)
        found.append([array.tolist() for array in (*results, *litert.op_results())])
    return found


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_text_of_real_models(path: Path, litert_converter: Mlir):
    module = read_tflite(path)
    module.verify()
    expected = litert_converter.imported(path.read_bytes())
    assert isinstance(expected, Accepted)
    assert litert_converter.run(str(module)) == expected
    # That of what is written, too.
    assert litert_converter.imported(write_tflite(module)) == expected


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_real_models_run(path: Path):
    module = read_tflite(path)
    expected = steps(path.read_bytes())
    assert len({str(step) for step in expected}) == STEPS
    assert steps(write_tflite(module)) == expected
    assert steps(write_tflite(parse_module(str(module)))) == expected


@pytest.mark.parametrize("path", PATHS[:1], ids=[path.stem for path in PATHS[:1]])
def test_real_dialect_exports_the_text(path: Path, litert_converter: Mlir):
    content = path.read_bytes()
    exported = litert_converter.exported(str(read_tflite(path)), content)
    assert isinstance(exported, Accepted)
    assert steps(base64.b64decode(exported.text)) == steps(content)


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_real_dialect_exports_models_without_variables(
    path: Path, litert_converter: Mlir
):
    content = path.read_bytes()
    module = read_tflite(content)
    apply_passes(module, "tfl-variables-to-arguments")
    accepted = litert_converter.run(str(module))
    assert isinstance(accepted, Accepted)
    # The attributes of arguments, too.
    assert accepted.text.count("tfl.next_state") == 6
    exported = litert_converter.exported(str(module), content)
    assert isinstance(exported, Accepted)
    file = base64.b64decode(exported.text)
    assert steps(file) == steps(write_tflite(module))


def has_known_difference(case: Case) -> bool:
    """Whether the text of a case is not that of the real importer, as the page says."""
    if case.op in ("SVDF", "LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"):
        return True
    if len(case.operands) > 2 and any(
        operand and operand.type == "INT64" for operand in case.operands
    ):
        return True
    return any(
        operand and operand.type == "INT4" and operand.array.size > 100
        for operand in case.operands
    )


@pytest.mark.sampled
def test_text_of_single_ops(single_ops: Sequence[Case], litert_converter: Mlir):
    compared = 0
    for case in single_ops:
        if has_known_difference(case):
            continue
        file = write_model(model_of(case))
        expected = litert_converter.imported(file)
        if isinstance(expected, Crashed):
            continue
        assert litert_converter.run(str(read_tflite(file))) == expected, case.name
        compared += 1
    assert compared > 0.9 * len(single_ops)


def file_of(operands: Sequence[Tensor], *operators: Operator) -> bytes:
    """A file whose last tensor is the result; those before that have no data are inputs."""
    indices = range(len(operands) - 1)
    made = {index for op in operators for index in op.outputs}
    inputs = [
        index
        for index in indices
        if index not in made
        and operands[index].data is None
        and not operands[index].is_variable
    ]
    return write_model(
        Model([Subgraph("main", operands, inputs, [len(operands) - 1], operators)])
    )


def test_text_of_float_state(litert_converter: Mlir):
    """The real importer does not initialize it."""
    weights = np.ones(6, np.float32).view(np.uint8)
    tensors = [
        Tensor("x", "FLOAT32", (1, 2), None, None, None),
        Tensor("features", "FLOAT32", (3, 2), None, weights, None),
        Tensor("time", "FLOAT32", (3, 2), None, weights, None),
        Tensor("state", "FLOAT32", (1, 6), None, None, None, is_variable=True),
        Tensor("time2", "FLOAT32", (3, 3), None, np.zeros(36, np.uint8), None),
        Tensor("state2", "FLOAT32", (1, 9), None, None, None, is_variable=True),
        Tensor("between", "FLOAT32", (1, 3), None, None, None),
        Tensor("features2", "FLOAT32", (3, 3), None, np.zeros(36, np.uint8), None),
        Tensor("y", "FLOAT32", (1, 3), None, None, None),
    ]
    options = {"rank": 1, "fused_activation_function": 0}
    operators = [
        Operator("SVDF", [0, 1, 2, ABSENT, 3], [6], options),
        Operator("SVDF", [6, 7, 4, ABSENT, 5], [8], options),
    ]
    file = file_of(tensors, *operators)
    module = read_tflite(file)
    assert str(module).count("{tfl.is_variable}") == 2
    expected, found = litert_converter.imported(file), litert_converter.run(str(module))
    assert isinstance(expected, Accepted)
    assert isinstance(found, Accepted)
    values = r"dense<[^>]*> (?=: tensor<\S+>}> {tfl.is_variable})"
    assert re.sub(values, "", found.text) == re.sub(values, "", expected.text)
    assert str(read_tflite(write_tflite(module))) == str(module)


@pytest.mark.parametrize("has_rank", [True, False])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_text_of_handles(shape: Sequence[int], has_rank: bool, litert_converter: Mlir):
    tensors = [
        Tensor("x", "FLOAT32", (2,), None, None, None),
        Tensor("v", "RESOURCE", shape, None, None, None, has_rank=has_rank),
        Tensor("y", "FLOAT32", (2,), None, None, None),
    ]
    file = file_of(
        tensors,
        Operator("VAR_HANDLE", [], [1], {"container": "", "shared_name": "v"}),
        Operator("ASSIGN_VARIABLE", [1, 0], []),
        Operator("READ_VARIABLE", [1], [2]),
    )
    module = read_tflite(file)
    module.verify()
    expected = litert_converter.imported(file)
    assert isinstance(expected, Accepted)
    assert litert_converter.run(str(module)) == expected
    assert litert_converter.imported(write_tflite(module)) == expected


@pytest.mark.sampled
def test_single_ops_run(single_ops: Sequence[Case]):
    for case in single_ops:
        file = write_tflite(read_tflite(write_model(model_of(case))))
        litert = LiteRT(file, is_reference=case.op != "ELU")
        arguments = [
            operand.array.astype(DTYPES[operand.type])
            for operand in case.operands
            if operand and not (operand.is_constant or operand.is_variable)
        ]
        results = litert.run(*arguments)
        for result, expected in zip(results, case.results, strict=True):
            assert (result == expected.array).all(), case.name
