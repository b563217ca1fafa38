"""Dynamic sizes of results, which a compiled function finds out before it runs."""

import numpy as np
import pytest

from xdsl_quant.execution import compile


def test_sizes_follow_the_shapes_of_arguments():
    function = compile(
        """
func.func @twice(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %y = arith.addf %x, %x : tensor<?x2xf32>
  return %y : tensor<?x2xf32>
}"""
    )
    for size in (3, 3, 1, 0, 3):
        x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
        np.testing.assert_array_equal(function(x), 2 * x)


def test_sizes_follow_the_values_of_arguments():
    function = compile(
        """
func.func @zeros(%size: index) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty(%size) : tensor<?xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<?xf32>) -> tensor<?xf32>
  return %zeros : tensor<?xf32>
}"""
    )
    assert [function(size).shape for size in (3, 3, 5, 0)] == [(3,), (3,), (5,), (0,)]


def test_sizes_follow_the_elements_of_arguments():
    function = compile(
        """
func.func @zeros(%sizes: tensor<2xindex>) -> tensor<?xf32> {
  %one = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %size = tensor.extract %sizes[%one] : tensor<2xindex>
  %empty = tensor.empty(%size) : tensor<?xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<?xf32>) -> tensor<?xf32>
  return %zeros : tensor<?xf32>
}"""
    )
    for size in (2, 4, 4, 1):
        assert function(np.array([7, size])).shape == (size,)


def test_shapes_that_do_not_fit_are_an_error_each_time():
    function = compile(
        """
func.func @sum(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %z = arith.addf %x, %y : tensor<?xf32>
  return %z : tensor<?xf32>
}"""
    )
    two, three = np.ones(2, np.float32), np.ones(3, np.float32)
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid sizes or indices"):
            function(two, three)
        assert function(three, three).tolist() == [2, 2, 2]
