"""Tests of scheduling are no tests without it."""

from pathlib import Path

import pytest

from xdsl_quant.execution.cpu import available_cpus


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    if config.getoption("--unscheduled"):
        skip = pytest.mark.skip(reason="there is no scheduling to be tested")
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(skip)


@pytest.fixture
def byte_products(request: pytest.FixtureRequest) -> None:
    """Skips a test if the CPU that is compiled for has no instructions for them."""
    name = request.config.getoption("--cpu") or "native"
    if not available_cpus()[name].vnni_bits:
        pytest.skip(f"needs AVX-512 VNNI or AVX-VNNI, which {name!r} lacks")
