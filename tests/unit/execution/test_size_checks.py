"""Sizes that do not fit each other are an error, and never a write out of bounds."""

import ctypes
from typing import Any

import numpy as np
import pytest

from xdsl_quant.execution import compile, runtime_library

INSERT_SLICE = """
func.func @f(%x: tensor<?xf32>, %y: tensor<4xf32>, %o: index, %n: index, %s: index)
    -> tensor<4xf32> {
  %r = tensor.insert_slice %x into %y[%o] [%n] [%s] : tensor<?xf32> into tensor<4xf32>
  return %r : tensor<4xf32>
}"""

EXTRACT_SLICE = """
func.func @f(%x: tensor<?xf32>, %o: index, %n: index, %s: index) -> tensor<?xf32> {
  %r = tensor.extract_slice %x[%o] [%n] [%s] : tensor<?xf32> to tensor<?xf32>
  return %r : tensor<?xf32>
}"""

INSERT_ROW = """
func.func @f(%x: tensor<?xf32>, %y: tensor<?x3xf32>, %o: index, %n: index)
    -> tensor<?x3xf32> {
  %r = tensor.insert_slice %x into %y[%o, 0] [1, %n] [1, 1]
      : tensor<?xf32> into tensor<?x3xf32>
  return %r : tensor<?x3xf32>
}"""

PAD = """
func.func @f(%x: tensor<?xf32>, %low: index, %high: index) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %r = tensor.pad %x low[%low] high[%high] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<?xf32> to tensor<?xf32>
  return %r : tensor<?xf32>
}"""

RESHAPE = """
func.func @f(%x: tensor<?xf32>, %s: tensor<3xi64>) -> tensor<?x2x?xf32> {
  %r = tensor.reshape %x(%s) : (tensor<?xf32>, tensor<3xi64>) -> tensor<?x2x?xf32>
  return %r : tensor<?x2x?xf32>
}"""

EXPAND_SHAPE = """
func.func @f(%x: tensor<?xf32>, %m: index, %n: index) -> tensor<?x?xf32> {
  %r = tensor.expand_shape %x [[0, 1]] output_shape [%m, %n]
      : tensor<?xf32> into tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}"""

CONCAT = """
func.func @f(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = tensor.concat dim(1) %x, %y
      : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}"""


def numbers(*shape: int) -> Any:
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        (INSERT_SLICE, (numbers(2), numbers(4), 1, 2, 2), [1, 1, 3, 2]),
        (INSERT_SLICE, (numbers(0), numbers(4), 4, 0, 1), [1, 2, 3, 4]),
        (EXTRACT_SLICE, (numbers(4), 1, 2, 2), [2, 4]),
        (EXTRACT_SLICE, (numbers(4), 4, 0, 1), []),
        (
            INSERT_ROW,
            (-numbers(2), numbers(2, 3), 1, 2),
            [[1, 2, 3], [-1, -2, 6]],
        ),
        (PAD, (numbers(2), 1, 2), [0, 1, 2, 0, 0]),
        (PAD, (numbers(2), 0, 0), [1, 2]),
        (RESHAPE, (numbers(4), np.array([1, 2, 2])), [[[1, 2], [3, 4]]]),
        (RESHAPE, (numbers(0), np.array([1, 2, 0])), np.empty((1, 2, 0))),
        (EXPAND_SHAPE, (numbers(4), 2, 2), [[1, 2], [3, 4]]),
        (EXPAND_SHAPE, (numbers(0), 2**40, 0), np.empty((2**40, 0))),
        (CONCAT, (numbers(2, 1), numbers(2, 2)), [[1, 1, 2], [2, 3, 4]]),
    ],
)
def test_sizes_that_fit(text: str, arguments: Any, expected: Any):
    result = compile(text)(*arguments)
    np.testing.assert_array_equal(result, np.array(expected, np.float32))


OUTSIDE = "op has a slice out of bounds of dimension 0"
ELEMENTS = "op has a result with a different element count"


@pytest.mark.parametrize(
    ("text", "arguments", "problem"),
    [
        (INSERT_SLICE, (numbers(2), numbers(4), 3, 2, 1), OUTSIDE),
        (INSERT_SLICE, (numbers(2), numbers(4), -1, 2, 1), OUTSIDE),
        (INSERT_SLICE, (numbers(0), numbers(4), -1, 0, 1), OUTSIDE),
        (INSERT_SLICE, (numbers(2), numbers(4), 1, 2, 3), OUTSIDE),
        (INSERT_SLICE, (numbers(2), numbers(4), 1, 2, 2**63 - 1), OUTSIDE),
        (INSERT_SLICE, (numbers(2), numbers(4), 1, 2, -1), OUTSIDE),
        (INSERT_SLICE, (numbers(2), numbers(4), 1, 2, 0), OUTSIDE),
        (INSERT_SLICE, (numbers(2), numbers(4), 0, -2, 1), OUTSIDE),
        (INSERT_SLICE, (numbers(9), numbers(4), 0, 9, 1), OUTSIDE),
        (
            INSERT_SLICE,
            (numbers(2), numbers(4), 0, 3, 1),
            "op has a source whose size differs from the slice",
        ),
        (EXTRACT_SLICE, (numbers(4), 3, 2, 1), OUTSIDE),
        (EXTRACT_SLICE, (numbers(4), 0, -2, 1), OUTSIDE),
        (INSERT_ROW, (numbers(2), numbers(2, 3), 2, 2), OUTSIDE),
        (
            INSERT_ROW,
            (numbers(2), numbers(2, 3), 1, 3),
            "op has a source whose size differs from the slice",
        ),
        (PAD, (numbers(4), -1, 0), "op has negative padding"),
        (PAD, (numbers(4), 0, -2), "op has negative padding"),
        (RESHAPE, (numbers(4), np.array([1, 2, 3])), ELEMENTS),
        (RESHAPE, (numbers(4), np.array([2, 1, 2])), ELEMENTS),
        (RESHAPE, (numbers(4), np.array([-1, 2, -2])), "op has a negative size"),
        (RESHAPE, (numbers(0), np.array([2**62, 2, 2])), ELEMENTS),
        (EXPAND_SHAPE, (numbers(4), 2, 3), ELEMENTS),
        (EXPAND_SHAPE, (numbers(4), -2, -2), "op has a negative size"),
        (EXPAND_SHAPE, (numbers(0), 2**32, 2**32), ELEMENTS),
        (
            CONCAT,
            (numbers(2, 1), numbers(3, 2)),
            "op has operands with different sizes outside of dimension 1",
        ),
    ],
)
def test_sizes_that_do_not_fit(
    text: str, arguments: Any, problem: str, capfd: pytest.CaptureFixture[str]
):
    with pytest.raises(
        ValueError,
        match=rf"^'f': invalid sizes or indices: .*({problem})",
    ):
        compile(text)(*arguments)
    assert capfd.readouterr().err == ""


def test_sizes_of_intermediate_values():
    """Of these nothing is known outside."""
    function = compile(
        """
func.func @f(%x: tensor<?xf32>, %y: tensor<?xf32>) -> f32 {
  %c0 = arith.constant 0 : index
  %0 = tensor.concat dim(0) %x, %y
      : (tensor<?xf32>, tensor<?xf32>) -> tensor<4xf32>
  %1 = tensor.extract %0[%c0] : tensor<4xf32>
  return %1 : f32
}"""
    )
    assert function(numbers(1), numbers(3)) == 1
    with pytest.raises(ValueError, match="has a result of a different size"):
        function(numbers(1), numbers(4))


def test_what_callbacks_raise(capfd: pytest.CaptureFixture[str]):
    """Python would print it, and compiled code would go on."""
    memory = np.zeros(3, np.float32)
    address = memory.ctypes.data
    engine = _Engine()
    runtime_library.register(engine, {})
    copy = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(
        engine.addresses["memrefCopy"]
    )
    descriptors = [
        (ctypes.c_int64 * 5)(address, address, 0, size, 1) for size in (3, 2)
    ]
    memrefs = [
        (ctypes.c_int64 * 2)(1, ctypes.addressof(descriptor))
        for descriptor in descriptors
    ]
    copy(4, *map(ctypes.addressof, memrefs))
    message = runtime_library.take_failure()
    assert isinstance(message, str)
    assert message.startswith("invalid sizes or indices: could not")
    assert runtime_library.take_failure() is None
    assert capfd.readouterr().err == ""


class _Engine:
    """Keeps what is registered."""

    def __init__(self):
        self.addresses: dict[str, int] = {}

    def raw_register_runtime(self, name: str, callback: ctypes.c_void_p) -> None:
        assert callback.value is not None
        self.addresses[name] = callback.value
