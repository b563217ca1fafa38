"""What `convert-ml-to-arith` computes, executed, against NumPy."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from sys import executable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.execution import CompiledFunction, compile

PIPELINE = (
    "convert-ml-to-arith,cse,lower-quant-ops{rounding-mode=nearest-even},"
    "strip-func-quant-types,canonicalize,cse"
)

SIZE = 256 * 256
"""Number of elements of a tensor: all pairs of two bytes."""

OPS = ("add", "sub", "mul", "div", "mod")


@dataclass(frozen=True)
class Quantization:
    """A quantized type, per-tensor or as a per-axis type of one scale."""

    storage: str
    dtype: type[np.integer[Any]]
    low: int
    high: int
    scale: float
    zero_point: int
    expressed: str = "f32"

    @property
    def name(self) -> str:
        return f"{self.storage}_{self.low}_{self.high}_{self.zero_point}".replace(
            "-", "m"
        )

    @property
    def per_tensor(self) -> str:
        """The type, which has a direct lowering for some operations."""
        return (
            f"tensor<{SIZE}x!quant.uniform<{self.storage}<{self.low}:{self.high}>:"
            f"{self.expressed}, {self.scale!r}:{self.zero_point}>>"
        )

    @property
    def per_axis(self) -> str:
        """The same values with a type that all operations use the fallback for."""
        return (
            f"tensor<1x{SIZE}x!quant.uniform<{self.storage}<{self.low}:{self.high}>:"
            f"{self.expressed}:0, {{{self.scale!r}:{self.zero_point}}}>>"
        )

    def clamp(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.clip(values, self.low, self.high).astype(self.dtype)

    def operands(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Every pair of stored values, or some of them and all pairs of bounds."""
        info = np.iinfo(self.dtype)
        if info.bits == 8:
            values = np.arange(256, dtype=np.uint8).view(self.dtype)
            return np.repeat(values, 256), np.tile(values, 256)
        rng = np.random.default_rng(seed=2)
        bounds = [info.min, info.max, self.low, self.high, self.zero_point, 0]
        values = rng.integers(info.min, info.max, (2, SIZE), self.dtype, endpoint=True)
        values[0, :36] = np.repeat(bounds, 6)
        values[1, :36] = np.tile(bounds, 6)
        return values[0], values[1]

    def exact(self, op: str, lhs: NDArray[Any], rhs: NDArray[Any]) -> NDArray[Any]:
        """The operation on the real numbers, for an operation that gives integers."""
        lhs_steps = lhs.astype(np.int64) - self.zero_point
        rhs_steps = rhs.astype(np.int64) - self.zero_point
        match op:
            case "add":
                steps = lhs_steps + rhs_steps
            case "sub":
                steps = lhs_steps - rhs_steps
            case _:
                steps = lhs_steps * rhs_steps * int(self.scale)
        return self.clamp(steps + self.zero_point)

    def in_floats(self, op: str, lhs: NDArray[Any], rhs: NDArray[Any]) -> NDArray[Any]:
        """The operation on 32-bit floats, rounded to the nearest stored value."""
        scale, zero_point = np.float32(self.scale), np.float32(self.zero_point)
        a = (lhs.astype(np.float32) - zero_point) * scale
        b = (rhs.astype(np.float32) - zero_point) * scale
        with np.errstate(all="ignore"):
            match op:
                case "add":
                    value = a + b
                case "sub":
                    value = a - b
                case "mul":
                    value = a * b
                case "div":
                    value = a / b
                case _:
                    value = np.fmod(a, b)
            stored = np.rint(value / scale + zero_point)
        return self.clamp(np.where(np.isnan(stored), self.low, stored))


INTEGER_SCALES = [
    Quantization("i8", np.int8, -128, 127, 2.0, 0),
    Quantization("i8", np.int8, -8, 7, 3.0, -2),
    Quantization("u8", np.uint8, 0, 255, 1.0, 128),
    Quantization("i16", np.int16, -32768, 32767, 4.0, -32768),
]
OTHER_SCALES = [
    Quantization("i8", np.int8, -128, 127, 0.1, -128),
    Quantization("u8", np.uint8, 10, 250, 0.3, 10),
    Quantization("u16", np.uint16, 0, 65535, 1e-3, 65535),
    Quantization("i32", np.int32, -(2**31), 2**31 - 1, 0.1, -(2**31)),
    Quantization("u32", np.uint32, 0, 2**32 - 1, 0.1, 2**32 - 1),
]
QUANTIZATIONS = INTEGER_SCALES + OTHER_SCALES

DIRECT = [(q, op) for q in QUANTIZATIONS for op in ("add", "sub")] + [
    (q, "mul") for q in INTEGER_SCALES
]
"""What is computed on stored integers."""

NARROW = [q for q in QUANTIZATIONS if np.iinfo(q.dtype).bits <= 16]
"""What f32 is wide enough for."""


Compiled = dict[str, CompiledFunction]
"""The functions of a module by name."""


def function(name: str, op: str, type_: str) -> str:
    return f"""
    func.func @{name}(%a : {type_}, %b : {type_}) -> {type_} {{
      %0 = ml.{op} %a, %b : ({type_}, {type_}) -> {type_}
      func.return %0 : {type_}
    }}
    """


def identifier(value: object) -> str:
    return value.name if isinstance(value, Quantization) else str(value)


@pytest.fixture(scope="module")
def lowered() -> str:
    """One module with a function for each operation, type and way of lowering it."""
    text = "".join(function(f"{op}_{q.name}", op, q.per_tensor) for q, op in DIRECT)
    text += "".join(
        function(f"{op}_{q.name}_fallback", op, q.per_axis)
        for q in NARROW
        for op in OPS
    )
    process = subprocess.run(
        [Path(executable).with_name("xdsl-opt"), "-p", PIPELINE],
        input=text,
        capture_output=True,
        check=True,
        text=True,
    )
    return process.stdout


@pytest.fixture(scope="module")
def compiled(lowered: str) -> Compiled:
    texts = lowered.removeprefix("builtin.module {").rstrip().removesuffix("}")
    functions = [compile(f"func.func {text}") for text in texts.split("func.func ")[1:]]
    return {function.name: function for function in functions}


def run(
    compiled: Compiled, name: str, lhs: NDArray[Any], rhs: NDArray[Any]
) -> NDArray[Any]:
    # Lowered, a function does not say any more which integers are unsigned.
    return compiled[name](lhs, rhs).view(lhs.dtype)


def run_fallback(
    compiled: Compiled, q: Quantization, op: str
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Operands and result."""
    lhs, rhs = q.operands()
    result = run(
        compiled,
        f"{op}_{q.name}_fallback",
        lhs.reshape(1, -1),
        rhs.reshape(1, -1),
    )
    return lhs, rhs, result.reshape(-1)


def test_nothing_is_quantized_any_more(lowered: str):
    assert "quant" not in lowered
    assert "ml." not in lowered


def test_integer_path_has_no_floats(lowered: str):
    for text in lowered.split("func.func ")[1:]:
        if "_fallback(" not in text:
            assert not any(f in text for f in ("f16", "f32", "f64")), text


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("q", "op"), DIRECT, ids=identifier)
def test_integers(compiled: Compiled, q: Quantization, op: str):
    lhs, rhs = q.operands()
    expected = q.exact(op, lhs, rhs)
    # Both ends of the range are reached.
    assert {expected.min(), expected.max()} == {q.low, q.high}
    np.testing.assert_array_equal(run(compiled, f"{op}_{q.name}", lhs, rhs), expected)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("q", NARROW, ids=identifier)
def test_fallback(compiled: Compiled, q: Quantization, op: str):
    lhs, rhs, result = run_fallback(compiled, q, op)
    np.testing.assert_array_equal(result, q.in_floats(op, lhs, rhs))


@pytest.mark.parametrize(
    ("q", "op"), [(q, op) for q, op in DIRECT if q in NARROW], ids=identifier
)
def test_integers_are_what_the_fallback_gives(
    compiled: Compiled, q: Quantization, op: str
):
    lhs, rhs, result = run_fallback(compiled, q, op)
    np.testing.assert_array_equal(run(compiled, f"{op}_{q.name}", lhs, rhs), result)
