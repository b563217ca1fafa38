"""The ops of the quant dialect that simulate quantization or only watch values."""

from typing import get_args

import numpy as np
import pytest
from xdsl.utils.exceptions import InterpretationError

from xdsl_quant import execution
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.rounding_mode import RoundingMode, ZeroPointOrder
from xdsl_quant.transforms.statistics.quant_convert_simulated_quantization import (
    QuantConvertSimulatedQuantizationPass,
)

from .running import FLOAT_DTYPES, parse, run_body, same_bits


@pytest.mark.parametrize(
    "op",
    [
        "quant.stats %a0 <-1.0:1.0>",
        'quant.stats_ref %a0 "key"',
        'quant.coupled_ref %a0 "key"',
    ],
)
@pytest.mark.parametrize("type_", ["f32", "tensor<?xf32>"])
def test_identities(op: str, type_: str):
    x = np.array([np.nan, -0.0, 1e9], np.float32) if "?" in type_ else np.float32(1e9)
    (result,) = run_body(f"%r0 = {op} : {type_}", type_, (x, type_))
    assert same_bits(result, x)


FAKE_QUANT = (
    "const_fake_quant %x <-1.0:2.0> bits 8",
    "const_fake_quant %x <-1.0:2.0> bits 4 signed",
    "const_fake_quant %x <0.0:6.0> bits 3 signed narrow",
    "const_fake_quant %x <-1.0:1.0> bits 16 narrow",
    # MLIR takes this range for that of zeros.
    "const_fake_quant %x <-1.0e-17:1.0e-17> bits 8 signed",
    "const_fake_quant_per_axis %x axis 1 [<-1.0:1.0>, <0.0:2.0>, <-3.0:-1.0>] bits 5",
)


@pytest.mark.sampled(11)
@pytest.mark.parametrize("element_type", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("rounding_mode", get_args(RoundingMode))
@pytest.mark.parametrize("op", FAKE_QUANT)
def test_fake_quantization(op: str, rounding_mode: RoundingMode, element_type: str):
    """It is what the casts of the pass compute."""
    type_ = f"tensor<?x3x{element_type}>"
    text = f"""
func.func @f(%x: {type_}) -> {type_} {{
  %y = quant.{op} : {type_}
  return %y : {type_}
}}"""
    x = np.linspace(-7, 7, 300).reshape(-1, 3).astype(FLOAT_DTYPES[element_type])
    ctx, module = parse(text)
    (result,) = run_function(module, "f", x, rounding_mode=rounding_mode)
    QuantConvertSimulatedQuantizationPass(exact_bits=True).apply(ctx, module)
    (expected,) = run_function(module, "f", x, rounding_mode=rounding_mode)
    assert same_bits(result, expected)
    assert not same_bits(result, x)


def test_zero_point_order_of_fake_quantization():
    # Scale 0.5, and zero point 3, which is odd.
    type_ = "tensor<?xf32>"
    text = f"""
func.func @f(%x: {type_}) -> {type_} {{
  %y = quant.const_fake_quant %x <-1.5:2.0> bits 3 : {type_}
  return %y : {type_}
}}"""
    x = np.array([-0.75, -0.25, 0.25, 0.75, 1.25, 99], np.float32)
    results: dict[ZeroPointOrder, list[float]] = {
        "before-rounding": [-0.5, -0.5, 0.5, 0.5, 1.5, 2.0],
        "after-rounding": [-1.0, 0.0, 0.0, 1.0, 1.0, 2.0],
    }
    for order, expected in results.items():
        (result,) = run_function(text, "f", x, zero_point_order=order)
        assert result.tolist() == expected
        compiled = execution.compile(text, zero_point_order=order)
        assert compiled(x).tolist() == expected


def test_number_of_bits():
    type_ = "tensor<?xf32>"
    body = f"%r0 = quant.const_fake_quant %a0 <0.0:3.0> bits 2 : {type_}"
    x = np.array([-1, 0.4, 0.6, 1.5, 2.4, 99], np.float32)
    (result,) = run_body(body, type_, (x, type_))
    assert result.tolist() == [0, 0, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (
            "<1.0:-1.0> bits 8",
            "'quant.const_fake_quant' op cannot be converted: range 1.0 to -1.0 is "
            "reversed",
        ),
        ("<-1.0:1.0> bits 33", "unsupported FakeQuant number of bits: 33"),
    ],
)
def test_impossible_fake_quantization(op: str, message: str):
    body = f"%r0 = quant.const_fake_quant %a0 {op} : f32"
    with pytest.raises(InterpretationError, match=message):
        run_body(body, "f32", (1.0, "f32"))
