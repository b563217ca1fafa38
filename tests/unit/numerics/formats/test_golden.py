"""Bits that those who define the formats answered: see `tests/oracles/formats.py`."""

from pathlib import Path

import numpy as np
import pytest

from .answers import GOLDEN, INPUTS, Arrays, answers, count_differing


@pytest.mark.filterwarnings("ignore:.* stores values as zeros:RuntimeWarning")
@pytest.mark.parametrize("oracle", INPUTS)
def test_bits(oracle: str):
    inputs: Arrays = {}
    expected: Arrays = {}
    with np.load(Path(GOLDEN, f"{oracle}.npz")) as arrays:
        for key, array in arrays.items():
            kind, _, name = key.partition("/")
            if kind == "inputs":
                inputs[name] = array
            else:
                expected[key] = array
    found = answers(oracle, inputs)
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        assert count_differing(found[key], array) == 0, key
