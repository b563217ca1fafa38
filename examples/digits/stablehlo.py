"""
The networks as quantized StableHLO, computed with floats or with integers only.

`python -m examples.digits.stablehlo` prints the accuracy of each form.

A layer multiplies 8-bit stored values, adds a 32-bit bias to the 32-bit sums, and
requantizes the sums to 8 bits. The scale of the sums and of the bias is the scale of the
input times the scale of the weights; it is per-axis if the weights are per-axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import ModuleOp, TensorType

from xdsl_quant.dialects.quant import QuantizeCastOp, uniform_type
from xdsl_quant.dialects.quant.types import UniformType
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import QuantizationParameters, quantize
from xdsl_quant.runtime.loading import apply_passes, parse_module

from .dataset import DIRECTORY, load_digits
from .networks import Network, load_networks
from .pipeline import (
    VARIANTS,
    Ranges,
    Variant,
    calibrate_network,
    count_correct,
    network_inputs,
    quantize_network,
    weight_parameters,
)
from .train import ARCHITECTURES

Stored = NDArray[np.int8]

_INTEGER = (
    "stablehlo-legalize-quant-to-integer,convert-stablehlo-to-linalg,"
    "strip-func-quant-types,canonicalize"
)

FORMS = {
    "qdq": (
        "stablehlo-legalize-quantized-op-to-qdq,stablehlo-casts-to-quant,"
        "lower-quant-ops{rounding-mode=nearest-even},"
        "convert-stablehlo-to-linalg,strip-func-quant-types,canonicalize"
    ),
    "integer": _INTEGER,
    "fixed-point scales": f"quant-scales-to-fixed-point,{_INTEGER}",
}
"""
The passes for each form: floats between casts, as StableHLO specifies; integers; integers
with fixed-point scales.
"""

STABLEHLO_VARIANTS = VARIANTS[:2]
"""Granularity of the 8-bit weights: one scale, or one scale per channel."""


# The text


@dataclass(frozen=True)
class Layer:
    """A layer, and the quantization parameters of its weights, input and result."""

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]

    stride: int
    """Stride of a convolution."""

    has_relu: bool

    input: QuantizationParameters
    weight: QuantizationParameters
    result: QuantizationParameters

    @property
    def is_dense(self) -> bool:
        """True for a matrix product, False for a convolution."""
        return self.weights.ndim == 2

    def sums(self, channel_axis: int) -> QuantizationParameters:
        """Return the parameters of the sums, with channels along `channel_axis`."""
        is_per_axis = self.weight.quantized_dimension is not None
        return QuantizationParameters(
            self.input.scales * self.weight.scales,
            storage="i32",
            quantized_dimension=channel_axis if is_per_axis else None,
        )

    def result_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the result for an input of this shape."""
        *window, _, channels = self.weights.shape
        count, *sizes = shape
        pixels = [
            (size - length) // self.stride + 1
            for size, length in zip(sizes, window, strict=False)
        ]
        return (count, *pixels, channels)


def quantized_layers(name: str, ranges: Ranges, variant: Variant) -> list[Layer]:
    """Return the layers of a network, with the types from calibration."""
    network = load_networks()[name]
    module = quantize_network(network, ranges, variant)
    weights = weight_parameters(module, network)
    activations = [
        QuantizationParameters.from_type(
            cast("TensorType[UniformType]", op.result.type).element_type
        )
        for op in module.walk()
        if isinstance(op, QuantizeCastOp) and not isinstance(op.input.owner, ConstantOp)
    ]
    with np.load(DIRECTORY / f"{name}.npz") as file:
        biases = [file[f"bias_{index}"] for index in range(len(weights))]
    return [
        Layer(
            weights=values.values,
            bias=bias,
            stride=stride,
            has_relu=index < len(weights) - 1,
            input=activations[index],
            weight=parameters,
            result=activations[index + 1],
        )
        for index, ((values, parameters), bias, stride) in enumerate(
            zip(weights, biases, ARCHITECTURES[name].strides, strict=True)
        )
    ]


def stablehlo_text(network: Network, layers: Sequence[Layer], count: int) -> str:
    """Return a module with a function `main` from `count` images to logits, as `i8`."""
    code = _Code()
    images = _Value("%images", (count, *network.image_shape), layers[0].input)
    value = images
    for layer in layers:
        value = code.layer(layer, value)
    lines = "\n  ".join([*code.lines, f"return {value} : {value.type}"])
    return (
        f"func.func @main({images}: {images.type}) -> {value.type} {{\n  {lines}\n}}\n"
    )


class _Value(NamedTuple):
    name: str
    shape: tuple[int, ...]
    parameters: QuantizationParameters

    def __str__(self) -> str:
        return self.name

    @property
    def type(self) -> str:
        return _tensor(self.shape, str(uniform_type(self.parameters)))


def _tensor(shape: Sequence[int], element_type: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element_type}>"


class _Code:
    """Builder of the lines of a function; each line defines a value."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def layer(self, layer: Layer, value: _Value) -> _Value:
        """Add a layer and return its result."""
        if layer.is_dense and len(value.shape) > 2:
            flat = (value.shape[0], int(np.prod(value.shape[1:])))
            value = self._op(f"reshape {value}", [value], flat, value.parameters)
        shape = layer.result_shape(value.shape)
        channels = len(shape) - 1
        sums = layer.sums(channels)
        weights = self._constant(layer.weights, layer.weight)
        bias = self._constant(layer.bias, layer.sums(0))
        product = (
            f"dot_general {value}, {weights}, contracting_dims = [1] x [0]"
            if layer.is_dense
            else f"convolution({value}, {weights}) {_window(layer.stride)}"
        )
        products = self._op(product, [value, weights], shape, sums)
        broadcast = f"broadcast_in_dim {bias}, dims = [{channels}]"
        biases = self._op(broadcast, [bias], shape, sums)
        biased = self._op(f"add {products}, {biases}", [products, biases], shape, sums)
        result = self._op(f"uniform_quantize {biased}", [biased], shape, layer.result)
        if not layer.has_relu:
            return result
        zeros = self._constant(np.zeros(shape, np.float32), layer.result)
        relu = f"maximum {result}, {zeros}"
        return self._op(relu, [result, zeros], shape, layer.result)

    def _constant(
        self, values: NDArray[np.float32], parameters: QuantizationParameters
    ) -> _Value:
        """Add a constant of quantized values."""
        stored = quantize(values, parameters)
        text = f'"0x{stored.astype(stored.dtype.newbyteorder("<")).tobytes().hex()}"'
        if (stored == stored.flat[0]).all():
            text = str(stored.flat[0])
        type_ = _tensor(stored.shape, parameters.storage)
        constant = f"constant() <{{value = dense<{text}> : {type_}}}>"
        return self._op(constant, [], stored.shape, parameters)

    def _op(
        self,
        text: str,
        operands: Sequence[_Value],
        shape: tuple[int, ...],
        parameters: QuantizationParameters,
    ) -> _Value:
        result = _Value(f"%{len(self.lines)}", shape, parameters)
        types = ", ".join(operand.type for operand in operands)
        self.lines.append(f"{result} = stablehlo.{text} : ({types}) -> {result.type}")
        return result


def _window(stride: int) -> str:
    return (
        "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        f"window = {{stride = [{stride}, {stride}]}} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
    )


# Running


def store_images(
    network: Network, layers: Sequence[Layer], images: NDArray[np.float32]
) -> Stored:
    """Quantize images for the function `main`."""
    return quantize(network_inputs(network, images), layers[0].input)


def lower(text: str, form: str) -> ModuleOp:
    """Lower a network to one of the `FORMS`, with integer arguments and results."""
    module = parse_module(text)
    apply_passes(module, FORMS[form], is_routine=True)
    return module


def run(module: ModuleOp, images: Stored, *, interpreted: bool = False) -> Stored:
    """Return the stored logits, shape `(n, 10)`, from compiled code or the interpreter."""
    if interpreted:
        return run_function(module, "main", images)[0]
    return compile(module, "main")(images)


class Difference(NamedTuple):
    """Difference of two arrays of stored logits."""

    logits: int
    """Number of different logits."""

    largest: int
    """Largest difference in units of the stored value."""


def difference(logits: Stored, others: Stored) -> Difference:
    """Compare two arrays of stored logits."""
    distances = np.abs(logits.astype(np.int16) - others)
    return Difference(int(np.count_nonzero(distances)), int(distances.max()))


# Command line


def report(name: str, network: Network) -> Iterator[str]:
    """Yield a line for each form of a network."""
    training, test = load_digits()
    ranges = calibrate_network(network, training.images)
    for variant in STABLEHLO_VARIANTS:
        layers = quantized_layers(name, ranges, variant)
        images = store_images(network, layers, test.images)
        text = stablehlo_text(network, layers, len(images))
        by_form = {form: run(lower(text, form), images) for form in FORMS}
        for form, logits in by_form.items():
            different, largest = difference(logits, by_form["qdq"])
            correct = count_correct(logits, test)
            yield (
                f"{name:<11}  {variant!s:<13}  {form:<18}  {correct:>7}"
                f"  {correct / len(images):>6.2%}  {different:>9}  {largest:>8}"
            )


def main() -> None:
    """Run the command."""
    _, test = load_digits()
    count = len(test.labels)
    print(f"{'correct':>55}{'logits that differ':>28}")
    print(
        f"network      weights        form{f'of {count}':>23}"
        f"{f'of {10 * count}':>19}  by up to"
    )
    for name, network in load_networks().items():
        for line in report(name, network):
            print(line)


if __name__ == "__main__":
    main()
