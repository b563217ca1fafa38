"""The targets of this package say what ops take, and ops what TensorFlow Lite says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from math import frexp
from typing import Any, cast

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, i8, i16
from xdsl.irdl import IRDLOperation

from examples.digits.networks import load_networks
from examples.digits.pipeline import load_module
from examples.digits.propagation import LOWER
from tests.unit.frontends.tflite.dialect.element_kinds import elements_of
from tests.unit.frontends.tflite.dialect.texts import SAMPLES
from xdsl_quant.dialects.quant import AnyQuantizedType
from xdsl_quant.dialects.quant.regions import RegionOp
from xdsl_quant.dialects.quant.traits import (
    AccumulatorUniformScale,
    AffineOpCoefficient,
    FixedResultUniformScale,
    SameOperandsAndResultsScale,
    TraitT,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.stablehlo.dialect import StableHLO
from xdsl_quant.frontends.tflite.dialect import TFL
from xdsl_quant.frontends.tflite.dialect.tensor_kinds import ElementKind
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import (
    apply_passes,
    multiverse_context,
    parse_module,
)
from xdsl_quant.transforms.propagation.quant_fuse_kernels import fuse_kernels
from xdsl_quant.transforms.propagation.quant_inline_regions import inline_regions
from xdsl_quant.transforms.propagation.target_extensions import target_extensions
from xdsl_quant.transforms.propagation.target_files import read_target
from xdsl_quant.transforms.propagation.target_spec import OpPattern, Port

OPS = {op.name: op for op in (*TFL.operations, *StableHLO.operations)}
SHIPPED = (
    "mac-array",
    "stablehlo-int16x8",
    "stablehlo-int8",
    "stablehlo-mixed",
    "tflite-int16x8",
    "tflite-int8",
    "tflite-mixed",
)


def test_all_are_shipped():
    assert {*SHIPPED} <= {*target_extensions().targets}


# Files against dialects


def op_names(target: str) -> Iterator[str]:
    for kernel in read_target(target).kernels.values():
        for pattern in kernel.patterns:
            # Functions match any ops.
            for step in pattern.steps if isinstance(pattern, OpPattern) else ():
                yield from re.findall(r"[\w.]+", " ".join(step.names))


@pytest.mark.parametrize("target", SHIPPED)
def test_ops_exist(target: str):
    ctx = multiverse_context()
    assert [
        name for name in op_names(target) if ctx.get_optional_op(name) is None
    ] == []
    assert read_target(target).description


ANY_TYPE = {"tfl.expand_dims", "tfl.reshape", "tfl.squeeze"}
"""Ops that take every type."""

BYTES = {"tfl.elu"}
"""Ops that are declared with plain integers, and take quantized ones."""


VARIADIC = {"tfl.concatenation", "tfl.pack"}
VARIADIC_RESULTS = {"tfl.split", "tfl.split_v", "tfl.unpack"}


def assert_accepted(
    name: str, definitions: Sequence[tuple[str, Any]], ports: Sequence[Port]
) -> None:
    """The op can have what ports store, and has no more quantized values than these."""
    for definition, port in zip_longest(definitions, ports):
        if definition is None:
            # Moves share a signature, whose ports at the end may be absent.
            assert port.storage is None
            continue
        kinds = elements_of(definition[1].constr)
        if port is None or port.storage is None:
            assert ElementKind.QI8 not in kinds, (name, kinds)
            continue
        width = port.storage.storage_type_integral_width
        # Quantized biases are declared with plain integers.
        names = {"QI32", "i32"} if width == 32 else {f"QI{width}"}
        assert any(kind.name in names for kind in kinds), (name, port.text, kinds)


@pytest.mark.parametrize("target", ["tflite-int8", "tflite-int16x8", "tflite-mixed"])
def test_ops_take_what_ports_store(target: str):
    for name, kernel in read_target(target).kernels.items():
        if name in ANY_TYPE | BYTES:
            continue
        definition = cast(type[IRDLOperation], OPS[name]).get_irdl_definition()
        for signature in kernel.signatures:
            assert_accepted(name, definition.operands, signature.inputs)
            assert_accepted(name, definition.results, signature.outputs)
            assert signature.is_variadic == (name in VARIADIC)
            assert signature.has_variadic_results == (name in VARIADIC_RESULTS)
            # What holds is said by the op alone.
            assert signature.constraints is None


@pytest.mark.parametrize("target", ["tflite-int8", "tflite-int16x8", "tflite-mixed"])
def test_each_kernel_is_made_of_float_ops(target: str):
    spec = read_target(target)
    formed: set[str] = set()
    for sample in SAMPLES:
        types = str((sample.operands, sample.results))
        if f"tfl.{sample.name}" not in spec.kernels or "quant" in types:
            continue
        if "f32" not in str(sample.operands):
            continue
        module = parse_module(sample.text())
        fuse_kernels(module, spec)
        module.verify()
        formed |= {op.kernel for op in module.walk() if isinstance(op, RegionOp)}
    assert formed == {*spec.kernels}


CALIBRATED = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<8xf32> {
  %xs = quant.stats %x <-1.0:1.0> : tensor<2x3xf32>
  %w = stablehlo.constant dense<0.5> : tensor<3x4xf32>
  %b = stablehlo.constant dense<1.5> : tensor<4xf32>
  %bb = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<2x4xf32>
  %0 = stablehlo.dot_general %xs, %w, contracting_dims = [1] x [0]
    : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = stablehlo.add %0, %bb : tensor<2x4xf32>
  %2 = stablehlo.maximum %1, %zero : tensor<2x4xf32>
  %3 = quant.stats %2 <0.0:3.0> : tensor<2x4xf32>
  %4 = stablehlo.reshape %3 : (tensor<2x4xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}
"""


@pytest.mark.parametrize("target", ["stablehlo-int8", "stablehlo-mixed", "mac-array"])
def test_from_statistics_to_integers(target: str):
    module = parse_module(CALIBRATED)
    apply_passes(
        module,
        f"quant-fuse-kernels{{target={target}}},quant-constraints-to-specs,"
        f"quant-propagate{{target={target}}},quant-export",
    )
    types = {
        op.name: {str(scalar_or_element_type(value.type)) for value in op.results}
        for op in module.walk()
        if op.name.startswith("stablehlo.")
    }
    assert types.pop("stablehlo.uniform_dequantize") == {"f32"}
    assert all(
        each.startswith("!quant.uniform") for group in types.values() for each in group
    )
    if target == "mac-array":
        scales = [float(text) for text in re.findall(r"f32, ([^:>]*)", str(module))]
        assert {frexp(scale)[0] for scale in scales} == {0.5}
        assert not re.search(r"f32, [^:>]*:", str(module))


SQUARE, IMAGE = "tensor<4x4xf32>", "tensor<1x1x4x4xf32>"

PRODUCTS_OF_ACTIVATIONS = {
    "stablehlo.dot_general": (
        "stablehlo-mixed",
        SQUARE,
        f"""stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : ({SQUARE}, {SQUARE}) -> {SQUARE}""",
    ),
    "stablehlo.convolution": (
        "stablehlo-mixed",
        IMAGE,
        f"""stablehlo.convolution(%a, %b)
    dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{}}
    {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : ({IMAGE}, {IMAGE}) -> {IMAGE}""",
    ),
    "tfl.fully_connected": (
        "tflite-mixed",
        SQUARE,
        f""""tfl.fully_connected"(%a, %b, %n) <{{keep_num_dims = true,
    fused_activation_function = "NONE", weights_format = "DEFAULT"}}>
    : ({SQUARE}, {SQUARE}, none) -> {SQUARE}""",
    ),
}


@pytest.mark.parametrize("name", PRODUCTS_OF_ACTIVATIONS)
def test_products_of_two_activations_have_8_bits(name: str):
    """Narrow signatures are those of constant weights."""
    target, type_, op = PRODUCTS_OF_ACTIVATIONS[name]
    module = parse_module(f"""
func.func @main(%x: {type_}, %y: {type_}) -> {type_} {{
  %a = quant.stats %x <-1.0:1.0> : {type_}
  %b = quant.stats %y <-1.0:1.0> : {type_}
  %n = "tfl.no_value"() {{value}} : () -> none
  %c = {op}
  %d = quant.stats %c <-4.0:4.0> : {type_}
  return %d : {type_}
}}
""")
    apply_passes(
        module,
        f"quant-fuse-kernels{{target={target}}},quant-constraints-to-specs,"
        f"quant-propagate{{target={target}}}",
    )
    (kernel,) = (op for op in module.walk() if isinstance(op, RegionOp))
    assert kernel.kernel == name
    assert str(kernel.input_specs.data[1]).startswith("!quant.uniform<i8<-127:127>:f32")


CONVOLUTIONS = """
func.func @main(%x: tensor<1x4x4x2xf32>) -> tensor<1x2x2x3xf32> {
  %xs = quant.stats %x <-1.0:1.0> : tensor<1x4x4x2xf32>
  %w = stablehlo.constant dense<[[[[0.5, -0.25, 0.75], [0.75, 0.125, -0.75]],
    [[-0.5, 0.25, 0.5], [0.125, 1.0, -0.625]]]]> : tensor<1x2x2x3xf32>
  %b = stablehlo.constant dense<[0.5, -0.25, 0.125]> : tensor<3xf32>
  %bb = stablehlo.broadcast_in_dim %b, dims = [3]
    : (tensor<3xf32>) -> tensor<1x4x2x3xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<1x4x2x3xf32>
  %0 = stablehlo.convolution(%xs, %w)
    dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 2]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x4x4x2xf32>, tensor<1x2x2x3xf32>) -> tensor<1x4x2x3xf32>
  %1 = stablehlo.add %0, %bb : tensor<1x4x2x3xf32>
  %2 = stablehlo.maximum %1, %zero : tensor<1x4x2x3xf32>
  %3 = quant.stats %2 <0.0:3.0> : tensor<1x4x2x3xf32>
  %v = stablehlo.constant dense<[[[[0.5, -0.25, 1.0], [0.75, 0.125, -1.0],
    [0.5, 0.0, 0.25]]]]> : tensor<1x1x3x3xf32>
  %4 = stablehlo.convolution(%3, %v)
    dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x4x2x3xf32>, tensor<1x1x3x3xf32>) -> tensor<1x4x2x3xf32>
  %5 = stablehlo.add %4, %bb : tensor<1x4x2x3xf32>
  %6 = quant.stats %5 <-4.0:4.0> : tensor<1x4x2x3xf32>
  %7 = stablehlo.convolution(%6, %v)
    dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x4x2x3xf32>, tensor<1x1x3x3xf32>) -> tensor<1x2x2x3xf32>
  %8 = quant.stats %7 <-4.0:4.0> : tensor<1x2x2x3xf32>
  return %8 : tensor<1x2x2x3xf32>
}
"""


def test_convolutions_of_the_accelerator():
    """Fused, propagated, exported both ways, and executed."""
    module = parse_module(CONVOLUTIONS)
    x = np.random.default_rng(0).uniform(-1, 1, (1, 4, 4, 2)).astype(np.float32)
    floats = module.clone()
    apply_passes(floats, "convert-stablehlo-to-linalg")
    (expected,) = run_function(floats, "main", x)
    apply_passes(module, "quant-fuse-kernels{target=mac-array}")
    assert [op.kernel for op in module.walk() if isinstance(op, RegionOp)] == [
        "constant",
        "mac_bias_relu_stablehlo",
        "mac_bias_stablehlo",
        "mac_stablehlo",
    ]
    apply_passes(module, "quant-constraints-to-specs,quant-propagate{target=mac-array}")
    results: list[np.ndarray] = []
    for mode in ("fixed", "codegen"):
        exported = module.clone()
        apply_passes(exported, f"quant-export{{mode={mode} fully-quantized=true}}")
        apply_passes(exported, LOWER)
        (result,) = run_function(exported, "main", x)
        assert np.abs(result - expected).max() < 0.1
        results.append(result)
    assert np.array_equal(results[0], results[1])
    # Multiples of the scale of the result, 1 / 16
    assert np.array_equal(results[0] * 16, np.round(results[0] * 16))


# Traits against the converter of TensorFlow Lite


def trait(name: str, trait_type: type[TraitT]) -> TraitT | None:
    return quantization_trait(OPS[f"tfl.{name}"].create(), trait_type)


SAME_SCALE = """
    average_pool_2d batch_to_space_nd broadcast_to concatenation depth_to_space
    dynamic_update_slice expand_dims fill gather gather_nd max_pool_2d maximum minimum
    mirror_pad pack pad padv2 reduce_max reduce_min reshape resize_bilinear
    resize_nearest_neighbor select select_v2 slice space_to_batch_nd space_to_depth split
    split_v squeeze strided_slice tile topk_v2 transpose unpack
"""
"""Ops whose operands and results the converter gives one scale."""

SAME_SCALE_IN_KERNELS = "reverse_v2"
"""
Ops whose kernels do not rescale, though the converter gives operands and results scales of
their own.
"""


def test_same_scale():
    same = {
        name.removeprefix("tfl.")
        for name in OPS
        if name.startswith("tfl.")
        and trait(name.removeprefix("tfl."), SameOperandsAndResultsScale)
    }
    assert same == {*SAME_SCALE.split(), SAME_SCALE_IN_KERNELS}


FIXED = {
    "l2_normalization": {8: (2**-7, 0), 16: (2**-15, 0)},
    "log_softmax": {8: (2**-4, 127)},
    # The converter has 2**-16 and -32768 for 16 bits, which the kernel refuses.
    "logistic": {8: (2**-8, -128), 16: (2**-15, 0)},
    "softmax": {8: (2**-8, -128), 16: (2**-15, 0)},
    "tanh": {8: (2**-7, 0), 16: (2**-15, 0)},
}
"""Scales and zero points of results, by the number of bits."""


def test_fixed_results():
    fixed = {
        name.removeprefix("tfl.")
        for name in OPS
        if name.startswith("tfl.")
        and trait(name.removeprefix("tfl."), FixedResultUniformScale)
    }
    assert fixed == {*FIXED}
    for name, widths in FIXED.items():
        result = trait(name, FixedResultUniformScale)
        assert result is not None
        for width, parameters in widths.items():
            storage = AnyQuantizedType({8: i8, 16: i16}[width])
            assert result.parameters(storage) == parameters
    softmax = trait("softmax", FixedResultUniformScale)
    log_softmax = trait("log_softmax", FixedResultUniformScale)
    assert softmax is not None
    assert log_softmax is not None
    unsigned = AnyQuantizedType(i8, is_signed=False)
    assert softmax.parameters(unsigned) == (2**-8, 0)
    assert log_softmax.parameters(unsigned) == (2**-4, 255)


def test_products():
    for name, dimension, bias, factors in (
        ("conv_2d", 0, 2, (0, 1)),
        ("depthwise_conv_2d", 3, 2, (0, 1)),
        ("fully_connected", 0, 2, (0, 1)),
        ("transpose_conv", 0, 3, (1, 2)),
    ):
        coefficient = trait(name, AffineOpCoefficient)
        assert coefficient is not None
        assert (coefficient.operand, coefficient.dimension) == (1, dimension)
        accumulator = AccumulatorUniformScale(bias, factors)
        assert trait(name, AccumulatorUniformScale) == accumulator
    # The converter says dimension -1: there is one scale.
    assert trait("prelu", AffineOpCoefficient) == AffineOpCoefficient(1, None)
    assert trait("batch_matmul", AffineOpCoefficient) is None


def test_kernels_of_the_digits_networks():
    kernels = {
        name: [
            op.kernel
            for op in fused(load_module(network)).walk()
            if isinstance(op, RegionOp)
        ]
        for name, network in load_networks().items()
    }
    assert kernels == {
        "mlp": ["mac_bias_relu", "mac_bias_relu", "mac_bias"],
        "convolution": ["mac_bias_relu", "mac_bias_relu", "reshape", "mac_bias"],
    }


def fused(module: ModuleOp) -> ModuleOp:
    original = str(module)
    fuse_kernels(module, read_target("mac-array"))
    module.verify()
    copy = module.clone()
    inline_regions([op for op in copy.walk() if isinstance(op, RegionOp)])
    assert str(copy) == original
    return module
