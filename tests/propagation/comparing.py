"""
The parameters of every value, by TensorFlow Lite's quantization driver and by
`quant-propagate`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple
from unittest.mock import patch

from xdsl.dialects.builtin import ModuleOp

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from xdsl_quant.dialects.quant.types import UniformType
from xdsl_quant.runtime.loading import parse_module
from xdsl_quant.transforms.propagation.quant_propagate import Propagation
from xdsl_quant.transforms.propagation.resolution.kernels import (
    SPECIFICATION,
    Kernel,
    PortValue,
)
from xdsl_quant.transforms.propagation.resolution.work_list import Resolver
from xdsl_quant.transforms.propagation.resolution.writing import conflicts_of
from xdsl_quant.transforms.propagation.target_files import read_target

from .programs import Program

PIPELINE = (
    "func.func(tfl-prepare-quantize{quantize-signed=true post-training-quantize=true})"
)
"""The pass of the driver."""

TARGET = read_target("tflite-int8")


class Port(NamedTuple):
    """An operand or a result of an op."""

    op: int
    """The number of the op."""

    kind: str
    """`operand` or `result`."""

    number: int


Parameters = dict[Port, str | None]
"""The parameters at all ports; `None` where values are not quantized."""


# The driver

_OP = re.compile(
    r'\s*(?:(?P<results>%[\w:, %]+?) = )?"(?P<name>[\w.]+)"\((?P<operands>[^)]*)\)'
    r"(?P<properties>.*) : \(.*\) -> (?P<types>.*)"
)
_UNIFORM = re.compile(r"!quant\.uniform<(?:[^<>]|<[^<>]*>)*>")
_ID = re.compile(r"\bid = (\d+) : i32")


def _results(text: str | None) -> list[str]:
    if text is None:
        return []
    name, _, count = text.partition(":")
    return [f"{name}#{i}" for i in range(int(count))] if count else [name]


def driver_parameters(text: str) -> Parameters:
    """
    The parameters at the ports of all ops that have an `id`: those of the casts around.

    Args:
        text: what the driver made, in the generic form.
    """
    dequantized: dict[str, str | None] = {}
    quantized: dict[str, str | None] = {}
    decided: dict[str, str | None] = {}
    parameters: dict[str, str | None] = {}
    ops: list[tuple[int, list[str], list[str]]] = []
    for line in text.splitlines():
        if (match := _OP.match(line)) is None:
            continue
        operands = [name for name in match["operands"].split(", ") if name]
        results = _results(match["results"])
        found = _UNIFORM.search(match["types"])
        if match["name"] == "tfl.quantize":
            parameters[results[0]] = found and found[0]
            if "volatile" in match["properties"]:
                # The driver decided it. Other casts speak for the uses behind them.
                decided[operands[0]] = parameters[results[0]]
            quantized.setdefault(operands[0], parameters[results[0]])
        elif match["name"] == "tfl.dequantize":
            dequantized[results[0]] = parameters[operands[0]]
        elif (number := _ID.search(match["properties"])) is not None:
            ops.append((int(number[1]), operands, results))
    at_ports: dict[Port, str | None] = {}
    for _, operands, _ in ops:
        for name in operands:
            # A plain use, for which nothing is decided.
            quantized.pop(name, None)
    quantized |= decided
    for number, operands, results in ops:
        for i, name in enumerate(operands):
            at_ports[Port(number, "operand", i)] = dequantized.get(name)
        for i, name in enumerate(results):
            at_ports[Port(number, "result", i)] = quantized.get(name)
    return at_ports


# This package


def propagated(program: Program) -> Propagation:
    """A program after `quant-propagate`."""
    return Propagation(_parsed(program.kernel_text()).clone(), TARGET)


@lru_cache(256)
def _parsed(text: str) -> ModuleOp:
    return parse_module(text)


def own_parameters(propagation: Propagation) -> Parameters:
    """The parameters at the ports of all kernels."""
    return {
        port: str(spec) if isinstance(spec, UniformType) else None
        for port, spec in zip(
            _ports(propagation.graph.kernels),
            (spec for k in propagation.graph.kernels for spec in k.op.specs),
            strict=True,
        )
    }


def _ports(kernels: Sequence[Kernel]) -> Iterator[Port]:
    for number, kernel in enumerate(kernels):
        for port in range(len(kernel.ports)):
            yield _port(number, kernel, port)


def _port(number: int, kernel: Kernel, port: int) -> Port:
    count = kernel.input_count
    if port < count:
        return Port(number, "operand", port)
    return Port(number, "result", port - count)


# Differences


def lost_requantizations(propagation: Propagation) -> Parameters:
    """
    What the driver has at ports of values that need a requantization both where they are
    computed and where they are used: it makes neither, and the ops have the parameters of
    the value, which break their constraints.
    """
    numbers = {id(kernel): i for i, kernel in enumerate(propagation.graph.kernels)}
    lost: dict[Port, str | None] = {}
    for value in propagation.graph.all_values:
        if value.producer is None:
            continue
        kernel, port = value.producer
        uses = [(user, i) for user, i in value.users if i in user.rescaled]
        if port in kernel.rescaled and uses:
            for user, i in [(kernel, port), *uses]:
                lost[_port(numbers[id(user)], user, i)] = str(value.parameters)
    return lost


def forgotten_kernels(program: Program) -> Parameters:
    """
    What the driver has at ports of kernels that take a value that another kernel decides,
    which takes it, too: they do not get another turn, and stay undecided.
    """
    with patch.object(Resolver, "_wait"):
        return own_parameters(propagated(program))


def statistics_of_uses(program: Program) -> tuple[Parameters, Parameters]:
    """
    What the driver has where a value with statistics has uses behind casts, too: it takes
    the statistics for those of the other uses alone, so that the kernel that computes the
    value may give it the parameters of another port.

    Returns:
        The parameters, and what is left of them where the driver loses requantizations.
    """
    decide = Resolver._decide_by_range  # pyright: ignore[reportPrivateUsage] a rule is replaced
    uses: list[tuple[Kernel, int, UniformType]] = []

    def decide_uses(resolver: Resolver, value: PortValue) -> None:
        was_known = value.parameters is not None
        plain = [use for use in value.users if use[1] not in use[0].rescaled]
        decide(resolver, value)
        parameters = value.parameters
        has_casts = len(plain) < len(value.users)
        if was_known or parameters is None or not has_casts:
            return
        value.parameters, value.is_immutable = None, False
        for kernel, port in plain:
            kernel.rescaled[port] = parameters, SPECIFICATION
            uses.append((kernel, port, parameters))

    with patch.object(Resolver, "_decide_by_range", decide_uses):
        propagation = propagated(program)
    numbers = {id(kernel): i for i, kernel in enumerate(propagation.graph.kernels)}
    lost = lost_requantizations(propagation)
    for kernel, port, parameters in uses:
        lost[_port(numbers[id(kernel)], kernel, port)] = str(parameters)
    return own_parameters(propagation), lost


@dataclass
class Tally:
    """Programs that were compared."""

    programs: int = 0
    with_conflicts: int = 0
    """Those of them that need a requantization."""

    values: int = 0
    """The ports of kernels in all of them."""

    driver_failures: int = 0
    """Programs that the driver does not resolve."""

    excused: Counter[str] = field(default_factory=Counter[str])
    """Differences by the names of predicates."""

    differences: list[str] = field(default_factory=list[str])
    """All others."""

    @property
    def excused_share(self) -> float:
        return self.excused.total() / max(self.values, 1)


def driver_answer(mlir: Mlir, program: Program) -> Parameters | None:
    """What the driver decides; `None` if it fails."""
    answer = mlir.run(program.driver_text(), PIPELINE, generic=True)
    return driver_parameters(answer.text) if isinstance(answer, Accepted) else None


def compare(tally: Tally, name: str, program: Program, expected: Parameters | None):
    """Compare a program with the answer of the driver."""
    propagation = propagated(program)
    found = own_parameters(propagation)
    if expected is None:
        tally.driver_failures += 1
        return
    tally.programs += 1
    tally.with_conflicts += bool(conflicts_of(propagation.graph.all_values))
    tally.values += len(found)
    different = [port for port in found if found[port] != expected.get(port, "no op")]
    if not different:
        return
    lost, forgotten = lost_requantizations(propagation), forgotten_kernels(program)
    of_uses, lost_of_uses = statistics_of_uses(program)
    for port in different:
        theirs = expected.get(port, "no op")
        if port in lost and theirs == lost[port]:
            tally.excused["lost requantizations"] += 1
        elif theirs == forgotten[port]:
            tally.excused["forgotten kernels"] += 1
        elif theirs in (of_uses[port], lost_of_uses.get(port, "none")):
            tally.excused["statistics of uses"] += 1
        else:
            op = program.ops[port.op].name
            tally.differences.append(
                f"{name}: {port.kind} {port.number} of op {port.op}, {op}: "
                f"{found[port]}, not {theirs}"
            )
