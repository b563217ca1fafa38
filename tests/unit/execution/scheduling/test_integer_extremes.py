"""Integers order floats like `arith.maximumf` and `arith.minimumf`."""

import numpy as np
import pytest

from xdsl_quant.execution import compile
from xdsl_quant.execution.cpu import CpuName, available_cpus
from xdsl_quant.execution.mlir_bindings import ir, ops_in
from xdsl_quant.execution.scheduling.integer_extremes import compare_integers


def extremes(name: str, type_: str = "f32", columns: str = "?", body: str = "") -> str:
    """Combine each row with a start value; `body` may compute %t from %x."""
    row, matrix = f"tensor<?x{type_}>", f"tensor<?x{columns}x{type_}>"
    return f"""
        func.func @f(%a: {matrix}, %b: {row}) -> {row} {{
          %r = linalg.generic {{indexing_maps = [
              affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
              iterator_types = ["parallel", "reduction"]}}
              ins(%a : {matrix}) outs(%b : {row}) {{
          ^bb0(%x: {type_}, %o: {type_}):
            {body}
            %s = arith.{name} %o, {"%t" if body else "%x"} : {type_}
            linalg.yield %s : {type_}
          }} -> {row}
          return %r : {row}
        }}"""


def combines_integers(text: str) -> bool:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        compare_integers(module)
        module.operation.verify()
        return bool(ops_in(module, "arith.maxsi", "arith.minsi"))


def test_what_combines_integers():
    assert combines_integers(extremes("maximumf"))
    assert combines_integers(extremes("minimumf", "f64"))
    assert combines_integers(extremes("maximumf", body="%t = math.absf %x : f32"))
    named = """
        func.func @f(%a: tensor<3x5xf32>, %b: tensor<3xf32>) -> tensor<3xf32> {
          %r = linalg.reduce {arith.maximumf} ins(%a : tensor<3x5xf32>)
            outs(%b : tensor<3xf32>) dimensions = [1]
          return %r : tensor<3xf32>
        }"""
    assert combines_integers(named)
    assert not combines_integers(extremes("maxnumf"))
    assert not combines_integers(extremes("maximumf", "f16"))
    assert not combines_integers(extremes("addf"))
    depends = "%t = arith.addf %x, %o : f32"
    assert not combines_integers(extremes("maximumf", body=depends))


@pytest.mark.parametrize("cpu", available_cpus())
@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("name", ["maximumf", "minimumf"])
def test_special_values(name: str, type_: str, cpu: CpuName):
    dtype = np.dtype(type_.replace("f", "float"))
    limits = np.finfo(dtype)
    nan, tiny = np.array(np.nan, dtype), limits.smallest_subnormal
    special = [0.0, -0.0, tiny, -tiny, limits.tiny, limits.max, limits.min, 1, -1]
    special += [np.inf, -np.inf, nan, np.copysign(nan, -1)]
    values = np.array(special, dtype)
    pairs = np.stack([np.repeat(values, len(values)), np.tile(values, len(values))], 1)
    x, start = np.repeat(pairs, 20, axis=1), pairs[:, 0]
    text = extremes(name, type_)
    found = compile(text, cpu=cpu)(x, start)
    expected = compile(text, schedule=False)(x, start)
    is_nan = np.isnan(pairs).any(axis=1)
    np.testing.assert_array_equal(np.isnan(found), is_nan)
    assert found[~is_nan].tobytes() == expected[~is_nan].tobytes()
    # Zeros are ordered.
    ends = pairs.max(axis=1) if name == "maximumf" else pairs.min(axis=1)
    np.testing.assert_array_equal(found[~is_nan], ends[~is_nan])
    is_zero = (pairs == 0).all(axis=1)
    signs = np.signbit(pairs[is_zero])
    negative = signs.all(axis=1) if name == "maximumf" else signs.any(axis=1)
    np.testing.assert_array_equal(np.signbit(found[is_zero]), negative)


@pytest.mark.parametrize("columns", [1, 15, 33, 150])
def test_rows(columns: int):
    x = np.random.default_rng(columns).normal(size=(3, columns)).astype(np.float32)
    start = np.full(3, -9, np.float32)
    body = "%c = arith.constant -2.0 : f32 %t = arith.mulf %x, %c : f32"
    found = compile(extremes("maximumf", columns=str(columns), body=body))(x, start)
    np.testing.assert_array_equal(found, (-2 * x).max(axis=1))
