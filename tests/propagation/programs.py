"""
Random programs of TensorFlow Lite ops with statistics and with values whose parameters are
fixed: as text for TensorFlow Lite's quantization driver, and with each op in a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import numpy as np

Shape = tuple[int, ...]
Range = tuple[float, float]

IMAGE: Shape = (1, 2, 2, 4)
IMAGES: Shape = (2, 2, 2, 4)
MATRIX: Shape = (2, 8)


@dataclass
class Tensor:
    """A value, and what is said about it before propagation."""

    name: str
    shape: Shape
    range: Range | None = None
    """Its statistics."""

    fixed: tuple[float, int] | None = None
    """Scale and zero point that it has been given."""

    @property
    def type(self) -> str:
        return _type(self.shape, "f32")


@dataclass
class Constant:
    """A constant."""

    name: str
    array: np.ndarray

    @property
    def type(self) -> str:
        return _type(self.array.shape, "f32" if self.array.dtype == "f4" else "i32")

    @property
    def text(self) -> str:
        value = f"dense<{_dense(self.array)}> : {self.type}"
        return f"  %{self.name} = arith.constant {value}\n"


@dataclass
class Branch:
    """A value with a cast that one use of it is behind."""

    tensor: Tensor
    fixed: tuple[float, int]

    @property
    def name(self) -> str:
        return self.tensor.name

    @property
    def shape(self) -> Shape:
        return self.tensor.shape

    @property
    def type(self) -> str:
        return self.tensor.type


@dataclass
class Op:
    """An op, which is a kernel."""

    name: str
    properties: str
    operands: Sequence[Tensor | Constant | Branch]
    results: Sequence[Tensor]

    def text(
        self, names: Sequence[str], results: Sequence[str], extra: str = ""
    ) -> str:
        properties = ", ".join(filter(None, (self.properties, extra)))
        operand_types = ", ".join(operand.type for operand in self.operands)
        result_types = ", ".join(result.type for result in self.results)
        left = ", ".join(f"%{name}" for name in results)
        operands = ", ".join(f"%{name}" for name in names)
        return (
            f'{left} = "tfl.{self.name}"({operands}) {{{properties}}} : '
            f"({operand_types}) -> ({result_types})"
        )


class _Annotations(NamedTuple):
    """Ops that say something about values."""

    statistics: str
    """What says the range: with name, smallest and largest value, and type."""

    casts: str
    """What says the parameters: with name, operand, type, and quantized type."""


_DRIVER = _Annotations(
    '  %{0}_s = "quantfork.stats"(%{0}) '
    "{{layerStats = dense<[{1}, {2}]> : tensor<2xf32>}} : ({3}) -> {3}\n",
    '  %{0}_q = "tfl.quantize"(%{1}) {{qtype = {3}}} : ({2}) -> {3}\n'
    '  %{0}_d = "tfl.dequantize"(%{0}_q) : ({3}) -> {2}\n',
)
_QUANT = _Annotations(
    "  %{0}_s = quant.stats %{0} <{1}:{2}> : {3}\n",
    "  %{0}_q = quant.qcast %{1} : {2} to {3}\n"
    "  %{0}_d = quant.dcast %{0}_q : {3} to {2}\n",
)


@dataclass
class Program:
    """A function of TensorFlow Lite ops."""

    inputs: list[Tensor] = field(default_factory=list[Tensor])
    constants: list[Constant] = field(default_factory=list[Constant])
    ops: list[Op] = field(default_factory=list[Op])

    @property
    def tensors(self) -> Sequence[Tensor]:
        return [*self.inputs, *(result for op in self.ops for result in op.results)]

    def driver_text(self) -> str:
        """The program with statistics and casts as the driver knows them."""
        return self._annotated_text(_DRIVER)

    def annotated_text(self) -> str:
        """The program with statistics and casts of the quant dialect."""
        return self._annotated_text(_QUANT)

    def _annotated_text(self, ops: _Annotations) -> str:
        names: dict[str, str] = {}
        lines = [constant.text for constant in self.constants]

        def say(tensor: Tensor) -> None:
            name, type_ = tensor.name, tensor.type
            names[name] = name
            if tensor.range is not None:
                low, high = (f"{bound:.9e}" for bound in tensor.range)
                names[name] = f"{name}_s"
                lines.append(ops.statistics.format(name, low, high, type_))
            if tensor.fixed is not None:
                quantized = _type(tensor.shape, _uniform(tensor.fixed))
                lines.append(ops.casts.format(name, names[name], type_, quantized))
                names[name] = f"{name}_d"

        for tensor in self.inputs:
            say(tensor)
        for number, op in enumerate(self.ops):
            operands = [
                names.get(operand.name, operand.name) for operand in op.operands
            ]
            for i, operand in enumerate(op.operands):
                if isinstance(operand, Branch):
                    branch = f"branch{number}_{i}"
                    quantized = _type(operand.shape, _uniform(operand.fixed))
                    lines.append(
                        ops.casts.format(branch, operands[i], operand.type, quantized)
                    )
                    operands[i] = f"{branch}_d"
            results = [result.name for result in op.results]
            lines.append(f"  {op.text(operands, results, f'id = {number} : i32')}\n")
            for result in op.results:
                say(result)
        unused = self._unused()
        types = ", ".join(tensor.type for tensor in unused)
        values = ", ".join(f"%{names[tensor.name]}" for tensor in unused)
        arguments = ", ".join(f"%{x.name}: {x.type}" for x in self.inputs)
        body = "".join(lines)
        return (
            f"func.func @main({arguments}) -> ({types}) {{\n{body}"
            f"  return {values} : {types}\n}}\n"
        )

    def kernel_text(self) -> str:
        """The program with each op in a kernel that is named after it."""
        lines = [constant.text for constant in self.constants]
        for op in self.ops:
            inputs = ", ".join(
                f"%a{i} = %{operand.name} : {operand.type}{_spec(operand)}"
                for i, operand in enumerate(op.operands)
            )
            outputs = ", ".join(
                f"{result.type}{_spec(result)}" for result in op.results
            )
            names = [f"a{i}" for i in range(len(op.operands))]
            results = [f"r{i}" for i in range(len(op.results))]
            left = ", ".join(f"%{result.name}" for result in op.results)
            values = ", ".join(f"%{result}" for result in results)
            types = ", ".join(result.type for result in op.results)
            lines.append(
                f'  {left} = quant.region "tfl.{op.name}" ({inputs}) -> ({outputs}) {{\n'
                f"    {op.text(names, results)}\n"
                f"    quant.return {values} : {types}\n  }}\n"
            )
        unused = self._unused()
        types = ", ".join(tensor.type for tensor in unused)
        values = ", ".join(f"%{tensor.name}" for tensor in unused)
        arguments = ", ".join(f"%{x.name}: {x.type}" for x in self.inputs)
        body = "".join(lines)
        return (
            f"func.func @main({arguments}) -> ({types}) {{\n{body}"
            f"  func.return {values} : {types}\n}}\n"
        )

    def _unused(self) -> Sequence[Tensor]:
        used = {operand.name for op in self.ops for operand in op.operands}
        return [tensor for tensor in self.tensors if tensor.name not in used]


def _type(shape: Shape, element_type: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element_type}>"


def _uniform(fixed: tuple[float, int]) -> str:
    scale, zero_point = fixed
    suffix = f":{zero_point}" if zero_point else ""
    return f"!quant.uniform<i8:f32, {scale:.17e}{suffix}>"


def _spec(value: Tensor | Constant | Branch) -> str:
    if isinstance(value, Constant):
        return ""
    if isinstance(value, Branch):
        return f" as {_uniform(value.fixed)}"
    if value.fixed is not None:
        return f" as {_uniform(value.fixed)}"
    if value.range is not None:
        low, high = (f"{bound:.17e}" for bound in value.range)
        return f" as !quant.calibrated<f32<{low}:{high}>>"
    return ""


def _dense(array: np.ndarray) -> str:
    if array.ndim:
        return f"[{', '.join(map(_dense, array))}]"
    return f"{array:.9e}" if array.dtype == "f4" else str(array)


# Drawing

_NO_ACTIVATION = 'fused_activation_function = "NONE"'
_WINDOW = f'{_NO_ACTIVATION}, padding = "SAME", stride_h = 1 : i32, stride_w = 1 : i32'
_DILATION = "dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32"
_POOL = f"{_WINDOW}, filter_height = 1 : i32, filter_width = 1 : i32"

_COMMON_RANGES: Sequence[Range] = ((-1, 1), (-4, 4), (0, 6), (-3, 2), (2, 6))
_COMMON_PARAMETERS = ((0.1, 0), (0.2, 0), (0.1, 5), (0.0625, -128))


class Draw:
    """The random choices of one program, which depend on nothing but seed and index."""

    def __init__(self, seed: int, index: int):
        self.random = Random(f"{seed}/{index}")
        self.program = Program()
        # Of a fifth of the programs a fifth of the statistics is missing.
        self._with_range = self.random.choice((1.0, 1.0, 1.0, 1.0, 0.8))
        self._fixed = self.random.choice((0.0, 0.0, 0.0, 0.05, 0.2))
        self.locality = self.random.choice((1, 1, 2, 20))

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # Values

    def tensor(self, shape: Shape) -> Tensor:
        """A new value, about which something may be said."""
        tensor = Tensor(f"v{len(self.program.tensors)}", shape)
        if self.chance(self._fixed):
            tensor.fixed = self.random.choice(_COMMON_PARAMETERS)
        elif self.chance(self._with_range):
            tensor.range = self._range()
        return tensor

    def _range(self) -> Range:
        if self.chance(0.5):
            return self.random.choice(_COMMON_RANGES)
        size = 10 ** self.random.uniform(-3, 3)
        low, high = sorted(
            float(np.float32(self.random.gauss(0, size))) for _ in range(2)
        )
        return low, high if low < high else low + 1

    def value(self, shape: Shape) -> Tensor | None:
        """One of the last values of a shape, if there is one."""
        values = [x for x in self.program.tensors if x.shape == shape]
        return self.random.choice(values[-self.locality :]) if values else None

    # Constants

    def constant(self, array: np.ndarray) -> Constant:
        constant = Constant(f"c{len(self.program.constants)}", array)
        self.program.constants.append(constant)
        return constant

    def floats(self, shape: Shape, size: float = 1.0) -> Constant:
        """A constant: a new one or, now and then, one that is there."""
        known = [
            constant
            for constant in self.program.constants
            if constant.array.shape == shape and constant.array.dtype == "f4"
        ]
        if known and self.chance(0.3):
            return self.random.choice(known)
        generator = np.random.default_rng(self.random.getrandbits(32))
        array = generator.standard_normal(shape) * size
        if self.chance(0.1):
            array[..., 0] = 0
        return self.constant(array.astype("f4"))

    def integers(self, *values: int) -> Constant:
        return self.constant(np.array(values, "i4"))

    def bias(self, count: int) -> Constant:
        size = 10 ** self.random.uniform(5, 9) if self.chance(0.15) else 1.0
        return self.floats((count,), size)

    # Ops

    def op(
        self,
        name: str,
        properties: str,
        operands: Sequence[Tensor | Constant],
        *shapes: Shape,
    ) -> None:
        results: list[Tensor] = []
        for shape in shapes:
            result = self.tensor(shape)
            result.name += f"_{len(results)}" if len(shapes) > 1 else ""
            results.append(result)
        self.program.ops.append(Op(name, properties, operands, results))


def _unary(name: str, properties: str = "") -> Callable[[Draw, Tensor], None]:
    return lambda draw, x: draw.op(name, properties, [x], x.shape)


def _binary(
    name: str, properties: str = _NO_ACTIVATION
) -> Callable[[Draw, Tensor], None]:
    def make(draw: Draw, x: Tensor) -> None:
        y = draw.value(x.shape) or x
        operands: list[Tensor | Constant] = [x, y]
        if draw.chance(0.25):
            operands[1] = draw.floats(x.shape)
            # Constants of commutative ops are moved to the end by the driver.
            if name == "sub" and draw.chance(0.3):
                operands.reverse()
        draw.op(name, properties, operands, x.shape)

    return make


def _window(
    name: str, filters: Shape, properties: str
) -> Callable[[Draw, Tensor], None]:
    def make(draw: Draw, x: Tensor) -> None:
        weights, bias = draw.floats(filters), draw.bias(4)
        draw.op(name, f"{_WINDOW}, {properties}", [x, weights, bias], x.shape)

    return make


def _transpose_conv(draw: Draw, x: Tensor) -> None:
    weights, bias = draw.floats((4, 1, 1, 4)), draw.bias(4)
    draw.op(
        "transpose_conv", _WINDOW, [draw.integers(*x.shape), weights, x, bias], x.shape
    )


def _prelu(draw: Draw, x: Tensor) -> None:
    draw.op("prelu", "", [x, draw.floats((1, 1, 4))], x.shape)


def _transpose(draw: Draw, x: Tensor) -> None:
    draw.op("transpose", "", [x, draw.integers(0, 2, 1, 3)], x.shape)


def _concatenation(draw: Draw, x: Tensor) -> None:
    operands: list[Tensor | Constant] = [x, draw.value(x.shape) or x]
    if draw.chance(0.2):
        operands[1] = draw.floats(x.shape)
    draw.op("concatenation", f"axis = 0 : i32, {_NO_ACTIVATION}", operands, IMAGES)


def _flatten(draw: Draw, x: Tensor) -> None:
    draw.op("reshape", "", [x, draw.integers(*MATRIX)], MATRIX)


def _unflatten(draw: Draw, x: Tensor) -> None:
    draw.op("reshape", "", [x, draw.integers(*IMAGE)], IMAGE)


def _split(draw: Draw, x: Tensor) -> None:
    axis = draw.constant(np.array(0, "i4"))
    draw.op("split", "num_splits = 2 : i32", [axis, x], IMAGE, IMAGE)


def _slice(draw: Draw, x: Tensor) -> None:
    begin, size = draw.integers(1, 0, 0, 0), draw.integers(*IMAGE)
    draw.op("slice", "", [x, begin, size], IMAGE)


def _reduction(name: str) -> Callable[[Draw, Tensor], None]:
    return lambda draw, x: draw.op(
        name, "keep_dims = true", [x, draw.integers(0)], IMAGE
    )


def _fully_connected(draw: Draw, x: Tensor) -> None:
    weights, bias = draw.floats((8, 8)), draw.bias(8)
    properties = f'{_NO_ACTIVATION}, keep_num_dims = false, weights_format = "DEFAULT"'
    draw.op("fully_connected", properties, [x, weights, bias], MATRIX)


_ANY = (
    _binary("add"),
    _binary("add"),
    _binary("sub"),
    _binary("mul"),
    _binary("maximum", ""),
    _binary("maximum", ""),
    _binary("minimum", ""),
    _unary("relu"),
    _unary("relu6"),
    _unary("leaky_relu", "alpha = 0.25 : f32"),
    _unary("tanh"),
    _unary("logistic"),
    _unary("softmax", "beta = 1.0 : f32"),
    _unary("log_softmax"),
    _unary("l2_normalization", _NO_ACTIVATION),
)
_IMAGE_OPS = (
    _window("conv_2d", (4, 1, 1, 4), _DILATION),
    _window("conv_2d", (4, 1, 1, 4), _DILATION),
    _window(
        "depthwise_conv_2d", (1, 1, 1, 4), f"{_DILATION}, depth_multiplier = 1 : i32"
    ),
    _transpose_conv,
    _prelu,
    _unary("max_pool_2d", _POOL),
    _unary("max_pool_2d", _POOL),
    _unary("average_pool_2d", _POOL),
    _transpose,
)
_OPS: dict[Shape, Sequence[Callable[[Draw, Tensor], None]]] = {
    IMAGE: (*_ANY, *_IMAGE_OPS, *(_concatenation,) * 8, _flatten, _flatten),
    IMAGES: (
        *_ANY,
        *_IMAGE_OPS,
        *(_split,) * 3,
        *(_slice,) * 2,
        _reduction("reduce_max"),
        _reduction("reduce_min"),
        _reduction("mean"),
    ),
    MATRIX: (*_ANY, *(_fully_connected,) * 4, *(_unflatten,) * 3),
}


def draw_program(seed: int, index: int) -> Program:
    """The program with a number."""
    draw = Draw(seed, index)
    program = draw.program
    for _ in range(draw.random.randint(1, 3)):
        program.inputs.append(draw.tensor(draw.random.choice((IMAGE, IMAGE, MATRIX))))
    for _ in range(draw.random.randint(2, 14)):
        tensors = program.tensors[-draw.locality :]
        x = draw.random.choice(tensors)
        draw.random.choice(_OPS[x.shape])(draw, x)
    return program


_FREE = frozenset(
    "add sub mul relu relu6 leaky_relu prelu tanh logistic softmax log_softmax "
    "l2_normalization conv_2d depthwise_conv_2d transpose_conv fully_connected".split()
)
"""Ops without a constraint of same scale."""


def draw_program_with_branches(
    seed: int, index: int, *, ops: Container[str] = _FREE
) -> Program:
    """
    The program with a number, in which some uses of values are behind casts: those by some
    ops of results of these ops and of arguments.
    """
    program = draw_program(seed, index)
    random = Random(f"branches/{seed}/{index}")
    fixed = ((0.01 * count + 0.005, count % 7) for count in range(1, 1000))
    producers = {result.name: op for op in program.ops for result in op.results}
    for op in program.ops:
        if op.name not in ops:
            continue
        op.operands = [
            Branch(operand, next(fixed))
            if isinstance(operand, Tensor)
            and random.random() < 0.3
            and (operand.name not in producers or producers[operand.name].name in ops)
            else operand
            for operand in op.operands
        ]
    return program


def program_of_turns() -> Program:
    """
    A program in which it matters that users of a value whose range was removed take their
    turn in another order.
    """
    x, y = Tensor("x", IMAGE, (-2.0, 2.0)), Tensor("y", IMAGE, (-1.0, 1.0))
    axis = Constant("axis", np.array(0, "i4"))
    program = Program([x, y], [axis])

    def add(
        name: str,
        properties: str,
        operands: Sequence[Tensor | Constant],
        *results: Tensor,
    ) -> None:
        program.ops.append(Op(name, properties, operands, results))

    def concatenate(a: Tensor, b: Tensor, result: Tensor) -> Tensor:
        add("concatenation", f"axis = 0 : i32, {_NO_ACTIVATION}", [a, b], result)
        return result

    both = concatenate(y, y, Tensor("both", IMAGES, (-3.0, 2.0)))
    first, second = Tensor("first", IMAGE), Tensor("second", IMAGE, (2.0, 6.0))
    add("split", "num_splits = 2 : i32", [axis, both], first, second)
    concatenate(second, x, Tensor("a", IMAGES))
    concatenate(x, second, Tensor("b", IMAGES, (27.75, 30.75)))
    pooled = Tensor("pooled", IMAGE, (-24.0, 2.0))
    add("max_pool_2d", _POOL, [first], pooled)
    concatenate(pooled, y, Tensor("c", IMAGES, (-4.0, 4.0)))
    add("relu6", "", [x], Tensor("d", IMAGE, (-1.0, 1.0)))
    return program


def program_of_one_channel(name: str) -> Program:
    """A convolution with one channel, whose weights are per-axis and whose bias is not."""
    x = Tensor("x", (1, 2, 2, 1), (-1.0, 1.0))
    weights = Constant("w", np.full((1, 1, 1, 1), 0.5, "f4"))
    bias = Constant("b", np.full((1,), 0.25, "f4"))
    properties = f"{_WINDOW}, {_DILATION}"
    if name == "depthwise_conv_2d":
        properties += ", depth_multiplier = 1 : i32"
    y = Tensor("y", (1, 2, 2, 1), (-2.0, 2.0))
    return Program(
        [x], [weights, bias], [Op(name, properties, [x, weights, bias], [y])]
    )
