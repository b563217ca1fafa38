"""In-process linking of machine code with the LLVM library of MLIR's package."""

import ctypes
import platform
import weakref
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_size_t, c_void_p
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_TARGETS = {"x86_64": "X86", "aarch64": "AArch64"}
"""LLVM target names by machine name."""

_EXPORTED = 1
"""LLVM symbol flag: visible to other code."""


class LinkError(Exception):
    """Raised when LLVM cannot link code."""


def _package_folder(package: str) -> Path | None:
    """Return the folder of a package without importing it."""
    spec = find_spec(package)
    folders = (spec and spec.submodule_search_locations) or ()
    return next(map(Path, folders), None)


def libraries() -> Sequence[Path]:
    """Return the paths of libLLVM and libMLIR; empty without the extra `mlir`."""
    llvm, mlir = _package_folder("llvm"), _package_folder("mlir")
    if llvm is None or mlir is None:
        return ()
    paths = (
        llvm / "lib" / "libLLVM.so",
        mlir / "_mlir_libs" / "libMLIRPythonCAPI.so",
    )
    return paths if all(path.is_file() for path in paths) else ()


class _Symbol(Structure):
    _fields_ = (
        ("name", c_void_p),
        ("address", ctypes.c_uint64),
        ("generic_flags", ctypes.c_uint8),
        ("target_flags", ctypes.c_uint8),
    )


class _Llvm:
    """Functions of LLVM's C API for linking."""

    def __init__(self, library: Path, target: str):
        self._library = ctypes.CDLL(str(library))
        for part in ("TargetInfo", "Target", "TargetMC", "AsmPrinter"):
            self._function(f"LLVMInitialize{target}{part}")()
        handle, out = c_void_p, POINTER(c_void_p)
        orc = self._function
        self.create = orc("LLVMOrcCreateLLJIT", handle, out, handle)
        self.dispose = orc("LLVMOrcDisposeLLJIT", handle, handle)
        self.dylib = orc("LLVMOrcLLJITGetMainJITDylib", handle, handle)
        self.process_symbols = orc(
            "LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess",
            *(handle, out, c_char, handle, handle),
        )
        self.add_generator = orc("LLVMOrcJITDylibAddGenerator", None, handle, handle)
        self.intern = orc("LLVMOrcLLJITMangleAndIntern", handle, handle, c_char_p)
        self.absolute_symbols = orc(
            "LLVMOrcAbsoluteSymbols", handle, POINTER(_Symbol), c_size_t
        )
        self.define = orc("LLVMOrcJITDylibDefine", handle, handle, handle)
        self.memory_buffer = orc(
            "LLVMCreateMemoryBufferWithMemoryRangeCopy",
            *(handle, c_char_p, c_size_t, c_char_p),
        )
        self.add_object = orc(
            "LLVMOrcLLJITAddObjectFile", handle, handle, handle, handle
        )
        self.lookup = orc(
            "LLVMOrcLLJITLookup", handle, handle, POINTER(ctypes.c_uint64), c_char_p
        )
        self._message = orc("LLVMGetErrorMessage", handle, handle)
        self._dispose_message = orc("LLVMDisposeErrorMessage", None, handle)

    def _function(
        self, name: str, result: type | None = None, *arguments: type
    ) -> Callable[..., int | None]:
        function = getattr(self._library, name)
        function.restype, function.argtypes = result, arguments
        return function

    def check(self, error: int | None) -> None:
        """
        Check the result of an LLVM call.

        Raises:
            LinkError: if the call failed.
        """
        if error is None:
            return
        message = self._message(error)
        assert message is not None
        text = ctypes.string_at(message).decode(errors="replace")
        self._dispose_message(message)
        raise LinkError(text)


@cache
def _llvm() -> _Llvm:
    paths, target = libraries(), _TARGETS.get(platform.machine())
    if not paths or target is None:
        raise LinkError("missing LLVM library for this machine")
    return _Llvm(paths[0], target)


class LinkedObject:
    """ELF relocatable object that is linked into this process."""

    def __init__(self, file: bytes, symbols: Mapping[str, int]):
        """
        Args:
            file: content of the object file.
            symbols: addresses of the symbols that the object uses and this process does
                not export.

        Raises:
            LinkError: if LLVM cannot link it.
        """
        self._llvm = llvm = _llvm()
        jit, generator = c_void_p(), c_void_p()
        llvm.check(llvm.create(byref(jit), None))
        self._jit = jit
        # Errors at process exit are irrelevant.
        weakref.finalize(self, llvm.dispose, jit).atexit = False
        dylib = llvm.dylib(jit)
        llvm.check(llvm.process_symbols(byref(generator), b"\0", None, None))
        llvm.add_generator(dylib, generator)
        pairs = [
            _Symbol(llvm.intern(jit, name.encode()), address, _EXPORTED, 0)
            for name, address in symbols.items()
        ]
        array = (_Symbol * len(pairs))(*pairs)
        llvm.check(llvm.define(dylib, llvm.absolute_symbols(array, len(pairs))))
        buffer = llvm.memory_buffer(file, len(file), b"object")
        llvm.check(llvm.add_object(jit, dylib, buffer))

    def address(self, symbol: str) -> int:
        """
        Return the address of a symbol of the object.

        Raises:
            LinkError: if the symbol, or one that the object uses, is missing.
        """
        address = ctypes.c_uint64()
        self._llvm.check(self._llvm.lookup(self._jit, byref(address), symbol.encode()))
        return address.value
