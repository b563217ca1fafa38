"""
Code for CPUs that this machine lacks: LLVM optimizes a module for such a CPU, and generates
instructions of this one.

Vectors, unrolled loops and masks are those of the other CPU, so miscompilations by LLVM's
optimizer show. Miscompilations by its instruction selection do not.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from ctypes import CFUNCTYPE, c_void_p
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from xdsl_quant.execution import llvm_library, runtime_library
from xdsl_quant.execution.cpu import (
    CPU_LEVELS,
    CodeOptions,
    Cpu,
    available_cpus,
    cpu_named,
)
from xdsl_quant.execution.llvm_library import LinkedObject
from xdsl_quant.execution.machine_code import MachineCode

_TARGET = """\
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-\
n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"
"""
"""LLVM knows the cost of instructions only with a target."""

_INTRINSIC = re.compile(r"@llvm\.x86\.avx512\.(vpdpbusd|permvar\.sf)\.(\d+)")


def foreign_cpus() -> dict[str, Cpu]:
    """
    CPUs that this machine lacks but whose optimized code it can run, by name. There is no
    emulation of tiles.
    """
    available = available_cpus()
    lacking = {c.name: c for c in CPU_LEVELS if c.name not in available}
    return {n: c for n, c in lacking.items() if n != "amx" and "avx2" in available}


@contextmanager
def foreign_code(*, with_tiles: bool = False) -> Generator[None]:
    """
    Let `compile` take the names of foreign CPUs, too.

    Args:
        with_tiles: take the name "amx", whose instructions the caller replaces.
    """
    foreign = foreign_cpus()
    if with_tiles and foreign:
        foreign["amx"] = next(cpu for cpu in CPU_LEVELS if cpu.name == "amx")
    native = MachineCode

    def named(name: object) -> Cpu:
        return foreign.get(str(name)) or cpu_named(name)

    def compiled(
        text: str, names: Sequence[str], options: CodeOptions, *arguments: Any
    ) -> MachineCode:
        class_ = ForeignCode if options.cpu.name in foreign else native
        return class_(text, names, options, *arguments)

    with (
        patch("xdsl_quant.execution.compilation.cpu_named", named),
        patch("xdsl_quant.execution.machine_code.MachineCode", compiled),
    ):
        yield


class ForeignCode(MachineCode):
    """Functions that LLVM optimizes for another CPU."""

    def _compile(self, module: Any, names: Sequence[str]) -> None:
        translate: Any = import_module("mlir._mlir_libs._mlirDialectsLLVM")
        text = _TARGET + translate.translate_module_to_llvmir(module.operation)
        addresses = runtime_library.addresses(self._callbacks)
        self._file = object_code(optimized(_packed(text)))
        self._object = LinkedObject(self._file, addresses)

    def object_code(self) -> bytes:
        return self._file

    def function(self, name: str) -> Callable[[int], None]:
        address = self._object.address(f"_mlir__mlir_ciface_{name}")
        return CFUNCTYPE(None, c_void_p)(address)


def _packed(module: str) -> str:
    """A module with a function for each C interface that takes an array of addresses."""
    interfaces = re.findall(r"define void @(_mlir_ciface_\w+)\((.*?)\)", module)
    return module + "".join(
        _packed_function(name, arguments.count("ptr")) for name, arguments in interfaces
    )


def _packed_function(name: str, count: int) -> str:
    loads = "".join(
        f"""
          %a{i} = getelementptr ptr, ptr %addresses, i64 {i}
          %p{i} = load ptr, ptr %a{i}
          %v{i} = load ptr, ptr %p{i}"""
        for i in range(count)
    )
    arguments = ", ".join(f"ptr %v{i}" for i in range(count))
    return f"""
        define void @_mlir_{name}(ptr %addresses) {{{loads}
          call void @{name}({arguments})
          ret void
        }}"""


def optimized(module: str) -> str:
    """Optimize LLVM IR for the CPUs that its functions name."""
    return _run("opt", "-passes=default<O2>", "-S", given=module)


def object_code(module: str) -> bytes:
    """Compile LLVM IR to an object for this machine, whatever CPUs its functions name."""
    # A group of attributes must not become empty.
    module = re.sub(r'"target-(cpu|features)"="[^"]*"', r'"\1"', module)
    with TemporaryDirectory() as folder:
        path = Path(folder, "code.o")
        options = "-filetype=obj", "-relocation-model=pic", "-mcpu=native"
        _run("llc", *options, "-o", str(path), given=_emulated(module))
        return path.read_bytes()


def _run(name: str, *options: str, given: str) -> str:
    folder = llvm_library.libraries()[0].parent.parent / "bin"
    command = [str(folder / name), *options, "-"]
    result = subprocess.run(command, input=given, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"{name}: {result.stderr[:2000]}")
    return result.stdout


# Emulated instructions


def _emulated(module: str) -> str:
    """A module whose instructions of foreign CPUs are functions."""
    used = {(match[1], int(match[2])) for match in _INTRINSIC.finditer(module)}
    lines = [
        line
        for line in module.splitlines()
        if not (line.startswith("declare") and _INTRINSIC.search(line))
    ]
    calls = _INTRINSIC.sub(r"@emulated.\1.\2", "\n".join(lines))
    functions = {"vpdpbusd": _dot_products, "permvar.sf": _permutation}
    return calls + "".join(functions[name](bits) for name, bits in sorted(used))


def _dot_products(bits: int) -> str:
    sums, lanes = bits // 32, bits // 8
    parts = "".join(
        f"""
          %p{i} = shufflevector <{lanes} x i32> %products, <{lanes} x i32> poison,
            <{sums} x i32> <{", ".join(f"i32 {4 * k + i}" for k in range(sums))}>
          %s{i + 1} = add <{sums} x i32> %s{i}, %p{i}"""
        for i in range(4)
    )
    return f"""
        define internal <{sums} x i32> @emulated.vpdpbusd.{bits}(
            <{sums} x i32> %s0, <{lanes} x i8> %x, <{lanes} x i8> %y) {{
          %unsigned = zext <{lanes} x i8> %x to <{lanes} x i32>
          %signed = sext <{lanes} x i8> %y to <{lanes} x i32>
          %products = mul <{lanes} x i32> %unsigned, %signed{parts}
          ret <{sums} x i32> %s4
        }}"""


def _permutation(bits: int) -> str:
    lanes = bits // 32
    vector = f"<{lanes} x float>"
    parts = "".join(
        f"""
          %i{i} = extractelement <{lanes} x i32> %indices, i32 {i}
          %j{i} = and i32 %i{i}, {lanes - 1}
          %x{i} = extractelement {vector} %table, i32 %j{i}
          %r{i + 1} = insertelement {vector} %r{i}, float %x{i}, i32 {i}"""
        for i in range(lanes)
    )
    return f"""
        define internal {vector} @emulated.permvar.sf.{bits}(
            {vector} %table, <{lanes} x i32> %indices) {{
          %r0 = freeze {vector} poison{parts}
          ret {vector} %r{lanes}
        }}"""
