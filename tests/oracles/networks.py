"""Models of several ops, which grow op by op while the reference kernels run them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.unit.frontends.tflite.files.litert_process import LiteRTProcess
from tests.unit.frontends.tflite.files.models import DTYPES, tensor_of
from tests.unit.frontends.tflite.formulas.cases import Case, Tensor
from xdsl_quant.frontends.tflite.files.model import ABSENT, Model, Operator, Subgraph
from xdsl_quant.frontends.tflite.files.reader import default_options
from xdsl_quant.frontends.tflite.files.schema import options_name
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.numerics.parameters import storage_range

from . import elementwise, moving, products
from .drawing import Draw, real

Array = NDArray[Any]

NAME = "NETWORK"

KINDS = (
    *("i8", "u8", "i16"),
    *("i8 state", "u8 state", "i16 state"),
    *("i8 svdf", "f32 svdf"),
)
"""
The storage of the first tensor, and whether several steps are run: of networks with
variables, or of `svdf` alone.
"""

STEPS = 6
"""Of models with state."""

_LEAST_SCALE = 1e-6
"""Kernels convert numbers over the scale to integers of 32 bits, without a check."""

_STORAGES = {"INT8": "i8", "UINT8": "u8", "INT16": "i16"}
_NUMBERS = "FLOAT32", *_STORAGES
_SINGLE_OPS = {**elementwise.oracle, **products.oracle, **moving.oracle}
_WITHOUT_NETWORKS = "ELU", "LOG", "SQRT", "RSQRT"
"""
The ops that are not among the reference kernels, or fail for some stored values.
"""


class RefusedError(Exception):
    """The reference kernels do not run a model."""


class Network:
    """
    A model of several ops, and what the reference kernels compute for it.

    Layers take and return tensors of the network, whose arrays are the stored values of the
    last step.
    """

    def __init__(self, draw: Draw, process: LiteRTProcess, steps: int):
        self.draw = draw
        self.process = process
        self.tensors: list[Tensor] = []
        self.inputs: list[int] = []
        self.operators: list[Operator] = []
        self.initial_values: list[Tensor] = []
        """Those of variables."""

        self.steps: list[list[Array]] = [[] for _ in range(steps)]
        """The values of the inputs in each step."""

        self.expected: Sequence[Sequence[Array]] = []
        """What the reference kernels compute in each step for each of `results`."""

    # Files

    @property
    def results(self) -> list[int]:
        """What the ops compute, but for handles of variables."""
        indices = [index for op in self.operators for index in op.outputs]
        return [i for i in indices if self.tensors[i].type != "RESOURCE"]

    @property
    def leaves(self) -> list[int]:
        """The results that no op takes."""
        taken = {index for op in self.operators for index in op.inputs}
        return [index for index in self.results if index not in taken]

    def file(self, outputs: Sequence[int]) -> bytes:
        """The file of the model with some of its results."""
        tensors = [tensor_of(t, f"t{i}") for i, t in enumerate(self.tensors)]
        operators = [*self.operators]
        subgraphs = [Subgraph("main", tensors, self.inputs, outputs, operators)]
        if self.initial_values:
            operators.insert(0, _operator("CALL_ONCE", [], [], init_subgraph_index=1))
            subgraphs.append(self._initialization())
        return write_model(Model(subgraphs))

    def _initialization(self) -> Subgraph:
        """The function that assigns the initial values of variables."""
        tensors: list[Tensor] = []
        operators: list[Operator] = []
        for number, value in enumerate(self.initial_values):
            handle, constant = len(tensors), len(tensors) + 1
            tensors += [_handle(), value]
            operators.append(
                _operator("VAR_HANDLE", [], [handle], shared_name=f"v{number}")
            )
            operators.append(_operator("ASSIGN_VARIABLE", [handle, constant], []))
        files = [tensor_of(t, f"s{i}") for i, t in enumerate(tensors)]
        return Subgraph("init", files, [], [], operators)

    # Growing

    def add(self, case: Case) -> list[Tensor]:
        """
        Append an op, whose operands are tensors of the network or new ones.

        Raises:
            RefusedError: if the reference kernels do not run it.
        """
        operands = [self._operand(operand) for operand in case.operands]
        results = [*range(len(self.tensors), len(self.tensors) + len(case.results))]
        self.tensors += case.results
        self.operators.append(_operator(case.op, operands, results, **case.options))
        if not self.results:
            return case.results
        run = self.process.run_steps(self.file(self.results), self.steps)
        if run.outcome != "runs":
            raise RefusedError(f"{case.op}: {run.outcome}: {run.message}")
        self.expected = run.steps
        for index, array in zip(self.results, run.steps[-1], strict=True):
            if index in results:
                self.tensors[index] = self.tensors[index]._replace(array=array)
        return [self.tensors[index] for index in results]

    def op(
        self,
        name: str,
        operands: Sequence[Tensor | None],
        result: Tensor,
        **options: Any,
    ) -> Tensor:
        """The same for an op with one result."""
        (tensor,) = self.add(Case(name, name, options, [*operands], [result]))
        return tensor

    def _operand(self, operand: Tensor | None) -> int:
        if operand is None:
            return ABSENT
        for index, tensor in enumerate(self.tensors):
            if tensor is operand:
                return index
        self.tensors.append(operand)
        index = len(self.tensors) - 1
        if operand.is_constant or operand.is_variable:
            return index
        self.inputs.append(index)
        values = operand.array.astype(DTYPES[operand.type])
        for arrays in self.steps:
            arrays.append(values)
            if operand.type in _NUMBERS:
                # In any order, they are in the same range.
                flat = self.draw.random.permutation(values.ravel())
                values = flat.reshape(values.shape)
        return index

    def attempt(self, layer: Layer, x: Tensor) -> str | None:
        """Append a layer, or say why the reference kernels do not run it."""
        counts = len(self.tensors), len(self.inputs), len(self.operators)
        variables, expected = len(self.initial_values), self.expected
        try:
            layer(self, x)
        except RefusedError as e:
            del self.tensors[counts[0] :]
            del self.inputs[counts[1] :]
            del self.operators[counts[2] :]
            del self.initial_values[variables:]
            for arrays in self.steps:
                del arrays[counts[1] :]
            self.expected = expected
            return str(e)
        return None

    # Tensors

    def any_value(self) -> Tensor:
        """A quantized result or input that ops can take, mostly the last one."""
        taken = (*self.inputs, *self.results)
        tensors = [self.tensors[index] for index in taken]
        fitting = [
            tensor for tensor in tensors if _is_fed(tensor) and tensor.array.size
        ]
        return fitting[-1] if self.draw.chance(0.6) else self.draw.choice(fitting)

    def shaped(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """The elements of a tensor, repeated or cut off, in another shape."""
        if x.array.shape == tuple(shape):
            return x
        size, count = x.array.size, prod(shape)
        if size != count:
            x = self.reshape(x, [size])
            if size < count:
                times = self.draw.integers([-(-count // size)])
                x = self.op("TILE", [x, times], self.draw.result_like(x))
            if x.array.size > count:
                begin = self.draw.integer(0, x.array.size - count)
                operands = [x, *map(self.draw.integers, ([begin], [count]))]
                x = self.op("SLICE", operands, self.draw.result_like(x))
        return self.reshape(x, shape)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        sizes = self.draw.integers(shape)
        return self.op("RESHAPE", [x, sizes], self.draw.result_like(x))

    def ordinary(self, x: Tensor) -> Tensor:
        """
        A tensor with a scale for which kernels do not shift by more bits than there are.
        """
        if 1e-5 < x.scales[0] < 5:
            return x
        storage, scale = _storage(x), self.draw.scale()
        return self.stored_as(x, self.draw.quantized((), scale, storage=storage))

    def stored_as(self, x: Tensor, like: Tensor) -> Tensor:
        """A tensor with the parameters of another one, and values of a similar range."""
        old, new = x.parameters, like.parameters
        if old == new:
            return x
        result = like._replace(array=np.zeros(x.array.shape), is_constant=False)
        extents = [
            t.scales[0] * len(range(*storage_range(_storage(t)))) for t in (like, x)
        ]
        factor = np.float32(extents[0] / extents[1])
        has_kernel = new.storage != "u8" or old.storage != "i16"
        if has_kernel and 0.25 < factor < 4:
            return self.op("QUANTIZE", [x], result)
        floats = self.op("DEQUANTIZE", [x], self.draw.result("f32"))
        constant = self.draw.tensor(factor, "f32", is_constant=True)
        floats = self.op(
            "MUL",
            [floats, constant],
            self.draw.result("f32"),
            fused_activation_function=0,
        )
        return self.op("QUANTIZE", [floats], result)


def _operator(
    code: str, inputs: Sequence[int], outputs: Sequence[int], **options: Any
) -> Operator:
    table = options_name(code)
    return Operator(
        code, inputs, outputs, {**default_options(table), **options} if table else {}
    )


def _handle() -> Tensor:
    return Tensor("RESOURCE", np.zeros(()), [], [], None, False, False)


Layer = Callable[[Network, Tensor], object]


def _storage(x: Tensor) -> str:
    return _STORAGES[x.type]


def _is_fed(x: Tensor) -> bool:
    """Whether a layer can take a tensor."""
    return x.type in _STORAGES and len(x.scales) == 1 and x.axis is None


def _result(net: Network, values: Any, least: float = 0, **options: Any) -> Tensor:
    return net.draw.result_of(values, least_scale=max(least, _LEAST_SCALE), **options)


# Layers of images


def convolution(net: Network, x: Tensor) -> Tensor:
    draw, image = net.draw, x.array.shape
    is_depthwise = draw.chance(0.4)
    options = products.drawn_window(draw, image, has_dilations=draw.chance(0.3))
    sizes = options.pop("height"), options.pop("width")
    factor = draw.integer(1, max(1, 6 // image[3]))
    if is_depthwise:
        outputs, depth = image[3] * factor, 1
        options["depth_multiplier"] = factor
        weights = products.drawn_weights(draw, (1, *sizes, outputs), 3)
    else:
        outputs, depth = draw.integer(1, 6), image[3]
        weights = products.drawn_weights(draw, (outputs, *sizes, depth), 0)
    spread = products.spread_of(x, weights, prod(sizes) * depth)
    bias = products.drawn_bias(draw, x, weights, outputs, spread)
    return net.op(
        "DEPTHWISE_CONV_2D" if is_depthwise else "CONV_2D",
        [x, weights, bias],
        products.drawn_result(draw, x, weights, spread),
        **options,
    )


def transposed_convolution(net: Network, x: Tensor) -> Tensor:
    draw = net.draw
    batch, rows, columns, channels = x.array.shape
    outputs, stride = draw.integer(1, 4), draw.integer(1, 2)
    image = batch, rows * stride, columns * stride, outputs
    sizes = draw.integer(1, 3), draw.integer(1, 3)
    weights = products.drawn_weights(draw, (outputs, *sizes, channels), 0)
    spread = products.spread_of(x, weights, prod(sizes) * channels)
    bias = products.drawn_bias(draw, x, weights, outputs, spread)
    return net.op(
        "TRANSPOSE_CONV",
        [draw.integers(image), weights, x, bias],
        products.drawn_result(draw, x, weights, spread),
        stride_h=stride,
        stride_w=stride,
        padding=0,
        fused_activation_function=0,
    )


def pool(net: Network, x: Tensor) -> Tensor:
    draw = net.draw
    options = products.drawn_window(draw, x.array.shape, has_dilations=False)
    options["filter_height"] = options.pop("height")
    options["filter_width"] = options.pop("width")
    name = draw.choice(("AVERAGE_POOL_2D", "MAX_POOL_2D"))
    return net.op(name, [x], draw.result_like(x), **options)


def padding(net: Network, x: Tensor) -> Tensor:
    draw = net.draw
    widths = [[draw.integer(0, 2), draw.integer(0, 2)] for _ in x.array.shape[1:3]]
    pairs = draw.integers([[0, 0], *widths, [0, 0]])
    return net.op("PAD", [x, pairs], draw.result_like(x))


def resizing(net: Network, x: Tensor) -> Tensor:
    draw = net.draw
    name = draw.choice(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"))
    sizes = draw.integers([draw.integer(2, 8), draw.integer(2, 8)])
    half = draw.chance(0.5)
    return net.op(
        name,
        [x, sizes],
        draw.result_like(x),
        align_corners=not half and draw.chance(0.5),
        half_pixel_centers=half,
    )


def global_mean(net: Network, x: Tensor) -> Tensor:
    axes, keep = net.draw.integers([1, 2]), net.draw.chance(0.5)
    result = _result(net, np.mean(real(x), axis=(1, 2)))
    return net.op("MEAN", [x, axes], result, keep_dims=keep)


def residual(net: Network, x: Tensor) -> Tensor:
    """Branches from one tensor that meet again: a diamond."""
    branches = [one_of(net, x, _IMAGE) if net.draw.chance(0.8) else x for _ in "ab"]
    return net.draw.choice((sum_of, concatenation))(net, *branches)


# Layers of rows


def fully_connected(net: Network, x: Tensor) -> Tensor:
    draw = net.draw
    depth, outputs = x.array.shape[-1], draw.integer(2, 12)
    weights = products.drawn_weights(draw, (outputs, depth), 0)
    spread = products.spread_of(x, weights, depth)
    bias = products.drawn_bias(draw, x, weights, outputs, spread)
    return net.op(
        "FULLY_CONNECTED",
        [x, weights, bias if draw.chance(0.7) else None],
        products.drawn_result(draw, x, weights, spread),
        keep_num_dims=draw.chance(0.5),
        fused_activation_function=draw.activation(),
    )


def flattened(net: Network, x: Tensor) -> Tensor:
    return net.reshape(x, [x.array.shape[0], -1])


def softmax(net: Network, x: Tensor) -> Tensor:
    x = net.ordinary(x)
    points = {"i8": (1 / 256, -128), "u8": (1 / 256, 0), "i16": (2**-15, 0)}
    result = net.draw.result(_storage(x), *points[_storage(x)])
    return net.op("SOFTMAX", [x], result, beta=1.0)


def attention(net: Network, x: Tensor) -> Tensor:
    """Products of a tensor with itself, as weights of its rows."""
    draw = net.draw
    spread = products.spread_of(x, x, x.array.shape[-1])
    extent = 2.5 * spread * x.scales[0] ** 2
    scores = net.op(
        "BATCH_MATMUL",
        [x, x],
        _result(net, [-extent, extent]),
        adj_x=False,
        adj_y=True,
    )
    weights = softmax(net, scores)
    extent = float(np.max(np.abs(real(x))))
    result = _result(net, [-extent, extent])
    draw.storage = _storage(x)
    return net.op("BATCH_MATMUL", [weights, x], result, adj_x=False, adj_y=False)


# Layers of any shape


def activation(net: Network, x: Tensor) -> Tensor:
    draw, values = net.draw, real(x)
    names = ["RELU", "LEAKY_RELU", "LOGISTIC", "TANH", "GELU"]
    names += {"i8": ["ABS", "HARD_SWISH"], "u8": ["HARD_SWISH"], "i16": ["ABS"]}[
        draw.storage
    ]
    name = draw.choice(names)
    if name in ("LOGISTIC", "TANH"):
        return sigmoid(net, x, name)
    if name == "LEAKY_RELU":
        return net.op(name, [x], _result(net, values), alpha=draw.scale(0.01, 1))
    least = x.scales[0] / 128 if name == "HARD_SWISH" else 0
    values = np.abs(values) if name == "ABS" else np.maximum(values, 0)
    options = {"approximate": False} if name == "GELU" else {}
    return net.op(name, [x], _result(net, values, least), **options)


def sigmoid(net: Network, x: Tensor, name: str) -> Tensor:
    """The logistic function or the hyperbolic tangent, with the result of its kernel."""
    storage = _storage(x)
    size = 1 << int(storage[1:])
    number = 1 if name == "LOGISTIC" and storage != "i16" else 2
    low = storage_range(storage)[0]
    point = low if number == 1 else low + size // 2
    return net.op(name, [x], net.draw.result(storage, number / size, point))


def sum_of(net: Network, x: Tensor, y: Tensor | None = None) -> Tensor:
    """A sum, difference or product with another tensor or with a constant."""
    draw, shape = net.draw, x.array.shape
    name = draw.choice(("ADD", "ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"))
    if y is None and draw.chance(0.5):
        scale = float(np.float32(x.scales[0] * draw.scale(0.1, 10)))
        y = draw.quantized(draw.part_of(shape), scale, is_constant=True)
        if name in ("MAXIMUM", "MINIMUM"):
            y = draw.like(x, shape)._replace(is_constant=True)
    else:
        y = net.shaped(y or net.any_value(), shape)
        y = net.stored_as(y, x) if _must_be_equal(name, x, y) else y
    if name in ("MAXIMUM", "MINIMUM"):
        return net.op(name, [x, y], draw.result_like(x))
    ufunc = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply}[name]
    bits = 15 if draw.storage == "i16" else 20
    # The runtime aborts (ADD) or shifts by negative numbers (SUB) below this scale.
    least = 2.02 * max(*x.scales, *y.scales) / 2**bits if name != "MUL" else 0
    options = {} if name == "MUL" else {"pot_scale_int16": False}
    return net.op(
        name,
        [x, y],
        _result(net, ufunc(real(x), real(y)), least),
        fused_activation_function=draw.activation(),
        **options,
    )


def _must_be_equal(name: str, x: Tensor, y: Tensor) -> bool:
    """Whether the operands of an op must have equal parameters, or one would be lost."""
    ratio = x.scales[0] / y.scales[0]
    return (
        x.type != y.type
        or name in ("MAXIMUM", "MINIMUM")
        or not 1 / 2**12 < ratio < 2**12
    )


def concatenation(net: Network, x: Tensor, *others: Tensor) -> Tensor:
    draw = net.draw
    others = others or tuple(net.any_value() for _ in range(draw.integer(1, 2)))
    axis = draw.integer(0, x.array.ndim - 1)
    parts = [x]
    for other in others:
        sizes = list(x.array.shape)
        if draw.chance(0.5):
            sizes[axis] = draw.integer(1, 3)
        parts.append(net.stored_as(net.shaped(other, sizes), x))
    options = {"axis": axis, "fused_activation_function": 0}
    return net.op("CONCATENATION", parts, draw.result_like(x), **options)


def transposed(net: Network, x: Tensor) -> Tensor:
    order = net.draw.integers(net.draw.random.permutation(x.array.ndim))
    return net.op("TRANSPOSE", [x, order], net.draw.result_like(x))


def sliced(net: Network, x: Tensor) -> Tensor:
    draw, shape = net.draw, x.array.shape
    begins = [draw.integer(0, size // 2) for size in shape]
    strides = [draw.integer(1, 2) for _ in shape]
    operands = [x, *map(draw.integers, (begins, shape, strides))]
    return net.op("STRIDED_SLICE", operands, draw.result_like(x))


def split(net: Network, x: Tensor) -> Tensor:
    """Parts of a tensor, one of them through another layer, joined again."""
    draw, shape = net.draw, x.array.shape
    axes = [axis for axis, size in enumerate(shape) if size % 2 == 0]
    if not axes:
        return sliced(net, x)
    axis = draw.integers(draw.choice(axes))
    results = [draw.result_like(x)] * 2
    options = {"num_splits": 2}
    parts = net.add(Case("SPLIT", "SPLIT", options, [axis, x], results))
    return sum_of(net, activation(net, parts[0]), parts[1])


def selected(net: Network, x: Tensor) -> Tensor:
    """The elements of two tensors that a comparison selects."""
    draw = net.draw
    # The kernel of comparisons is broken for scales from 1 on.
    scale = draw.scale(1e-3, 0.9)
    x = net.stored_as(x, draw.quantized((), scale))
    y = net.stored_as(net.shaped(net.any_value(), x.array.shape), x)
    name = draw.choice(("LESS", "GREATER_EQUAL", "EQUAL"))
    condition = net.op(name, [x, y], draw.result("i1"))
    # The kernel does not change the shape of a result that has one element already.
    result = draw.result_like(x)._replace(array=np.zeros(x.array.shape))
    return net.op("SELECT_V2", [condition, x, y], result)


def requantized(net: Network, x: Tensor) -> Tensor:
    """The same numbers in any storage."""
    net.draw.storage = net.draw.choice(("i8", "u8", "i16"))
    return net.stored_as(x, _result(net, real(x)))


def any_op(net: Network, x: Tensor) -> Sequence[Tensor]:
    """A model of one op, whose operands are what the network computes."""
    names = [name for name in _SINGLE_OPS if name not in _WITHOUT_NETWORKS]
    declaration = _SINGLE_OPS[net.draw.choice(names)]
    kinds = [k for k in declaration.kinds if k.split()[0] in _STORAGES.values()]
    draw = Draw(declaration.op, net.draw.choice(kinds), 0, 0)
    draw.random = net.draw.random
    case = declaration.make(draw)
    operands: list[Tensor | None] = []
    for operand in case.operands:
        if operand is None or operand.is_constant or operand.is_variable:
            operands.append(operand)
        elif not _is_fed(operand):
            operands.append(operand)
        else:
            fitting = net.shaped(x, operand.array.shape)
            operands.append(net.stored_as(fitting, operand))
            x = net.any_value()
    return net.add(case._replace(operands=operands))


# State


def _variable(net: Network, initial: Tensor) -> Tensor:
    """The handle of a new variable."""
    name = f"v{len(net.initial_values)}"
    net.initial_values.append(initial._replace(is_constant=True))
    (handle,) = net.add(
        Case(name, "VAR_HANDLE", {"shared_name": name}, [], [_handle()])
    )
    return handle


def _assign(net: Network, handle: Tensor, x: Tensor) -> None:
    net.add(Case("assign", "ASSIGN_VARIABLE", {}, [handle, x], []))


def window_of_steps(net: Network, x: Tensor) -> Tensor:
    """What the last steps computed, and what this one does."""
    draw, shape = net.draw, x.array.shape
    axis = draw.integer(0, len(shape) - 1)
    sizes = list(shape)
    sizes[axis] = draw.integer(1, 4)
    initial = draw.like(x, sizes)
    handle = _variable(net, initial)
    last = net.op("READ_VARIABLE", [handle], initial)
    result = draw.result_like(x)
    options = {"axis": axis, "fused_activation_function": 0}
    window = net.op("CONCATENATION", [last, x], result, **options)
    begins = [0] * len(shape)
    begins[axis] = shape[axis]
    operands = [window, *map(draw.integers, (begins, sizes))]
    _assign(net, handle, net.op("SLICE", operands, draw.result_like(x)))
    return window


def running_sum(net: Network, x: Tensor) -> Tensor:
    """A variable that is read, assigned and, now and then, read again."""
    draw = net.draw
    like = _result(net, 3 * real(x), 2.02 * x.scales[0] / 2**15)
    initial = draw.quantized(x.array.shape, like.scales[0], like.zero_points[0])
    handle = _variable(net, initial)
    last = net.op("READ_VARIABLE", [handle], initial)
    options = {"fused_activation_function": 0, "pot_scale_int16": False}
    total = net.op("ADD", [last, x], draw.result_like(like), **options)
    _assign(net, handle, total)
    if draw.chance(0.5):
        total = net.op("READ_VARIABLE", [handle], draw.result_like(like))
    return total


def svdf(net: Network, x: Tensor) -> Tensor:
    """The state of the op is a tensor that belongs to it."""
    draw = Draw("SVDF", "i8", 0, 0)
    draw.random = net.draw.random
    case = products.svdf(draw)
    (operand, *others) = case.operands
    assert operand is not None
    x = net.stored_as(net.shaped(x, operand.array.shape), operand)
    (result,) = net.add(case._replace(operands=[x, *others]))
    return result


def float_svdf(net: Network, x: Tensor) -> Tensor:
    """
    The same with floats. They are integers, whose sums are exact in any order: that of
    the kernel is not defined.
    """
    draw = net.draw
    rank, units, memory = draw.integer(1, 3), draw.integer(1, 6), draw.integer(1, 5)
    batch, depth = x.array.shape
    shapes = (rank * units, depth), (rank * units, memory), (units,)
    features, time, bias = (
        draw.tensor(draw.random.integers(-3, 4, shape), "f32", is_constant=True)
        for shape in shapes
    )
    state = draw.tensor(np.zeros((batch, rank * units * memory)), "f32")
    return net.op(
        "SVDF",
        [
            *(x, features, time),
            draw.choice((bias, None)),
            state._replace(is_variable=True),
        ],
        draw.result("f32"),
        rank=rank,
        fused_activation_function=draw.choice((0, 1)),
    )


_IMAGE: Sequence[Layer] = (
    *(convolution,) * 5,
    transposed_convolution,
    pool,
    pool,
    padding,
    resizing,
)
_ENDS: Sequence[Layer] = flattened, global_mean, residual, residual
_ROWS: Sequence[Layer] = fully_connected, fully_connected, softmax
_ALL: Sequence[Layer] = (
    activation,
    activation,
    sum_of,
    sum_of,
    concatenation,
    transposed,
    sliced,
    split,
    selected,
    requantized,
    *(any_op,) * 5,
)
_STATE: Sequence[Layer] = window_of_steps, running_sum, running_sum, svdf


def one_of(net: Network, x: Tensor, layers: Sequence[Layer]) -> Any:
    """Append any of the layers, and return its result."""
    net.draw.storage = _storage(x)
    return net.draw.choice(layers)(net, x)


def _layer(net: Network, x: Tensor) -> Any:
    """Any layer that takes the shape of a tensor."""
    shape = x.array.shape
    layers = _ALL
    if len(shape) == 4 and max(shape) < 40:
        layers = *layers, *_IMAGE, *_IMAGE, *_ENDS
    if len(shape) >= 2:
        layers = *layers, *_ROWS
        if x.type != "UINT8":
            layers = *layers, attention
    if len(net.steps) > 1:
        layers = *layers, *_STATE, *_STATE
    return one_of(net, x, layers)


def _chain_of_svdf(net: Network) -> list[str]:
    draw = net.draw
    shape = draw.integer(1, 3), draw.integer(1, 6)
    if draw.storage == "f32":
        layer, x = float_svdf, draw.tensor(draw.random.integers(-4, 5, shape), "f32")
    else:
        layer, x = svdf, draw.quantized(shape, draw.scale())
    for _ in range(draw.integer(1, 2)):
        x = layer(net, x)
    return []


def network(draw: Draw, process: LiteRTProcess) -> tuple[Network, list[str]]:
    """
    A random model of several ops, and why the reference kernels did not run some of those
    that were to be in it.
    """
    has_state = draw.kind != draw.storage
    net = Network(draw, process, STEPS if has_state else 1)
    if draw.kind.endswith("svdf"):
        return net, _chain_of_svdf(net)
    shape = (
        draw.integer(1, 2),
        draw.integer(3, 8),
        draw.integer(3, 8),
        draw.integer(1, 3),
    )
    if draw.chance(0.3):
        shape = draw.integer(1, 4), draw.integer(2, 12)
    x = draw.quantized(shape, draw.scale())
    if draw.chance(0.3):
        values = draw.tensor(real(x).astype(np.float32), "f32")
        net.op("QUANTIZE", [values], draw.result_like(x))
    else:
        net.op("RESHAPE", [x, draw.integers(shape)], draw.result_like(x))
    refused: list[str] = []
    for _ in range(draw.integer(2, 9)):
        x = net.ordinary(net.any_value())
        x = x if x.array.ndim else net.reshape(x, [1])
        if has_state and not net.initial_values:
            message = net.attempt(lambda n, y: one_of(n, y, _STATE), x)
        elif x.array.size > 2000:
            message = net.attempt(lambda n, y: n.shaped(y, [4, 10]), x)
        else:
            message = net.attempt(_layer, x)
        if message:
            refused.append(f"{draw.name}: {message}")
    if draw.chance(0.3):
        x = net.any_value()
        net.op("DEQUANTIZE", [x], draw.result("f32"))
    return net, refused
