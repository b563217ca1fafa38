"""`quant-propagate` decides what TensorFlow Lite's quantization driver decides."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from dataclasses import replace
from functools import cache
from io import StringIO
from typing import Any
from unittest.mock import patch

import pytest

from tests.conformance.real_mlir import Mlir
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.propagation.quant_propagate import Propagation
from xdsl_quant.transforms.propagation.resolution import kernels
from xdsl_quant.transforms.propagation.resolution.kernels import (
    Constraints,
    Kernel,
    PortValue,
    constraints_of,
)
from xdsl_quant.transforms.propagation.resolution.work_list import Resolver

from .comparing import (
    TARGET,
    Parameters,
    Port,
    Tally,
    compare,
    driver_answer,
    own_parameters,
    propagated,
)
from .programs import (
    Program,
    draw_program,
    draw_program_with_branches,
    program_of_one_channel,
    program_of_turns,
)

COUNT = 130


@cache
def answers() -> Sequence[tuple[Program, Parameters | None]]:
    pytest.importorskip("litert_converter", reason="no real TensorFlow Lite converter")
    programs = [draw_program(0, index) for index in range(COUNT)]
    programs.append(program_of_turns())
    with Mlir(package="litert_converter.mlir") as mlir:
        return [(program, driver_answer(mlir, program)) for program in programs]


def test_parameters_are_those_of_the_driver():
    tally = Tally()
    for index, (program, expected) in enumerate(answers()):
        compare(tally, f"program {index}", program, expected)
    assert tally.differences == []
    assert tally.programs == COUNT + 1
    assert 5 * tally.with_conflicts >= COUNT
    assert tally.values > 20 * COUNT
    assert tally.excused_share <= 0.01


def test_a_cast_speaks_for_the_uses_behind_it():
    pytest.importorskip("litert_converter", reason="no real TensorFlow Lite converter")
    tally, count = Tally(), 30
    with Mlir(package="litert_converter.mlir") as mlir:
        for index in range(count):
            program = draw_program_with_branches(0, index)
            expected = driver_answer(mlir, program)
            compare(tally, f"program {index} with branches", program, expected)
    assert tally.differences == []
    assert tally.programs == count
    assert 2 * tally.with_conflicts >= count
    assert tally.excused_share <= 0.03


@pytest.mark.parametrize("name", ["conv_2d", "depthwise_conv_2d"])
def test_the_bias_of_one_channel_is_per_tensor(name: str):
    program = program_of_one_channel(name)
    found = own_parameters(propagated(program))
    bias = Port(0, "operand", 2)
    assert found[bias] == "!quant.uniform<i32:f32, 3.0878493129535278E-5>"
    weights = found[Port(0, "operand", 1)]
    assert weights is not None
    assert ", {0.003937007874015748}>" in weights
    pytest.importorskip("litert_converter", reason="no real TensorFlow Lite converter")
    with Mlir(package="litert_converter.mlir") as mlir:
        assert driver_answer(mlir, program) == found


def test_kernels_are_those_of_fusion_and_of_all_that_says_something():
    for index in range(20):
        program = draw_program(0, index)
        module = parse_module(program.annotated_text())
        # Values that no kernel has are left out, which is a warning.
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            apply_passes(module, "quant-fuse-kernels{target=tflite-int8}")
            apply_passes(module, "quant-constraints-to-specs")
        expected = own_parameters(propagated(program))
        assert own_parameters(Propagation(module, TARGET)) == expected


# Rules, and what is there instead


def _returning(value: object) -> Callable[..., object]:
    return lambda *_: value


def _last_argument(*args: object) -> object:
    return args[-1]


def _as_they_are(low: object, high: object, is_symmetric: bool) -> object:
    return low, high


def _per_tensor(*args: Any) -> Constraints:
    constraints = constraints_of(*args)
    return replace(constraints, coefficients=dict.fromkeys(constraints.coefficients))


def _without_weights(*args: Any) -> Constraints:
    return replace(constraints_of(*args), coefficients={})


def _first_of_text(resolver: Resolver) -> object:
    return resolver.work.pop(0)


_new_constant = vars(kernels)["_new_constant"]


def _shared_constant(ssa: Any, uses: list[PortValue]) -> PortValue:
    return uses[0] if uses else _new_constant(ssa, uses)


def _first_known(kernel: Kernel) -> object:
    known = map(kernel.parameters, range(len(kernel.ports)))
    return next((parameters for parameters in known if parameters is not None), None)


RULES: dict[str, tuple[str, object]] = {
    "ranges of fixed results are redundant": (
        "statistics._has_fixed_range",
        _returning(False),
    ),
    "ranges of results of one operand are redundant": (
        "statistics._has_range_of_operand",
        _returning(False),
    ),
    "ranges before a range are redundant": (
        "statistics._preceding_ranges",
        _returning(frozenset[PortValue]()),
    ),
    "users change their order with the operand": (
        "statistics._reverse_users",
        _returning(None),
    ),
    "ranges become parameters": (
        "work_list.Resolver._decide_by_range",
        _returning(None),
    ),
    "constants have the parameters of their content": (
        "work_list.Resolver._decide_by_content",
        _returning(None),
    ),
    "narrow ranges of constants are widened": (
        "parameters._widened",
        _as_they_are,
    ),
    "weights are symmetric": ("kernels.constraints_of", _without_weights),
    "weights are per-axis": ("kernels.constraints_of", _per_tensor),
    "each use of a constant counts alone": (
        "kernels._new_constant",
        _shared_constant,
    ),
    "scales of biases are products": (
        "work_list.Resolver._multiply",
        _returning(True),
    ),
    "scales of large biases are enlarged": (
        "work_list.Resolver._enlarged",
        _last_argument,
    ),
    "same scale": ("work_list._shared_parameters", _returning(None)),
    "what is fixed comes first": (
        "work_list._is_immutable",
        _returning(False),
    ),
    "an only operand or result comes first": (
        "work_list._shared_parameters",
        _first_known,
    ),
    "results have fixed ranges": (
        "work_list.Resolver._fix_results",
        _returning(None),
    ),
    "kernels may have parameters of their own": (
        "work_list.Resolver._rescale",
        _returning(None),
    ),
    "users take their turn": (
        "work_list.Resolver._push_users",
        _returning(None),
    ),
    "what was added last comes first": ("work_list.Resolver._next", _first_of_text),
}
"""What is replaced in the package to switch off a rule, and by what."""

_ROOM = "xdsl_quant.transforms.propagation.resolution"


def _has_difference() -> bool:
    tally = Tally()
    for index, (program, expected) in enumerate(answers()):
        compare(tally, f"program {index}", program, expected)
        if tally.differences:
            return True
    return False


@pytest.mark.parametrize("rule", RULES)
def test_comparison_fails_without_a_rule(rule: str):
    answers()
    name, replacement = RULES[rule]
    with patch(f"{_ROOM}.{name}", replacement):
        assert _has_difference()


def test_comparison_fails_with_another_rule_for_ranges():
    answers()
    target = replace(TARGET, range_rule="exact")
    with patch("tests.propagation.comparing.TARGET", target):
        assert _has_difference()
