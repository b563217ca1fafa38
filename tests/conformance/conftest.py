"""One MLIR worker for all tests of this directory."""

from collections.abc import Iterator

import pytest

from .checks import Conformance
from .real_mlir import PYTHON_24, Mlir, mlir_24


@pytest.fixture(scope="session")
def mlir() -> Iterator[Mlir]:
    """Real MLIR."""
    with Mlir() as worker:
        yield worker


@pytest.fixture(scope="session")
def conformance(mlir: Mlir) -> Conformance:
    """The checks against real MLIR."""
    return Conformance(mlir)


@pytest.fixture(scope="session")
def conformance_24() -> Iterator[Conformance]:
    """The checks against MLIR 24."""
    if not PYTHON_24.exists():
        pytest.skip("no MLIR 24: make mlir24")
    with mlir_24() as worker:
        yield Conformance(worker)


@pytest.fixture(scope="session", params=["conformance", "conformance_24"])
def each_conformance(request: pytest.FixtureRequest) -> Conformance:
    """The checks against each MLIR."""
    return request.getfixturevalue(request.param)
