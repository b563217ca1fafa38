"""What tests of several rooms need."""

import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

# For `make mutants`: the same examples for each mutant, the first failure ends a test,
# and a busy machine fails none.
settings.register_profile(
    "mutants",
    derandomize=True,
    max_examples=30,
    database=None,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=(HealthCheck.too_slow,),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--unscheduled",
        action="store_true",
        help="compile without execution.scheduling, which must change no result",
    )
    parser.addoption(
        "--cpu",
        help="compile for this CPU, which must change no result: avx2, for example",
    )


@pytest.fixture(autouse=True, scope="session")
def scheduling(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever `--unscheduled` and `--cpu` say, unless a test asks for something else."""
    defaults: dict[str, object] = {}
    if request.config.getoption("--unscheduled"):
        defaults["schedule"] = False
    if cpu := request.config.getoption("--cpu"):
        defaults["cpu"] = cpu
    with pytest.MonkeyPatch.context() as context:
        for option, value in defaults.items():
            compile = import_module("xdsl_quant.execution").compile
            context.setitem(compile.__kwdefaults__, option, value)
        yield


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for 64 KB."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(directory)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only an administrator of Linux can mount a file system")
    yield directory
    # At once, also if a file is open.
    subprocess.run(["umount", "--lazy", str(directory)], check=True)
