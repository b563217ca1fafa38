"""
Products without contraction, and reductions over no dimension: what they begin with is an
input, as MLIR fuses a loop nest that reads its outputs with a broadcast in a wrong way.
"""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp

from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes, parse_module

FLOATS = (
    "stablehlo-legalize-quantized-op-to-qdq,stablehlo-casts-to-quant,"
    "lower-quant-ops{rounding-mode=nearest-even keep-qdq=true},"
    "convert-stablehlo-to-linalg"
)
INTEGERS = "stablehlo-legalize-quant-to-integer,convert-stablehlo-to-linalg"

PRODUCT = """
!x = tensor<2x3x!quant.uniform<i8:f32, 0.5:-128>>
!w = tensor<4x!quant.uniform<i8:f32, 0.25>>
!r = tensor<2x3x4x!quant.uniform<i8:f32, 16.3:-7>>
func.func @f(%x: !x, %w: !w) -> !r {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [] x [] : (!x, !w) -> !r
  return %0 : !r
}
"""

REDUCTION = """
!q = !quant.uniform<i8:f32, 0.5:-7>
func.func @f(%x: tensor<2x3x!q>, %y: tensor<!q>) -> tensor<2x3x!q> {
  %0 = stablehlo.reduce(%x init: %y) applies stablehlo.add across dimensions = []
      : (tensor<2x3x!q>, tensor<!q>) -> tensor<2x3x!q>
  return %0 : tensor<2x3x!q>
}
"""


def product(x: NDArray[Any], w: NDArray[Any]) -> NDArray[Any]:
    real = (x[..., None] + 128.0) * 0.5 * w * 0.25
    return np.clip(np.rint(real / 16.3) - 7, -128, 127)


def reduction(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    return np.clip(x + 7.0 + y, -128, 127)


def reads_outputs(op: GenericOp) -> bool:
    kinds = {kind.data for kind in op.iterator_types}
    outputs = op.body.block.args[len(op.inputs) :]
    return IteratorType.REDUCTION not in kinds and any(o.first_use for o in outputs)


@pytest.mark.parametrize("passes", [FLOATS, INTEGERS])
@pytest.mark.parametrize(
    ("text", "reference", "shapes"),
    [(PRODUCT, product, ((2, 3), (4,))), (REDUCTION, reduction, ((2, 3), ()))],
)
def test_nothing_reads_its_outputs(
    text: str, reference: Any, shapes: tuple[tuple[int, ...], ...], passes: str
):
    module = parse_module(text)
    apply_passes(module, passes)
    generics = [op for op in module.walk() if isinstance(op, GenericOp)]
    assert generics
    assert not any(map(reads_outputs, generics))
    random = np.random.default_rng(0)
    arrays = [random.integers(-128, 128, shape, np.int8) for shape in shapes]
    expected = reference(*arrays)
    np.testing.assert_array_equal(compile(module)(*arrays), expected)
    np.testing.assert_array_equal(run_function(module, "f", *arrays)[0], expected)
