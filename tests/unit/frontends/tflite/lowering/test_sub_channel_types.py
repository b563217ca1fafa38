"""Sub-channel types of ops: what they compute, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import FunctionType
from xdsl.utils.hints import isa

from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

Array = NDArray[Any]

STORED = np.array([[-8, 7, 3, -1], [5, 0, -2, 6], [1, -3, 4, 2]])
SCALES = np.array([[0.5, 0.25], [1, 2], [0.125, 4]])
WEIGHTS = (STORED * np.repeat(SCALES, 2, 1)).astype(np.float32)
X = np.array([[1, -2, 0.5, 3], [0.25, 1, -1, 2]], np.float32)


def nested(array: Array) -> str:
    if not array.ndim:
        return str(array)
    return f"{{{', '.join(map(nested, array))}}}"


def block_type(scales: Array, blocks: str) -> str:
    return f"!quant.uniform<i4:f32:{{{blocks}}}, {nested(scales)}>"


Q = block_type(SCALES, "0:1, 1:2")
ROWS = "tensor<3x4x!q>"


def constant(name: str, array: Any, type_: str) -> str:
    value = f"dense<{np.asarray(array).tolist()}> : {type_}"
    return f'%{name} = "tfl.pseudo_const"() <{{value = {value}}}> : () -> {type_}\n'


def function(body: str, result: str) -> str:
    weights = (
        f'%w = "tfl.pseudo_qconst"() <{{qtype = {ROWS}, value = '
        f"dense<{STORED.tolist()}> : tensor<3x4xi4>}}> : () -> {ROWS}\n"
    )
    return (
        f"!q = {Q}\nfunc.func @main(%x: tensor<2x4xf32>) -> {result} {{\n"
        f"{weights}{body}\nreturn %y : {result}\n}}"
    )


def moved(op: str, operands: Sequence[tuple[Any, str]], result: str) -> str:
    """An op on the weights and on constants, and its dequantized result."""
    names = [f"c{i}" for i in range(len(operands))]
    lines = [constant(n, a, t) for n, (a, t) in zip(names, operands, strict=True)]
    types = ", ".join([ROWS, *(type_ for _, type_ in operands)])
    values = ", ".join(f"%{name}" for name in ["w", *names])
    lines.append(f'%m = "tfl.{op}"({values}) : ({types}) -> {result}')
    floats = f"{result[: result.index('!')]}f32>"
    lines.append(f'%y = "tfl.dequantize"(%m) : ({result}) -> {floats}')
    return function("\n".join(lines), floats)


DENSE = (
    "asymmetric_quantize_inputs = false, fused_activation_function = "
    '"NONE", keep_num_dims = false, weights_format = "DEFAULT"'
)
TRANSPOSED = f"tensor<4x3x{block_type(SCALES.T, '0:2, 1:1')}>"
SPLIT = f"tensor<3x2x2x{block_type(SCALES[..., None], '0:1, 1:1')}>"
JOINED = f"tensor<6x2x{block_type(SCALES.reshape(6, 1), '0:1')}>"
OUTER = f"tensor<1x3x4x{block_type(SCALES[None], '1:1, 2:2')}>"
PART = f"tensor<2x2x{block_type(SCALES[1:, 1:], '0:1')}>"
INSIDE = f"tensor<1x1x{block_type(SCALES[:1, 1:], '')}>"
PAIR = "tensor<2xi32>"
PROGRAMS: dict[str, tuple[str, Array]] = {
    "dequantize": (
        function(
            f'%y = "tfl.dequantize"(%w) : ({ROWS}) -> tensor<3x4xf32>',
            "tensor<3x4xf32>",
        ),
        WEIGHTS,
    ),
    "fully_connected": (
        function(
            '%n = "tfl.no_value"() <{value}> : () -> none\n'
            f'%y = "tfl.fully_connected"(%x, %w, %n) <{{{DENSE}}}> : '
            f"(tensor<2x4xf32>, {ROWS}, none) -> tensor<2x3xf32>",
            "tensor<2x3xf32>",
        ),
        X @ WEIGHTS.T,
    ),
    "embedding_lookup": (
        function(
            constant("i", [2, 0], PAIR)
            + f'%y = "tfl.embedding_lookup"(%i, %w) : ({PAIR}, {ROWS}) -> tensor<2x4xf32>',
            "tensor<2x4xf32>",
        ),
        WEIGHTS[[2, 0]],
    ),
    "transpose": (moved("transpose", [([1, 0], PAIR)], TRANSPOSED), WEIGHTS.T),
    "reshape": (
        moved("reshape", [([3, 2, 2], "tensor<3xi32>")], SPLIT),
        WEIGHTS.reshape(3, 2, 2),
    ),
    "reshape to blocks": (
        moved("reshape", [([6, 2], PAIR)], JOINED),
        WEIGHTS.reshape(6, 2),
    ),
    "expand_dims": (moved("expand_dims", [(0, "tensor<i32>")], OUTER), WEIGHTS[None]),
    "slice of blocks": (
        moved("slice", [([1, 2], PAIR), ([-1, 2], PAIR)], PART),
        WEIGHTS[1:, 2:],
    ),
    "slice of a block": (
        moved("slice", [([0, 3], PAIR), ([1, 1], PAIR)], INSIDE),
        WEIGHTS[:1, 3:],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_are_those_of_numpy(name: str):
    text, expected = PROGRAMS[name]
    module = parse_module(text)
    assert np.array_equal(run_function(module, None, X)[0], expected)
    apply_passes(module, "convert-tfl-to-linalg")
    assert np.array_equal(run_function(module, None, X)[0], expected)


@pytest.mark.parametrize("name", ["fully_connected", "transpose", "reshape to blocks"])
def test_compiled_numbers_are_those_of_numpy(name: str):
    text, expected = PROGRAMS[name]
    assert np.array_equal(compile(parse_module(text))(X), expected)


def test_dequantized_arguments():
    """TOSA has no casts of blocks."""
    text = f"""!q = {Q}
    func.func @main(%w: {ROWS}) -> tensor<3x4xf32> {{
      %y = "tfl.dequantize"(%w) : ({ROWS}) -> tensor<3x4xf32>
      return %y : tensor<3x4xf32>
    }}"""
    stored = STORED.astype(np.int8)
    assert np.array_equal(run_function(text, "main", stored)[0], WEIGHTS)
    assert np.array_equal(compile(text)(stored), WEIGHTS)
    message = "'tfl.dequantize' op has blocks of values that are not constant"
    with pytest.raises(IRError, match=message):
        apply_passes(parse_module(text), "convert-tfl-to-tosa")


SQUARE = block_type(np.array([[1.0, 2.0], [3.0, 4.0]]), "0:2, 1:2")


@pytest.mark.parametrize(
    ("op", "operands", "result", "message"),
    [
        (
            "transpose",
            [([1, 0], PAIR)],
            f"tensor<4x3x{block_type(SCALES.T + 1, '0:2, 1:1')}>",
            "'tfl.transpose' op moves blocks, expected a result of "
            "!quant.uniform<i4:f32:{0:2, 1:1}, {{5.000000e-01, 1.000000e+00, "
            "1.250000e-01}, {2.500000e-01, 2.000000e+00, 4.000000e+00}}>, found "
            "!quant.uniform<i4:f32:{0:2, 1:1}, {{1.500000e+00, 2.000000e+00, "
            "1.125000e+00}, {1.250000e+00, 3.000000e+00, 5.000000e+00}}>",
        ),
        (
            "transpose",
            [([1, 0], PAIR)],
            "tensor<4x3x!q>",
            "tensor dimension size 3 at axis 1 must be divisible by the corresponding "
            "block size 2",
        ),
        (
            "reshape",
            [([4, 3], PAIR)],
            f"tensor<4x3x{block_type(SCALES.reshape(2, 3), '0:2, 1:1')}>",
            "'tfl.reshape' op splits blocks of !quant.uniform<i4:f32:{0:1, 1:2}, ",
        ),
        (
            "slice",
            [([0, 1], PAIR), ([3, 2], PAIR)],
            f"tensor<3x2x{block_type(SCALES, '0:1, 1:1')}>",
            "'tfl.slice' op splits blocks of !quant.uniform<i4:f32:{0:1, 1:2}, ",
        ),
        (
            "reverse_v2",
            [([0], "tensor<1xi32>")],
            ROWS,
            "'tfl.reverse_v2' op cannot move blocks of !quant.uniform<i4:f32:{0:1, 1:2}, ",
        ),
        (
            "reshape",
            [([3, 4], PAIR)],
            "tensor<3x4x!quant.uniform<i4:f32, 0.5>>",
            "quantization parameters violate the same scale constraint",
        ),
    ],
)
def test_blocks_that_do_not_move_with_elements(
    op: str, operands: Sequence[tuple[Any, str]], result: str, message: str
):
    with pytest.raises(IRError) as caught:
        parse_module(moved(op, operands, result))
    assert message in str(caught.value)
    assert str(caught.value).startswith("module:")


def test_an_unknown_permutation_keeps_no_blocks():
    def text(result: str) -> str:
        operand, result = (f"tensor<4x4x{type_}>" for type_ in (SQUARE, result))
        return (
            f"func.func @main(%x: {operand}, %p: {PAIR}) -> {result} {{\n"
            f'%y = "tfl.transpose"(%x, %p) : ({operand}, {PAIR}) -> {result}\n'
            f"return %y : {result}\n}}"
        )

    parse_module(text(SQUARE))
    with pytest.raises(IRError, match="has unknown sizes, expected one type"):
        parse_module(text(SQUARE.replace("{1.0, 2.0}", "{2.0, 1.0}")))


@pytest.mark.parametrize(
    "line",
    [
        "%y = stablehlo.uniform_dequantize %w : (tensor<3x4x!q>) -> tensor<3x4xf32>",
        "%y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1] : "
        "(tensor<2x4xf32>, tensor<3x4x!q>) -> tensor<2x3xf32>",
        "%y = stablehlo.transpose %w, dims = [1, 0] : (tensor<3x4x!q>) -> tensor<4x3x!q>",
    ],
)
def test_stablehlo_ops_have_no_blocks(line: str):
    """Neither have they in StableHLO."""
    result = line.rpartition("-> ")[2]
    with pytest.raises(IRError) as caught:
        parse_module(function(line, result))
    op = line.split()[2]
    assert f"'{op}' op operand #" in str(caught.value)
    assert "per-tensor integer quantized or per-axis integer quantized" in str(
        caught.value
    )


# Targets

TARGET = """
description = "weights in blocks"
[[kernels]]
ops = ["tfl.fully_connected"]
inputs = ["-", "const i4{0:1, 1:2}", "-"]
outputs = ["-"]
[[kernels]]
ops = ["tfl.embedding_lookup"]
inputs = ["-", "const i4{0:1, 1:2}"]
outputs = ["-"]
[[kernels]]
ops = ["stablehlo.dot_general"]
inputs = ["-", "const i4{0:1, 1:2}"]
outputs = ["-"]
"""
# Symmetric: the largest elements of blocks are 7 units.
FLOATS = np.array([[3.5, -1, 1.5, 1.75], [7, 2, -14, 6], [0.3, 0.875, 28, 9]])
DENSE_BLOCKS = np.array(
    [[3.5, -1, 1.5, 1.75], [7, 2, -14, 6], [0.25, 0.875, 28, 8]], np.float32
)
LAYERS = {
    "fully_connected": (
        '%n = "tfl.no_value"() <{value}> : () -> none\n'
        f'%y = "tfl.fully_connected"(%x, %w, %n) <{{{DENSE}}}> : '
        "(tensor<2x4xf32>, tensor<3x4xf32>, none) -> tensor<2x3xf32>",
        X @ DENSE_BLOCKS.T,
        "tfl.dequantize",
    ),
    "embedding_lookup": (
        constant("i", [2, 0], PAIR)
        + f'%y = "tfl.embedding_lookup"(%i, %w) : ({PAIR}, tensor<3x4xf32>) -> '
        "tensor<2x4xf32>",
        DENSE_BLOCKS[[2, 0]],
        "tfl.dequantize",
    ),
    "dot_general": (
        "%y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1] : "
        "(tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>",
        X @ DENSE_BLOCKS.T,
        "quant.dcast",
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_constants_at_ports_with_blocks_are_dequantized(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    body, expected, cast = LAYERS[name]
    result = body.rpartition("-> ")[2]
    dialect = "stablehlo.constant" if name == "dot_general" else "tfl.pseudo_const"
    text = (
        f"func.func @main(%x: tensor<2x4xf32>) -> {result} {{\n"
        f'%w = "{dialect}"() <{{value = dense<{FLOATS.tolist()}> : tensor<3x4xf32>}}> : '
        f"() -> tensor<3x4xf32>\n{body}\nreturn %y : {result}\n}}"
    )
    target = tmp_path / "blocks.toml"
    target.write_text(TARGET)
    module = parse_module(text)
    apply_passes(
        module,
        f'quant-fuse-kernels{{target="{target}"}},quant-propagate{{target="{target}"}},'
        "quant-export",
    )
    assert capsys.readouterr().err == ""
    (found,) = (op for op in module.walk() if op.name == cast)
    assert (
        "!quant.uniform<i4<-7:7>:f32:{0:1, 1:2}, {{5.000000e-01, 2.500000e-01}, "
        in (str(found.operand_types[0]))
    )
    assert np.array_equal(run_function(module, None, X)[0], expected)


MOVED = {
    "transpose": (
        "%c0 = arith.constant dense<[1, 0]> : tensor<2xi32>",
        "tensor<4x3xf32>",
        TRANSPOSED,
        WEIGHTS.T,
    ),
    "reshape": (
        "%c0 = arith.constant dense<[6, 2]> : tensor<2xi32>",
        "tensor<6x2xf32>",
        JOINED,
        WEIGHTS.reshape(6, 2),
    ),
}


@pytest.mark.parametrize("name", MOVED)
@pytest.mark.parametrize("side", ["operand", "result"])
def test_blocks_propagate_through_data_movement(name: str, side: str):
    line, floats, type_, expected = MOVED[name]
    type_ = type_.replace("i4", "i8")
    stored = ROWS.replace("!q", Q).replace("i4", "i8")
    body = (
        f'%m = "tfl.{name}"(%f, %c0) : (tensor<3x4xf32>, tensor<2xi32>) -> {floats}\n'
    )
    if side == "operand":
        arguments, result = f"%w: {stored}", floats
        body = f"%f = quant.dcast %w : {stored} to tensor<3x4xf32>\n{body}"
        returned = "%m"
    else:
        arguments, result, returned = "%f: tensor<3x4xf32>", type_, "%q"
        body += f"%q = quant.qcast %m : {floats} to {type_}\n"
    module = parse_module(
        f"func.func @main({arguments}) -> {result} {{\n{line}\n{body}"
        f"return {returned} : {result}\n}}"
    )
    apply_passes(
        module,
        "quant-fuse-kernels{target=tflite-int8},quant-constraints-to-specs,"
        "quant-propagate{target=tflite-int8},quant-export",
    )
    (op,) = (op for op in module.walk() if op.name == f"tfl.{name}")
    types = parse_module(f"func.func private @f({stored}) -> {type_}").body.block.ops
    (function_type,) = (op.properties["function_type"] for op in types)
    assert isa(function_type, FunctionType)
    assert op.operand_types[0] == function_type.inputs.data[0]
    assert op.result_types[0] == function_type.outputs.data[0]
    if side == "operand":
        stored_values = STORED.astype(np.int8)
        assert np.array_equal(run_function(module, None, stored_values)[0], expected)
