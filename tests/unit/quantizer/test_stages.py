"""Stages of a quantization: stopping, inspecting and replacing them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.dialects.quant import StatisticsOp, StatisticsRefOp
from xdsl_quant.quantizer import (
    DynamicRangeModel,
    MixedModel,
    Pipeline,
    Recipe,
    Request,
    StaticModel,
    WeightOnlyModel,
    WeightOptions,
    pipeline,
    quantize,
    read_recipe,
)
from xdsl_quant.quantizer.results import QuantizedModel
from xdsl_quant.quantizer.static_stages import StaticPipeline
from xdsl_quant.transforms.propagation.module_kernels import kernels_of

from .models import PLAIN, dense_layers, samples

DATA = samples(16, 6)
STATIC = (
    "prepare instrument fuse select calibrate specify propagate correct check export"
).split()
WEIGHTS = "prepare quantize correct check store".split()


def steps_of(recipe: Recipe | str = "int8") -> Pipeline:
    return pipeline(Request(dense_layers(), DATA, recipe))


def unchanged(module: ModuleOp) -> ModuleOp:
    return module


@pytest.mark.filterwarnings("ignore:'rounding = .gptq.' reduces the SQNR")
@pytest.mark.parametrize(
    ("recipe", "stages", "result"),
    [
        ("int8", STATIC, StaticModel),
        (PLAIN, [each for each in STATIC if each != "correct"], StaticModel),
        (
            Recipe(weights=WeightOptions(rounding="gptq")),
            [*STATIC[:7], "round", *STATIC[7:]],
            StaticModel,
        ),
        ("mixed", [*STATIC[:6], "search", *STATIC[6:]], MixedModel),
        ("int8-weights", WEIGHTS, WeightOnlyModel),
        ("dynamic-range", WEIGHTS, DynamicRangeModel),
    ],
)
def test_a_recipe_says_the_stages(
    recipe: Recipe | str, stages: list[str], result: type[QuantizedModel]
):
    steps = steps_of(recipe)
    assert [*steps.stages] == stages
    model = steps.result()
    assert type(model) is result
    assert [*steps.modules] == stages
    assert model.module is steps.module
    assert str(model.module) == str(quantize(dense_layers(), DATA, recipe).module)


def test_results_have_the_fields_of_their_mode():
    static = {*vars(steps_of(PLAIN).result())}
    weights = {*vars(steps_of("int8-weights").result())}
    assert static - weights == {"target", "statistics", "propagation"}
    assert weights <= static


def test_stopping_and_going_on():
    steps = steps_of(PLAIN)
    assert isinstance(steps, StaticPipeline)
    fused = steps.run(until="fuse")
    assert [*steps.modules] == ["prepare", "instrument", "fuse"]
    assert steps.module is fused
    assert steps.target.name == "stablehlo-int8"
    assert len(kernels_of(fused)) == 3
    text = str(fused)
    model = steps.result()
    assert str(steps.modules["fuse"]) == text
    assert not any(isinstance(op, StatisticsOp) for op in fused.walk())
    assert str(model.module) == str(quantize(dense_layers(), DATA, PLAIN).module)
    # A stage runs once.
    assert steps.run() is model.module


def test_each_module_is_left_as_it_is():
    steps = steps_of("int8")
    texts: dict[str, str] = {}
    for name in steps.stages:
        texts[name] = str(steps.run(until=name))
    assert {name: str(module) for name, module in steps.modules.items()} == texts
    assert "quant.stats_ref" in texts["fuse"]
    assert "quant.stats_ref" not in texts["calibrate"]


def test_replacing_a_stage():
    steps = steps_of("int8")
    steps.replace("correct", unchanged)
    expected = quantize(dense_layers(), DATA, PLAIN)
    assert str(steps.result().module) == str(expected.module)
    assert [*steps.stages] == STATIC


def test_a_stage_of_the_user():
    """Ranges of a file, or of another tool, in the place of observed ones."""
    seen: list[str] = []

    def look(module: ModuleOp) -> ModuleOp:
        for op in module.walk():
            if isinstance(op, StatisticsRefOp):
                seen.append(op.stats_key.data)
        return module

    steps = steps_of(PLAIN)
    steps.insert("look", look, before="fuse")
    model = steps.result()
    assert "main:argument:0" in seen
    assert [*steps.stages][:4] == ["prepare", "instrument", "look", "fuse"]
    assert str(model.module) == str(quantize(dense_layers(), DATA, PLAIN).module)


def test_stages_that_do_not_exist_or_have_run():
    steps = steps_of("int8-weights")
    message = "unknown stage 'fuse', available: 'prepare', 'quantize', "
    with pytest.raises(ValueError, match=f"^{message}"):
        steps.run(until="fuse")
    with pytest.raises(ValueError, match=f"^{message}"):
        steps.replace("fuse", unchanged)
    with pytest.raises(ValueError, match=f"^{message}"):
        steps.insert("mine", unchanged, before="fuse")
    with pytest.raises(ValueError, match=r"^stage 'check' exists already; replace it$"):
        steps.insert("check", unchanged, before="store")
    steps.run(until="prepare")
    message = "^stage 'prepare' has run; use a new pipeline$"
    with pytest.raises(ValueError, match=message):
        steps.replace("prepare", unchanged)
    with pytest.raises(ValueError, match=message):
        steps.insert("mine", unchanged, before="prepare")


def test_mistakes_are_found_before_a_stage_runs():
    with pytest.raises(
        ValueError, match=r"^unsupported target in mode .* leave it out$"
    ):
        pipeline(Request(dense_layers(), DATA, "int8-weights", target="mac-array"))
    with pytest.raises(ValueError, match=r"^unsupported budget"):
        pipeline(Request(dense_layers(), DATA, "int8", budget="1 dB"))


def test_samples_may_be_read_once():
    """A generator of batches is asked for once, whatever the number of stages."""
    recipe = read_recipe("int4-weights")
    recipe = replace(recipe, weights=replace(recipe.weights, rounding="gptq"))
    batches = [DATA[:4], DATA[4:8]]
    expected = quantize(dense_layers(), batches, recipe)
    found = quantize(dense_layers(), iter(batches), recipe)
    assert str(found.module) == str(expected.module)


def test_results_do_not_import_compilers():
    """Results and recipes can be read without the code that runs models."""
    program = (
        "import sys, xdsl_quant.quantizer; print([name for name in sys.modules if name"
        ".startswith(('xdsl_quant.execution', 'xdsl_quant.calibration', "
        "'xdsl_quant.frontends', 'xdsl_quant.transforms.propagation'))])"
    )
    command = [sys.executable, "-c", program]
    assert subprocess.check_output(command, text=True) == "[]\n"
