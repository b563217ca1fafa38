"""What TensorFlow Lite's kernels demand, with what the runtime itself makes of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pymicro_wakeword
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from tests.unit.frontends.tflite.files.litert_process import Run, runs
from tests.unit.frontends.tflite.files.models import model_of
from tests.unit.frontends.tflite.formulas.cases import cases
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.inspecting.verify_quant_constraints import (
    quant_constraint_violations,
)
from xdsl_quant.runtime.loading import parse_module

from .tflite_ops import expressed, inputs_of, module_of, steps_off

Array = NDArray[Any]

PATHS = sorted(Path(pymicro_wakeword.__file__).parent.rglob("*.tflite"))

NONE = 'fused_activation_function = "NONE"'
AXIS = "axis = 3 : i32, "
POOL = (
    f"filter_height = 1 : i32, filter_width = 1 : i32, {NONE}, "
    'padding = "VALID", stride_h = 1 : i32, stride_w = 1 : i32'
)
TRANSPOSED = f'{NONE}, padding = "SAME", stride_h = 1 : i32, stride_w = 1 : i32'
CONV = f"dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, {TRANSPOSED}"
DENSE = f'{NONE}, keep_num_dims = false, weights_format = "DEFAULT"'
SVDF = 'fused_activation_function = "RELU", rank = 1 : i32'
SHAPE = "1x4x4x2"
WEIGHTS = "dense<[[3, -2], [1, 4]]>"
FILTERS = "dense<[[[[3, -2]]], [[[1, 4]]]]>"
CHANNELS = "dense<[[[[3, -2]]]]>"
MATRIX = np.array([[3, -2], [1, 4]]) * 0.1


def q(storage: str, scale: float, zero_point: int = 0) -> str:
    text = np.format_float_positional(np.float64(scale), trim="0")
    return f"!quant.uniform<{storage}:f32, {text}:{zero_point}>"


def t(storage: str, scale: float = 0.1, zero_point: int = 0, shape: str = SHAPE) -> str:
    element = storage if storage == "f32" else q(storage, scale, zero_point)
    return f"tensor<{shape}x{element}>"


def axis(storage: str, scales: Sequence[float], dimension: int, shape: str) -> str:
    texts = ", ".join(map(str, scales))
    return f"tensor<{shape}x!quant.uniform<{storage}:f32:{dimension}, {{{texts}}}>>"


def softmax(x: Array) -> Array:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def first(x: Array, *_: Array) -> Array:
    return x


def dense(x: Array, bias: Array | float = 0.0) -> Array:
    return x @ MATRIX.T + bias


Function = Callable[..., Array]
"""What an op computes of numbers."""


def of_one(function: Callable[[Array], Array]) -> Function:
    """A function of one operand."""
    return function


class Model(NamedTuple):
    """An op with its types."""

    op: str
    properties: str
    operands: Sequence[str]
    results: Sequence[str]

    @property
    def module(self) -> ModuleOp:
        return module_of(*self)


class Case(NamedTuple):
    """A mistake, and the op without it."""

    outcome: str
    """What the runtime makes of the mistake: as `Run.outcome`, or `wrong`."""

    messages: Sequence[str]
    """What is reported, after the name of the op."""

    wrong: Model
    right: Model

    function: Function | None = None
    """What the op computes, where the runtime does it right or wrong."""


def _unary(
    outcome: str,
    op: str,
    message: str,
    wrong: str,
    right: str,
    *,
    properties: str = "",
    operand: str = t("i8"),
    right_operand: str | None = None,
    function: Function | None = None,
) -> Case:
    """A mistake in the type of a result, or of an operand if two are given."""
    operands = [operand], [right_operand or operand]
    models = [
        Model(op, properties, types, [result])
        for types, result in zip(operands, (wrong, right), strict=True)
    ]
    return Case(outcome, [message], models[0], models[1], function)


def _scale(found: float, text: str, op: str, scale: float) -> str:
    return (
        f"result #0: scale {found} of {text} is not the fixed result scale of "
        f"'tfl.{op}'; expected {scale} (result-scale)"
    )


def _zero_point(found: int, text: str, op: str, zero_point: int) -> str:
    return (
        f"result #0: zero point {found} of {text} is not the fixed result zero point "
        "of "
        f"'tfl.{op}'; expected {zero_point} (result-zero-point)"
    )


BETA = "beta = 1.0 : f32"
S8 = 1 / 256
S16 = 2.0**-15
RESULTS = {
    "softmax of another scale": _unary(
        "refused",
        "softmax",
        _scale(0.003911, "!quant.uniform<i8:f32, 3.911000e-03:-128>", "softmax", S8),
        t("i8", 0.003911, -128),
        t("i8", 0.003906, -128),
        properties=BETA,
    ),
    "softmax of another zero point": _unary(
        "refused",
        "softmax",
        _zero_point(-127, "!quant.uniform<i8:f32, 3.906250e-03:-127>", "softmax", -128),
        t("i8", S8, -127),
        t("i8", S8, -128),
        properties=BETA,
    ),
    "softmax of u8": _unary(
        "wrong",
        "softmax",
        _scale(0.0078125, "!quant.uniform<u8:f32, 7.812500e-03>", "softmax", S8),
        t("u8", S8 * 2),
        t("u8", S8),
        properties=BETA,
        operand=t("u8", 0.1, 128),
        function=softmax,
    ),
    "softmax of i16": _unary(
        "refused",
        "softmax",
        _scale(S16 / 2, "!quant.uniform<i16:f32, 1.52587890625E-5>", "softmax", S16),
        t("i16", S16 / 2),
        t("i16", S16 * 1.0009),
        properties=BETA,
        operand=t("i16"),
    ),
    "logistic": _unary(
        "refused",
        "logistic",
        _scale(0.0039063, "!quant.uniform<i8:f32, 3.906300e-03:-128>", "logistic", S8),
        t("i8", 0.0039063, -128),
        # Tables may have any zero point.
        t("i8", S8, 5),
    ),
    "logistic of i16": _unary(
        "refused",
        "logistic",
        _scale(0.00003052, "!quant.uniform<i16:f32, 3.052000e-05>", "logistic", S16),
        t("i16", 0.00003052),
        t("i16", S16),
        operand=t("i16"),
    ),
    "tanh of i16": _unary(
        "refused",
        "tanh",
        _scale(0.00003055, "!quant.uniform<i16:f32, 3.055000e-05>", "tanh", S16),
        t("i16", 0.00003055),
        t("i16", S16 * 1.0006),
        operand=t("i16"),
    ),
    "log_softmax": _unary(
        "refused",
        "log_softmax",
        _scale(
            0.0626, "!quant.uniform<i8:f32, 6.260000e-02:127>", "log_softmax", 0.0625
        ),
        t("i8", 0.0626, 127),
        t("i8", 0.0625, 127),
    ),
    "log_softmax of u8": _unary(
        "refused",
        "log_softmax",
        _zero_point(
            254, "!quant.uniform<u8:f32, 6.250000e-02:254>", "log_softmax", 255
        ),
        t("u8", 0.0625, 254),
        t("u8", 0.0625, 255),
        operand=t("u8"),
    ),
    "l2_normalization": _unary(
        "refused",
        "l2_normalization",
        _zero_point(1, "!quant.uniform<i8:f32, 7.812500e-03:1>", "l2_normalization", 0),
        t("i8", 1 / 128, 1),
        t("i8", 1 / 128),
        properties=NONE,
    ),
    "l2_normalization of u8": _unary(
        "refused",
        "l2_normalization",
        _scale(
            0.0078,
            "!quant.uniform<u8:f32, 7.800000e-03:128>",
            "l2_normalization",
            2**-7,
        ),
        t("u8", 0.0078, 128),
        t("u8", 1 / 128, 128),
        properties=NONE,
        operand=t("u8"),
    ),
}


def _binary(
    outcome: str,
    op: str,
    message: str,
    wrong: Sequence[str],
    right: Sequence[str],
    *,
    properties: str = NONE,
    function: Function | None = None,
) -> Case:
    """A mistake in the types of two operands and a result."""
    models = [Model(op, properties, types[:2], types[2:]) for types in (wrong, right)]
    return Case(outcome, [message], models[0], models[1], function)


def _too_small(scale: str, text: str, op: str, rest: str) -> str:
    return (
        f"result #0: scale {scale} of {text} is too small for the multiplier of "
        f"'tfl.{op}'; expected more than {rest} (scale-range)"
    )


def _not_the_larger(op: str) -> str:
    return (
        "result #0: scale 0.25 of !quant.uniform<i16:f32, 2.500000e-01> is not the "
        "larger "
        f"operand scale of 'tfl.{op}', and all scales are powers of two; expected "
        "0.5, or pot_scale_int16 = false (power-of-two-scales)"
    )


LIMIT = np.float32(0.3)
B = "tensor<1x4x4x2xi1>"
SCALES = {
    "add with a small result": _binary(
        "aborts",
        "add",
        _too_small(
            f"{float(LIMIT) / 2**19}",
            "!quant.uniform<i8:f32, 5.7220461258111754E-7>",
            "add",
            f"{2 * float(LIMIT) / 2**20}, the larger operand scale divided by 2^19",
        ),
        [t("i8", 0.1), t("i8", 0.3), t("i8", float(LIMIT) / 2**19)],
        [t("i8", 0.1), t("i8", 0.3), t("i8", 5.8e-7)],
    ),
    "add of i16 with a small result": _binary(
        "aborts",
        "add",
        _too_small(
            f"{float(np.float32(1.8e-5))}",
            "!quant.uniform<i16:f32, 1.800000e-05>",
            "add",
            f"{2 * float(LIMIT) / 2**15}, the larger operand scale divided by 2^14",
        ),
        [t("i16", 0.1), t("i16", 0.3), t("i16", 1.8e-5)],
        [t("i16", 0.1), t("i16", 0.3), t("i16", 1.9e-5)],
    ),
    "sub with a small result": _binary(
        "wrong",
        "sub",
        _too_small(
            f"{float(np.float32(1.0e-8))}",
            "!quant.uniform<i8:f32, 1.000000e-08>",
            "sub",
            f"{2 * float(LIMIT) / 2**20}, the larger operand scale divided by 2^19",
        ),
        [t("i8", 0.1), t("i8", 0.3), t("i8", 1.0e-8)],
        [t("i8", 0.1), t("i8", 0.3), t("i8", 5.8e-7)],
        function=np.subtract,
    ),
    "squared_difference with a small result": _binary(
        "aborts",
        "squared_difference",
        _too_small(
            "1.52587890625e-05",
            "!quant.uniform<i8:f32, 1.52587890625E-5>",
            "squared_difference",
            "1.52587890625e-05, the square of the larger operand scale divided by 2^12",
        ),
        [t("i8", 0.25), t("i8", 0.1), t("i8", 2**-16)],
        [t("i8", 0.25), t("i8", 0.1), t("i8", 2**-16 * 1.0001)],
        properties="",
    ),
    **{
        f"{op} of powers of two": _binary(
            "refused",
            op,
            _not_the_larger(op),
            [t("i16", 0.25), t("i16", 0.5), t("i16", 0.25)],
            [t("i16", 0.25), t("i16", 0.5), t("i16", 0.5)],
        )
        for op in ("add", "sub")
    },
    "add of powers of two with the option": _binary(
        "refused",
        "add",
        _not_the_larger("add")
        .replace("0.25 of", "0.5 of")
        .replace("2.50", "5.00")
        # Neither operand has the scale of the result.
        .replace("expected 0.5", "expected 0.25"),
        [t("i16", 0.25), t("i16", 0.25), t("i16", 0.5)],
        [t("i16", 0.25), t("i16", 0.25), t("i16", 0.5)],
    )._replace(
        right=Model(
            "add",
            f"{NONE};pot_scale_int16 = false",
            [t("i16", 0.25), t("i16", 0.25)],
            [t("i16", 0.5)],
        )
    ),
    "hard_swish": _unary(
        "refused",
        "hard_swish",
        f"operand #0: scale {float(np.float32(12.8))} of !quant.uniform<i8:f32, "
        "1.280000e+01> is too large for the multiplier of 'tfl.hard_swish'; expected "
        f"less than 128 times the result scale, {float(np.float32(12.8))} (scale-range)",
        t("i8", 0.1),
        t("i8", 0.1),
        operand=t("i8", 12.8),
        right_operand=t("i8", 12.7998),
    ),
    "less": _binary(
        "aborts",
        "less",
        "operand #1: scale 1.0 of !quant.uniform<i8:f32, 1.000000e+00> is too large "
        "for "
        "the multiplier of 'tfl.less'; expected less than 1 (scale-range)",
        [t("i8", 0.999), t("i8", 1.0), B],
        [t("i8", 0.5), t("i8", 0.999), B],
        properties="",
        function=np.less,
    ),
    "greater of i16": _binary(
        "wrong",
        "greater",
        "operand #1: !quant.uniform<i16:f32, 5.000000e-01> has another scale or zero "
        "point "
        "than operand #0, !quant.uniform<i16:f32, 1.000000e-01>, and "
        "'tfl.greater' does not rescale; expected the same (same-parameters)",
        [t("i16", 0.1), t("i16", 0.5), B],
        [t("i16", 2.0), t("i16", 2.0), B],
        properties="",
        function=np.greater,
    ),
    "softmax of a small scale": _unary(
        "aborts",
        "softmax",
        f"operand #0: scale {float(np.float32(1.4e-8))} of !quant.uniform<i8:f32, "
        "1.400000e-08> x beta 1.0 is too small for the multiplier of 'tfl.softmax'; "
        f"expected more than {2.0**-26} (scale-range)",
        t("i8", S8, -128),
        t("i8", S8, -128),
        properties=BETA,
        operand=t("i8", 1.4e-8),
        right_operand=t("i8", 1.5e-8),
    ),
    "softmax with a small beta": _unary(
        "aborts",
        "softmax",
        f"operand #0: scale {float(np.float32(0.1))} of !quant.uniform<i8:f32, "
        "1.000000e-01> x beta 0.0 is too small for the multiplier of 'tfl.softmax'; "
        f"expected more than {2.0**-26} (scale-range)",
        t("i8", S8, -128),
        t("i8", S8, -128),
        properties="beta = 0.0 : f32",
    )._replace(right=Model("softmax", BETA, [t("i8")], [t("i8", S8, -128)])),
    "log_softmax of a small scale": _unary(
        "aborts",
        "log_softmax",
        f"operand #0: scale {float(np.float32(1.4e-8))} of !quant.uniform<i8:f32, "
        "1.400000e-08> is too small for the multiplier of 'tfl.log_softmax'; expected "
        f"more than {2.0**-26} (scale-range)",
        t("i8", 0.0625, 127),
        t("i8", 0.0625, 127),
        operand=t("i8", 1.4e-8),
        right_operand=t("i8", 1.5e-8),
    ),
}


def _alike(subject: str, text: str, first: str, other: str, storage: str) -> str:
    return (
        f"{subject}: {text} has another storage type than {first}, {other}; expected "
        f"{storage} (operand-storage)"
    )


I8 = "!quant.uniform<i8:f32, 1.000000e-01>"
U8 = "!quant.uniform<u8:f32, 1.000000e-01:128>"
STORAGES = {
    "add of i8 and u8": _binary(
        "refused",
        "add",
        _alike("operand #1", U8, "operand #0", I8, "i8"),
        [t("i8"), t("u8", 0.1, 128), t("i8")],
        [t("i8"), t("i8"), t("i8")],
        function=np.add,
    ),
    "add of i8 and f32": _binary(
        "refused",
        "add",
        _alike("operand #1", "tensor<1x4x4x2xf32>", "operand #0", I8, "i8"),
        [t("i8"), t("f32"), t("i8")],
        [t("i8"), t("i8"), t("i8")],
    ),
    "add of f32 and i8": _binary(
        "refused",
        "add",
        _alike("operand #1", I8, "operand #0", "tensor<1x4x4x2xf32>", "f32"),
        [t("f32"), t("i8"), t("f32")],
        [t("f32"), t("f32"), t("f32")],
    ),
    "sub of i8 that gives u8": _binary(
        "refused",
        "sub",
        _alike("result #0", U8, "operand #0", I8, "i8"),
        [t("i8"), t("i8"), t("u8", 0.1, 128)],
        [t("i8"), t("i8"), t("i8")],
        function=np.subtract,
    ),
    "mul of i8 that gives f32": _binary(
        "wrong",
        "mul",
        _alike("result #0", "tensor<1x4x4x2xf32>", "operand #0", I8, "i8"),
        [t("i8"), t("i8"), t("f32")],
        [t("i8"), t("i8"), t("i8")],
        function=np.multiply,
    ),
    "prelu of i8 that gives u8": _binary(
        "wrong",
        "prelu",
        _alike("result #0", U8, "operand #0", I8, "i8"),
        [t("i8"), f"dense<3> : {t('i8', shape='4x4x2')}", t("u8", 0.1, 128)],
        [t("i8"), f"dense<3> : {t('i8', shape='4x4x2')}", t("i8")],
        properties="",
        function=of_one(lambda x: np.where(x < 0, x * 0.3, x)),
    ),
    "concatenation of i8 and f32": _binary(
        "refused",
        "concatenation",
        _alike("operand #1", "tensor<1x4x4x2xf32>", "operand #0", I8, "i8"),
        [t("i8"), t("f32"), t("i8", shape="1x4x4x4")],
        [t("i8"), t("i8"), t("i8", shape="1x4x4x4")],
        properties=AXIS + NONE,
    ),
    "maximum that gives f32": _binary(
        "wrong",
        "maximum",
        _alike("result #0", "tensor<1x4x4x2xf32>", "operand #0", I8, "i8"),
        [t("i8"), t("i8"), t("f32")],
        [t("i8"), t("i8"), t("i8")],
        properties="",
        function=np.maximum,
    ),
    "reverse_v2 that rescales": Case(
        "wrong",
        [
            "result #0: !quant.uniform<i8:f32, 2.000000e-01> has another scale or zero "
            f"point than operand #0, {I8}, and 'tfl.reverse_v2' does not "
            "rescale; expected the same (same-parameters)"
        ],
        Model("reverse_v2", "", [t("i8"), "dense<0> : tensor<1xi32>"], [t("i8", 0.2)]),
        Model("reverse_v2", "", [t("i8"), "dense<0> : tensor<1xi32>"], [t("i8")]),
        first,
    ),
    "embedding_lookup that rescales": Case(
        "wrong",
        [
            "result #0: !quant.uniform<i8:f32, 2.000000e-01> has another scale or zero "
            "point than operand #1, !quant.uniform<i8<-127:127>:f32, "
            "1.000000e-01>, and 'tfl.embedding_lookup' does not rescale; expected "
            "the "
            "same (same-parameters)"
        ],
        Model(
            "embedding_lookup",
            "",
            [
                "dense<[0, 1]> : tensor<2xi32>",
                f"{WEIGHTS} : {t('i8<-127:127>', shape='2x2')}",
            ],
            [t("i8", 0.2, shape="2x2")],
        ),
        Model(
            "embedding_lookup",
            "",
            [
                "dense<[0, 1]> : tensor<2xi32>",
                f"{WEIGHTS} : {t('i8<-127:127>', shape='2x2')}",
            ],
            [t("i8", 0.1, shape="2x2")],
        ),
        lambda: MATRIX,
    ),
    "quantize from i16 to u8": Case(
        "refused",
        [
            "result #0: !quant.uniform<u8:f32, 1.000000e-01:128> is unsupported by "
            "'tfl.quantize' of i16; expected i8, i16 or i32 storage "
            "(kernel-storage)"
        ],
        Model(
            "quantize", f"qtype = {t('u8', 0.1, 128)}", [t("i16")], [t("u8", 0.1, 128)]
        ),
        Model("quantize", f"qtype = {t('i8')}", [t("i16")], [t("i8")]),
        first,
    ),
    "quantize from i4": Case(
        "refused",
        [
            "operand #0: !quant.uniform<i4:f32, 1.000000e-01> is unsupported by "
            "'tfl.quantize'; expected f32, i8, u8, i16 or i32 storage "
            "(kernel-storage)"
        ],
        Model("quantize", f"qtype = {t('i8')}", [t("i4")], [t("i8")]),
        Model("quantize", f"qtype = {t('i8')}", [t("f32")], [t("i8")]),
        first,
    ),
    "neg with a zero point": _unary(
        "wrong",
        "neg",
        "operand #0: zero point of !quant.uniform<i8:f32, 1.000000e-01:3> is ignored "
        "by "
        "the kernel of 'tfl.neg'; expected 0 (ignored-parameters)",
        t("i8", 0.1, 3),
        t("i8", 0.1),
        operand=t("i8", 0.1, 3),
        right_operand=t("i8", 0.1),
        function=np.negative,
    ),
    "floor_div with a scale": _binary(
        "wrong",
        "floor_div",
        f"result #0: scale of {I8} is ignored by the kernel of 'tfl.floor_div'; expected "
        "1.0 (ignored-parameters)",
        [t("i8"), f"dense<3> : {t('i8')}", t("i8")],
        [t("i8"), f"dense<3> : {t('i8')}", t("i8", 1.0)],
        properties="",
        function=of_one(lambda x: np.floor(np.round(x / 0.3, 9))),
    ),
    "floor_mod with two scales": _binary(
        "wrong",
        "floor_mod",
        "operand #1: scale of !quant.uniform<i8:f32, 2.000000e-01> is ignored by the "
        f"kernel of 'tfl.floor_mod'; expected {float(np.float32(0.1))} "
        "(ignored-parameters)",
        [t("i8"), f"dense<3> : {t('i8', 0.2)}", t("i8")],
        [t("i8"), f"dense<6> : {t('i8')}", t("i8")],
        properties="",
        function=of_one(lambda x: np.round(x / 0.1) % 6 * 0.1),
    ),
    "cast of a scale": Case(
        "wrong",
        [
            f"operand #0: scale and zero point of {I8} are ignored by the kernel of "
            "'tfl.cast'; expected 1 and 0 (ignored-parameters)",
        ],
        Model("cast", "", [t("i8")], [t("f32")]),
        Model("cast", "", [t("i8", 1.0)], [t("f32")]),
        first,
    ),
    "div": _binary(
        "wrong",
        "div",
        "result #0: scale 0.25 of !quant.uniform<i8:f32, 2.500000e-01> gives lhs scale "
        "/ "
        "(rhs scale x result scale) = 0.4, which is out of range for the "
        "multiplier of 'tfl.div'; expected at least 2^5 and less than 2^23 "
        "(scale-range)",
        [t("i8", 0.5), f"dense<7> : {t('i8', 5.0)}", t("i8", 0.25)],
        [t("i8", 0.5), f"dense<7> : {t('i8', 5.0)}", t("i8", 0.003)],
        function=of_one(lambda x: x / 35),
    ),
}


def _no_activation(op: str, names: str, found: str = "TANH") -> str:
    return (
        f"attribute 'fused_activation_function': activation function {found} is "
        f"unsupported by quantized 'tfl.{op}'; expected {names} (fused-activation)"
    )


def _activation(
    outcome: str, names: str, model: Model, function: Function | None = None
) -> Case:
    right = names.split(" or ")[-1] if names == "RELU" else "NONE"
    models = [
        model._replace(properties=model.properties.replace("NONE", name))
        for name in ("TANH", right)
    ]
    return Case(
        outcome, [_no_activation(model.op, names)], models[0], models[1], function
    )


CLIPPING = "NONE, RELU, RELU6 or RELU_N1_TO_1"
ACTIVATIONS = {
    "l2_normalization": _activation(
        "refused",
        "NONE",
        Model("l2_normalization", NONE, [t("i8")], [t("i8", 1 / 128)]),
    ),
    "concatenation": _activation(
        "refused",
        "NONE",
        Model("concatenation", AXIS + NONE, [t("i8")] * 2, [t("i8", shape="1x4x4x4")]),
    ),
    "fully_connected": _activation(
        "refused",
        CLIPPING,
        Model(
            "fully_connected",
            DENSE,
            [
                t("i8", shape="3x2"),
                f"{WEIGHTS} : {t('i8<-127:127>', shape='2x2')}",
                "none",
            ],
            [t("i8", 0.02, shape="3x2")],
        ),
    ),
    "svdf": _activation(
        "fails",
        "RELU",
        Model(
            "svdf",
            'fused_activation_function = "NONE", rank = 1 : i32',
            [
                t("i8", shape="1x8"),
                f"dense<3> : {t('i8<-127:127>', shape='4x8')}",
                f"dense<2> : {t('i16', 0.01, shape='4x3')}",
                "none",
                f"dense<0> : {t('i16', 0.01, shape='1x12')}",
            ],
            [t("i8", shape="1x4")],
        ),
    ),
}


def _bits_of_u8(match: re.Match[str]) -> str:
    """A weight with zero point 128, as the i8 with the same bits."""
    return str(int(match[0]) % 256 - 128)


def _products(
    storage: str,
    *,
    weight: str = "i8<-127:127>",
    bias: str = "dense<[5, -7]> : tensor<2x!quant.uniform<i32:f32, 0.01>>",
    result: str | None = None,
    dimension: int | None = None,
) -> dict[str, Model]:
    """Products of two input channels with a matrix, by the name of the op."""
    result = result or storage
    zero = 128 if storage == "u8" else 0

    def weights(text: str, shape: str) -> str:
        if weight == "u8":
            text = re.sub(r"-?\d+", _bits_of_u8, text)
        if dimension is not None:
            last = min(dimension, shape.count("x"))
            scales = [0.1] * int(shape.split("x")[last])
            return f"{text} : {axis(weight, scales, last, shape)}"
        return f"{text} : {t(weight, 0.1, 128 if weight == 'u8' else 0, shape)}"

    x = t(storage, 0.1, zero)
    y = t(result, 0.02, 128 if result == "u8" else 0)
    return {
        "conv_2d": Model("conv_2d", CONV, [x, weights(FILTERS, "2x1x1x2"), bias], [y]),
        "transpose_conv": Model(
            "transpose_conv",
            TRANSPOSED,
            [
                "dense<[1, 4, 4, 2]> : tensor<4xi32>",
                weights(FILTERS, "2x1x1x2"),
                x,
                bias,
            ],
            [y],
        ),
        "depthwise_conv_2d": Model(
            "depthwise_conv_2d",
            f"depth_multiplier = 1 : i32, {CONV}",
            [x, weights(CHANNELS, "1x1x1x2"), bias],
            [y],
        ),
        "fully_connected": Model(
            "fully_connected",
            DENSE.replace("keep_num_dims = false", "keep_num_dims = true"),
            [x, weights(WEIGHTS, "2x2"), bias],
            [y],
        ),
        "batch_matmul": Model(
            "batch_matmul",
            "adj_x = false, adj_y = true",
            [x, weights(WEIGHTS, "2x2")],
            [y],
        ),
    }


def _svdf(
    feature_weights: str, time_storage: str = "i16", x: str = t("i8", shape="1x1")
) -> Model:
    operands = [
        x,
        feature_weights,
        f"dense<20> : {t(time_storage, 0.01, shape='2x3')}",
        "none",
        f"dense<0> : {t('i16', 0.001, shape='1x6')}",
    ]
    result = x.replace("0.1:0", "0.002:0").replace("<1x1", "<1x2")
    return Model("svdf", SVDF, operands, [result])


PRODUCTS = {
    "conv_2d without bias": Case(
        "refused",
        [
            "operand #2: quantized 'tfl.conv_2d' has no bias; expected one, e.g. "
            "zeros (bias-operand)"
        ],
        _products("i8", bias="none")["conv_2d"],
        _products("i8", bias="dense<0> : tensor<2xi32>")["conv_2d"],
        dense,
    ),
    "bias of 64 bits": Case(
        "refused",
        [
            f"operand #2: tensor<2xi64> cannot be added to products of {I8} in "
            "'tfl.conv_2d'; expected i32 storage (bias-storage)"
        ],
        _products("i8", bias="dense<0> : tensor<2xi64>")["conv_2d"],
        _products("i8", bias="dense<0> : tensor<2xi32>")["conv_2d"],
        dense,
    ),
    "bias of 32 bits": Case(
        "refused",
        [
            "operand #2: tensor<2xi32> cannot be added to products of "
            "!quant.uniform<i16:f32, 1.000000e-01> in 'tfl.depthwise_conv_2d'; expected "
            "i64 storage (bias-storage)"
        ],
        _products("i16", bias="dense<0> : tensor<2xi32>")["depthwise_conv_2d"],
        _products("i16", bias="dense<0> : tensor<2xi64>")["depthwise_conv_2d"],
        of_one(lambda x: x * MATRIX[0]),
    ),
    "quantized bias of products of f32": Case(
        "refused",
        [
            "operand #2: !quant.uniform<i32:f32, 1.000000e-02> cannot be added to "
            "products of tensor<1x4x4x2xf32> in 'tfl.fully_connected'; expected "
            "f32 storage (bias-storage)"
        ],
        _products("f32")["fully_connected"],
        _products("f32", bias="dense<[0.05, -0.07]> : tensor<2xf32>")[
            "fully_connected"
        ],
    ),
    "bias without a scale": Case(
        "refused",
        [
            "operand #2: tensor<2xi32> has no scale for 'tfl.fully_connected'; expected "
            "input scale x weight scale = "
            f"{float(np.float32(0.1)) ** 2} (bias-scale)"
        ],
        _products("i8", bias="dense<0> : tensor<2xi32>")["fully_connected"],
        _products("i8")["fully_connected"],
        of_one(lambda x: dense(x, np.array([0.05, -0.07]))),
    ),
    "weights of u8": Case(
        "wrong",
        [
            f"operand #1: {U8} cannot be multiplied by i8 in 'tfl.fully_connected'; "
            "expected i8 or i4 storage (weight-storage)"
        ],
        Model(
            "fully_connected",
            DENSE,
            [t("i8", shape="3x2"), f"{WEIGHTS} : {t('u8', 0.1, 128, '2x2')}", "none"],
            [t("i8", 0.02, shape="3x2")],
        ),
        Model(
            "fully_connected",
            DENSE,
            [
                t("i8", shape="3x2"),
                f"{WEIGHTS} : {t('i8<-127:127>', shape='2x2')}",
                "none",
            ],
            [t("i8", 0.02, shape="3x2")],
        ),
    ),
    "result of u8": Case(
        "wrong",
        [
            _alike(
                "result #0",
                "!quant.uniform<u8:f32, 2.000000e-02:128>",
                "operand #0",
                I8,
                "i8",
            )
        ],
        _products("i8", result="u8")["fully_connected"],
        _products("i8")["fully_connected"],
        of_one(lambda x: dense(x, np.array([0.05, -0.07]))),
    ),
    "weights of another dimension": Case(
        "refused",
        [
            "operand #1: quantized dimension 1 of !quant.uniform<i8<-127:127>:f32:1, "
            "{1.000000e-01,1.000000e-01}> is not the output dimension of "
            "'tfl.fully_connected'; expected 0 (weight-dimension)"
        ],
        _products("i8", dimension=1, bias="none")["fully_connected"],
        _products("i8", dimension=0, bias="none")["fully_connected"],
        dense,
    ),
    "products of u8 per axis": Case(
        "refused",
        [
            "operand #1: weights !quant.uniform<u8:f32:0, {1.000000e-01,1.000000e-01}> "
            "for "
            "u8 activations have several scales in 'tfl.transpose_conv'; expected "
            "one (weight-granularity)"
        ],
        _products("u8", weight="u8", dimension=0)["transpose_conv"],
        _products("u8", weight="u8")["transpose_conv"],
    ),
    "batch_matmul of u8": Case(
        "refused",
        [
            f"operand #0: storage type u8 of {U8} is unsupported by "
            "'tfl.batch_matmul'; expected "
            "i8 or i16 (kernel-storage)"
        ],
        _products("u8", weight="u8")["batch_matmul"],
        _products("i16", weight="i8")["batch_matmul"],
        dense,
    ),
    "weights per axis of svdf": Case(
        "wrong",
        [
            "operand #1: weights !quant.uniform<i8<-127:127>:f32:0, {1.000000e-01,"
            "3.000000e-01}> have several scales in 'tfl.svdf'; expected one "
            "(weight-granularity)"
        ],
        _svdf(f"dense<3> : {axis('i8<-127:127>', [0.1, 0.3], 0, '2x1')}"),
        _svdf(f"dense<[[3], [9]]> : {t('i8<-127:127>', shape='2x1')}"),
        of_one(lambda x: x * np.array([0.3, 0.9]) * 0.2),
    ),
    "time weights of svdf": Case(
        "wrong",
        [
            "operand #2: !quant.uniform<i8:f32, 1.000000e-02> is unsupported by "
            "'tfl.svdf' with i8 input; expected i16 storage (weight-storage)"
        ],
        _svdf(f"dense<3> : {t('i8<-127:127>', shape='2x1')}", "i8"),
        _svdf(f"dense<3> : {t('i8<-127:127>', shape='2x1')}"),
        of_one(lambda x: x * np.array([0.3, 0.3]) * 0.2),
    ),
}

CASES = RESULTS | SCALES | STORAGES | ACTIVATIONS | PRODUCTS


def reported(module: ModuleOp) -> list[str]:
    """Messages without the location and the name of the op."""
    return [
        str(violation).partition("' op ")[2]
        for violation in quant_constraint_violations(module, "tflite")
    ]


@pytest.mark.parametrize("name", CASES)
def test_messages(name: str):
    case = CASES[name]
    assert reported(case.wrong.module) == [*case.messages]
    assert reported(case.right.module) == []


def _runs(models: Sequence[ModuleOp]) -> Sequence[Run]:
    return runs([(write_tflite(model), inputs_of(model)) for model in models])


def steps(model: ModuleOp, run: Run, function: Callable[..., Array]) -> float:
    main = model.body.block.first_op
    assert isinstance(main, FuncOp)
    types = main.function_type
    numbers = [
        expressed(values, type_)
        for values, type_ in zip(inputs_of(model), types.inputs, strict=True)
    ]
    return steps_off(run.results[0], function(*numbers), types.outputs.data[0])


_PARTS = 4
"""Number of parts that the cases are divided into: each is a test."""


@pytest.mark.sampled(_PARTS)
@pytest.mark.parametrize("part", range(_PARTS))
def test_runtime(part: int):
    cases = [*CASES.values()][part::_PARTS]
    found = _runs(
        [model.module for case in cases for model in (case.wrong, case.right)]
    )
    for case, wrong, right in zip(cases, found[::2], found[1::2], strict=True):
        _check_runs(case, wrong, right)


def _check_runs(case: Case, wrong: Run, right: Run) -> None:
    assert right.outcome == "runs", right.message
    assert wrong.outcome == ("runs" if case.outcome == "wrong" else case.outcome)
    if case.function is not None:
        assert steps(case.right.module, right, case.function) <= 1.01
        if case.outcome == "wrong":
            is_boolean = "xi1>" in case.wrong.results[0]
            least = 0.5 if is_boolean else 1.5
            assert steps(case.wrong.module, wrong, case.function) > least


# All kernels by storage types

_BINARY = (["{t}", "{t}"], ["{t}"])
_UNARY = (["{t}"], ["{t}"])
_COMPARED = (["{t}", "{t}"], ["{b}"])
_REDUCED = (["{t}", "dense<[1, 2]> : tensor<2xi32>"], ["{1x2}"])
_INDEXED = (["{t}", "dense<3> : tensor<i32>"], ["tensor<1x4x4xi32>"])
_PADDED = (["{t}", "dense<1> : tensor<4x2xi32>"], ["{3x6x6x4}"])
_SAME_SIZES = "dense<[1, 4, 4, 2]> : tensor<4xi32>"
_ZEROS = "dense<0> : tensor<4xi32>"
_BLOCK = "dense<2> : tensor<2xi32>"
_CROPS = "dense<0> : tensor<2x2xi32>"
_RESIZED = (["{t}", "dense<8> : tensor<2xi32>"], ["{1x8x8x2}"])
_CENTERS = "align_corners = false, half_pixel_centers = true"
_MASKS = ", ".join(
    f"{name}_mask = 0 : i32"
    for name in ("begin", "ellipsis", "end", "new_axis", "shrink_axis")
)
_HALVES = ["{1x4x4x1}", "{1x4x4x1}"]
_KERNELS: dict[str, tuple[str, Sequence[str], Sequence[str]]] = {
    **{op: (NONE, *_BINARY) for op in ("add", "sub", "mul")},
    **{
        op: ("", *_BINARY) for op in ("maximum", "minimum", "squared_difference", "pow")
    },
    **{
        op: ("", *_COMPARED)
        for op in (
            "equal",
            "not_equal",
            "greater",
            "greater_equal",
            "less",
            "less_equal",
        )
    },
    **{
        op: ("", *_UNARY)
        for op in (
            *(
                "abs",
                "cos",
                "exp",
                "floor",
                "hard_swish",
                "log",
                "neg",
                "relu",
                "relu6",
            ),
            *("relu_0_to_1", "relu_n1_to_1", "sin", "square"),
        )
    },
    "gelu": ("approximate = false", *_UNARY),
    "leaky_relu": ("alpha = 0.1 : f32", *_UNARY),
    "prelu": ("", ["{t}", "{4x4x2}"], ["{t}"]),
    **{op: (POOL, *_UNARY) for op in ("average_pool_2d", "max_pool_2d")},
    **{
        op: ("keep_dims = false", *_REDUCED)
        for op in ("mean", "sum", "reduce_prod", "reduce_max", "reduce_min")
    },
    **{op: ("", *_INDEXED) for op in ("arg_max", "arg_min")},
    "topk_v2": (
        "",
        ["{t}", "dense<1> : tensor<i32>"],
        ["{1x4x4x1}", "tensor<1x4x4x1xi32>"],
    ),
    **{op: ("", ["{b}", "{t}", "{t}"], ["{t}"]) for op in ("select", "select_v2")},
    "concatenation": (AXIS + NONE, ["{t}", "{t}"], ["{1x4x4x4}"]),
    "pack": ("axis = 0 : i32, values_count = 2 : i32", ["{t}", "{t}"], ["{2x1x4x4x2}"]),
    "unpack": ("axis = 3 : i32, num = 2 : i32", ["{t}"], ["{1x4x4}", "{1x4x4}"]),
    "split": ("num_splits = 2 : i32", ["dense<3> : tensor<i32>", "{t}"], _HALVES),
    "split_v": (
        "num_splits = 2 : i32",
        ["{t}", "dense<1> : tensor<2xi32>", "dense<3> : tensor<i32>"],
        _HALVES,
    ),
    "pad": ("", *_PADDED),
    "mirror_pad": ("mode = #tfl<mirror_pad_attr SYMMETRIC>", *_PADDED),
    "padv2": ("", [*_PADDED[0], "{}"], _PADDED[1]),
    "reshape": ("", ["{t}", "dense<32> : tensor<1xi32>"], ["{32}"]),
    "squeeze": ("squeeze_dims = [0]", ["{t}"], ["{4x4x2}"]),
    "expand_dims": ("", ["{t}", "dense<0> : tensor<i32>"], ["{1x1x4x4x2}"]),
    "transpose": ("", ["{t}", "dense<[3, 1, 2, 0]> : tensor<4xi32>"], ["{2x4x4x1}"]),
    "slice": ("", ["{t}", _ZEROS, _SAME_SIZES], ["{t}"]),
    "strided_slice": (
        f"{_MASKS}, offset = false",
        ["{t}", _ZEROS, _SAME_SIZES, "dense<1> : tensor<4xi32>"],
        ["{t}"],
    ),
    "gather": (
        "axis = 1 : i32, batch_dims = 0 : i32",
        ["{t}", "dense<[0, 1]> : tensor<2xi32>"],
        ["{1x2x4x2}"],
    ),
    "gather_nd": ("", ["{t}", "dense<0> : tensor<2x1xi32>"], ["{2x4x4x2}"]),
    "tile": ("", ["{t}", "dense<[1, 1, 2, 1]> : tensor<4xi32>"], ["{1x4x8x2}"]),
    "broadcast_to": ("", ["{t}", "dense<[2, 4, 4, 2]> : tensor<4xi32>"], ["{2x4x4x2}"]),
    "reverse_v2": ("", ["{t}", "dense<1> : tensor<1xi32>"], ["{t}"]),
    "space_to_depth": ("block_size = 2 : i32", ["{t}"], ["{1x2x2x8}"]),
    "depth_to_space": ("block_size = 2 : i32", ["{1x2x2x8}"], ["{t}"]),
    "space_to_batch_nd": ("", ["{t}", _BLOCK, _CROPS], ["{4x2x2x2}"]),
    "batch_to_space_nd": ("", ["{4x2x2x2}", _BLOCK, _CROPS], ["{t}"]),
    **{
        op: (_CENTERS, *_RESIZED)
        for op in ("resize_bilinear", "resize_nearest_neighbor")
    },
    "dynamic_update_slice": ("", ["{t}", "{1x2x2x2}", _ZEROS], ["{t}"]),
    "fill": ("", ["dense<2> : tensor<2xi32>", "{}"], ["{2x2}"]),
    "dequantize": ("", ["{t}"], ["tensor<1x4x4x2xf32>"]),
    "quantize": ("qtype = {t}", ["tensor<1x4x4x2xf32>"], ["{t}"]),
    "shape": ("", ["{t}"], ["tensor<4xi32>"]),
}
"""Properties, operands and results; `{shape}` for a type, `{t}` for the usual shape."""

_WRONG_WITHOUT_ERROR = {
    # Stored values are taken for plain integers.
    *((op, "i32") for op in ("abs", "add", "mean", "mul", "neg", "sub", "sum")),
    ("squared_difference", "i32"),
}

_STORAGE_NAMES = ("i4", "i8", "u8", "i16", "i32")


def _kernel(op: str, storage: str) -> Model:
    def typed(text: str) -> str:
        if text.startswith("{") and text.endswith("}"):
            shape = text[1:-1]
            if shape == "b":
                return B
            shape = SHAPE if shape == "t" else shape
            return t(storage, shape=shape).replace("tensor<x", "tensor<")
        return text

    properties, operands, results = _KERNELS[op]
    return Model(
        op,
        properties.replace("{t}", typed("{t}")),
        [typed(operand) for operand in operands],
        [typed(result) for result in results],
    )


@pytest.mark.sampled(0)
def test_storage_types_of_kernels():
    """A storage type is reported if the runtime refuses it."""
    keys = [(op, storage) for op in _KERNELS for storage in _STORAGE_NAMES]
    modules = [_kernel(*key).module for key in keys]
    for key, module, run in zip(keys, modules, _runs(modules), strict=True):
        rules = {v.rule for v in quant_constraint_violations(module, "tflite")}
        assert rules <= {"kernel-storage"}, key
        is_right = run.outcome == "runs" and key not in _WRONG_WITHOUT_ERROR
        assert is_right != ("kernel-storage" in rules), (key, run.message)


def _product_text(op: str, x: str, weight: str, bias: str, *, per_axis: bool) -> Model:
    coefficients = {"conv_2d": 0, "transpose_conv": 0, "fully_connected": 0}
    dimension = coefficients.get(op, 3) if per_axis else None
    biases = {
        "none": "none",
        "i32": "dense<[5, -7]> : tensor<2x!quant.uniform<i32:f32, 0.01>>",
        "i64": "dense<[5, -7]> : tensor<2xi64>",
    }
    if op == "batch_matmul":
        dimension = None
    models = _products(x, weight=weight, bias=biases[bias], dimension=dimension)
    return models[op]


def _product_of(op: str, *, has_bias: bool) -> Callable[[Array], Array]:
    added = np.array([0.05, -0.07]) * has_bias
    if op == "depthwise_conv_2d":
        return lambda x: x * MATRIX[0] + added
    return lambda x: dense(x, added)


@pytest.mark.sampled(0)
def test_storage_types_of_products():
    """What is reported does not run or is wrong, and nothing else is."""
    keys = [
        (op, x, weight, bias, per_axis)
        for op in ("conv_2d", "depthwise_conv_2d", "transpose_conv", "fully_connected")
        for x in ("i8", "u8", "i16")
        for weight in ("i4", "i8<-127:127>", "u8", "i16")
        for bias in ("none", "i32", "i64")
        for per_axis in (False, True)
    ]
    keys += [
        ("batch_matmul", x, weight, "none", False)
        for x in ("i8", "u8", "i16")
        for weight in ("i4", "i8", "u8", "i16")
    ]
    models = [
        _product_text(op, x, weight, bias, per_axis=per_axis)
        for op, x, weight, bias, per_axis in keys
    ]
    modules = [model.module for model in models]
    for key, module, run in zip(keys, modules, _runs(modules), strict=True):
        op, _, _, bias, _ = key
        rules = {v.rule for v in quant_constraint_violations(module, "tflite")}
        is_right = run.outcome == "runs" and (
            steps(module, run, _product_of(op, has_bias=bias != "none")) <= 1.01
        )
        assert is_right != bool(rules), (key, rules, run.outcome, run.message)


# Where rules begin and end


def _quotient(lhs: float, rhs: float, result: float) -> Model:
    return Model("div", NONE, [t("i8", lhs), t("i8", rhs)], [t("i8", result)])


def _no_quotient(scale: str, text: str, ratio: float) -> str:
    return (
        f"result #0: scale {scale} of !quant.uniform<i8:f32, {text}> gives lhs scale / "
        f"(rhs scale x result scale) = {ratio}, which is out of range for the "
        "multiplier of 'tfl.div'; expected at least 2^5 and less than 2^23 "
        "(scale-range)"
    )


_SEVERAL = axis("i8", [0.1, 0.1], 3, SHAPE)
_HAS_SEVERAL = (
    "{}: activation of type !quant.uniform<i8:f32:3, {{1.000000e-01,1.000000e-01}}> "
    "has 2 "
    "scales; expected one for all values (activation-granularity)"
)
_TINY = 2.0**-26
_TOO_TINY = (
    f"operand #0: scale {_TINY} of !quant.uniform<u8:f32, 1.4901161193847656E-8> x "
    "beta "
    "1.0 is too small for the multiplier of 'tfl.softmax'; expected more than "
    f"{2.0**-26} (scale-range)"
)
_FEATURES = f"dense<3> : {t('i8<-127:127>', shape='2x1')}"
_HYBRID = [
    t("f32", shape="3x2"),
    f"{WEIGHTS} : {t('i8<-127:127>', shape='2x2')}",
    "none",
]
BOUNDS: dict[str, tuple[Model, Sequence[str]]] = {
    "least quotient": (_quotient(1.0, 1.0, 1 / 32), []),
    "quotient": (_quotient(1.0, 1.0, 1 / 1024), []),
    "largest quotient": (_quotient(2.0**12, 2.0**-5, 2.0**-5), []),
    "small quotient": (
        _quotient(1.0, 1.0, 1 / 16),
        [_no_quotient("0.0625", "6.250000e-02", 16.0)],
    ),
    "large quotient": (
        _quotient(2.0**13, 2.0**-5, 2.0**-5),
        [_no_quotient("0.03125", "3.125000e-02", 2.0**23)],
    ),
    "larger quotient": (
        _quotient(2.0**14, 2.0**-5, 2.0**-5),
        [_no_quotient("0.03125", "3.125000e-02", 2.0**24)],
    ),
    "sum of several scales": (
        Model("add", NONE, [_SEVERAL, t("i8")], [t("i8")]),
        [_HAS_SEVERAL.format("argument #0")],
    ),
    "small sum of several storage types": (
        Model("add", NONE, [t("i8"), t("u8", 0.1, 128)], [t("i8", 1e-8)]),
        [_alike("operand #1", U8, "operand #0", I8, "i8")],
    ),
    "quotient of several scales": (
        Model("div", NONE, [_SEVERAL, t("i8")], [t("i8")]),
        [_HAS_SEVERAL.format("argument #0")],
    ),
    "softmax of several scales": (
        Model("softmax", BETA, [_SEVERAL], [t("i8", S8, -128)]),
        [_HAS_SEVERAL.format("argument #0")],
    ),
    "softmax with several scales": (
        Model("softmax", BETA, [t("i8")], [_SEVERAL]),
        [_HAS_SEVERAL.format("result #0")],
    ),
    "softmax of u8 of a small scale": (
        Model("softmax", BETA, [t("u8", _TINY)], [t("u8", S8)]),
        [_TOO_TINY],
    ),
    "softmax of i16 of a small scale": (
        Model("softmax", BETA, [t("i16", _TINY)], [t("i16", S16)]),
        [],
    ),
    "floor_mod of several scales": (
        Model("floor_mod", "", [_SEVERAL, t("i8", 0.2)], [t("i8")]),
        [_HAS_SEVERAL.format("argument #0")],
    ),
    "floor_mod with several scales": (
        Model("floor_mod", "", [t("i8"), t("i8")], [_SEVERAL]),
        [
            "result #0: scale of !quant.uniform<i8:f32:3, {1.000000e-01,1.000000e-01}> "
            "is "
            "ignored by the kernel of 'tfl.floor_mod'; expected "
            f"{float(np.float32(0.1))} (ignored-parameters)",
            _HAS_SEVERAL.format("result #0"),
        ],
    ),
    "floor_mod with a zero point and a scale": (
        Model("floor_mod", "", [t("i8", 0.1, 3), t("i8")], [t("i8", 0.2, 4)]),
        [
            "operand #0: zero point of !quant.uniform<i8:f32, 1.000000e-01:3> is "
            "ignored "
            "by the kernel of 'tfl.floor_mod'; expected 0 (ignored-parameters)",
            "result #0: scale of !quant.uniform<i8:f32, 2.000000e-01:4> is ignored by "
            "the "
            f"kernel of 'tfl.floor_mod'; expected {float(np.float32(0.1))} "
            "(ignored-parameters)",
        ],
    ),
    "svdf of i16": (
        _svdf(_FEATURES, "i8", t("i16", shape="1x1")),
        [
            "operand #0: storage type i16 of !quant.uniform<i16:f32, 1.000000e-01> is "
            "unsupported by 'tfl.svdf'; expected i8 (kernel-storage)",
            "operand #2: !quant.uniform<i8:f32, 1.000000e-02> is unsupported by "
            "'tfl.svdf' with i16 input; expected i16 storage (weight-storage)",
        ],
    ),
    "svdf of floats": (_svdf(_FEATURES, "i8", t("f32", shape="1x1")), []),
    "cos of i8": (
        Model("cos", "", [t("i8")], [t("i8")]),
        [
            f"operand #0: storage type i8 of {I8} is unsupported by 'tfl.cos'; expected "
            "floats (kernel-storage)"
        ],
    ),
    "elu of u8": (
        Model("elu", "", [t("u8", 0.1, 128)], [t("u8", 0.1, 128)]),
        [
            f"operand #0: storage type u8 of {U8} is unsupported by 'tfl.elu'; expected "
            "i8 (kernel-storage)"
        ],
    ),
    # The kernel quantizes the floats itself.
    "activation of floats": (
        Model(
            "fully_connected",
            DENSE.replace("NONE", "TANH"),
            _HYBRID,
            [t("f32", shape="3x2")],
        ),
        [],
    ),
    "rows of floats": (
        Model(
            "embedding_lookup",
            "",
            ["dense<[0, 1]> : tensor<2xi32>", f"{WEIGHTS} : {t('i8', shape='2x2')}"],
            [t("f32", shape="2x2")],
        ),
        [],
    ),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_of_rules(name: str):
    model, messages = BOUNDS[name]
    assert reported(model.module) == [*messages]


# What runs is not reported

_EXPLAINED = {
    # These kernels ignore scales and zero points.
    ("FLOOR_DIV", "ignored-parameters"): 14,
    ("FLOOR_MOD", "ignored-parameters"): 14,
    ("NEG", "ignored-parameters"): 14,
    # The importer takes the narrow range for 8-bit weights; a zero point is -128.
    ("EMBEDDING_LOOKUP", "C7"): 2,
    ("PRELU", "C7"): 1,
    # The kernel has it, but the specification demands 0 of weights.
    ("FULLY_CONNECTED", "weight-zero-point"): 1,
}


@pytest.mark.sampled(0)
def test_cases_of_the_reference_kernels():
    found: dict[tuple[str, str], int] = {}
    for case in cases():
        module = read_tflite(write_model(model_of(case)))
        for rule in {v.rule for v in quant_constraint_violations(module, "tflite")}:
            found[case.op, rule] = found.get((case.op, rule), 0) + 1
    assert found == _EXPLAINED


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_streaming_models(path: Path):
    assert reported(read_tflite(path)) == []


def test_ops_that_are_not_quantized():
    text = """
func.func @main(%x: tensor<1x4x4x2xf32>, %w: tensor<2x1x1x2xf32>) -> tensor<1x4x4x2xf32> {
  %b = "tfl.no_value"() <{value}> : () -> none
  %y = "tfl.conv_2d"(%x, %w, %b) <{CONV}>
    : (tensor<1x4x4x2xf32>, tensor<2x1x1x2xf32>, none) -> tensor<1x4x4x2xf32>
  %z = tfl.add %x, %y {fused_activation_function = "TANH"} : tensor<1x4x4x2xf32>
  return %z : tensor<1x4x4x2xf32>
}"""
    assert reported(parse_module(text.replace("CONV", CONV))) == []


def test_concatenation_of_u8_rescales():
    operands = [t("u8", 0.1, 128), t("u8", 0.2, 3)]
    results = [t("u8", 0.3, 100, "1x4x4x4")]
    model = Model("concatenation", AXIS + NONE, operands, results).module
    assert reported(model) == []
    (run,) = _runs([model])

    def concatenated(*numbers: Array) -> Array:
        return np.concatenate(numbers, -1)

    assert steps(model, run, concatenated) <= 1.01


def test_scales_per_axis_that_are_dequantized():
    types = {
        storage: axis(storage, [0.1] * 2, 3, SHAPE)
        for storage in ("i4", "i8", "u8", "i16")
    }
    models = [
        Model("dequantize", "", [type_], [t("f32")]).module for type_ in types.values()
    ]
    for storage, model, run in zip(types, models, _runs(models), strict=True):
        if storage == "i16":
            assert run.outcome == "fails"
            (message,) = reported(model)
            assert message == (
                "operand #0: !quant.uniform<i16:f32:3, {1.000000e-01,1.000000e-01}> "
                "has "
                "several scales, which 'tfl.dequantize' of i16 does not support; expected "
                "one (activation-granularity)"
            )
        else:
            assert run.outcome == "runs"
            assert reported(model) == []


def test_location_of_a_violation():
    model = Model("neg", "", [t("i8", 0.1, 3)], [t("i8", 0.1, 3)]).module
    (violation,) = quant_constraint_violations(model, "tflite")
    assert str(violation).startswith("model.mlir:3:3: error: 'tfl.neg' op operand #0: ")


@pytest.mark.parametrize(
    ("storage", "scales", "product"),
    [
        # input scale x weight scale / result scale is at most the tolerance of 0.02
        ("i8", (0.125, 0.0078125, 1), None),
        ("i8", (1, 1, 50), None),
        ("u8", (1, 1, 50), None),
        ("i8", (1, 1, 49), 1.0),
        ("i8", (1, 0.0078125, 0.125), 0.0078125),
        ("u8", (0.0078125, 1, 0.125), 0.0078125),
        ("i16", (1, 1, 1), 1.0),
    ],
)
@pytest.mark.parametrize("op", ["conv_2d", "fully_connected"])
def test_bias_without_scale(
    op: str, storage: str, scales: Sequence[float], product: float | None
):
    """The runtime takes 0 for the scale: it compares that if activations are of u8, too."""
    of_input, of_weight, of_result = scales
    zero = 128 if storage == "u8" else 0
    module = Model(
        op,
        DENSE if op == "fully_connected" else CONV,
        [
            t(storage, of_input, zero, "3x2" if op == "fully_connected" else SHAPE),
            t(
                "u8" if storage == "u8" else "i8<-127:127>",
                of_weight,
                zero,
                "2x2" if op == "fully_connected" else "2x1x1x2",
            ),
            "dense<0> : tensor<2xi32>",
        ],
        [t(storage, of_result, zero, "3x2" if op == "fully_connected" else SHAPE)],
    ).module
    found = [
        str(violation)
        for violation in quant_constraint_violations(module, "tflite")
        if "bias-scale" in str(violation)
    ]
    is_compared = op == "fully_connected" or storage == "u8"
    expected = (
        f"has no scale for 'tfl.{op}'; expected input scale x weight "
        f"scale = {product} (bias-scale)"
    )
    if product is None or not is_compared:
        assert not found
    else:
        assert len(found) == 1
        assert found[0].endswith(expected)


@pytest.mark.parametrize(
    ("op", "operands", "result", "is_found"),
    [
        ("reverse_v2", [("i8", 0.1)], ("i8", 0.2), True),
        ("reverse_v2", [("u8", 0.1)], ("u8", 0.2), True),
        ("reverse_v2", [("i8", 0.1)], ("i8", 0.1), False),
        # That the storage is another one is a mistake of its own.
        ("reverse_v2", [("i8", 0.1)], ("u8", 0.2), False),
        # The runtime rescales these.
        ("concatenation", [("u8", 0.1), ("u8", 0.2)], ("u8", 0.3), False),
    ],
)
def test_results_with_other_parameters(
    op: str,
    operands: Sequence[tuple[str, float]],
    result: tuple[str, float],
    *,
    is_found: bool,
):
    def text(storage: str, scale: float) -> str:
        return t(storage, scale, 128 if storage == "u8" else 0)

    properties = f"axis = 0 : i32, {NONE}" if op == "concatenation" else ""
    types = [text(*operand) for operand in operands]
    if op == "reverse_v2":
        types.append("dense<0> : tensor<1xi32>")
    shape = "2x4x4x2" if op == "concatenation" else SHAPE
    module = Model(op, properties, types, [text(*result).replace(SHAPE, shape)]).module
    violations = map(str, quant_constraint_violations(module, "tflite"))
    lines = [line for line in violations if "(same-parameters)" in line]
    assert len(lines) == is_found


def test_factors_without_channels_have_one_scale():
    per_axis = axis("i8", [0.1, 0.2], 1, "2x2")
    operands = [t("i8", 0.1, 0, "2x2"), per_axis]
    properties = "adj_x = false, adj_y = false"
    result = t("i8", 0.1, 0, "2x2")
    module = Model("batch_matmul", properties, operands, [result]).module
    (violation,) = quant_constraint_violations(module, "tflite")
    assert str(violation).endswith(
        "expected one for all values (activation-granularity)"
    )
