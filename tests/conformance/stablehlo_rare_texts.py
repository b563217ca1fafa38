"""
Random modules with one of StableHLO's ops that models seldom have: collectives, transfers,
linear algebra, random numbers, batch normalization and deprecated ops.

Ops are valid, and then one part of half of them becomes another: a type, a property, the
number of operands, or a type of a region.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from .op_texts import DYNAMIC
from .stablehlo_texts import PerAxis, Shape, Tensor
from .type_texts import one_in

TOKEN = "!stablehlo.token"

Type = Tensor | str

_FLOATS = ("f32", "f32", "f16", "bf16", "f64")
_QUANTIZED = ("!quant.uniform<i8:f32, 0.5>", "!quant.uniform<i8:f32, 0.25:3>")
_OTHERS = ("i32", "i1", "ui8", "i64", "complex<f32>", "complex<f64>", "f8E4M3FN")
_REFUSED = ("i3", "si8", "index", "complex<f16>", "!quant.uniform<i8:f32, 0.5:300>")


@dataclass
class Op:
    """An op, before it is text."""

    name: str
    operands: Sequence[Type]
    results: Sequence[Type]
    properties: dict[str, str] = field(default_factory=dict[str, str])
    regions: list[Region] = field(default_factory=list["Region"])
    constants: dict[int, str] = field(default_factory=dict[int, str])
    """Elements of the operands that are constants and not arguments."""


@dataclass
class Region:
    """A region with one op, or one that returns its arguments."""

    inner: str
    arguments: Sequence[Type]
    returned: Sequence[Type]

    def __str__(self) -> str:
        names = [f"%x{i}" for i in range(len(self.arguments))]
        parameters = ", ".join(
            f"{name}: {type_}"
            for name, type_ in zip(names, self.arguments, strict=True)
        )
        types = ", ".join(map(str, self.returned))
        head = f"^bb0({parameters}):\n"
        if not self.inner:
            returned = ", ".join(names[: len(self.returned)])
            return f'{{{head}"stablehlo.return"({returned}) : ({types}) -> ()\n}}'
        inner, _, properties = self.inner.partition(" ")
        half = len(names) // 2 or 1
        results = [f"%s{i}" for i in range(len(self.returned))]
        body = "".join(
            f'{result} = "stablehlo.{inner}"({names[i]}, {names[(i + half) % len(names)]}) '
            f"{properties} : ({self.arguments[i]}, "
            f"{self.arguments[(i + half) % len(names)]}) -> {self.returned[i]}\n"
            for i, result in enumerate(results)
        )
        returned = ", ".join(results)
        return f'{{{head}{body}"stablehlo.return"({returned}) : ({types}) -> ()\n}}'


def _element(rng: Random) -> str:
    match rng.randrange(8):
        case 0:
            return rng.choice(_OTHERS)
        case 1 | 2:
            return rng.choice(_QUANTIZED)
        case _:
            return rng.choice(_FLOATS)


def _shape(rng: Random, *ranks: int) -> Shape:
    sizes = (1, 2, 2, 3, 4, 6, DYNAMIC)
    rank = rng.choice(ranks or (0, 1, 2, 2, 3))
    return [rng.choice(sizes if one_in(rng, 3) else sizes[:6]) for _ in range(rank)]


def _scalar(tensor: Tensor) -> Tensor:
    return Tensor([], tensor.element)


def _array(values: Sequence[int]) -> str:
    return f"array<i64{': ' if values else ''}{', '.join(map(str, values))}>"


def _integer(value: int, type_: str = "i64") -> str:
    return f"{value} : {type_}"


def _groups(rng: Random, size: int | None = None) -> str:
    size = size or rng.choice((1, 2, 2, 3))
    count = rng.choice((1, 1, 2))
    ids = [*range(size * count)]
    if one_in(rng, 3):
        rng.shuffle(ids)
    if one_in(rng, 8):
        ids[-1] = -1
    rows = [ids[size * i : size * (i + 1)] for i in range(count)]
    return f"dense<{rows}> : tensor<{count}x{size}xi64>"


def _collective(rng: Random, *, global_ids: bool = True) -> dict[str, str]:
    properties = {"replica_groups": _groups(rng)}
    is_global = global_ids and one_in(rng, 3)
    if one_in(rng, 3) or is_global:
        properties["channel_handle"] = _channel(rng.choice((1, 1, 5, 0)), 0)
    if is_global:
        properties["use_global_device_ids"] = ""
    return properties


def _channel(handle: int, type_: int) -> str:
    return f"#stablehlo.channel_handle<handle = {handle}, type = {type_}>"


def _tensors(rng: Random, count: int, *ranks: int) -> list[Tensor]:
    return [Tensor(_shape(rng, *ranks), _element(rng)) for _ in range(count)]


def _resized(tensor: Tensor, dimension: int, multiply: int, divide: int = 1) -> Tensor:
    shape = [*tensor.shape]
    if shape[dimension] != DYNAMIC:
        shape[dimension] = shape[dimension] * multiply // divide
    return Tensor(shape, tensor.element)


def _all_gather(rng: Random) -> Op:
    inputs = _tensors(rng, rng.choice((1, 1, 2)), 1, 2, 3)
    element = inputs[0].element
    inputs = [Tensor(tensor.shape, element) for tensor in inputs]
    dimension = rng.randrange(min(len(tensor.shape) for tensor in inputs))
    results = [_resized(tensor, dimension, rng.choice((1, 2, 3))) for tensor in inputs]
    properties = {"all_gather_dim": _integer(dimension), **_collective(rng)}
    return Op("all_gather", inputs, results, properties)


def _reduction(inputs: Sequence[Tensor], inner: str = "add") -> Region:
    scalars = [_scalar(tensor) for tensor in inputs]
    return Region(inner, [*scalars, *scalars], scalars)


def _all_reduce(rng: Random) -> Op:
    inputs = _tensors(rng, rng.choice((1, 1, 2)))
    name = rng.choice(("all_reduce", "all_reduce", "collective_reduce"))
    properties = _collective(rng)
    if name == "collective_reduce" and one_in(rng, 3):
        properties["has_dynamic_root"] = ""
        if one_in(rng, 2):
            inputs.append(Tensor([], rng.choice(("i32", "i64", "ui32"))))
    count = len(inputs) - ("has_dynamic_root" in properties and one_in(rng, 2))
    region = _reduction(inputs[:count])
    return Op(name, inputs, inputs[:count], properties, [region])


def _reduce_scatter(rng: Random) -> Op:
    (operand,) = _tensors(rng, 1, 1, 2, 3)
    dimension = rng.randrange(len(operand.shape))
    divisor = rng.choice((1, 2))
    result = _resized(operand, dimension, 1, divisor)
    properties = {"scatter_dimension": _integer(dimension), **_collective(rng)}
    return Op(
        "reduce_scatter", [operand], [result], properties, [_reduction([operand])]
    )


def _all_to_all(rng: Random) -> Op:
    inputs = _tensors(rng, rng.choice((1, 1, 2)), 1, 2, 3)
    count = rng.choice((1, 2))
    rank = min(len(tensor.shape) for tensor in inputs)
    split, concat = rng.randrange(rank), rng.randrange(rank)
    results = [
        _resized(_resized(tensor, split, 1, count), concat, count) for tensor in inputs
    ]
    properties = {
        "concat_dimension": _integer(concat),
        "split_count": _integer(count),
        "split_dimension": _integer(split),
        **_collective(rng, global_ids=False),
        "replica_groups": _groups(rng, count),
    }
    return Op("all_to_all", inputs, results, properties)


def _collective_broadcast(rng: Random) -> Op:
    inputs = _tensors(rng, rng.choice((1, 1, 2)))
    properties = _collective(rng, global_ids=False)
    if one_in(rng, 3):
        properties["has_dynamic_root"] = ""
        inputs.append(Tensor([], rng.choice(("i32", "i64", "ui32"))))
    results = inputs[: len(inputs) - one_in(rng, 2)] or inputs
    return Op("collective_broadcast", inputs, results, properties)


def _pairs(rng: Random) -> str:
    count = rng.choice((1, 2, 3))
    rows = [[i, j] for i, j in enumerate(rng.sample(range(count), count))]
    return f"dense<{rows}> : tensor<{count}x2xi64>"


def _collective_permute(rng: Random) -> Op:
    operand = _tensors(rng, 1)
    properties = {"source_target_pairs": _pairs(rng)}
    if one_in(rng, 3):
        properties["channel_handle"] = _channel(rng.choice((0, 1)), 0)
    return Op("collective_permute", operand, operand, properties)


def _cross_replica_sum(rng: Random) -> Op:
    operand = _tensors(rng, 1)
    return Op("cross-replica-sum", operand, operand, {"replica_groups": _groups(rng)})


def _device_id(rng: Random) -> Op:
    element = "ui32" if not one_in(rng, 4) else _element(rng)
    name = rng.choice(("partition_id", "replica_id"))
    return Op(name, [], [Tensor(_shape(rng, 0, 0, 1), element)])


def _token(rng: Random) -> Op:
    if one_in(rng, 4):
        return Op("create_token", [], [TOKEN])
    return Op("after_all", [TOKEN] * rng.choice((1, 2, 3)), [TOKEN])


def _tuple(rng: Random) -> Op:
    elements: list[Type] = [*_tensors(rng, rng.choice((1, 1, 2, 3)))]
    if one_in(rng, 4):
        elements.append(rng.choice((TOKEN, "tuple<tensor<2xf32>>", "memref<2xf32>")))
    tuple_ = f"tuple<{', '.join(map(str, elements))}>"
    if one_in(rng, 2):
        return Op("tuple", elements, [tuple_])
    index = rng.randrange(len(elements))
    properties = {"index": _integer(index, "i32")}
    return Op("get_tuple_element", [tuple_], [elements[index]], properties)


def _feed(rng: Random) -> Op:
    tensors = [
        Tensor([abs(size) for size in tensor.shape], tensor.element)
        for tensor in _tensors(rng, rng.choice((0, 1, 1, 2)))
    ]
    if one_in(rng, 2):
        properties = {"outfeed_config": rng.choice(('"abc"', '""'))}
        properties = {} if one_in(rng, 3) else properties
        return Op("outfeed", [*tensors, TOKEN], [TOKEN], properties)
    properties = {"infeed_config": rng.choice(('"abc"', '""'))}
    properties = {} if one_in(rng, 3) else properties
    if one_in(rng, 2):
        layouts = [[*range(len(tensor.shape))] for tensor in tensors]
        properties["layout"] = str(layouts)
    return Op("infeed", [TOKEN], [*tensors, TOKEN], properties)


def _transfer(rng: Random) -> Op:
    tensors = [
        Tensor([abs(size) for size in tensor.shape], tensor.element)
        for tensor in _tensors(rng, rng.choice((0, 1, 1, 2)))
    ]
    name = rng.choice(("send", "recv"))
    is_host = one_in(rng, 2)
    kind = (2 if name == "send" else 3) if is_host else 1
    properties = {"channel_handle": _channel(rng.choice((0, 1, 5)), kind)}
    if is_host or one_in(rng, 2):
        properties["is_host_transfer"] = "true" if is_host else "false"
    if one_in(rng, 3):
        properties["source_target_pairs"] = _pairs(rng)
    if name == "send":
        return Op(name, [*tensors, TOKEN], [TOKEN], properties)
    return Op(name, [TOKEN], [*tensors, TOKEN], properties)


def _async(rng: Random) -> Op:
    inputs = _tensors(rng, rng.choice((1, 1, 2)))
    future = f"!stablehlo.future<{', '.join(map(str, inputs))}>"
    if one_in(rng, 3):
        return Op("async_done", [future], inputs)
    inner = ""
    if not one_in(rng, 4):
        inner, inputs = "dynamic_update_slice", [inputs[0], inputs[0]]
        inputs = [Tensor([], inputs[0].element)] * 2
        future = f"!stablehlo.future<{inputs[0]}>"
    region = Region(inner, inputs, inputs[:1])
    return Op("async_start", inputs, [future], {}, [region])


def _batch_norm(rng: Random) -> Op:
    (operand,) = _tensors(rng, 1, 1, 2, 3)
    if not one_in(rng, 5) and operand.element not in (*_FLOATS, *_QUANTIZED):
        operand = Tensor(operand.shape, "f32")
    index = rng.randrange(len(operand.shape))
    features = Tensor([operand.shape[index]], operand.element)
    if one_in(rng, 4):
        features = Tensor([DYNAMIC], operand.element)
    properties = {"epsilon": "1.000000e-03 : f32", "feature_index": _integer(index)}
    match rng.randrange(3):
        case 0:
            results = [operand]
            return Op(
                "batch_norm_inference", [operand, *[features] * 4], results, properties
            )
        case 1:
            results = [operand, features, features]
            return Op(
                "batch_norm_training",
                [operand, features, features],
                results,
                properties,
            )
        case _:
            operands = [operand, features, features, features, operand]
            results = [operand, features, features]
            return Op("batch_norm_grad", operands, results, properties)


def _rng(rng: Random) -> Op:
    if one_in(rng, 3):
        state = Tensor(
            [rng.choice((1, 2, 3, DYNAMIC))], rng.choice(("ui64", "i64", "ui32"))
        )
        output = Tensor(_shape(rng), rng.choice(("ui32", "ui8", "f32", "i64", "ui64")))
        algorithm = rng.choice(("DEFAULT", "THREE_FRY", "PHILOX"))
        properties = {"rng_algorithm": f"#stablehlo<rng_algorithm {algorithm}>"}
        return Op("rng_bit_generator", [state], [state, output], properties)
    result = Tensor(_shape(rng), rng.choice((*_FLOATS, "i32", "i1", "ui8")))
    distribution = rng.choice(("UNIFORM", "UNIFORM", "NORMAL"))
    properties = {"rng_distribution": f"#stablehlo<rng_distribution {distribution}>"}
    shape = Tensor([len(result.shape)], rng.choice(("i64", "i32", "index")))
    operands = [_scalar(result), _scalar(result), shape]
    constants: dict[int, str] = {}
    if DYNAMIC not in result.shape and result.shape and one_in(rng, 2):
        constants[2] = str(result.shape)
        operands[2] = Tensor(shape.shape, "i64")
    return Op("rng", operands, [result], properties, constants=constants)


def _matrices(rng: Random) -> Op:
    element = rng.choice((*_FLOATS, "complex<f32>", "!quant.uniform<i8:f32, 0.5>"))
    batch, size = _shape(rng, 0, 0, 1), rng.choice((1, 2, 3, DYNAMIC))
    square = Tensor([*batch, size, size], element)
    if one_in(rng, 2):
        properties = {"lower": rng.choice(("true", "false"))} if one_in(rng, 2) else {}
        return Op("cholesky", [square], [square], properties)
    is_left = one_in(rng, 2)
    other = [size, 2] if is_left else [2, size]
    transpose = rng.choice(
        ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT", "TRANSPOSE_INVALID")
    )
    properties = {
        "left_side": str(is_left).lower(),
        "lower": rng.choice(("true", "false")),
        "transpose_a": f"#stablehlo<transpose {transpose}>",
        "unit_diagonal": rng.choice(("true", "false")),
    }
    right = Tensor([*batch, *other], element)
    return Op("triangular_solve", [square, right], [right], properties)


def _fft(rng: Random) -> Op:
    kind = rng.choice(("FFT", "IFFT", "RFFT", "IRFFT"))
    real = rng.choice(("f32", "f64", "f32", "f16"))
    complex_ = f"complex<{real if real != 'f16' else 'f32'}>"
    shape = _shape(rng, 1, 2, 3)
    count = rng.randint(1, len(shape))
    lengths = [abs(size) for size in shape[-count:]]
    half = lengths[-1] // 2 + 1
    halved = [*shape[:-1], half if shape[-1] != DYNAMIC else DYNAMIC]
    properties = {
        "fft_length": _array(lengths),
        "fft_type": f"#stablehlo<fft_type {kind}>",
    }
    whole, part = Tensor(shape, real), Tensor(halved, complex_)
    both = Tensor(shape, complex_)
    operand, result = {"RFFT": (whole, part), "IRFFT": (part, whole)}.get(
        kind, (both, both)
    )
    return Op("fft", [operand], [result], properties)


def _select_and_scatter(rng: Random) -> Op:
    (operand,) = _tensors(rng, 1, 0, 1, 2, 2)
    rank = len(operand.shape)
    window = [rng.choice((1, 2, 2)) for _ in range(rank)]
    strides = [rng.choice((1, 2)) for _ in range(rank)]
    paddings = [[rng.choice((0, 0, 1)), rng.choice((0, 0, 1))] for _ in range(rank)]
    has_strides, has_padding = one_in(rng, 2), one_in(rng, 2) and rank > 0
    sizes: Shape = []
    for index, size in enumerate(operand.shape):
        padded = size + (sum(paddings[index]) if has_padding else 0)
        stride = strides[index] if has_strides else 1
        positions = max((padded - window[index]) // stride + 1, 0)
        sizes.append(DYNAMIC if size == DYNAMIC else positions)
    properties = {"window_dimensions": _array(window)}
    if has_strides:
        properties["window_strides"] = _array(strides)
    if has_padding:
        properties["padding"] = f"dense<{paddings}> : tensor<{rank}x2xi64>"
    scalar = _scalar(operand)
    direction = "<{comparison_direction = #stablehlo<comparison_direction GE>}>"
    select = Region(f"compare {direction}", [scalar, scalar], [Tensor([], "i1")])
    operands = [operand, Tensor(sizes, operand.element), scalar]
    regions = [select, _reduction([operand])]
    return Op("select_and_scatter", operands, [operand], properties, regions)


def _set_dimension_size(rng: Random) -> Op:
    (operand,) = _tensors(rng, 1, 1, 2, 3)
    dimension = rng.randrange(len(operand.shape))
    shape = [*operand.shape]
    shape[dimension] = rng.choice((DYNAMIC, DYNAMIC, shape[dimension]))
    result: Type = Tensor(shape, operand.element)
    if one_in(rng, 2) and (shape[dimension] == DYNAMIC or one_in(rng, 2)):
        # A static dimension has no bound, and each dimension has an entry.
        bounds = ["?"] * (len(shape) + one_in(rng, 8))
        bounds[dimension] = str(rng.choice((abs(operand.shape[dimension]), 3, 5)))
        result = f"{str(result)[:-1]}, #stablehlo.bounds<{', '.join(bounds)}>>"
    properties = {"dimension": _integer(dimension)}
    return Op("set_dimension_size", [operand, Tensor([], "i32")], [result], properties)


def _deprecated(rng: Random) -> Op:
    name = rng.choice(("broadcast", "dot", "dot", "einsum", "unary", "index_select"))
    element = _element(rng)
    match name:
        case "broadcast":
            operand, sizes = Tensor(_shape(rng), element), [*map(abs, _shape(rng))]
            result = Tensor([*sizes, *operand.shape], element)
            properties = {"broadcast_sizes": _array(sizes)}
            return Op(name, [operand], [result], properties)
        case "dot":
            return _dot(rng, element)
        case "einsum":
            lhs, rhs = Tensor([2, 3], element), Tensor([3, 4], element)
            properties = {"einsum_config": '"ab,bc->ac"'}
            return Op(name, [lhs, rhs], [Tensor([2, 4], element)], properties)
        case "unary":
            properties = {"einsum_config": '"ab->a"'}
            operands = [Tensor([2, 3], element)]
            return Op("unary_einsum", operands, [Tensor([2], element)], properties)
        case _:
            properties = {"batch_dims": _integer(0), "dim": _integer(0)}
            operands = [Tensor([5, 3], element), Tensor([2], "i32")]
            results = [Tensor([2, 3], element)]
            return Op("torch_index_select", operands, results, properties)


def _dot(rng: Random, element: str) -> Op:
    inner, rows, columns = _shape(rng, 1), _shape(rng, 0, 1), _shape(rng, 0, 1)
    rhs: Type = Tensor([*inner, *columns], element)
    if element in _QUANTIZED and columns and columns[0] != DYNAMIC and one_in(rng, 2):
        scales = ("0.5",) * columns[0]
        rhs = Tensor([*inner, *columns], PerAxis("i8", "f32", 1, scales))
    names = [rng.choice(("DEFAULT", "HIGH")) for _ in range(rng.choice((0, 2, 2, 3)))]
    precisions = ", ".join(f"#stablehlo<precision {name}>" for name in names)
    properties = {"precision_config": f"[{precisions}]"} if one_in(rng, 3) else {}
    lhs, result = Tensor([*rows, *inner], element), Tensor([*rows, *columns], element)
    return Op("dot", [lhs, rhs], [result], properties)


def _algorithm(rng: Random) -> Op:
    """A `dot_general` with an algorithm."""
    types = ("f16", "bf16", "bf16", "tf32", "f32", "f64", "f8E4M3FN", "f8E5M2", "i8")
    lhs, sums = rng.choice(types), rng.choice(("f32", "f32", "f16", "bf16", "f64"))
    rhs = lhs if not one_in(rng, 4) else rng.choice(types)
    products, component = rng.choice((1, 1, 3, 6, 9)), rng.choice((1, 1, 1, 2))
    if not one_in(rng, 3):
        products, component = rng.choice((1, 1, 3)), 1
        lhs, rhs, sums = rng.choice(
            (
                ("bf16", "bf16", "f32"),
                ("tf32", "tf32", "f32"),
                ("f8E5M2", "f8E4M3FN", "f32"),
            )
        )
    properties = {
        "algorithm": (
            f"#stablehlo.dot_algorithm<lhs_precision_type = {lhs}, rhs_precision_type = "
            f"{rhs}, accumulation_type = {sums}, lhs_component_count = {component}, "
            f"rhs_component_count = 1, num_primitive_operations = {products}, "
            "allow_imprecise_accumulation = false>"
        ),
        "dot_dimension_numbers": "#stablehlo.dot<lhs_contracting_dimensions = [1], "
        "rhs_contracting_dimensions = [0]>",
    }
    if one_in(rng, 3):
        name = rng.choice(("DEFAULT", "DEFAULT", "HIGH"))
        names = f"#stablehlo<precision {name}>, #stablehlo<precision DEFAULT>"
        properties["precision_config"] = f"[{names}]"
    element = rng.choice(_FLOATS)
    operands = [Tensor([2, 3], element), Tensor([3, 4], element)]
    return Op("dot_general", operands, [Tensor([2, 4], element)], properties)


def _custom_call(rng: Random) -> Op:
    """A `custom_call` with layouts or with results in the buffers of operands."""
    operands: list[Type] = [*_tensors(rng, rng.choice((1, 2, 2)))]
    results: list[Type] = [*operands[: rng.choice((1, 2))]]
    properties = {
        "api_version": _integer(1, "i32"),
        "call_target_name": '"foo"',
        "called_computations": "[]",
        "has_side_effect": rng.choice(("true", "false")),
        "output_operand_aliases": "[]",
    }
    if one_in(rng, 2):
        for name, types in (("operand_layouts", operands), ("result_layouts", results)):
            properties[name] = f"[{', '.join(_layout(rng, type_) for type_ in types)}]"
        return Op("custom_call", operands, results, properties)
    index = rng.randrange(len(results))
    path, part = ([index] if len(results) > 1 else []), list[int]()
    if one_in(rng, 3):
        operands[index] = f"tuple<tensor<i32>, {operands[index]}>"
        part = [1]
    properties["output_operand_aliases"] = (
        f"[#stablehlo.output_operand_alias<output_tuple_indices = {path}, "
        f"operand_index = {index}, operand_tuple_indices = {part}>]"
    )
    return Op("custom_call", operands, results, properties)


def _layout(rng: Random, type_: Type) -> str:
    rank = len(type_.shape) if isinstance(type_, Tensor) else 0
    order = rng.sample(range(rank), rank)
    if order and one_in(rng, 8):
        order[0] = rank
    return f"dense<{order if rank else ''}> : tensor<{rank}xindex>"


def _chlo(rng: Random) -> Op:
    """A function of CHLO."""
    unary = (
        "acos",
        "asinh",
        "bessel_i1e",
        "conj",
        "digamma",
        "erf",
        "lgamma",
        "square",
    )
    binary = ("mulhi", "next_after", "polygamma", "zeta")
    name = rng.choice((*unary, *binary, *binary))
    element = rng.choice(
        ("i32", "ui8", "i64") if name == "mulhi" else (*_FLOATS, *_OTHERS)
    )
    operand = Tensor(_shape(rng), element)
    result = operand
    if DYNAMIC not in operand.shape and one_in(rng, 4):
        result = Tensor([DYNAMIC] * len(operand.shape), element)
    return Op(f"chlo.{name}", [operand] * (1 + (name in binary)), [result])


_GENERATORS: dict[str, Callable[[Random], Op]] = {
    "algorithm": _algorithm,
    "all_gather": _all_gather,
    "all_reduce": _all_reduce,
    "all_to_all": _all_to_all,
    "async": _async,
    "batch_norm": _batch_norm,
    "chlo": _chlo,
    "collective_broadcast": _collective_broadcast,
    "collective_permute": _collective_permute,
    "cross_replica_sum": _cross_replica_sum,
    "custom_call": _custom_call,
    "deprecated": _deprecated,
    "device_id": _device_id,
    "feed": _feed,
    "fft": _fft,
    "matrices": _matrices,
    "reduce_scatter": _reduce_scatter,
    "rng": _rng,
    "select_and_scatter": _select_and_scatter,
    "set_dimension_size": _set_dimension_size,
    "token": _token,
    "transfer": _transfer,
    "tuple": _tuple,
}

RARE_KINDS = tuple(_GENERATORS)
"""Kinds of ops with which `rare_text` makes modules."""


def _other_type(rng: Random, type_: Type) -> Type:
    if isinstance(type_, str):
        return rng.choice(
            (TOKEN, "tensor<2xf32>", "tensor<?xi32>", "tuple<tensor<2xf32>>")
        )
    shape = [*type_.shape]
    match rng.randrange(6):
        case 0 | 1 if shape:
            shape[rng.randrange(len(shape))] = rng.choice((1, 2, 3, 5, 0, DYNAMIC))
        case 2:
            shape.insert(rng.randrange(len(shape) + 1), rng.choice((1, 2)))
        case 3 if shape:
            del shape[rng.randrange(len(shape))]
        case 4:
            return Tensor(shape, rng.choice(_REFUSED))
        case 5 if one_in(rng, 4):
            return TOKEN
        case 5 if shape and shape[0] > 0:
            return Tensor(shape, PerAxis("i8", "f32", 0, ("0.5",) * shape[0]))
        case _:
            return Tensor(shape, _element(rng))
    return Tensor(shape, type_.element)


def _other_property(rng: Random, properties: dict[str, str]) -> None:
    """Change or drop a property, or a number in one."""
    name = rng.choice([*properties])
    # MLIR prints default values, and other digits of floats.
    if name.endswith("feed_config") or name == "epsilon":
        return
    value, colon, type_ = properties[name].rpartition(" : ")
    if not colon:
        value, type_ = type_, ""
    if one_in(rng, 8):
        del properties[name]
        return
    numbers = [*re.finditer(r"(?<![\w.])-?\d+(?![\w.])", value)]
    if not numbers:
        if value in ("true", "false"):
            properties[name] = "false" if value == "true" else "true"
        return
    if value.startswith("array") and one_in(rng, 3):
        parts = "".join(match[0] + ", " for match in numbers[:-1]).rstrip(", ")
        properties[name] = f"array<i64: {parts}>" if parts else "array<i64>"
        return
    match = rng.choice(numbers)
    number = int(match[0]) + rng.choice((-2, -1, 1, 1, 5))
    changed = f"{value[: match.start()]}{number}{value[match.end() :]}"
    properties[name] = f"{changed}{colon}{type_}"


def _changed(rng: Random, types: Sequence[Type]) -> list[Type]:
    types = list(types)
    at = rng.randrange(len(types))
    if one_in(rng, 6):
        types.insert(at, types[at])
    elif one_in(rng, 6):
        del types[at]
    else:
        types[at] = _other_type(rng, types[at])
    return types


def _break(rng: Random, op: Op) -> None:
    """Change one part of an op, perhaps so that it is invalid."""
    match rng.randrange(4):
        case 0 if op.operands and not op.constants:
            op.operands = _changed(rng, op.operands)
        case 1 if op.results:
            op.results = _changed(rng, op.results)
        case 2 if op.regions:
            region = rng.choice(op.regions)
            if one_in(rng, 2) and region.returned:
                region.returned = _changed(rng, region.returned)
                region.inner = region.inner if one_in(rng, 2) else ""
            elif region.arguments:
                region.arguments = _changed(rng, region.arguments)
            region.returned = region.returned[: len(region.arguments)]
        case _ if op.properties:
            _other_property(rng, op.properties)
        case _:
            pass


def rare_text(rng: Random, kind: str) -> str:
    """A module with a function of the operands of an op."""
    op = _GENERATORS[kind](rng)
    if one_in(rng, 2):
        _break(rng, op)
    constants = "".join(
        f'  %a{i} = "stablehlo.constant"() <{{value = dense<{values}> : '
        f"{op.operands[i]}}}> : () -> {op.operands[i]}\n"
        for i, values in op.constants.items()
    )
    arguments = ", ".join(
        f"%a{i}: {type_}"
        for i, type_ in enumerate(op.operands)
        if i not in op.constants
    )
    operands = ", ".join(f"%a{i}" for i in range(len(op.operands)))
    # MLIR sorts them.
    properties = ", ".join(
        f"{name} = {value}" if value else name
        for name, value in sorted(op.properties.items())
    )
    properties = f" <{{{properties}}}>" if properties else ""
    regions = f" ({', '.join(map(str, op.regions))})" if op.regions else ""
    results = ", ".join(f"%r{i}" for i in range(len(op.results)))
    name = op.name if op.name.startswith("chlo.") else f"stablehlo.{op.name}"
    return (
        f"func.func @f({arguments}) {{\n{constants}"
        f'  {results}{" = " if results else ""}"{name}"({operands})'
        f"{properties}{regions} : ({', '.join(map(str, op.operands))}) -> "
        f"({', '.join(map(str, op.results))})\n  return\n}}\n"
    )
