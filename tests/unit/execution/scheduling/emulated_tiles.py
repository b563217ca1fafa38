"""
The instructions of AMX in Python, for machines that do not have them.

Code for the CPU "amx" calls these functions instead. They fail where the CPU would, and
where it may: tiles must be configured, and have shapes that fit each other.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import ClassVar
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.execution import compilation, cpu, runtime_library
from xdsl_quant.execution.disk_cache import VARIABLE
from xdsl_quant.execution.mlir_bindings import ir, symbol_of
from xdsl_quant.execution.scheduling import byte_products

_POINTER = ctypes.c_void_p
_TYPES: dict[str, list[type[ctypes.c_int8 | ctypes.c_void_p | ctypes.c_int64]]] = {
    "ldtilecfg": [_POINTER],
    "tilerelease": [],
    "tilezero": [ctypes.c_int8],
    "tileloadd64": [ctypes.c_int8, _POINTER, ctypes.c_int64],
    "tilestored64": [ctypes.c_int8, _POINTER, ctypes.c_int64],
    "tdpbssd": [ctypes.c_int8] * 3,
    "tdpbusd": [ctypes.c_int8] * 3,
}


class EmulatedTiles(threading.local):
    """The tiles of a thread."""

    counts: ClassVar[Counter[str]] = Counter()
    """How often each instruction ran in any thread."""

    def __init__(self) -> None:
        self.tiles: list[NDArray[np.uint8]] = []
        """The bytes of all tiles; none if they are not configured."""

    def ldtilecfg(self, address: int) -> None:
        """Configure the tiles, which become 0."""
        data = np.frombuffer(ctypes.string_at(address, 64), np.uint8)
        assert data[0] == 1
        assert not data[1:16].any()
        assert not data[32:48].any()
        assert not data[56:].any()
        widths, counts = data[16:32].view("<u2"), data[48:56]
        assert (widths <= 64).all()
        assert (counts <= 16).all()
        assert ((widths > 0) == (counts > 0)).all()
        self.tiles = [
            np.zeros((count, width), np.uint8)
            for count, width in zip(counts.tolist(), widths.tolist(), strict=True)
        ]

    def tilerelease(self) -> None:
        """Give the tiles back."""
        assert self.tiles
        self.tiles = []

    def _tile(self, number: int) -> NDArray[np.uint8]:
        tile = self.tiles[number]
        assert tile.size
        return tile

    def tilezero(self, number: int) -> None:
        """Make a tile 0."""
        self._tile(number)[:] = 0

    def tileloadd64(self, number: int, address: int, stride: int) -> None:
        """Load a tile from memory."""
        tile = self._tile(number)
        for i, row in enumerate(tile):
            text = ctypes.string_at(address + i * stride, row.size)
            row[:] = np.frombuffer(text, np.uint8)

    def tilestored64(self, number: int, address: int, stride: int) -> None:
        """Store a tile to memory."""
        for i, row in enumerate(self._tile(number)):
            ctypes.memmove(address + i * stride, row.tobytes(), row.size)

    def _multiply(
        self, total: int, lhs: int, rhs: int, dtype: type[np.int8 | np.uint8]
    ):
        assert len({total, lhs, rhs}) == 3
        sums, left, right = map(self._tile, (total, lhs, rhs))
        assert left.shape[1] == 4 * len(right)
        assert sums.shape == (len(left), right.shape[1])
        packed = right.view(np.int8).reshape(len(right), -1, 4).transpose(0, 2, 1)
        matrix = packed.reshape(left.shape[1], -1).astype(np.int32)
        sums.view(np.int32)[:] += left.view(dtype).astype(np.int32) @ matrix

    def tdpbssd(self, total: int, lhs: int, rhs: int) -> None:
        """Multiply signed bytes by signed ones."""
        self._multiply(total, lhs, rhs, np.int8)

    def tdpbusd(self, total: int, lhs: int, rhs: int) -> None:
        """Multiply unsigned bytes by signed ones."""
        self._multiply(total, lhs, rhs, np.uint8)


def emulate(monkeypatch: pytest.MonkeyPatch) -> EmulatedTiles:
    """Let this machine have the CPU "amx", with these tiles."""
    tiles = EmulatedTiles()
    EmulatedTiles.counts.clear()
    with_tiles = frozenset({*cpu.machine_features(), "amx_tile", "amx_int8"})
    monkeypatch.setattr(cpu, "machine_features", lambda: with_tiles)
    monkeypatch.setenv(VARIABLE, "off")
    cache: OrderedDict[object, object] = OrderedDict()
    monkeypatch.setattr(compilation, "_cache", cache)

    def callback(name: str) -> object:
        function: Callable[..., None] = getattr(tiles, name)

        def called(*operands: int) -> None:
            EmulatedTiles.counts[name] += 1
            runtime_library.call_and_keep_failure(lambda: function(*operands))

        return ctypes.CFUNCTYPE(None, *_TYPES[name])(called)

    callbacks = {f"emulated_{name}": callback(name) for name in _TYPES}
    for name, function in callbacks.items():
        monkeypatch.setitem(
            runtime_library._CALLBACKS,  # pyright: ignore[reportPrivateUsage] - hook
            name,
            function,
        )

    monkeypatch.setattr(byte_products, "tiles_are_exact", Mock(return_value=True))
    names = {ctypes.c_int8: "i8", _POINTER: "!llvm.ptr", ctypes.c_int64: "i64"}
    declarations = "\n".join(
        f"func.func private @emulated_{name}({', '.join(map(names.__getitem__, types))})"
        for name, types in _TYPES.items()
    )

    def add_emulated(module: ir.Module, text: str) -> None:
        text = re.sub(
            r'llvm.call_intrinsic "llvm.x86.(tile\w+|ldtilecfg|tdp\w+)"',
            r"func.call @emulated_\1",
            text,
        )
        declared = {*map(symbol_of, module.body.operations)}
        for op in ir.Module.parse(f"{text}\n{declarations}").body.operations:
            if symbol_of(op) not in declared:
                module.body.append(op.detach_from_parent())

    monkeypatch.setattr(byte_products, "add_text", add_emulated)
    return tiles
