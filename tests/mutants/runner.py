"""
mutmut, with tests that are collected once instead of for each mutant.

To collect takes longer than most mutants live. Here a process collects all tests, and each
mutant is a fork of it, which runs the tests that reach the mutant: first those that have
killed its neighbours. The arguments are those of mutmut.
"""

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import chdir
from importlib import import_module
from math import ceil, inf
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.mutants.survivors import entry_of, function_of, mutant_of

# mutmut has no types.
_harness: Any = import_module("mutmut.runners.harness")
_isolation: Any = import_module("mutmut.workers.isolation")
_state: Any = import_module("mutmut.state").state

KILLERS = Path("mutants", "killers").absolute()
"""Lines of a function, a tab, and a test that has killed a mutant of it."""

ONLY_KILLERS = Path("mutants", "only_killers").absolute()
"""Lines of a mutant, a tab, and the only test that kills it, by `make costs`."""

SEARCHES_OTHERS = "OTHER_KILLERS"
"""A variable of the environment: after one killer of a mutant, look for another."""

SECONDS_OF_LISTED = 5.0
"""Mutants that are listed as survivors have survived after that much time."""

TIMEOUT = 36
"""mutmut's exit code for a mutant that was stopped because a test took too long."""


class CollectedOnce(_harness.PytestRunner):
    """Runs tests in a session whose tests are collected by `warm_up`."""

    _session: pytest.Session
    _items: dict[str, pytest.Item]

    def warm_up(self) -> None:
        with chdir("mutants"):
            arguments = ["-q", "--rootdir=.", *self._pytest_add_cli_args]
            arguments += self._pytest_add_cli_args_test_selection
            # pytest has no public way to a session that runs single tests.
            config: Any = import_module("_pytest.config")._prepareconfig(arguments)
            config._do_configure()
            self._session = pytest.Session.from_config(config)
            config.hook.pytest_sessionstart(session=self._session)
            config.hook.pytest_collection(session=self._session)
        self._items = {item.nodeid: item for item in self._session.items}
        # Otherwise each fork would load what hypothesis loads when it is first used.
        hypothesis: Any = import_module("hypothesis")
        given = hypothesis.strategies
        hypothesis.find(given.lists(given.text() | given.floats()), bool)

    def run_tests(self, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        if mutant_name is None:
            without_mutant: Any = super()
            return without_mutant.run_tests(mutant_name=None, tests=tests)
        is_listed = entry_of(mutant_of(mutant_name)) is not None
        end = monotonic() + (SECONDS_OF_LISTED if is_listed else inf)
        signal.signal(signal.SIGALRM, _stop)
        items = [self._items[name] for name in _likely_first(mutant_name, tests)]
        killers: set[str] = set()
        with chdir("mutants"):
            for item, following in zip(items, [*items[1:], None], strict=True):
                signal.alarm(10 + ceil(10 * _state().duration_by_test[item.nodeid]))
                before = self._session.testsfailed
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self._session.testsfailed > before:
                    killers.add(item.nodeid.partition("[")[0])
                    with KILLERS.open("a") as file:
                        file.write(f"{function_of(mutant_name)}\t{item.nodeid}\n")
                    if SEARCHES_OTHERS not in os.environ or len(killers) > 1:
                        return 1
                if monotonic() > end:
                    break
        for killer in killers:
            with ONLY_KILLERS.open("a") as file:
                file.write(f"{mutant_name}\t{killer}\n")
        return len(killers)


def _stop(_signal: int, _frame: object) -> None:
    os._exit(TIMEOUT)


def _likely_first(mutant_name: str, tests: Iterable[str]) -> list[str]:
    """
    The tests: first those that have killed mutants of the same function, then of the same
    file, then each test with few of its parameters, fast ones before slow ones.
    """
    function = function_of(mutant_name)
    module = function.rpartition(".")[0] + "."
    same_function, same_module = Counter[str](), Counter[str]()
    for line in KILLERS.read_text().splitlines() if KILLERS.exists() else ():
        killed, _, killer = line.partition("\t")
        same_function[killer] += killed == function
        same_module[killer] += killed.startswith(module)

    durations = _state().duration_by_test
    variants, rank = Counter[str](), dict[str, int]()
    for test in sorted(tests, key=durations.__getitem__):
        variants[test.partition("[")[0]] += 1
        rank[test] = variants[test.partition("[")[0]].bit_length()
    return sorted(
        rank,
        key=lambda test: (
            -same_function[test],
            -same_module[test],
            rank[test],
            durations[test],
        ),
    )


if __name__ == "__main__":
    # What pytest imports is the copy of this package in `mutants/`.
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    _isolation.PytestRunner = CollectedOnce
    import_module("mutmut.__main__").cli()
