"""Ops with states: those of the first call are zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.unit.frontends.tflite.formulas.cases import Case, Tensor

from .drawing import Declarations, Draw
from .products import spread_of

oracle = Declarations()

TANH = 4

NARROW = "i8 x 8"
"""Sums of 8 bits, with 12 intermediate tensors."""


class _Sizes:
    """Sizes of an LSTM and its optional parts."""

    def __init__(self, draw: Draw):
        self.steps, self.batch = draw.integer(1, 6), draw.integer(1, 4)
        self.inputs, self.cells = draw.integer(1, 9), draw.integer(4, 12)
        self.is_coupled, self.has_peepholes = draw.chance(0.3), draw.chance(0.3)
        self.has_norm, self.has_projection = draw.chance(0.3), draw.chance(0.4)
        if draw.op == "LSTM":
            # One step: more values of it.
            self.steps, self.batch = 1, draw.integer(2, 9)
        if draw.kind == NARROW:
            # The kernel knows no other form.
            self.is_coupled = self.has_norm = self.has_projection = True
            self.has_peepholes = False
        self.outputs = draw.integer(2, 14) if self.has_projection else self.cells
        if draw.storage == "i8" and self.has_peepholes:
            # The kernel takes peepholes of other sizes than the outputs for others.
            self.outputs = self.cells


def _numbers(draw: Draw, shape: Sequence[int], extent: float = 1.0) -> Tensor:
    """Constant floats."""
    values = draw.random.standard_normal(tuple(shape)) * extent
    return draw.tensor(values.astype(np.float32), "f32", is_constant=True)


def _stored(
    draw: Draw, shape: Sequence[int], storage: str, extent: float, bits: int
) -> Tensor:
    """Constant stored values of some bits, which express numbers of some size."""
    most = (1 << (bits - 1)) - 1
    values = draw.stored(shape, storage, low=-most, high=most)
    scale = float(np.float32(extent / most))
    return draw.tensor(values, storage, scale, 0, is_constant=True)


class _Weights:
    """Weights of an LSTM, integers or floats as its kind asks."""

    def __init__(self, draw: Draw, sizes: _Sizes, x: Tensor, outputs: Tensor):
        self.draw, self.sizes, self.x, self.before = draw, sizes, x, outputs
        self.is_integer = draw.storage == "i8"
        self.product_scale = 1.0

    def matrix(self, shape: tuple[int, int], factor: Tensor | None) -> Tensor:
        """Weights whose products with random inputs are about 1 to 4."""
        draw = self.draw
        extent = draw.scale(0.5, 4) / shape[1] ** 0.5
        if draw.kind == "f32":
            return _numbers(draw, shape, extent)
        weights = _stored(draw, shape, "i8", extent, 8)
        if not self.is_integer or factor is None:
            return weights
        spread = spread_of(factor, weights, shape[1])
        scale = draw.scale(0.5, 4) / (spread * factor.scales[0])
        self.product_scale = float(np.float32(scale))
        return weights._replace(scales=[self.product_scale])

    def vector(self, extent: float) -> Tensor:
        """Peepholes: one number for each cell."""
        draw, shape = self.draw, (self.sizes.cells,)
        if draw.kind == "f32":
            return _numbers(draw, shape, extent)
        storage, bits = ("i16", 16) if self.is_integer else ("i8", 8)
        return _stored(draw, shape, storage, extent, bits)

    def norm(self) -> Tensor:
        draw, shape = self.draw, (self.sizes.cells,)
        if not self.is_integer:
            return _numbers(draw, shape)
        return _stored(draw, shape, "i16", draw.scale(0.5, 3), 16)

    def bias(self, scale: float, count: int) -> Tensor:
        draw = self.draw
        if not self.is_integer:
            return _numbers(draw, (count,))
        values = np.rint(draw.random.standard_normal(count) / scale).astype(np.int64)
        values = np.clip(values, -(1 << 24), 1 << 24)
        return draw.tensor(values, "i32", scale, is_constant=True)


def _gates(weights: _Weights) -> list[list[Tensor | None]]:
    """Input, recurrent, peephole, bias and coefficients of each gate."""
    sizes = weights.sizes
    gates: list[list[Tensor | None]] = []
    for name in ("input", "forget", "cell", "output"):
        if name == "input" and sizes.is_coupled:
            gates.append([None] * 5)
            continue
        matrix = weights.matrix((sizes.cells, sizes.inputs), weights.x)
        scale = float(np.float32(weights.product_scale * (weights.x.scales or [1])[0]))
        norm = weights.norm() if sizes.has_norm else None
        if norm and norm.scales:
            scale = norm.scales[0] / 1024
        recurrent = weights.matrix((sizes.cells, sizes.outputs), weights.before)
        has_peephole = sizes.has_peepholes and name != "cell"
        peephole = weights.vector(0.5) if has_peephole else None
        bias = weights.bias(scale, sizes.cells)
        gates.append([matrix, recurrent, peephole, bias, norm])
    return gates


def _projection(weights: _Weights, hidden_scale: float) -> list[Tensor | None]:
    sizes = weights.sizes
    if not sizes.has_projection:
        return [None, None]
    matrix = weights.matrix((sizes.outputs, sizes.cells), None)
    if weights.draw.kind != NARROW and weights.draw.chance(0.3):
        return [matrix, None]
    scale = float(np.float32((matrix.scales or [1])[0] * hidden_scale))
    return [matrix, weights.bias(scale, sizes.outputs)]


def _states(draw: Draw, sizes: _Sizes) -> tuple[Tensor, Tensor]:
    shapes = (sizes.batch, sizes.outputs), (sizes.batch, sizes.cells)
    if draw.storage == "f32":
        outputs, cells = (draw.tensor(np.zeros(shape), "f32") for shape in shapes)
    else:
        scale = float(np.float32(draw.scale(0.8, 3) / 128))
        outputs = draw.quantized(shapes[0], scale)
        exponent = 15 if draw.kind == NARROW else draw.integer(9, 14)
        scale = 2.0**-exponent
        scale = scale if draw.kind == NARROW else draw.near(scale, 1e-3)
        cells = draw.tensor(np.zeros(shapes[1]), "i16", scale)
    return outputs._replace(is_variable=True), cells._replace(is_variable=True)


def _intermediates(draw: Draw, gates: list[list[Tensor | None]]) -> list[Tensor]:
    """Sums of each gate, and the products with inputs and outputs that it adds."""
    tensors: list[Tensor] = []
    for _ in gates:
        gate = draw.result("i16", draw.scale(1e-4, 1e-3))
        products = [
            draw.result("i8", draw.scale(0.02, 0.2), draw.integer(-40, 40))
            for _ in range(2)
        ]
        tensors += [gate, *products]
    return tensors


@oracle("UNIDIRECTIONAL_SEQUENCE_LSTM", "i8, f32, f32 x i8")
@oracle("LSTM", f"i8, {NARROW}, f32, f32 x i8")
def lstm(draw: Draw) -> Case:
    sizes = _Sizes(draw)
    is_time_major = draw.chance(0.5)
    leading = (
        (sizes.steps, sizes.batch) if is_time_major else (sizes.batch, sizes.steps)
    )
    if draw.op == "LSTM":
        leading = (sizes.batch,)
    shape = *leading, sizes.inputs
    if draw.storage == "i8":
        x = draw.quantized(shape, draw.scale())
    else:
        x = _numbers(draw, shape)._replace(is_constant=False)
    outputs, cells = _states(draw, sizes)
    weights = _Weights(draw, sizes, x, outputs)
    gates = _gates(weights)
    hidden = draw.result("i8", draw.scale(0.8, 2) / 128, draw.integer(-20, 20))
    if not sizes.has_projection and outputs.scales:
        hidden = draw.result_like(outputs)._replace(is_variable=False)
    hidden_scale = 2.0**-15 if draw.kind == NARROW else (hidden.scales or [1])[0]
    projection = _projection(weights, hidden_scale)
    by_part = [*zip(*gates, strict=True)]
    operands = [
        *(x, *by_part[0], *by_part[1]),
        *(by_part[2][i] for i in (0, 1, 3)),
        *(*by_part[3], *projection, outputs, cells, *by_part[4]),
    ]
    result = draw.result("f32")
    intermediates: list[Tensor] = []
    if draw.storage == "i8":
        result = draw.result_like(outputs)._replace(is_variable=False)
        scales = [draw.scale(1e-4, 1e-3) for _ in range(4)]
        intermediates = [*(draw.result("i16", scale) for scale in scales), hidden]
    if draw.kind == NARROW:
        intermediates = _intermediates(draw, gates)
    options: dict[str, Any] = {
        # Without an activation, the kernel of floats reads memory that it has not written.
        "fused_activation_function": draw.choice((TANH, TANH, TANH, 1, 2, 3)),
        "cell_clip": draw.choice((0.0, draw.scale(0.2, 2))),
        "proj_clip": draw.choice((0.0, draw.scale(0.2, 1))),
        "asymmetric_quantize_inputs": draw.chance(0.5),
    }
    if draw.op != "LSTM":
        options["time_major"] = is_time_major
    case = draw.case(operands, result, **options)
    return case._replace(intermediates=intermediates)
