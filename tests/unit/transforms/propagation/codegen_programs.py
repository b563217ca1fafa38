"""Random programs of kernels, and what each kernel computes in exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
"""Fractions, or Python integers."""

Compute: TypeAlias = Callable[[Any], Any]
"""What a kernel computes, given a sequence of its operands."""

_ID = "affine_map<(d0, d1) -> (d0, d1)>"
_ROW = "affine_map<(d0, d1) -> (d1)>"


def _number(x: float) -> str:
    return f"{x:.17e}"


def _dense(array: Array) -> str:
    if not array.ndim:
        return _number(float(array))
    return f"[{', '.join(map(_dense, array))}]"


@dataclass(frozen=True)
class Storage:
    """A quantized type."""

    text: str
    scale: float
    zero_point: int
    low: int
    high: int

    def real(self, stored: Array) -> Array:
        """What integers stand for, exactly."""
        return (stored - self.zero_point) * Fraction(self.scale)

    def units(self, real: Array) -> Array:
        """Fractions in the units of integers, within their range."""
        return np.clip(
            real / Fraction(self.scale) + self.zero_point, self.low, self.high
        )

    def nearest(self, real: Array) -> Array:
        """The nearest integers; halves are rounded up."""
        return np.floor(self.units(real) + Fraction(1, 2))

    def stored(self, floats: Array) -> Array:
        """The integers that floats stand for."""
        exact = np.rint(np.asarray(floats, np.float64) / self.scale) + self.zero_point
        return exact.astype(np.int64).astype(object)


@dataclass(frozen=True)
class Value:
    """A value between kernels."""

    name: str
    shape: tuple[int, int]
    storage: Storage

    @property
    def type(self) -> str:
        """The type of its floats."""
        return f"tensor<{self.shape[0]}x{self.shape[1]}xf32>"

    @property
    def port(self) -> str:
        """Its type at a port."""
        return f"{self.type} as {self.storage.text}"


@dataclass(frozen=True)
class Kernel:
    """A kernel and what it computes."""

    operands: Sequence[int]
    result: int
    compute: Compute


@dataclass
class Program:
    """A program that is being made."""

    rng: np.random.Generator
    values: list[Value] = field(default_factory=list[Value])
    kernels: list[Kernel] = field(default_factory=list[Kernel])
    lines: list[str] = field(default_factory=list[str])

    def storage(self, magnitude: float) -> Storage:
        """A type for numbers of some magnitude."""
        rng = self.rng
        name, low, high = [
            ("i8", -128, 127),
            ("u8", 0, 255),
            ("i16", -32768, 32767),
            ("i8<-127:127>", -127, 127),
        ][rng.choice(4, p=[0.6, 0.15, 0.1, 0.15])]
        scale: float = magnitude / (high - low) * float(rng.choice([0.7, 1, 2.5]))
        if rng.random() < 0.3:
            scale = 2.0 ** round(math.log2(scale))
        zero_point = int(rng.integers(low, high + 1)) if rng.random() < 0.7 else 0
        zero_point = min(max(zero_point, low), high)
        text = f"!quant.uniform<{name}:f32, {scale:.17e}:{zero_point}>"
        return Storage(text, scale, zero_point, low, high)

    def value(self, shape: tuple[int, int], magnitude: float) -> Value:
        """A new value."""
        name = f"%v{len(self.values)}"
        self.values.append(Value(name, shape, self.storage(magnitude)))
        return self.values[-1]

    def region(
        self,
        operands: Sequence[int],
        constants: Sequence[str],
        shape: tuple[int, int],
        magnitude: float,
        body: str,
        compute: Compute,
        storage: Storage | None = None,
    ) -> None:
        """A kernel: its body computes %r of %a, %b and constants."""
        values = [self.values[i] for i in operands]
        result = self.value(shape, magnitude)
        if storage is not None:
            result = Value(result.name, shape, storage)
            self.values[-1] = result
        ports = [
            f"%{letter} = {value.name} : {self.at_port(value)}"
            for letter, value in zip("ab", values, strict=False)
        ]
        body = body.replace("TYPE", result.type)
        self.lines.append(
            f'{result.name} = quant.region "k" ({", ".join([*ports, *constants])}) -> '
            f"({result.port}) {{\n{body}\nquant.return %r : {result.type}\n}}"
        )
        self.kernels.append(Kernel(operands, len(self.values) - 1, compute))

    def at_port(self, value: Value) -> str:
        """A value at an operand."""
        return value.port

    def pick(self, shape: tuple[int, int] | None = None) -> int:
        """A value of a shape, preferably a late one."""
        fitting = [
            i for i, v in enumerate(self.values) if shape is None or v.shape == shape
        ]
        recent = fitting[-3:]
        return int(self.rng.choice(recent if self.rng.random() < 0.8 else fitting))

    def add_kernel(self) -> None:
        """Add a random kernel."""
        kinds = [self._binary, self._unary, self._move, self._dense, self._reduce]
        weights = [0.4, 0.2, 0.2, 0.15, 0.05]
        kinds[self.rng.choice(len(kinds), p=weights)]()

    def _binary(self) -> None:
        a = self.pick()
        shape = self.values[a].shape
        b = self.pick(shape)
        choices: Sequence[tuple[str, str, Compute, float]] = [
            ("addf", "add", lambda args: args[0] + args[1], 4.0),
            ("subf", "sub", lambda args: args[0] - args[1], 4.0),
            ("maximumf", "max", lambda args: np.maximum(*args), 3.0),
            ("minimumf", "min", lambda args: np.minimum(*args), 3.0),
            ("mulf", "mul", lambda args: args[0] * args[1], 4.0),
        ]
        op, linalg, compute, magnitude = choices[
            self.rng.choice(5, p=[0.5, 0.15, 0.15, 0.1, 0.1])
        ]
        body = f"%r = arith.{op} %a, %b : TYPE"
        if self.rng.random() < 0.4:
            body = (
                "%e = tensor.empty() : TYPE\n"
                f"%r = linalg.{linalg} ins(%a, %b : TYPE, TYPE) outs(%e : TYPE) -> TYPE"
            )
        self.region([a, b], [], shape, magnitude, body, compute)

    def _unary(self) -> None:
        a = self.pick()
        shape = self.values[a].shape
        number: Any = Fraction(float(self.rng.choice([0.0, 0.5, -0.25])))
        constant = f"%c = arith.constant dense<{float(number)}> : TYPE\n"
        choices: Sequence[tuple[str, Compute]] = [
            (
                f"{constant}%r = arith.maximumf %a, %c : TYPE",
                lambda args: np.maximum(args[0], number),
            ),
            (
                f"{constant}%r = arith.minimumf %a, %c : TYPE",
                lambda args: np.minimum(args[0], number),
            ),
            ("%r = arith.negf %a : TYPE", lambda args: -args[0]),
        ]
        body, compute = choices[self.rng.choice(3, p=[0.6, 0.2, 0.2])]
        self.region([a], [], shape, 3.0, body, compute)

    def _move(self) -> None:
        a = self.pick()
        value = self.values[a]
        rows, columns = value.shape
        # Half of all moves keep parameters, as they should.
        storage = value.storage if self.rng.random() < 0.5 else None
        if self.rng.random() < 0.5:
            body = (
                "%e = tensor.empty() : TYPE\n"
                f"%r = linalg.transpose ins(%a : {value.type}) outs(%e : TYPE) "
                "permutation = [1, 0]"
            )
            moved = columns, rows
            self.region([a], [], moved, 3.0, body, lambda args: args[0].T, storage)
            return
        flat = f"tensor<{rows * columns}xf32>"
        body = (
            f"%f = tensor.collapse_shape %a [[0, 1]] : {value.type} into {flat}\n"
            f"%r = tensor.expand_shape %f [[0, 1]] output_shape [{columns}, {rows}] : "
            f"{flat} into TYPE"
        )
        shape = columns, rows
        self.region(
            [a], [], shape, 3.0, body, lambda args: args[0].reshape(shape), storage
        )

    def _dense(self) -> None:
        rng = self.rng
        a = self.pick()
        value = self.values[a]
        rows, inner = value.shape
        columns = int(rng.integers(2, 5))
        weights = rng.integers(-127, 128, (inner, columns))
        is_per_axis = rng.random() < 0.5
        scales = rng.uniform(0.002, 0.01, columns if is_per_axis else 1)
        axis = ":1" if is_per_axis else ""
        listed = ",".join(_number(x) for x in scales)
        listed = f"{{{listed}}}" if is_per_axis else listed
        bias = rng.integers(-2000, 2000, columns)
        bias_scales = scales * value.storage.scale
        bias_listed = ",".join(_number(x) for x in bias_scales)
        if is_per_axis:
            bias_listed = f"{{{bias_listed}}}"
        number = len(self.kernels)
        weight_type, bias_type = (
            f"tensor<{inner}x{columns}xf32>",
            f"tensor<{columns}xf32>",
        )
        self.lines += [
            f"%w{number} = arith.constant dense<{_dense(weights * scales)}> : "
            f"{weight_type}",
            f"%b{number} = arith.constant dense<"
            f"{_dense(bias * bias_scales)}> : {bias_type}",
        ]
        constants = [
            f"%w = %w{number} : {weight_type} as "
            f"!quant.uniform<i8<-127:127>:f32{axis}, {listed}>",
            f"%c = %b{number} : {bias_type} as "
            f"!quant.uniform<i32:f32{':0' if is_per_axis else ''}, {bias_listed}>",
        ]
        body = f"""
        %z = arith.constant 0.0 : f32
        %e = tensor.empty() : TYPE
        %f = linalg.fill ins(%z : f32) outs(%e : TYPE) -> TYPE
        %m = linalg.matmul ins(%a, %w : {value.type}, {weight_type}) outs(%f : TYPE) -> TYPE
        %r = linalg.generic {{indexing_maps = [{_ID}, {_ROW}, {_ID}],
                             iterator_types = ["parallel", "parallel"]}}
             ins(%m, %c : TYPE, {bias_type}) outs(%e : TYPE) {{
        ^bb0(%p: f32, %q: f32, %o: f32):
          %s = arith.addf %p, %q : f32
          %k = arith.constant 0.0 : f32
          %u = arith.maximumf %s, %k : f32
          linalg.yield {"%u" if rng.random() < 0.5 else "%s"} : f32
        }} -> TYPE"""
        has_relu = "yield %u" in body

        def compute(args: Any) -> Any:
            (x,) = args
            exact = [Fraction(scale) for scale in scales.tolist()]
            exact_bias = [Fraction(scale) for scale in bias_scales.tolist()]
            y = x @ (weights.astype(object) * np.array(exact, object))
            y = y + bias.astype(object) * np.array(exact_bias, object)
            return np.maximum(y, 0) if has_relu else y

        self.region([a], constants, (rows, columns), 4.0, body, compute)

    def _reduce(self) -> None:
        a = self.pick()
        value = self.values[a]
        rows, columns = value.shape
        choices: Sequence[tuple[str, str, Compute]] = [
            ("addf", "0.0", lambda args: args[0].sum(axis=0)),
            ("maximumf", "0xFF800000", lambda args: args[0].max(axis=0)),
        ]
        op, number, compute = choices[self.rng.choice(2)]
        row = f"tensor<{columns}xf32>"
        body = f"""
        %z = arith.constant {number} : f32
        %e = tensor.empty() : {row}
        %f = linalg.fill ins(%z : f32) outs(%e : {row}) -> {row}
        %s = linalg.generic {{indexing_maps = [{_ID}, {_ROW}],
                             iterator_types = ["reduction", "parallel"]}}
             ins(%a : {value.type}) outs(%f : {row}) {{
        ^bb0(%p: f32, %o: f32):
          %t = arith.{op} %p, %o : f32
          linalg.yield %t : f32
        }} -> {row}
        %g = tensor.empty() : TYPE
        %r = linalg.broadcast ins(%s : {row}) outs(%g : TYPE) dimensions = [0]"""
        self.region(
            [a],
            [],
            (rows, columns),
            4.0,
            body,
            lambda args: np.broadcast_to(compute(args), (rows, columns)),
        )

    # Text and values

    def text(self, *, returns_all: bool) -> str:
        """
        The program.

        Args:
            returns_all: whether all values are results, or those that no kernel takes.
        """
        used = {i for kernel in self.kernels for i in kernel.operands}
        returned = self.returned(used, returns_all=returns_all)
        arguments = ", ".join(f"{v.name}: {v.type}" for v in self.values[: self.inputs])
        values = [self.values[i] for i in returned]
        types = ", ".join(v.type for v in values)
        lines = "\n".join(self.lines)
        names = ", ".join(v.name for v in values)
        return (
            f"func.func @main({arguments}) -> ({types}) {{\n{lines}\n"
            f"func.return {names} : {types}\n}}"
        )

    def returned(self, used: set[int], *, returns_all: bool) -> Sequence[int]:
        """Which values are results."""
        made = range(self.inputs, len(self.values))
        return [i for i in made if returns_all or i not in used]

    inputs: int = 0

    @property
    def last(self) -> Sequence[int]:
        """The values that no kernel takes."""
        used = {i for kernel in self.kernels for i in kernel.operands}
        return self.returned(used, returns_all=False)


def random_program(seed: int, kernels: int = 8) -> Program:
    """A program of some kernels."""
    program = Program(np.random.default_rng(seed))
    shape = (int(program.rng.integers(2, 5)), int(program.rng.integers(2, 5)))
    program.inputs = int(program.rng.integers(1, 4))
    for _ in range(program.inputs):
        program.value(shape, 4.0)
    for _ in range(kernels):
        program.add_kernel()
    return program
