"""The instructions that compiled code may use: those of this machine, or fewer."""

import ctypes
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

CpuName = Literal["native", "amx", "avx512-vnni", "avx512", "avx-vnni", "avx2"]

_AVX2 = ("avx", "avx2", "abm", "bmi1", "bmi2", "f16c", "fma", "movbe")
_AVX512 = (*_AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_AVX512_VNNI = (*_AVX512, "avx512_vnni")
_TILES = ("amx_tile", "amx_int8")


@dataclass(frozen=True)
class Cpu:
    """A processor for which code is generated."""

    name: CpuName

    features: Collection[str]
    """What it has beyond x86-64, as Linux names it in `/proc/cpuinfo`."""

    llvm_name: str | None = None
    """How LLVM names it; `None` is the one of this machine."""

    llvm_features: str = ""
    """What LLVM may use beside that, as it names that: `+avx512vnni`."""

    @property
    def vnni_bits(self) -> int:
        """The bits of the widest vectors on which `vpdpbusd` may be used, or 0."""
        if "avx512_vnni" in self.features:
            return 512
        return 256 if "avx_vnni" in self.features else 0

    @property
    def has_tiles(self) -> bool:
        """True if tiles of AMX may be multiplied, beside vectors of 512 bits."""
        return {*_TILES, "avx512_vnni"} <= {*self.features}


CPU_LEVELS = (
    Cpu(
        "amx",
        (*_AVX512_VNNI, *_TILES),
        "x86-64-v4",
        "+avx512vnni,+amx-tile,+amx-int8",
    ),
    Cpu("avx512-vnni", _AVX512_VNNI, "x86-64-v4", "+avx512vnni"),
    Cpu("avx512", _AVX512, "x86-64-v4", "+avx512f"),
    Cpu("avx-vnni", (*_AVX2, "avx_vnni"), "x86-64-v3", "+avxvnni"),
    Cpu("avx2", _AVX2, "x86-64-v3", "+avx2"),
)
"""The CPUs for which any machine can generate code, those with most features first."""


@cache
def machine_features() -> Collection[str]:
    """
    Return the features of this machine that may be used, none where Linux does not list
    them.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ()
    flags = (line.partition(":")[2] for line in lines if line.startswith("flags"))
    features = frozenset(next(flags, "").split())
    return features if may_use_tiles(features) else features - {*_TILES}


_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
"""
The system call of Linux on x86-64 and its arguments, see
https://docs.kernel.org/arch/x86/xstate.html
"""


def may_use_tiles(features: Collection[str]) -> bool:
    """
    Return True if the system lets all threads of this process use the tiles of AMX,
    which they must not before it is asked. Processes that are forked afterwards may,
    too.
    """
    if "amx_tile" not in features:
        return False
    system_call = ctypes.CDLL(None).syscall
    system_call.argtypes = [ctypes.c_long] * 3
    system_call.restype = ctypes.c_long
    return system_call(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0


_DESCRIPTION = (
    "vendor_id",
    "cpu family",
    "model",
    "stepping",
    "flags",
    "CPU ",
    "Features",
)


@cache
def machine_description() -> str | None:
    """What LLVM may know of this machine; `None` where Linux does not say it."""
    try:
        processor, *_ = Path("/proc/cpuinfo").read_text().split("\n\n")
    except OSError:
        return None
    lines = processor.splitlines()
    return "\n".join(line for line in lines if line.startswith(_DESCRIPTION))


def available_cpus() -> dict[str, Cpu]:
    """What this machine can be taken for, by name."""
    features = machine_features()
    native = Cpu("native", features)
    masked = [cpu for cpu in CPU_LEVELS if {*cpu.features} <= {*features}]
    return {cpu.name: cpu for cpu in (native, *masked)}


def cpu_named(name: object) -> Cpu:
    """
    Return the processor of a name.

    Raises:
        ValueError: if there is none, or this machine has not all its instructions.
    """
    available = available_cpus()
    if isinstance(name, str) and name in available:
        return available[name]
    known = {cpu.name: cpu for cpu in CPU_LEVELS}
    what = f"unknown cpu {name!r}"
    if isinstance(name, str) and name in known:
        missing = [f for f in known[name].features if f not in machine_features()]
        what = f"cpu {name!r} needs {', '.join(missing)}, which this machine lacks"
    raise ValueError(f"{what}; available: {', '.join(map(repr, available))}")


@dataclass(frozen=True)
class CodeOptions:
    """What the code of the same module may differ in; its results are the same."""

    schedule: bool
    """True if scheduling makes the code fast, beside what MLIR does."""

    cpu: Cpu
    """The instructions that it may use."""

    threads: int = 1
    """The number of threads that compute large products."""

    stream: bool = False
    """True if the kernel streams results, where it can."""
