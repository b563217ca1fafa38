"""Quantized StableHLO programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Array = NDArray[Any]
Shape = tuple[int, ...]


@dataclass
class Kinds:
    """The element types of a program."""

    storage: str
    expressed: str
    per_tensor: list[str]
    weights: str
    """Symmetric, with scales along the last of two dimensions."""

    def is_quantized(self, element: str) -> bool:
        """Whether it is one of the per-tensor types."""
        return element in self.per_tensor


@dataclass
class Program:
    """A function `f` under construction, which returns all its values."""

    kinds: Kinds
    parameters: list[tuple[str, Shape]] = field(default_factory=list[tuple[str, Shape]])
    lines: list[str] = field(default_factory=list[str])
    values: list[tuple[str, str, Shape]] = field(
        default_factory=list[tuple[str, str, Shape]]
    )
    """Name, element type and shape."""

    def parameter(self, element: str, shape: Shape) -> None:
        self.values.append((f"%a{len(self.parameters)}", element, shape))
        self.parameters.append((element, shape))

    def op(self, text: str, types: list[str], element: str, shape: Shape) -> None:
        """Add an op; `types` are those of its operands."""
        name = f"%{len(self.lines)}"
        result = type_text(element, shape)
        self.lines.append(
            f"{name} = stablehlo.{text} : ({', '.join(types)}) -> {result}"
        )
        self.values.append((name, element, shape))

    def __str__(self) -> str:
        parameters = ", ".join(
            f"%a{i}: {type_text(*parameter)}"
            for i, parameter in enumerate(self.parameters)
        )
        types = ", ".join(
            type_text(element, shape) for _, element, shape in self.values
        )
        names = ", ".join(name for name, _, _ in self.values)
        lines = "\n  ".join([*self.lines, f"return {names} : {types}"])
        return f"func.func @f({parameters}) -> ({types}) {{\n  {lines}\n}}\n"


def type_text(element: str, shape: Shape) -> str:
    """The text of a tensor type."""
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


STORAGE = {"i8": (-128, 127), "u8": (0, 255), "i16": (-32768, 32767), "i4": (-8, 7)}

EXACT = ("add", "subtract", "multiply", "maximum", "minimum")
UNARY = ("negate", "abs")
TRANSCENDENTAL = ("exponential", "logistic", "tanh")


@st.composite
def kinds(
    draw: st.DrawFn, storage: tuple[str, ...], expressed: tuple[str, ...]
) -> Kinds:
    """Types of one storage and one expressed type, with scales that are exact in it."""
    storage_type = draw(st.sampled_from(storage))
    low, high = STORAGE[storage_type]
    expressed_type = draw(st.sampled_from(expressed))
    prefix = f"!quant.uniform<{storage_type}:{expressed_type}"
    scales = draw(
        st.lists(st.sampled_from(["0.25", "0.5", "1.5", "2.0"]), min_size=3, max_size=3)
    )
    zero_points = draw(st.lists(st.integers(low, high), min_size=2, max_size=2))
    per_tensor = [
        f"{prefix}, {scale}:{zero_point}>"
        for scale, zero_point in zip(scales, zero_points, strict=False)
    ]
    weights = f"{prefix}:1, {{{','.join(scales)}}}>"
    return Kinds(storage_type, expressed_type, per_tensor, weights)


@st.composite
def programs(
    draw: st.DrawFn,
    *,
    storage: tuple[str, ...] = ("i8", "i8", "u8", "i16", "i4"),
    expressed: tuple[str, ...] = ("f32", "f32", "f64", "bf16", "f16"),
    with_transcendental: bool = True,
) -> Program:
    """Programs of a few ops, most of them on quantized tensors."""
    program = Program(draw(kinds(storage, expressed)))
    shapes: list[Shape] = [(2, 3), (2, 3), (3, 2), (3, 3)]
    for shape in shapes:
        program.parameter(draw(st.sampled_from(program.kinds.per_tensor)), shape)
    program.parameter(program.kinds.weights, (2, 3))
    program.parameter(program.kinds.expressed, (2, 3))
    program.parameter("i1", (2, 3))
    for _ in range(draw(st.integers(1, 6))):
        _add_op(draw, program, with_transcendental)
    return program


def _add_op(draw: st.DrawFn, program: Program, with_transcendental: bool) -> None:
    known = program.kinds
    tensors = [v for v in program.values if known.is_quantized(v[1])]
    name, element, shape = draw(st.sampled_from(tensors))
    same_shape = [v for v in tensors if v[2] == shape]
    other, other_element, _ = draw(st.sampled_from(same_shape))
    type_, other_type = type_text(element, shape), type_text(other_element, shape)
    result = draw(st.sampled_from(known.per_tensor))
    floats = [v for v in program.values if v[1] == known.expressed and v[2] == shape]
    names = [*EXACT, *UNARY, "requantize", "dequantize", "compare", "clamp", "select"]
    names += ["move", "dot", "hybrid", *(["float", "quantize"] * 2 if floats else [])]
    if with_transcendental:
        names += TRANSCENDENTAL
    op = draw(st.sampled_from(names))
    if op in EXACT:
        program.op(f"{op} {name}, {other}", [type_, other_type], result, shape)
    elif op in (*UNARY, *TRANSCENDENTAL):
        program.op(f"{op} {name}", [type_], result, shape)
    elif op == "requantize":
        program.op(f"uniform_quantize {name}", [type_], result, shape)
    elif op == "dequantize":
        program.op(f"uniform_dequantize {name}", [type_], known.expressed, shape)
    elif op == "compare":
        direction = draw(st.sampled_from(["EQ", "NE", "GE", "GT", "LE", "LT"]))
        text = f"compare {direction}, {name}, {other}"
        program.op(text, [type_, other_type], "i1", shape)
    elif op in ("clamp", "select"):
        _add_op_of_three(draw, program, op, (name, element, shape))
    elif op == "move":
        _add_move(draw, program, (name, element, shape))
    elif op in ("dot", "hybrid"):
        _add_dot(draw, program, op == "hybrid", result)
    elif op == "float":
        x, y = draw(st.sampled_from(floats)), draw(st.sampled_from(floats))
        text = f"{draw(st.sampled_from(EXACT))} {x[0]}, {y[0]}"
        program.op(text, [type_text(x[1], x[2])] * 2, known.expressed, shape)
    else:
        x = draw(st.sampled_from(floats))
        program.op(f"uniform_quantize {x[0]}", [type_text(x[1], x[2])], result, shape)


def _add_op_of_three(
    draw: st.DrawFn, program: Program, op: str, value: tuple[str, str, Shape]
) -> None:
    name, element, shape = value
    alike = [v[0] for v in program.values if v[1:] == value[1:]]
    first, last = draw(st.sampled_from(alike)), draw(st.sampled_from(alike))
    type_ = type_text(element, shape)
    if op == "clamp":
        program.op(f"clamp {first}, {name}, {last}", [type_] * 3, element, shape)
        return
    conditions = [v[0] for v in program.values if v[1:] == ("i1", shape)]
    if conditions:
        condition = draw(st.sampled_from(conditions))
        types = [type_text("i1", shape), type_, type_]
        program.op(f"select {condition}, {name}, {last}", types, element, shape)


def _add_move(draw: st.DrawFn, program: Program, value: tuple[str, str, Shape]) -> None:
    name, element, shape = value
    # Floats are moved, too, between casts.
    if draw(st.booleans()):
        floats = [
            v
            for v in program.values
            if v[1] == program.kinds.expressed and len(v[2]) == 2
        ]
        name, element, shape = draw(st.sampled_from(floats))
    types = [type_text(element, shape)]
    m, n = shape
    match draw(st.sampled_from(["transpose", "reshape", "slice", "concatenate"])):
        case "transpose":
            program.op(f"transpose {name}, dims = [1, 0]", types, element, (n, m))
        case "reshape":
            program.op(f"reshape {name}", types, element, (n, m))
        case "slice":
            program.op(f"slice {name} [0:{m}, 0:{n}]", types, element, shape)
        case _:
            text = f"concatenate {name}, {name}, dim = 0"
            program.op(text, types * 2, element, (2 * m, n))


def _add_dot(draw: st.DrawFn, program: Program, is_hybrid: bool, result: str) -> None:
    known = program.kinds
    wanted = (known.expressed,) if is_hybrid else tuple(known.per_tensor)
    # The weights are the fifth parameter.
    lhs = [v for v in program.values if v[1] in wanted and v[2][1] == 2]
    if not lhs:
        return
    name, element, (m, _) = draw(st.sampled_from(lhs))
    text = f"dot_general {name}, %a4, contracting_dims = [1] x [0]"
    types = [type_text(element, (m, 2)), type_text(known.weights, (2, 3))]
    program.op(text, types, known.expressed if is_hybrid else result, (m, 3))


def arguments(seed: int, program: Program) -> list[Array]:
    """Random arguments for a program with `f32` or `f64` values."""
    rng = np.random.default_rng(seed)
    storage = program.kinds.storage
    low, high = STORAGE[storage]
    dtype = {"i4": "int8", "i8": "int8", "u8": "uint8", "i16": "int16"}[storage]
    arrays: list[Array] = []
    for element, shape in program.parameters:
        if element == "i1":
            arrays.append(rng.integers(0, 2, shape).astype(bool))
        elif element == program.kinds.expressed:
            arrays.append(rng.integers(-40, 40, shape).astype(_FLOATS[element]) / 4)
        else:
            arrays.append(rng.integers(low, high + 1, shape).astype(dtype))
    return arrays


_FLOATS = {"f32": np.float32, "f64": np.float64}
