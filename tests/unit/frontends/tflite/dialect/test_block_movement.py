"""Data movement of tensors whose blocks have scales of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import write_tflite
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

Array = NDArray[Any]

ROWS, COLUMNS, BLOCK = 4, 64, 32
STORED: Array = np.random.default_rng(0).integers(-8, 8, (ROWS, COLUMNS))
SCALES: Array = 2.0 ** np.random.default_rng(1).permutation(8).reshape(4, 2)
"""Of blocks of 1 x 32 elements."""
FLOATS: Array = (STORED * np.repeat(SCALES, BLOCK, 1)).astype(np.float32)


def sub_channel(scales: Array, blocks: str) -> str:
    def nested(array: Array) -> str:
        return f"{{{', '.join(map(nested, array))}}}" if array.ndim else str(array)

    return f"!quant.uniform<i4:f32:{{{blocks}}}, {nested(scales)}>"


def block_scaled(scales: Array, blocks: str) -> str:
    axes = [int(pair.split(":")[0]) for pair in blocks.split(",")] if blocks else []
    dropped = tuple(axis for axis in range(scales.ndim) if axis not in axes)
    scales = np.squeeze(scales, dropped)
    shape = "".join(f"{size}x" for size in scales.shape)
    return (
        f"!quant.block_scaled<i4:f32:{{{blocks}}}, scales = dense<{scales.tolist()}> : "
        f"tensor<{shape}f16>>"
    )


KINDS = {"sub-channel": sub_channel, "block-scaled": block_scaled}
Type = Callable[[Array, str], str]


@dataclass(frozen=True)
class Moved:
    """An op on the stored values, and what it computes."""

    op: str
    operands: Sequence[Any]
    properties: str
    scales: Array
    blocks: str
    move: Callable[[Array], Array]

    def text(self, type_: Type, scales: Array | None = None, blocks: str = "") -> str:
        """A function that returns the dequantized result."""
        scales = self.scales if scales is None else scales
        source = f"tensor<{ROWS}x{COLUMNS}x{type_(SCALES, '0:1, 1:32')}>"
        shape = "".join(f"{size}x" for size in self.move(STORED).shape)
        result = f"tensor<{shape}{type_(scales, blocks or self.blocks)}>"
        lines = [
            f'%w = "tfl.pseudo_qconst"() <{{qtype = {source}, value = '
            f"dense<{STORED.tolist()}> : tensor<{ROWS}x{COLUMNS}xi4>}}> : () -> {source}"
        ]
        names, types = ["%w"], [source]
        for number, operand in enumerate(self.operands):
            if operand is STORED:
                names.append("%w")
                types.append(source)
                continue
            sizes = "".join(f"{size}x" for size in np.shape(operand))
            type_of_indices = f"tensor<{sizes}i32>"
            lines.append(
                f'%c{number} = "tfl.pseudo_const"() <{{value = dense<{operand}> : '
                f"{type_of_indices}}}> : () -> {type_of_indices}"
            )
            names.append(f"%c{number}")
            types.append(type_of_indices)
        lines += [
            f'%m = "tfl.{self.op}"({", ".join(names)}) <{{{self.properties}}}> : '
            f"({', '.join(types)}) -> {result}",
            f'%y = "tfl.dequantize"(%m) : ({result}) -> tensor<{shape}f32>',
            f"return %y : tensor<{shape}f32>",
        ]
        body = "\n".join(lines)
        return f"func.func @main() -> tensor<{shape}f32> {{\n{body}\n}}"


def masks(**kept: int) -> str:
    names = "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask".split()
    return ", ".join(
        (*(f"{name} = {kept.get(name, 0)} : i32" for name in names), "offset = false")
    )


GATHER = "axis = 0 : i32, batch_dims = 0 : i32"
COLUMN_GATHER = "axis = 1 : i32, batch_dims = 0 : i32"
JOIN = 'axis = 0 : i32, fused_activation_function = "NONE"'
COLUMN_JOIN = 'axis = 1 : i32, fused_activation_function = "NONE"'
SWAPPED = [*range(BLOCK, COLUMNS), *range(BLOCK)]
MOVED = {
    "rows": Moved(
        "strided_slice",
        ([1, 0], [4, 64], [2, 1]),
        masks(),
        SCALES[1::2],
        "0:1, 1:32",
        lambda x: x[1::2],
    ),
    "rows from the end": Moved(
        "strided_slice",
        ([0, 0], [0, 64], [-1, 1]),
        masks(begin_mask=1, end_mask=1),
        SCALES[::-1],
        "0:1, 1:32",
        lambda x: x[::-1],
    ),
    "every other column": Moved(
        "strided_slice",
        ([0, 1], [0, 64], [1, 32]),
        masks(begin_mask=1, end_mask=1),
        SCALES,
        "0:1, 1:1",
        lambda x: x[:, 1::32],
    ),
    "a row": Moved(
        "strided_slice",
        ([-1, 0], [0, 64], [1, 1]),
        masks(shrink_axis_mask=1),
        SCALES[-1],
        "0:32",
        lambda x: x[-1],
    ),
    "a new dimension": Moved(
        "strided_slice",
        ([0, 0], [0, 3], [1, 1]),
        masks(ellipsis_mask=1, new_axis_mask=2),
        SCALES[..., None],
        "0:1, 1:32",
        lambda x: x[..., None],
    ),
    "gathered rows": Moved(
        "gather",
        ([3, 0, 3],),
        GATHER,
        SCALES[[3, 0, 3]],
        "0:1, 1:32",
        lambda x: x[[3, 0, 3]],
    ),
    "a gathered row": Moved("gather", (2,), GATHER, SCALES[2], "0:32", lambda x: x[2]),
    "gathered blocks": Moved(
        "gather",
        (SWAPPED,),
        COLUMN_GATHER,
        SCALES[:, ::-1],
        "0:1, 1:32",
        lambda x: x[:, SWAPPED],
    ),
    "gathered columns": Moved(
        "gather",
        ([63, 0],),
        COLUMN_GATHER,
        SCALES[:, ::-1],
        "0:1, 1:1",
        lambda x: x[:, [63, 0]],
    ),
    "joined rows": Moved(
        "concatenation",
        (STORED,),
        JOIN,
        np.concatenate([SCALES, SCALES]),
        "0:1, 1:32",
        lambda x: np.concatenate([x, x]),
    ),
    "joined columns": Moved(
        "concatenation",
        (STORED,),
        COLUMN_JOIN,
        np.concatenate([SCALES, SCALES], 1),
        "0:1, 1:32",
        lambda x: np.concatenate([x, x], 1),
    ),
    "finer blocks": Moved(
        "slice",
        ([0, 0], [2, 64]),
        "",
        np.repeat(SCALES[:2], BLOCK, 1),
        "0:1, 1:1",
        lambda x: x[:2],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MOVED)
def test_scales_move_with_their_elements(name: str, kind: str):
    moved = MOVED[name]
    if name == "finer blocks" and kind == "sub-channel":
        pytest.skip("one type describes a result")
    expected = moved.move(FLOATS)
    module = parse_module(moved.text(KINDS[kind]))
    np.testing.assert_array_equal(run_function(module, None)[0], expected)
    apply_passes(module, "convert-tfl-to-linalg")
    np.testing.assert_array_equal(run_function(module, None)[0], expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MOVED)
def test_other_scales(name: str, kind: str):
    moved = MOVED[name]
    scales = moved.scales.copy()
    scales.flat[-1] *= 2
    with pytest.raises(IRError, match=f"'tfl.{moved.op}' op .*moves "):
        parse_module(moved.text(KINDS[kind], scales))


def test_split_blocks():
    moved = Moved(
        "gather",
        ([0, 40],),
        COLUMN_GATHER,
        SCALES[:, :1],
        "0:1, 1:2",
        lambda x: x[:, :2],
    )
    for type_ in KINDS.values():
        with pytest.raises(
            IRError,
            match=r"op splits blocks of .* or moves them to other scales: .*; expected the "
            "scales of the moved elements, or dequantized operands",
        ):
            parse_module(moved.text(type_))


UNDESCRIBED: list[tuple[str, Sequence[Any], Callable[[Array], Array]]] = [
    ("reshape", ([64, 4],), lambda x: np.reshape(x, (64, 4))),
    ("tile", ([1, 2],), lambda x: np.tile(x, (1, 2))),
]


@pytest.mark.parametrize(("op", "operands", "move"), UNDESCRIBED)
def test_blocks_that_no_type_describes(
    op: str, operands: Sequence[Any], move: Callable[[Array], Array]
):
    moved = Moved(op, operands, "", SCALES, "0:1, 1:32", move)
    with pytest.raises(IRError, match=f"'tfl.{op}' op .*dequantize them first"):
        parse_module(moved.text(block_scaled))


def test_indices_of_run_time():
    """Blocks along other dimensions than that of the indices stay."""

    def text(blocks: str, scales: Array) -> str:
        types = [f"tensor<{n}x64x{block_scaled(scales, blocks)}>" for n in (4, 2)]
        return (
            f"func.func @main(%x: {types[0]}, %i: tensor<2xi32>) -> {types[1]} {{\n"
            f'%y = "tfl.gather"(%x, %i) <{{{GATHER}}}> : ({types[0]}, tensor<2xi32>) -> '
            f"{types[1]}\nreturn %y : {types[1]}\n}}"
        )

    parse_module(text("1:32", SCALES[:1]))
    with pytest.raises(IRError, match=r"op splits blocks of .* or moves them"):
        parse_module(text("0:2, 1:32", SCALES[:2]).replace("<2x64", "<4x64"))


def test_compiled():
    moved = MOVED["gathered rows"]
    expected = moved.move(FLOATS)
    for type_ in KINDS.values():
        np.testing.assert_array_equal(
            compile(parse_module(moved.text(type_)))(), expected
        )


@pytest.mark.parametrize("name", ["gathered rows", "joined rows"])
def test_litert_moves_stored_values(name: str):
    """Files state the scales of the result, which a lookup multiplies by."""
    moved = MOVED[name]
    rows = moved.move(STORED).shape[0]
    text = moved.text(block_scaled)
    start = text.index("%y =")
    result = text[text.index(": (", start) + 3 : text.index(") -> tensor", start)]
    type_ = f"tensor<{rows}x{COLUMNS}xf32>"
    text = text[:start] + (
        f'%y = "tfl.embedding_lookup"(%i, %m) : (tensor<{rows}xi32>, {result}) -> {type_}'
        f"\nreturn %y : {type_}\n}}"
    )
    text = text.replace("@main()", f"@main(%i: tensor<{rows}xi32>)")
    module, indices = parse_module(text), np.arange(rows, dtype=np.int32)
    (expected,) = LiteRT(write_tflite(module)).run(indices)
    np.testing.assert_array_equal(run_function(module, None, indices)[0], expected)
