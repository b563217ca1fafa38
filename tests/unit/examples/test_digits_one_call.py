"""The networks on digits in one call."""

import pytest

from examples.digits.dataset import load_digits
from examples.digits.one_call import report

LINES = {
    "mlp": [
        "mlp          linalg     int8          39.5  877",
        "mlp          linalg     int8-weights  44.8  878",
        "mlp          linalg     int4-weights  18.7  874",
        "mlp          stablehlo  int8          40.2  878",
        "mlp          stablehlo  int8-weights  49.6  878",
        "mlp          stablehlo  int4-weights  24.5  878",
    ],
    "convolution": [
        "convolution  linalg     int8          41.1  887",
        "convolution  linalg     int8-weights  43.9  887",
        "convolution  linalg     int4-weights  23.0  887",
        "convolution  stablehlo  int8          43.7  886",
        "convolution  stablehlo  int8-weights  51.2  886",
        "convolution  stablehlo  int4-weights  28.9  887",
    ],
}


@pytest.mark.parametrize("name", LINES)
def test_recipes(name: str):
    assert [*report(name, *load_digits())] == LINES[name]
