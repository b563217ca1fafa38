"""Strings and constants: texts are those of MLIR, both ways."""

import math
from typing import cast

import pytest
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    f32,
)
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from tests.conformance.real_mlir import Mlir
from xdsl_quant.runtime.loading import multiverse_context

from .modules import accepted, parse, run


def test_string_that_is_not_closed():
    """xDSL alone would need hours for it."""
    text = '!q = !quant.uniform<i8:f32, 1.0">  // a stray quote and a long comment about it'
    printed = run("xdsl-opt", "--parsing-diagnostics", stdin=text)
    assert "End of file reached before closing string literal." in printed


@pytest.mark.parametrize("text", ["größe", "日本", "a\tä", "\N{REPLACEMENT CHARACTER}"])
def test_text_beyond_ascii(mlir: Mlir, text: str):
    """Strings that MLIR prints are read as strings again, also in locations."""
    attribute = StringAttr(text)
    assert Parser(multiverse_context(), str(attribute)).parse_attribute() == attribute
    module = f"func.func private @f() attributes {{a.b = {attribute}}}"
    assert str(attribute) in accepted(mlir, module)
    location = Parser(
        multiverse_context(), f"loc({attribute})"
    ).parse_optional_location()
    assert str(location) == f"loc({attribute})"


def test_bytes_that_are_no_text():
    attribute = BytesAttr(b"\xff\xc3")
    assert Parser(multiverse_context(), str(attribute)).parse_attribute() == attribute


def dense(text: str) -> DenseIntOrFPElementsAttr:
    attribute = Parser(multiverse_context(), text).parse_attribute()
    return cast(DenseIntOrFPElementsAttr, attribute)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("dense<[0x4CEB79A3, 1.0]> : tensor<2xf32>", (123456792.0, 1.0)),
        ("dense<0x4CEB79A3> : tensor<2xf32>", (123456792.0, 123456792.0)),
        (
            "dense<[[0xFF800000], [0x7F800000]]> : tensor<2x1xf32>",
            (-math.inf, math.inf),
        ),
        ("dense<[0x3C00, 0x8000]> : tensor<2xf16>", (1.0, -0.0)),
        ("dense<0x419D6F3454000000> : tensor<1xf64>", (123456789.0,)),
        ("dense<[0x38, 2.0]> : vector<2xf8E4M3FN>", (1.0, 2.0)),
        ("dense<[0x10, 3]> : tensor<2xi32>", (16, 3)),
    ],
)
def test_dense_hexadecimal_floats(mlir: Mlir, text: str, values: tuple[float, ...]):
    attribute = dense(text)
    assert attribute.get_values() == values
    module = "func.func private @f() attributes {{a.b = {}}}"
    assert accepted(mlir, module.format(attribute)) == accepted(
        mlir, module.format(text)
    )
    assert dense(str(attribute)) == attribute


def test_dense_hexadecimal_floats_that_are_too_long():
    """MLIR refuses them; xDSL reads an integer, and so do patches."""
    (value,) = dense("dense<0x100000000> : tensor<1xf32>").get_values()
    assert value == 2.0**32


TYPES_OF_DENSE_CONSTANTS = """
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from xdsl_quant import xdsl_patches

TEXTS = (
    *("tensor<2xi4>", "tensor<2xsi8>", "tensor<1x2xindex>", "tensor<f8E4M3FN>"),
    *("tensor<2xbf16>", "tensor<0xf64>", 'tensor<2xf32, "a">', "vector<2x1xf80>"),
    *("tensor<2xcomplex<f32>>", "vector<[2]xi32>", "memref<2xf16>", "f32"),
    *("tensor<?xf32>", "memref<2x?xi8>", "tensor<*xf32>", "memref<*xf32>"),
    *("tensor<2xnone>", "tensor<2xtuple<i8>>", "vector<2x", "", "x"),
)

def found():
    ctx = Context()
    ctx.load_dialect(Builtin)
    for text in TEXTS:
        parser = Parser(ctx, f"{text} i8")
        try:
            yield parser._parse_dense_literal_type(), parser.pos
        except ParseError as e:
            yield str(e)

alone = [*found()]
xdsl_patches.apply("builtin")
print([*found()] == alone, len({*map(str, alone)}) == len(TEXTS))
print(sum(isinstance(each, str) for each in alone))
"""


def test_types_of_dense_constants_are_those_of_xdsl():
    printed = run("python", "-c", TYPES_OF_DENSE_CONSTANTS)
    assert printed.split() == ["True", "True", "10"]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((0.0, -0.0), "dense<[0.000000e+00, -0.000000e+00]> : tensor<2xf32>"),
        ((-0.0, -0.0), "dense<-0.000000e+00> : tensor<2xf32>"),
        ((math.nan, math.nan), "dense<0x7fc00000> : tensor<2xf32>"),
    ],
)
def test_splats_have_the_same_bits(values: tuple[float, ...], text: str):
    attribute = DenseIntOrFPElementsAttr.from_list(TensorType(f32, (2,)), values)
    assert str(attribute) == text
    assert dense(text) == attribute


@pytest.mark.parametrize(
    "element_type",
    [
        *(IntegerType(width) for width in (1, 2, 4, 7, 8, 12, 16, 24, 31, 32, 48)),
        IntegerType(4, Signedness.SIGNED),
        IntegerType(4, Signedness.UNSIGNED),
    ],
    ids=str,
)
@pytest.mark.parametrize("count", [101, 104, 257])
def test_long_dense_integers_have_the_bytes_of_mlir(
    mlir: Mlir, element_type: IntegerType, count: int
):
    low, high = element_type.value_range()
    values = [
        low + (high - low) * 7 * index // 1000 % (high - low) for index in range(count)
    ]
    type_ = TensorType(element_type, (count,))
    attribute = DenseIntOrFPElementsAttr.from_list(type_, values)
    assert str(attribute).startswith('dense<"0x')

    module = "func.func private @f() attributes {{a.b = {}}}"
    if element_type == IntegerType(1):
        elements = ["true" if value & 1 else "false" for value in values]
    else:
        elements = list(map(str, values))
    listed = accepted(mlir, module.format(f"dense<[{', '.join(elements)}]> : {type_}"))
    assert accepted(mlir, module.format(attribute)) == listed
    assert dense(str(attribute)) == attribute
    function = parse(listed).body.block.first_op
    assert isinstance(function, FuncOp)
    assert function.attributes["a.b"] == attribute


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('dense<"0x09"> : tensor<200xi4>', -7),
        ('dense<"0xFF"> : tensor<200xi1>', -1),
        ('dense<"0xFFFFFF"> : tensor<3xi24>', -1),
        ('dense<"0x0F"> : tensor<3xui4>', 15),
    ],
)
def test_packed_splats_are_read(text: str, value: int):
    assert set(dense(text).get_values()) == {value}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('dense<"0x0102"> : tensor<3xi4>', "Shape mismatch in dense literal"),
        ('dense<"0x0102"> : tensor<3xi1>', "Shape mismatch in dense literal"),
        ('dense<"0x0G"> : tensor<1xi4>', "Hex string in denseAttr is invalid"),
        ('dense<"0x00"> : tensor<?xi4>', "should have a static shape"),
        ('dense<"0x00"> : i4', "Expected memref, vector or tensor type"),
    ],
)
def test_wrong_packed_integers_are_rejected(text: str, said: str):
    with pytest.raises(ParseError, match=said):
        dense(text)


@pytest.mark.parametrize(
    "text",
    [
        "dense<> : tensor<0xi4>",
        "dense<7> : tensor<200xi4>",
        "dense<[1, -2]> : tensor<2xi4>",
        "dense<true> : tensor<200xi1>",
        "dense<[true, false]> : tensor<2xi1>",
    ],
)
def test_short_packed_integers_are_printed_as_before(mlir: Mlir, text: str):
    assert str(dense(text)) == text
    module = f"func.func private @f() attributes {{a.b = {text}}}"
    assert text in accepted(mlir, module)
