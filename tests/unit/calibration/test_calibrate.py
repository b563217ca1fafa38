"""Running modules on batches: what is observed, by whom, and what cannot be."""

import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from xdsl_quant import execution
from xdsl_quant.calibration import (
    Statistics,
    calibrate,
    checkpoint,
    instrumented_function,
    min_max_layout,
    recording,
)
from xdsl_quant.calibration import batches as calibrating
from xdsl_quant.calibration.instrumented_function import InstrumentedFunction
from xdsl_quant.execution import compile
from xdsl_quant.runtime.loading import apply_passes, parse_module

TEXT = """
func.func @f(%x: tensor<?x3xf32>, %s: f32) -> tensor<?x3xf32> {
  %y = quant.stats_ref %x "x" : tensor<?x3xf32>
  %b = arith.constant dense<[1.0, -2.0, 5.0]> : tensor<3xf32>
  %c = quant.stats_ref %b "constant" : tensor<3xf32>
  %t = quant.stats_ref %s "scalar" : f32
  %p = quant.coupled_ref %y "state" : tensor<?x3xf32>
  %q = quant.stats %p <-1.0:1.0> : tensor<?x3xf32>
  %z = arith.addf %q, %q : tensor<?x3xf32>
  %w = quant.stats_ref %z "sum" : tensor<?x3xf32>
  return %w : tensor<?x3xf32>
}
"""

OBSERVERS = ("min-max", "moving-average=0.75", "percentile=90", "entropy=4", "mse=4")

ARRAYS = [
    np.random.default_rng(seed).normal(seed, 10.0**seed, (5, 3)).astype(np.float32)
    for seed in range(6)
]
BATCHES = [(array, np.float32(index)) for index, array in enumerate(ARRAYS)]


def pair(values: NDArray[Any]) -> tuple[float, float]:
    return float(values.min()), float(values.max())


# Values


def check_min_max() -> None:
    module = parse_module(TEXT)
    before = str(module)
    statistics = calibrate(module, BATCHES)
    assert str(module) == before
    assert statistics.batch_count == 6
    assert sorted(statistics.observations) == ["constant", "scalar", "sum", "x"]
    values = np.concatenate(ARRAYS)
    assert statistics.ranges("x") == (pair(values), None, None)
    assert statistics.ranges("sum") == (pair(2 * values), None, None)
    assert statistics.ranges("scalar").layer == (0, 5)
    assert statistics.ranges("constant").layer == (-2, 5)


def test_compiled():
    check_min_max()


def test_interpreted(interpreted: None):
    check_min_max()


@pytest.mark.parametrize("observer", OBSERVERS)
def test_interpreted_is_as_compiled(observer: str, request: pytest.FixtureRequest):
    compiled = calibrate(TEXT, BATCHES, observer=observer)
    request.getfixturevalue("interpreted")
    assert calibrate(TEXT, BATCHES, observer=observer) == compiled


def test_channels():
    statistics = calibrate(TEXT, BATCHES, axes={"x": 1, "constant": 0})
    values = np.concatenate(ARRAYS)
    expected = [pair(values[:, channel]) for channel in range(3)]
    assert statistics.ranges("x") == (pair(values), 1, expected)
    assert statistics.ranges("constant").axis_ranges == [(1, 1), (-2, -2), (5, 5)]
    assert statistics.ranges("sum").axis is None


def test_only_argument_without_a_tuple():
    text = """
func.func @g(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = quant.stats_ref %x "x" : tensor<?xf32>
  return %y : tensor<?xf32>
}
func.func @main() {
  return
}
"""
    array = np.array([1, 2], np.float32)
    for batch in (array, [1, 2], (array,)):
        assert calibrate(text, [batch], "g").ranges("x").layer == (1, 2)


@pytest.mark.parametrize("is_interpreted", [False, True])
def test_fake_quantization_has_its_bits(
    is_interpreted: bool, request: pytest.FixtureRequest
):
    text = """
func.func @f(%x: tensor<2xf32>) {
  %q = quant.const_fake_quant %x <0.0:3.0> bits 2 : tensor<2xf32>
  %y = quant.stats_ref %q "x" : tensor<2xf32>
  return
}
"""
    if is_interpreted:
        request.getfixturevalue("interpreted")
    batch = np.array([0.7, 2.2], np.float32)
    assert calibrate(text, [batch]).ranges("x").layer == (1, 2)


def test_function_that_is_called_by_others():
    text = """
func.func @f(%x: f32) -> f32 {
  %y = quant.stats_ref %x "x" : f32
  return %y : f32
}
func.func @f_with_statistics(%x: f32) -> f32 {
  %y = func.call @f(%x) : (f32) -> f32
  return %y : f32
}
"""
    assert calibrate(text, [2.0, 3.0], "f").ranges("x").layer == (2, 3)


def test_what_mlir_refuses():
    text = """
func.func @f(%x: tensor<2xf8E4M3FN>) {
  %y = arith.addf %x, %x : tensor<2xf8E4M3FN>
  %z = quant.stats_ref %y "sum" : tensor<2xf8E4M3FN>
  return
}
"""
    with pytest.warns(UserWarning, match="^falling back to the interpreter: "):
        statistics = calibrate(text, [[1.0, -2.0]])
    assert statistics.ranges("sum").layer == (-4, 2)


RESOURCE = """func.func @f(%x: f32) {{
  %c = arith.constant dense_resource<calibrated> : tensor<2xf32>
  %k = quant.stats_ref %c "c" : tensor<2xf32>
  return
}}
{{-#
  dialect_resources: {{ builtin: {{ calibrated: "0x04000000{}" }} }}
#-}}
"""


def test_resources():
    """In text that is read twice, a resource would have another name."""
    data = np.array([1.5, -2.5], np.float32).tobytes().hex()
    module = parse_module(RESOURCE.format(data))
    before = str(module)
    for _ in range(2):
        assert calibrate(module, [1.0]).ranges("c").layer == (-2.5, 1.5)
    assert str(module) == before


def test_resource_of_another_size():
    module = parse_module(RESOURCE.format("00" * 12).replace("calibrated", "large"))
    message = (
        r"^module:2:3: error: 'arith.constant' op has resource 'large' of 12 bytes; "
        r"expected 8 for 'tensor<2xf32>'$"
    )
    with pytest.raises(ValueError, match=message):
        calibrate(module, [1.0])


def test_whole_pipeline(tmp_path: Path):
    text = """
func.func @f(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %y = arith.mulf %x, %x : tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}
"""
    module = parse_module(text)
    apply_passes(module, "quant-insert-stats-refs")
    batches = [np.array([[1, 2], [3, size]], np.float32) for size in (4, 5)]
    file = tmp_path / "stats.json"
    calibrate(module, batches, axes={"f:argument:0": 1}).save(file)
    apply_passes(module, f'quant-import-stats{{file="{file}"}}')
    printed = str(module)
    assert (
        "<1.000000e+00:5.000000e+00> axis 1 [<1.000000e+00:3.000000e+00>, " in printed
    )
    assert "quant.stats %y <1.000000e+00:2.500000e+01> : tensor<2x2xf32>" in printed


def test_channels_of_dynamic_size(tmp_path: Path):
    """They have ranges and types, and another number of channels is an error."""
    text = """
func.func @f(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %y = quant.stats_ref %x "x" : tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
"""
    file = tmp_path / "stats.json"
    values = np.array([[-127, 254, 0], [127, 2, 508]], np.float32)
    calibrate(text, [values], axes={"x": 1}).save(file)
    module = parse_module(text)
    apply_passes(
        module,
        f'quant-import-stats{{file="{file}"}},quant-stats-to-calibrated,'
        "quant-calibrated-to-uniform{symmetric=true narrow-range=true}",
    )
    assert ":1, {1.000000e+00,2.000000e+00,4.000000e+00}>>" in str(module)
    quantize = compile(module)
    assert quantize(values).tolist() == values.tolist()
    with pytest.raises(ValueError, match="size of dimension 1 must be 3"):
        quantize(np.zeros((2, 4), np.float32))


# Workers


@pytest.mark.sampled(2)
@pytest.mark.parametrize("observer", OBSERVERS)
@pytest.mark.parametrize("workers", [1, 3])
def test_threads(observer: str, workers: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(calibrating, "_MAX_WAITING", 2)
    alone = calibrate(TEXT, BATCHES, observer=observer, axes={"x": 1})
    with ThreadPoolExecutor(workers) as executor:
        together = calibrate(
            TEXT, BATCHES, observer=observer, axes={"x": 1}, executor=executor
        )
    assert together == alone
    assert together.to_text() == alone.to_text()


@pytest.mark.sampled(0)
def test_processes():
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        together = calibrate(TEXT, BATCHES, observer="percentile", executor=executor)
    assert together == calibrate(TEXT, BATCHES, observer="percentile")


@pytest.mark.parametrize("observer", ["min-max", "percentile=90", "entropy", "mse"])
def test_order_of_batches(observer: str):
    text = calibrate(TEXT, BATCHES, observer=observer).to_text()
    assert calibrate(TEXT, BATCHES[::-1], observer=observer).to_text() == text
    halves = [calibrate(TEXT, BATCHES[i::2], observer=observer) for i in (1, 0)]
    assert halves[0].merge(halves[1]).to_text() == text


def test_error_on_a_worker():
    batches = [*BATCHES[:4], (np.full((1, 3), np.nan, np.float32), 0.0), *BATCHES]
    message = (
        r"^batch 4, key 'x': expected finite values, found NaN; leave out the sample, "
    )
    with ThreadPoolExecutor(2) as executor:
        with pytest.raises(ValueError, match=message):
            calibrate(TEXT, batches, executor=executor)


# Checkpoints


class Interruption(Exception):
    pass


def interrupted(count: int, batches: Sequence[Any] = BATCHES) -> Iterator[Any]:
    yield from batches[:count]
    raise Interruption


def runs_nothing(*args: object) -> Any:
    raise AssertionError("nothing may run again")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("observer", OBSERVERS)
@pytest.mark.parametrize("with_workers", [False, True])
def test_resuming(
    observer: str, with_workers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "checkpoint.json"
    executor = ThreadPoolExecutor(2) if with_workers else None
    options: Any = {
        "observer": observer,
        "axes": {"sum": 1},
        "checkpoint": file,
        "executor": executor,
    }
    for count in (2, 5):
        with pytest.raises(Interruption):
            calibrate(TEXT, interrupted(count), **options)
        if not with_workers:
            assert json.loads(file.read_text())["batches"] == count
    resumed = calibrate(TEXT, BATCHES, **options)
    expected = calibrate(TEXT, BATCHES, observer=observer, axes={"sum": 1})
    assert resumed == expected
    assert resumed.to_text() == expected.to_text()
    # Now all batches are skipped.
    monkeypatch.setattr(InstrumentedFunction, "runnable", runs_nothing)
    assert calibrate(TEXT, BATCHES, **options) == expected
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.json"]
    if executor is not None:
        executor.shutdown()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("part", range(4))
@pytest.mark.filterwarnings("ignore:.* may be much too wide")
@settings(deadline=None, max_examples=10)
@given(
    observer=st.sampled_from(OBSERVERS),
    chosen=st.lists(st.integers(0, len(BATCHES) - 1), min_size=1, max_size=9),
    cuts=st.lists(st.integers(0, 9), max_size=4),
    at_once=st.sampled_from([1, 8, 1 << 17]),
)
def test_resuming_anywhere(
    part: int, observer: str, chosen: list[int], cuts: list[int], at_once: int
):
    """Interruptions change nothing, wherever and however often they are."""
    batches = [BATCHES[index] for index in chosen]
    options: Any = {"observer": observer, "axes": {"sum": 1}}
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        # How many batches wait to be merged when the run is interrupted.
        patch.setattr(min_max_layout, "_MAX_POSITIONS", at_once)
        options["checkpoint"] = Path(directory) / "checkpoint.json"
        for cut in sorted(cuts):
            with pytest.raises(Interruption):
                calibrate(TEXT, interrupted(cut, batches), **options)
        resumed = calibrate(TEXT, batches, **options)
        del options["checkpoint"]
    expected = calibrate(TEXT, batches, **options)
    assert resumed == expected
    assert resumed.to_text() == expected.to_text()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("characters", "kept"), [(1 << 24, 6), (0, 4)], ids=["small", "large"]
)
def test_code_that_is_kept(characters: int, kept: int, monkeypatch: pytest.MonkeyPatch):
    compiled: list[str] = []

    def noted(text: str, *arguments: Any, **options: Any) -> Any:
        compiled.append(text)
        return compile(text, *arguments, **options)

    monkeypatch.setattr("xdsl_quant.execution.compile", noted)
    monkeypatch.setattr(instrumented_function, "_MAX_CHARACTERS", characters)
    instrumented_function._cached_runs.clear()  # pyright: ignore[reportPrivateUsage] a cache of compiled code
    texts = [TEXT.replace("@f(", f"@f{index}(") for index in range(6)]
    for text in (*texts, *texts[::-1]):
        calibrate(text, BATCHES)
    assert len(instrumented_function._cached_runs) == kept  # pyright: ignore[reportPrivateUsage] a cache of compiled code
    assert len(compiled) == 2 * len(texts) - kept


def test_checkpoints_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checkpoint, "_SECONDS", -1.0)
    file = tmp_path / "checkpoint.json"
    counts: list[int] = []

    def batches() -> Iterator[Any]:
        for batch in BATCHES:
            counts.append(Statistics.load(file).batch_count if file.exists() else 0)
            yield batch

    calibrate(TEXT, batches(), checkpoint=file)
    assert counts == [0, 1, 2, 3, 4, 5]


def test_checkpoint_of_the_same_module_elsewhere(tmp_path: Path):
    file = tmp_path / "checkpoint.json"
    calibrate(parse_module(TEXT, "model.mlir"), BATCHES, checkpoint=file)
    moved = parse_module(f"\n{TEXT}", "./model.mlir")
    assert calibrate(moved, BATCHES, checkpoint=file) == calibrate(TEXT, BATCHES)


@pytest.mark.parametrize("has_histograms", [False, True])
def test_checkpoint_with_other_histograms(has_histograms: bool, tmp_path: Path):
    file = tmp_path / "checkpoint.json"
    calibrate(TEXT, BATCHES, checkpoint=file, histograms=has_histograms)
    with pytest.raises(ValueError, match=r"^checkpoint ") as info:
        calibrate(TEXT, BATCHES, checkpoint=file, histograms=not has_histograms)
    other, this = ("with", "without") if has_histograms else ("without", "with")
    assert str(info.value) == (
        f"checkpoint {file} belongs to a run {other} histograms, expected one {this} "
        f"histograms; delete it, or use another file"
    )


def test_checkpoint_in_no_directory(tmp_path: Path):
    def batches() -> Iterator[Any]:
        raise AssertionError("nothing may run that cannot be kept")
        yield

    with pytest.raises(FileNotFoundError, match=r"nowhere"):
        calibrate(TEXT, batches(), checkpoint=tmp_path / "nowhere" / "file.json")


def test_checkpoint_of_another_run(tmp_path: Path):
    file = tmp_path / "checkpoint.json"
    calibrate(TEXT, BATCHES, checkpoint=file)

    def error(text: str, *args: Any, **options: Any) -> str:
        with pytest.raises(ValueError, match=r"checkpoint") as info:
            calibrate(text, *args, checkpoint=file, **options)
        return str(info.value)

    other = (
        f"checkpoint {file} belongs to another module, function or channel dimension; "
        "delete it, or use another file"
    )
    assert error(TEXT.replace("5.0", "6.0"), BATCHES) == other
    assert error(TEXT, BATCHES, axes={"x": 1}) == other
    assert error(TEXT, BATCHES, observer="mse") == (
        f"checkpoint {file} belongs to observer 'min-max', not 'mse'; delete it, or use "
        "the same observer"
    )
    assert error(TEXT, BATCHES[:4]) == (
        f"checkpoint {file} belongs to 6 batches, found 4; delete it, or pass the same "
        f"inputs in the same batches"
    )
    calibrate(TEXT, BATCHES).save(file)
    assert error(TEXT, BATCHES) == other


RESHAPED = """
func.func @f(%x: tensor<?x?xf32>, %s: f32) {
  %y = quant.stats_ref %x "x" : tensor<?x?xf32>
  return
}
"""
X, S = BATCHES[1]
OTHER_BATCHES: dict[str, list[Any]] = {
    "other values": [BATCHES[0], (np.where(X == X[4, 2], 0, X).astype(np.float32), S)],
    "another number": [BATCHES[0], (X, np.float32(7))],
    "another first batch": [BATCHES[2], BATCHES[1]],
    "another order": [BATCHES[1], BATCHES[0]],
    "other sizes": [
        (np.concatenate([ARRAYS[0], X[:1]]), np.float32(0)),
        (X[1:], S),
    ],
    "another shape": [BATCHES[0], (X.reshape(3, 5), S)],
    "fewer arguments": [BATCHES[0], (X,)],
    "a list of no shape": [BATCHES[0], ([[1.0], [2.0, 3.0]], S)],
    "objects": [BATCHES[0], (np.array([[None]]), S)],
}


@pytest.mark.parametrize("name", OTHER_BATCHES)
@pytest.mark.parametrize("more", [0, 2])
def test_checkpoint_of_other_batches(name: str, more: int, tmp_path: Path):
    file = tmp_path / "checkpoint.json"
    calibrate(RESHAPED, BATCHES[:2], checkpoint=file)
    before = file.read_text()
    with pytest.raises(ValueError, match=r"^checkpoint ") as info:
        calibrate(
            RESHAPED, [*OTHER_BATCHES[name], *BATCHES[2 : 2 + more]], checkpoint=file
        )
    assert str(info.value) == (
        f"checkpoint {file} belongs to other inputs; delete it, or pass the same "
        "inputs in the same batches"
    )
    assert file.read_text() == before


def test_checkpoint_of_lists_and_views(tmp_path: Path):
    """What counts is what is in a batch, not how it is kept in memory."""
    file = tmp_path / "checkpoint.json"
    first = [([[1.0, 2.0, 3.0]], 4), (X[::2, ::-1], 5.0), (X[:1], S)]
    calibrate(TEXT, first, checkpoint=file)
    again = [([[1.0, 2.0, 3.0]], 4), (X[::2, ::-1].copy(), 5.0), (X[:1], S), (X, S)]
    assert calibrate(TEXT, again, checkpoint=file) == calibrate(TEXT, again)


def test_checkpoint_of_floats_that_numpy_lacks(tmp_path: Path):
    file = tmp_path / "checkpoint.json"
    text = RESHAPED.replace("xf32", "xbf16")
    batches = [(array.astype(ml_dtypes.bfloat16), s) for array, s in BATCHES]
    calibrate(text, batches[:2], checkpoint=file)
    assert calibrate(text, batches, checkpoint=file) == calibrate(text, batches)
    with pytest.raises(ValueError, match="belongs to other inputs"):
        calibrate(text, batches[::-1], checkpoint=file)


def test_checkpoint_is_of_batches_that_were_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Workers are given more batches than are in the statistics."""
    monkeypatch.setattr(calibrating, "_MAX_WAITING", 3)
    file = tmp_path / "checkpoint.json"
    with ThreadPoolExecutor(2) as executor:
        with pytest.raises(Interruption):
            calibrate(TEXT, interrupted(5), executor=executor, checkpoint=file)
        # Five were read, and three of them were waited for.
        assert json.loads(file.read_text())["batches"] == 3
        others = [*BATCHES[:3], *BATCHES[:1]]
        assert calibrate(TEXT, others, executor=executor, checkpoint=file) == calibrate(
            TEXT, others
        )
    with pytest.raises(ValueError, match="belongs to other inputs"):
        calibrate(TEXT, BATCHES, checkpoint=file)


def test_batches_have_no_digests_without_a_checkpoint(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(recording, "digest_of")
    calibrate(TEXT, BATCHES)
    with ThreadPoolExecutor(1) as executor:
        calibrate(TEXT, BATCHES, executor=executor)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"digest"', '"diegst"', "missing digest"),
        ('"batches": 6', '"batches": 5', "its digest does not match"),
    ],
)
def test_damaged_checkpoint(old: str, new: str, reason: str, tmp_path: Path):
    file = tmp_path / "checkpoint.json"
    calibrate(TEXT, BATCHES, checkpoint=file)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=f"{reason}; delete it$") as info:
        calibrate(TEXT, BATCHES, checkpoint=file)
    assert str(info.value).startswith(f"{file} was changed after saving: ")


@pytest.mark.parametrize(
    ("text", "reason"), [("#!/bin/sh", "not JSON: "), ("[1]", "not a JSON object")]
)
def test_a_checkpoint_that_is_another_file(text: str, reason: str, tmp_path: Path):
    file = tmp_path / "checkpoint.json"
    file.write_text(text)
    with pytest.raises(
        ValueError, match=r"; use another file for the checkpoint$"
    ) as e:
        calibrate(TEXT, BATCHES, checkpoint=file)
    assert str(e.value).startswith(f"{file} is {reason}")


# Mistakes


@pytest.mark.parametrize("is_interpreted", [False, True])
@pytest.mark.parametrize(
    ("batch", "type_", "message"),
    [
        (
            (np.full((1, 3), 3e38, np.float32), 0.0),
            ValueError,
            "batch 1, key 'sum': expected finite values, found infinity",
        ),
        (
            (np.zeros((2, 2), np.float32), 0.0),
            ValueError,
            "batch 1: argument 0 .*shape",
        ),
        ((np.zeros((2, 3)), 0.0), TypeError, "batch 1: argument 0 .*dtype float64"),
        (np.zeros((2, 3), np.float32), TypeError, "batch 1: .* takes 2 arguments"),
    ],
)
def test_wrong_batches(
    batch: Any,
    type_: type[Exception],
    message: str,
    is_interpreted: bool,
    request: pytest.FixtureRequest,
):
    if is_interpreted:
        request.getfixturevalue("interpreted")
    with pytest.raises(type_, match=f"^{message}"):
        calibrate(TEXT, [BATCHES[0], batch])


def test_failure_at_run_time_is_where_it_was_in_the_module(interpreted: None):
    text = """func.func @f(%x: tensor<?xf32>) {
  %y = quant.stats_ref %x "x" : tensor<?xf32>
  %false = arith.constant false
  cf.assert %false, "no"
  return
}
"""
    module = parse_module(text, "model.mlir")
    message = r"^batch 0: model.mlir:4:3: error: 'cf.assert' op failed: no$"
    with pytest.raises(ValueError, match=message):
        calibrate(module, [[1.0]])


def function(body: str) -> str:
    return f"func.func @f(%x: tensor<2xf32>) {{\n{body}\n  return\n}}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            function(""),
            "function 'f' has no 'quant.stats_ref'; run quant-insert-stats-refs first",
        ),
        (
            function(
                "\n".join(
                    f'  %{name} = quant.stats_ref %x "x" : tensor<2xf32>'
                    for name in "yz"
                )
            ),
            "module:3:3: error: 'quant.stats_ref' op has duplicate key 'x'",
        ),
        (
            function(
                "  %q = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, "
                '0.5>>\n  %y = quant.stats_ref %q "x" : tensor<2x!quant.uniform<i8:f32, '
                "0.5>>"
            ),
            "module:3:3: error: 'quant.stats_ref' op has a value of type "
            "'tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>', but only floats and tensors "
            "of floats are calibrated",
        ),
        (
            function(
                "  %q = quant.const_fake_quant %x <1.0:-1.0> bits 8 : tensor<2xf32>\n"
                '  %y = quant.stats_ref %q "x" : tensor<2xf32>'
            ),
            "module:2:3: error: 'quant.const_fake_quant' op cannot be converted: range 1.0 "
            "to -1.0 is reversed",
        ),
        (
            function(
                "  %q = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> "
                "tensor<2x!quant.uniform<i8:f32, 0.5>>\n"
                '  %z = quant.stats_ref %x "x" : tensor<2xf32>'
            ),
            "module:2:3: error: 'stablehlo.uniform_quantize' op is a quantization "
            "cast: run 'convert-quantized-stablehlo-to-linalg' instead, or "
            "'stablehlo-casts-to-quant' first",
        ),
    ],
)
def test_what_is_not_calibrated(text: str, message: str):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        calibrate(text, [[1.0, 2.0]], "f")


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((tuple[Any](),), {}, "expected at least one batch, found none"),
        ((BATCHES, "g"), {}, "unknown function 'g'; available: 'f'"),
        (
            (BATCHES, None, "max"),
            {},
            "unknown observer 'max', available: min-max, ",
        ),
        (
            (BATCHES,),
            {"axes": {"y": 0}},
            "unknown key in axes: 'y'",
        ),
        (
            (BATCHES,),
            {"axes": {"constant": 1}},
            r"batch 0, key 'constant': dimension 1 is out of range for shape \(3,\)",
        ),
    ],
)
def test_wrong_options(args: Any, options: Any, message: str):
    with pytest.raises(ValueError, match=f"^{message}"):
        calibrate(TEXT, *args, **options)


EMPTY = (np.zeros((0, 3), np.float32), 0.0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("observer", OBSERVERS)
@pytest.mark.parametrize("with_workers", [False, True])
def test_empty_batches(observer: str, with_workers: bool, tmp_path: Path):
    """They are left out, also if a run is resumed, and others keep their numbers."""
    batches = [EMPTY, *BATCHES[:2], EMPTY, *BATCHES[2:], EMPTY]
    expected = calibrate(TEXT, BATCHES, observer=observer)
    executor = ThreadPoolExecutor(2) if with_workers else None
    options: Any = {"observer": observer, "checkpoint": tmp_path / "checkpoint.json"}

    def warnings(given: Iterator[Any] | Sequence[Any]) -> tuple[list[str], Statistics]:
        with pytest.warns(UserWarning, match="skipped: ") as record:
            statistics = calibrate(TEXT, given, executor=executor, **options)
        return [str(warning.message) for warning in record], statistics

    with pytest.raises(Interruption):
        warnings(interrupted(5, batches))
    texts, statistics = warnings(batches)
    assert texts == [
        f"batch {number} skipped: argument 0 has no elements" for number in (0, 3, 8)
    ]
    assert statistics.batch_count == 6
    for key in expected.observations:
        assert statistics.ranges(key) == expected.ranges(key)
    if executor is not None:
        executor.shutdown()


def test_number_of_a_batch_after_an_empty_one():
    batches = [EMPTY, BATCHES[0], (X * np.float32(np.nan), S)]
    with pytest.warns(UserWarning, match="^batch 0 skipped: "):
        with pytest.raises(
            ValueError, match=r"^batch 2, key 'x': expected finite values, found NaN"
        ):
            calibrate(TEXT, batches)


@pytest.mark.parametrize("empty", [np.zeros(0, np.float32), []])
def test_nothing_but_empty_batches(empty: Any):
    text = """func.func @f(%x: tensor<?xf32>) {
      %y = quant.stats_ref %x "x" : tensor<?xf32>
      return
    }"""
    with pytest.warns(UserWarning, match="skipped: "):
        with pytest.raises(
            ValueError, match=r"^expected at least one batch, found none"
        ):
            calibrate(text, [empty])


def test_argument_that_is_always_empty():
    text = """func.func @f(%x: tensor<0xf32>, %y: f32) {
      %z = quant.stats_ref %y "y" : f32
      return
    }"""
    statistics = calibrate(text, [(np.zeros(0, np.float32), 2.0)])
    assert statistics.ranges("y").layer == (2, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"module": None},
            "model must be a module, MLIR text, bytes or the path of a file, not NoneType",
        ),
        (
            {"entry": 3},
            "entry must be a function name or None, not int",
        ),
        (
            {"observer": 7},
            "expected the name of an observer, e.g. 'min-max', found int",
        ),
        ({"axes": ["x"]}, "axes must be a dict from key to dimension, not ['x']"),
        (
            {"axes": {"x": "1"}},
            "axes must be a dict from key to dimension, not {'x': '1'}",
        ),
        (
            {"executor": 4},
            "executor must have a method 'submit', like those of concurrent.futures, but "
            "it is of type int",
        ),
    ],
)
def test_options_of_wrong_types(options: dict[str, Any], message: str):
    given: dict[str, Any] = {"module": TEXT, "batches": BATCHES, **options}
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        calibrate(**given)


@pytest.mark.usefixtures("each_way")
def test_stablehlo():
    """It is lowered where it is run, and keeps its keys."""
    module = parse_module(
        """func.func @main(%x: tensor<2x3xf32>) -> tensor<2xf32> {
          %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
          %y = func.call @square(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
          %max = stablehlo.reduce(%y init: %lowest) applies stablehlo.maximum
              across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
          return %max : tensor<2xf32>
        }
        func.func private @square(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
          %y = stablehlo.multiply %x, %x : tensor<2x3xf32>
          return %y : tensor<2x3xf32>
        }"""
    )
    apply_passes(module, "quant-insert-stats-refs")
    before = str(module)
    values = np.array([[1, -2, 3], [0.5, 0.25, -0.5]], np.float32)
    statistics = calibrate(module, [values], axes={"square:stablehlo.multiply:0": 1})
    assert str(module) == before
    layers = {key: statistics.ranges(key).layer for key in statistics.observations}
    assert layers == {
        "main:argument:0": (-2, 3),
        "main:func.call:0": (0.0625, 9),
        "main:stablehlo.reduce:0": (0.25, 9),
        "square:argument:0": (-2, 3),
        "square:stablehlo.multiply:0": (0.0625, 9),
    }
    channels = statistics.ranges("square:stablehlo.multiply:0").axis_ranges
    assert channels == [(0.25, 1), (0.0625, 4), (0.25, 9)]


@pytest.mark.parametrize("observer", ["min-max", "percentile=90"])
def test_dimensions_of_numpy(observer: str):
    axes: Any = {"x": np.int64(1)}
    text = calibrate(TEXT, BATCHES, observer=observer, axes=axes).to_text()
    expected = calibrate(TEXT, BATCHES, observer=observer, axes={"x": 1})
    assert text == expected.to_text()


def test_what_is_done_with_missing_keys_is_a_word():
    missing: Any = "ignore"
    message = "^missing must be 'error' or 'keep', not 'ignore'$"
    with pytest.raises(ValueError, match=message):
        calibrate(TEXT, BATCHES, missing=missing)


@pytest.mark.parametrize("batches", [None, 3.0])
def test_no_iterable(batches: Any, tmp_path: Path):
    message = (
        f"expected an iterable of batches, found {type(batches).__name__}; use e.g. a "
        "list with the arguments of each batch"
    )
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        calibrate(TEXT, batches, checkpoint=tmp_path / "checkpoint.json")
    assert not list(tmp_path.iterdir())


def test_channels_that_differ_between_batches():
    batches = [(np.zeros((size, 3), np.float32), 0.0) for size in (2, 4)]
    message = "batch 1, key 'x': cannot merge .* with 2 channels and with 4 channels"
    with pytest.raises(ValueError, match=f"^{message}$"):
        calibrate(TEXT, batches, axes={"x": 0})


def test_checkpoint_of_batches_before_one_that_does_not_merge(tmp_path: Path):
    sizes = (2, 2, 2, 4, 2)
    batches = [(np.full((size, 3), i, np.float32), 0.0) for i, size in enumerate(sizes)]
    options: Any = {"axes": {"x": 0}, "checkpoint": tmp_path / "checkpoint.json"}
    with pytest.raises(ValueError, match=r"^batch 3, key 'x'"):
        calibrate(TEXT, batches, **options)
    saved = Statistics.load(options["checkpoint"])
    assert saved == calibrate(TEXT, batches[:3], axes={"x": 0})
    # It is of these batches.
    good = [*batches[:3], batches[4]]
    assert calibrate(TEXT, good, **options) == calibrate(TEXT, good, axes={"x": 0})


def test_argument_that_calibrates():
    """What makes an array of itself may run the same function."""

    class Argument:
        def __array__(self, *args: object, **options: object) -> NDArray[Any]:
            calibrate(TEXT, BATCHES[:1])
            return ARRAYS[1]

    batch: Any = (Argument(), 1.0)
    assert calibrate(TEXT, [batch]) == calibrate(TEXT, [(ARRAYS[1], 1.0)])


def test_threads_compile_once(monkeypatch: pytest.MonkeyPatch):
    from xdsl_quant import execution

    count = 0

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        return compile(*args, **options)

    monkeypatch.setattr(execution, "compile", counted)
    text = TEXT.replace('"scalar"', '"another key"')
    with ThreadPoolExecutor(4) as executor:
        calibrate(text, BATCHES, executor=executor)
    assert count == 1


class _CompiledError(Exception):
    pass


def test_many_small_values_are_interpreted_at_first(monkeypatch: pytest.MonkeyPatch):
    lines = [
        f"  %v{i + 1} = arith.negf %v{i} : tensor<2xf32>\n"
        f'  %r{i} = quant.stats_ref %v{i + 1} "v{i + 1}" : tensor<2xf32>'
        for i in range(513)
    ]
    few, many = (
        "\n".join(["func.func @f(%v0: tensor<2xf32>) {", *lines[:count], "  return\n}"])
        for count in (512, 513)
    )

    def compile_(*_: object, **__: object) -> object:
        raise _CompiledError

    monkeypatch.setattr(execution, "compile", compile_)
    batch = np.array([1, 2], np.float32)
    assert calibrate(many, [batch]).ranges("v513").layer == (-2, -1)
    with pytest.raises(_CompiledError):
        calibrate(few, [batch])
    with pytest.raises(_CompiledError):
        calibrate(many.replace("<2x", "<1025x"), [np.ones(1025, np.float32)])
