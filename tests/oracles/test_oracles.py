"""A sample of the random models that `make oracles` compares."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.conformance.answers import Crashed
from tests.conformance.real_mlir import Mlir
from tests.unit.frontends.tflite.files.litert_process import LiteRTProcess
from tests.unit.frontends.tflite.files.models import inputs_of, model_of
from tests.unit.frontends.tflite.files.test_conformance import has_known_difference
from tests.unit.frontends.tflite.formulas.cases import Tensor, cases
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tflite.files.writer import write_model

from . import default_kernels, float_networks, networks, products, recurrent
from .__main__ import complaints
from .comparing import (
    DECLARATIONS,
    WITHOUT_ORACLE,
    compare,
    compare_float_networks,
    compare_networks,
    with_shapes,
)
from .drawing import Draw
from .networks_in_tosa import tosa_steps
from .tally import Tally

DRAWS = 2
SEED = 1


@pytest.fixture(scope="module")
def process() -> Iterator[LiteRTProcess]:
    pytest.importorskip("ai_edge_litert", reason="pip install ai-edge-litert")
    with LiteRTProcess() as process:
        yield process


@pytest.fixture(scope="module")
def mlir() -> Iterator[Mlir]:
    with Mlir() as worker:
        yield worker


@pytest.mark.sampled(2)
@pytest.mark.parametrize("op", DECLARATIONS)
def test_random_models(op: str, process: LiteRTProcess):
    for index, kind in enumerate(DECLARATIONS[op].kinds):
        # One kind of operands is compiled, too.
        step = DRAWS * (index + 1)
        tally = compare(process, op, kind, DRAWS, SEED, compiled_step=step)
        assert not tally.mismatches
        assert tally.draws >= DRAWS


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["i8", "u8"])
@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"])
def test_large_products_in_tosa(op: str, kind: str, process: LiteRTProcess, mlir: Mlir):
    draw = Draw(op, kind, SEED, products.LARGE_STEP - 1)
    case = DECLARATIONS[op].make(draw)
    run = process.run(write_model(model_of(case)), inputs_of(case))
    case = products.enlarged(draw, case, run.results[0].size)
    inputs = inputs_of(case)
    run = process.run(write_model(model_of(case)), inputs)
    assert run.results[0].size >= products.LARGE_COUNT
    file = write_model(model_of(with_shapes(case, run.results)))
    for result, expected in zip(
        tosa_steps(mlir)(file)(*inputs), run.results, strict=True
    ):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("kind", networks.KINDS)
def test_random_networks(kind: str, process: LiteRTProcess, mlir: Mlir):
    tally = compare_networks(
        process, mlir, kind, DRAWS, SEED, compiled_step=DRAWS, tosa_step=2
    )
    assert not tally.mismatches
    assert tally.draws == DRAWS
    assert tally.compiled
    assert tally.tosa


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", default_kernels.KINDS)
def test_default_kernels(kind: str):
    tally = default_kernels.compare_default_kernels(
        kind, DRAWS, SEED, compiled_step=DRAWS
    )
    assert not tally.mismatches
    assert tally.draws == DRAWS
    assert tally.compiled


@pytest.mark.sampled(0)
def test_random_networks_of_floats(process: LiteRTProcess, mlir: Mlir):
    draws = 12
    tally = compare_float_networks(
        process, mlir, "f32", draws, SEED, compiled_step=4, tosa_step=4
    )
    assert not tally.mismatches
    assert not tally.refused
    assert tally.values > 100 * draws
    assert tally.compiled == tally.tosa == 3


def test_networks_of_floats_that_differ_are_named(
    process: LiteRTProcess, mlir: Mlir, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(float_networks, "TOLERANCE", -1.0)
    tally = compare_float_networks(process, mlir, "f32", 1, SEED)
    assert len(tally.mismatches) == 2
    assert tally.mismatches[0].startswith(
        "FLOAT_NETWORK f32, seed 1, draw 0: interpret_steps: t1: 0.0 of "
    )


def test_networks_have_several_ops(process: LiteRTProcess):
    """Branches, state, and layers that are refused and leave nothing."""
    nets = [
        networks.network(Draw(networks.NAME, "i8 state", SEED, index), process)[0]
        for index in range(DRAWS)
    ]
    assert all(len(net.operators) > 5 for net in nets)
    assert all(net.initial_values or "SVDF" in codes(net) for net in nets)
    net = nets[0]
    counts = len(net.tensors), len(net.operators), len(net.steps[0])

    def refused(net: networks.Network, x: Tensor) -> None:
        new = net.draw.like(x, x.array.shape)
        net.op("ADD", [x, new], net.draw.result("i32"))

    assert "ADD: refused" in (net.attempt(refused, net.any_value()) or "")
    assert counts == (len(net.tensors), len(net.operators), len(net.steps[0]))


def codes(net: networks.Network) -> list[str]:
    return [operator.code for operator in net.operators]


def test_text_of_the_real_importer(process: LiteRTProcess, litert_converter: Mlir):
    """Of a model of each op and each kind of operands."""
    different: list[str] = []
    compared = 0
    for op, declaration in DECLARATIONS.items():
        for kind in declaration.kinds:
            draw = Draw(op, kind, SEED, 0)
            case = declaration.make(draw)
            inputs = inputs_of(case)
            run = process.run(write_model(model_of(case)), inputs, op != "ELU")
            if run.outcome != "runs":
                continue
            case = with_shapes(case, run.results)
            file = write_model(model_of(case))
            expected = litert_converter.imported(file)
            is_folded = op in ("RESHAPE", "PADV2") and case.results[0].array.shape == (
                inputs[0].shape
            )
            if has_known_difference(case) or is_folded or isinstance(expected, Crashed):
                continue
            compared += 1
            if litert_converter.run(str(read_tflite(file))) != expected:
                different.append(draw.name)
    assert not different
    assert compared > 150


def test_all_ops_with_integer_kernels_are_declared():
    ops = {case.op for case in cases()} | {*recurrent.oracle}
    assert ops == {*DECLARATIONS, *WITHOUT_ORACLE}


def test_complaints():
    assert not complaints(Tally("ADD", "i8", draws=200, values=5000, ends=2500), 200)
    assert complaints(Tally("ADD", "i8", draws=200, values=5000, ends=2501), 200)
    assert complaints(Tally("ADD", "i8", draws=199, values=5000), 200)
    found = complaints(Tally("ADD", "i8", draws=1, mismatches=["wrong"]), 1)
    assert found == ["wrong"]


def test_models_that_are_not_run_are_named(process: LiteRTProcess):
    """A kind that the kernel does not have."""
    tally = compare(process, "SPACE_TO_DEPTH", "i16", 2)
    assert tally.draws == 0
    assert tally.refused[0].startswith("SPACE_TO_DEPTH i16, seed 0, draw 0: refused: ")


def test_aborts_are_survived(process: LiteRTProcess):
    """A result whose scale is too small for the kernel of ADD ends its process."""
    draw = Draw("ADD", "i8", 0, 0)
    case = DECLARATIONS["ADD"].make(draw)
    files = [
        write_model(model_of(case._replace(results=[draw.result("i8", scale)])))
        for scale in (1e-12, case.results[0].scales[0])
    ]
    outcomes = [process.run(file, inputs_of(case)).outcome for file in files]
    assert outcomes == ["aborts", "runs"]
