"""
Ops of TensorFlow Lite with quantization parameters beside those that the reference kernels
expect, and the real numbers that their types name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, product
from typing import Any, Literal, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import parse_module

Shape = tuple[int, ...]


class Storage(NamedTuple):
    """A storage type."""

    name: str
    low: int
    high: int
    dtype: Any

    @property
    def steps(self) -> int:
        return self.high - self.low


STORAGES: Mapping[str, Storage] = {
    "i4": Storage("i4", -8, 7, np.int8),
    "i8": Storage("i8", -128, 127, np.int8),
    "u8": Storage("u8", 0, 255, np.uint8),
    "i16": Storage("i16", -32768, 32767, np.int16),
    "i32": Storage("i32", -(1 << 31), (1 << 31) - 1, np.int32),
}


class Quantization(NamedTuple):
    """A quantized type; several scales are those of an axis."""

    storage: Storage
    scales: tuple[float, ...]
    zero_point: int = 0
    axis: int | None = None

    @property
    def text(self) -> str:
        storage, zero_point = self.storage.name, self.zero_point
        scales = [f"{scale!r}:{zero_point}" for scale in self.scales]
        if self.axis is None:
            return f"!quant.uniform<{storage}:f32, {scales[0]}>"
        return f"!quant.uniform<{storage}:f32:{self.axis}, {{{', '.join(scales)}}}>"

    def scales_for(self, rank: int) -> NDArray[np.float64]:
        shape = [1] * rank
        if self.axis is not None:
            shape[self.axis] = -1
        return np.reshape(self.scales, shape)

    def expressed(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """The real numbers of stored values."""
        return (values.astype(np.int64) - self.zero_point) * self.scales_for(
            values.ndim
        )

    def steps(self, numbers: NDArray[Any]) -> NDArray[np.float64]:
        """Real numbers in units of the stored values, limited to their range."""
        steps = numbers / self.scales_for(numbers.ndim) + self.zero_point
        return np.clip(steps, self.storage.low, self.storage.high)


class Tensor(NamedTuple):
    """A quantized operand of an op."""

    shape: Shape
    low: float
    """The smallest of its numbers."""
    high: float


class Constant(NamedTuple):
    """An operand of constant `i32`."""

    values: Any


class Truths(NamedTuple):
    """An operand of `i1`."""

    shape: Shape


class Absent(NamedTuple):
    """An operand that is absent."""


Operand = Tensor | Constant | Truths | Absent


@dataclass(frozen=True)
class Spec:
    """An op."""

    name: str
    operands: Sequence[Operand]
    shape: Shape
    range: tuple[float, float] = (-8, 8)
    """What its results are within."""
    properties: str = ""
    result: Literal["quantized", "i1", "i32"] = "quantized"
    results: int = 1
    weights: int | None = None
    """The operand that may have scales along an axis."""


ACTIVATION = 'fused_activation_function = "NONE"'
X = Tensor((2, 6), -8, 8)
POSITIVE = Tensor((2, 6), 0.25, 8)
IMAGE = Tensor((1, 4, 4, 2), -8, 8)
STRIDES = f'padding = "SAME", stride_h = 1 : i32, stride_w = 1 : i32, {ACTIVATION}'
DILATIONS = "dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32"
POOL = f"filter_height = 2 : i32, filter_width = 2 : i32, {STRIDES}"
KEPT = "keep_dims = true"
CENTERS = "align_corners = false, half_pixel_centers = false"


def _of_one(names: str, operand: Tensor = X, **options: Any) -> Iterator[Spec]:
    for name in names.split():
        yield Spec(name, [operand], options.get("shape", operand.shape), **options)


def _specs() -> Iterator[Spec]:
    yield from _of_one("neg abs relu sin cos floor ceil round elu hard_swish")
    yield from _of_one("relu6 relu_n1_to_1 relu_0_to_1", range=(-1, 6))
    yield from _of_one("exp", Tensor((2, 6), -8, 2))
    yield from _of_one("sqrt rsqrt log", POSITIVE, range=(-2, 3))
    yield from _of_one("logistic tanh softmax", range=(-1, 1))
    yield from _of_one("log_softmax", range=(-16, 0))
    yield from _of_one("l2_normalization", range=(-1, 1), properties=ACTIVATION)
    yield from _of_one("leaky_relu", properties="alpha = 0.3 : f32")
    yield from _of_one("gelu", properties="approximate = false")
    for name in ("add", "sub", "mul", "div"):
        y = POSITIVE if name == "div" else X
        yield Spec(name, [X, y], X.shape, properties=ACTIVATION)
    for name in ("squared_difference", "maximum", "minimum"):
        yield Spec(name, [X, X], X.shape)
    yield Spec("prelu", [X, Tensor((6,), -1, 1)], X.shape)
    yield Spec("floor_div", [X, POSITIVE], X.shape)
    yield Spec("floor_mod", [X, POSITIVE], X.shape)
    yield Spec("pow", [POSITIVE, Tensor((2, 6), -2, 2)], X.shape, (0, 16))
    for name in (
        "equal",
        "not_equal",
        "greater",
        "greater_equal",
        "less",
        "less_equal",
    ):
        yield Spec(name, [X, X], X.shape, result="i1")
    yield Spec("select", [Truths(X.shape), X, X], X.shape)
    yield Spec("select_v2", [Truths((2, 1)), X, X], X.shape)
    yield from _products()
    yield from _reductions()
    yield from _moves()


def _products() -> Iterator[Spec]:
    weights = Tensor((3, 3, 3, 2), -1, 1)
    for bias in (Absent(), Tensor((3,), -2, 2)):
        yield Spec(
            "conv_2d",
            [IMAGE, weights, bias],
            (1, 4, 4, 3),
            (-16, 16),
            f"{STRIDES}, {DILATIONS}",
            weights=1,
        )
        yield Spec(
            "depthwise_conv_2d",
            [
                IMAGE,
                Tensor((1, 3, 3, 2), -1, 1),
                bias._replace(shape=(2,)) if isinstance(bias, Tensor) else bias,
            ],
            IMAGE.shape,
            (-16, 16),
            f"{STRIDES}, {DILATIONS}, depth_multiplier = 1 : i32",
            weights=1,
        )
        yield Spec(
            "transpose_conv",
            [Constant([1, 4, 4, 3]), weights, IMAGE, bias],
            (1, 4, 4, 3),
            (-16, 16),
            STRIDES,
            weights=1,
        )
        yield Spec(
            "fully_connected",
            [X, Tensor((3, 6), -1, 1), bias],
            (2, 3),
            (-16, 16),
            f'{ACTIVATION}, keep_num_dims = false, weights_format = "DEFAULT"',
            weights=1,
        )
    yield Spec(
        "batch_matmul",
        [X, Tensor((6, 3), -1, 1)],
        (2, 3),
        (-16, 16),
        "adj_x = false, adj_y = false",
        weights=1,
    )


def _reductions() -> Iterator[Spec]:
    yield from _of_one("average_pool_2d max_pool_2d", IMAGE, properties=POOL)
    for name in ("mean", "sum", "reduce_max", "reduce_min", "reduce_prod"):
        x = Tensor((2, 3), -2, 2) if name == "reduce_prod" else X
        yield Spec(name, [x, Constant([1])], (2, 1), properties=KEPT)
    for name in ("arg_max", "arg_min"):
        yield Spec(name, [X, Constant(1)], (2,), result="i32")
    yield Spec(
        "resize_bilinear", [IMAGE, Constant([7, 7])], (1, 7, 7, 2), properties=CENTERS
    )


def _moves() -> Iterator[Spec]:
    yield Spec("reshape", [X, Constant([3, 4])], (3, 4))
    yield Spec(
        "squeeze", [Tensor((1, 6), -8, 8)], (6,), properties="squeeze_dims = [0]"
    )
    yield Spec("expand_dims", [X, Constant(0)], (1, 2, 6))
    yield Spec("transpose", [X, Constant([1, 0])], (6, 2))
    yield Spec("slice", [X, Constant([0, 1]), Constant([2, 3])], (2, 3))
    masks = "begin_mask ellipsis_mask end_mask new_axis_mask shrink_axis_mask".split()
    yield Spec(
        "strided_slice",
        [X, Constant([0, 0]), Constant([2, 6]), Constant([1, 2])],
        (2, 3),
        properties=", ".join(
            [*(f"{mask} = 0 : i32" for mask in masks), "offset = false"]
        ),
    )
    yield Spec(
        "dynamic_update_slice", [X, Tensor((1, 3), -8, 8), Constant([1, 2])], X.shape
    )
    yield Spec(
        "concatenation", [X, X], (2, 12), properties=f"axis = 1 : i32, {ACTIVATION}"
    )
    yield Spec(
        "pack", [X, X], (2, 2, 6), properties="axis = 0 : i32, values_count = 2 : i32"
    )
    yield Spec(
        "unpack", [X], (6,), properties="axis = 0 : i32, num = 2 : i32", results=2
    )
    yield Spec(
        "split", [Constant(1), X], (2, 3), properties="num_splits = 2 : i32", results=2
    )
    yield Spec(
        "split_v",
        [X, Constant([3, 3]), Constant(1)],
        (2, 3),
        properties="num_splits = 2 : i32",
        results=2,
    )
    pads = Constant([[0, 1], [1, 0]])
    yield Spec("pad", [X, pads], (3, 7))
    yield Spec("padv2", [X, pads, Tensor((), -8, 8)], (3, 7))
    yield Spec(
        "mirror_pad",
        [X, pads],
        (3, 7),
        properties="mode = #tfl<mirror_pad_attr REFLECT>",
    )
    yield Spec(
        "gather",
        [X, Constant([1, 0])],
        X.shape,
        properties="axis = 0 : i32, batch_dims = 0 : i32",
    )
    yield Spec("gather_nd", [X, Constant([[1], [0]])], X.shape)
    yield Spec("embedding_lookup", [Constant([1, 0]), X], X.shape, weights=1)
    yield Spec("tile", [X, Constant([2, 1])], (4, 6))
    yield Spec("broadcast_to", [Tensor((1, 6), -8, 8), Constant([2, 6])], X.shape)
    yield Spec("reverse_v2", [X, Constant([1])], X.shape)
    yield Spec(
        "space_to_depth", [IMAGE], (1, 2, 2, 8), properties="block_size = 2 : i32"
    )
    yield Spec(
        "depth_to_space",
        [Tensor((1, 2, 2, 4), -8, 8)],
        (1, 4, 4, 1),
        properties="block_size = 2 : i32",
    )
    zeros = Constant([[0, 0], [0, 0]])
    yield Spec("space_to_batch_nd", [IMAGE, Constant([2, 2]), zeros], (4, 2, 2, 2))
    yield Spec(
        "batch_to_space_nd",
        [Tensor((4, 2, 2, 2), -8, 8), Constant([2, 2]), zeros],
        (1, 4, 4, 2),
    )
    yield Spec(
        "resize_nearest_neighbor",
        [IMAGE, Constant([7, 7])],
        (1, 7, 7, 2),
        properties=CENTERS,
    )
    yield Spec("fill", [Constant([2, 6]), Tensor((), -8, 8)], X.shape)
    yield Spec("cast", [X], X.shape)
    yield Spec("quantize", [X], X.shape)


def _grouped(specs: Iterable[Spec]) -> Mapping[str, Sequence[Spec]]:
    groups: defaultdict[str, list[Spec]] = defaultdict(list)
    for spec in specs:
        groups[spec.name].append(spec)
    return dict(groups)


SPECS = _grouped(_specs())
"""The ops by name."""


@dataclass(frozen=True)
class Case:
    """An op with quantized types."""

    spec: Spec
    types: tuple[Quantization | None, ...]
    result: Quantization

    @property
    def name(self) -> str:
        types = [t.text for t in (*self.types, self.result) if t is not None]
        return f"{self.spec.name}: {' '.join(types)}".replace("!quant.uniform", "")

    def _module(self, types: Sequence[str], result: str) -> str:
        """The text of a function of the op, given the element types."""
        spec, names = self.spec, iter(count())
        arguments: list[str] = []
        constants: list[str] = []
        operands: list[tuple[str, str]] = []
        for operand, element_type in zip(spec.operands, types, strict=True):
            name = f"%{next(names)}"
            match operand:
                case Absent():
                    type_ = "none"
                    constants.append(
                        f'{name} = "tfl.no_value"() <{{value}}> : () -> none'
                    )
                case Constant(values):
                    array = np.array(values)
                    type_ = tensor_type(array.shape, "i32")
                    constants.append(
                        f'{name} = "tfl.pseudo_const"() <{{value = dense<{array.tolist()}> '
                        f": {type_}}}> : () -> {type_}"
                    )
                case Truths(shape):
                    type_ = tensor_type(shape, "i1")
                    arguments.append(f"{name}: {type_}")
                case Tensor(shape):
                    type_ = tensor_type(shape, element_type)
                    arguments.append(f"{name}: {type_}")
            operands.append((name, type_))
        type_ = tensor_type(spec.shape, result)
        properties = spec.properties
        if spec.name == "quantize":
            properties = f"qtype = {type_}"
        if spec.name == "softmax":
            properties = "beta = 1.0 : f32"
        results = ", ".join([type_] * spec.results)
        values = (
            ", ".join(f"%r#{i}" for i in range(spec.results))
            if spec.results > 1
            else "%r"
        )
        operand_names = ", ".join(name for name, _ in operands)
        operand_types = ", ".join(type_ for _, type_ in operands)
        pack = f":{spec.results}" if spec.results > 1 else ""
        return f"""func.func @main({", ".join(arguments)}) -> ({results}) {{
          {" ".join(constants)}
          %r{pack} = "tfl.{spec.name}"({operand_names}) <{{{properties}}}>
              : ({operand_types}) -> ({results})
          func.return {values} : {results}
        }}"""

    @property
    def text(self) -> str:
        types = ["" if t is None else t.text for t in self.types]
        result = (
            self.result.text if self.spec.result == "quantized" else self.spec.result
        )
        return self._module(types, result)

    def arguments(self) -> list[NDArray[Any]]:
        """Stored values of the numbers that the op takes."""
        rng = np.random.default_rng(crc32(self.name.encode()))
        arrays: list[NDArray[Any]] = []
        for operand, type_ in zip(self.spec.operands, self.types, strict=True):
            if isinstance(operand, Truths):
                arrays.append(rng.integers(0, 2, operand.shape).astype(np.bool_))
            if isinstance(operand, Tensor):
                assert type_ is not None
                reals = rng.uniform(operand.low, operand.high, operand.shape)
                steps = np.round(type_.steps(np.asarray(reals)))
                if operand.low > 0:
                    steps = np.maximum(
                        steps, min(type_.zero_point + 1, type_.storage.high)
                    )
                arrays.append(steps.astype(type_.storage.dtype))
        return arrays

    def real_results(self) -> Sequence[NDArray[np.float64]]:
        """What the op computes of the real numbers that the types name."""
        types = [
            type_
            for type_, operand in zip(self.types, self.spec.operands, strict=True)
            if isinstance(operand, Tensor | Truths)
        ]
        numbers = [
            array if type_ is None else type_.expressed(array).astype(np.float32)
            for type_, array in zip(types, self.arguments(), strict=True)
        ]
        if self.spec.name in ("cast", "quantize"):
            return [numbers[0].astype(np.float64)]
        result = "f32" if self.spec.result == "quantized" else self.spec.result
        text = self._module(["f32"] * len(self.types), result)
        values = run_function(parse_module(text), "main", *numbers)
        return [value.astype(np.float64) for value in values]


def tensor_type(shape: Shape, element_type: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element_type}>"


def _quantizations(
    storage: Storage, low: float, high: float, factors: Sequence[float]
) -> Iterator[Quantization]:
    """Types whose range is so many times the one of the numbers, with zero points."""
    natural = max(abs(low), abs(high)) * 2 / storage.steps
    middle = (storage.low + storage.high + 1) // 2
    offset = storage.steps // 5
    for index, factor in enumerate(factors):
        has_offset = index % 2 == 1 and storage.name != "i32"
        zero_point = middle + offset * has_offset
        yield Quantization(storage, (float(np.float32(natural * factor)),), zero_point)


FIXED: Mapping[tuple[str, str], Sequence[tuple[float, int]]] = {
    ("logistic", "i8"): [(2**-8, -128)],
    ("logistic", "u8"): [(2**-8, 0)],
    ("logistic", "i16"): [(2**-15, 0)],
    ("tanh", "i8"): [(2**-7, 0)],
    ("tanh", "u8"): [(2**-7, 128)],
    ("tanh", "i16"): [(2**-15, 0)],
    ("softmax", "i8"): [(2**-8, -128), (2**-8, 0), (2**-7, -128), (1 / 128, 0)],
    ("softmax", "u8"): [(2**-8, 0), (2**-8, 1), (2**-7, 0)],
    ("softmax", "i16"): [(2**-15, 0), (2**-15, 3), (2**-8, 0)],
    ("log_softmax", "i8"): [(1 / 16, 127), (1 / 16, 0), (0.5, 127), (0.5, 0)],
    ("log_softmax", "u8"): [(1 / 16, 255), (0.5, 255), (1 / 16, 128)],
    ("l2_normalization", "i8"): [(1 / 128, 0), (1 / 64, 0), (1 / 128, 5)],
    ("l2_normalization", "u8"): [(1 / 128, 128), (1 / 64, 128)],
}
"""The parameters that kernels expect of results, and some beside them."""


def cases_of(spec: Spec) -> Iterator[Case]:
    """The cases of an op."""
    for storage in STORAGES.values():
        yield from _cases(spec, storage)


def _cases(spec: Spec, storage: Storage) -> Iterator[Case]:
    tensors = [o for o in spec.operands if isinstance(o, Tensor)]
    low, high = spec.range
    results = [*_quantizations(storage, low, high, (1, 0.3, 25, 1e-3, 3, 1))]
    results += [
        Quantization(storage, (scale,), zero_point)
        for scale, zero_point in FIXED.get((spec.name, storage.name), ())
    ]
    for other in STORAGES.values():
        if other is not storage:
            results += [*_quantizations(other, low, high, (0.7, 1.1))]
    if spec.result != "quantized":
        results = results[:1]
    first = tensors[0]
    operands = [*_quantizations(storage, first.low, first.high, (1, 7, 0.04, 300))]
    for x, result in product(operands, results):
        for types in _operand_types(spec, x, result):
            yield Case(spec, types, result)
    for x in operands[:2]:
        # All values have the same parameters.
        types = tuple(x if isinstance(o, Tensor) else None for o in spec.operands)
        yield Case(spec, types, x)


def _operand_types(
    spec: Spec, x: Quantization, result: Quantization
) -> Iterator[tuple[Quantization | None, ...]]:
    types: list[Quantization | None] = []
    places = [i for i, o in enumerate(spec.operands) if isinstance(o, Tensor)]
    for index, operand in enumerate(spec.operands):
        if not isinstance(operand, Tensor):
            types.append(None)
            continue
        other = next(_quantizations(x.storage, operand.low, operand.high, (1.3,)))
        types.append(x if index == places[0] and spec.weights != index else other)
    if len(places) == 3:
        # A bias.
        yield from _with_bias(spec, types, places)
        return
    yield tuple(types)
    if spec.weights is not None:
        yield from _with_axes(spec, types)
    if len(places) > 1 and x == result:
        yield tuple(x if t is not None else None for t in types)


def _with_axes(
    spec: Spec, types: Sequence[Quantization | None]
) -> Iterator[tuple[Quantization | None, ...]]:
    index = spec.weights
    assert index is not None
    operand, type_ = spec.operands[index], types[index]
    assert isinstance(operand, Tensor)
    assert type_ is not None
    for axis in (0, len(operand.shape) - 1):
        size = operand.shape[axis]
        scales = tuple(
            float(np.float32(type_.scales[0] * (1 + i / size))) for i in range(size)
        )
        yield tuple(
            type_._replace(scales=scales, axis=axis) if i == index else t
            for i, t in enumerate(types)
        )


def _with_bias(
    spec: Spec, types: Sequence[Quantization | None], places: Sequence[int]
) -> Iterator[tuple[Quantization | None, ...]]:
    x, weights = (types[i] for i in sorted(places[:2], key=lambda i: i == spec.weights))
    assert x is not None
    assert weights is not None
    scale = x.scales[0] * weights.scales[0]
    for factor in (1, 3.0):
        bias = Quantization(STORAGES["i32"], (float(np.float32(scale * factor)),))
        yield tuple(bias if i == places[-1] else t for i, t in enumerate(types))
