"""The quant dialect as it is, and lowered."""

from typing import get_args

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import InterpretationError

from xdsl_quant.dialects.quant import uniform_type
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import QuantizationParameters, dequantize, quantize
from xdsl_quant.rounding_mode import RoundingMode
from xdsl_quant.transforms.quant.lower_quant_ops import LowerQuantOpsPass

from .running import FLOAT_DTYPES, parse, run_body, same_bits

PER_LAYER = QuantizationParameters(0.1, 3, storage="i8")
NARROW = QuantizationParameters(0.25, 5, storage="u8", storage_min=2, storage_max=200)
FOUR_BITS = QuantizationParameters(0.3, -1, storage="i4", expressed="bf16")
UNSIGNED_FOUR_BITS = QuantizationParameters(0.5, 8, storage="u4", expressed="f16")
ONE_BIT = QuantizationParameters(0.5, storage="i1")
WIDE = QuantizationParameters(1e-3, 70000, storage="u32", expressed="f64")
PER_AXIS = QuantizationParameters([0.1, 0.2, 1 / 3], [0, 7, -3], quantized_dimension=1)
SUB_CHANNEL = QuantizationParameters(
    [[0.1, 0.2], [1 / 3, 2.0]], [[0, 7], [-3, 9]], block_sizes={0: 2, 1: 3}
)

CASES = (
    (PER_LAYER, (4, 6)),
    (NARROW, (4, 6)),
    (FOUR_BITS, (4, 6)),
    (UNSIGNED_FOUR_BITS, (4, 6)),
    (ONE_BIT, (4, 6)),
    (WIDE, (4, 6)),
    (PER_AXIS, (5, 3)),
    (SUB_CHANNEL, (4, 6)),
    (PER_LAYER, ()),
    (NARROW, None),
)
"""Parameters and the shape of a tensor, `None` for a scalar."""


def shapes(
    parameters: QuantizationParameters, shape: tuple[int, ...] | None
) -> list[str]:
    """The containers of a cast: `{}` stands for the element type."""
    if shape is None:
        return ["{}"]
    static = "".join(f"{size}x" for size in shape)
    dynamic = "?x" * len(shape)
    return [f"tensor<{s}{{}}>" for s in dict.fromkeys((static, dynamic, "*x"))]


def module_text(parameters: QuantizationParameters, container: str) -> str:
    quantized = container.format(uniform_type(parameters))
    expressed = container.format(parameters.expressed)
    stored = container.format(f"i{parameters.storage_width}")
    return f"""
func.func @quantize(%x: {expressed}) -> {quantized} {{
  %q = quant.qcast %x : {expressed} to {quantized}
  return %q : {quantized}
}}
func.func @dequantize(%q: {quantized}) -> {expressed} {{
  %x = quant.dcast %q : {quantized} to {expressed}
  return %x : {expressed}
}}
func.func @storage(%q: {quantized}) -> {stored} {{
  %s = quant.scast %q : {quantized} to {stored}
  return %s : {stored}
}}
func.func @from_storage(%s: {stored}) -> {quantized} {{
  %q = quant.scast %s : {stored} to {quantized}
  return %q : {quantized}
}}"""


def lowered(text: str, rounding_mode: RoundingMode, fuse: bool) -> ModuleOp:
    ctx, module = parse(text)
    LowerQuantOpsPass(rounding_mode, fuse).apply(ctx, module)
    module.verify()
    return module


@pytest.mark.sampled(8)
@pytest.mark.parametrize("rounding_mode", get_args(RoundingMode))
@pytest.mark.parametrize(("parameters", "shape"), CASES)
def test_unlowered_and_lowered(
    parameters: QuantizationParameters,
    shape: tuple[int, ...] | None,
    rounding_mode: RoundingMode,
):
    random = np.random.default_rng(0)
    low, high = parameters.storage_min, parameters.storage_max
    stored = random.integers(low, high, shape, endpoint=True)
    zero_point = int(parameters.zero_points.flat[0])
    scale = float(parameters.scales.flat[0])
    offset = random.choice([-0.5, -0.25, 0.0, 0.3, 0.5], shape)
    if rounding_mode == "truncate":
        # MLIR's lowering does not define what is out of range.
        stored, offset = stored // 2, np.abs(offset)
    values = np.asarray((stored - zero_point + offset) * scale)
    values = values.astype(FLOAT_DTYPES[parameters.expressed])
    if rounding_mode != "truncate" and values.size > 3:
        values.flat[:4] = [np.nan, np.inf, -np.inf, 6e4]
    expected = quantize(values, parameters, rounding_mode=rounding_mode)
    back = dequantize(expected, parameters, rounding_mode=rounding_mode)
    for container in shapes(parameters, shape):
        text = module_text(parameters, container)
        modules = [
            parse(text)[1],
            *(lowered(text, rounding_mode, f) for f in (False, True)),
        ]
        for module in modules:
            (result,) = run_function(
                module, "quantize", values, rounding_mode=rounding_mode
            )
            assert same_bits(result, expected), container
            (result,) = run_function(
                module, "dequantize", expected, rounding_mode=rounding_mode
            )
            assert same_bits(result, back), container
            (result,) = run_function(module, "storage", expected)
            (result,) = run_function(module, "from_storage", result)
            assert same_bits(result, expected), container


@pytest.mark.parametrize(
    ("storage", "stored", "signless"),
    [
        ("u8", [200, 3], np.array([-56, 3], np.int8)),
        ("i8", [-56, 3], np.array([-56, 3], np.int8)),
        ("u4", [15, 7, 8], np.array([-1, 7, -8], np.int8)),
        ("i4", [-1, 7, -8], np.array([-1, 7, -8], np.int8)),
        ("u1", [1, 0], np.array([True, False])),
        ("i1", [-1, 0], np.array([True, False])),
        ("u16", [65535], np.array([-1], np.int16)),
        ("u24", [2**24 - 1], np.array([-1], np.int32)),
    ],
)
def test_storage_cast(storage: str, stored: list[int], signless: np.ndarray):
    parameters = QuantizationParameters(1.0, storage=storage)
    quantized = f"tensor<?x{uniform_type(parameters)}>"
    plain = f"tensor<?xi{parameters.storage_width}>"
    values = np.array(stored, parameters.storage_dtype)
    (result,) = run_body(
        f"%r0 = quant.scast %a0 : {quantized} to {plain}", plain, (values, quantized)
    )
    assert same_bits(result, signless)
    (result,) = run_body(
        f"%r0 = quant.scast %a0 : {plain} to {quantized}", quantized, (signless, plain)
    )
    assert same_bits(result, values)


def test_casts_in_the_body_of_a_generic():
    text = """
func.func @f(%x: tensor<?xf32>, %e: tensor<?xi8>) -> tensor<?xi8> {
  %all = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : tensor<?xf32>) outs(%e : tensor<?xi8>) {
  ^bb0(%v: f32, %out: i8):
    %q = quant.qcast %v : f32 to !quant.uniform<i8:f32, 0.1:3>
    %s = quant.scast %q : !quant.uniform<i8:f32, 0.1:3> to i8
    linalg.yield %s : i8
  } -> tensor<?xi8>
  return %all : tensor<?xi8>
}"""
    x = np.linspace(-20, 20, 1001, dtype=np.float32)
    (result,) = run_function(parse(text)[1], "f", x, np.zeros(1001, np.int8))
    assert same_bits(result, quantize(x, PER_LAYER))


def test_channels_that_do_not_fit():
    quantized = f"tensor<?x?x{uniform_type(PER_AXIS)}>"
    body = f"%r0 = quant.qcast %a0 : tensor<?x?xf32> to {quantized}"
    x = np.zeros((5, 4), np.float32)
    with pytest.raises(
        InterpretationError, match=r"^'quant.qcast' op cannot be computed: .*4"
    ):
        run_body(body, quantized, (x, "tensor<?x?xf32>"))


def test_runtime_check():
    text = module_text(PER_AXIS, "tensor<?x?x{}>")
    ctx, module = parse(text)
    LowerQuantOpsPass("nearest-even", runtime_checks=True).apply(ctx, module)
    (result,) = run_function(module, "quantize", np.ones((5, 3), np.float32))
    assert same_bits(result, quantize(np.ones((5, 3), np.float32), PER_AXIS))
    message = (
        r"^'cf.assert' op failed: size of dimension 1 must be 3: the number of scales$"
    )
    with pytest.raises(InterpretationError, match=message):
        run_function(module, "quantize", np.ones((5, 4), np.float32))


def test_type_without_a_scale():
    quantized = "tensor<2x!quant.any<i8:f32>>"
    body = f"%r0 = quant.qcast %a0 : tensor<2xf32> to {quantized}"
    with pytest.raises(
        InterpretationError, match=r"^'quant.qcast' op cannot be computed: "
    ):
        run_body(body, quantized, (np.zeros(2, np.float32), "tensor<2xf32>"))
