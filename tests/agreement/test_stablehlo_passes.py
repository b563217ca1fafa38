"""
Passes on quantized StableHLO make what the real ones make, and mean what these mean.

The differences:

* The real passes remove whatever nothing uses; programs here use everything.
* The real evaluation takes unsigned stored values for signed ones, and knows `f32` as the
  only expressed type.
* Where a quantized op would be invalid, the real `stablehlo-legalize-qdq-to-quantized-op`
  fails. This one leaves the three ops.
"""

from io import StringIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.printer import Printer

from tests.agreement.stablehlo import Program, arguments, programs
from tests.agreement.stablehlo_distances import distances
from tests.real_stablehlo import RealStableHLO
from tests.unit.frontends.stablehlo.lowering.stablehlo_evaluation import (
    FLOAT_MEANING,
    evaluate,
)
from tests.unit.frontends.stablehlo.lowering.stablehlo_programs import (
    elementwise,
    quantization,
)
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes, parse_module

TO_QDQ = "stablehlo-legalize-quantized-op-to-qdq"
FROM_QDQ = "stablehlo-legalize-qdq-to-quantized-op"
TO_INTEGER = "stablehlo-legalize-quant-to-integer"


@pytest.fixture(scope="module")
def real() -> RealStableHLO:
    return RealStableHLO()


def text_after(text: str, passes: str) -> str:
    module = parse_module(text)
    apply_passes(module, passes)
    stream = StringIO()
    Printer(stream).print_op(module)
    return stream.getvalue()


def test_decomposition_is_the_real_one(real: RealStableHLO):
    @settings(max_examples=15, deadline=None)
    @given(programs())
    def check(program: Program):
        text = str(program)
        expected = real.text(text, TO_QDQ)
        assert expected is not None
        assert real.text(text_after(text, TO_QDQ)) == expected

    check()


def test_composition_is_the_real_one(real: RealStableHLO):
    verdicts: set[bool] = set()

    @settings(max_examples=40, deadline=None)
    @given(programs(), st.booleans())
    def check(program: Program, is_decomposed: bool):
        text = str(program)
        if is_decomposed:
            text = text_after(text, TO_QDQ)
        expected, actual = real.text(text, FROM_QDQ), text_after(text, FROM_QDQ)
        verdicts.add(expected is not None)
        if expected is None:
            assert real.text(actual) is not None
        else:
            assert real.text(actual) == expected

    check()
    assert True in verdicts


def test_meaning_is_the_real_one(real: RealStableHLO):
    @settings(max_examples=25, deadline=None)
    @given(
        programs(storage=("i8", "i16"), expressed=("f32",), with_transcendental=False),
        st.integers(0, 1000),
    )
    def check(program: Program, seed: int):
        values = arguments(seed, program)
        expected = real.results(str(program), *values, passes=TO_QDQ)
        actual = evaluate(str(program), FLOAT_MEANING, *values)
        for one, other in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(one, other)

    check()


@pytest.mark.parametrize("op", ["exponential", "logistic", "tanh", "divide"])
def test_functions_are_the_real_ones(real: RealStableHLO, op: str):
    operand = quantization("i8", 1 / 32, 5)
    result = quantization("i8", 1 / 100, -20)
    stored = np.arange(-128, 128).astype(np.int8)
    operands = [operand, operand] if op == "divide" else [operand]
    arrays = [stored, np.roll(stored, 77)][: len(operands)]
    text = elementwise(op, (256,), operands, result)
    (expected,) = real.results(text, *arrays, passes=TO_QDQ)
    (actual,) = evaluate(text, FLOAT_MEANING, *arrays)
    assert np.unique(expected).size > 20
    # The last bit of a float decides nothing here.
    np.testing.assert_array_equal(actual, expected)


LOWERING = (
    "lower-quant-ops{rounding-mode=nearest-even keep-qdq=true},"
    "convert-stablehlo-to-linalg,strip-func-quant-types,canonicalize"
)


PASSES = [
    FLOAT_MEANING,
    # The product of floats and quantized weights has no integer form.
    f"{TO_INTEGER}{{fallback=qdq}},{FLOAT_MEANING}",
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("passes", PASSES)
def test_lowered_interpreted_and_compiled_numbers(passes: str):
    @settings(max_examples=6, deadline=None)
    @given(
        programs(expressed=("f32", "f64"), with_transcendental=False),
        st.integers(0, 1000),
    )
    def check(program: Program, seed: int):
        values = arguments(seed, program)
        expected = evaluate(str(program), passes, *values)
        module = parse_module(str(program))
        apply_passes(module, f"{passes},{LOWERING}")
        assert "quant." not in str(module)
        interpreted = run_function(module, "f", *values)
        compiled = compile(module, "f")(*values)
        for results in (interpreted, compiled):
            for one, other in zip(expected, results, strict=True):
                np.testing.assert_array_equal(one, other.view(one.dtype))

    check()


def test_integers_are_at_most_one_unit_from_floats():
    for op, storage, counts in distances():
        assert not counts[2:].any(), (op, storage)
        assert counts.sum() == 1 << 16
