"""Statistics: merging, files and pickles."""

import json
import pickle
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache, reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xdsl_quant.calibration import Statistics
from xdsl_quant.calibration.statistics import KeyObservation
from xdsl_quant.numerics.observers import observe_histogram, parse_observer
from xdsl_quant.transforms.statistics.ranges.statistics_file import (
    KeyStatistics,
    content_digest,
    read_statistics,
)

OBSERVERS = ("min-max", "moving-average=0.75", "percentile=90", "entropy=4", "mse=4")


def statistics(
    observer: str,
    values: dict[str, list[float]],
    batch: int = 0,
    axis: int | None = None,
    with_histogram: bool = False,
) -> Statistics:
    """The statistics of one batch."""
    kind = parse_observer(observer)
    seen = {
        key: KeyObservation.of(np.array(numbers), axis, kind, batch, with_histogram)
        for key, numbers in values.items()
    }
    return Statistics(observer, seen, 1)


NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2)
VALUES = st.dictionaries(st.sampled_from("abc"), NUMBERS)


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore:.* may be much too wide")
@pytest.mark.parametrize("observer", OBSERVERS)
@settings(max_examples=30, deadline=None)
@given(
    st.data(),
    st.lists(VALUES, min_size=1, max_size=5),
    st.sampled_from([None, 0]),
    st.booleans(),
)
def test_merging(
    observer: str,
    data: st.DataObject,
    batches: list[dict[str, list[float]]],
    axis: int | None,
    with_histogram: bool,
):
    parts = [
        statistics(observer, v, i, axis, with_histogram) for i, v in enumerate(batches)
    ]
    expected = reduce(Statistics.merge, parts)
    assert expected.batch_count == len(parts)
    assert reduce(Statistics.merge, data.draw(st.permutations(parts))) == expected
    from_the_right = reduce(lambda right, left: left.merge(right), reversed(parts))
    assert from_the_right.to_text() == expected.to_text()
    assert Statistics(observer).merge(expected) == expected
    assert pickle.loads(pickle.dumps(expected)) == expected


@pytest.mark.parametrize("observer", OBSERVERS)
@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("with_histogram", [False, True])
def test_files(observer: str, axis: int | None, with_histogram: bool, tmp_path: Path):
    file = tmp_path / "stats.json"
    values = {"b": [1.5, -2.0], 'a"\n': [0.1, 0.2]}
    saved = statistics(observer, values, axis=axis, with_histogram=with_histogram)
    file.write_text(saved.state_text(more="m"))
    assert Statistics.load(file) == saved
    content = json.loads(file.read_text())
    assert content["more"] == "m"
    assert "statistics" not in content
    saved.save(file)
    assert Statistics.load(file) == saved
    assert read_statistics(file) == {key: saved.ranges(key) for key in ('a"\n', "b")}


def test_text():
    text = statistics("min-max", {"b": [1.5, -2.0], "a": [0.0, 3.0]}, axis=0).to_text()
    assert text == (
        '{\n  "version": 1,\n  "digest": '
        '"0f6bb31fa39b2df0ce46c171f9496c905e28bf1d43240d759aa9117fbd1dd53f",\n'
        '  "statistics": {\n'
        '    "a": {"min": 0.0, "max": 3.0, "axis": 0, "axis_min": [0.0, 3.0], '
        '"axis_max": [0.0, 3.0]},\n'
        '    "b": {"min": -2.0, "max": 1.5, "axis": 0, "axis_min": [1.5, -2.0], '
        '"axis_max": [1.5, -2.0]}\n  },\n'
        '  "observer": "min-max",\n  "batches": 1,\n  "observations": {\n'
        '    "a": {"kind": "extremes", "axis": 0, "lows": [0.0, 3.0], '
        '"highs": [0.0, 3.0]},\n'
        '    "b": {"kind": "extremes", "axis": 0, "lows": [1.5, -2.0], '
        '"highs": [1.5, -2.0]}\n  }\n}\n'
    )
    assert json.loads(Statistics().to_text()) == {
        "version": 1,
        "digest": "2b8824a4a91dadd4724c5eeebb3b07a3b8af8b3c175924147073c3bd5e4e045c",
        "statistics": {},
        "observer": "min-max",
        "batches": 0,
        "observations": {},
    }


def test_ranges():
    result = statistics("min-max", {"a": [1.0, 2.0]})
    assert result.ranges("a") == KeyStatistics((1, 2))
    result = result.merge(statistics("min-max", {"a": [5.0, 0.0], "b": [7.0, 7.0]}))
    assert result.ranges("a") == KeyStatistics((0, 5))
    assert result.ranges("b") == KeyStatistics((7, 7))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([], "unknown key 'foo'; available: none"),
        (["b", "a"], "unknown key 'foo'; available: 'a', 'b'"),
        (
            [str(i) for i in range(7)],
            "unknown key 'foo'; available: '0', '1', '2', '3', '4' and 2 more",
        ),
    ],
)
def test_ranges_of_an_unknown_key(keys: list[str], message: str):
    result = statistics("min-max", {key: [1.0, 2.0] for key in keys})
    with pytest.raises(KeyError) as info:
        result.ranges("foo")
    assert info.value.args == (message,)


@pytest.mark.parametrize("observer", OBSERVERS)
@pytest.mark.parametrize("axis", [None, 0])
def test_histograms_change_no_ranges(observer: str, axis: int | None):
    values = [{"a": [1.0, -2.5]}, {"a": [0.3, 7.0]}]
    without, beside = (
        reduce(
            Statistics.merge,
            [
                statistics(observer, batch, index, axis, with_histogram)
                for index, batch in enumerate(values)
            ],
        )
        for with_histogram in (False, True)
    )
    assert beside.ranges("a") == without.ranges("a")
    expected = observe_histogram(
        np.array([[1.0, -2.5], [0.3, 7.0]]), None if axis is None else 1
    )
    assert beside.observations["a"].histogram == expected
    has_histogram = observer not in ("min-max", "moving-average=0.75")
    assert (without.observations["a"].histogram is not None) == has_histogram


@pytest.mark.parametrize("observer", ["min-max", "moving-average", "mse"])
def test_values_of_one_batch(observer: str):
    """They count as one value, also in a histogram."""
    kind = parse_observer(observer)
    parts = [
        KeyObservation.of(np.array(values), None, kind, 3, with_histogram=True)
        for values in ([1.0, -2.0], [0.0, 9.0])
    ]
    together = np.array([1.0, -2.0, 0.0, 9.0])
    expected = KeyObservation.of(together, None, kind, 3, with_histogram=True)
    assert parts[0].extend(parts[1]) == expected


def test_two_spellings_of_an_observer():
    one = statistics("percentile", {"a": [1.0, 2.0]})
    other = statistics("percentile=99.99", {"a": [3.0, 4.0]})
    assert one.merge(other) == other.merge(one)


def test_what_does_not_merge():
    one = statistics("min-max", {"a": [1.0, 2.0]})
    message = r"^cannot merge statistics of observers 'min-max' and 'mse'$"
    with pytest.raises(ValueError, match=message):
        one.merge(statistics("mse", {}))
    message = r"^key 'a': cannot merge channels along dimensions None and 0$"
    with pytest.raises(ValueError, match=message):
        one.merge(statistics("min-max", {"a": [1.0, 2.0]}, axis=0))
    message = "^key 'a': cannot merge observations with and without a histogram$"
    beside = statistics("min-max", {"a": [1.0, 2.0]}, with_histogram=True)
    for one_, other in ((one, beside), (beside, one)):
        with pytest.raises(ValueError, match=message):
            one_.merge(other)
    average = statistics("moving-average", {"a": [1.0, 2.0]})
    with pytest.raises(
        ValueError, match=r"^key 'a': cannot merge observations with the same batch 0$"
    ):
        average.merge(average)


def signed(content: Any) -> str:
    """The text of a file with this content and the digest that it should have."""
    if not isinstance(content, dict):
        return json.dumps(content)
    content = cast("dict[str, Any]", content)
    return json.dumps({**content, "digest": content_digest(content)})


def without(name: str) -> Callable[[Any], Any]:
    return lambda content: {k: v for k, v in content.items() if k != name}


def replaced(**members: Any) -> Callable[[Any], Any]:
    return lambda content: {**content, **members}


def as_list(content: Any) -> Any:
    return [content]


def with_observation(**members: Any) -> Callable[[Any], Any]:
    def change(content: Any) -> Any:
        content["observations"]["a"].update(members)
        return content

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("version"), "is missing 'version'"),
        (
            replaced(version=2),
            "has version 2, expected 1",
        ),
        (without("observations"), "is damaged"),
        (without("batches"), "is damaged"),
        (without("observer"), "is damaged"),
        (replaced(observer="mse"), "is damaged"),
        (replaced(observations=[1]), "is damaged"),
        (with_observation(kind="histogram"), "is damaged"),
        (with_observation(lows="x"), "is damaged"),
        (with_observation(axis=10**30, lows=[1.0], highs=[1.0]), "is damaged"),
        (with_observation(lows=5.0), "is damaged"),
        (with_observation(lows=[1.0]), "is damaged"),
        (with_observation(lows=[[1.0], 2.0]), "is damaged"),
        (with_observation(highs=float("inf")), "is damaged"),
        (with_observation(lows=[1.0], highs=[2.0]), "is damaged"),
        (with_observation(axis=0), "is damaged"),
        (with_observation(axis="0", lows=[1.0], highs=[2.0]), "is damaged"),
        (with_observation(axis=-1, lows=[1.0], highs=[2.0]), "is damaged"),
        (with_observation(axis=True, lows=[1.0], highs=[2.0]), "is damaged"),
        (replaced(batches=-1), "is damaged"),
        (replaced(batches=1.5), "is damaged"),
        (replaced(batches="1"), "is damaged"),
        (as_list, "is not a JSON object"),
    ],
)
def test_damaged_files(change: Callable[[Any], Any], message: str, tmp_path: Path):
    file = tmp_path / "stats.json"
    content = json.loads(statistics("min-max", {"a": [1.0, 2.0]}).to_text())
    file.write_text(signed(change(content)))
    with pytest.raises(ValueError, match=f"^{re.escape(f'{file} {message}')}$"):
        Statistics.load(file)


@pytest.mark.parametrize(
    "members",
    [
        {"used_bins": [0, 7425]},
        {"counts": [1]},
        {"counts": [-1, 1]},
        {"counts": [], "used_bins": []},
        {"exponents": [1]},
        {"exponents": 1},
        {"highs": 1e30},
        {"zeros": [1]},
        {"zeros": 1},
        {"zeros": -1},
    ],
)
def test_damaged_histograms(members: dict[str, Any], tmp_path: Path):
    file = tmp_path / "stats.json"
    content = json.loads(statistics("mse", {"a": [1.0, 2.0]}).to_text())
    content["observations"]["a"].update(members)
    file.write_text(signed(content))
    with pytest.raises(ValueError, match=r"stats.json is damaged$"):
        Statistics.load(file)


@pytest.mark.parametrize("batches", [[0, 0], [1, 0], [0]])
def test_damaged_batches(batches: list[int], tmp_path: Path):
    file = tmp_path / "stats.json"
    content = json.loads(statistics("moving-average", {"a": [1.0, 2.0]}).to_text())
    content["observations"]["a"].update(
        lows=[1.0, 2.0], highs=[1.0, 2.0], batches=batches
    )
    file.write_text(signed(content))
    with pytest.raises(ValueError, match=r"stats.json is damaged$"):
        Statistics.load(file)


@pytest.mark.parametrize("axis", [None, 0])
def test_damaged_histogram_beside(axis: int | None, tmp_path: Path):
    """Its channels must be those of the observation, and it must be whole."""
    file = tmp_path / "stats.json"
    values = {"a": [1.0, 2.0, 3.0]}
    content = json.loads(
        statistics("moving-average", values, axis=axis, with_histogram=True).to_text()
    )
    other = observe_histogram(np.ones(2), 0 if axis is None else None)
    for histogram in (other.to_json(), {}, None):
        content["observations"]["a"]["histogram"] = histogram
        file.write_text(signed(content))
        with pytest.raises(ValueError, match=r"stats.json is damaged$"):
            Statistics.load(file)


@st.composite
def edits(draw: st.DrawFn) -> tuple[float, str, int]:
    """Where in a text something is put, and in place of how many characters."""
    characters = st.sampled_from('0123456789.-+eE,:[]{}" \nabcdfinostxT')
    count, is_inserted = draw(st.sampled_from([(0, True), (1, True), (1, False)]))
    return draw(st.floats(0, 1)), draw(characters) if is_inserted else "", count


def edited(text: str, edit: tuple[float, str, int]) -> str:
    where, new, count = edit
    start = int(where * len(text))
    return text[:start] + new + text[start + count :]


@cache
def saved_file(observer: str) -> tuple[Statistics, str, dict[str, KeyStatistics]]:
    """Statistics, their text and their ranges, which take long to find."""
    values = {"a": [0.25, 3.0], "b": [10.0, -12.5]}
    saved = statistics(observer, values, with_histogram=True)
    return saved, saved.to_text(), {key: saved.ranges(key) for key in values}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("observer", OBSERVERS)
@settings(max_examples=300, deadline=None)
@given(edits())
def test_edits_are_noticed(observer: str, edit: tuple[float, str, int]):
    """A saved file that anything happened to has the same statistics, or none."""
    saved, text, ranges = saved_file(observer)
    with TemporaryDirectory() as directory:
        file = Path(directory) / "stats.json"
        file.write_text(edited(text, edit))
        with suppress(ValueError):
            assert Statistics.load(file) == saved
        with suppress(ValueError):
            assert read_statistics(file) == ranges


def test_ranges_that_are_edited_on_purpose(tmp_path: Path):
    """Without a digest they are as good as those of a file that is written by hand."""
    file = tmp_path / "stats.json"
    text = statistics("min-max", {"a": [1.0, 2.0]}).to_text()
    text = text.replace('"max": 2.0', '"max": 4.0')
    file.write_text(text)
    problem = f"{file} was changed after saving: its digest does not match; "
    message = (
        "save it again, or remove its member 'digest' if you edited ranges on purpose"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(problem + message)}$"):
        read_statistics(file)
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}calibrate again$"):
        Statistics.load(file)
    lines = text.splitlines(keepends=True)
    assert lines.pop(2).startswith('  "digest": ')
    file.write_text("".join(lines))
    assert read_statistics(file) == {"a": KeyStatistics((1, 4))}
    message = f"{file} was changed after saving: missing digest; calibrate again"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Statistics.load(file)


def test_digest_is_that_of_the_content(tmp_path: Path):
    """Not that of the text, which tools may indent otherwise."""
    file = tmp_path / "stats.json"
    saved = statistics("mse", {"a": [1.0, 2.0]})
    content = json.loads(saved.to_text())
    file.write_text(json.dumps(dict(reversed(content.items())), indent=8))
    assert Statistics.load(file) == saved


def test_full_disk(small_disk: Path):
    file = small_disk / "stats.json"
    small = statistics("min-max", {"a": [1.0, 2.0]})
    small.save(file)
    keys = {f"{key:0100}": [1.0, 2.0] for key in range(1000)}
    with pytest.raises(OSError, match="No space left on device"):
        statistics("min-max", keys).save(file)
    assert Statistics.load(file) == small
    assert [path.name for path in small_disk.iterdir()] == ["stats.json"]


def test_no_json(tmp_path: Path):
    file = tmp_path / "stats.json"
    file.write_text("{")
    with pytest.raises(ValueError, match=r"stats.json is not JSON: "):
        Statistics.load(file)
    with pytest.raises(FileNotFoundError):
        Statistics.load(tmp_path / "missing")


def test_repr():
    assert repr(Statistics("percentile=90")) == (
        "<Statistics of 0 keys in 0 batches, observer 'percentile=90'>"
    )


def test_merging_with_something_else():
    other: Any = 3
    with pytest.raises(TypeError, match=r"^expected statistics to merge, found int$"):
        Statistics().merge(other)


@pytest.mark.parametrize("axis", [None, 0])
def test_values_that_are_too_small_to_be_counted_apart(axis: int | None):
    """The bin around 0 is as wide as the largest value needs."""
    kind = parse_observer("percentile=90")

    def of(largest: float) -> Statistics:
        values = np.linspace(-1, 1, 2001)
        values[1000] = largest
        rows = np.stack([values, values]) if axis == 0 else values
        seen = KeyObservation.of(rows, axis, kind, 0, with_histogram=False)
        return Statistics("percentile=90", {"a": seen}, 1)

    (low, high), _, _ = of(1e9).ranges("a")
    assert (low, high) == (-1 + 6 / 64, 1 - 6 / 64)
    message = (
        r"^key 'a': range -4 to 1 may be much too wide: outlier -1e\+10 is so large that "
        r"one bin of the histogram holds all other values; remove samples with outliers$"
    )
    with pytest.warns(UserWarning, match=message):
        of(-1e10).ranges("a")


def test_range_that_cuts_off_many_values():
    values = np.random.default_rng(0).standard_normal(5000)

    def of(observer: str, count: int) -> Statistics:
        kind = parse_observer(observer)
        array = np.append(values[:count], np.zeros(count))
        seen = KeyObservation.of(array, None, kind, 0, with_histogram=False)
        return Statistics(observer, {"a": seen}, 1)

    low, high = of("mse=3", 5000).ranges("a").layer
    part = np.mean((values < low) | (values > high))
    assert 0.02 < part < 0.05
    message = (
        r"^key 'a': range -1\.\d+ to 1\.\d+ saturates 1\d\.\d% of the nonzero values; "
        r"use more bits, or observer 'min-max'$"
    )
    with pytest.warns(UserWarning, match=message):
        low, high = of("mse=2", 5000).ranges("a").layer
    assert np.mean((values < low) | (values > high)) > 0.1
    # Of few values, one is a large part. Percentiles say themselves what they cut off.
    of("mse=2", 999).ranges("a")
    of("percentile=50", 5000).ranges("a")
    # All values are at the end of the range.
    values = np.full(5000, -3.3)
    assert of("entropy", 5000).ranges("a").layer == (-3.3, 0)
