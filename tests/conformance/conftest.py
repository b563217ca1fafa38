"""One MLIR worker for all tests of this directory."""

from collections.abc import Iterator

import pytest

from .checks import Conformance
from .real_mlir import Mlir


@pytest.fixture(scope="session")
def mlir() -> Iterator[Mlir]:
    """Real MLIR."""
    with Mlir() as worker:
        yield worker


@pytest.fixture(scope="session")
def conformance(mlir: Mlir) -> Conformance:
    """The checks against real MLIR."""
    return Conformance(mlir)
