"""What was compiled is not compiled again."""

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from xdsl_quant.execution import CompiledFunction, compilation, compile
from xdsl_quant.runtime.loading import parse_module

TEXT = """
!q = !quant.uniform<i8:f32, 0.5>
func.func @main(%x: tensor<?xf32>) -> tensor<?x!q> {
  %q = quant.qcast %x : tensor<?xf32> to tensor<?x!q>
  return %q : tensor<?x!q>
}
func.func @other(%x: f32) -> f32 { return %x : f32 }
"""


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compilation, "_cache", OrderedDict[object, object]())


def test_same_content():
    function = compile(TEXT)
    assert compile(TEXT) is function
    assert compile(TEXT, None, rounding_mode="nearest-even", fuse=True) is function
    # A module is known by its text.
    from_module = compile(parse_module(TEXT))
    assert compile(parse_module(TEXT)) is from_module


def test_other_content():
    functions = {
        compile(TEXT),
        compile(TEXT, "other"),
        compile(TEXT, rounding_mode="nearest-away"),
        compile(TEXT, zero_point_order="after-rounding"),
        compile(TEXT, nan="stored-zero"),
        compile(TEXT, fuse=False),
        *(compile(TEXT, schedule=flag) for flag in (True, False)),
        compile(TEXT.replace("0.5", "0.25")),
    }
    assert len(functions) == 8


def test_a_module_that_was_changed():
    module = parse_module(TEXT)
    function = compile(module, "main")
    other = module.body.block.last_op
    assert other is not None
    other.detach()
    assert compile(module, "main") is not function


def test_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compilation, "_MAX_CACHED", 2)
    first = compile(TEXT)
    second = compile(TEXT, "other")
    # Used again, it is not the oldest any more.
    assert compile(TEXT) is first
    compile(TEXT, fuse=False)
    assert compile(TEXT) is first
    assert compile(TEXT, "other") is not second
    # It still works.
    assert second(1.5) == 1.5


def test_failures_are_not_kept():
    for _ in range(2):
        with pytest.raises(ValueError, match="unknown function"):
            compile(TEXT, "nothing")


def test_many_threads():
    def run(i: int) -> tuple[CompiledFunction, bool]:
        function = compile(TEXT)
        x = np.full(1000 + i, i, np.float32)
        expected = np.full(1000 + i, min(2 * i, 127))
        is_right = np.array_equal(function(x), expected)
        try:
            function(x[:, None])
        except ValueError as e:
            return function, is_right and "rank 2" in str(e)
        return function, False

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(run, range(40)))
    assert len({function for function, _ in results}) == 1
    assert all(is_right for _, is_right in results)
