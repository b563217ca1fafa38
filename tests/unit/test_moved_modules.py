"""Documented import paths of modules that have moved."""

from importlib import import_module

import pytest

from xdsl_quant.dialects import stablehlo, tfl
from xdsl_quant.frontends.stablehlo import dialect as stablehlo_dialect
from xdsl_quant.frontends.tflite import dialect as tfl_dialect


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dialects.stablehlo", "frontends.stablehlo.dialect"),
        ("dialects.tfl", "frontends.tflite.dialect"),
        ("dialects.tfl.state", "frontends.tflite.dialect.state"),
        ("interpreters", "machines.numpy"),
        ("interpreters.functions", "machines.numpy.functions"),
        ("interpreters.tfl", "frontends.tflite.interpreter"),
        ("numerics.tflite.elementwise", "frontends.tflite.formulas.elementwise"),
        ("runtime.arrays", "runtime.arrays"),
        (
            "transforms.stablehlo.integers.products",
            "frontends.stablehlo.lowering.integers.products",
        ),
        (
            "transforms.tfl.convert_tfl_to_linalg",
            "frontends.tflite.lowering.convert_tfl_to_linalg",
        ),
    ],
)
def test_old_path_is_the_same_module(old: str, new: str):
    moved = import_module(f"xdsl_quant.{old}")
    assert moved is import_module(f"xdsl_quant.{new}")
    assert moved.__spec__ is not None
    assert moved.__spec__.name == moved.__name__ == f"xdsl_quant.{new}"


def test_dialects_are_those_of_the_frontends():
    assert tfl is tfl_dialect
    assert stablehlo is stablehlo_dialect


@pytest.mark.parametrize("name", ["interpreters.nothing", "interpreters_of_others"])
def test_other_paths_are_not_found(name: str):
    with pytest.raises(ModuleNotFoundError, match=r"nothing|interpreters_of_others"):
        import_module(f"xdsl_quant.{name}")
