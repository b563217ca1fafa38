"""
The file that ranges of values are kept in from calibration to quantization.

It is JSON:

```json
{
  "version": 1,
  "statistics": {
    "main:argument:0": {"min": -1.5, "max": 2.0},
    "main:arith.constant:0": {
      "min": -1.0, "max": 0.5,
      "axis": 1, "axis_min": [-1.0, -0.25], "axis_max": [0.125, 0.5]
    }
  }
}
```

For each key there is the range of all elements and, perhaps, one for each index of the
dimension `axis`. What else it says about a key is not looked at.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

VERSION = 1
"""The version of the format."""

Range = tuple[float, float]


class KeyStatistics(NamedTuple):
    """The ranges that are known under a key."""

    layer: Range
    """Smallest and largest element."""

    axis: int | None = None
    """The dimension that there are ranges for each index of."""

    axis_ranges: Sequence[Range] | None = None
    """Smallest and largest element with each index."""


def read_statistics(path: Path) -> dict[str, KeyStatistics]:
    """
    The ranges in a file, by their keys.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is not what it should be.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as e:
        raise ValueError(f"{path} is no JSON: {e}") from None
    statistics = _member(content, "statistics", str(path))
    if not isinstance(statistics, dict):
        raise ValueError(f"'statistics' of {path} is no object")
    if (version := _member(content, "version", str(path))) != VERSION:
        raise ValueError(
            f"{path} has version {version!r}, but only version {VERSION} is known"
        )
    return {
        key: _key_statistics(entry, f"key '{key}' of {path}")
        for key, entry in cast("dict[str, Any]", statistics).items()
    }


def _member(content: Any, name: str, where: str) -> Any:
    if not isinstance(content, dict) or name not in content:
        raise ValueError(f"{where} has no '{name}'")
    return cast("dict[str, Any]", content)[name]


def _key_statistics(entry: Any, where: str) -> KeyStatistics:
    layer = _range(_member(entry, "min", where), _member(entry, "max", where), where)
    if (axis := entry.get("axis")) is None:
        return KeyStatistics(layer)
    if not isinstance(axis, int) or isinstance(axis, bool) or axis < 0:
        raise ValueError(f"'axis' of {where} is no dimension, but {axis!r}")
    lows = _list(entry, "axis_min", where)
    highs = _list(entry, "axis_max", where)
    if len(lows) != len(highs):
        raise ValueError(
            f"{where} has {len(lows)} values in 'axis_min', but {len(highs)} in 'axis_max'"
        )
    ranges = [
        _range(low, high, f"index {index} of {where}")
        for index, (low, high) in enumerate(zip(lows, highs, strict=True))
    ]
    return KeyStatistics(layer, axis, ranges)


def _list(entry: Any, name: str, where: str) -> list[Any]:
    values = _member(entry, name, where)
    if not isinstance(values, list):
        raise ValueError(f"'{name}' of {where} is no list")
    return cast("list[Any]", values)


def _range(low: Any, high: Any, where: str) -> Range:
    for bound in (low, high):
        if not isinstance(bound, int | float) or isinstance(bound, bool):
            raise ValueError(f"{where} has a bound that is no number, but {bound!r}")
        if not math.isfinite(bound):
            raise ValueError(f"{where} has a bound that is not finite")
    if low > high:
        raise ValueError(f"range {low} to {high} of {where} is reversed")
    return float(low), float(high)
