"""Constant codes that are stored as what few instructions decode."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from xdsl_quant import execution
from xdsl_quant.machines.numpy import run_function

AS_PART_OF_F16 = """
  %code = arith.trunci %byte : i8 to i4
  %wide = arith.extsi %code : i4 to i16
  %nine = arith.constant 9 : i16
  %shifted = arith.shli %wide, %nine : i16
  %mask = arith.constant -29184 : i16
  %bits = arith.andi %shifted, %mask : i16
  %half = arith.bitcast %bits : i16 to f16
  %float = arith.extf %half : f16 to f32
  %power = arith.constant 16384.0 : f32
  %x = arith.mulf %float, %power : f32"""
"""The float that a code of f4E2M1FN stands for."""

AS_INTEGER = """
  %code = arith.trunci %byte : i8 to i4
  %x = arith.sitofp %code : i4 to f32"""


def decoded(
    body: str, codes: list[int], type_: str = "i8", table: list[float] | None = None
) -> str:
    """The function, once constants are decoded."""
    ir: Any = import_module("mlir.ir")
    scheduling: Any = import_module("xdsl_quant.execution.scheduling.constant_codes")
    shape = f"memref<{len(codes)}x{type_}>"
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"""
            memref.global "private" constant @codes : {shape} = dense<{codes}>
            memref.global "private" constant @table : memref<4xf32>
              = dense<{[float(number) for number in table or [0] * 4]}>
            memref.global "private" constant @table_2 : memref<1x4xf32> = dense<1.0>
            memref.global "private" constant @table_f64 : memref<4xf64> = dense<1.0>
            func.func @f(%i: index) -> f32 {{
              %codes = memref.get_global @codes : {shape}
              %byte = memref.load %codes[%i] : {shape}
              {body}
              return %x : f32
            }}""")
        scheduling.decode_constants(module)
        module.operation.verify()
        return str(module)


def test_codes_become_integers():
    printed = decoded(AS_INTEGER, [0, 7, 8, -1])
    assert "@codes_as_integers : memref<4xi8> = dense<[0, 7, -8, -1]>" in printed
    assert "arith.sitofp %2 : i8 to f32" in printed


def test_codes_become_parts_of_f16():
    printed = decoded(AS_PART_OF_F16, [0, 1, 7, 8, 15, 12])
    # 0, 0.5, 6, -0, -6, -2
    assert (
        "@codes_as_halves : memref<6xi8> = dense<[0, 56, 70, -128, -58, -64]>"
        in printed
    )
    assert "arith.extf %" in printed


def test_codes_without_negative_zero_become_integers():
    doubled = AS_PART_OF_F16.replace("16384.0", "32768.0")
    printed = decoded(doubled, [0, 1, 7, 15])
    assert "@codes_as_integers : memref<4xi8> = dense<[0, 1, 12, -12]>" in printed


def test_what_is_used_twice_is_decoded_up_to_that():
    body = AS_INTEGER.replace("%x =", "%y =") + "\n  %x = arith.mulf %y, %y : f32"
    printed = decoded(body, [3])
    assert "@codes_as_integers : memref<1xi8> = dense<3>" in printed


LONG = """
  %y = arith.sitofp %byte : i8 to f32
  %c = arith.constant 0.0703125 : f32
  %x = arith.mulf %y, %c : f32"""


def test_the_last_float_with_an_encoding_is_stored():
    # The products have four bits of mantissa, and are no integers.
    assert "@codes_as_integers : memref<2xi8> = dense<[1, 2]>" in decoded(LONG, [1, 2])


UNSIGNED = """
  %code = arith.trunci %byte : i8 to i4
  %wide = arith.extui %code : i4 to i8
  %x = arith.uitofp %wide : i8 to f32"""


@pytest.mark.parametrize("body", [AS_INTEGER.replace("sitofp", "uitofp"), UNSIGNED])
def test_unsigned_codes_become_integers(body: str):
    printed = decoded(body, [0, 7, 8, -1])
    assert "@codes_as_integers : memref<4xi8> = dense<[0, 7, 8, 15]>" in printed


def test_unsigned_bytes_become_integers():
    printed = decoded("%x = arith.uitofp %byte : i8 to f32", [1, 127])
    assert "@codes_as_integers : memref<2xi8> = dense<[1, 127]>" in printed


LOOKED_UP = """
  %code = arith.trunci %byte : i8 to i2
  %wide = arith.extui %code : i2 to i32
  %index = arith.index_cast %wide : i32 to index
  %table = memref.get_global @table : memref<4xf32>
  %x = memref.load %table[%index] : memref<4xf32>"""


def test_indices_of_a_table_become_integers():
    printed = decoded(LOOKED_UP, [0, 1, 2, 3], table=[5, -7, 100, 0])
    assert "@codes_as_integers : memref<4xi8> = dense<[5, -7, 100, 0]>" in printed


def test_bytes_that_do_not_occur_may_be_no_index():
    body = LOOKED_UP.replace("arith.extui %code : i2", "arith.extsi %byte : i8")
    body = body.replace("%code = arith.trunci %byte : i8 to i2", "")
    printed = decoded(body, [0, 1, 2, 3], table=[5, -7, 100, 0])
    assert "@codes_as_integers : memref<4xi8> = dense<[5, -7, 100, 0]>" in printed


NO_TABLES = {
    "of several dimensions": """
      %zero = arith.constant 0 : index
      %table = memref.get_global @table_2 : memref<1x4xf32>
      %x = memref.load %table[%zero, %index] : memref<1x4xf32>""",
    "that is no constant": """
      %table = memref.alloc() : memref<4xf32>
      %x = memref.load %table[%index] : memref<4xf32>""",
    "of f64": """
      %table = memref.get_global @table_f64 : memref<4xf64>
      %y = memref.load %table[%index] : memref<4xf64>
      %x = arith.truncf %y : f64 to f32""",
    "of integers": """
      %table = memref.get_global @codes : memref<4xi8>
      %y = memref.load %table[%index] : memref<4xi8>
      %x = arith.sitofp %y : i8 to f32""",
}


@pytest.mark.parametrize("name", NO_TABLES)
def test_tables_that_stay(name: str):
    body = LOOKED_UP[: LOOKED_UP.index("  %table")] + NO_TABLES[name]
    printed = decoded(body, [0, 1, 2, 3])
    # What is read from the table of codes is a code itself.
    assert printed.count("_as_integers") == (2 if name == "of integers" else 0)
    assert "memref.load %alloc[%2]" in printed or "memref.load %0[%arg0]" in printed


AS_BF16 = """
  %wide = arith.extui %byte : i8 to i16
  %number = arith.bitcast %wide : i16 to bf16
  %x = arith.extf %number : bf16 to f32"""


def test_all_constants_are_decoded():
    body = """
      %buffer = memref.alloc() : memref<4xi8>
      %other = memref.load %buffer[%i] : memref<4xi8>
      %y = arith.sitofp %other : i8 to f32
      %first = arith.sitofp %byte : i8 to f32
      %byte_2 = memref.load %codes[%i] : memref<1xi8>
      %second = arith.uitofp %byte_2 : i8 to f32
      %x = arith.addf %first, %second : f32"""
    printed = decoded(body, [3])
    assert printed.count("memref.get_global @codes_as_integers") == 2
    # The lower half of the byte is -8, or 8.
    body = body.replace("sitofp %byte : i8", "sitofp %low : i4")
    body = body.replace("uitofp %byte_2 : i8", "uitofp %low_2 : i4")
    body = body.replace(
        "%first =", "%low = arith.trunci %byte : i8 to i4\n      %first ="
    ).replace("%second =", "%low_2 = arith.trunci %byte_2 : i8 to i4\n      %second =")
    printed = decoded(body, [8])
    for name, number in (("", -8), ("_0", 8)):
        constant = f"@codes_as_integers{name} : memref<1xi8> = dense<{number}>"
        assert constant in printed
        assert f"memref.get_global @codes_as_integers{name} :" in printed


def test_others_stay():
    assert "_as_" not in decoded(AS_BF16, [0])
    assert "_as_" not in decoded("%x = arith.uitofp %byte : i8 to f32", [1, -127])
    assert "_as_" not in decoded(LOOKED_UP, [0, 1], table=[0.3, 1, 2, 3])
    assert "_as_" not in decoded("%x = arith.constant 1.0 : f32", [1])


@pytest.mark.parametrize("storage", ["i4", "u4", "i8", "u8", "i5"])
@pytest.mark.parametrize("zero_point", [0, 3])
def test_integers_are_the_same(storage: str, zero_point: int):
    width = int(storage[1:])
    codes = (np.arange(64) % (1 << width)).astype(np.uint8)
    _check(f"!quant.uniform<{storage}:f32, 0.37:{zero_point}>", f"i{width}", codes)


@pytest.mark.parametrize("storage", ["f4E2M1FN", "f8E5M2", "f8E4M3FN"])
def test_floats_are_the_same(storage: str):
    codes = np.arange(16 if storage == "f4E2M1FN" else 256).astype(np.uint8)
    _check(f"!quant.uniform<{storage}:f32, 0.37>", storage, codes)


def _check(type_: str, stored: str, codes: np.ndarray[Any, Any]) -> None:
    shape = f"{codes.size}x"
    text = f"""
        func.func @f(%x: tensor<{shape}f32>) -> tensor<{shape}f32> {{
          %c = arith.constant dense<"0x{codes.tobytes().hex()}"> : tensor<{shape}{stored}>
          %q = quant.scast %c : tensor<{shape}{stored}> to tensor<{shape}{type_}>
          %w = quant.dcast %q : tensor<{shape}{type_}> to tensor<{shape}f32>
          %y = arith.mulf %w, %x : tensor<{shape}f32>
          return %y : tensor<{shape}f32>
        }}"""
    x = np.linspace(-3, 5, codes.size, dtype=np.float32)
    (expected,) = run_function(text, "f", x)
    found = execution.compile(text)(x)
    is_nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), is_nan)
    np.testing.assert_array_equal(
        found[~is_nan].view(np.int32), expected[~is_nan].view(np.int32)
    )
