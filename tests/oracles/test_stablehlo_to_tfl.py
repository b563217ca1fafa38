"""A sample of the random models that `make oracles` converts to TensorFlow Lite."""

from collections.abc import Iterator

import pytest

from tests.unit.frontends.tflite.files.litert_process import LiteRTProcess

from .stablehlo_models import FLOAT_MODELS, QUANTIZED_MODELS
from .stablehlo_to_tfl import compare, complaints


@pytest.fixture(scope="module")
def process() -> Iterator[LiteRTProcess]:
    pytest.importorskip("ai_edge_litert", reason="pip install ai-edge-litert")
    with LiteRTProcess() as process:
        yield process


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [*FLOAT_MODELS, *QUANTIZED_MODELS])
def test_random_models(name: str, process: LiteRTProcess):
    tally = compare(process, name, draws=2, seed=1)
    assert tally.values
    assert not complaints(tally)
