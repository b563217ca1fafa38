"""Histograms that are counted beside an observer."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_quant.calibration import Statistics, calibrate
from xdsl_quant.numerics.observers import observe_histogram

TEXT = """
func.func @f(%x: tensor<?x3xf32>, %n: index) {
  %y = quant.stats_ref %x "x" : tensor<?x3xf32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %r = scf.for %i = %zero to %n step %one iter_args(%a = %y) -> (tensor<?x3xf32>) {
    %b = arith.addf %a, %a : tensor<?x3xf32>
    %c = quant.stats_ref %b "doubled" : tensor<?x3xf32>
    scf.yield %c : tensor<?x3xf32>
  }
  return
}
"""
ARRAYS = [
    np.random.default_rng(seed).normal(0, 3.0**seed, (5, 3)).astype(np.float32)
    for seed in range(6)
]
BATCHES = [(array, 2) for array in ARRAYS]
OBSERVERS = ["min-max", "moving-average=0.75", "percentile=90"]
AXES = {"doubled": 1}


def calibrated(
    observer: str, batches: Any = BATCHES, histograms: bool = True, **options: Any
) -> Statistics:
    return calibrate(
        TEXT, batches, observer=observer, axes=AXES, histograms=histograms, **options
    )


@pytest.mark.parametrize("observer", OBSERVERS)
def test_values(observer: str):
    observations = calibrated(observer).observations
    x = np.concatenate(ARRAYS)
    assert observations["x"].histogram == observe_histogram(x)
    doubled = np.concatenate([2 * x, 4 * x])
    assert observations["doubled"].histogram == observe_histogram(doubled, 1)


@pytest.mark.parametrize("observer", OBSERVERS)
def test_ranges_are_the_same(observer: str):
    beside, alone = calibrated(observer), calibrated(observer, histograms=False)
    for key in ("x", "doubled"):
        assert beside.ranges(key) == alone.ranges(key)
        assert (
            beside.observations[key].observation == alone.observations[key].observation
        )


@pytest.mark.parametrize("observer", OBSERVERS)
def test_workers(observer: str):
    alone = calibrated(observer)
    with ThreadPoolExecutor(3) as executor:
        together = calibrated(observer, executor=executor)
    assert together == alone
    assert together.to_text() == alone.to_text()


class Interruption(Exception):
    pass


@pytest.mark.parametrize("observer", OBSERVERS)
def test_resuming(observer: str, tmp_path: Path):
    def interrupted() -> Iterator[Any]:
        yield from BATCHES[:3]
        raise Interruption

    file = tmp_path / "checkpoint.json"
    with pytest.raises(Interruption):
        calibrated(observer, interrupted(), checkpoint=file)
    assert Statistics.load(file).batch_count == 3
    resumed = calibrated(observer, checkpoint=file)
    assert resumed == calibrated(observer)
    assert resumed.to_text() == calibrated(observer).to_text()
