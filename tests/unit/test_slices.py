"""Each slice can be deleted: the core is imported and lowers casts without it."""

import subprocess
import sys

import pytest

from tests.house import LOWER_QUANT_OPS, ROOT, SLICES, House

DELETABLE = (
    "execution.scheduling",
    "frontends.stablehlo",
    "frontends.tflite",
    "numerics.formats",
    "proving",
    "rosetta",
)

WITHOUT = """
import sys
from importlib import import_module

class Deleted:
    def find_spec(self, name, path, target=None):
        if f"{name}.".startswith("xdsl_quant.SLICE."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Deleted())
"""


@pytest.mark.parametrize("deleted", DELETABLE)
def test_core_without_a_slice(deleted: str):
    core = [
        file.name for file in House.of_package().files.values() if not file.is_slice
    ]
    script = WITHOUT.replace("SLICE", deleted) + LOWER_QUANT_OPS
    script += f"for name in {core}: import_module(name)\n"
    script += (
        f"print(*(n for n in sys.modules if n.startswith('xdsl_quant.{deleted}')))"
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.stderr, result.stdout) == ("", "\n")


def test_slices_are_those_of_the_house():
    assert {name for name in DELETABLE if name not in SLICES} == {
        "frontends.stablehlo",
        "frontends.tflite",
    }
