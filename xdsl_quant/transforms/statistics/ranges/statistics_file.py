"""
Statistics files, which store the ranges of values between calibration and quantization.

The format is JSON:

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

A key has the range of all elements and optional ranges for each index of the dimension
`axis`. Other members of a key are ignored.

Files saved by calibration have a member `digest`, which detects changes of the other
members. Handwritten files do not need it.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

VERSION = 1
"""Version of the format."""

Range = tuple[float, float]

Members: TypeAlias = dict[str, object]
"""Members of a JSON object."""


class KeyStatistics(NamedTuple):
    """Ranges of the value with a key."""

    layer: Range
    """Smallest and largest element."""

    axis: int | None = None
    """Dimension with a range for each index."""

    axis_ranges: Sequence[Range] | None = None
    """Smallest and largest element for each index."""


def content_digest(content: Mapping[str, object]) -> str:
    """Return the SHA-256 of the content of a file without its digest."""
    members = {name: value for name, value in content.items() if name != "digest"}
    return hashlib.sha256(json.dumps(members, sort_keys=True).encode()).hexdigest()


def read_content(
    path: str | os.PathLike[str],
    advice: str,
    *,
    needs_digest: bool,
    other_file: str = "",
) -> Members:
    """
    Return the members of the JSON object in a file.

    Args:
        path: the file.
        advice: the advice in messages about a changed file.
        needs_digest: True to refuse files without digest, such as handwritten files.
        other_file: the advice in messages about files of other kinds.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is not a JSON object, has another version, or a missing or
            wrong digest.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as e:
        raise ValueError(f"{path} is not JSON: {e}{other_file}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not a JSON object{other_file}")
    members = cast(Members, content)
    if (version := _json_member(members, "version", str(path))) != VERSION:
        raise ValueError(f"{path} has version {version!r}, expected {VERSION}")
    problem = None
    if "digest" not in members:
        problem = "missing digest" if needs_digest else None
    elif members["digest"] != content_digest(members):
        problem = "its digest does not match"
    if problem is not None:
        raise ValueError(f"{path} was changed after saving: {problem}; {advice}")
    return members


def read_statistics(path: Path) -> dict[str, KeyStatistics]:
    """
    Return the ranges in a file by key.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if the content is invalid.
    """
    content = read_content(
        path,
        "save it again, or remove its member 'digest' if you edited ranges on purpose",
        needs_digest=False,
    )
    statistics = _json_member(content, "statistics", str(path))
    if not isinstance(statistics, dict):
        raise ValueError(f"expected an object as 'statistics' of {path}")
    return {
        key: _key_statistics(entry, f"key '{key}' of {path}")
        for key, entry in cast(Members, statistics).items()
    }


def _json_member(content: object, name: str, where: str) -> object:
    if not isinstance(content, dict) or name not in content:
        raise ValueError(f"{where} is missing '{name}'")
    return cast(Members, content)[name]


def _key_statistics(entry: object, where: str) -> KeyStatistics:
    layer = _finite_range(
        _json_member(entry, "min", where), _json_member(entry, "max", where), where
    )
    if (axis := cast(Members, entry).get("axis")) is None:
        return KeyStatistics(layer)
    if not isinstance(axis, int) or isinstance(axis, bool) or axis < 0:
        raise ValueError(f"expected a dimension as 'axis' of {where}, found {axis!r}")
    bounds = {
        name: _json_member(entry, name, where) for name in ("axis_min", "axis_max")
    }
    for name, found in bounds.items():
        if not isinstance(found, list):
            raise ValueError(f"expected a list as '{name}' of {where}")
    lows, highs = cast("Iterable[list[object]]", bounds.values())
    if len(lows) != len(highs):
        raise ValueError(
            f"{where} has {len(lows)} values in 'axis_min', but {len(highs)} in 'axis_max'"
        )
    ranges = [
        _finite_range(low, high, f"index {index} of {where}")
        for index, (low, high) in enumerate(zip(lows, highs, strict=True))
    ]
    return KeyStatistics(layer, axis, ranges)


def _finite_range(low: object, high: object, where: str) -> Range:
    ends: list[float] = []
    for bound in (low, high):
        if not isinstance(bound, int | float) or isinstance(bound, bool):
            raise ValueError(f"expected a number as bound of {where}, found {bound!r}")
        if not math.isfinite(bound):
            raise ValueError(f"expected a finite bound of {where}, found {bound}")
        ends.append(float(bound))
    if ends[0] > ends[1]:
        raise ValueError(f"range {low} to {high} of {where} is reversed")
    return ends[0], ends[1]
