"""Values in loops, branches, functions that are called, and functions of several blocks."""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.calibration import Statistics, calibrate
from xdsl_quant.numerics.observers import parse_observer

pytestmark = pytest.mark.usefixtures("each_way")

Floats = NDArray[np.float32]
Values = dict[str, list[Floats]]
"""The values that each key has in a batch, in turn."""

OBSERVERS = ("min-max", "moving-average=0.75", "percentile=90", "entropy=4", "mse=4")


def numbers(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(seed, 2, shape).astype(np.float32)


def check(
    text: str,
    batches: Sequence[tuple[Any, ...]],
    values: Callable[..., Values],
    observer: str = "min-max",
) -> Statistics:
    """Statistics are those of all values of a batch at once."""
    statistics = calibrate(text, batches, "f", observer)
    watch = parse_observer(observer)
    expected: dict[str, Any] = {}
    for index, batch in enumerate(batches):
        for key, parts in values(*batch).items():
            whole = np.concatenate([part.ravel() for part in parts])
            seen = watch.observe(whole, None, index)
            expected[key] = expected[key].merge(seen) if key in expected else seen
    found = {key: o.observation for key, o in statistics.observations.items()}
    assert found == expected
    assert statistics.batch_count == len(batches)
    return statistics


LOOP = """
func.func @f(%n: index, %x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %r = scf.for %i = %zero to %n step %one iter_args(%acc = %x) -> (tensor<?x3xf32>) {
    %a = quant.stats_ref %acc "before" : tensor<?x3xf32>
    %s = arith.addf %a, %x : tensor<?x3xf32>
    %b = quant.stats_ref %s "sum" : tensor<?x3xf32>
    %t = arith.addf %b, %b : tensor<?x3xf32>
    scf.yield %t : tensor<?x3xf32>
  }
  %y = quant.stats_ref %r "after" : tensor<?x3xf32>
  return %y : tensor<?x3xf32>
}
"""


def loop_values(n: int, x: Floats) -> Values:
    acc, before, sums = x, list[Floats](), list[Floats]()
    for _ in range(n):
        before.append(acc)
        sums.append(acc + x)
        acc = sums[-1] + sums[-1]
    values = {"after": [acc]}
    return values | {"before": before, "sum": sums} if n else values


LOOP_BATCHES = [(n, numbers(2 + n, 3, seed=n)) for n in (3, 1, 0, 5)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("observer", OBSERVERS)
def test_loop(observer: str):
    statistics = check(LOOP, LOOP_BATCHES, loop_values, observer)
    assert statistics.ranges("after") != statistics.ranges("before")


def test_moving_average_of_a_loop():
    """The range of a batch is that of all values in it."""
    batches = [(2, np.full((1, 3), 1, np.float32)), (3, np.full((1, 3), 2, np.float32))]
    statistics = calibrate(LOOP, batches, observer="moving-average=0.5")
    # 1 and 4; 2, 8 and 20.
    assert statistics.ranges("before").layer == (1.5, 12)


def test_channels_in_a_loop():
    statistics = calibrate(LOOP, LOOP_BATCHES, axes={"before": 1})
    channels = [
        [
            part[:, i]
            for n, x in LOOP_BATCHES
            if n
            for part in loop_values(n, x)["before"]
        ]
        for i in range(3)
    ]
    expected = [
        (float(np.concatenate(c).min()), float(np.concatenate(c).max()))
        for c in channels
    ]
    assert statistics.ranges("before").axis_ranges == expected


def test_channels_that_differ_in_a_loop():
    text = """
func.func @f(%x: tensor<?xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = tensor.dim %x, %zero : tensor<?xf32>
  scf.for %i = %one to %n step %one {
    %s = tensor.extract_slice %x[0] [%i] [1] : tensor<?xf32> to tensor<?xf32>
    %y = quant.stats_ref %s "x" : tensor<?xf32>
  }
  return
}
"""
    message = r"^batch 0, key 'x': cannot merge .* with 1 channels and with 2 channels$"
    with pytest.raises(ValueError, match=message):
        calibrate(text, [np.ones(3, np.float32)], axes={"x": 0})


@pytest.mark.sampled(6)
@pytest.mark.parametrize("observer", OBSERVERS)
def test_workers_and_resuming(observer: str, tmp_path: Path):
    alone = calibrate(LOOP, LOOP_BATCHES, observer=observer)
    with ThreadPoolExecutor(3) as executor:
        together = calibrate(LOOP, LOOP_BATCHES, observer=observer, executor=executor)
    assert together.to_text() == alone.to_text()
    file = tmp_path / "checkpoint.json"
    for count in (1, 2, 4):
        resumed = calibrate(
            LOOP, LOOP_BATCHES[:count], observer=observer, checkpoint=file
        )
    assert resumed.to_text() == alone.to_text()  # pyright: ignore[reportPossiblyUnboundVariable] the loop runs


BRANCH = """
func.func @f(%c: i1, %x: tensor<2xf32>) -> tensor<2xf32> {
  %r = scf.if %c -> (tensor<2xf32>) {
    %d = arith.addf %x, %x : tensor<2xf32>
    %y = quant.stats_ref %d "then" : tensor<2xf32>
    scf.yield %y : tensor<2xf32>
  } else {
    %n = arith.negf %x : tensor<2xf32>
    %y = quant.stats_ref %n "else" : tensor<2xf32>
    scf.yield %y : tensor<2xf32>
  }
  return %r : tensor<2xf32>
}
"""


def branch_values(c: bool, x: Floats) -> Values:
    return {"then": [x + x]} if c else {"else": [-x]}


@pytest.mark.parametrize("observer", OBSERVERS)
def test_branches(observer: str):
    batches = [(bool(i % 3), numbers(2, seed=i)) for i in range(5)]
    check(BRANCH, batches, branch_values, observer)


def test_key_that_is_never_reached():
    batches = [(True, numbers(2))]
    message = "no batch reached key 'else'; add inputs that take this path"
    with pytest.raises(ValueError, match=f"^{message}$"):
        calibrate(BRANCH, batches)
    kept = calibrate(BRANCH, batches, missing="keep")
    assert [*kept.observations] == ["then"]


def test_key_that_is_reached_after_resuming(tmp_path: Path):
    file = tmp_path / "checkpoint.json"
    batches = [(True, numbers(2)), (False, numbers(2, seed=1))]
    with pytest.raises(ValueError, match=r"^no batch reached key 'else'"):
        calibrate(BRANCH, batches[:1], checkpoint=file)
    assert calibrate(BRANCH, batches, checkpoint=file) == calibrate(BRANCH, batches)


CALLS = """
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = func.call @double(%x) : (tensor<?xf32>) -> tensor<?xf32>
  %z = func.call @double(%y) : (tensor<?xf32>) -> tensor<?xf32>
  %n = arith.negf %z : tensor<?xf32>
  %w = quant.stats_ref %n "last" : tensor<?xf32>
  return %w : tensor<?xf32>
}
func.func private @double(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = arith.addf %x, %x : tensor<?xf32>
  %z = quant.stats_ref %y "double" : tensor<?xf32>
  return %z : tensor<?xf32>
}
func.func @other(%x: f32) -> f32 {
  %y = quant.stats_ref %x "unused" : f32
  return %y : f32
}
"""


@pytest.mark.parametrize("observer", OBSERVERS)
def test_function_that_is_called_twice(observer: str):

    def values(x: Floats) -> Values:
        return {"double": [x + x, 4 * x], "last": [-4 * x]}

    check(CALLS, [(numbers(size, seed=size),) for size in (1, 7, 4)], values, observer)


may_be_refused = pytest.mark.filterwarnings("ignore:falling back to the interpreter")
"""For what MLIR does not compile."""


@may_be_refused
def test_recursion():
    text = """
func.func @f(%n: index, %x: tensor<2xf32>) -> tensor<2xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %y = quant.stats_ref %x "x" : tensor<2xf32>
  %c = arith.cmpi eq, %n, %zero : index
  %r = scf.if %c -> (tensor<2xf32>) {
    scf.yield %y : tensor<2xf32>
  } else {
    %m = arith.subi %n, %one : index
    %z = arith.addf %y, %y : tensor<2xf32>
    %w = func.call @f(%m, %z) : (index, tensor<2xf32>) -> tensor<2xf32>
    scf.yield %w : tensor<2xf32>
  }
  return %r : tensor<2xf32>
}
"""

    def values(n: int, x: Floats) -> Values:
        return {"x": [x * 2**i for i in range(n + 1)]}

    check(text, [(n, numbers(2, seed=n)) for n in (0, 3)], values)


@pytest.mark.parametrize("observer", OBSERVERS)
def test_several_blocks(observer: str):
    text = """
func.func @f(%c: i1, %x: tensor<?xf32>) -> tensor<?xf32> {
  cf.cond_br %c, ^double, ^end(%x : tensor<?xf32>)
^double:
  %s = arith.addf %x, %x : tensor<?xf32>
  %a = quant.stats_ref %s "double" : tensor<?xf32>
  cf.br ^end(%a : tensor<?xf32>)
^end(%y: tensor<?xf32>):
  %b = quant.stats_ref %y "end" : tensor<?xf32>
  return %b : tensor<?xf32>
}
"""

    def values(c: bool, x: Floats) -> Values:
        return {"double": [x + x], "end": [x + x]} if c else {"end": [x]}

    batches = [(bool(i % 2), numbers(i + 1, seed=i)) for i in range(4)]
    check(text, batches, values, observer)


def test_loop_of_blocks():
    text = """
func.func @f(%n: index, %x: tensor<2xf32>) -> tensor<2xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  cf.br ^head(%zero, %x : index, tensor<2xf32>)
^head(%i: index, %acc: tensor<2xf32>):
  %a = quant.stats_ref %acc "head" : tensor<2xf32>
  %c = arith.cmpi slt, %i, %n : index
  cf.cond_br %c, ^body, ^end
^body:
  %s = arith.addf %a, %a : tensor<2xf32>
  %b = quant.stats_ref %s "body" : tensor<2xf32>
  %j = arith.addi %i, %one : index
  cf.br ^head(%j, %b : index, tensor<2xf32>)
^end:
  return %a : tensor<2xf32>
}
"""

    def values(n: int, x: Floats) -> Values:
        body = {"body": [x * 2**i for i in range(1, n + 1)]} if n else {}
        return {"head": [x * 2**i for i in range(n + 1)], **body}

    check(text, [(n, numbers(2, seed=n)) for n in (0, 2, 5)], values)


def test_while_and_call_in_a_loop():
    text = """
func.func @f(%limit: f32, %x: f32) -> f32 {
  %r = scf.while (%a = %x) : (f32) -> (f32) {
    %b = quant.stats_ref %a "before" : f32
    %c = arith.cmpf olt, %b, %limit : f32
    scf.condition(%c) %b : f32
  } do {
  ^bb0(%a: f32):
    %d = func.call @g(%a) : (f32) -> f32
    scf.yield %d : f32
  }
  return %r : f32
}
func.func @g(%x: f32) -> f32 {
  %y = arith.addf %x, %x : f32
  %z = quant.stats_ref %y "g" : f32
  return %z : f32
}
"""

    def values(limit: float, x: float) -> Values:
        before = [np.array([x], np.float32)]
        while before[-1][0] < limit:
            before.append(2 * before[-1])
        return {"before": before, **({"g": before[1:]} if before[1:] else {})}

    check(text, [(5.0, 1.0), (0.5, 0.75), (100.0, 3.0)], values)


def test_values_stay_what_they_are():
    """Neither another value nor a result may take the place of what is looked at."""
    text = """
#map = affine_map<(d0) -> (d0)>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = quant.stats_ref %x "x" : tensor<4xf32>
  %b = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<4xf32>
  %c = quant.stats_ref %b "sum" : tensor<4xf32>
  %s = tensor.extract_slice %c[0] [2] [2] : tensor<4xf32> to tensor<2xf32>
  %d = quant.stats_ref %s "slice" : tensor<2xf32>
  %i = tensor.insert_slice %d into %c[1] [2] [1] : tensor<2xf32> into tensor<4xf32>
  %e = quant.stats_ref %i "inserted" : tensor<4xf32>
  %again = quant.stats_ref %c "sum, again" : tensor<4xf32>
  return %e : tensor<4xf32>
}
"""

    def values(x: Floats) -> Values:
        total = 2 * x
        inserted = total.copy()
        inserted[1:3] = total[::2]
        return {
            "x": [x],
            "sum": [total],
            "slice": [total[::2]],
            "inserted": [inserted],
            "sum, again": [total],
        }

    check(text, [(numbers(4, seed=seed),) for seed in range(3)], values, "percentile")


@pytest.mark.parametrize("type_", ["f16", "bf16", "f32", "f64"])
def test_float_types(type_: str):
    text = f"""
func.func @f(%x: tensor<2x2x{type_}>, %s: {type_}) {{
  %y = quant.stats_ref %x "tensor" : tensor<2x2x{type_}>
  %t = quant.stats_ref %s "scalar" : {type_}
  return
}}
"""
    statistics = calibrate(text, [([[1, -2.5], [0, 3]], 0.5)])
    assert statistics.ranges("tensor").layer == (-2.5, 3)
    assert statistics.ranges("scalar").layer == (0.5, 0.5)


@pytest.mark.parametrize("is_nan", [False, True])
def test_error_in_a_loop(is_nan: bool):
    """Only the first one is told, though the loop goes on."""
    what, batch = ("NaN", np.nan) if is_nan else ("infinity", np.inf)
    batches = [LOOP_BATCHES[0], (3, np.full((1, 3), batch, np.float32))]
    message = f"batch 1, key 'before': expected finite values, found {what}; leave out"
    with pytest.raises(ValueError, match=f"^{re.escape(message)} "):
        calibrate(LOOP, batches)
    # What is compiled is as good as before.
    check(LOOP, LOOP_BATCHES, loop_values)


def test_body_of_another_op():
    text = """#map = affine_map<(d0) -> (d0)>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = quant.stats_ref %in "x" : f32
    linalg.yield %0 : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
    message = (
        "module:6:5: error: 'quant.stats_ref' op is in the body of 'linalg.generic', but "
        "only values in functions, loops and branches are calibrated"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        calibrate(text, [np.zeros(4, np.float32)])
