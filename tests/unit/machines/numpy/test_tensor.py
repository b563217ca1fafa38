"""The tensor and shape dialects."""

import numpy as np
import pytest
from xdsl.utils.exceptions import InterpretationError

from .running import run, run_body, same_bits

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
CUBE = (X, "tensor<2x3x4xf32>")
ANY = (X, "tensor<?x?x?xf32>")


def check(
    body: str, type_: str, expected: object, *arguments: tuple[object, str]
) -> None:
    (result,) = run_body(body, type_, *arguments)  # pyright: ignore[reportArgumentType] any array will do
    assert same_bits(result, expected)


def test_empty_has_zeros():
    body = "%r0 = tensor.empty(%a0) : tensor<2x?xi16>"
    check(body, "tensor<2x?xi16>", np.zeros((2, 3), np.int16), (3, "index"))


def test_splat():
    body = "%r0 = tensor.splat %a0[%a1] : tensor<?x2xf32>"
    expected = np.full((3, 2), 0.1, np.float32)
    check(body, "tensor<?x2xf32>", expected, (0.1, "f32"), (3, "index"))


@pytest.mark.parametrize("op", ["empty(%a0)", "splat %z[%a0]"])
def test_negative_size(op: str):
    with pytest.raises(InterpretationError, match=r"op has the negative size -1$"):
        run_body(
            f"%z = arith.constant 0.0 : f32\n%r0 = tensor.{op} : tensor<?xf32>",
            "tensor<?xf32>",
            (-1, "index"),
        )


def test_results_are_arrays_of_their_own():
    text = """
func.func @f(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %c = arith.constant dense<1.0> : tensor<3xf32>
  %e = tensor.empty() : tensor<3xf32>
  return %x, %c, %e : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}"""
    x = np.zeros(3, np.float32)
    results = run(text, x)
    for result in results:
        result[1:] += 5
    assert x.tolist() == [0, 0, 0]
    assert [r.tolist() for r in results] == [[0, 5, 5], [1, 6, 6], [0, 5, 5]]


def test_from_elements():
    body = "%r0 = tensor.from_elements %a0, %a1, %a1, %a0 : tensor<2x2xi4>"
    expected = np.array([[-8, 7], [7, -8]], np.int8)
    check(body, "tensor<2x2xi4>", expected, (-8, "i4"), (7, "i4"))


def test_dim():
    body = "%r0 = tensor.dim %a0, %a1 : tensor<?x?x?xf32>"
    check(body, "index", np.int64(3), ANY, (1, "index"))
    for index in (3, -1):
        with pytest.raises(
            InterpretationError,
            match=f"has dimension {index}, out of range for a tensor of rank 3$",
        ):
            run_body(body, "index", ANY, (index, "index"))


def test_cast():
    body = "%r0 = tensor.cast %a0 : tensor<?x?x?xf32> to tensor<2x?x4xf32>"
    check(body, "tensor<2x?x4xf32>", X, ANY)
    with pytest.raises(
        InterpretationError,
        match=r"^'tensor.cast' op has a value of shape '2x3x4' for the type "
        r"'tensor<2x\?x5xf32>'$",
    ):
        run_body(body.replace("x4", "x5"), "tensor<2x?x5xf32>", ANY)


def test_cast_to_another_rank():
    body = """%u = tensor.cast %a0 : tensor<?x?x?xf32> to tensor<*xf32>
    %r0 = tensor.cast %u : tensor<*xf32> to tensor<?x?xf32>"""
    with pytest.raises(InterpretationError, match="has a value of shape '2x3x4'"):
        run_body(body, "tensor<?x?xf32>", ANY)


def test_reshape():
    body = """%r0 = tensor.reshape %a0(%a1)
        : (tensor<?x?x?xf32>, tensor<2xindex>) -> tensor<?x?xf32>"""
    shape = (np.array([4, 6]), "tensor<2xindex>")
    check(body, "tensor<?x?xf32>", X.reshape(4, 6), ANY, shape)
    shape = (np.array([4, 5]), "tensor<2xindex>")
    with pytest.raises(
        InterpretationError, match=r"reshapes 24 elements to the shape '4x5' of 20$"
    ):
        run_body(body, "tensor<?x?xf32>", ANY, shape)
    shape = (np.array([-4, -6]), "tensor<2xindex>")
    with pytest.raises(InterpretationError, match="negative size -6"):
        run_body(body, "tensor<?x?xf32>", ANY, shape)


def test_collapse_and_expand_shape():
    body = """%r0 = tensor.collapse_shape %a0 [[0, 1], [2]]
        : tensor<2x3x4xf32> into tensor<6x4xf32>
    %r1 = tensor.expand_shape %a1 [[0, 1], [2]] output_shape [2, 3, 4]
        : tensor<6x4xf32> into tensor<2x3x4xf32>"""
    types = "tensor<6x4xf32>, tensor<2x3x4xf32>"
    flat = X.reshape(6, 4)
    results = run_body(body, types, CUBE, (flat, "tensor<6x4xf32>"))
    assert same_bits(results[0], flat)
    assert same_bits(results[1], X)


def test_expand_dynamic_shape():
    body = """%r0 = tensor.expand_shape %a0 [[0, 1]] output_shape [%a1, 2]
        : tensor<?xf32> into tensor<?x2xf32>"""
    x = (np.arange(6, dtype=np.float32), "tensor<?xf32>")
    check(body, "tensor<?x2xf32>", x[0].reshape(3, 2), x, (3, "index"))
    with pytest.raises(InterpretationError, match="reshapes 6 elements"):
        run_body(body, "tensor<?x2xf32>", x, (2, "index"))


def test_extract_and_insert():
    body = """%r0 = tensor.extract %a0[%a1, %a1, %a2] : tensor<2x3x4xf32>
    %r1 = tensor.insert %r0 into %a0[%a1, %a2, %a2] : tensor<2x3x4xf32>"""
    x = X.copy()
    arguments = ((x, CUBE[1]), (1, "index"), (2, "index"))
    value, inserted = run_body(body, "f32, tensor<2x3x4xf32>", *arguments)
    expected = X.copy()
    expected[1, 2, 2] = X[1, 1, 2]
    assert same_bits(value, X[1, 1, 2])
    assert same_bits(inserted, expected)
    assert same_bits(x, X)


@pytest.mark.parametrize("index", [-1, 2])
def test_access_out_of_bounds(index: int):
    message = "has an index out of bounds: dimension 0 has size 2"
    for body, type_ in (
        ("%r0 = tensor.extract %a0[%a1, %z, %z] : tensor<2x3x4xf32>", "f32"),
        (
            "%r0 = tensor.insert %v into %a0[%a1, %z, %z] : tensor<2x3x4xf32>",
            "tensor<2x3x4xf32>",
        ),
    ):
        constants = "%z = arith.constant 0 : index\n%v = arith.constant 1.0 : f32\n"
        with pytest.raises(InterpretationError, match=message):
            run_body(constants + body, type_, CUBE, (index, "index"))


def test_extract_slice():
    body = """%r0 = tensor.extract_slice %a0[0, %a1, 1] [2, 2, %a2] [1, 1, 2]
        : tensor<2x3x4xf32> to tensor<2x2x?xf32>"""
    expected = X[:, 1:3, 1:4:2]
    check(body, "tensor<2x2x?xf32>", expected, CUBE, (1, "index"), (2, "index"))
    with pytest.raises(
        InterpretationError, match=r"accesses index 3 of dimension 1 of size 3$"
    ):
        run_body(body, "tensor<2x2x?xf32>", CUBE, (2, "index"), (2, "index"))


def test_extract_slice_of_smaller_rank():
    body = """%r0 = tensor.extract_slice %a0[1, 0, 0] [1, 3, 1] [1, 1, 1]
        : tensor<2x3x4xf32> to tensor<{}xf32>"""
    for shape, expected in (
        ("3", X[1, :, 0]),
        ("1x3", X[1:, :, 0]),
        ("3x1", X[1, :, :1]),
    ):
        check(body.format(shape), f"tensor<{shape}xf32>", expected, CUBE)


def test_insert_slice():
    body = """%r0 = tensor.insert_slice %a1 into %a0[1, %a2, 0] [1, 2, 2] [1, 1, 2]
        : tensor<2x2xf32> into tensor<2x3x4xf32>"""
    part = np.array([[-1, -2], [-3, -4]], np.float32)
    expected = X.copy()
    expected[1, 1:3, ::2] = part
    arguments = (CUBE, (part, "tensor<2x2xf32>"), (1, "index"))
    check(body, "tensor<2x3x4xf32>", expected, *arguments)


def test_insert_slice_of_another_shape():
    body = """%r0 = tensor.insert_slice %a1 into %a0[0, 0, 0] [2, 2, %a2] [1, 1, 1]
        : tensor<2x2x?xf32> into tensor<2x3x4xf32>"""
    part = (np.zeros((2, 2, 3), np.float32), "tensor<2x2x?xf32>")
    with pytest.raises(
        InterpretationError,
        match=r"inserts a tensor of shape '2x2x3' as a slice of shape '2x2x2'$",
    ):
        run_body(body, "tensor<2x3x4xf32>", CUBE, part, (2, "index"))


def test_pad():
    body = """%r0 = tensor.pad %a0 low[1, %a1] high[0, 2] {
    ^bb0(%i: index, %j: index):
      %v = arith.constant -128 : i8
      tensor.yield %v : i8
    } : tensor<2x2xi8> to tensor<3x?xi8>"""
    x = np.array([[1, 2], [3, 4]], np.int8)
    expected = np.pad(x, ((1, 0), (1, 2)), constant_values=-128)
    check(body, "tensor<3x?xi8>", expected, (x, "tensor<2x2xi8>"), (1, "index"))


def test_pad_with_a_number_that_depends_on_the_index():
    body = """%r0 = tensor.pad %a0 low[1, 1] high[1, 0] {
    ^bb0(%i: index, %j: index):
      %v = arith.muli %i, %j : index
      tensor.yield %v : index
    } : tensor<1x2xindex> to tensor<3x3xindex>"""
    expected = np.array([[0, 0, 0], [0, 7, 8], [0, 2, 4]])
    check(
        body, "tensor<3x3xindex>", expected, (np.array([[7, 8]]), "tensor<1x2xindex>")
    )


def test_concat():
    body = """%r0 = tensor.concat dim(1) %a0, %a1
        : (tensor<2x?xi8>, tensor<2x1xi8>) -> tensor<2x?xi8>"""
    x, y = np.array([[1, 2], [3, 4]], np.int8), np.array([[5], [6]], np.int8)
    arguments = ((x, "tensor<2x?xi8>"), (y, "tensor<2x1xi8>"))
    check(body, "tensor<2x?xi8>", np.array([[1, 2, 5], [3, 4, 6]], np.int8), *arguments)


def test_shape():
    body = """%u = tensor.cast %a0 : tensor<2x3x4xf32> to tensor<*xf32>
    %r0 = shape.shape_of %u : tensor<*xf32> -> tensor<?xindex>
    %r1, %r2 = "shape.split_at"(%r0, %a1)
        : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
    %r3 = shape.num_elements %r1 : tensor<?xindex> -> index"""
    types = "tensor<?xindex>, tensor<?xindex>, tensor<?xindex>, index"
    for index, head, count in (
        (0, [], 1),
        (2, [2, 3], 6),
        (-1, [2, 3], 6),
        (3, [2, 3, 4], 24),
    ):
        results = run_body(body, types, CUBE, (index, "index"))
        assert results[0].tolist() == [2, 3, 4]
        assert results[1].tolist() == head
        assert results[2].tolist() == [2, 3, 4][len(head) :]
        assert same_bits(results[3], np.int64(count))
    with pytest.raises(InterpretationError, match=r"splits a shape of rank 3 at 4$"):
        run_body(body, types, CUBE, (4, "index"))
