"""The networks from floats to integers for hardware targets."""

from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Operation

from examples.digits.dataset import load_digits
from examples.digits.networks import load_networks
from examples.digits.pipeline import Variant, calibrate_network, count_correct
from examples.digits.propagation import (
    FLOWS,
    LINALG_INT8,
    Dialect,
    Flow,
    add_statistics,
    calibrate_activations,
    float_kernels,
    float_module,
    quantize_for_target,
    run_network,
)
from examples.digits.stablehlo import (
    lower,
    quantized_layers,
    run,
    stablehlo_text,
    store_images,
)
from xdsl_quant.calibration import Statistics
from xdsl_quant.dialects.quant import RegionOp, ScaledQuantizedType
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.numerics import quantize
from xdsl_quant.runtime.loading import apply_passes
from xdsl_quant.transforms.propagation.quant_propagate import propagate
from xdsl_quant.transforms.propagation.target_files import read_target

TRAINING, TEST = load_digits()
NETWORKS = load_networks()

FLOAT = {"mlp": 878, "convolution": 887}
"""How many digits of the test half floats read correctly."""

KERNELS_AND_CORRECT = {
    ("mlp", "stablehlo-int8"): (6, 877),
    ("mlp", LINALG_INT8): (3, 877),
    ("mlp", "mac-array"): (3, 875),
    ("convolution", "stablehlo-int8"): (7, 887),
    ("convolution", LINALG_INT8): (4, 887),
    ("convolution", "mac-array"): (4, 888),
}

for_each_flow = pytest.mark.parametrize(
    ("name", "flow"), [*product(NETWORKS, FLOWS)], ids=str
)


@cache
def statistics(name: str, dialect: Dialect) -> Statistics:
    return calibrate_activations(name, dialect, TRAINING.images)


class Result(NamedTuple):
    """A network of integers, and what it computes."""

    module: ModuleOp
    kernel_count: int
    logits: NDArray[np.float32]


@cache
def result(name: str, flow: Flow) -> Result:
    module = float_module(name, flow.dialect, len(TEST.labels))
    count = quantize_for_target(module, statistics(name, flow.dialect), flow)
    return Result(module, count, run_network(module, name, TEST.images))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "dialect"), [*product(NETWORKS, ("stablehlo", "linalg"))]
)
def test_floats(name: str, dialect: Dialect):
    module = float_module(name, dialect, len(TEST.labels))
    assert count_correct(run_network(module, name, TEST.images), TEST) == FLOAT[name]


@pytest.mark.sampled(9)
@for_each_flow
def test_correct_digits(name: str, flow: Flow):
    found = result(name, flow)
    count, correct = KERNELS_AND_CORRECT[name, flow.target]
    assert found.kernel_count == count
    assert float_kernels(found.module) == []
    assert count_correct(found.logits, TEST) == correct


@pytest.mark.sampled(9)
@for_each_flow
def test_only_images_and_logits_are_floats(name: str, flow: Flow):
    module = result(name, flow).module.clone()
    apply_passes(module, "canonicalize")
    assert [
        op.name.split("_")[-1]
        for op in module.walk()
        if has_floats(op) and op.name != "tensor.dim"
    ] == (
        ["quantize", "dequantize", "func.return"]
        if flow.mode == "fixed"
        else ["quant.qcast", "quant.dcast", "func.return"]
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NETWORKS)
def test_any_number_of_images(name: str):
    module, _, logits = result(name, Flow("linalg", LINALG_INT8, "codegen"))
    for count in (0, 1, 7):
        found = run_network(module, name, TEST.images[:count])
        assert np.array_equal(found, logits[:count])


def has_floats(op: Operation) -> bool:
    return any(
        isinstance(scalar_or_element_type(value.type), AnyFloat)
        for value in (*op.operands, *op.results)
    )


@pytest.mark.sampled(3)
@for_each_flow
def test_interpreter_and_compiled_code_agree(name: str, flow: Flow):
    module = result(name, flow).module
    interpreted = run_network(module, name, TEST.images, interpreted=True)
    assert np.array_equal(interpreted, result(name, flow).logits)


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("name", "flow"),
    [*product(NETWORKS, (flow for flow in FLOWS if flow.target != "mac-array"))],
    ids=str,
)
def test_same_integers_as_with_parameters_for_each_op(name: str, flow: Flow):
    """Propagation finds the parameters that calibration of layers finds."""
    ranges = calibrate_network(NETWORKS[name], TRAINING.images)
    layers = quantized_layers(name, ranges, Variant(8, "per-axis"))
    text = stablehlo_text(NETWORKS[name], layers, len(TEST.labels))
    images = store_images(NETWORKS[name], layers, TEST.images)
    expected = run(lower(text, "integer"), images)
    stored = quantize(result(name, flow).logits, layers[-1].result)
    assert np.array_equal(stored, expected)


@pytest.mark.parametrize("name", NETWORKS)
def test_scales_of_the_array_are_powers_of_two(name: str):
    module = float_module(name, "linalg", len(TEST.labels))
    add_statistics(module, statistics(name, "linalg"))
    apply_passes(
        module, "quant-fuse-kernels{target=mac-array},quant-constraints-to-specs"
    )
    report = propagate(module, read_target("mac-array"))
    assert [*report.rescales] == []
    scales = [
        scale
        for region in module.walk()
        if isinstance(region, RegionOp)
        for spec in region.specs
        if isinstance(spec, ScaledQuantizedType)
        for scale in spec.scale_array()
    ]
    mantissas, _ = np.frexp(scales)
    assert {*mantissas} == {0.5}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NETWORKS)
def test_modes_agree(name: str):
    fixed, codegen = (
        result(name, flow) for flow in FLOWS if flow.target == "stablehlo-int8"
    )
    assert np.array_equal(fixed.logits, codegen.logits)
