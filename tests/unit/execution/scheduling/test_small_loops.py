"""Loops that LLVM neither unrolls nor vectorizes."""

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("mlir", reason="no MLIR bindings")

from xdsl_quant.execution import compile
from xdsl_quant.execution.mlir_bindings import ir, ops_in
from xdsl_quant.execution.scheduling import schedule
from xdsl_quant.execution.scheduling.outlining import keep_small_loops_scalar


@pytest.mark.parametrize(
    ("outer", "inner", "are_plain"),
    [
        ("%c64", "%c64", [True, True]),
        # 64 iterations of the outer loop, and 65 times as many of the inner one.
        ("%c64", "%c65", [True, False]),
        ("%n", "%c64", [False, False]),
        ("%c64", "%n", [True, False]),
    ],
)
def test_iterations_in_a_call(outer: str, inner: str, are_plain: list[bool]):
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"""
func.func @f(%to: memref<?xindex>, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %c65 = arith.constant 65 : index
  scf.for %i = %c0 to {outer} step %c1 {{
    scf.for %j = %c0 to {inner} step %c1 {{
      memref.store %i, %to[%j] : memref<?xindex>
    }}
  }}
  return
}}""")
        keep_small_loops_scalar(module)
        assert module.operation.verify()
        # The walk visits inner ops first.
        inner_loop, outer_loop = ops_in(module, "scf.for")
        found = ["loop_annotation" in op.attributes for op in (outer_loop, inner_loop)]
        assert found == are_plain


TEXT = """
func.func private @see(tensor<3x5xf32>)
func.func @main(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %y = math.tanh %x : tensor<3x5xf32>
  CALL
  %z = arith.divf %x, %y : tensor<3x5xf32>
  return %z : tensor<3x5xf32>
}"""
CALL = "func.call @see(%y) : (tensor<3x5xf32>) -> ()"


def test_numbers_are_the_same():
    x = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    seen: list[NDArray[np.float32]] = []

    def see(values: NDArray[np.float32]) -> None:
        seen.append(values.copy())

    plain = compile(TEXT.replace("CALL", CALL), host_functions={"see": see})
    fast = compile(TEXT.replace("CALL", ""))
    np.testing.assert_array_equal(plain(x), fast(x))
    np.testing.assert_allclose(seen, [np.tanh(x)], rtol=1e-6)


def test_a_failure_is_left_out(monkeypatch: pytest.MonkeyPatch):
    def keep_small_loops_scalar(_: object) -> None:
        raise KeyError("an op")

    name = keep_small_loops_scalar.__name__
    monkeypatch.setattr(schedule, name, keep_small_loops_scalar)
    seen: list[int] = []

    def see(values: NDArray[np.float32]) -> None:
        seen.append(values.size)

    with pytest.warns(
        RuntimeWarning, match=f"scheduling step '{name}' failed: KeyError"
    ):
        function = compile(
            TEXT.replace("CALL", CALL), host_functions={"see": see}, schedule=True
        )
    x = np.ones((3, 5), np.float32)
    np.testing.assert_array_equal(function(x), compile(TEXT.replace("CALL", ""))(x))
    assert seen == [15]
