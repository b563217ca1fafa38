"""Large products by several threads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.execution.scheduling.guarded_memory import before_no_page
from tests.unit.execution.scheduling.test_byte_products import (
    product,
    some,
)
from xdsl_quant.execution import compilation, compile, machine_code
from xdsl_quant.execution.scheduling import byte_products, thread_calls
from xdsl_quant.execution.scheduling.thread_calls import _Work  # pyright: ignore[reportPrivateUsage] tested

pytestmark = pytest.mark.usefixtures("byte_products")

THREADS = [1, 2, 3, 50]


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(byte_products, "_MIN_THREADED_PRODUCTS", 40)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many functions are called at the same time, for each product."""
    numbers: list[int] = []

    def work(functions: Sequence[Callable[[int], None]], address: int) -> _Work:
        numbers.append(len(functions))
        return _Work(functions, address)

    monkeypatch.setattr(thread_calls, "_Work", work)
    return numbers


@pytest.mark.sampled(5)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("rows", [1, 2, 13, 31])
@pytest.mark.parametrize(("depth", "columns"), [(3, 15), (40, 64), (7, 130)])
def test_matrices(threads: int, rows: int, depth: int, columns: int, seen: list[int]):
    weights, x = some(depth, columns), some(rows, depth)
    start = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    function = compile(product(x.shape, weights, start.shape), threads=threads)
    expected = start + x.astype(np.int32) @ weights.astype(np.int32)
    with before_no_page(x) as array:
        assert function(array, start).tolist() == expected.tolist()
    count = min(threads, rows)
    assert seen == ([] if count == 1 else [count])


def test_code_from_the_cache(
    seen: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDSL_QUANT_CACHE", str(tmp_path))
    weights, x, start = some(8, 15), some(7, 8), np.ones((7, 15), np.int32)
    text = product(x.shape, weights, start.shape)
    expected = start + x.astype(np.int32) @ weights.astype(np.int32)
    for _ in range(2):
        # As in a new process.
        monkeypatch.setattr(compilation, "_cache", OrderedDict[object, object]())
        function = compile(text, threads=3)
        assert function(x, start).tolist() == expected.tolist()
        # The second one finds this machine code.
        monkeypatch.setattr(machine_code, "MachineCode", None)
    assert seen == [3, 3]


@pytest.mark.parametrize("threads", THREADS)
def test_windows_with_what_follows(threads: int, seen: list[int]):
    """A convolution of several images, whose sums are rounded at once."""
    weights, x = some(3, 3, 5, 20), some(2, 9, 8, 5)
    result, sums = "tensor<2x7x6x20xi8>", "tensor<2x7x6x20xi32>"
    maps = "(n, h + i, w + j, c)", "(i, j, c, o)", "(n, h, w, o)"
    loops = "n, h, w, o, i, j, c"
    text = product(x.shape, weights, (2, 7, 6, 20), maps, loops)
    text = text.replace(f", %c: {sums}", "").replace(
        "%w = ", f"%c = arith.constant dense<7> : {sums}\n  %w = "
    )
    text = text.replace(f") -> {sums} {{", f") -> {result} {{", 1).replace(
        f"return %0 : {sums}",
        f"""%e = arith.constant dense<9> : {sums}
  %1 = arith.shrsi %0, %e : {sums}
  %2 = arith.trunci %1 : {sums} to {result}
  return %2 : {result}""",
    )
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(int), (3, 3), (1, 2))
    exact = np.einsum("nhwcij,ijco->nhwo", windows, weights.astype(int)) + 7
    function = compile(text, threads=threads)
    assert np.array_equal(function(x), (exact >> 9).astype(np.int8))
    assert seen == ([] if threads == 1 else [min(threads, 2)])


def call_and_weights() -> tuple[
    Callable[[NDArray[np.int8]], NDArray[np.int32]], NDArray[np.int8]
]:
    weights = some(16, 16)
    start = np.zeros((16, 16), np.int32)
    function = compile(product((16, 16), weights, (16, 16)), threads=2)
    return lambda x: function(x, start), weights


def test_many_callers():
    call, weights = call_and_weights()
    inputs = [some(16, 16) for _ in range(100)]
    with ThreadPoolExecutor(8) as executor:
        results = [*executor.map(call, inputs)]
    for x, result in zip(inputs, results, strict=True):
        assert np.array_equal(result, x.astype(np.int32) @ weights.astype(np.int32))


@pytest.mark.parametrize("failing", ["_pool", "start"])
def test_threads_that_do_not_start(failing: str, monkeypatch: pytest.MonkeyPatch):
    """The thread of the caller does it all, and calls after that are not disturbed."""
    call, weights = call_and_weights()
    thread_calls._pool.cache_clear()  # pyright: ignore[reportPrivateUsage] tested

    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(thread_calls if failing == "_pool" else Thread, failing, fail)
        for _ in range(3):
            x = some(16, 16)
            assert np.array_equal(
                call(x), x.astype(np.int32) @ weights.astype(np.int32)
            )
    for _ in range(3):
        x = some(16, 16)
        assert np.array_equal(call(x), x.astype(np.int32) @ weights.astype(np.int32))


def test_helpers_that_come_late():
    """Nothing of a call that is over is done."""
    called: list[int] = []
    work = _Work([called.append] * 2, 7)
    work.do()
    work.wait()
    work.help()
    assert called == [7, 7]


def test_interrupted_while_waiting(monkeypatch: pytest.MonkeyPatch):
    """The memory of a call is there until all threads have returned."""
    start, go, returned = Event(), Event(), Event()

    def slow(_: int) -> None:
        start.set()
        assert go.wait(10)
        returned.set()

    work = _Work([slow, lambda _: None], 0)
    helper = Thread(target=work.help)
    helper.start()
    assert start.wait(10)

    def interrupted(_: Callable[[], bool]) -> None:
        monkeypatch.undo()
        go.set()
        raise KeyboardInterrupt

    monkeypatch.setattr(work._changed, "wait_for", interrupted)  # pyright: ignore[reportPrivateUsage] tested
    with pytest.raises(KeyboardInterrupt):
        work.wait()
    assert returned.is_set()
    helper.join()


AT_EXIT = """
import atexit
import numpy as np
from tests.unit.execution.scheduling.test_thread_calls import call_and_weights
from xdsl_quant.execution.scheduling import byte_products

byte_products._MIN_THREADED_PRODUCTS = 40
call, weights = call_and_weights()
x = weights.T.copy()
expected = call(x)
atexit.register(lambda: print(np.array_equal(call(x), expected)))
"""


def test_at_the_end_of_a_process():
    """There are no new threads by then."""
    result = subprocess.run(
        [sys.executable, "-c", AT_EXIT], check=True, timeout=100, stdout=subprocess.PIPE
    )
    assert result.stdout == b"True\n"


FORK = """
import os
import numpy as np
from tests.unit.execution.scheduling.test_thread_calls import call_and_weights
from xdsl_quant.execution.scheduling import byte_products

byte_products._MIN_THREADED_PRODUCTS = 40
call, weights = call_and_weights()
x = weights.T.copy()
expected = call(x)
if child := os.fork():
    _, status = os.waitpid(child, 0)
    raise SystemExit(os.waitstatus_to_exitcode(status))
os._exit(0 if np.array_equal(call(x), expected) else 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_after_a_fork():
    """Threads do not live on in another process, which has its own."""
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=100)


def test_profile():
    weights = some(40, 64)
    function = compile(product((8, 40), weights, (8, 64)), threads=2)
    rows = function.profile(some(8, 40), np.zeros((8, 64), np.int32)).rows
    assert [row.products for row in rows if row.products] == [8 * 40 * 64]


@pytest.mark.parametrize("threads", [0, -1, True, 1.0, "2"])
def test_mistakes(threads: object):
    text = "func.func @f() { return }"
    with pytest.raises(ValueError, match=r"^threads must be a positive int, not "):
        compile(text, threads=threads)  # pyright: ignore[reportArgumentType] tested
    assert compile(text, threads=2) is not compile(text)
