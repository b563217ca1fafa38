"""
Compare `tfl-fuse-qdq` with the pass of that name in TensorFlow Lite's converter, on random
models of float ops between `tfl.quantize` and `tfl.dequantize`.

    python -m tests.oracles.qdq --programs 500 --seed 1

The text after both passes is equal up to unused ops, equal ops and the order of ops. The
converter fails on some models, and `DEVIATIONS` lists where its result is wrong or misses
an op. The exit code is 1 if another difference is found.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass, field
from io import StringIO
from random import Random
from unittest.mock import patch

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from tests.propagation.programs import Constant, Op, Program, Tensor, draw_program
from xdsl_quant.frontends.tflite.dialect import DequantizeOp, QuantizeOp
from xdsl_quant.frontends.tflite.lowering import tfl_fuse_qdq
from xdsl_quant.frontends.tflite.lowering.tfl_fuse_qdq import FuseQDQ
from xdsl_quant.runtime.loading import apply_passes, parse_module

_SAME_SCALE = frozenset(
    "average_pool_2d concatenation max_pool_2d maximum minimum mirror_pad pad reduce_max "
    "reduce_min reshape slice split transpose".split()
)
_FIXED = {
    "logistic": "3.906250e-03:-128",
    "l2_normalization": "7.812500e-03",
    "log_softmax": "6.250000e-02:127",
    "softmax": "3.906250e-03:-128",
    "tanh": "7.812500e-03",
}
_WEIGHTS = {
    "conv_2d": (1, 0),
    "depthwise_conv_2d": (1, 3),
    "fully_connected": (1, 0),
    "prelu": (1, None),
    "transpose_conv": (1, 0),
}
"""Operand number and quantized axis of the weights of an op."""

_FACTORS = {"transpose_conv": (2, 1, 3)} | dict.fromkeys(
    ("conv_2d", "depthwise_conv_2d", "fully_connected"), (0, 1, 2)
)
"""Numbers of the activation, the weights and the bias of an op."""


def _tensor(shape: Sequence[int], element: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def _dense(array: np.ndarray) -> str:
    if array.ndim:
        return f"[{', '.join(map(_dense, array))}]"
    return f"{array:.9e}" if array.dtype == "f4" else str(array)


@dataclass
class _Writer:
    """The text of a program with casts."""

    random: Random
    program: Program
    lines: list[str] = field(default_factory=list[str])
    floats: dict[str, str] = field(default_factory=dict[str, str])
    """Names of the values after casts, by name of the value."""

    stored: dict[str, str] = field(default_factory=dict[str, str])
    """Names of quantized values, by name of the value."""

    types: dict[str, str] = field(default_factory=dict[str, str])
    """Quantized element types by name of the float value after the casts."""

    count: int = 0

    shares: bool = False
    """Uses share a `tfl.dequantize`."""

    def __post_init__(self) -> None:
        self.shares = self.chance(0.3)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def cast(self, name: str, shape: Sequence[int], element: str) -> str:
        """Write a pair of casts, and return the name of the float value."""
        self.count += 1
        q, floats = f"q{self.count}", _tensor(shape, "f32")
        quantized = _tensor(shape, element)
        self.lines.append(
            f'%{q} = "tfl.quantize"(%{name}) <{{qtype = {quantized}}}> : '
            f"({floats}) -> {quantized}"
        )
        return self.dequantize(q, shape, element)

    def dequantize(self, q: str, shape: Sequence[int], element: str) -> str:
        self.count += 1
        d, floats = f"d{self.count}", _tensor(shape, "f32")
        quantized = _tensor(shape, element)
        self.lines.append(f'%{d} = "tfl.dequantize"(%{q}) : ({quantized}) -> {floats}')
        self.stored[d], self.types[d] = q, element
        return d

    def parameters(self) -> str:
        choices = ("2.000000e-01", "1.000000e-01:5")
        return self.random.choice(choices) if self.chance(0.1) else "1.000000e-01"

    def element(self, op: Op | None, operands: Sequence[str]) -> str:
        """The quantized type of a result."""
        name = op.name if op else ""
        known = [self.types[x] for x in operands if x in self.types]
        if name in _SAME_SCALE and known and self.chance(0.9):
            return known[0]
        if name in _FIXED and self.chance(0.9):
            return f"!quant.uniform<i8:f32, {_FIXED[name]}>"
        return f"!quant.uniform<i8:f32, {self.parameters()}>"

    def define(self, tensor: Tensor, op: Op | None, operands: Sequence[str]) -> None:
        self.floats[tensor.name] = tensor.name
        if self.chance(0.9):
            element = self.element(op, operands)
            self.floats[tensor.name] = self.cast(tensor.name, tensor.shape, element)

    def constant(
        self, constant: Constant, axis: int | None, types: Sequence[str]
    ) -> str:
        """Write a constant, perhaps with casts."""
        self.count += 1
        name = f"c{self.count}"
        array = constant.array
        integers = array.dtype != "f4"
        type_ = _tensor(array.shape, "i32" if integers else "f32")
        value = f"dense<{_dense(array)}> : {type_}"
        self.lines.append(
            f'%{name} = "tfl.pseudo_const"() <{{value = {value}}}> : () -> {type_}'
        )
        if integers or self.chance(0.1):
            return name
        return self.cast(name, array.shape, self.constant_type(array, axis, types))

    def constant_type(
        self, array: np.ndarray, axis: int | None, types: Sequence[str]
    ) -> str:
        if types:
            return _product(types)
        if axis is None:
            return f"!quant.uniform<i8:f32, {self.parameters()}>"
        if self.chance(0.3):
            return "!quant.uniform<i8<-127:127>:f32, 2.500000e-02>"
        scales = ", ".join(
            f"{self.random.randint(1, 9)}.000000e-02" for _ in range(array.shape[axis])
        )
        return f"!quant.uniform<i8<-127:127>:f32:{axis}, {{{scales}}}>"

    def operand(self, tensor: Tensor) -> str:
        name = self.floats[tensor.name]
        if self.chance(0.04):
            return tensor.name
        if self.chance(0.04):
            element = f"!quant.uniform<i8:f32, {self.parameters()}>"
            return self.cast(
                self.random.choice((name, tensor.name)), tensor.shape, element
            )
        if name in self.stored and not self.shares:
            return self.dequantize(self.stored[name], tensor.shape, self.types[name])
        return name

    def op(self, op: Op) -> None:
        weights, axis = _WEIGHTS.get(op.name, (-1, None))
        *_, bias = _FACTORS.get(op.name, (-1,))
        names: list[str] = []
        for i, operand in enumerate(op.operands):
            if not isinstance(operand, Constant):
                assert isinstance(operand, Tensor)
                names.append(self.operand(operand))
                continue
            types: list[str] = []
            if i == bias:
                factors = [names[k] for k in _FACTORS[op.name][:2]]
                types = [self.types[name] for name in factors if name in self.types]
                types = types if len(types) == 2 else []
            names.append(self.constant(operand, axis if i == weights else None, types))
        results = [result.name for result in op.results]
        self.lines.append(op.text(names, results))
        for result in op.results:
            self.define(result, op, names)

    def text(self) -> str:
        for tensor in self.program.inputs:
            self.define(tensor, None, ())
        for op in self.program.ops:
            self.op(op)
        used = {operand.name for op in self.program.ops for operand in op.operands}
        returned: list[tuple[str, str]] = []
        for tensor in self.program.tensors:
            if tensor.name in used and not self.chance(0.1):
                continue
            name, type_ = self.floats[tensor.name], tensor.type
            if name in self.stored and self.chance(0.3):
                type_ = _tensor(tensor.shape, self.types[name])
                name = self.stored[name]
            returned.append((f"%{name}", type_))
        arguments = ", ".join(f"%{x.name}: {x.type}" for x in self.program.inputs)
        values = ", ".join(name for name, _ in returned)
        types = ", ".join(type_ for _, type_ in returned)
        body = "\n".join(f"  {line}" for line in self.lines)
        return (
            f"func.func @main({arguments}) -> ({types}) {{\n{body}\n"
            f"  return {values} : {types}\n}}\n"
        )


def _scales(type_: str) -> Sequence[float]:
    text = type_.rpartition(", {")[2] if "{" in type_ else type_.partition(", ")[2]
    return [float(each.partition(":")[0]) for each in text.strip("}>").split(", ")]


def _product(types: Sequence[str]) -> str:
    """The type of a bias, whose scales are products."""
    first, second = map(_scales, types)
    scales = [first[0] * scale for scale in second]
    if "{" not in types[1]:
        return f"!quant.uniform<i32:f32, {scales[0]:.17e}>"
    text = ", ".join(f"{scale:.17e}" for scale in scales)
    return f"!quant.uniform<i32:f32:0, {{{text}}}>"


_OTHER_OPS = {
    "relu": (
        *("abs", "exp", "hard_swish", "log", "relu_0_to_1", "relu_n1_to_1", "rsqrt"),
        *("gelu", "mirror_pad", "sqrt"),
    ),
    "concatenation": ("concatenation", "concatenation", "pad"),
    "mean": ("reduce_prod", "sum"),
    "mul": ("squared_difference",),
}
"""Ops that take the place of some ops of the programs for the driver."""

_PROPERTIES = {
    "gelu": "approximate = false",
    "mirror_pad": "mode = #tfl<mirror_pad_attr REFLECT>",
    "reduce_prod": "keep_dims = true",
    "sum": "keep_dims = true",
}


def _replace_ops(program: Program, random: Random) -> None:
    for op in program.ops:
        if op.name not in _OTHER_OPS or random.random() < 0.3:
            continue
        former, op.name = op.name, random.choice(_OTHER_OPS[op.name])
        if op.name == former:
            continue
        op.properties = _PROPERTIES.get(op.name, "")
        if op.name.endswith("pad"):
            padding = np.zeros((len(op.results[0].shape), 2), "i4")
            padding[0, 1] = op.name == "pad"
            op.operands = [op.operands[0], Constant("padding", padding)]


def draw_qdq(seed: int, index: int) -> str:
    """The text of the program with a number."""
    program, random = draw_program(seed, index), Random(f"qdq/{seed}/{index}")
    _replace_ops(program, random)
    return _Writer(random, program).text()


# Comparison


def canonical(module: ModuleOp) -> str:
    """
    The ops that a function's results need, each once, in the order of the results.
    """
    lines: dict[str, str] = {}
    names: dict[SSAValue, str] = {}

    def name(value: SSAValue) -> str:
        if isinstance(value, BlockArgument):
            return f"%arg{value.index}"
        if value not in names:
            assert isinstance(value.owner, Operation)
            visit(value.owner)
        return names[value]

    def visit(op: Operation) -> None:
        operands = ", ".join(map(name, op.operands))
        known = op.properties | op.attributes
        attributes = ", ".join(f"{k} = {known[k]}" for k in sorted(known) if k != "id")
        types = ", ".join(str(result.type) for result in op.results)
        line = f"{op.name}({operands}) {{{attributes}}} -> {types}"
        number = lines.setdefault(line, f"%{len(lines)}")
        for i, result in enumerate(op.results):
            names[result] = f"{number}#{i}"

    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    end = function.body.block.last_op
    assert end is not None
    visit(end)
    return "\n".join(f"{name} = {line}" for line, name in lines.items())


def fused(text: str) -> ModuleOp:
    """The module of a text after `tfl-fuse-qdq`."""
    module = parse_module(text)
    with redirect_stderr(StringIO()):
        apply_passes(module, "tfl-fuse-qdq")
    module.verify()
    return module


DEVIATIONS = {
    "loses roundings": "quantize(quantize(x)) becomes one quantize: other numbers",
    "skips users": "an op stays float if another op uses its dequantized operand later "
    "and stays float",
    "invents kernels": "fuses ops that the runtime refuses, e.g. softmax with scale 0.1",
}
"""Deviations of the converter's pass, by the names that a comparison gives them."""


@contextmanager
def _kernels_invented() -> Generator[None]:
    def no_findings(op: Operation) -> tuple[()]:
        return ()

    with patch.object(tfl_fuse_qdq, "kernel_findings", no_findings):
        yield


_plan = FuseQDQ.plan


@contextmanager
def _users_skipped() -> Generator[None]:
    """The converter visits the users of a `tfl.dequantize` until one stays in float."""

    def plan(pattern: FuseQDQ, op: Operation) -> Operation | None:
        planned = _plan(pattern, op)
        if planned is None or op.parent is None:
            return None
        positions = {other: i for i, other in enumerate(op.parent.ops)}
        for value in op.operands:
            users = [use.operation for use in value.uses]
            if isinstance(value.owner, DequantizeOp) and all(
                positions[user] <= positions[op] or _plan(pattern, user) is not None
                for user in users
            ):
                return planned
        return None

    with patch.object(FuseQDQ, "plan", plan):
        yield


def _lose_roundings(module: ModuleOp) -> None:
    for op in module.walk():
        while isinstance(op, QuantizeOp) and isinstance(
            source := op.input.owner, QuantizeOp
        ):
            op.operands = (source.input,)


def deviating(text: str, deviations: Sequence[str]) -> str:
    """The canonical text after a pass with some of the `DEVIATIONS`."""
    with _kernels_invented() if "invents kernels" in deviations else nullcontext():
        with _users_skipped() if "skips users" in deviations else nullcontext():
            module = fused(text)
    if "loses roundings" in deviations:
        _lose_roundings(module)
    return canonical(module)


@dataclass
class Tally:
    """Programs that were compared."""

    equal: int = 0
    deviations: Counter[str] = field(default_factory=Counter[str])
    """Equal programs with each of the `DEVIATIONS`."""

    failures: Counter[str] = field(default_factory=Counter[str])
    """Programs on which the converter fails, by kind of answer."""

    differences: list[str] = field(default_factory=list[str])

    fused_ops: int = 0
    """Ops on quantized values after the pass."""


def compare(mlir: Mlir, tally: Tally, name: str, text: str) -> None:
    """Compare the passes on a program."""
    module = fused(text)
    tally.fused_ops += sum(_is_fused(op) for op in module.walk())
    answer = mlir.run(text, "tfl-fuse-qdq", generic=True)
    if not isinstance(answer, Accepted):
        tally.failures[type(answer).__name__] += 1
        return
    expected = canonical(parse_module(answer.text))
    if canonical(module) == expected:
        tally.equal += 1
        return
    used = [*DEVIATIONS]
    if deviating(text, used) != expected:
        tally.differences.append(name)
        return
    for deviation in DEVIATIONS:
        fewer = [each for each in used if each != deviation]
        if deviating(text, fewer) == expected:
            used = fewer
    tally.deviations.update(used)


def _is_fused(op: Operation) -> bool:
    return not isinstance(op, QuantizeOp | DequantizeOp) and any(
        "!quant.uniform" in str(value.type) for value in op.operands
    )


def main(args: Sequence[str] | None = None) -> int:
    """The exit code for the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracles.qdq")
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first program")
    options = parser.parse_args(args)
    tally = Tally()
    with Mlir(package="litert_converter.mlir") as mlir:
        for index in range(options.first, options.first + options.programs):
            text = draw_qdq(options.seed, index)
            compare(mlir, tally, f"seed {options.seed}, program {index}", text)
    failures = ", ".join(f"{n} {kind}" for kind, n in sorted(tally.failures.items()))
    print(f"{options.programs} programs, {tally.fused_ops} fused ops")
    print(f"the converter fails on: {failures or 'none'}")
    print(f"{tally.equal} programs are equal")
    for name, count in sorted(tally.deviations.items()):
        print(f"{count} are equal if the pass {name}: {DEVIATIONS[name]}")
    print(f"{len(tally.differences)} differ: {', '.join(tally.differences[:10])}")
    return bool(tally.differences)


if __name__ == "__main__":
    sys.exit(main())
