"""What another process compiled is not compiled again."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp
from xdsl.irdl import IRDLOperation, irdl_op_definition

from xdsl_quant.execution import (
    CompilationError,
    CompiledFunction,
    compilation,
    compile,
    compiled_function,
    cpu,
    disk_cache,
    llvm_library,
    machine_code,
    runtime_library,
)
from xdsl_quant.execution.disk_cache import Entry
from xdsl_quant.execution.llvm_library import LinkedObject, LinkError
from xdsl_quant.execution.machine_code import MachineCode
from xdsl_quant.execution.stored_code import is_known
from xdsl_quant.runtime.loading import parse_module

TEXT = """
!q = !quant.uniform<i8:f32, 0.5>
func.func @main(%x: tensor<?xf32>) -> tensor<?x!q> {
  %q = quant.qcast %x : tensor<?xf32> to tensor<?x!q>
  return %q : tensor<?x!q>
}
func.func @other(%x: f32) -> f32 { return %x : f32 }
"""

WINE = Path("docs/examples/wine.tflite")

RESOURCE = """
func.func @f() -> tensor<2xi32> {
  %0 = arith.constant dense_resource<some_numbers> : tensor<2xi32>
  return %0 : tensor<2xi32>
}
{-#
  dialect_resources: { builtin: { some_numbers: "0x040000000700000002000000" } }
#-}
"""

SCRIPT = f"""
import sys
import numpy as np
from xdsl_quant.execution import compile
result = compile({TEXT!r})(np.arange(5, dtype=np.float32))
print(result.tolist(), "xdsl_quant.execution.machine_code" in sys.modules)
"""
RESULT = "[0, 2, 4, 6, 8]"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache"
    monkeypatch.setenv("XDSL_QUANT_CACHE", str(path))
    return path


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch) -> list[MachineCode]:
    """What MLIR compiles."""
    made: list[MachineCode] = []

    def make(*arguments: Any, **options: Any) -> MachineCode:
        made.append(MachineCode(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(machine_code, "MachineCode", make)
    return made


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> Callable[..., CompiledFunction]:
    """`compile`, as in a new process."""

    def compile_anew(*arguments: Any, **options: Any) -> CompiledFunction:
        monkeypatch.setattr(compilation, "_cache", OrderedDict[object, object]())
        return compile(*arguments, **options)

    return compile_anew


Anew = Callable[..., CompiledFunction]


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


# Hits


def test_the_same_function(anew: Anew, codes: list[MachineCode]):
    first, second = anew(TEXT), anew(TEXT)
    assert len(codes) == 1
    assert repr(second) == repr(first)
    assert second.text == first.text
    assert second.temporary_bytes == first.temporary_bytes
    assert second.argument_types == first.argument_types
    assert second.result_types == first.result_types
    x = np.linspace(-70, 70, 37, dtype=np.float32)
    assert np.array_equal(second(x), first(x))
    assert np.array_equal(second.bind(x)(), first(x))
    with pytest.raises(ValueError, match="argument 0 has rank 2"):
        second(x[:, None])


def test_functions_of_the_runtime_library(anew: Anew, codes: list[MachineCode]):
    text = """
func.func @f(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x3xf32> {
  %z = arith.addf %x, %y : tensor<?x4xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %z, %c0 : tensor<?x4xf32>
  %s = tensor.extract_slice %z[0, 1] [%n, 3] [1, 1] : tensor<?x4xf32> to tensor<?x3xf32>
  return %s : tensor<?x3xf32>
}"""
    function = [anew(text) for _ in range(2)][1]
    assert len(codes) == 1
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    assert function(x, x).tolist() == (x + x)[:, 1:].tolist()
    with pytest.raises(ValueError, match=r"^'f': invalid sizes or indices: "):
        function(x, x[:1])


def test_a_file(anew: Anew, codes: list[MachineCode], tmp_path: Path):
    path = tmp_path / "model.tflite"
    path.write_bytes(WINE.read_bytes())
    first, second = anew(path), anew(str(path))
    assert len(codes) == 1
    x = np.zeros((1, 13), np.float32)
    assert np.array_equal(second(x), first(x))
    assert second.profile(x).rows
    third = anew(path)
    path.write_bytes(WINE.read_bytes() + bytes(4))
    with pytest.raises(CompilationError, match=r"model\.tflite: error: the file has "):
        third.profile(x)


def test_a_copy_of_a_file(anew: Anew, tmp_path: Path):
    """Each is profiled from its own path."""
    path, copy = tmp_path / "model.tflite", tmp_path / "copy.tflite"
    for each in (path, copy):
        each.write_bytes(WINE.read_bytes())
    anew(path)
    anew(path)
    path.unlink()
    assert compile(copy).profile(np.zeros((1, 13), np.float32)).rows


def test_profile(anew: Anew):
    x = np.arange(3, dtype=np.float32)
    names = [[row.name for row in anew(TEXT).profile(x).rows] for _ in range(2)]
    assert names[0] == names[1]
    # A module may be changed after it was compiled.
    for _ in range(2):
        module = parse_module(TEXT)
        function = anew(module, "main")
        for op in [*module.body.ops]:
            op.detach()
        assert [row.name for row in function.profile(x).rows] == names[0]


def test_streamed_results(
    anew: Anew, codes: list[MachineCode], monkeypatch: pytest.MonkeyPatch
):
    text = """
func.func @f(%x: tensor<?xi8>) -> tensor<?xf32> {
  %y = arith.sitofp %x : tensor<?xi8> to tensor<?xf32>
  return %y : tensor<?xf32>
}"""
    monkeypatch.setattr(compiled_function, "STREAMED_BYTES", 0)
    x = np.arange(-128, 128).astype(np.int8)
    for _ in range(2):
        assert anew(text, schedule=True)(x).tolist() == x.tolist()
        assert len(codes) == 2


def test_a_small_difference_of_the_signature(anew: Anew, codes: list[MachineCode]):
    """Integers of other storage types may be the same code."""
    text = """
!q = !quant.uniform<{0}:f32, 0.5>
func.func @f(%x: tensor<2x!q>) -> tensor<2x!q> {{ return %x : tensor<2x!q> }}"""
    assert anew(text.format("i8"))(np.array([1, 2], np.int8)).dtype == np.int8
    assert anew(text.format("u8"))(np.array([1, 2], np.uint8)).dtype == np.uint8
    with pytest.raises(TypeError):
        anew(text.format("u8"))(np.array([1, 2], np.int8))
    assert len(codes) == 1


# Keys


def test_each_part_of_the_key(anew: Anew, codes: list[MachineCode]):
    texts: list[Any] = [
        ((TEXT, None), {}),
        ((TEXT.replace("0.5", "0.25"), None), {}),
        ((TEXT, "other"), {}),
        ((TEXT, None), {"rounding_mode": "nearest-away"}),
        ((TEXT, None), {"zero_point_order": "after-rounding"}),
        ((TEXT, None), {"nan": "stored-zero"}),
        ((TEXT, None), {"fuse": False}),
        ((TEXT, None), {"schedule": False}),
        *(((TEXT, None), {"cpu": name}) for name in [*cpu.available_cpus()][1:]),
    ]
    every = {"schedule": True, "cpu": "native"}
    texts = [(given, {**every, **options}) for given, options in texts]
    results = [anew(*arguments, **options) for arguments, options in texts]
    lowered = {function.text for function in results}
    # Without a zero point, the order of addition is all the same.
    assert len(lowered) == 6
    assert len(codes) == 5 + len(texts) - 7 + 1
    count = len(codes)
    for arguments, options in texts:
        anew(*arguments, **options)
    assert len(codes) == count


def test_resources_of_the_same_name(
    anew: Anew, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    module = parse_module(RESOURCE)
    for _ in range(2):
        assert anew(module)().tolist() == [7, 2]
    assert len(files(folder)) == 2

    def other_data(_: DenseResourceAttr) -> bytes:
        return b"other"

    # In this process, another resource has another name.
    monkeypatch.setattr(compilation, "resource_data", other_data)
    anew(module)
    assert len(files(folder)) == 3


def digest() -> bytes | None:
    disk_cache._versions.cache_clear()  # pyright: ignore[reportPrivateUsage] tested
    return disk_cache._versions()  # pyright: ignore[reportPrivateUsage] tested


def test_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package, library = tmp_path / "package", tmp_path / "libMLIR.so"
    source = package / "execution" / "disk_cache.py"
    source.parent.mkdir(parents=True)
    xdsl = tmp_path / "xdsl"
    xdsl.mkdir()
    for path in (source, library, xdsl / "__init__.py"):
        path.write_text("1")
    monkeypatch.setattr(disk_cache, "__file__", str(source))
    monkeypatch.setattr(disk_cache.xdsl, "__file__", str(xdsl / "__init__.py"))
    monkeypatch.setattr(disk_cache, "libraries", lambda: [library])
    found = [digest(), digest()]
    assert found[0] == found[1]
    for path in (source, library, xdsl / "__init__.py"):
        path.write_text("22")
        found.append(digest())
        os.utime(path, ns=(1, 1))
        found.append(digest())
    (package / "new.py").touch()
    found.append(digest())
    monkeypatch.setattr(disk_cache.np, "__version__", "0")
    found.append(digest())
    monkeypatch.setattr(disk_cache, "machine_description", lambda: "another machine")
    found.append(digest())
    assert len({*found}) == len(found) - 1
    monkeypatch.setattr(disk_cache, "machine_description", lambda: None)
    assert digest() is None
    assert disk_cache.key_of("x") is None
    monkeypatch.undo()
    assert digest() is not None


def test_libraries(monkeypatch: pytest.MonkeyPatch):
    assert all(path.stat().st_size > 1 << 20 for path in llvm_library.libraries())

    def nothing(_: str) -> None:
        return None

    monkeypatch.setattr(llvm_library, "find_spec", nothing)
    assert not llvm_library.libraries()


def test_parts_are_apart():
    keys = {disk_cache.key_of(*parts) for parts in (("ab", "c"), ("a", "bc"), ("abc",))}
    assert len(keys) == 3


# What is not kept


def test_python_functions(anew: Anew, codes: list[MachineCode], folder: Path):
    text = """
func.func private @see(tensor<2xf32>)
func.func @f(%x: tensor<2xf32>) {
  func.call @see(%x) : (tensor<2xf32>) -> ()
  return
}"""
    seen: list[object] = []
    for _ in range(2):
        function = anew(text, host_functions={"see": seen.append})
        function(np.ones(2, np.float32))
    assert len(codes) == len(seen) == 2
    assert not folder.exists()


def test_ops_of_other_packages():
    @irdl_op_definition
    class OtherOp(IRDLOperation):
        name: ClassVar[str] = "other.op"

    assert is_known(parse_module(TEXT))
    assert is_known(ModuleOp([test.TestOp()]))
    assert not is_known(ModuleOp([OtherOp()]))


def test_failures(anew: Anew, folder: Path):
    for _ in range(2):
        with pytest.raises(ValueError, match="unknown function"):
            anew(TEXT, "nothing")
    assert not folder.exists() or not files(folder)


def test_off(anew: Anew, codes: list[MachineCode], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDSL_QUANT_CACHE", "off")
    assert disk_cache.key_of("x") is None
    for _ in range(2):
        anew(TEXT)
    assert len(codes) == 2
    assert not disk_cache.read("x")
    disk_cache.write("x", Entry({}, b""))


# Damage


@pytest.mark.parametrize(
    "damage", ["empty", "short", "long", "byte", "other", "folder", "pipe"]
)
def test_damaged_files(damage: str, anew: Anew, codes: list[MachineCode], folder: Path):
    x = np.arange(5, dtype=np.float32)
    anew(TEXT, "other")
    anew(TEXT)
    contents = {path: path.read_bytes() for path in files(folder)}
    assert len(contents) == 4
    others = [*contents.values()]
    for path, content in contents.items():
        if damage == "folder":
            path.unlink()
            path.mkdir()
            continue
        if damage == "pipe":
            path.unlink()
            os.mkfifo(path, 0o600)
            continue
        middle = len(content) // 2
        path.write_bytes(
            {
                "empty": b"",
                "short": content[:-1],
                "long": content + b"\0",
                "byte": content[:middle]
                + bytes([content[middle] ^ 1])
                + content[middle + 1 :],
                "other": others[others.index(content) - 1],
            }[damage]
        )
    assert anew(TEXT)(x).tolist() == [0, 2, 4, 6, 8]
    assert len(codes) == 3
    if damage != "folder":
        assert anew(TEXT)(x).tolist() == [0, 2, 4, 6, 8]
        assert len(codes) == 3


def test_objects_that_are_none(anew: Anew, codes: list[MachineCode]):
    with pytest.raises(LinkError):
        LinkedObject(b"nothing", runtime_library.addresses({}))
    anew(TEXT)
    linked = LinkedObject(codes[0].object_code(), runtime_library.addresses({}))
    with pytest.raises(LinkError, match="nothing"):
        linked.address("nothing")


def test_without_llvm(
    anew: Anew, codes: list[MachineCode], monkeypatch: pytest.MonkeyPatch
):
    anew(TEXT)
    llvm_library._llvm.cache_clear()  # pyright: ignore[reportPrivateUsage] tested
    monkeypatch.setattr(llvm_library.platform, "machine", lambda: "other")
    assert anew(TEXT)(np.ones(1, np.float32)).tolist() == [2]
    assert len(codes) == 2


# Processes


def start(script: str = SCRIPT) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", script], stdout=subprocess.PIPE, text=True
    )


def output(process: subprocess.Popen[str]) -> str:
    text, _ = process.communicate()
    assert process.returncode == 0
    return text.strip()


@pytest.mark.sampled(0)
def test_processes_at_once(folder: Path):
    assert [output(p) for p in [start(), start()]] == [f"{RESULT} True"] * 2
    assert len(files(folder)) == 2
    assert output(start()) == f"{RESULT} False"


@pytest.mark.sampled(0)
def test_a_process_that_is_killed_while_it_writes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    killing = "import os, signal\n"
    killing += "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
    killed = start(killing + SCRIPT)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    (rest,) = files(folder)
    assert rest.suffix == ".tmp"
    assert output(start()) == f"{RESULT} True"
    assert output(start()) == f"{RESULT} False"
    os.utime(rest, (0, 0))
    monkeypatch.setattr(
        disk_cache, "MAX_BYTES", sum(p.stat().st_size for p in files(folder))
    )
    disk_cache.write("0", Entry({}, b""))
    assert not rest.exists()
    assert len(files(folder)) == 3


# Bounds


def test_the_least_recently_used_go_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(disk_cache, "MAX_BYTES", 3500)
    folder.mkdir()
    (folder / "photo.jpg").write_bytes(bytes(10_000))
    for i in range(3):
        disk_cache.write(str(i), Entry({"i": i}, bytes(1000)))
        os.utime(folder / f"xdsl-quant-{i}", (i, i))
    assert disk_cache.read("0") == Entry({"i": 0}, bytes(1000))
    disk_cache.write("3", Entry({"i": 3}, b"\n" * 1000))
    assert [i for i in range(4) if disk_cache.read(str(i))] == [0, 2, 3]
    assert disk_cache.read("3") == Entry({"i": 3}, b"\n" * 1000)
    assert (folder / "photo.jpg").exists()
    disk_cache.write("4", Entry({}, bytes(4000)))
    assert [path.name for path in files(folder)] == ["photo.jpg"]


def test_a_disk_that_is_full(
    small_disk: Path, anew: Anew, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDSL_QUANT_CACHE", str(small_disk / "cache"))
    disk_cache.write("0", Entry({}, bytes(100_000)))
    assert files(small_disk / "cache") == []


# Folders


@pytest.mark.parametrize("setting", ["off", "OFF", "0"])
def test_no_folder(setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDSL_QUANT_CACHE", setting)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    disk_cache.write("0", Entry({}, b""))
    assert [*tmp_path.iterdir()] == []


def test_a_folder_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDSL_QUANT_CACHE", "~/kept")
    disk_cache.write("0", Entry({}, b""))
    assert len(files(tmp_path / "kept")) == 1


def test_default_folders(tmp_path: Path, anew: Anew, monkeypatch: pytest.MonkeyPatch):
    home = tmp_path / "home"
    for setting in (None, ""):
        if setting is None:
            monkeypatch.delenv("XDSL_QUANT_CACHE")
        else:
            monkeypatch.setenv("XDSL_QUANT_CACHE", setting)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        disk_cache.write("0", Entry({}, b""))
        assert len(files(tmp_path / "xdg" / "xdsl-quant")) == 1
    monkeypatch.setenv("HOME", str(home))
    # Others than absolute paths are invalid.
    monkeypatch.setenv("XDG_CACHE_HOME", "xdg")
    disk_cache.write("0", Entry({}, b""))
    found = home / ".cache" / "xdsl-quant"
    assert len(files(found)) == 1
    assert found.stat().st_mode & 0o777 == 0o700
    # Nobody chose this folder.
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    disk_cache.write("0", Entry({}, b""))
    assert disk_cache.read("0") is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_folders_that_others_can_write_to(mode: int, folder: Path, anew: Anew):
    folder.mkdir()
    folder.chmod(mode)
    message = (
        f"^compiled code is not cached: other users can write to '{folder}' "
        r"\(chmod go-w prevents that\); set XDSL_QUANT_CACHE to another folder or 'off'$"
    )
    with pytest.warns(RuntimeWarning, match=message):
        function = anew(TEXT)
    assert function(np.ones(1, np.float32)).tolist() == [2]
    assert not files(folder)


def test_folders_of_others(folder: Path, monkeypatch: pytest.MonkeyPatch):
    folder.mkdir()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert disk_cache.read("0") is None


@pytest.mark.parametrize("mask", [0, 0o022])
def test_files_of_others(mask: int, folder: Path, anew: Anew, codes: list[MachineCode]):
    """They may be older than the permissions of the folder."""
    before = os.umask(mask)
    try:
        anew(TEXT)
        for path in files(folder):
            assert path.stat().st_mode & 0o777 == 0o600
            path.chmod(0o622)
        anew(TEXT)
    finally:
        os.umask(before)
    assert len(codes) == 2
    anew(TEXT)
    assert len(codes) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="needs files of another user")
def test_files_that_belong_to_others(
    folder: Path, anew: Anew, codes: list[MachineCode]
):
    anew(TEXT)
    for path in files(folder):
        os.chown(path, 65534, 65534)
    for _ in range(2):
        anew(TEXT)
    assert len(codes) == 2


def test_folders_that_are_read_only(
    anew: Anew, codes: list[MachineCode], monkeypatch: pytest.MonkeyPatch
):
    """An image of a container may come with what is compiled."""
    anew(TEXT)

    def fail(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "utime", fail)
    anew(TEXT)
    assert len(codes) == 1


def test_folders_that_are_none(folder: Path, monkeypatch: pytest.MonkeyPatch):
    folder.touch()
    with pytest.warns(
        RuntimeWarning, match="cannot create folder .*: File exists; set"
    ):
        disk_cache.write("0", Entry({}, b""))
