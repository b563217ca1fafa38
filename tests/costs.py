"""
Print the seconds of each test, and the lines and mutants that only it reaches and kills.

`make costs COSTS=tests/unit/numerics` runs the tests of a folder. A test with many seconds
and neither a line nor a mutant of its own is the first that `@pytest.mark.sampled` may move
to `make oracles`. `make costs MUTANTS='xdsl_quant.numerics.fixed_point.*'` also runs those
mutants (see `tests.mutants`) until a second test kills them; without names, none.
Cases of a test count as one. Lines that the import of a module reaches belong to no test,
and processes that a test starts are not measured.
"""

import os
import re
import subprocess
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

SETTINGS = """
[run]
source = xdsl_quant
dynamic_context = test_function
data_file = {}
"""


def seconds_of_tests(report: Path) -> Counter[str]:
    """The seconds of tests, by their qualified names, of a report in JUnit's form."""
    seconds: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name', '').partition('[')[0]}"
        seconds[name] += float(case.get("time", 0))  # pyright: ignore[reportArgumentType] typed for whole numbers
    return seconds


def own_lines(contexts_of_lines: Sequence[Sequence[str]]) -> Counter[str]:
    """Count the lines that only one test reaches, by the name of the test."""
    return Counter(contexts[0] for contexts in contexts_of_lines if len(contexts) == 1)


def _contexts(data_file: Path) -> list[Sequence[str]]:
    # Only this command needs it; `make costs` installs it.
    coverage: Any = import_module("coverage")
    data = coverage.CoverageData(str(data_file))
    data.read()
    return [
        contexts
        for file in data.measured_files()
        for contexts in data.contexts_by_lineno(file).values()
    ]


def own_mutants(names: Sequence[str]) -> Counter[str]:
    """Run mutants, and count those that only one test kills, by the name of the test."""
    if not names:
        return Counter()
    killers = Path("mutants", "only_killers")
    killers.unlink(missing_ok=True)
    # Other runs remember which mutants some test kills.
    for results in Path("mutants").rglob("*.meta"):
        results.unlink()
    command = (sys.executable, "-m", "tests.mutants.runner", "run", *names)
    subprocess.run(command, env={**os.environ, "OTHER_KILLERS": "yes"}, check=True)
    lines = killers.read_text().splitlines() if killers.exists() else []
    return Counter(
        re.sub(r"\.py::|::|/", ".", line.partition("\t")[2]) for line in lines
    )


def main(arguments: Sequence[str]) -> int:
    """Print the table, the slowest test first, and return the exit code of pytest."""
    parser = ArgumentParser(prog="python -m tests.costs")
    parser.add_argument("--mutants", nargs="*", default=[])
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as name:
        directory = Path(name)
        settings, report = directory / "coveragerc", directory / "report.xml"
        data_file = directory / "coverage"
        settings.write_text(SETTINGS.format(data_file))
        coverage = (sys.executable, "-m", "coverage", "run", f"--rcfile={settings}")
        pytest = ("-m", "pytest", "-q", f"--junitxml={report}", *options.tests)
        code = subprocess.run((*coverage, *pytest)).returncode
        seconds, lines = seconds_of_tests(report), own_lines(_contexts(data_file))
    mutants = own_mutants(options.mutants)
    print("seconds  own lines  own mutants  test")
    for test, spent in seconds.most_common():
        print(f"{spent:7.1f}  {lines[test]:9}  {mutants[test]:11}  {test}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
