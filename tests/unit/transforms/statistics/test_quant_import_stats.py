"""Statistics from a file: what is read, and what is wrong with a file."""

import json
from pathlib import Path
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects import builtin, func
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.dialects.quant import Quant, StatisticsOp
from xdsl_quant.transforms.statistics.quant_import_stats import QuantImportStatsPass
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE

TEXT = """
func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %first = quant.stats_ref %x "a" : tensor<2x3xf32> loc("model.mlir":3:5)
  %second = quant.stats_ref %first "b" : tensor<2x3xf32> loc("model.mlir":4:5)
  return %second : tensor<2x3xf32>
}
"""

RANGE = {"min": -1.0, "max": 2.0}
CHANNELS = {**RANGE, "axis": 1, "axis_min": [-1, 0, 0.5], "axis_max": [0, 1, 2]}


def parse(text: str) -> ModuleOp:
    ctx = Context()
    for dialect in (builtin.Builtin, func.Func, Quant):
        ctx.load_dialect(dialect)
    module = Parser(ctx, text).parse_module()
    module.verify()
    return module


def write(path: Path, statistics: Any) -> str:
    file = path / "stats.json"
    file.write_text(json.dumps({"version": 1, "statistics": statistics}))
    return str(file)


def imported(file: str) -> list[StatisticsOp]:
    module = parse(TEXT)
    QuantImportStatsPass(file).apply(Context(), module)
    module.verify()
    return [op for op in module.walk() if isinstance(op, StatisticsOp)]


def failure(file: str) -> str:
    """The message of an import that fails and leaves everything as it was."""
    module = parse(TEXT)
    before = str(module)
    with pytest.raises(PassFailedException) as error:
        QuantImportStatsPass(file).apply(Context(), module)
    assert str(module) == before
    return str(error.value)


def test_registered():
    name = QuantImportStatsPass.name
    assert name == "quant-import-stats"
    assert XDSL_QUANT_UNIVERSE.all_passes[name]() is QuantImportStatsPass


def test_ranges_names_and_locations(tmp_path: Path):
    first, second = imported(write(tmp_path, {"b": CHANNELS, "a": RANGE}))
    assert str(first) == (
        "%first = quant.stats %x <-1.000000e+00:2.000000e+00> : tensor<2x3xf32>"
    )
    assert str(second) == (
        "%second = quant.stats %first <-1.000000e+00:2.000000e+00> axis 1 "
        "[<-1.000000e+00:0.000000e+00>, <0.000000e+00:1.000000e+00>, "
        "<5.000000e-01:2.000000e+00>] : tensor<2x3xf32>"
    )
    assert str(first.location) == 'loc("model.mlir":3:5)'
    assert str(second.location) == 'loc("model.mlir":4:5)'


def test_what_is_not_known_of_a_key_is_not_looked_at(tmp_path: Path):
    entry = {**RANGE, "axis": None, "histogram": [1, 2, 3]}
    first, _ = imported(write(tmp_path, {"a": entry, "b": RANGE}))
    assert first.axis is None


def test_unused_keys_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = write(tmp_path, {"d": RANGE, "a": RANGE, "c": RANGE, "b": RANGE})
    imported(file)
    assert capsys.readouterr().err == f"{file}: warning: keys without an op: 'c', 'd'\n"


def test_nothing_is_reported_if_all_keys_are_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    imported(write(tmp_path, {"a": RANGE, "b": RANGE}))
    assert capsys.readouterr() == ("", "")


def test_a_missing_key(tmp_path: Path):
    file = write(tmp_path, {"a": RANGE})
    assert failure(file).endswith(
        f"model.mlir:4:5: error: 'quant.stats_ref' op has key 'b', missing in {file}"
    )


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {**CHANNELS, "axis": 0},
            "'quant.stats' op axisStats must have shape [N,2] where N = the slice size "
            "defined by the axis dim",
        ),
        ({"min": 0.0, "max": 1e39}, "a bound exceeds f32"),
    ],
)
def test_statistics_that_do_not_fit(
    tmp_path: Path, entry: dict[str, Any], message: str
):
    assert failure(write(tmp_path, {"a": RANGE, "b": entry})).endswith(
        "error: 'quant.stats_ref' op cannot have the statistics of key 'b': " + message
    )


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"min": 1}, "key 'a' of FILE is missing 'max'"),
        ([1, 2], "key 'a' of FILE is missing 'min'"),
        (
            {"min": 1, "max": "2"},
            "expected a number as bound of key 'a' of FILE, found '2'",
        ),
        (
            {"min": True, "max": 2},
            "expected a number as bound of key 'a' of FILE, found True",
        ),
        (
            {"min": 1, "max": float("nan")},
            "expected a finite bound of key 'a' of FILE, found nan",
        ),
        (
            {"min": 1, "max": float("inf")},
            "expected a finite bound of key 'a' of FILE, found inf",
        ),
        ({"min": 2, "max": 1}, "range 2 to 1 of key 'a' of FILE is reversed"),
        (
            {**RANGE, "axis": -1},
            "expected a dimension as 'axis' of key 'a' of FILE, found -1",
        ),
        (
            {**RANGE, "axis": "0"},
            "expected a dimension as 'axis' of key 'a' of FILE, found '0'",
        ),
        ({**RANGE, "axis": 0}, "key 'a' of FILE is missing 'axis_min'"),
        (
            {**CHANNELS, "axis_max": 1},
            "expected a list as 'axis_max' of key 'a' of FILE",
        ),
        (
            {**CHANNELS, "axis_max": [1]},
            "key 'a' of FILE has 3 values in 'axis_min', but 1 in 'axis_max'",
        ),
        (
            {**CHANNELS, "axis_max": [0, -1, 2]},
            "range 0 to -1 of index 1 of key 'a' of FILE is reversed",
        ),
    ],
)
def test_entries_that_are_wrong(tmp_path: Path, entry: Any, message: str):
    file = write(tmp_path, {"a": entry})
    expected = f"cannot import statistics: {message.replace('FILE', file)}"
    assert failure(file) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "FILE is not JSON: Expecting property name enclosed in double quotes"),
        ("[]", "FILE is not a JSON object"),
        ("{}", "FILE is missing 'version'"),
        ('{"statistics": {}}', "FILE is missing 'version'"),
        ('{"version": 1}', "FILE is missing 'statistics'"),
        ("[" * 100_000, "FILE is not JSON: "),
        (
            '{"version": 1, "statistics": []}',
            "expected an object as 'statistics' of FILE",
        ),
        (
            '{"version": 2, "statistics": {}}',
            "FILE has version 2, expected 1",
        ),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, content: str, message: str):
    file = tmp_path / "stats.json"
    file.write_text(content)
    expected = f"cannot import statistics: {message.replace('FILE', str(file))}"
    assert failure(str(file)).startswith(expected)


def test_a_file_that_is_not_there(tmp_path: Path):
    file = str(tmp_path / "nothing.json")
    assert failure(file) == (
        f"cannot import statistics: {file}: no such file or directory"
    )
