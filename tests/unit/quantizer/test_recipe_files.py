"""Recipes in files, and what is wrong with them."""

from typing import Any

import numpy as np
import pytest

from xdsl_quant.quantizer import (
    Budget,
    Override,
    Recipe,
    RecipeError,
    SearchOptions,
    WeightOptions,
    parse_recipe,
    read_recipe,
)
from xdsl_quant.quantizer.recipe_files import recipe_names


def test_recipes_that_are_shipped():
    recipes = {
        name: read_recipe(name) for name in recipe_names() if "blocks" not in name
    }
    assert {name: recipe.targets for name, recipe in recipes.items()} == {
        "dynamic-range": ("tflite-int8", "stablehlo-int8"),
        "int16x8": ["tflite-int16x8", "stablehlo-int16x8"],
        "int4-weights": ("tflite-int8", "stablehlo-int8"),
        "int8": ["tflite-int8", "stablehlo-int8"],
        "int8-weights": ("tflite-int8", "stablehlo-int8"),
        "mixed": ["tflite-mixed", "stablehlo-mixed"],
    }
    assert {name: recipe.mode for name, recipe in recipes.items()} == {
        "dynamic-range": "dynamic-range",
        "int16x8": "static",
        "int4-weights": "weight-only",
        "int8": "static",
        "int8-weights": "weight-only",
        "mixed": "static",
    }
    assert recipes["mixed"].search == SearchOptions((2, 4, 8), (8,), Budget(12, "dB"))
    assert all(recipe.description for recipe in recipes.values())
    assert all(recipe.name == name for name, recipe in recipes.items())


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("size", [32, 64, 128, 256])
def test_recipes_of_blocks(bits: int, size: int):
    recipe = read_recipe(f"int{bits}-blocks-{size}")
    assert recipe.mode == ("dynamic-range" if bits == 4 else "weight-only")
    assert recipe.description.startswith(f"{bits}-bit weights with a scale per {size} ")
    assert recipe.weights == WeightOptions(
        bits, "block", size, "mse", narrow_range=False, partial_blocks="float"
    )


def test_what_a_recipe_says():
    text = """
description = "Some bits"
targets = ["mac-array"]
observer = "percentile=99.9"
bias-correction = false

[[overrides]]
ops = ["tfl.softmax", "tfl.l*"]
keep-float = true

[[overrides]]
locations = ["block_[12]/"]
values = ["main:argument:0"]
observer = "mse=8"
weight-bits = 4
"""
    assert parse_recipe(text, name="mine") == Recipe(
        "mine",
        "Some bits",
        ["mac-array"],
        "percentile=99.9",
        bias_correction=False,
        overrides=(
            Override(["tfl.softmax", "tfl.l*"], [], [], keep_float=True),
            Override(
                [],
                ["block_[12]/"],
                ["main:argument:0"],
                observer="mse=8",
                weight_bits=4,
            ),
        ),
    )


def test_what_a_recipe_searches():
    text = """
[search]
weight-bits = [8, 4]
activation-bits = [16]
budget = "1.5 kB"
"""
    search = SearchOptions((4, 8), (16,), Budget(1500, "bytes"))
    assert parse_recipe(text).search == search
    assert parse_recipe("[search]\n").search == SearchOptions()
    assert parse_recipe("").search is None


def test_kernels_of_a_target_may_be_rounded():
    assert parse_recipe('[weights]\nrounding = "gptq"') == Recipe(
        "recipe", weights=WeightOptions(rounding="gptq")
    )


def test_what_a_recipe_says_of_weights():
    text = """
mode = "weight-only"
bias-correction = false

[weights]
bits = 3
granularity = "block"
block-size = 16
range = "mse"
rounding = "gptq"
"""
    assert parse_recipe(text) == Recipe(
        "recipe",
        mode="weight-only",
        weights=WeightOptions(3, "block", 16, "mse", "gptq"),
        bias_correction=False,
    )
    text = 'mode = "weight-only"\n[weights]\nbits = 4'
    assert parse_recipe(text) == Recipe(
        "recipe", mode="weight-only", weights=WeightOptions(4, "axis", 32, "min-max")
    )


def test_what_a_recipe_says_of_activations():
    text = 'mode = "dynamic-range"\nasymmetric-inputs = {}\n[weights]\nbits = 4'
    assert [parse_recipe(text.format(word)) for word in ("true", "false")] == [
        Recipe(
            "recipe",
            mode="dynamic-range",
            weights=WeightOptions(4),
            asymmetric_inputs=asymmetric,
        )
        for asymmetric in (True, False)
    ]


def test_what_a_recipe_does_not_say_is_by_default():
    assert parse_recipe("", name="int8") == Recipe()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'observers = "mse=8"',
            "my.toml:1: error: unknown key, found 'observers' in a recipe; use 'observer'",
        ),
        (
            'targets = "tflite-int8"',
            "my.toml:1: error: expected an array of strings for 'targets', found "
            "'tflite-int8'; write an array of strings",
        ),
        (
            'mode = "weights"',
            "my.toml:1: error: expected one of 'static', 'weight-only', 'dynamic-range' "
            "for 'mode', found 'weights'",
        ),
        (
            "[weights]\nbits = 4",
            "my.toml:2: error: 'bits' has no effect in mode 'static'; leave it out",
        ),
        (
            'mode = "weight-only"\n[search]\nbudget = "1 dB"',
            "my.toml:2: error: 'search' has no effect in mode 'weight-only'; leave it out",
        ),
        (
            "[search]\nbits = [4]",
            "my.toml:2: error: unknown key, found 'bits' in search; use 'weight-bits'",
        ),
        (
            "[search]\nweight-bits = [4, 1]",
            "my.toml:2: error: expected numbers of bits from 2 to 16 for 'weight-bits', "
            "found 1",
        ),
        (
            "[search]\nactivation-bits = []",
            "my.toml:2: error: expected different numbers of bits for 'activation-bits', "
            "found []; leave it out, or write each one once",
        ),
        (
            "[search]\nactivation-bits = [8, 8]",
            "my.toml:2: error: expected different numbers of bits for 'activation-bits', "
            "found [8, 8]; leave it out, or write each one once",
        ),
        (
            '[search]\nbudget = "1"',
            "my.toml:2: error: expected a budget, found '1'; write bytes such as '20 kB', "
            "a loss of SQNR such as '1 dB', or a loss of accuracy in points such as "
            "'0.5 %'",
        ),
        (
            'mode = "weight-only"\nobserver = "min-max"',
            "my.toml:2: error: 'observer' has no effect in mode 'weight-only'; leave "
            "it out",
        ),
        (
            'mode = "weight-only"\nasymmetric-inputs = true',
            "my.toml:2: error: 'asymmetric-inputs' has no effect in mode 'weight-only'; "
            "leave it out",
        ),
        (
            'mode = "weight-only"\nweights = 4',
            "my.toml:2: error: expected a table with the header [weights] for 'weights', "
            "found 4; write a table with the header [weights]",
        ),
        (
            'mode = "weight-only"\n[weights]\nbits = 9',
            "my.toml:3: error: expected a number of bits from 2 to 8 for 'bits', found 9",
        ),
        (
            'mode = "weight-only"\n[weights]\nblock-size = 0',
            "my.toml:3: error: expected a positive integer for 'block-size', found 0",
        ),
        (
            'mode = "weight-only"\n[weights]\ngranularity = "channel"',
            "my.toml:3: error: expected one of 'tensor', 'axis', 'block', 'block-or-axis' "
            "for 'granularity', found 'channel'",
        ),
        (
            'mode = "weight-only"\n[weights]\nrounding = "adaround"',
            "my.toml:3: error: expected one of 'nearest', 'gptq' for 'rounding', found "
            "'adaround'",
        ),
        (
            'mode = "weight-only"\n[weights]\nblocksize = 1',
            "my.toml:3: error: unknown key, found 'blocksize' in weights; use 'block-size'",
        ),
        (
            '\nobserver = "median"',
            "my.toml:2: error: unknown observer 'median', available: min-max, "
            "moving-average, percentile, entropy, mse",
        ),
        (
            '[[overrides]]\nop = ["tfl.add"]',
            "my.toml:2: error: unknown key, found 'op' in an override; use 'ops'",
        ),
        (
            "[[overrides]]\nkeep-float = true",
            "my.toml:1: error: expected 'ops', 'locations' or 'values' in an override, "
            "found none; select kernels or values",
        ),
        (
            "targets = []",
            "my.toml:1: error: expected one or more 'targets', found none; leave it out",
        ),
        (
            'mode = "weight-only"\n[weights]\nblock-size = 4',
            "my.toml:3: error: 'block-size' has no effect without granularity 'block' "
            "or 'block-or-axis'; "
            "leave it out",
        ),
        (
            'mode = "weight-only"\n[weights]\npartial-blocks = "float"',
            "my.toml:3: error: 'partial-blocks' has no effect without granularity "
            "'block' or 'block-or-axis'; leave it out",
        ),
        (
            'mode = "weight-only"\n[weights]\ngranularity = "block"\n'
            'partial-blocks = "keep"',
            "my.toml:4: error: expected one of 'resize', 'float', 'error' for "
            "'partial-blocks', found 'keep'",
        ),
        (
            'mode = "weight-only"\n[weights]\nnarrow-range = 1',
            "my.toml:3: error: expected true or false for 'narrow-range', found 1",
        ),
        (
            '[[overrides]]\nops = ["a"]',
            "my.toml:1: error: expected 'keep-float', 'observer' or 'weight-bits' in an "
            "override, found none; add a change",
        ),
        (
            '[[overrides]]\nvalues = ["a"]\nweight-bits = 8',
            "my.toml:3: error: 'weight-bits' has no effect on 'values'; select kernels by "
            "'ops' or 'locations'",
        ),
        (
            '[[overrides]]\nops = ["a"]\nkeep-float = 1',
            "my.toml:3: error: expected true or false for 'keep-float', found 1",
        ),
        (
            '[[overrides]]\nops = ["a"]\nweight-bits = 1',
            "my.toml:3: error: expected a number of bits from 2 to 16 for 'weight-bits', "
            "found 1",
        ),
        (
            '[[overrides]]\nops = ["a"]\nweight-bits = true',
            "my.toml:3: error: expected a number of bits from 2 to 16 for 'weight-bits', "
            "found true",
        ),
        (
            '[[overrides]]\nlocations = ["ok", "(a"]\nkeep-float = true',
            "my.toml:2: error: expected a regular expression, found '(a': missing ), "
            "unterminated subpattern at position 0",
        ),
        (
            "a b",
            "my.toml:1:3: error: expected TOML, found expected '=' after a key in a "
            "key/value pair; see https://toml.io",
        ),
    ],
)
def test_mistakes(text: str, message: str):
    with pytest.raises(RecipeError) as caught:
        parse_recipe(text, "my.toml")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"locations": "tanh", "keep_float": True},
            "expected an array of strings for 'locations', found 'tanh'; write an array "
            "of strings",
        ),
        (
            {"ops": ["tfl.add", 3], "keep_float": True},
            "expected an array of strings for 'ops', found 3 in it; write a string in its "
            "place",
        ),
        (
            {"locations": ["("], "keep_float": True},
            "expected a regular expression, found '(': missing ), unterminated subpattern "
            "at position 0",
        ),
        (
            {"ops": ["tfl.tanh"]},
            "expected 'keep-float', 'observer' or 'weight-bits' in an override, found "
            "none; add a change",
        ),
        (
            {"keep_float": True},
            "expected 'ops', 'locations' or 'values' in an override, found none; select "
            "kernels or values",
        ),
        (
            {"ops": ["tfl.tanh"], "keep_float": "yes"},
            "expected true or false for 'keep-float', found 'yes'",
        ),
        (
            {"ops": ["tfl.tanh"], "observer": 8},
            "expected a string for 'observer', found 8; write a string",
        ),
        (
            {"ops": ["tfl.tanh"], "observer": "median"},
            "unknown observer 'median', available: min-max, moving-average, "
            "percentile, entropy, mse",
        ),
        (
            {"ops": ["tfl.tanh"], "weight_bits": 17},
            "expected a number of bits from 2 to 16 for 'weight-bits', found 17",
        ),
        (
            {"values": ["main:*"], "weight_bits": 8},
            "'weight-bits' has no effect on 'values'; select kernels by 'ops' or "
            "'locations'",
        ),
    ],
)
def test_mistakes_in_python(values: dict[str, Any], message: str):
    with pytest.raises(RecipeError) as caught:
        Override(**values)
    assert str(caught.value) == message


def test_numpy_integers_are_bits():
    bits: Any = np.int64(4)
    assert Override(ops=["a"], weight_bits=bits) == Override(["a"], weight_bits=4)


def test_an_unknown_recipe():
    with pytest.raises(RecipeError) as caught:
        read_recipe("int7")
    assert str(caught.value) == (
        "unknown recipe 'int7', available: 'dynamic-range', 'int16x8', "
        "'int2-blocks-128', 'int2-blocks-256', 'int2-blocks-32', 'int2-blocks-64', "
        "'int4-blocks-128', 'int4-blocks-256', 'int4-blocks-32', 'int4-blocks-64', "
        "'int4-weights', 'int8', 'int8-weights', 'mixed'; use one of them, or the path "
        "of a .toml file"
    )


def test_a_file_that_is_missing():
    with pytest.raises(RecipeError) as caught:
        read_recipe("missing.toml")
    assert str(caught.value) == (
        "missing.toml: error: no such file or directory; use the path of a .toml file"
    )
