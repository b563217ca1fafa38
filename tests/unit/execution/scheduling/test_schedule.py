"""Steps of scheduling that fail are left out, with a warning that names them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from tests.cpus.foreign_code import foreign_code
from tests.unit.execution.other_cpus import (
    EMULATED,
    LoweredModule,
)
from tests.unit.execution.scheduling.test_byte_products import product, some
from xdsl_quant.execution import disk_cache
from xdsl_quant.execution.compiled_function import CompiledFunction
from xdsl_quant.execution.cpu import CodeOptions, cpu_named
from xdsl_quant.execution.machine_code import MachineCode
from xdsl_quant.execution.mlir_bindings import ir, ops_in
from xdsl_quant.execution.scheduling import schedule
from xdsl_quant.execution.stored_code import code_of

(VNNI,) = (cpu for cpu in EMULATED if cpu.name == "avx512-vnni")

STREAMING = (
    *("streamable_ops", "mark_results", "stream_marked_results"),
    "writes_more_than_it_reads",
)
STEPS = (
    *("reduce_min_max", "fold_constant_sums", "merge_channels", "mark_byte_products"),
    *("tile_contractions", "call_byte_products", "round_while_converting"),
    *("round_in_f32", "pack_constants", "decode_constants", "select_from_tables"),
    *("look_up_whole_bytes", "share_destinations", "outline_loops", "plan_buffers"),
    *(
        "outline_parts",
        "share_functions",
        "mark_buffers_as_distinct",
        "lower_strided_copies",
    ),
    *("store_repeated_terms", "move_contiguous_loops_inside", "narrow_byte_sums"),
    *("mark_block_products", "call_block_products", "compare_integers"),
    *("narrow_factors", "move_channels_last", "call_transpositions"),
    *("store_window_inputs", "collapse_contiguous_loops"),
)

WEIGHTS, X = some(64, 48), some(7, 64)
SUMS = np.arange(7 * 48, dtype=np.int32).reshape(7, 48)
EXPECTED = X.astype(np.int32) @ WEIGHTS.astype(np.int32) + SUMS


@cache
def lowered() -> LoweredModule:
    return LoweredModule(product(X.shape, WEIGHTS, SUMS.shape))


def compiled() -> CompiledFunction:
    with foreign_code():
        return lowered().compiled(VNNI)


def erase_then_raise(module: Any, *_: Any) -> None:
    """Leave a module of no use."""
    for op in ops_in(module, "func.func"):
        op.erase()
    raise KeyError("an op")


def make_invalid(module: Any, *_: Any) -> None:
    for op in ops_in(module, "func.func"):
        text = ir.StringAttr.get("no_type", module.context)
        op.attributes["function_type"] = text


def replace(
    monkeypatch: pytest.MonkeyPatch, name: str, function: Callable[..., None]
) -> None:
    """Replace a step."""

    def step(*arguments: Any) -> None:
        function(*arguments)

    step.__name__ = name
    monkeypatch.setattr(schedule, name, step)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", STEPS)
def test_steps_that_raise(name: str, monkeypatch: pytest.MonkeyPatch):
    replace(monkeypatch, name, erase_then_raise)
    message = (
        rf"^scheduling step '{name}' failed: KeyError: 'an op'; compiled code has the "
        "same results without it, but may be slower; please report the module$"
    )
    with pytest.warns(RuntimeWarning, match=message) as warnings:
        function = compiled()
    assert len(warnings) == 1
    assert np.array_equal(function(X, SUMS), EXPECTED)


@pytest.mark.parametrize("name", ["mark_byte_products", "look_up_whole_bytes"])
def test_steps_that_make_a_module_invalid(name: str, monkeypatch: pytest.MonkeyPatch):
    replace(monkeypatch, name, make_invalid)
    message = f"'{name}' failed: invalid module, .*function_type"
    with pytest.warns(RuntimeWarning, match=message):
        function = compiled()
    assert np.array_equal(function(X, SUMS), EXPECTED)


def test_several_steps_fail(monkeypatch: pytest.MonkeyPatch):
    names = "fold_constant_sums", "mark_byte_products", "decode_constants"
    for name in names:
        replace(monkeypatch, name, erase_then_raise)
    with pytest.warns(RuntimeWarning) as warnings:
        function = compiled()
    found = [str(warning.message).split("'")[1] for warning in warnings]
    assert found == [*names]
    assert np.array_equal(function(X, SUMS), EXPECTED)


@pytest.mark.parametrize("name", STREAMING)
def test_streaming(name: str, monkeypatch: pytest.MonkeyPatch):
    """No step of it works without the others."""
    text = """
func.func @kernel(%x: memref<64xf32> {bufferization.writable = false},
    %y: memref<64xf32>) attributes {llvm.emit_c_interface, passthrough = ["noinline"]} {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}
      ins(%x : memref<64xf32>) outs(%y : memref<64xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %a : f32
    linalg.yield %c : f32
  }
  return
}"""
    options = CodeOptions(schedule=True, cpu=VNNI, stream=True)
    with foreign_code():
        assert MachineCode(text, ["kernel"], options, {}, {}).can_stream

        def fail(*_: Any) -> None:
            raise IndexError

        monkeypatch.setattr(schedule, name, fail)
        with pytest.warns(RuntimeWarning, match="'streaming_stores' failed"):
            code = MachineCode(text, ["kernel"], options, {}, {})
    assert not code.can_stream
    assert not code.is_complete


def test_all_steps_are_tested():
    functions = inspect.getmembers(schedule, inspect.isfunction)
    names = {name for name, f in functions if f.__module__ != schedule.__name__}
    # See test_small_loops.py.
    with_functions = "keep_small_loops_scalar"
    # The CPU of these tests lacks VBMI: see test_byte_functions.py.
    with_vbmi = "look_up_byte_functions"
    assert names == {*STEPS, *STREAMING, with_functions, with_vbmi, "share_loops"}


@pytest.mark.parametrize("fails", [True, False])
def test_code_without_a_step_is_not_kept(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """So that another process warns, too."""
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path))
    write = Mock()
    monkeypatch.setattr(disk_cache, "write", write)
    if fails:
        replace(monkeypatch, "fold_constant_sums", erase_then_raise)
    text = """
func.func @kernel() attributes {llvm.emit_c_interface, passthrough = ["noinline"]} {
  return
}"""
    context = pytest.warns(RuntimeWarning) if fails else nullcontext()
    with context:
        code_of(text, ["kernel"], CodeOptions(schedule=True, cpu=cpu_named("native")))
    assert write.call_count == (not fails)
