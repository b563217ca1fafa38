"""Tests of scheduling are no tests without it."""

from pathlib import Path

import pytest


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    if config.getoption("--unscheduled"):
        skip = pytest.mark.skip(reason="there is no scheduling to be tested")
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(skip)
