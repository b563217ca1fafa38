"""Code for CPUs with fewer instructions than this one: what is in it, and its results."""

from __future__ import annotations

import ctypes
import subprocess
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from tests.unit.execution.scheduling.test_byte_products import product, some
from tests.unit.execution.test_tfl import FRAMES, PATHS
from xdsl_quant.execution import compile, cpu, machine_code
from xdsl_quant.execution.cpu import (
    CpuName,
    available_cpus,
    machine_description,
    machine_features,
    may_use_tiles,
)
from xdsl_quant.execution.machine_code import MachineCode
from xdsl_quant.runtime.stateful_function import StatefulFunction

CPUS = [*available_cpus()]

AVX2 = ("avx", "avx2", "abm", "bmi1", "bmi2", "f16c", "fma", "movbe")
AVX512 = (*AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

CASTS = """
!q = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%x: tensor<?xf32>, %y: tensor<?xf16>) -> (tensor<?x!q>, tensor<?xf16>) {
  %q = quant.qcast %x : tensor<?xf32> to tensor<?x!q>
  %z = arith.addf %y, %y : tensor<?xf16>
  return %q, %z : tensor<?x!q>, tensor<?xf16>
}"""


def assembly(path: Path, code: MachineCode) -> str:
    """The instructions of all functions, the wrappers of MLIR among them."""
    spec = find_spec("llvm")
    if spec is None or spec.origin is None:
        pytest.skip("needs llvm-objdump")
    path.write_bytes(code.object_code())
    tool = Path(spec.origin).parent / "bin" / "llvm-objdump"
    command = [str(tool), "-d", str(path)]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def compiled_codes(monkeypatch: pytest.MonkeyPatch) -> list[MachineCode]:
    """What is compiled from now on."""
    made: list[MachineCode] = []

    def make(*arguments: Any, **options: Any) -> MachineCode:
        made.append(MachineCode(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(machine_code, "MachineCode", make)
    return made


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch) -> list[MachineCode]:
    """What a test compiles."""
    return compiled_codes(monkeypatch)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("amx", ["ymm", "zmm", "vpdpbusd"]),
        ("avx512-vnni", ["ymm", "zmm", "vpdpbusd"]),
        ("avx512", ["ymm", "zmm"]),
        ("avx-vnni", ["ymm", "vpdpbusd"]),
        ("avx2", ["ymm"]),
    ],
)
def test_instructions(
    name: CpuName, found: list[str], codes: list[MachineCode], tmp_path: Path
):
    if name not in CPUS:
        pytest.skip(f"needs {name}")
    compile(product((8, 63), some(63, 40), (8, 40)), cpu=name, schedule=True)
    compile(CASTS, cpu=name, schedule=True)
    text = "".join(assembly(tmp_path / "code.o", code) for code in codes)
    assert [word for word in ("ymm", "zmm", "vpdpbusd") if word in text] == found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CPUS)
def test_products(name: CpuName):
    for rows, depth, columns in ((1, 1, 1), (7, 33, 17), (13, 64, 48), (3, 259, 100)):
        weights, x = some(depth, columns), some(rows, depth)
        text = product(x.shape, weights, (rows, columns), zero_points=(-128, 0))
        sums = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
        expected = (x.astype(np.int32) + 128) @ weights.astype(np.int32) + sums
        assert np.array_equal(compile(text, cpu=name)(x, sums), expected)


@pytest.mark.parametrize("name", CPUS)
def test_casts(name: CpuName):
    function = compile(CASTS, cpu=name)
    for size in (0, 1, 15, 16, 17, 67):
        x = np.linspace(-70, 70, size, dtype=np.float32)
        y = np.linspace(-9, 9, size, dtype=np.float16)
        q, z = function(x, y)
        assert q.tolist() == np.clip(np.rint(x * 2 + 3), -128, 127).tolist()
        assert z.tolist() == (y + y).tolist()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CPUS)
def test_models(name: CpuName):
    path = PATHS[0]
    models = [
        StatefulFunction(path, partial(compile, **options))
        for options in ({"schedule": False}, {"cpu": name})
    ]
    for frame in FRAMES:
        for step in zip(*(model.step(frame) for model in models), strict=True):
            assert np.array_equal(*step)
        for state in zip(*(model.state for model in models), strict=True):
            assert np.array_equal(*state)


# Which there are


@pytest.mark.parametrize(
    ("features", "names"),
    [
        ((), ["native"]),
        (AVX2, ["native", "avx2"]),
        ((*AVX2, "avx_vnni"), ["native", "avx-vnni", "avx2"]),
        (AVX512[:-1], ["native", "avx2"]),
        (AVX512, ["native", "avx512", "avx2"]),
        (
            (*AVX512, "avx512_vnni", "other"),
            ["native", "avx512-vnni", "avx512", "avx2"],
        ),
        (
            (*AVX512, "avx512_vnni", "amx_tile", "amx_int8"),
            ["native", "amx", "avx512-vnni", "avx512", "avx2"],
        ),
    ],
)
def test_available(
    features: tuple[str, ...], names: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cpu, "machine_features", lambda: frozenset(features))
    available = available_cpus()
    assert [*available] == names
    assert {*available["native"].features} == {*features}
    bits = 512 if "avx512_vnni" in features else 256 * ("avx_vnni" in features)
    assert available["native"].vnni_bits == bits
    assert available["native"].has_tiles == ("amx" in names)


def test_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cpu, "machine_features", lambda: frozenset(AVX2))
    for name, message in (
        ("sse", "unknown cpu 'sse'; available: 'native', 'avx2'"),
        (None, "unknown cpu None; available: 'native', 'avx2'"),
        (
            "avx512",
            "cpu 'avx512' is unsupported here: missing avx512f, avx512bw, avx512cd, "
            "avx512dq, avx512vl; available: 'native', 'avx2'",
        ),
    ):
        wrong: Any = name
        with pytest.raises(ValueError, match=f"^{message}$"):
            compile(CASTS, cpu=wrong)


ARM = """\
processor\t: 0
BogoMIPS\t: 50.00
Features\t: fp asimd
CPU part\t: 0xd40

processor\t: 1
CPU part\t: 0xd41
"""

AMX = "flags\t\t: avx2 amx_tile amx_int8\n"


@pytest.mark.parametrize(
    ("text", "may_use_tiles", "features", "description"),
    [
        (ARM, False, (), "Features\t: fp asimd\nCPU part\t: 0xd40"),
        (
            "cpu MHz\t: 2000\nmodel name\t: A\nflags\t\t: fma avx2\n",
            False,
            ("avx2", "fma"),
            "model name\t: A\nflags\t\t: fma avx2",
        ),
        (AMX, True, ("amx_int8", "amx_tile", "avx2"), AMX[:-1]),
        # The system refuses.
        (AMX, False, ("avx2",), AMX[:-1]),
        (None, False, (), None),
    ],
)
def test_what_linux_says(
    text: str | None,
    may_use_tiles: bool,
    features: tuple[str, ...],
    description: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    path = tmp_path / "cpuinfo"
    if text is not None:
        path.write_text(text)

    def file(_: str) -> Path:
        return path

    monkeypatch.setattr(cpu, "Path", file)
    monkeypatch.setattr(cpu, "may_use_tiles", Mock(return_value=may_use_tiles))
    assert sorted(machine_features.__wrapped__()) == [*features]
    assert machine_description.__wrapped__() == description


@pytest.mark.parametrize("answer", [0, -1])
def test_system_is_asked_for_tiles(answer: int, monkeypatch: pytest.MonkeyPatch):
    system_call = Mock(return_value=answer)
    library = Mock(return_value=Mock(syscall=system_call))
    monkeypatch.setattr(ctypes, "CDLL", library)
    assert not may_use_tiles(("avx2",))
    library.assert_not_called()
    assert may_use_tiles(("avx2", "amx_tile")) == (answer == 0)
    system_call.assert_called_once_with(158, 0x1023, 18)
