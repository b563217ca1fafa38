"""CPU features that compiled code may use: those of this machine or a subset."""

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
    """CPU that code is generated for."""

    name: CpuName

    features: Collection[str]
    """Features beyond x86-64, named as in the flags of `/proc/cpuinfo`."""

    llvm_name: str | None = None
    """LLVM's name of the CPU; `None` for this machine."""

    llvm_features: str = ""
    """Additional LLVM features, e.g. `+avx512vnni`."""

    @property
    def vnni_bits(self) -> int:
        """Width in bits of the widest vectors that support `vpdpbusd`; 0 without it."""
        if "avx512_vnni" in self.features:
            return 512
        return 256 if "avx_vnni" in self.features else 0

    @property
    def has_tiles(self) -> bool:
        """True if AMX tiles and 512-bit VNNI vectors are available."""
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
"""CPUs with fixed features, from the most features to the fewest."""


@cache
def machine_features() -> Collection[str]:
    """Return the usable CPU features of this machine; empty if Linux lists none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ()
    flags = (line.partition(":")[2] for line in lines if line.startswith("flags"))
    features = frozenset(next(flags, "").split())
    return features if may_use_tiles(features) else features - {*_TILES}


_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
"""Linux system call and arguments: https://docs.kernel.org/arch/x86/xstate.html"""


def may_use_tiles(features: Collection[str]) -> bool:
    """
    Request AMX tiles and return True if they may be used. Linux requires one request
    before the first use; the permission covers all threads and later forks.
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
    """Return the CPU data that LLVM's native code depends on; `None` if unknown."""
    try:
        processor, *_ = Path("/proc/cpuinfo").read_text().split("\n\n")
    except OSError:
        return None
    lines = processor.splitlines()
    return "\n".join(line for line in lines if line.startswith(_DESCRIPTION))


def available_cpus() -> dict[str, Cpu]:
    """Return this machine's CPU and the `CPU_LEVELS` that it supports, by name."""
    features = machine_features()
    native = Cpu("native", features)
    masked = [cpu for cpu in CPU_LEVELS if {*cpu.features} <= {*features}]
    return {cpu.name: cpu for cpu in (native, *masked)}


def cpu_named(name: object) -> Cpu:
    """
    Look up a CPU by name.

    Raises:
        ValueError: if the CPU is unknown or this machine lacks one of its features.
    """
    available = available_cpus()
    if isinstance(name, str) and name in available:
        return available[name]
    known = {cpu.name: cpu for cpu in CPU_LEVELS}
    problem = f"unknown cpu {name!r}"
    if isinstance(name, str) and name in known:
        missing = [f for f in known[name].features if f not in machine_features()]
        problem = f"cpu {name!r} is unsupported here: missing {', '.join(missing)}"
    raise ValueError(f"{problem}; available: {', '.join(map(repr, available))}")


@dataclass(frozen=True)
class CodeOptions:
    """Code generation options; they do not change the results."""

    schedule: bool
    """True if scheduling optimizes the code beyond MLIR's passes."""

    cpu: Cpu
    """CPU whose features the code may use."""

    threads: int = 1
    """Number of threads for large matrix products."""

    stream: bool = False
    """True if the kernel uses streaming stores for results where possible."""
