"""
Quantize the networks for hardware targets: statistics, kernels, propagation, export.

`python -m examples.digits.propagation` prints the accuracy of each quantized form.

```python
training, test = load_digits()
flow = Flow("stablehlo", "stablehlo-int8", "fixed")
statistics = calibrate_activations("mlp", flow.dialect, training.images)
module = float_module("mlp", flow.dialect, len(test.labels))
quantize_for_target(module, statistics, flow)
print(count_correct(run_network(module, "mlp", test.images), test))
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.calibration import Statistics, calibrate
from xdsl_quant.dialects.quant import RegionOp
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.propagation.quant_export import FLOAT_KERNELS

from .dataset import DIRECTORY, Digits, load_digits
from .networks import load_networks
from .pipeline import count_correct, load_module, network_inputs
from .train import ARCHITECTURES

Floats = NDArray[np.float32]
Dialect = Literal["stablehlo", "linalg"]

LINALG_INT8 = str(Path(__file__).with_name("linalg_int8.toml"))
"""A target for the ops of these networks, with per-channel weights."""


class Flow(NamedTuple):
    """Dialect, target and output form of a quantized network."""

    dialect: Dialect
    """Dialect of the float ops."""

    target: str
    """Name or file of a hardware target."""

    mode: Literal["fixed", "codegen"]
    """Output form: quantized ops (`fixed`) or integer arithmetic (`codegen`)."""

    def __str__(self) -> str:
        return f"{self.dialect:<9}  {Path(self.target).stem:<14}  {self.mode:<7}"


FLOWS = (
    Flow("stablehlo", "stablehlo-int8", "fixed"),
    Flow("stablehlo", "stablehlo-int8", "codegen"),
    Flow("linalg", LINALG_INT8, "codegen"),
    Flow("linalg", "mac-array", "codegen"),
)

LOWER = (
    "convert-quantized-stablehlo-to-linalg,convert-stablehlo-to-linalg,"
    "lower-quant-ops{rounding-mode=nearest-even},strip-func-quant-types,canonicalize"
)
"""The passes that lower exported casts and quantized ops to linalg."""


# The float networks


def float_module(name: str, dialect: Dialect, count: int) -> ModuleOp:
    """Return the float network: for `count` images, or for a dynamic batch in linalg."""
    if dialect == "stablehlo":
        return parse_module(float_stablehlo(name, count))
    return load_module(load_networks()[name])


def float_stablehlo(name: str, count: int) -> str:
    """Return the StableHLO text of a network for `count` images."""
    with np.load(DIRECTORY / f"{name}.npz") as file:
        arrays = dict(file)
    strides = ARCHITECTURES[name].strides
    shape: Sequence[int] = (count, *load_networks()[name].image_shape)
    images = _tensor(shape)
    value = "%images"
    lines: list[str] = []

    def add(op: str, operands: Sequence[Sequence[int]], result: Sequence[int]) -> str:
        types = ", ".join(map(_tensor, operands))
        lines.append(f"%{len(lines)} = stablehlo.{op} : ({types}) -> {_tensor(result)}")
        return f"%{len(lines) - 1}"

    def constant(values: Floats) -> str:
        text = f'dense<"0x{values.astype("<f4").tobytes().hex()}">'
        if not values.any():
            text = "dense<0.0>"
        attribute = f"<{{value = {text} : {_tensor(values.shape)}}}>"
        return add(f"constant() {attribute}", (), values.shape)

    for index, stride in enumerate(strides):
        weights, bias = arrays[f"weights_{index}"], arrays[f"bias_{index}"]
        *window, _, channels = weights.shape
        if not window and len(shape) > 2:
            flat = (count, int(np.prod(shape[1:])))
            value = add(f"reshape {value}", [shape], flat)
            shape = flat
        sizes = zip(shape[1:], window, strict=False)
        pixels = [(size - length) // stride + 1 for size, length in sizes]
        result = (count, *pixels, channels)
        factors = value, constant(weights)
        product = (
            f"convolution({', '.join(factors)}) {_window(stride)}"
            if window
            else f"dot_general {', '.join(factors)}, contracting_dims = [1] x [0]"
        )
        product = add(product, [shape, weights.shape], result)
        broadcast = f"broadcast_in_dim {constant(bias)}, dims = [{len(result) - 1}]"
        biases = add(broadcast, [bias.shape], result)
        value = add(f"add {product}, {biases}", [result] * 2, result)
        if index < len(strides) - 1:
            zeros = constant(np.zeros(result, np.float32))
            value = add(f"maximum {value}, {zeros}", [result] * 2, result)
        shape = result
    body = "\n  ".join([*lines, f"return {value} : {_tensor(shape)}"])
    return f"func.func @main(%images: {images}) -> {_tensor(shape)} {{\n  {body}\n}}\n"


def _tensor(shape: Sequence[int]) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32>"


def _window(stride: int) -> str:
    return (
        "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        f"window = {{stride = [{stride}, {stride}]}} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
    )


# From floats to integers


def calibrate_activations(name: str, dialect: Dialect, images: Floats) -> Statistics:
    """Return the range of each value of a network on these images."""
    module = float_module(name, dialect, len(images))
    apply_passes(module, "quant-insert-stats-refs")
    return calibrate(module, [network_inputs(load_networks()[name], images)])


def add_statistics(module: ModuleOp, statistics: Statistics) -> None:
    """Insert a `quant.stats` after each value."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "stats.json"
        statistics.save(path)
        apply_passes(
            module, f'quant-insert-stats-refs,quant-import-stats{{file="{path}"}}'
        )


def quantize_for_target(module: ModuleOp, statistics: Statistics, flow: Flow) -> int:
    """
    Convert a network to quantized ops or integer arithmetic.

    Returns:
        the number of kernels.
    """
    add_statistics(module, statistics)
    target = f'target="{flow.target}"'
    apply_passes(module, f"quant-fuse-kernels{{{target}}},quant-constraints-to-specs")
    count = sum(isinstance(op, RegionOp) for op in module.walk())
    apply_passes(
        module, f"quant-propagate{{{target}}},quant-export{{mode={flow.mode}}}"
    )
    return count


def float_kernels(module: ModuleOp) -> Sequence[str]:
    """Return the kernels in floating point, with the reason."""
    reasons: Any = module.attributes.get(FLOAT_KERNELS, ())
    return [reason.data for reason in reasons]


def run_network(
    module: ModuleOp, name: str, images: Floats, *, interpreted: bool = False
) -> Floats:
    """Return the logits of images, shape `(n, 10)`, compiled or interpreted."""
    lowered = module.clone()
    apply_passes(lowered, LOWER, is_routine=True)
    inputs = network_inputs(load_networks()[name], images)
    if interpreted:
        return run_function(lowered, "main", inputs)[0]
    return compile(lowered, "main")(inputs)


# Command line


def report(name: str, training: Digits, test: Digits) -> Iterator[str]:
    """Yield a line for each flow of a network."""
    for flow in FLOWS:
        module = float_module(name, flow.dialect, len(test.labels))
        exact = run_network(module, name, test.images)
        statistics = calibrate_activations(name, flow.dialect, training.images)
        count = quantize_for_target(module, statistics, flow)
        logits = run_network(module, name, test.images)
        correct = count_correct(logits, test)
        yield (
            f"{name:<11}  {flow}  {count:>7}  {len(float_kernels(module)):>8}"
            f"  {count_correct(exact, test):>7}  {correct:>8}"
            f"  {correct / len(test.labels):>6.2%}"
        )


def main() -> None:
    """Run the command."""
    training, test = load_digits()
    print(f"{'kernels':>63}{f'correct of {len(test.labels)}':>18}")
    print(
        "network      dialect    target          export     count  in float"
        "   floats  integers"
    )
    for name in load_networks():
        for line in report(name, training, test):
            print(line)


if __name__ == "__main__":
    main()
