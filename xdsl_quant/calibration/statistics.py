"""Calibration statistics by key: ranges, observations, and their JSON files."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from xdsl_quant.diagnostics import quoted
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.numerics.histogram import SMALLEST_MAGNITUDE, Histogram
from xdsl_quant.numerics.histogram_errors import clipped_fraction
from xdsl_quant.numerics.observations import BatchMinMax, Observation
from xdsl_quant.numerics.observers import (
    ClippingObserver,
    Observer,
    observe_histogram,
    parse_observer,
)
from xdsl_quant.runtime.atomic_files import write_text_atomically
from xdsl_quant.transforms.statistics.ranges.statistics_file import (
    VERSION,
    KeyStatistics,
    content_digest,
    read_content,
)

_MAX_LISTED = 5
"""Maximum number of keys in an error message."""


class KeyObservation(NamedTuple):
    """Observation of the values of a key."""

    axis: int | None
    """Channel dimension for per-channel ranges; otherwise `None`."""

    observation: Observation
    """Result of the observer."""

    extra_histogram: Histogram | None = None
    """Histogram of the same values, if requested and not contained in `observation`."""

    @staticmethod
    def of(
        values: Array,
        axis: int | None,
        observer: Observer,
        batch: int,
        with_histogram: bool,
    ) -> KeyObservation:
        """
        Observe the values of a batch.

        Raises:
            ValueError: see [`observe`][xdsl_quant.numerics.observers.Observer.observe].
        """
        observation = observer.observe(values, axis, batch)
        if not with_histogram or isinstance(observation, Histogram):
            return KeyObservation(axis, observation)
        return KeyObservation(axis, observation, observe_histogram(values, axis))

    @property
    def histogram(self) -> Histogram | None:
        """Histogram of the values, if collected."""
        if isinstance(self.observation, Histogram):
            return self.observation
        return self.extra_histogram

    def merge(self, other: KeyObservation) -> KeyObservation:
        """
        Merge the observations of different batches.

        Raises:
            ValueError: if the channels differ, or only one has a histogram.
        """
        if self.axis != other.axis:
            raise ValueError(
                f"cannot merge channels along dimensions {self.axis} and {other.axis}"
            )
        return self._with(other, self.observation.merge(other.observation))

    def extend(self, other: KeyObservation) -> KeyObservation:
        """
        Merge observations of the same key within one batch.

        Raises:
            ValueError: if the number of channels differs.
        """
        return self._with(other, self.observation.extend(other.observation))

    def _with(self, other: KeyObservation, observation: Observation) -> KeyObservation:
        mine, theirs = self.extra_histogram, other.extra_histogram
        if mine is None and theirs is None:
            return KeyObservation(self.axis, observation)
        if mine is None or theirs is None:
            raise ValueError("cannot merge observations with and without a histogram")
        return KeyObservation(self.axis, observation, mine.merge(theirs))


@dataclass(frozen=True)
class Statistics:
    """
    Calibration statistics of a set of batches. Immutable; can be pickled.

    Statistics are equal if their observers, keys and observations are equal.
    """

    observer: str = "min-max"
    """Observer, in the syntax of [`calibrate`][xdsl_quant.calibration.calibrate]."""

    observations: Mapping[str, KeyObservation] = field(
        default_factory=dict[str, KeyObservation]
    )

    batch_count: int = 0

    _ranges: dict[str, KeyStatistics] = field(
        default_factory=dict[str, KeyStatistics], init=False, repr=False, compare=False
    )
    """Cache of the ranges: some observers take long to compute them."""

    def __post_init__(self):
        parse_observer(self.observer)

    def __repr__(self) -> str:
        return (
            f"<Statistics of {len(self.observations)} keys in {self.batch_count} batches, "
            f"observer '{self.observer}'>"
        )

    def merge(self, other: Statistics) -> Statistics:
        """
        Return the statistics of the batches of `self` and `other`. Merging is
        associative and commutative.

        Raises:
            TypeError: if `other` is not `Statistics`.
            ValueError: if observers or channels differ, or both contain the same batch
                for a moving average.
        """
        if not isinstance(cast(object, other), Statistics):
            raise TypeError(
                f"expected statistics to merge, found {type(other).__name__}"
            )
        if parse_observer(self.observer) != parse_observer(other.observer):
            raise ValueError(
                f"cannot merge statistics of observers '{self.observer}' and "
                f"'{other.observer}'"
            )
        observations = dict(self.observations)
        for key, theirs in other.observations.items():
            if (mine := observations.get(key)) is not None:
                try:
                    theirs = mine.merge(theirs)
                except ValueError as e:
                    raise ValueError(f"key '{key}': {e}") from None
            observations[key] = theirs
        # Equal observers may have different text: choose independently of the order.
        observer = max(self.observer, other.observer)
        return Statistics(observer, observations, self.batch_count + other.batch_count)

    def ranges(self, key: str) -> KeyStatistics:
        """
        Return the range of a key and of its channels.

        Raises:
            KeyError: if the key is unknown.
        """
        if (known := self._ranges.get(key)) is None:
            if key not in self.observations:
                raise KeyError(f"unknown key '{key}'; available: {self._listed()}")
            known = self._ranges[key] = self._computed_ranges(key)
        return known

    def _listed(self) -> str:
        keys = sorted(self.observations)
        more = len(keys) - _MAX_LISTED
        listed = quoted(keys[:_MAX_LISTED]) or "none"
        return f"{listed} and {more} more" if more > 0 else listed

    def _computed_ranges(self, key: str) -> KeyStatistics:
        axis, observation, _ = self.observations[key]
        observer = parse_observer(self.observer)
        lows, highs = observer.ranges(observation)
        if isinstance(observation, Histogram):
            _warn_of_range(key, observer, observation, lows, highs)
        layer = (float(lows.min()), float(highs.max()))
        if axis is None:
            return KeyStatistics(layer)
        ranges = list(zip(lows.tolist(), highs.tolist(), strict=True))
        return KeyStatistics(layer, axis, ranges)

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """
        Write a JSON file that `quant-import-stats` reads. It contains ranges and
        observations, so that it can be loaded and merged. After an error, an
        existing file is unchanged.

        Raises:
            OSError: if the file cannot be written.
        """
        write_text_atomically(path, self.to_text())

    def to_text(self) -> str:
        """Return the JSON text of a statistics file."""
        keys = sorted(self.observations)
        ranges = {key: _entry(self.ranges(key)) for key in keys}
        return _json_text({"statistics": ranges, **self._state()})

    def state_text(self, **more: str) -> str:
        """Return JSON without ranges, which may be slow to compute; `more` adds members."""
        return _json_text({**more, **self._state()})

    def _state(self) -> dict[str, object]:
        keys = sorted(self.observations)
        return {
            "observer": self.observer,
            "batches": self.batch_count,
            "observations": {key: _state(self.observations[key]) for key in keys},
        }

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Statistics:
        """
        Read a file written by [`save`][xdsl_quant.calibration.Statistics.save].

        Raises:
            OSError: if the file cannot be read.
            ValueError: if the file has another format, or has changed since `save`.
        """
        content = read_content(path, "calibrate again", needs_digest=True)
        return Statistics.from_content(content, str(path))

    @staticmethod
    def from_content(content: Mapping[str, object], name: str) -> Statistics:
        """
        Return the statistics from the content of a file.

        Raises:
            ValueError: if the content is invalid; the message names the file `name`.
        """
        try:
            observer = cast("str", content["observer"])
            kind = parse_observer(observer).OBSERVATION
            states = cast("Mapping[str, _State]", content["observations"])
            observations = {
                key: _key_observation(state, kind) for key, state in states.items()
            }
            count = _natural_number(content["batches"])
            return Statistics(observer, observations, count)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            raise ValueError(f"{name} is damaged") from None


_MAX_CUT_OFF = 0.05
"""Fraction of saturated nonzero values above which a warning is issued."""

_MIN_COUNT = 1000
"""Minimum number of nonzero values for a warning of saturation."""


def _warn_of_range(
    key: str,
    observer: Observer,
    histogram: Histogram,
    lows: Array,
    highs: Array,
) -> None:
    """Warn if a range is uncertain or saturates many values."""
    low, high = float(lows.min()), float(highs.max())
    bounds = histogram.parts_of(np.maximum(np.abs(lows), np.abs(highs)))
    if ((bounds > 0) & (bounds <= SMALLEST_MAGNITUDE)).any():
        values = float(histogram.lows.min()), float(histogram.highs.max())
        warnings.warn(
            f"key '{key}': range {low:g} to {high:g} may be much too wide: outlier "
            f"{max(values, key=abs):g} is so large that one bin of the histogram holds all "
            "other values; remove samples with outliers",
            stacklevel=2,
        )
    count = int(histogram.counts.sum() - histogram.zeros.sum())
    if not isinstance(observer, ClippingObserver) or count < _MIN_COUNT:
        return
    if (part := clipped_fraction(histogram, lows, highs)) > _MAX_CUT_OFF:
        warnings.warn(
            f"key '{key}': range {low:g} to {high:g} saturates {part:.1%} of the "
            "nonzero values; use more bits, or observer 'min-max'",
            stacklevel=2,
        )


def _entry(statistics: KeyStatistics) -> dict[str, object]:
    low, high = statistics.layer
    entry: dict[str, object] = {"min": low, "max": high}
    if (ranges := statistics.axis_ranges) is not None:
        entry["axis"] = statistics.axis
        entry["axis_min"] = [low for low, _ in ranges]
        entry["axis_max"] = [high for _, high in ranges]
    return entry


def _state(key_observation: KeyObservation) -> dict[str, object]:
    axis, observation, histogram = key_observation
    state: dict[str, object] = {"kind": observation.KIND, "axis": axis}
    state |= observation.to_json()
    if histogram is not None:
        state["histogram"] = histogram.to_json()
    return state


_State: TypeAlias = "Mapping[str, ArrayLike]"
"""JSON members of an observation."""


def _key_observation(state: _State, kind: type[Observation]) -> KeyObservation:
    if state["kind"] != kind.KIND:
        raise ValueError("of another observer")
    axis = cast("int | None", state["axis"])
    if axis is not None and _natural_number(axis) >= _MAX_RANK:
        raise ValueError("a dimension that no array has")
    observation = kind.from_json(state)
    shape = observation.lows.shape
    if len(shape) != (axis is not None) + (kind is BatchMinMax):
        raise ValueError("of other channels")
    if "histogram" not in state:
        return KeyObservation(axis, observation)
    histogram = Histogram.from_json(cast("_State", state["histogram"]))
    if histogram.lows.shape != (() if axis is None else shape[-1:]):
        raise ValueError("of other channels")
    return KeyObservation(axis, observation, histogram)


_MAX_RANK = 64
"""Maximum rank of NumPy arrays."""


def _natural_number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("no natural number")
    return value


def _json_text(content: Mapping[str, object]) -> str:
    """Return the JSON of a file with these members and their digest."""
    digest = content_digest({"version": VERSION, **content})
    content = {"version": VERSION, "digest": digest, **content}
    lines = (f"{json.dumps(name)}: {_json(value)}" for name, value in content.items())
    return "{\n  " + ",\n  ".join(lines) + "\n}\n"


def _json(value: object) -> str:
    """Return JSON with one line per member of an object."""
    if not isinstance(value, dict) or not value:
        return json.dumps(value, allow_nan=False)
    lines = (
        f"{json.dumps(name)}: {json.dumps(member, allow_nan=False)}"
        for name, member in cast("dict[str, object]", value).items()
    )
    return "{\n    " + ",\n    ".join(lines) + "\n  }"
