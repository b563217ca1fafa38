"""The casts of types and of modules."""

from __future__ import annotations

import pytest

from xdsl_quant.proving import UnsupportedError, provers
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.loading import IRError, parse_module


def types(source: str) -> list[str]:
    return [str(prover.cast.type) for prover in provers(source)]


def test_types():
    assert types("!quant.uniform<u8<0:100>:f32, 0.5:3>") == [
        "!quant.uniform<u8<0:100>:f32, 5.000000e-01:3>"
    ]
    assert types("tensor<4x3x!quant.uniform<i8:f16:0, {0.5, 0.25:3, 0.5, 0.5:1}>>") == [
        "!quant.uniform<i8:f16, 5.000000e-01>",
        "!quant.uniform<i8:f16, 2.500000e-01:3>",
        "!quant.uniform<i8:f16, 5.000000e-01:1>",
    ]


def test_modules():
    module = parse_module("""
!q = !quant.uniform<i8:f32, 0.5>
!p = !quant.uniform<i4:f32, 0.25:1>
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = quant.qcast %x : tensor<2xf32> to tensor<2x!q>
  %b = quant.qcast %x {quant.nan = "stored-zero"} : tensor<2xf32> to tensor<2x!q>
  %c = quant.dcast %a : tensor<2x!q> to tensor<2xf32>
  %d = quant.qcast %c : tensor<2xf32> to tensor<2x!p>
  %e = quant.dcast %d : tensor<2x!p> to tensor<2xf32>
  return %e : tensor<2xf32>
}
""")
    found = provers(module, Rounding("nearest-away"), fuse=True, seconds=3)
    assert [(str(each.cast.type), each.cast.rounding.nan) for each in found] == [
        ("!quant.uniform<i8:f32, 5.000000e-01>", "storage-min"),
        ("!quant.uniform<i8:f32, 5.000000e-01>", "stored-zero"),
        ("!quant.uniform<i4:f32, 2.500000e-01:1>", "storage-min"),
    ]
    assert {each.cast.rounding.mode for each in found} == {"nearest-away"}
    assert {(each.fuse, each.seconds) for each in found} == {(True, 3)}


def test_mistakes():
    with pytest.raises(UnsupportedError) as none:
        provers(parse_module("func.func private @f()"))
    assert str(none.value) == (
        "the module has no casts to prove; use --after to compare it with the output of "
        "passes"
    )
    with pytest.raises(UnsupportedError) as other:
        provers("!quant.any<i8:f32>")
    assert str(other.value) == (
        "unsupported type '!quant.any<i8:f32>'; expected '!quant.uniform'"
    )
    with pytest.raises(IRError) as rest:
        provers("!quant.uniform<i8:f32, 0.5> f32")
    assert str(rest.value) == (
        "!quant.uniform<i8:f32, 0.5> f32: error: expected one type, found 'f32' after it"
    )
    with pytest.raises(UnsupportedError) as wide:
        next(provers("!quant.uniform<i8:f80, 0.5>")[0].theorems())
    assert (
        str(wide.value)
        == "'f80' is unsupported in proofs, expected an integer, f16, bf16, f32 or f64"
    )
    for scales in ((2.0, 1.0), (0.0, 1.0), (1.0, 1e39), (1.0, float("nan"))):
        with pytest.raises(ValueError, match="invalid range of scales") as none_of_them:
            provers("!quant.uniform<i8:f32, 0.5>", scales=scales)
    assert str(none_of_them.value) == (
        "invalid range of scales of 'f32': 1.0 to nan; expected two ascending numbers from "
        "1.401298464324817e-45 to 3.4028234663852886e+38"
    )
    with pytest.raises(ValueError, match="zero point order"):
        provers("!quant.uniform<i8:f32, 0.5>", Rounding("truncate", "after-rounding"))


@pytest.mark.parametrize(
    ("storage", "name"),
    [
        ("f8E4M3FN", "f8E4M3FN"),
        ("!quant.quantile<i1:f16, {-1.0,1.0}>", "!quant.quantile<i1:f16, ...>"),
    ],
)
def test_storage_that_is_no_integer(storage: str, name: str):
    with pytest.raises(UnsupportedError) as error:
        provers(f"!quant.uniform<{storage}:f32, 0.5>")
    assert str(error.value) == (
        f"unsupported storage type '{name}', expected an integer type"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "%r = quant.dynamic_qcast %x, %s as <i8> : tensor<2xf32>, f32 to tensor<2xi8>",
            "unsupported 'quant.dynamic_qcast' op with dynamic scales; use "
            "'quant-casts-from-dynamic', or prove all scales of a type",
        ),
        (
            "%r = quant.dynamic_dcast %y, %s as <i8> : tensor<2xi8>, f32 to tensor<2xf32>",
            "unsupported 'quant.dynamic_dcast' op with dynamic scales; use "
            "'quant-casts-from-dynamic', or prove all scales of a type",
        ),
        (
            "%r = quant.qcast %x : tensor<2xf32> to "
            "tensor<2x!quant.uniform<f8E4M3FN:f32, 0.5>>",
            "unsupported storage type 'f8E4M3FN', expected an integer type",
        ),
        (
            "%r = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<"
            "!quant.quantile<i1:f16, {-1.0,1.0}>:f32, 0.5>>",
            "unsupported storage type '!quant.quantile<i1:f16, ...>', expected an integer "
            "type",
        ),
        (
            "%r = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.block_scaled<"
            "i4:f32:{0:2}, scales = dense<0.5> : tensor<1xf16>>>",
            "unsupported type '!quant.block_scaled<i4:f32:{0:2}, scales = "
            "dense<5.000000e-01> : tensor<1xf16>>'; expected '!quant.uniform'",
        ),
    ],
)
def test_casts_that_nothing_is_proved_of(line: str, message: str):
    module = parse_module(f"""
func.func @main(%x: tensor<2xf32>, %y: tensor<2xi8>, %s: f32) -> tensor<2xf32> {{
  %q = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 0.5>>
  {line}
  return %x : tensor<2xf32>
}}""")
    with pytest.raises(UnsupportedError) as error:
        provers(module)
    assert str(error.value) == f"module:4:3: error: {message}"
