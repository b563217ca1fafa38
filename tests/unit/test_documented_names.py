"""Import paths and names that documents have printed since version 0.1 keep working."""

from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

LINES = Path(__file__).with_name("documented_names.txt").read_text().splitlines()
"""Module, and names in it that README, guides, API pages or examples print."""


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.partition(" ")[0])
def test_module_has_its_documented_names(line: str):
    path, *names = line.split()
    module = import_module(f"xdsl_quant.{path}" if path != "xdsl_quant" else path)
    for name in names:
        try:
            attrgetter(name)(module)
        except AttributeError:
            # `from xdsl_quant.dialects import tfl` also finds modules.
            import_module(f"{module.__name__}.{name}")
