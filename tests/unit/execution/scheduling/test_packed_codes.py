"""Constant codes, two in a byte, that loops over lanes decode by selections."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from tests.cpus.foreign_code import foreign_code
from xdsl_quant import execution
from xdsl_quant.execution.cpu import available_cpus
from xdsl_quant.numerics.formats import FORMATS
from xdsl_quant.numerics.formats.format_types import block_scaled_type
from xdsl_quant.runtime.loading import apply_passes, parse_module

CODES = np.arange(64) % 16 - 8
"""What the constant of `packed` has in its only row."""

SUM = """
  %old = memref.load %y[%lane] : memref<64xf32>
  %new = arith.addf %old, %number : f32
  memref.store %new, %y[%lane] : memref<64xf32>"""


MORE = """
  %factor: f32, %bytes: memref<64xi8>, %integers: memref<64xi32>,
  %halves: memref<64xbf16>, %square: memref<64x64xf32>, %single: memref<f32>,
  %every_second: memref<64xf32, strided<[2]>>"""
"""The other arguments of the function."""


def packed(
    body: str,
    codes: np.ndarray[Any, Any] = CODES,
    lanes: str = "0 to 32",
    loop: str = "%lane = %start to %stop",
) -> str:
    """The function, once constants are packed."""
    ir: Any = import_module("mlir.ir")
    scheduling: Any = import_module("xdsl_quant.execution.scheduling.packed_codes")
    start, _, stop = lanes.split()
    shape = f"memref<{codes.size}xi8>"
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"""
            memref.global "private" constant @codes : {shape} = dense<{codes.tolist()}>
            func.func @f(%x: memref<64xf32>, %y: memref<64xf32>, %any: index, {MORE}) {{
              %zero = arith.constant 0 : index
              %four = arith.constant 4 : index
              %start = arith.constant {start} : index
              %stop = arith.constant {stop} : index
              %one = arith.constant 1 : index
              %size = arith.constant 32 : index
              %minus_one = arith.constant -1 : index
              %half = arith.constant 16 : index
              %codes = memref.get_global @codes : {shape}
              scf.for {loop} step %one {{
                {body}
              }}
              return
            }}""")
        scheduling.pack_constants(module)
        module.operation.verify()
        return str(module)


def decoded(index: str = "lane") -> str:
    """Ops that read a number."""
    return f"""
      %byte = memref.load %codes[%{index}] : memref<64xi8>
      %number = arith.sitofp %byte : i8 to f32"""


IN_BLOCK = """
  %before = arith.muli %any, %size : index
  %i = arith.addi %before, %lane : index"""


def bytes_of(printed: str) -> np.ndarray[Any, Any]:
    """The packed constant."""
    _, _, text = printed.partition("@codes_packed : memref<32xi8> = dense<")
    numbers = text.partition(">")[0].strip("[]").split(", ")
    return np.array([int(number) for number in numbers]).astype(np.uint8)


def test_a_byte_has_the_codes_of_two_lanes_that_are_16_apart():
    printed = packed(decoded() + SUM)
    assert "scf.for" not in printed
    # As bits, 0 is the first of the numbers, and -8 the last.
    numbers = sorted(range(-8, 8), key=lambda n: np.float32(n).view(np.int32))
    low = np.array([numbers.index(n) for n in range(-8, 8)])
    np.testing.assert_array_equal(bytes_of(printed), np.resize(low * 17, 32))
    assert printed.count("vector.load") == 2 + 2
    assert printed.count("llvm.x86.avx512.permvar.sf.512") == 2
    assert "arith.shrui" in printed


def test_a_constant_that_is_decoded_in_two_ways():
    unsigned = """
      %byte = memref.load %codes[%lane] : memref<64xi8>
      %code = arith.trunci %byte : i8 to i4
      %number = arith.uitofp %code : i4 to f32"""
    loops = "".join(
        f"scf.for %lane = %start to %stop step %one {{ {body + SUM} }}\n"
        for body in (decoded(), unsigned)
    )
    printed = packed(loops, loop="%outer = %zero to %four")
    assert printed.count("scf.for") == 1
    for name in ("codes_packed", "codes_packed_0"):
        assert printed.count(f"memref.get_global @{name} :") == 2


@pytest.mark.parametrize("lanes", ["0 to 32", "0 to 64", "32 to 64"])
def test_all_lanes_are_stored(lanes: str):
    printed = packed(decoded() + SUM, lanes=lanes)
    start, _, stop = lanes.split()
    assert printed.count("vector.store") == (int(stop) - int(start)) // 16
    assert "scf.for" not in printed


def test_lanes_of_a_block():
    printed = packed(IN_BLOCK + decoded("i") + SUM)
    assert "scf.for" not in printed
    # The 16 bytes of a block of 32 lanes are read from 16 times its number on.
    assert "arith.muli %arg2, %c16" in printed


DIVIDED = """
  %is_negative = arith.cmpi slt, %lane, %start : index
  %opposite = arith.subi %minus_one, %lane : index
  %positive = arith.select %is_negative, %opposite, %lane : index
  %quotient = arith.divsi %positive, %half : index
  %opposite_quotient = arith.subi %minus_one, %quotient : index
  %part = arith.select %is_negative, %opposite_quotient, %quotient : index
  %scale = memref.load %x[%part] : memref<64xf32>
  %scaled = arith.mulf %number, %scale : f32"""
"""A scale for each 16 lanes, as MLIR divides."""


def test_scales_of_16_lanes():
    printed = packed(decoded() + DIVIDED + SUM.replace("%number", "%scaled"))
    assert "scf.for" not in printed
    reads = [line for line in printed.splitlines() if "= memref.load %arg0" in line]
    assert len(reads) == 2
    assert printed.count("vector.broadcast") == 2
    assert "arith.divsi" not in printed


GROUPS = """
  %group_size = arith.constant SIZE : index
  %before = arith.muli %block, %size : index
  %i = arith.addi %before, %lane : index
  %group = arith.divsi %i, %group_size : index
  %scale = memref.load %x[%group] : memref<64xf32>"""
"""A scale for each group of elements."""


def grouped(size: int) -> str:
    """The loop over lanes in one over four blocks, after constants are packed."""
    scaled = "\n  %scaled = arith.mulf %number, %scale : f32"
    body = f"""
      scf.for %lane = %start to %stop step %one {{
        {GROUPS.replace("SIZE", str(size)) + decoded("i").replace("64xi8", "128xi8")}
        {scaled + SUM.replace("%number", "%scaled")}
      }}"""
    return packed(body, np.resize(CODES, 128), loop="%block = %zero to %four")


@pytest.mark.parametrize("size", [64, 96])
def test_groups_of_several_blocks(size: int):
    printed = grouped(size)
    assert printed.count("scf.for") == 1
    # 32 times the number of the block, by the size of a group.
    assert f"arith.constant {size // 32} : index" in printed
    assert "arith.divui" in printed


def test_groups_of_parts_of_blocks():
    printed = grouped(16)
    assert printed.count("scf.for") == 1
    assert "arith.divui" not in printed


def test_a_group_of_what_is_carried():
    """What a loop carries is not counted from 0 on."""
    carried = f"""
      %last = scf.for %n = %zero to %four step %one
          iter_args(%block = %minus_one) -> (index) {{
        scf.for %lane = %start to %stop step %one {{
          {GROUPS.replace("SIZE", "64") + decoded("i")}
          %scaled = arith.mulf %number, %scale : f32
          {SUM.replace("%number", "%scaled")}
        }}
        %next = arith.addi %block, %any : index
        scf.yield %next : index
      }}"""
    assert packed(carried, loop="%outer = %zero to %four").count("scf.for") == 3


def test_a_number_that_is_used_again_and_again():
    squares = "\n".join(f"%n{i + 1} = arith.mulf %n{i}, %n{i} : f32" for i in range(50))
    body = decoded().replace("%number", "%n0") + squares
    printed = packed(body + SUM.replace("%number", "%n50"))
    assert printed.count("arith.mulf") == 100


def test_a_group_that_ends_in_a_block_is_left_to_llvm():
    assert grouped(48).count("scf.for") == 2


SUPPORTED = {
    "a number": "%other = arith.addf %factor, %factor : f32",
    "bytes": """
      %integer = memref.load %bytes[%lane] : memref<64xi8>
      %other = arith.sitofp %integer : i8 to f32""",
    "integers": """
      %integer = memref.load %integers[%lane] : memref<64xi32>
      %other = arith.sitofp %integer : i32 to f32""",
    "a row": "%other = memref.load %square[%any, %lane] : memref<64x64xf32>",
}
"""What numbers may be multiplied by."""

UNSUPPORTED = {
    "integers of other widths": """
      %byte_2 = memref.load %bytes[%lane] : memref<64xi8>
      %integer = arith.trunci %byte_2 : i8 to i4
      %other = arith.sitofp %integer : i4 to f32""",
    "other floats": """
      %half_2 = memref.load %halves[%lane] : memref<64xbf16>
      %other = arith.extf %half_2 : bf16 to f32""",
    "a column": "%other = memref.load %square[%lane, %any] : memref<64x64xf32>",
    "a diagonal": "%other = memref.load %square[%lane, %lane] : memref<64x64xf32>",
    "an element without an index": "%other = memref.load %single[] : memref<f32>",
    "elements with gaps": """
      %other = memref.load %every_second[%lane] : memref<64xf32, strided<[2]>>""",
    "elements after one that is read": """
      %first = memref.load %integers[%lane] : memref<64xi32>
      %first_index = arith.index_cast %first : i32 to index
      %next = arith.addi %first_index, %lane : index
      %other = memref.load %x[%next] : memref<64xf32>""",
}


@pytest.mark.parametrize("name", SUPPORTED)
def test_what_numbers_are_multiplied_by(name: str):
    assert "scf.for" not in packed(multiplied(SUPPORTED[name]))


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_numbers_are_multiplied_by_otherwise(name: str):
    assert "scf.for" in packed(multiplied(UNSUPPORTED[name]))


def multiplied(other: str) -> str:
    """The sum of numbers times others."""
    product = "\n%product = arith.mulf %number, %other : f32"
    return decoded() + "\n" + other + product + SUM.replace("%number", "%product")


UNPACKED = {
    "more than 16 numbers": (decoded() + SUM, np.arange(64) % 17, "0 to 32"),
    "half a pair of vectors": (decoded() + SUM, CODES, "0 to 16"),
    "a part of a vector": (decoded() + SUM, CODES, "0 to 40"),
    "too many lanes": (decoded() + SUM, np.resize(CODES, 160), "0 to 160"),
    "lanes from the middle of a vector on": (decoded() + SUM, CODES, "8 to 40"),
    "blocks of another size": (
        IN_BLOCK.replace("%size", "%half") + decoded("i") + SUM,
        CODES,
        "0 to 32",
    ),
    "lanes in another order": (
        "%back = arith.muli %lane, %minus_one : index"
        + "%i = arith.addi %size, %back : index"
        + decoded("i")
        + SUM,
        CODES,
        "0 to 32",
    ),
    "every second lane": (
        "%i = arith.addi %lane, %lane : index" + decoded("i") + SUM,
        CODES,
        "0 to 32",
    ),
    "an element that another lane stores": (
        decoded() + SUM.replace("load %y[%lane]", "load %y[%any]"),
        CODES,
        "0 to 32",
    ),
    "an element that a lane before stores": (
        decoded()
        + "\n%next = arith.addi %lane, %one : index"
        + SUM.replace("store %new, %y[%lane]", "store %new, %y[%next]"),
        CODES,
        "0 to 32",
    ),
    "two stores": (
        decoded() + SUM + "\nmemref.store %number, %x[%lane] : memref<64xf32>",
        CODES,
        "0 to 32",
    ),
    "one element for all": (
        decoded() + "\nmemref.store %number, %y[%any] : memref<64xf32>",
        CODES,
        "0 to 32",
    ),
    "an index that lanes read": (
        decoded()
        + "\n%k = memref.load %codes[%lane] : memref<64xi8>"
        + "\n%l = arith.index_cast %k : i8 to index"
        + SUM.replace("load %y[%lane]", "load %y[%l]"),
        CODES,
        "0 to 32",
    ),
    "an op without vectors": (
        decoded() + "\n%e = math.exp %number : f32" + SUM.replace("%number", "%e"),
        CODES,
        "0 to 32",
    ),
    "a group of what may be negative": (
        GROUPS.replace("SIZE", "64").replace("%block", "%any")
        + decoded("i")
        + "\n%scaled = arith.mulf %number, %scale : f32"
        + SUM.replace("%number", "%scaled"),
        CODES,
        "0 to 32",
    ),
    "an assertion": (
        decoded()
        + "\n%is_right = arith.cmpi eq, %any, %lane : index"
        + '\ncf.assert %is_right, "wrong"'
        + SUM,
        CODES,
        "0 to 32",
    ),
    "a copy": (
        decoded() + SUM + "\nmemref.copy %x, %y : memref<64xf32> to memref<64xf32>",
        CODES,
        "0 to 32",
    ),
    "no constant": (
        "%number = memref.load %x[%lane] : memref<64xf32>" + SUM,
        CODES,
        "0 to 32",
    ),
}


@pytest.mark.parametrize("name", UNPACKED)
def test_other_loops_stay(name: str):
    body, codes, lanes = UNPACKED[name]
    body = body.replace("memref<64xi8>", f"memref<{codes.size}xi8>")
    body = body.replace("memref<64xf32>", f"memref<{max(codes.size, 64)}xf32>")
    body = body.replace(f"memref<{codes.size}xf32>", "memref<64xf32>")
    printed = packed(body, codes, lanes)
    assert "scf.for" in printed
    assert "permvar" not in printed


# Executed


def product(name: str, rows: int, columns: int, lanes: int) -> Any:
    """A module that multiplies constant weights in a named format with a vector."""
    weights = np.random.default_rng(3).normal(size=(rows, columns)).astype(np.float32)
    stored = FORMATS[name].quantize(weights)
    type_ = block_scaled_type(stored)
    numbers = f"tensor<{rows}x{columns}x{type_.stored_type}>"
    codes = f"tensor<{rows}x{columns}x{type_}>"
    types = f"tensor<{rows}x{columns}xf32>, tensor<{columns}xf32>"
    data = (stored.codes.view(np.uint8) & 15).tobytes().hex()
    module = parse_module(f"""
        func.func @main(%x: tensor<{columns}xf32>) -> tensor<{rows}xf32> {{
          %c = arith.constant dense<"0x{data}"> : {numbers}
          %q = quant.scast %c : {numbers} to {codes}
          %w = quant.dcast %q : {codes} to tensor<{rows}x{columns}xf32>
          %y = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0]
            : ({types}) -> tensor<{rows}xf32>
          return %y : tensor<{rows}xf32>
        }}""")
    passes = f"convert-stablehlo-to-linalg,quant-split-reductions{{lanes={lanes}}}"
    apply_passes(module, passes)
    return module


@pytest.mark.parametrize("name", ["MXFP4", "NVFP4", "NF4", "Q4_0", "Q4_K", "GPTQ"])
def test_products_are_packed(name: str, monkeypatch: pytest.MonkeyPatch):
    schedule: Any = import_module("xdsl_quant.execution.scheduling.schedule")
    printed: list[str] = []
    pack = schedule.pack_constants

    def spy(module: Any) -> None:
        pack(module)
        printed.append(str(module))

    monkeypatch.setattr(schedule, "pack_constants", spy)
    # Of what the cache has, nothing is packed.
    monkeypatch.setenv("XDSL_QUANT_CACHE", "off")
    with foreign_code():
        execution.compile(product(name, 3, 768, 32), cpu="avx512")
    assert [text.count("permvar") for text in printed] == [2]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "columns", "lanes"),
    [
        ("MXFP4", 96, 32),
        ("NVFP4", 128, 32),
        ("NF4", 128, 64),
        ("Q4_0", 96, 32),
        ("Q4_0", 256, 64),
        ("Q4_0", 256, 16),
        ("Q4_1", 96, 32),
        ("Q4_K", 512, 32),
        ("Q2_K", 512, 32),
        ("GPTQ", 256, 128),
    ],
)
def test_products_are_the_same(name: str, columns: int, lanes: int):
    module = product(name, 5, columns, lanes)
    x = np.random.default_rng(4).normal(size=columns).astype(np.float32)
    expected = execution.compile(module, schedule=False)(x)
    for cpu in available_cpus().values():
        found = execution.compile(module, cpu=cpu.name)(x)
        np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))
