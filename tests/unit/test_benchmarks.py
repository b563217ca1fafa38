"""Every benchmark runs: one round of its smallest size, in this process."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import pytest

import benchmarks
from benchmarks import measuring
from benchmarks.__main__ import SCRIPTS
from benchmarks.report import Options, Report

QUICK = Options(quick=True, all=False)


def _here(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _keep_cores(process: int, cores: object) -> None:
    """Benchmarks stay on one core, this process does not."""


def _one_turn(
    kernels: Mapping[str, measuring.Kernel], rounds: int
) -> dict[str, list[float]]:
    for kernel in kernels.values():
        kernel()
    return {name: [1.0] * rounds for name in kernels}


def _one_run(work: Callable[[measuring.Timings], None], runs: int) -> measuring.Costs:
    return measuring.measure(work, 1)


SHORT = {"in_fresh_process": _here, "in_turns": _one_turn, "measure": _one_run}


@pytest.mark.parametrize(
    ("module", "report"),
    [pytest.param(*script[1:], id=script[0]) for script in SCRIPTS],
)
def test_a_benchmark(
    module: ModuleType, report: Report, monkeypatch: pytest.MonkeyPatch
):
    # A benchmark may set it, which is undone.
    monkeypatch.setenv("XDSL_QUANT_CACHE", "off")
    monkeypatch.setattr("os.sched_setaffinity", _keep_cores, raising=False)
    for name, short in SHORT.items():
        if vars(module).get(name) is getattr(measuring, name):
            monkeypatch.setattr(module, name, short)
    paragraphs = [*report(QUICK)]
    assert paragraphs
    assert all(paragraphs)


OTHER_ENVIRONMENT = {
    "benchmarks.quantizers.jax_models",
    "benchmarks.quantizers.jax_networks",
    "benchmarks.quantizers.litert_worker",
}
"""Modules that need packages which clash with those of the tests."""

NAMES = {module.name for module in walk_packages(benchmarks.__path__, "benchmarks.")}


@pytest.mark.parametrize("name", sorted(NAMES - OTHER_ENVIRONMENT))
def test_imports(name: str):
    import_module(name)
