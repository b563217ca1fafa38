"""
Run `xdsl-opt` with some of the installed plugins disabled.

    python -m benchmarks.plugin_start plugin,plugin,... arguments of xdsl-opt
"""

import sys
from importlib import metadata


def _hide_plugins(names: list[str]) -> None:
    all_entry_points = metadata.entry_points

    def entry_points(*, group: str) -> metadata.EntryPoints:
        found = all_entry_points(group=group)
        return metadata.EntryPoints(e for e in found if e.name not in names)

    metadata.entry_points = entry_points


if __name__ == "__main__":
    _hide_plugins(sys.argv.pop(1).split(","))
    from xdsl.tools.xdsl_opt import main

    main()
