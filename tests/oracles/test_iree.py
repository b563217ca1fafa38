"""A sample of the models that `make iree` compares."""

import pytest

from .iree import IREE_PYTHON, main


@pytest.mark.sampled(0)
@pytest.mark.parametrize("name", ["DS-CNN", "alexa"])
def test_models(name: str):
    if not IREE_PYTHON.exists():
        pytest.skip("make iree")
    assert main(["--models", name, "--steps", "2"]) == 0
