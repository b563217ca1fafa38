"""Rows of `docs/background/xdsl_changes.md`, the changes of the plugin to xDSL."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

PAGE = ROOT / "docs" / "background" / "xdsl_changes.md"


class Change(NamedTuple):
    """A row of the table: a patch and what it does to xDSL."""

    patch: str
    """The name of the function, with its module: `arith.widen_casts`."""

    tests: Sequence[str]
    """The tests of xDSL's own suite in which it shows."""

    upstream: str
    """What ends it: a file below `docs/`."""


def documented_changes() -> Sequence[Change]:
    """All rows of the table in the page."""
    changes: list[Change] = []
    for line in PAGE.read_text().splitlines():
        if not line.startswith("| `"):
            continue
        patch, _, _, tests, upstream = line.strip("| ").split(" | ")
        link = re.search(r"\]\((.*)\)", upstream)
        assert link is not None, line
        text = link[1].removeprefix("../")
        changes.append(Change(patch.strip("`"), re.findall(r"`([^`]*)`", tests), text))
    return changes
