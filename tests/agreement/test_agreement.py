"""
Everything that can quantize and dequantize gives the same bits: the reference, numerics,
the interpreter on casts and on what they are lowered to, and compiled code.

The one exception is `truncate` on values that do not fit the storage type, infinities, and
NaN unless it is stored as zero, where the ops that MLIR lowers to have no defined result.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.interpreter import Interpreter

from tests.agreement import reference
from tests.agreement.cases import CASES, EXPRESSED_TYPES, Case, Container, module_text
from xdsl_quant import execution, numerics
from xdsl_quant.machines.numpy import register_implementations
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.loading import multiverse_context, parse_module
from xdsl_quant.transforms.quant.lower_quant_ops import LowerQuantOpsPass
from xdsl_quant.transforms.quant.strip_func_quant_types import StripFuncQuantTypesPass

ROUNDINGS = [
    Rounding("truncate"),
    Rounding("truncate", nan="stored-zero"),
    Rounding("nearest-even"),
    Rounding("nearest-away", nan="stored-zero"),
    Rounding("nearest-even", "after-rounding", nan="stored-zero"),
    Rounding("nearest-away", "after-rounding"),
]

Values = tuple[NDArray[Any], NDArray[Any]]
"""Stored values of a quantization, and expressed values of a dequantization."""


CONTEXT = multiverse_context()


def _options(rounding: Rounding) -> dict[str, Any]:
    return {
        "rounding_mode": rounding.mode,
        "zero_point_order": rounding.zero_point_order,
        "nan": rounding.nan,
    }


def _by_reference(case: Case, operands: Values, rounding: Rounding) -> Values:
    x, s = operands
    parameters = (*case.full_parameters(), case.parameters.expressed, case.storage)
    stored = reference.quantize(x, *parameters, *rounding)
    wide = s.astype(np.int64)
    return stored.astype(s.dtype), reference.dequantize(
        wide, *parameters, rounding.mode
    )


def _by_numerics(case: Case, operands: Values, rounding: Rounding) -> Values:
    x, s = operands
    return (
        numerics.quantize(x, case.parameters, **_options(rounding)),
        numerics.dequantize(s, case.parameters, rounding_mode=rounding.mode),
    )


def _call(case: Case, function: Any, operands: Values) -> Values:
    """Call a function on the operands, or on each pair of their elements."""
    x, s = operands
    if case.container == "scalar":
        results = [function(a, b) for a, b in zip(x.ravel(), s.ravel(), strict=True)]
        stored, expressed = (np.array(column) for column in zip(*results, strict=True))
        return stored.reshape(x.shape), expressed.reshape(x.shape)
    stored, expressed = function(x, s)
    return np.asarray(stored), np.asarray(expressed)


def _by_interpreter(
    case: Case, module: ModuleOp, operands: Values, rounding: Rounding
) -> Values:
    interpreter = Interpreter(module)
    register_implementations(interpreter, CONTEXT, **_options(rounding))

    def function(*arguments: object) -> Any:
        return interpreter.call_op("main", arguments)

    return _call(case, function, operands)


def _lowered(module: ModuleOp, rounding: Rounding, fuse: bool) -> ModuleOp:
    lowered = module.clone()
    LowerQuantOpsPass(fuse=fuse, **_options(rounding)).apply(CONTEXT, lowered)
    StripFuncQuantTypesPass().apply(CONTEXT, lowered)
    return lowered


def _as_stored(values: NDArray[Any], case: Case) -> NDArray[Any]:
    """
    Stored values in the dtype for them: a function whose types are stripped returns
    signless integers, as the signed ones with the same bits.
    """
    p = case.parameters
    if values.dtype == p.storage_dtype:
        return values
    mask = (1 << p.storage_width) - 1
    sign = 1 << (p.storage_width - 1) if p.is_signed else 0
    bits = values.astype(np.int64) & mask
    return ((bits ^ sign) - sign).astype(p.storage_dtype)


def _check(
    case: Case, actual: Values, expected: Values, defined: NDArray[np.bool_], who: str
) -> None:
    stored = _as_stored(actual[0], case)
    np.testing.assert_array_equal(stored[defined], expected[0][defined], err_msg=who)
    bits = f"u{expected[1].itemsize}"
    assert actual[1].dtype == expected[1].dtype
    np.testing.assert_array_equal(
        actual[1].view(bits), expected[1].view(bits), err_msg=who
    )


def _where_defined(
    case: Case, operands: Values, rounding: Rounding
) -> NDArray[np.bool_]:
    x, _ = operands
    if rounding.mode != "truncate":
        return np.ones(x.shape, np.bool_)
    is_convertible = reference.is_convertible(
        x, *case.full_parameters(), case.parameters.expressed, case.storage
    )
    return is_convertible | ((rounding.nan == "stored-zero") & (x != x))


def _check_agreement(case: Case, operands: Values, rounding: Rounding) -> None:
    everywhere = np.ones(case.shape, np.bool_)
    defined = _where_defined(case, operands, rounding)
    expected = _by_numerics(case, operands, rounding)
    by_reference = _by_reference(case, operands, rounding)
    _check(case, by_reference, expected, defined, "reference")

    module = parse_module(module_text(case), ctx=CONTEXT)
    by_casts = _by_interpreter(case, module, operands, rounding)
    _check(case, by_casts, expected, everywhere, "interpreter on casts")
    for fuse in (False, True):
        lowered = _lowered(module, rounding, fuse)
        by_ops = _by_interpreter(case, lowered, operands, rounding)
        _check(
            case, by_ops, expected, defined, f"interpreter on lowered casts, {fuse=}"
        )
        function = execution.compile(module, fuse=fuse, **_options(rounding))
        by_code = _call(case, function, operands)
        _check(case, by_code, expected, defined, f"compiled, {fuse=}")


def _cases_and_roundings() -> Iterator[Any]:
    for case in CASES:
        for rounding in ROUNDINGS:
            # Without zero points there is one order.
            has_order = rounding.zero_point_order == "after-rounding"
            if case.parameters.has_zero_points or not has_order:
                yield pytest.param(case, rounding, id=" ".join((case.name, *rounding)))


@pytest.mark.sampled(124)
@pytest.mark.parametrize(("case", "rounding"), [*_cases_and_roundings()])
def test_all_agree(case: Case, rounding: Rounding):
    operands = case.expressed_values(), case.stored_values()
    _check_agreement(case, operands, rounding)


@st.composite
def _parameters(draw: st.DrawFn, count: int) -> dict[str, Any]:
    width = draw(st.integers(1, 32))
    is_signed = draw(st.booleans())
    low = -(1 << (width - 1)) if is_signed else 0
    high = (1 << (width - is_signed)) - 1
    bounds = sorted(draw(st.lists(st.integers(low, high), min_size=2, max_size=2)))
    if bounds[0] == bounds[1]:
        bounds = [low, high]
    expressed = draw(st.sampled_from(EXPRESSED_TYPES))
    return {
        "scales": [draw(st.floats(2.0**-10, 2.0**10)) for _ in range(count)],
        "zero_points": [draw(st.integers(low, high)) for _ in range(count)],
        "storage": f"{'i' if is_signed else 'u'}{width}",
        "storage_min": bounds[0],
        "storage_max": bounds[1],
        "expressed": expressed,
    }


CONTAINERS: list[Container] = ["static", "dynamic"]


@st.composite
def _per_layer_cases(draw: st.DrawFn) -> Case:
    given_parameters = draw(_parameters(1))
    for name in ("scales", "zero_points"):
        (given_parameters[name],) = given_parameters[name]
    parameters = QuantizationParameters(**given_parameters)
    return Case("random", draw(st.sampled_from(CONTAINERS)), parameters, (40,))


@st.composite
def _per_axis_cases(draw: st.DrawFn) -> Case:
    axis = draw(st.integers(0, 2))
    shape = tuple(draw(st.integers(1, 6)) for _ in range(3))
    parameters = QuantizationParameters(
        **draw(_parameters(shape[axis])), quantized_dimension=axis
    )
    return Case("random", draw(st.sampled_from(CONTAINERS)), parameters, shape)


@st.composite
def _sub_channel_cases(draw: st.DrawFn) -> Case:
    blocks = [draw(st.integers(1, 3)) for _ in range(2)]
    sizes = [draw(st.integers(1, 5)) for _ in range(2)]
    given_parameters = draw(_parameters(math.prod(blocks)))
    for name in ("scales", "zero_points"):
        given_parameters[name] = np.array(given_parameters[name]).reshape(blocks)
    parameters = QuantizationParameters(
        **given_parameters, block_sizes=tuple(enumerate(sizes))
    )
    shape = tuple(count * size for count, size in zip(blocks, sizes, strict=True))
    return Case("random", draw(st.sampled_from(CONTAINERS)), parameters, shape)


def _cases() -> st.SearchStrategy[Case]:
    return st.one_of(_per_layer_cases(), _per_axis_cases(), _sub_channel_cases())


@settings(max_examples=8, deadline=None)
@given(data=st.data(), case=_cases(), rounding=st.sampled_from(ROUNDINGS))
def test_all_agree_on_random_types(data: st.DataObject, case: Case, rounding: Rounding):
    seed = data.draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    scales, zero_points = case.full_parameters()
    p = case.parameters
    steps = random.uniform(p.storage_min - 3, p.storage_max + 3, case.shape)
    with np.errstate(all="ignore"):
        x = ((steps - zero_points) * scales).astype(p.expressed_dtype)
    s = random.integers(p.storage_min, p.storage_max, case.shape, endpoint=True)
    _check_agreement(case, (x, s.astype(p.storage_dtype)), rounding)
