"""The lock of a checkpoint: held by one run at a time, and by none that has died."""

import errno
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_quant.calibration import calibrate
from xdsl_quant.calibration.checkpoint import locked

HOLDER = """
import sys
from pathlib import Path
from xdsl_quant.calibration.checkpoint import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""

SINCE = r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d"


class Holder:
    """Another process with a lock."""

    def __init__(self, file: Path):
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "locked\n"

    def end(self) -> None:
        self.process.communicate()
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


def message(file: Path, pid: int) -> str:
    host = re.escape(f"on host '{socket.gethostname()}'")
    return (
        rf"^checkpoint {re.escape(str(file))} is in use, by process {pid} {host} {SINCE}; "
        "wait until it ends, or use another file$"
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint.json"


def test_another_process(file: Path):
    holder = Holder(file)
    for _ in range(2):
        with pytest.raises(BlockingIOError, match=message(file, holder.process.pid)):
            with locked(file):
                pass
    holder.end()
    with locked(file):
        assert os.listdir(file.parent) == ["checkpoint.json.lock"]
    assert os.listdir(file.parent) == []


def test_process_that_died(file: Path):
    """What it left behind is in nobody's way."""
    Holder(file).kill()
    lock = file.with_name("checkpoint.json.lock")
    left = lock.read_text()
    with locked(file):
        assert f"by process {os.getpid()} " in lock.read_text()
        assert left not in lock.read_text()
    assert os.listdir(file.parent) == []


@pytest.mark.parametrize("has_fcntl", [True, False])
def test_same_process(has_fcntl: bool, file: Path, monkeypatch: pytest.MonkeyPatch):
    """Also in another thread, and by another name of the file."""
    if not has_fcntl:
        monkeypatch.setitem(sys.modules, "fcntl", None)
    link = file.with_name("link")
    link.symlink_to(file)
    errors: list[BaseException] = []

    def use(path: Path) -> None:
        try:
            with locked(path):
                pass
        except BlockingIOError as error:
            errors.append(error)

    with locked(file):
        for path in (file, link):
            thread = threading.Thread(target=use, args=(path,))
            thread.start()
            thread.join()
        # The attempts did not take the lock away.
        if has_fcntl:
            assert "is in use" in attempt(file)
    assert [bool(re.match(message(file, os.getpid()), str(e))) for e in errors] == [
        True,
        False,
    ]
    assert re.match(message(link, os.getpid()), str(errors[1]))
    use(file)
    assert len(errors) == 2
    assert os.listdir(file.parent) == ["link"]


def attempt(file: Path) -> str:
    """What a process says that wants the lock."""
    command = [sys.executable, "-c", HOLDER, str(file)]
    return subprocess.run(
        command, input="", text=True, capture_output=True, check=False
    ).stderr


def test_other_files(file: Path):
    with ExitStack() as stack:
        for name in ("a.json", "b.json"):
            stack.enter_context(locked(file.with_name(name)))
        assert len(os.listdir(file.parent)) == 2


def test_error_gives_it_back(file: Path):
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            with locked(file):
                raise ZeroDivisionError
    assert os.listdir(file.parent) == []


def test_lock_file_that_says_nothing(file: Path):
    """Its holder has not come to it, or the disk was full."""
    lock = file.with_name("checkpoint.json.lock")
    holder = Holder(file)
    lock.write_bytes(b"")
    with pytest.raises(BlockingIOError, match="is in use, by another process; wait"):
        with locked(file):
            pass
    holder.end()


def test_lock_file_that_goes_in_between(file: Path, monkeypatch: pytest.MonkeyPatch):
    """Its holder removes it after another process has opened it."""
    lock = file.with_name("checkpoint.json.lock")
    opened: list[int] = []
    open_ = os.open

    def open_and_remove(path: Any, flags: int, mode: int = 0o777) -> int:
        descriptor = open_(path, flags, mode)
        if not opened:
            lock.unlink()
        opened.append(descriptor)
        return descriptor

    monkeypatch.setattr(os, "open", open_and_remove)
    with locked(file):
        assert len(opened) == 2
        assert os.fstat(opened[1]).st_ino == lock.stat().st_ino
    assert os.listdir(file.parent) == []


@pytest.mark.parametrize("has_fcntl", [True, False])
def test_file_that_is_no_lock_file(
    has_fcntl: bool, file: Path, monkeypatch: pytest.MonkeyPatch
):
    if not has_fcntl:
        monkeypatch.setitem(sys.modules, "fcntl", None)
    lock = file.with_name("checkpoint.json.lock")
    lock.write_text("precious")
    message = f"{lock} is not a lock file; move it, or use another checkpoint"
    with pytest.raises(FileExistsError, match=f"^{re.escape(message)}$"):
        with locked(file):
            pass
    assert lock.read_text() == "precious"


def test_symbolic_link_in_place_of_the_lock_file(file: Path):
    target = file.with_name("target")
    target.write_text("")
    file.with_name("checkpoint.json.lock").symlink_to(target)
    with pytest.raises(OSError, match=r"checkpoint\.json\.lock"):
        with locked(file):
            pass
    assert target.read_text() == ""
    assert len(os.listdir(file.parent)) == 2


def test_lock_file_of_a_run_that_was_killed(file: Path):
    lock = file.with_name("checkpoint.json.lock")
    lock.write_text(
        "by process 1 on host 'x' since yesterday, and much more text after it"
    )
    with locked(file):
        text = lock.read_text()
        assert re.fullmatch(rf"by process {os.getpid()} on host '.*' {SINCE}", text)
    assert os.listdir(file.parent) == []


def test_file_system_without_locks(file: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*args: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    warning = (
        rf"^{re.escape(str(file))}\.lock cannot be locked, no locks available; let no "
        "other run use the checkpoint at the same time$"
    )
    with pytest.warns(UserWarning, match=warning):
        with locked(file):
            pass
    assert os.listdir(file.parent) == []


def test_without_fcntl(file: Path, monkeypatch: pytest.MonkeyPatch):
    """On Windows nobody can remove a file that a process has open; here everybody can."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    lock = file.with_name("checkpoint.json.lock")
    lock.write_text("by process 1 on host 'x' since yesterday")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse_to_remove)
        with pytest.raises(
            BlockingIOError, match="by process 1 on host 'x' since yest"
        ):
            with locked(file):
                pass
    with locked(file):
        assert f"by process {os.getpid()} " in lock.read_text()
    assert os.listdir(file.parent) == []


def refuse_to_remove(path: Path, *, missing_ok: bool) -> None:
    raise PermissionError(errno.EACCES, "The process cannot access the file")


# Calibration

TEXT = """
func.func @f(%x: tensor<?xf32>) {
  %y = quant.stats_ref %x "x" : tensor<?xf32>
  return
}
"""
BATCH = np.array([1, 2], np.float32)


def test_calibration(file: Path):
    holder = Holder(file)

    def batches():
        raise AssertionError("nothing may run")
        yield

    with pytest.raises(BlockingIOError, match=message(file, holder.process.pid)):
        calibrate(TEXT, batches(), checkpoint=file)
    assert not file.exists()
    holder.end()
    calibrate(TEXT, [BATCH], checkpoint=file)
    assert os.listdir(file.parent) == ["checkpoint.json"]


def test_two_processes(file: Path):
    """One at a time: each of them goes on where the other one was, or is told to wait."""
    code = """
import sys, numpy
from xdsl_quant.calibration import calibrate
batches = [numpy.array([i], numpy.float32) for i in range(200)]
try:
    calibrate(sys.argv[2], batches, checkpoint=sys.argv[1])
except BlockingIOError as error:
    assert "is in use, by " in str(error)
    print("in use")
else:
    print("done")
"""
    command = [sys.executable, "-c", code, str(file), TEXT]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    said = {process.communicate()[0] for process in processes}
    assert "done\n" in said
    assert said <= {"done\n", "in use\n"}
    assert os.listdir(file.parent) == ["checkpoint.json"]


FORKING = """
import os, signal, sys
from pathlib import Path
from xdsl_quant.calibration.checkpoint import locked
with locked(Path(sys.argv[1])):
    if os.fork() == 0:
        print("worker", flush=True)
        sys.stdin.read()
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_worker_that_lives_longer(file: Path):
    """Workers do not keep the lock of a run that died."""
    process = subprocess.Popen(
        [sys.executable, "-c", FORKING, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "worker\n"
    assert process.wait() == -signal.SIGKILL
    with locked(file):
        pass
    process.communicate()
