"""Casts of tensors are valid where they are in MLIR."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from xdsl.dialects.arith import ExtSIOp
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block
from xdsl.traits import is_side_effect_free

from tests.conformance.answers import Accepted, Rejected
from tests.conformance.real_mlir import Mlir

from .modules import message, run


def casts() -> Iterator[tuple[str, str, str]]:
    shapes = (
        "{}",
        "tensor<4x{}>",
        "tensor<?x{}>",
        "tensor<2x2x{}>",
        "tensor<{}>",
        'tensor<4x{}, "encoding">',
        "vector<4x{}>",
        "vector<[4]x{}>",
        "vector<5x{}>",
        "tensor<*x{}>",
        "memref<4x{}>",
    )
    for op, source, result in (
        ("arith.sitofp", "i8", "f32"),
        ("arith.uitofp", "i4", "f64"),
        ("arith.fptosi", "bf16", "i16"),
        ("arith.fptoui", "f8E4M3FN", "i1"),
        ("arith.extsi", "i8", "i32"),
        ("arith.extui", "i8", "i16"),
        ("arith.trunci", "i32", "i8"),
    ):
        for source_shape in shapes:
            for result_shape in shapes:
                yield op, source_shape.format(source), result_shape.format(result)
    yield from (
        ("arith.extsi", "tensor<4xi8>", "tensor<4xi8>"),
        ("arith.extui", "tensor<4xi16>", "tensor<4xi8>"),
        ("arith.trunci", "vector<4xi8>", "vector<4xi8>"),
        ("arith.sitofp", "tensor<4xf32>", "tensor<4xf32>"),
        ("arith.sitofp", "tensor<4xsi8>", "tensor<4xf32>"),
        ("arith.sitofp", "tensor<4xindex>", "tensor<4xf32>"),
        ("arith.fptosi", "tensor<4xf32>", "tensor<4xui8>"),
        ("arith.fptosi", "tensor<4xf32>", "tensor<4xf32>"),
    )


@pytest.mark.sampled(0)
def test_casts_are_valid_where_they_are_in_mlir(mlir: Mlir):
    valid = 0
    for op, source, result in casts():
        text = f"""func.func @f(%x: {source}) {{
          %0 = {op} %x : {source} to {result}
          func.return
        }}"""
        answer = mlir.run(text)
        said = message(text)
        if isinstance(answer, Accepted):
            assert said is None, text
            valid += 1
            continue
        assert said is not None, text
        # Kinds of types are rejected earlier, in the words of xDSL.
        if said.startswith("'arith."):
            assert isinstance(answer, Rejected)
            assert said == answer.message, text
    assert valid == 7 * 9


@pytest.mark.parametrize(
    ("source", "result", "said"),
    [
        (
            "tensor<4xi8>",
            "tensor<3xf32>",
            "'arith.sitofp' op failed to verify that input and output have the same "
            "tensor dimensions",
        ),
        (
            "vector<4xi8>",
            "vector<3xf32>",
            "'arith.sitofp' op requires the same shape for all operands and results",
        ),
        (
            'tensor<4xi8, "a">',
            "tensor<4xf32>",
            "'arith.sitofp' op operand type 'tensor<4xi8, \"a\">' and result type "
            "'tensor<4xf32>' are cast incompatible",
        ),
    ],
)
def test_casts_to_another_shape_are_rejected(source: str, result: str, said: str):
    text = f"""func.func @f(%x: {source}) {{
      %0 = arith.sitofp %x : {source} to {result}
      func.return
    }}"""
    assert message(text) == said


def test_extsi_is_pure():
    (narrow,) = Block(arg_types=[IntegerType(8)]).args
    assert is_side_effect_free(ExtSIOp(narrow, IntegerType(32)))


def test_remf_is_known_to_a_fresh_process(tmp_path: Path):
    text = """\
builtin.module {
  func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
    %r = arith.remf %a, %a : tensor<4xf32>
    func.return %r : tensor<4xf32>
  }
}
"""
    file = tmp_path / "remf.mlir"
    file.write_text(text)
    assert run("xdsl-opt", str(file)).strip() == text.strip()
