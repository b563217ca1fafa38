"""Random programs of floats in several dialects, each value of one type."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

T = "tensor<4x4xf32>"

_OPS: Mapping[str, str] = {
    "stablehlo.add": "stablehlo.add {}, {} : T",
    "stablehlo.maximum": "stablehlo.maximum {}, {} : T",
    "stablehlo.multiply": "stablehlo.multiply {}, {} : T",
    "stablehlo.tanh": "stablehlo.tanh {} : T",
    "stablehlo.dot_general": (
        "stablehlo.dot_general {}, {}, contracting_dims = [1] x [0] : (T, T) -> T"
    ),
    "stablehlo.transpose": "stablehlo.transpose {}, dims = [1, 0] : (T) -> T",
    "tfl.add": '"tfl.add"({}, {}) <{{fused_activation_function = "NONE"}}> : (T, T) -> T',
    "tfl.tanh": '"tfl.tanh"({}) : (T) -> T',
    "tfl.relu": '"tfl.relu"({}) : (T) -> T',
    "tfl.maximum": '"tfl.maximum"({}, {}) : (T, T) -> T',
    "arith.addf": "arith.addf {}, {} : T",
    "arith.mulf": "arith.mulf {}, {} : T",
    "math.exp": "math.exp {} : T",
    "linalg.matmul": "linalg.matmul ins({}, {} : T, T) outs({} : T) -> T",
    "linalg.add": "linalg.add ins({}, {} : T, T) outs({} : T) -> T",
    "linalg.max": "linalg.max ins({}, {} : T, T) outs({} : T) -> T",
    "call": "func.call @g({}) : (T) -> T",
}


_CHAINS = (
    ("linalg.matmul", "linalg.add", "linalg.max"),
    ("stablehlo.dot_general", "stablehlo.add", "stablehlo.maximum"),
    ("tfl.add", "tfl.relu"),
    ("arith.mulf", "arith.addf", "math.exp"),
    ("arith.addf", "arith.addf", "arith.addf"),
)


def random_program(random: Random, size: int) -> str:
    """
    A module.

    Args:
        random: decides.
        size: the number of ops of the function.
    """
    values = ["%x", "%y"]
    constants: list[str] = []
    lines: list[str] = []
    planned: list[str] = []
    last = "%x"

    def pick() -> str:
        return random.choice(values[-4:] + constants)

    for index in range(size):
        name = (
            f"%{random.choice('abc')}{index}" if random.random() < 0.7 else f"%{index}"
        )
        if random.random() < 0.15:
            value = round(random.uniform(-2, 2), 3)
            lines.append(f"{name} = stablehlo.constant dense<{value}> : {T}")
            constants.append(name)
            continue
        is_next = planned and random.random() < 0.8
        if not planned and random.random() < 0.3:
            planned = [*random.choice(_CHAINS)]
        text = _OPS[planned.pop(0) if is_next else random.choice([*_OPS])]
        operands = [pick() for _ in range(text.count("{}"))]
        if is_next:
            operands[random.randrange(min(2, len(operands)))] = last
        lines.append(f"{name} = {text.format(*operands).replace('T', T)}")
        if is_next or not planned:
            last = name
        if not is_next or not planned:
            values.append(name)
    results = random.sample(values, min(3, len(values)))
    types = ", ".join([T] * len(results))
    body = "\n  ".join((*lines, f"func.return {', '.join(results)} : {types}"))
    return (
        f"func.func private @g({T}) -> {T}\n"
        f"func.func @f(%x: {T}, %y: {T}) -> ({types}) {{\n  {body}\n}}\n"
    )


TARGET = """
[[kernels]]
name = "all"
patterns = [
  "linalg.matmul -> linalg.add? -> linalg.max?",
  "stablehlo.dot_general -> stablehlo.add? -> stablehlo.maximum | stablehlo.tanh?",
  "tfl.add | tfl.maximum -> tfl.relu | tfl.tanh?",
  "arith.mulf -> arith.addf -> math.exp?",
  "arith.addf -> arith.addf -> arith.addf",
]
inputs = ["i8", "..."]
outputs = ["i8"]

[[kernels]]
ops = ["arith.addf", "stablehlo.transpose", "stablehlo.add", "tfl.relu"]
inputs = ["i8", "i8"]
outputs = ["i8"]
"""
"""A target with long patterns that share ops."""
