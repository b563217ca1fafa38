"""What tests of several folders need."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Generator, Iterator
from importlib import import_module
from typing import Any

import pytest
from hypothesis import settings

from tests.conformance.real_mlir import Mlir

# What is compiled is tested, by processes that tests start, too.
os.environ.setdefault("XDSL_QUANT_CACHE", "off")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-cases",
        action="store_true",
        help="run all cases of the tests that are marked as 'sampled', not some of them",
    )


# No clock decides, as other processes may keep the machine busy. A failure is found
# again without a database.
settings.register_profile(
    "repeatable", derandomize=True, database=None, deadline=None, max_examples=30
)
# For `make fuzz`, which draws more examples.
settings.register_profile("random", deadline=None)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "sampled(step): a test with many cases, of which 'make tests' runs every step-th; "
        "none if step is 0; without a step, the test itself leaves some out",
    )
    options = (config.getoption(f"--hypothesis-{name}") for name in ("profile", "seed"))
    if not any(option is not None for option in options):
        settings.load_profile("repeatable")
        # Hypothesis also draws constants of the modules that are loaded, which depend on
        # the tests that ran before in the same process. There is no setting for it.
        providers: Any = import_module("hypothesis.internal.conjecture.providers")
        providers._get_local_constants = lambda: providers._local_constants


_SLOW_FILES = {
    "test_docs",
    "test_oracles",
    "test_graphs",
    "test_notebooks",
    "test_cases",
    "test_benchmarks",
    "test_driver",
    "test_casts",
    "test_bias_correction",
    "test_weight_figures",
    "test_real_structures",
    "test_slices",
}
"""Files whose tests take longest, which `make tests` starts first."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    # A case that is named is run.
    if config.getoption("--all-cases") or any("[" in arg for arg in config.args):
        return
    counts: Counter[str] = Counter()
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        mark = item.get_closest_marker("sampled")
        step = mark.args[0] if mark is not None and mark.args else 1
        test = item.nodeid.partition("[")[0]
        is_left_out = counts[test] % step if step else True
        (left_out if is_left_out else kept).append(item)
        counts[test] += 1
    # A worker that starts one of them at the end would let the others wait.
    kept.sort(key=lambda item: item.path.stem not in _SLOW_FILES)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    # Tens of thousands of tests stay until the end; nothing of them is garbage.
    gc.disable()
    result = yield
    gc.freeze()
    # IR has many objects, of which few are garbage. The default is 700.
    gc.set_threshold(50_000)
    gc.enable()
    return result


@pytest.fixture(scope="module")
def litert_converter() -> Iterator[Mlir]:
    """The real dialects `tfl` and `stablehlo`, the importer and the exporter."""
    reason = "pip install --no-deps 'litert-converter>=0.5,<0.6'"
    pytest.importorskip("litert_converter", reason=reason)
    with Mlir(package="litert_converter.mlir") as worker:
        yield worker
