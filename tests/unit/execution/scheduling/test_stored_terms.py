"""Values that loops would compute more than once are stored."""

from collections.abc import Sequence

import numpy as np
import pytest

from xdsl_quant.execution import compile
from xdsl_quant.execution.mlir_bindings import ir, ops_in
from xdsl_quant.execution.scheduling import schedule
from xdsl_quant.execution.scheduling.stored_terms import store_repeated_terms


def product(
    body: str, size: str = "64", sums: str = "f32", maps: Sequence[str] = ("i, k", "i")
) -> str:
    """
    A product of `f(a, b)` and `c`, where `a` and `b` have these maps; the body computes
    %p from %a, %b and %c.
    """
    n = size
    types = [
        f"tensor<{'x'.join('8' if loop == 'i' else n for loop in m.split(', '))}xf32>"
        for m in maps
    ]
    listed = ", ".join(
        f"affine_map<(i, j, k) -> ({m})>" for m in (*maps, "k, j", "i, j")
    )
    element = "f32" if sums == "f32" else "i8"
    add = "addf" if sums == "f32" else "addi"
    return f"""
        func.func @f(%x: {types[0]}, %y: {types[1]}, %w: tensor<{n}x32x{element}>,
            %o: tensor<8x32x{sums}>) -> tensor<8x32x{sums}> {{
          %r = linalg.generic {{indexing_maps = [{listed}],
              iterator_types = ["parallel", "parallel", "reduction"]}}
              ins(%x, %y, %w : {types[0]}, {types[1]}, tensor<{n}x32x{element}>)
              outs(%o : tensor<8x32x{sums}>) {{
          ^bb0(%a: f32, %b: f32, %c: {element}, %d: {sums}):
            {body}
            %s = arith.{add} %d, %p : {sums}
            linalg.yield %s : {sums}
          }} -> tensor<8x32x{sums}>
          return %r : tensor<8x32x{sums}>
        }}"""


FLOATS = """
    %q = arith.divf %a, %b : f32
    %p = arith.mulf %q, %c : f32"""

BYTES = """
    %low = arith.constant -127.0 : f32
    %high = arith.constant 127.0 : f32
    %q = arith.mulf %a, %b : f32
    %0 = math.roundeven %q : f32
    %1 = arith.maxnumf %0, %low : f32
    %2 = arith.minnumf %1, %high : f32
    %3 = arith.fptosi %2 : f32 to i32
    %4 = arith.extsi %c : i8 to i32
    %p = arith.muli %3, %4 : i32"""


def reductions(text: str) -> list[list[str]]:
    """The types of operands of each reduction, and whether its body has other ops."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        store_repeated_terms(module)
        module.operation.verify()
        return [
            [str(operand.type) for operand in op.operands]
            for op in ops_in(module, "linalg.generic")
            if "reduction" in str(op.attributes["iterator_types"])
        ]


def test_factor_is_stored():
    (types,) = reductions(product(FLOATS))
    assert types == ["tensor<64x32xf32>", "tensor<1x8x64xf32>", "tensor<8x32xf32>"]


def test_dynamic_factor_is_stored():
    (types,) = reductions(product(FLOATS, "?"))
    assert types[1] == "tensor<1x8x?xf32>"


def test_clamped_integers_are_stored_as_bytes():
    (types,) = reductions(product(BYTES, sums="i32"))
    assert types == ["tensor<64x32xi8>", "tensor<1x8x64xi8>", "tensor<8x32xi32>"]
    (types,) = reductions(product(BYTES.replace("-127.0", "0.0"), sums="i32"))
    assert types[1] == "tensor<1x8x64xi8>"
    (types,) = reductions(product(BYTES.replace("-127.0", "-129.0"), sums="i32"))
    assert types[1] == "tensor<1x8x64xi32>"


def test_unordered_maps():
    (types,) = reductions(product(FLOATS, maps=("k, i", "k, i")))
    assert types[1] == "tensor<1x64x8xf32>"


@pytest.mark.parametrize(
    "text",
    [
        # Computed once for each element of the result and of what is summed up
        product("%p = arith.divf %a, %c : f32"),
        # Might trap where the loop has no iterations
        product(
            """
            %q = arith.fptosi %a : f32 to i32
            %t = arith.fptosi %b : f32 to i32
            %e = arith.divsi %q, %t : i32
            %g = arith.sitofp %e : i32 to f32
            %p = arith.mulf %g, %c : f32"""
        ),
        # Depends on the sums
        product(
            """
            %q = arith.mulf %a, %d : f32
            %p = arith.mulf %q, %c : f32"""
        ),
    ],
)
def test_what_is_not_stored(text: str):
    (types,) = reductions(text)
    assert len(types) == 4


@pytest.mark.parametrize("maps", [("i, k", "i"), ("k, i", "k, i")])
@pytest.mark.parametrize("low", ["-127.0", "0.0", "-129.0"])
def test_results(low: str, maps: Sequence[str]):
    rng = np.random.default_rng(0)
    x, y = (
        rng.normal(size=[{"i": 8, "k": 64}[loop] for loop in m.split(", ")]) * 30
        for m in maps
    )
    x, y = x.astype(np.float32), np.abs(y).astype(np.float32)
    w = rng.integers(-128, 128, (64, 32)).astype(np.int8)
    start = np.arange(256, dtype=np.int32).reshape(8, 32)
    a, b = (v.T if m == "k, i" else v for v, m in zip((x, y), maps, strict=True))
    b = b[:, None] if b.ndim == 1 else b
    stored = np.clip(np.rint(a * b), float(low), 127).astype(np.int32)
    text = product(BYTES.replace("-127.0", low), sums="i32", maps=maps)
    expected = start + stored @ w.astype(np.int32)
    np.testing.assert_array_equal(compile(text)(x, y, w, start), expected)


SOFTMAX = """
func.func @f(%x: tensor<5x40xf32>) -> tensor<5x40xf32> {
  %0 = "tfl.softmax"(%x) {beta = 1.0 : f32} : (tensor<5x40xf32>) -> tensor<5x40xf32>
  return %0 : tensor<5x40xf32>
}"""


def test_softmax_computes_exponentials_once(monkeypatch: pytest.MonkeyPatch):
    counts: list[int] = []
    original = schedule.FastSchedule.schedule_loops

    def spy(self: schedule.FastSchedule, module: ir.Module) -> None:
        counts.append(len(ops_in(module, "math.exp")))
        original(self, module)

    monkeypatch.setattr(schedule.FastSchedule, "schedule_loops", spy)
    x = np.random.default_rng(0).normal(size=(5, 40)).astype(np.float32)
    found = compile(SOFTMAX)(x)
    exact = np.exp(x.astype(np.float64))
    exact /= exact.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, exact, rtol=1e-6)
    assert counts == [1]


POOL = """
func.func @f(%x: tensor<1x9x9x4xf32>) -> tensor<1x7x7x4xf32> {
  %0 = "tfl.NAME"(%x) : (tensor<1x9x9x4xf32>) -> tensor<1x9x9x4xf32>
  %1 = "tfl.average_pool_2d"(%0) {padding = "VALID", filter_height = 3 : i32,
    filter_width = 3 : i32, stride_h = 1 : i32, stride_w = 1 : i32,
    fused_activation_function = "NONE"} : (tensor<1x9x9x4xf32>) -> tensor<1x7x7x4xf32>
  return %1 : tensor<1x7x7x4xf32>
}"""


@pytest.mark.parametrize(
    ("name", "count"), [("tanh", 1), ("hard_swish", 1), ("abs", 0)]
)
def test_operands_of_windows(name: str, count: int, monkeypatch: pytest.MonkeyPatch):
    """Operands with several ops are stored, as windows overlap."""
    found: list[int] = []

    def spy(module: ir.Module) -> None:
        before = len(ops_in(module, "tensor.reshape"))
        store_repeated_terms(module)
        found.append(len(ops_in(module, "tensor.reshape")) - before)

    monkeypatch.setattr(schedule, "store_repeated_terms", spy)
    x = np.linspace(-2, 2, 9 * 9 * 4).reshape(1, 9, 9, 4).astype(np.float32)
    result = compile(POOL.replace("NAME", name))(x)
    assert found == [count]
    plain = compile(POOL.replace("NAME", name), schedule=False)(x)
    np.testing.assert_array_equal(result, plain)
