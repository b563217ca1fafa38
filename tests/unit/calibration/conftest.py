"""Calibration with and without the extra `mlir`."""

from collections.abc import Iterator

import pytest

from xdsl_quant.calibration import instrumented_function


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Calibration without the extra `mlir`."""

    def missing(*args: object, **options: object):
        raise ImportError("compiled execution needs MLIR")

    monkeypatch.setattr("xdsl_quant.execution.compile", missing)
    instrumented_function._cached_runs.clear()  # pyright: ignore[reportPrivateUsage] a cache of compiled code
    yield
    instrumented_function._cached_runs.clear()  # pyright: ignore[reportPrivateUsage] a cache of compiled code


@pytest.fixture(params=["compiled", "interpreted"])
def each_way(request: pytest.FixtureRequest) -> None:
    """Calibration in both ways, one after the other."""
    if request.param == "interpreted":
        request.getfixturevalue("interpreted")
