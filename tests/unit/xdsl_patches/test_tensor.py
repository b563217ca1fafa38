"""Reshapes are valid where they are in MLIR."""

import pytest

from tests.conformance.answers import Accepted, Rejected
from tests.conformance.real_mlir import Mlir

from .modules import message


def reshape(source: str, shape: str, result: str) -> str:
    return f"""func.func @f(%x: {source}, %s: {shape}) {{
      %0 = tensor.reshape %x(%s) : ({source}, {shape}) -> {result}
      func.return
    }}"""


def test_reshapes_are_valid_where_they_are_in_mlir(mlir: Mlir):
    valid = 0
    tensors = ("*", "?", "4", "2x2", "?x2", "2x3", "")
    shapes = ("tensor<?xindex>", "tensor<1xindex>", "tensor<2xi32>", "tensor<0xindex>")
    types = [f"tensor<{t}xf32>" if t else "tensor<f32>" for t in tensors]
    types += ["tensor<4xf64>", "tensor<*xf64>", "vector<4xf32>"]
    for source in types:
        for shape in (*shapes, "tensor<2x2xindex>", "tensor<*xindex>", "tensor<2xf32>"):
            for result in types:
                text = reshape(source, shape, result)
                answer, said = mlir.run(text), message(text)
                assert isinstance(answer, Accepted) == (said is None), (text, said)
                valid += said is None
    assert valid == 70


@pytest.mark.parametrize(
    ("shape", "result", "said"),
    [
        (
            "tensor<?xindex>",
            "tensor<?xf32>",
            "cannot use shape operand with dynamic length to reshape to "
            "statically-ranked tensor type",
        ),
        (
            "tensor<2xindex>",
            "tensor<?xf32>",
            "length of shape operand differs from the result's tensor rank",
        ),
        (
            "tensor<1xindex>",
            "tensor<?xi8>",
            "element types of source and destination tensor types should be the same",
        ),
    ],
)
def test_reshapes_are_rejected_in_the_words_of_mlir(
    mlir: Mlir, shape: str, result: str, said: str
):
    text = reshape("tensor<*xf32>", shape, result)
    answer = mlir.run(text)
    assert isinstance(answer, Rejected)
    assert answer.message == f"'tensor.reshape' op {said}"
    assert message(text) == said
