"""Files that are written as a whole or not at all."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from xdsl_quant.runtime.atomic_files import open_atomically, write_text_atomically

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
LARGE = "x" * (1 << 17)


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with some content, alone in its directory."""
    directory = tmp_path / "files"
    directory.mkdir()
    path = directory / "file.txt"
    path.write_text("old")
    return path


def write_a_part(path: Path) -> None:
    with open_atomically(path) as stream:
        stream.write(b"new")
        raise RuntimeError("in the middle")


def test_new_file_has_usual_permissions(tmp_path: Path):
    (tmp_path / "usual").touch()
    write_text_atomically(tmp_path / "new", "é")
    assert (tmp_path / "new").read_bytes() == "é".encode()
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1
    assert names(tmp_path) == ["new", "usual"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755])
def test_permissions_stay(mode: int, file: Path):
    file.chmod(mode)
    write_text_atomically(str(file), "new")
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert names(file.parent) == ["file.txt"]


@pytest.mark.skipif(not IS_ROOT, reason="only an administrator may give files away")
def test_owner_stays(file: Path):
    os.chown(file, 12, 34)
    file.chmod(0o4755)
    write_text_atomically(file, "new")
    status = file.stat()
    assert (status.st_uid, status.st_gid) == (12, 34)
    assert stat.S_IMODE(status.st_mode) == 0o4755


def test_links(file: Path):
    """A symbolic link stays one, also in a relative path, and if there is no file yet."""
    link, to_nothing = file.with_name("link"), file.with_name("to_nothing")
    link.symlink_to("file.txt")
    to_nothing.symlink_to("new.txt")
    hard = file.with_name("hard.txt")
    hard.hardlink_to(file)
    write_text_atomically(link, "new")
    write_text_atomically(to_nothing, "also new")
    assert link.is_symlink()
    assert to_nothing.is_symlink()
    assert (file.read_text(), hard.read_text()) == ("new", "old")
    assert file.with_name("new.txt").read_text() == "also new"


def test_link_to_itself(tmp_path: Path):
    link = tmp_path / "link"
    link.symlink_to("link")
    with pytest.raises(OSError, match="link") as info:
        write_text_atomically(link, "new")
    assert (info.value.errno, names(tmp_path)) == (errno.ELOOP, ["link"])


def test_long_name(tmp_path: Path):
    """The longest that a file may have, in characters of four bytes."""
    path = tmp_path / ("\N{GRINNING FACE}" * 63)
    write_text_atomically(path, "new")
    assert path.read_text() == "new"
    too_long = tmp_path / ("x" * 256)
    with pytest.raises(OSError, match="x") as info:
        write_text_atomically(too_long, "new")
    assert info.value.filename == str(too_long)
    assert names(tmp_path) == [path.name]


def test_old_content_until_the_end(file: Path):
    with open_atomically(file) as stream:
        stream.write(b"new")
        stream.flush()
        assert file.read_text() == "old"
        (temporary,) = set(names(file.parent)) - {"file.txt"}
        assert temporary.startswith(".file.txt.")
        # Another writer has another file.
        write_text_atomically(file, "from another one")
    assert file.read_text() == "new"
    assert names(file.parent) == ["file.txt"]


@pytest.mark.parametrize("exists", [True, False])
def test_error_in_the_middle(exists: bool, file: Path):
    path = file if exists else file.with_name("new.txt")
    with pytest.raises(RuntimeError, match="in the middle"):
        write_a_part(path)
    assert file.read_text() == "old"
    assert names(file.parent) == ["file.txt"]


def test_full_disk(small_disk: Path):
    file = small_disk / "file.txt"
    file.write_text("old")
    with pytest.raises(OSError, match="No space left on device") as info:
        write_text_atomically(file, LARGE)
    assert (info.value.errno, info.value.filename) == (errno.ENOSPC, str(file))
    assert file.read_text() == "old"
    assert names(small_disk) == ["file.txt"]
    write_text_atomically(file, "new")
    assert file.read_text() == "new"


LIMITED = f"""
import resource, sys
from xdsl_quant.runtime.atomic_files import write_text_atomically
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
try:
    write_text_atomically(sys.argv[1], "x" * {len(LARGE)})
except OSError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_file_that_may_not_be_as_large(file: Path):
    result = subprocess.run(
        [sys.executable, "-c", LIMITED, str(file)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == f"[Errno 27] File too large: '{file}'\n"
    assert file.read_text() == "old"
    assert names(file.parent) == ["file.txt"]


def test_no_directory(tmp_path: Path):
    with pytest.raises(FileNotFoundError) as info:
        write_text_atomically(tmp_path / "missing" / "file.txt", "new")
    assert info.value.filename == str(tmp_path / "missing")


def test_directory_in_place_of_a_file(tmp_path: Path):
    with pytest.raises(IsADirectoryError) as info:
        write_text_atomically(tmp_path, "new")
    assert info.value.filename == str(tmp_path)
    assert names(tmp_path) == []


PROTECTED = """
import os, sys
from xdsl_quant.runtime.atomic_files import write_text_atomically
os.setuid(12345)
try:
    write_text_atomically(sys.argv[1], "new")
except OSError as error:
    print(error)
"""


@pytest.mark.skipif(not IS_ROOT, reason="needs another user")
@pytest.mark.parametrize("is_file", [True, False])
def test_what_may_not_be_written(is_file: bool):
    """Who may not write a file may not replace it. The error names what is protected."""
    # Others may not look into the directories of pytest.
    with TemporaryDirectory() as name:
        directory = Path(name)
        file = directory / "file.txt"
        file.write_text("old")
        file.chmod(0o444 if is_file else 0o666)
        directory.chmod(0o777 if is_file else 0o755)
        result = subprocess.run(
            [sys.executable, "-c", PROTECTED, str(file)],
            capture_output=True,
            text=True,
            check=True,
        )
        protected = file if is_file else directory
        assert result.stdout == f"[Errno 13] Permission denied: '{protected}'\n"
        assert file.read_text() == "old"
        assert names(directory) == ["file.txt"]


def test_pipe(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text_atomically(pipe, "new")
    assert os.read(reader, 100) == b"new"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names(tmp_path) == ["pipe"]


def test_device():
    write_text_atomically(os.devnull, "new")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_full_device():
    with pytest.raises(OSError, match="No space left on device"):
        write_text_atomically("/dev/full", "new")


PRINTING = """
from xdsl_quant.runtime.atomic_files import write_text_atomically
print("before")
write_text_atomically("/dev/stdout", "between\\n")
print("after")
"""


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="a file of Unix")
@pytest.mark.parametrize("to_file", [True, False])
def test_standard_output(to_file: bool, file: Path):
    """What is printed and what is written go to the same place, in their order."""
    command = [sys.executable, "-c", PRINTING]
    if to_file:
        with file.open("w") as stream:
            subprocess.run(command, stdout=stream, check=True)
        text = file.read_text()
    else:
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        text = result.stdout
    assert text == "before\nbetween\nafter\n"
    assert names(file.parent) == ["file.txt"]


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="a directory of Unix")
def test_file_without_a_name(file: Path):
    with file.open("r+") as stream:
        file.unlink()
        write_text_atomically(f"/dev/fd/{stream.fileno()}", "new")
        assert stream.read() == "new"
    assert names(file.parent) == []
