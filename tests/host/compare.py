"""
Runs xDSL's own filecheck suite with and without the plugin and compares what its tools
print: `make host-check`.

The suite is in the source distribution of the installed release of xDSL, which is
downloaded once. No error message may change, nothing that xDSL reads may be refused, and
what else differs has to be in the table of `docs/background/xdsl_changes.md`.

Tests that go through MLIR run if `mlir-opt-22` is installed or the environment has
`XDSL_MLIR_OPT`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import ndiff
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from .changes import PAGE, ROOT, documented_changes

HOST = Path(__file__).parent

_ADDRESS = re.compile(r"(?<=\w )\d{15}\b")
"""Where an object is in memory, which the representation of an op has."""


class Call(NamedTuple):
    """One call of a tool of xDSL."""

    command: str
    status: int
    stdout: str
    stderr: str


class Run(NamedTuple):
    """The suite, run once."""

    verdicts: Mapping[str, str]
    """Of each test, `PASS` for example."""

    calls: Mapping[str, Mapping[str, Call]]
    """Of each test, by a key that does not depend on what is printed."""


class Difference(NamedTuple):
    """What the plugin changes in one test."""

    test: str
    kind: str
    detail: str

    @property
    def may_be_documented(self) -> bool:
        return self.kind in ("output", "verdict")


def download_suite(folder: Path) -> Path:
    """The suite of the installed release, in `folder`."""
    name = f"xdsl-{version('xdsl')}"
    if not (folder / name).exists():
        folder.mkdir(parents=True, exist_ok=True)
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run(
            [*download, "--no-binary", ":all:", name.replace("-", "=="), "-d", folder],
            check=True,
        )
        with tarfile.open(folder / f"{name}.tar.gz") as archive:
            # Python 3.11 has had it since 3.11.4.
            if hasattr(tarfile, "data_filter"):
                archive.extraction_filter = tarfile.data_filter
            archive.extractall(folder)
    return folder / name / "tests" / "filecheck"


@contextmanager
def serving(address: Path, plugin: str) -> Generator[None]:
    """Run the server of xDSL's tools."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", HOST / "server.py", address, plugin]
    with subprocess.Popen(command, env=environment) as server:
        try:
            while not address.exists():
                if server.poll() is not None:
                    raise ChildProcessError("the server of xDSL's tools does not start")
                time.sleep(0.1)
            yield
        finally:
            server.terminate()


def run_suite(suite: Path, folder: Path, plugin: str, tests: Sequence[str]) -> Run:
    """Run tests of the suite with the plugin `on` or `off`."""
    records, results = folder / plugin, folder / f"{plugin}.json"
    shutil.rmtree(records, ignore_errors=True)
    parameters = {"suite": suite, "records": records, "plugin": plugin}
    with TemporaryDirectory() as sockets:
        address = parameters["socket"] = Path(sockets) / plugin
        with serving(address, plugin):
            subprocess.run(
                [
                    *(Path(sys.executable).with_name("lit"), "-q", "-o", results),
                    *(f"--param={name}={value}" for name, value in parameters.items()),
                    *(HOST / test for test in tests or ("",)),
                ],
                # The verdicts are in the results.
                stdout=subprocess.DEVNULL,
                check=False,
            )
    listed = json.loads(results.read_text())["tests"]
    return Run(
        {test["name"].partition(" :: ")[2]: test["code"] for test in listed},
        _calls(records),
    )


def _calls(records: Path) -> dict[str, dict[str, Call]]:
    calls: dict[str, dict[str, Call]] = {}
    for file in sorted(records.rglob("*.calls/*.json")):
        folder = file.parent
        test = folder.parents[1] / folder.name.removesuffix(".tmp.calls")
        record = json.loads(_ADDRESS.sub("ADDRESS", file.read_text()))
        of_test = calls.setdefault(str(test.relative_to(records)), {})
        of_test[file.stem] = Call(**record)
    return calls


def differences(without: Run, with_plugin: Run) -> Iterator[Difference]:
    """What the plugin changes."""
    for test, verdict in without.verdicts.items():
        now = with_plugin.verdicts[test]
        if verdict != now:
            yield Difference(test, "verdict", f"{verdict} becomes {now}")
        before, after = without.calls.get(test, {}), with_plugin.calls.get(test, {})
        for key in before.keys() & after.keys():
            yield from _differences_of_call(test, before[key], after[key])
        if verdict == now and before.keys() != after.keys():
            yield Difference(test, "calls", "other calls are made")


def _differences_of_call(test: str, before: Call, after: Call) -> Iterator[Difference]:
    if before == after:
        return
    kind = "output"
    if before.status or "-diagnostics" in before.command:
        kind = "message"
    if after.status and not before.status:
        kind = "refused"
    for old, new in zip_longest(before[1:], after[1:]):
        lines = ndiff(str(old).splitlines(), str(new).splitlines())
        for line in lines:
            if line[0] in "-+":
                yield Difference(test, kind, line)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.host.compare")
    parser.add_argument("tests", nargs="*", help="files or folders of the suite")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/host")
    arguments = parser.parse_args()
    if mlir_opt := shutil.which("mlir-opt-22"):
        os.environ.setdefault("XDSL_MLIR_OPT", mlir_opt)
    folder = arguments.folder.resolve()
    suite = download_suite(folder)
    without, with_plugin = (
        run_suite(suite, folder, plugin, arguments.tests) for plugin in ("off", "on")
    )
    found = [*differences(without, with_plugin)]
    documented = {test for change in documented_changes() for test in change.tests}
    unexpected = [
        d for d in found if not d.may_be_documented or d.test not in documented
    ]
    for difference in found:
        mark = "NOT DOCUMENTED" if difference in unexpected else "documented"
        print(f"{mark:14} {difference.kind:8} {difference.test}: {difference.detail}")
    gone = (documented & without.verdicts.keys()) - {d.test for d in found}
    for test in sorted(gone):
        print(f"{'no difference':14} {'':8} {test}")
    count = sum(map(len, with_plugin.calls.values()))
    print(
        f"xDSL {version('xdsl')}: {len(without.verdicts)} tests, {count} calls, "
        f"{len({d.test for d in found})} tests differ, "
        f"{len({d.test for d in unexpected})} of them are not in {PAGE.name}"
    )
    return bool(unexpected) or not count


if __name__ == "__main__":
    sys.exit(main())
