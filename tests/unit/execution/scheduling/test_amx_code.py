"""Products by tiles, which Python functions compute here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.cpus.foreign_code import foreign_code
from tests.unit.execution.scheduling.emulated_tiles import EmulatedTiles, emulate
from tests.unit.execution.scheduling.guarded_memory import before_no_page
from tests.unit.execution.scheduling.test_byte_products import (
    CONVOLUTION,
    number,
    product,
    some,
)
from tests.unit.execution.scheduling.test_epilogues import (
    CLAMPED,
    ROUNDED_TWICE,
    numbers,
    requantized,
)
from tests.unit.execution.test_cpu import assembly, compiled_codes
from xdsl_quant.execution import compile, cpu, disk_cache
from xdsl_quant.execution.cpu import Cpu, available_cpus
from xdsl_quant.execution.disk_cache import VARIABLE
from xdsl_quant.execution.scheduling import amx_code, byte_products, tile_check
from xdsl_quant.execution.scheduling.epilogues import Epilogue
from xdsl_quant.execution.scheduling.vector_code import Memref
from xdsl_quant.execution.scheduling.vnni_code import WeightedSum, product_text

RNG = np.random.default_rng(1)
Bytes = NDArray[np.int8]

needs_vnni = pytest.mark.skipif(
    "avx512-vnni" not in available_cpus(),
    reason="looks at code of this machine, which needs AVX-512 VNNI",
)

compile_for_amx = partial(compile, cpu="amx")


@pytest.fixture(autouse=True, scope="module")
def code_for_tiles() -> Iterator[None]:
    """Compile for AMX, also on machines that lack even the vectors beside it."""
    with foreign_code(with_tiles=True):
        yield


@pytest.fixture(autouse=True)
def tiles(monkeypatch: pytest.MonkeyPatch) -> EmulatedTiles:
    return emulate(monkeypatch)


@pytest.fixture
def small_is_large(monkeypatch: pytest.MonkeyPatch):
    for name in ("_MIN_PRODUCTS", "_MIN_TILE_PRODUCTS"):
        monkeypatch.setattr(amx_code, name, 0)


@pytest.fixture
def caches_are_small(small_is_large: None, monkeypatch: pytest.MonkeyPatch):
    """Two tiles beside each other are a block, and so are about 30 rows."""
    monkeypatch.setattr(amx_code, "_PANEL_BYTES", 4096)
    monkeypatch.setattr(amx_code, "_BLOCK_BYTES", 4000)
    monkeypatch.setattr(amx_code, "_MAX_SUMS_BYTES", 10_000)


def check(tiles: EmulatedTiles, kind: str = "tdpbssd") -> None:
    """Tiles were multiplied, and then given back."""
    assert tiles.counts[kind]
    assert tiles.counts["ldtilecfg"] == tiles.counts["tilerelease"]
    assert not tiles.tiles


def check_matrices(rows: int, depth: int, columns: int, tiles: EmulatedTiles):
    weights, x = some(depth, columns), some(rows, depth)
    start = RNG.integers(-99, 99, (rows, columns)).astype(np.int32)
    function = compile_for_amx(product(x.shape, weights, start.shape))
    expected = start + x.astype(np.int32) @ weights.astype(np.int32)
    assert np.array_equal(function(x, start), expected)
    check(tiles)


@pytest.mark.sampled(28)
@pytest.mark.parametrize("rows", [1, 16, 17, 33, 95])
@pytest.mark.parametrize("depth", [4, 9, 64, 66])
@pytest.mark.parametrize("columns", [2, 31, 65])
@pytest.mark.usefixtures("small_is_large")
def test_matrices(rows: int, depth: int, columns: int, tiles: EmulatedTiles):
    check_matrices(rows, depth, columns, tiles)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("rows", [2, 33, 49, 131])
@pytest.mark.parametrize("depth", [4, 250, 579])
@pytest.mark.parametrize("columns", [15, 70])
@pytest.mark.usefixtures("caches_are_small")
def test_blocks(rows: int, depth: int, columns: int, tiles: EmulatedTiles):
    check_matrices(rows, depth, columns, tiles)


def test_blocks_of_a_large_product(tiles: EmulatedTiles):
    check_matrices(550, 1024, 33, tiles)
    # Sums are loaded and stored twice
    assert tiles.counts["tilestored64"] == 35 * 3 * 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize("zero_points", [(0, 0), (-128, 0), (5, 1), (1 << 30, 0)])
@pytest.mark.parametrize("lhs", ["extsi", "extui"])
@pytest.mark.usefixtures("small_is_large")
def test_signs_and_zero_points(
    lhs: str, zero_points: tuple[int, int], tiles: EmulatedTiles
):
    weights = np.maximum(some(70, 20), -127)
    x, start = some(19, 70), np.ones((19, 20), np.int32)
    text = product(
        x.shape, weights, (19, 20), extend=(lhs, "extsi"), zero_points=zero_points
    )
    expected = number(x, lhs, zero_points[0]) @ number(weights, "extsi", zero_points[1])
    actual = compile_for_amx(text)(x, start)
    assert actual.tolist() == (expected + 1).astype(np.int32).tolist()
    check(tiles, "tdpbssd" if lhs == "extsi" else "tdpbusd")


@pytest.mark.sampled(15)
@pytest.mark.parametrize("channels", [3, 16, 70])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [(5, 9), (3, 18), (17, 1)])
@pytest.mark.parametrize("has_small_caches", [False, True])
def test_windows(
    channels: int,
    stride: int,
    size: tuple[int, int],
    has_small_caches: bool,
    tiles: EmulatedTiles,
    request: pytest.FixtureRequest,
):
    request.getfixturevalue(
        "caches_are_small" if has_small_caches else "small_is_large"
    )
    height, width = size
    shape = (2, stride * (height - 1) + 3, stride * (width - 1) + 2, channels)
    weights, x = some(20, 3, 2, channels), some(*shape)
    maps = (
        f"(n, h * {stride} + i, w * {stride} + j, c)",
        "(o, i, j, c)",
        "(n, h, w, o)",
    )
    result = (2, height, width, 20)
    text = product(shape, weights, result, maps, CONVOLUTION, zero_points=(-3, 0))
    views = np.lib.stride_tricks.sliding_window_view(
        x.astype(np.int32) + 3, (3, 2), (1, 2)
    )
    windows = views[:, ::stride, ::stride]
    expected = np.einsum("nhwcij,oijc->nhwo", windows, weights.astype(np.int32))
    actual = compile_for_amx(text)(x, np.zeros(result, np.int32))
    assert np.array_equal(actual, expected)
    check(tiles)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("width", [2, 16, 33])
@pytest.mark.parametrize("rows", [5, 31, 90])
@pytest.mark.parametrize("has_small_caches", [False, True])
def test_what_follows(
    width: int,
    rows: int,
    has_small_caches: bool,
    tiles: EmulatedTiles,
    request: pytest.FixtureRequest,
):
    request.getfixturevalue(
        "caches_are_small" if has_small_caches else "small_is_large"
    )
    weights, x = some(300, width), some(rows, 300)
    offsets, multipliers, shifts = numbers(width)
    halves = 1 << (shifts - 1)
    columns = [(offsets, "i32"), (multipliers, "i32"), (halves, "i32"), (shifts, "i8")]
    sums = x.astype(np.int64) @ weights.astype(np.int64) + offsets + 7
    high = (sums * multipliers + (1 << 30)) >> 31
    rounded = (high + halves - (high < 0)) >> shifts
    other = some(rows, width)
    added = """
    %oe = arith.extsi %o : i8 to i32
    %v = arith.addi %before_other, %oe : i32"""
    body = ROUNDED_TWICE.replace("%v =", "%before_other =") + added + CLAMPED
    text = requantized(weights, rows, body, columns, start=7, other="i8")
    memory = np.full(rows * width + 128, 90, np.int8)
    compile_for_amx(text)(x, other, out=memory[64:-64].reshape(rows, width))
    expected = np.clip(rounded + other, -100, 127)
    assert np.array_equal(memory[64:-64].reshape(rows, width), expected)
    assert (memory[:64] == 90).all()
    assert (memory[-64:] == 90).all()
    check(tiles)


@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize("shape", [(33, 66), (17, 7)])
def test_nothing_behind_the_bytes_is_read(shape: tuple[int, int], tiles: EmulatedTiles):
    values, weights = some(*shape), some(shape[1], 20)
    start = np.zeros((shape[0], 20), np.int32)
    with before_no_page(values) as x:
        actual = compile_for_amx(product(shape, weights, start.shape))(x, start)
    expected = values.astype(np.int32) @ weights.astype(np.int32)
    assert np.array_equal(actual, expected)
    check(tiles)


@pytest.mark.usefixtures("small_is_large")
def test_threads(tiles: EmulatedTiles, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(byte_products, "_MIN_THREADED_PRODUCTS", 0)
    weights, x, start = some(66, 20), some(50, 66), np.zeros((50, 20), np.int32)
    text = product(x.shape, weights, start.shape)
    actual = compile_for_amx(text, threads=3)(x, start)
    assert np.array_equal(actual, x.astype(np.int32) @ weights.astype(np.int32))
    # Each thread has tiles of its own.
    assert tiles.counts["ldtilecfg"] == 3
    check(tiles)


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "is_by_tiles"),
    [
        (64, 64, 64, True),
        (63, 64, 64, False),
        (1024, 64, 16, True),
        # These would fill no half of the tiles.
        (1 << 16, 20, 16, False),
        (7, 1024, 1024, False),
        (8, 1024, 1024, True),
        (1 << 18, 3, 16, False),
    ],
)
def test_which(rows: int, depth: int, columns: int, is_by_tiles: bool):
    loop = byte_products.Axis(rows, [depth, 4 * columns])
    reductions = [byte_products.Axis(depth, [1])]
    weights = np.ones((depth, columns), np.int8)
    found = byte_products.Product([loop], weights, True, 0, reductions)
    memrefs = [
        byte_products.Memref(f"memref<{rows}x{depth}xi8>", "i8", 0),
        byte_products.Memref(f"memref<{rows}x{columns}xi32>", "i32", 0),
    ]
    text = amx_code.tile_product_text("f", memrefs, found, None)
    assert (text is not None) == is_by_tiles


def tile_instructions(
    text: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """The instructions of AMX that LLVM makes of a module, on any machine."""
    with_tiles = frozenset({*cpu.machine_features(), "amx_tile", "amx_int8"})
    monkeypatch.setattr(cpu, "machine_features", lambda: with_tiles)
    monkeypatch.setenv(VARIABLE, "off")
    codes = compiled_codes(monkeypatch)
    compile_for_amx(text, schedule=True)
    (code,) = codes
    return [
        word
        for line in assembly(path / "code.o", code).splitlines()
        for word in line.split()
        if word.startswith(("tile", "tdp", "ldtile", "sttile"))
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lhs", ["extsi", "extui"])
def test_instructions(lhs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = product((70, 600), some(600, 70), (70, 70), extend=(lhs, "extsi"))
    monkeypatch.undo()
    monkeypatch.setattr(byte_products, "tiles_are_exact", Mock(return_value=True))
    words = tile_instructions(text, tmp_path, monkeypatch)
    assert words.count("ldtilecfg") == words.count("tilerelease") == 1
    assert words[0] == "ldtilecfg"
    assert words[-1] == "tilerelease"
    kind = "tdpbssd" if lhs == "extsi" else "tdpbusd"
    assert {*words[1:-1]} == {"tilezero", "tileloadd", kind, "tilestored"}


# Whether tiles are exact


@pytest.fixture
def by_vectors(monkeypatch: pytest.MonkeyPatch) -> Cpu:
    """Products that would be computed by tiles are computed by vectors."""
    by_tiles = amx_code.tile_product_text

    def text(
        name: str,
        memrefs: Sequence[Memref],
        product: WeightedSum,
        epilogue: Epilogue | None,
    ) -> str:
        assert by_tiles(name, memrefs, product, epilogue)
        return product_text(name, memrefs, product, epilogue, 512)

    monkeypatch.undo()
    monkeypatch.setattr(amx_code, "tile_product_text", text)
    tile_check.tiles_are_exact.cache_clear()
    return available_cpus()["avx512-vnni"]


@needs_vnni
def test_exact_sums(by_vectors: Cpu):
    assert tile_check.tiles_are_exact(by_vectors)


@needs_vnni
def test_wrong_sums(by_vectors: Cpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Sums of bytes with other signs are wrong."""

    def text(
        name: str,
        memrefs: Sequence[Memref],
        product: WeightedSum,
        epilogue: Epilogue | None,
    ) -> str:
        wrong = replace(product, is_signed=not product.is_signed)
        return product_text(name, memrefs, wrong, epilogue, 512)

    monkeypatch.setattr(amx_code, "tile_product_text", text)
    message = "^AMX is disabled: this machine computes wrong sums with its tile "
    with pytest.warns(RuntimeWarning, match=message):
        assert not tile_check.tiles_are_exact(by_vectors)
    tile_check.tiles_are_exact.cache_clear()
    monkeypatch.setattr(byte_products, "tiles_are_exact", Mock(return_value=False))
    words = tile_instructions(
        product((64, 64), some(64, 64), (64, 64)), tmp_path, monkeypatch
    )
    assert words == []


def test_tiles_of_this_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    if "amx" not in available_cpus():
        pytest.skip("needs AMX")
    assert tile_check.tiles_are_exact(available_cpus()["amx"])


@needs_vnni
def test_code_is_for_processes_that_may_use_tiles(
    tiles: EmulatedTiles, monkeypatch: pytest.MonkeyPatch
):
    """Of one machine, some processes may use tiles, and others may not."""
    keys = Mock(return_value=None)
    monkeypatch.setattr(disk_cache, "key_of", keys)
    text = product((64, 64), some(64, 64), (64, 64))
    compile(text, cpu="native", schedule=True)
    with_tiles = keys.call_args
    monkeypatch.undo()
    monkeypatch.setattr(disk_cache, "key_of", keys)
    features = frozenset({*cpu.machine_features()} - {"amx_tile", "amx_int8"})
    monkeypatch.setattr(cpu, "machine_features", lambda: features)
    compile(text, cpu="native", schedule=True)
    without = keys.call_args
    assert with_tiles.args[1:3] == without.args[1:3]
    assert with_tiles != without
