"""Two networks that were trained on real images, quantized."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType

from examples.digits.dataset import DIRECTORY, Digits, load_digits
from examples.digits.demo import Result, measure_variant
from examples.digits.networks import Network, load_networks
from examples.digits.pipeline import (
    VARIANTS,
    Ranges,
    Variant,
    calibrate_network,
    choose_block_parameters,
    compute_logits,
    count_correct,
    float_bytes,
    load_module,
    quantize_network,
    store_weights,
    weight_parameters,
)
from examples.digits.train import Layer, forward
from xdsl_quant.numerics import quantize

TRAINING, TEST = load_digits()
NETWORKS = load_networks()

# Bytes of the weights, and how many digits of the test half are read correctly.
FLOAT = {"mlp": (25856, 878), "convolution": (20288, 887)}
QUANTIZED = {
    ("mlp", "i8 per-tensor"): (6476, 880),
    ("mlp", "i8 per-axis"): (6888, 877),
    ("mlp", "i4 per-tensor"): (3244, 858),
    ("mlp", "i4 per-axis"): (3656, 881),
    ("mlp", "i4 sub-channel"): (4848, 872),
    ("convolution", "i8 per-tensor"): (5084, 887),
    ("convolution", "i8 per-axis"): (5304, 887),
    ("convolution", "i4 per-tensor"): (2548, 875),
    ("convolution", "i4 per-axis"): (2768, 875),
    ("convolution", "i4 sub-channel"): (3832, 886),
}

# The window, the number of output channels and the stride of each layer.
LAYERS = {
    "mlp": (((8, 8), 64, 1), ((1, 1), 32, 1), ((1, 1), 10, 1)),
    "convolution": (((3, 3), 16, 1), ((2, 2), 32, 2), ((3, 3), 10, 1)),
}

for_each_network = pytest.mark.parametrize("name", NETWORKS)
for_each_variant = pytest.mark.parametrize(
    ("name", "variant"), [*product(NETWORKS, VARIANTS)], ids=str
)


@cache
def ranges(name: str) -> Ranges:
    return calibrate_network(NETWORKS[name], TRAINING.images)


@cache
def result(name: str, variant: Variant) -> Result:
    return measure_variant(NETWORKS[name], ranges(name), variant, TEST)


def values_by_numpy(name: str, digits: Digits) -> list[NDArray[np.float32]]:
    """The images, the result of each layer, and the logits."""
    with np.load(DIRECTORY / f"{name}.npz") as file:
        layers = [
            Layer(
                file[f"weights_{index}"].reshape(*window, -1, channels),
                file[f"bias_{index}"],
                stride,
            )
            for index, (window, channels, stride) in enumerate(LAYERS[name])
        ]
    return forward(layers, digits.images)


# The data


def test_digits():
    assert TRAINING.images.shape == (898, 8, 8, 1)
    assert TEST.images.shape == (899, 8, 8, 1)
    for digits in (TRAINING, TEST):
        assert len(digits.labels) == len(digits.images)
        assert sorted(set(digits.labels.tolist())) == [*range(10)]
        # Pixels are counts from 0 to 16.
        assert np.array_equal(digits.images * 16, np.round(digits.images * 16))
        assert (digits.images.min(), digits.images.max()) == (0, 1)


def test_halves_have_no_image_in_common():
    training, test = (
        {i.tobytes() for i in digits.images} for digits in (TRAINING, TEST)
    )
    assert training.isdisjoint(test)


# The networks as they were trained


@for_each_network
def test_float_network_is_the_one_that_was_trained(name: str):
    network = NETWORKS[name]
    logits = compute_logits(load_module(network), network, TEST.images)
    expected = values_by_numpy(name, TEST)[-1].reshape(-1, 10)
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-4)
    assert (float_bytes(network), count_correct(logits, TEST)) == FLOAT[name]


@for_each_network
def test_interpreter_and_compiled_code_agree(name: str):
    network = NETWORKS[name]
    module = load_module(network)
    interpreted = compute_logits(module, network, TEST.images, interpreted=True)
    assert np.array_equal(interpreted, compute_logits(module, network, TEST.images))


@pytest.mark.sampled(2)
@for_each_network
def test_any_number_of_images(name: str):
    network = NETWORKS[name]
    quantized = quantize_network(network, ranges(name), Variant(8, "per-axis"))
    store_weights(quantized)
    for module in (load_module(network), quantized):
        all_logits = compute_logits(module, network, TEST.images)
        for count in (0, 1, 7):
            logits = compute_logits(module, network, TEST.images[:count])
            assert np.array_equal(logits, all_logits[:count])


# Calibration


@for_each_network
def test_ranges_of_activations(name: str):
    statistics = ranges(name).activations
    keys = NETWORKS[name].activation_keys
    assert sorted(statistics.observations) == sorted(keys)
    assert statistics.batch_count == 8
    expected = [(x.min(), x.max()) for x in values_by_numpy(name, TRAINING)]
    found = [statistics.ranges(key).layer for key in keys]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


@for_each_network
def test_ranges_of_weights(name: str):
    weights = NETWORKS[name].weights
    statistics = ranges(name).weights
    assert sorted(statistics.observations) == [one.key for one in weights]
    for key, values, axis, _ in weights:
        channels = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
        found = statistics.ranges(key)
        assert found.layer == (values.min(), values.max())
        assert found.axis == axis
        assert found.axis_ranges == [(c.min(), c.max()) for c in channels]


def test_observer_is_that_of_activations():
    found = calibrate_network(NETWORKS["mlp"], TRAINING.images, "percentile=99")
    assert found.activations.observer == "percentile=99"
    assert found.weights.observer == "min-max"


# Quantization


@pytest.mark.sampled(6)
@for_each_variant
def test_correct_digits(name: str, variant: Variant):
    measured = result(name, variant)
    weight_bytes, correct = QUANTIZED[name, str(variant)]
    assert measured.weight_bytes == weight_bytes
    assert (measured.qdq_correct, measured.stored_correct) == (correct, correct)


@pytest.mark.sampled(0)
@for_each_network
def test_8_bits_lose_at_most_half_a_point(name: str):
    _, float_correct = FLOAT[name]
    for variant in VARIANTS:
        if variant.bits == 8:
            lost = float_correct - result(name, variant).stored_correct
            assert lost / len(TEST.labels) <= 0.005


@pytest.mark.sampled(0)
@for_each_network
def test_more_scales_mean_less_noise(name: str):
    for bits in (4, 8):
        ratios = [result(name, v).weight_sqnr for v in VARIANTS if v.bits == bits]
        assert ratios == sorted(ratios)


@pytest.mark.sampled(6)
@for_each_variant
def test_stored_weights_change_no_logit(name: str, variant: Variant):
    network = NETWORKS[name]
    module = quantize_network(network, ranges(name), variant)
    fake_quantized = compute_logits(module, network, TEST.images)
    interpreted = compute_logits(module, network, TEST.images, interpreted=True)
    assert np.array_equal(interpreted, fake_quantized)
    store_weights(module)
    stored = compute_logits(module, network, TEST.images)
    assert np.array_equal(stored, fake_quantized)
    interpreted = compute_logits(module, network, TEST.images, interpreted=True)
    assert np.array_equal(interpreted, stored)


@pytest.mark.sampled(3)
@for_each_variant
def test_weights_are_integers(name: str, variant: Variant):
    network = NETWORKS[name]
    module = quantize_network(network, ranges(name), variant)
    parameters = weight_parameters(module, network)
    store_weights(module)
    assert "quant." not in str(module)
    constants = [
        op.value
        for op in module.walk()
        if isinstance(op, ConstantOp) and isinstance(op.value, DenseIntOrFPElementsAttr)
    ]
    shapes = {weights.values.shape for weights in network.weights}
    floats = [c for c in constants if not isinstance(c.get_element_type(), IntegerType)]
    assert shapes.isdisjoint(c.get_shape() for c in floats)
    integers = [c for c in constants if isinstance(c.get_element_type(), IntegerType)]
    for constant, (weights, chosen) in zip(integers, parameters, strict=True):
        assert constant.get_element_type() == IntegerType(variant.bits)
        expected = quantize(weights.values, chosen)
        assert constant.get_shape() == expected.shape
        assert np.array_equal(constant.get_values(), expected.ravel())
        assert np.abs(expected).max() == 2 ** (variant.bits - 1) - 1


def scale_count(network: Network, variant: Variant) -> list[int]:
    match variant.granularity:
        case "per-tensor":
            return [1 for _ in network.weights]
        case "per-axis":
            return [weights.values.shape[-1] for weights in network.weights]
        case "sub-channel":
            return [
                weights.values.size // int(np.prod(weights.block_shape))
                for weights in network.weights
            ]


@pytest.mark.sampled(3)
@for_each_variant
def test_scales(name: str, variant: Variant):
    network = NETWORKS[name]
    module = quantize_network(network, ranges(name), variant)
    parameters = [chosen for _, chosen in weight_parameters(module, network)]
    assert [p.scales.size for p in parameters] == scale_count(network, variant)
    assert {p.storage for p in parameters} == {f"i{variant.bits}"}
    assert all(p.storage_min == -p.storage_max for p in parameters)
    assert not any(p.has_zero_points for p in parameters)


@for_each_network
def test_scale_of_a_block_is_that_of_its_largest_weight(name: str):
    for weights in NETWORKS[name].weights:
        parameters = choose_block_parameters(weights, 4)
        for block in np.ndindex(parameters.scales.shape):
            corners = zip(block, weights.block_shape, strict=True)
            index = tuple(slice(i * n, (i + 1) * n) for i, n in corners)
            largest = float(np.abs(weights.values[index]).max())
            assert parameters.scales[block] == largest / 7
