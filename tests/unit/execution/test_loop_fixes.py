"""Loops that LLVM would make wrong vectors of."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.numerics.small_floats import small_float

ROWS = 4
GUARD = 64
"""Elements before and behind a result."""


def rescale_of_rows(channels: int, storage: str) -> str:
    """
    A function that rescales each row with a multiplier and a shift for each channel. Its
    result has more bytes than its argument, so that vectors have 256 bits.
    """
    numbers = range(channels)
    multipliers = [1_073_741_824 + 7 * i for i in numbers]
    offsets = [3 * i for i in numbers]
    shifts = [i % 5 for i in numbers]
    halves = [(1 << shift) >> 1 for shift in shifts]
    result = f"tensor<{ROWS}x{channels}x{storage}>"
    return f"""
#row = affine_map<(d0, d1) -> (d0)>
#channel = affine_map<(d0, d1) -> (d1)>
#all = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%rows: tensor<{ROWS}xi32>) -> {result} {{
  %offsets = arith.constant dense<{offsets}> : tensor<{channels}xi16>
  %multipliers = arith.constant dense<{multipliers}> : tensor<{channels}xi32>
  %shifts = arith.constant dense<{shifts}> : tensor<{channels}xi8>
  %halves = arith.constant dense<{halves}> : tensor<{channels}xi8>
  %half = arith.constant 1073741824 : i64
  %c31 = arith.constant 31 : i64
  %zero = arith.constant 0 : i32
  %least = arith.constant -31 : i32
  %most = arith.constant 127 : i32
  %empty = tensor.empty() : {result}
  %result = linalg.generic {{
      indexing_maps = [#row, #channel, #channel, #channel, #channel, #all],
      iterator_types = ["parallel", "parallel"]}}
      ins(%rows, %offsets, %multipliers, %shifts, %halves
          : tensor<{ROWS}xi32>, tensor<{channels}xi16>, tensor<{channels}xi32>,
            tensor<{channels}xi8>, tensor<{channels}xi8>)
      outs(%empty : {result}) {{
  ^bb0(%x: i32, %narrow_offset: i16, %multiplier: i32, %narrow_shift: i8,
       %narrow_half: i8, %out: {storage}):
    %offset = arith.extsi %narrow_offset : i16 to i32
    %sum = arith.addi %x, %offset : i32
    %wide_sum = arith.extsi %sum : i32 to i64
    %wide_multiplier = arith.extsi %multiplier : i32 to i64
    %product = arith.muli %wide_sum, %wide_multiplier : i64
    %nudged = arith.addi %product, %half : i64
    %wide = arith.shrsi %nudged, %c31 : i64
    %high = arith.trunci %wide : i64 to i32
    %added = arith.extsi %narrow_half : i8 to i32
    %is_negative = arith.cmpi slt, %high, %zero : i32
    %one = arith.extui %is_negative : i1 to i32
    %up = arith.addi %high, %added : i32
    %rounded = arith.subi %up, %one : i32
    %shift = arith.extsi %narrow_shift : i8 to i32
    %shifted = arith.shrsi %rounded, %shift : i32
    %moved = arith.addi %shifted, %least : i32
    %above = arith.maxsi %moved, %least : i32
    %clamped = arith.minsi %above, %most : i32
    %stored = arith.trunci %clamped : i32 to {storage}
    linalg.yield %stored : {storage}
  }} -> {result}
  return %result : {result}
}}"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("storage", ["i8", "i16"])
@pytest.mark.parametrize("channels", [3, 5, 7, 8, 9, 11, 13, 15, 17])
def test_nothing_is_written_behind_a_result(channels: int, storage: str):
    function = compile(rescale_of_rows(channels, storage))
    size = ROWS * channels
    memory = np.full(GUARD + size + GUARD, 0x5A, storage.replace("i", "int"))
    rows = np.arange(ROWS, dtype=np.int32)
    function(rows, out=memory[GUARD:-GUARD].reshape(ROWS, channels))
    assert (memory[:GUARD] == 0x5A).all()
    assert (memory[-GUARD:] == 0x5A).all()
    numbers = np.arange(channels)
    sums = rows[:, None].astype(np.int64) + 3 * numbers
    products = (sums * (1_073_741_824 + 7 * numbers) + 1_073_741_824) >> 31
    shifts = numbers % 5
    rounded = (products + ((1 << shifts) >> 1) - (products < 0)) >> shifts
    expected = np.clip(rounded - 31, -31, 127)
    np.testing.assert_array_equal(
        memory[GUARD:-GUARD].reshape(ROWS, channels), expected
    )


@pytest.mark.parametrize("narrowing", [True, False])
def test_short_odd_loops_that_narrow_have_no_vectors(narrowing: bool):
    ir: Any = import_module("mlir.ir")
    loop_fixes: Any = import_module("xdsl_quant.execution.loop_fixes")
    value = "%n" if narrowing else "%c"
    counts = range(1, 20)
    loops = "".join(
        f"""
          %end{count} = arith.constant {2 * count} : index
          scf.for %i = %zero to %end{count} step %two {{
            {"%n = arith.trunci %wide : i32 to i8" if narrowing else ""}
            memref.store {value}, %to[%i] : memref<?xi8>
          }}"""
        for count in counts
    )
    text = f"""
        func.func @f(%to: memref<?xi8>, %wide: i32, %c: i8) {{
          %zero = arith.constant 0 : index
          %two = arith.constant 2 : index
          {loops}
          return
        }}"""
    with ir.Context():
        module = ir.Module.parse(text)
        loop_fixes.disable_unsafe_vectorization(module)
        body = module.body.operations[0].regions[0].blocks[0]
        loops_made = [op for op in body.operations if op.operation.name == "scf.for"]
        annotated = [
            count
            for count, op in zip(counts, loops_made, strict=True)
            if "loop_annotation" in op.attributes
        ]
    assert annotated == ([3, 5, 7, 9, 11, 13, 15] if narrowing else [])


@pytest.mark.parametrize("width", [65, 72, 96, 128, 200])
def test_wide_integers_in_memory(width: int):
    wide = f"tensor<512xi{width}>"
    text = f"""
func.func @f(%x: tensor<512xi32>) -> (tensor<512xi32>, tensor<512xi32>) {{
  %wide = arith.extsi %x : tensor<512xi32> to {wide}
  %e = tensor.empty() : {wide}
  %r = linalg.generic {{indexing_maps = [
      affine_map<(i) -> (511 - i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}} ins(%wide : {wide}) outs(%e : {wide}) {{
  ^bb0(%y: i{width}, %o: i{width}):
    linalg.yield %y : i{width}
  }} -> {wide}
  %s = linalg.generic {{indexing_maps = [
      affine_map<(i) -> (511 - i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}} ins(%r : {wide}) outs(%e : {wide}) {{
  ^bb0(%y: i{width}, %o: i{width}):
    %z = arith.addi %y, %y : i{width}
    linalg.yield %z : i{width}
  }} -> {wide}
  %once = arith.trunci %r : {wide} to tensor<512xi32>
  %twice = arith.trunci %s : {wide} to tensor<512xi32>
  return %once, %twice : tensor<512xi32>, tensor<512xi32>
}}"""
    if width == 128:
        x = np.arange(512, dtype=np.int32)
        once, twice = compile(text)(x)
        assert once.tolist() == x[::-1].tolist()
        assert twice.tolist() == (2 * x).tolist()
        return
    with pytest.raises(CompilationError, match=f"integers of {width} bits in memory"):
        compile(text)


@pytest.mark.parametrize("name", ["f4E2M1FN", "f6E2M3FN", "f6E3M2FN"])
def test_narrow_floats_are_bytes_in_memory(name: str):
    """LLVM makes no vectors of loads and stores of 4 or 6 bits."""
    ir: Any = import_module("mlir.ir")
    loop_fixes: Any = import_module("xdsl_quant.execution.loop_fixes")
    text = f"""
        memref.global "private" constant @few : memref<3x{name}> = dense<[0.5, -2.0, 1.5]>
        memref.global "private" constant @same : memref<3x{name}> = dense<-2.0>
        func.func @f(%from: memref<?x{name}>, %to: memref<?x{name}>, %i: index) {{
          %x = memref.load %from[%i] : memref<?x{name}>
          %y = arith.negf %x : {name}
          memref.store %y, %to[%i] : memref<?x{name}>
          return
        }}"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        loop_fixes.store_whole_bytes(module)
        printed = str(module)
    width = small_float(name).bits
    few, same = (small_float(name).encode(x).tolist() for x in ([0.5, -2, 1.5], -2.0))
    assert f"memref<3xi8> = dense<{few}>" in printed
    assert f"memref<3xi8> = dense<{same}>" in printed
    assert f"x{name}>" not in printed
    for line in (
        "memref.load %arg0[%arg2] : memref<?xi8>",
        f"arith.trunci %0 : i8 to i{width}",
        f"arith.bitcast %1 : i{width} to {name}",
        f"arith.bitcast %3 : {name} to i{width}",
        f"arith.extui %4 : i{width} to i8",
        "memref.store %5, %arg1[%arg2] : memref<?xi8>",
    ):
        assert line in printed


def lookup(
    type_: str = "f32", mask: int = 3, narrowed: str = "i4", size: int = 4
) -> str:
    """An element of a table that the lowest bits of a byte are the index of."""
    numbers = [0.5 * i for i in range(size)]
    return f"""
        memref.global "private" constant @few : memref<{size}x{type_}> = dense<{numbers}>
        func.func @f(%codes: memref<?xi8>, %i: index) -> {type_} {{
          %table = memref.get_global @few : memref<{size}x{type_}>
          %mask = arith.constant {mask} : i32
          %byte = memref.load %codes[%i] : memref<?xi8>
          %code = arith.trunci %byte : i8 to {narrowed}
          %wide = arith.extsi %code : {narrowed} to i32
          %masked = arith.andi %wide, %mask : i32
          %index = arith.index_cast %masked : i32 to index
          %x = memref.load %table[%index] : memref<{size}x{type_}>
          return %x : {type_}
        }}"""


def looked_up(text: str) -> str:
    """The function, once bytes are looked up."""
    ir: Any = import_module("mlir.ir")
    selections: Any = import_module("xdsl_quant.execution.scheduling.constant_codes")
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        selections.look_up_whole_bytes(module)
        return str(module)


@pytest.mark.parametrize("type_", ["f16", "f32", "f64"])
def test_whole_bytes_are_looked_up(type_: str):
    printed = looked_up(lookup(type_))
    data = np.tile([0, 0.5, 1, 1.5], 64).astype(f"<f{int(type_[1:]) // 8}").tobytes()
    numbers = f'"0x{data.hex().upper()}"'
    assert f"@few_of_bytes : memref<256x{type_}> = dense<{numbers}>" in printed
    for line in (
        f"%6 = memref.get_global @few_of_bytes : memref<256x{type_}>",
        "%7 = arith.index_castui %1 : i8 to index",
        f"%8 = memref.load %6[%7] : memref<256x{type_}>",
    ):
        assert line in printed


@pytest.mark.parametrize(
    "text",
    [
        lookup("bf16"),
        lookup(mask=1),
        lookup(mask=2, size=3),
        lookup(mask=4, size=5),
        lookup(mask=31, size=32),
        lookup().replace("x?i8", "x?i16").replace("i8", "i16"),
    ],
)
def test_other_lookups_stay(text: str):
    assert "_of_bytes" not in looked_up(text)


@pytest.mark.parametrize("count", [1, 5, 300])
@pytest.mark.parametrize("name", ["i4", "f4E2M1FN", "f6E2M3FN", "f8E4M3FN"])
def test_constants_of_narrow_numbers(name: str, count: int):
    rng = np.random.default_rng(count)
    numbers = rng.choice(
        [0, 0.5, -1.5, 2, -6, 3] if name[0] == "f" else range(-8, 8), count
    )
    type_ = f"tensor<{count}x{name}>"
    text = f"""
        func.func @f(%i: tensor<{count}xindex>) -> {type_} {{
          %c = arith.constant dense<{numbers.tolist()}> : {type_}
          %e = tensor.empty() : {type_}
          %r = linalg.generic {{
              indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
              iterator_types = ["parallel"]}}
              ins(%i : tensor<{count}xindex>) outs(%e : {type_}) {{
            ^bb0(%k: index, %o: {name}):
              %x = tensor.extract %c[%k] : {type_}
              linalg.yield %x : {name}
          }} -> {type_}
          return %r : {type_}
        }}"""
    order = rng.permutation(count)
    found = np.asarray(compile(text)(order))
    np.testing.assert_array_equal(found.astype(np.float64), numbers[order])
