"""
Print the seconds of each test, and the lines of the package that only it reaches.

`make costs COSTS=tests/unit/numerics` runs the tests of a folder. A test with many seconds
and no line of its own is the first that `@pytest.mark.sampled` may move to `make oracles`.
Cases of a test count as one. Lines that the import of a module reaches belong to no test,
and processes that a test starts are not measured.
"""

import subprocess
import sys
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


def main(arguments: Sequence[str]) -> int:
    """Print the table, the slowest test first, and return the exit code of pytest."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        settings, report = directory / "coveragerc", directory / "report.xml"
        data_file = directory / "coverage"
        settings.write_text(SETTINGS.format(data_file))
        coverage = (sys.executable, "-m", "coverage", "run", f"--rcfile={settings}")
        pytest = ("-m", "pytest", "-q", f"--junitxml={report}", *arguments)
        code = subprocess.run((*coverage, *pytest)).returncode
        seconds, lines = seconds_of_tests(report), own_lines(_contexts(data_file))
    print("seconds  own lines  test")
    for test, spent in seconds.most_common():
        print(f"{spent:7.1f}  {lines[test]:9}  {test}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
