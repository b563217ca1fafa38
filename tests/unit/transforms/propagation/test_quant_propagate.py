"""Constraints become parameters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerType,
    ModuleOp,
    SymbolRefAttr,
    f16,
    f32,
    i8,
    i32,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import TypeAttribute
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    NoQuantizedType,
    RegionOp,
    UniformQuantizedPerAxisType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.traits import (
    AccumulatorUniformScale,
    AffineOpCoefficient,
    FixedResultUniformScale,
    SameOperandsAndResultsScale,
    has_quantization_trait,
)
from xdsl_quant.dialects.quant.types import UniformType
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.propagation.quant_fuse_kernels import fuse_kernels
from xdsl_quant.transforms.propagation.quant_propagate import (
    Propagation,
    QuantPropagatePass,
    propagate,
)
from xdsl_quant.transforms.propagation.target_files import parse_target, read_target
from xdsl_quant.transforms.propagation.target_spec import (
    Constraint,
    KernelSpec,
    MultiplierUniformScale,
    Port,
    PowerOfTwoScale,
    Signature,
    Specs,
    TargetSpec,
)

from ...counting import calls
from .programs import random_program

I8 = Port(AnyQuantizedType(i8))
I32 = Port(AnyQuantizedType(i32), zero_point=0)
TFLITE = read_target("tflite-int8")

T = "tensor<4xf32>"
UNIT = "!quant.calibrated<f32<-1.0:1.0>>"
HALF = "!quant.uniform<i8:f32, 5.000000e-01>"
QUARTER = "!quant.uniform<i8:f32, 2.500000e-01>"


def kernel(
    name: str, inputs: Sequence[tuple[str, str | None]], result: str, spec: str | None
) -> str:
    """A kernel around an op with the name of the kernel."""
    op = name if "." in name else "test.op"
    ports = ", ".join(
        f"%p{i} = %{value} : {T}{'' if s is None else f' as {s}'}"
        for i, (value, s) in enumerate(inputs)
    )
    names = ", ".join(f"%p{i}" for i in range(len(inputs)))
    types = ", ".join([T] * len(inputs))
    attributes = ' {fused_activation_function = "NONE"}' if op == "tfl.add" else ""
    output = T if spec is None else f"{T} as {spec}"
    return (
        f'%{result} = quant.region "{name}" ({ports}) -> ({output}) {{\n'
        f'  %r = "{op}"({names}){attributes} : ({types}) -> {T}\n'
        f"  quant.return %r : {T}\n}}\n"
    )


def range_of(low: float, high: float) -> str:
    return f"!quant.calibrated<f32<{low}:{high}>>"


FOUR, POSITIVE = range_of(-4.0, 4.0), range_of(0.0, 4.0)


def function(*lines: str, name: str = "main", result: str = "y") -> str:
    body = "".join(lines)
    return (
        f"func.func @{name}(%x: {T}, %z: {T}) -> {T} {{\n{body}"
        f"  func.return %{result} : {T}\n}}\n"
    )


def parsed(text: str) -> ModuleOp:
    return parse_module(text)


def specs(module: ModuleOp) -> Sequence[Sequence[str]]:
    return [
        [str(spec) for spec in op.specs]
        for op in module.walk()
        if isinstance(op, RegionOp)
    ]


def functions(module: ModuleOp) -> Sequence[FuncOp]:
    return [op for op in module.body.block.ops if isinstance(op, FuncOp)]


def target(**kernels: tuple[Sequence[Port], Sequence[Constraint]]) -> TargetSpec:
    return TargetSpec(
        "toy",
        {
            name: KernelSpec(name, [Signature(inputs, [I8], constraints=constraints)])
            for name, (inputs, constraints) in kernels.items()
        },
    )


def test_a_fixed_type_stays_and_its_user_is_rescaled():
    module = parsed(
        function(
            kernel("tfl.relu", [("x", UNIT)], "a", HALF),
            kernel("tfl.relu", [("a", QUARTER)], "y", None),
        )
    )
    report = propagate(module, TFLITE)
    assert specs(module) == [
        ["!quant.uniform<i8:f32, 0.0078431372549019607:-1>", HALF],
        [QUARTER, "f32"],
    ]
    ((value, rescale),) = report.rescales
    assert (value.name, value.parameters) == ("%a", HALF)
    assert (rescale.kernel, rescale.operand) == ("tfl.relu", 0)
    assert rescale.parameters == QUARTER
    assert [v.name for v in report.float_values] == ["%y"]
    assert report.float_values[0].float_reason == (
        "no statistics, and no constraint sets its parameters"
    )


def test_a_second_run_changes_nothing():
    module = parsed(
        function(
            kernel("tfl.tanh", [("x", UNIT)], "a", None),
            kernel("tfl.maximum", [("a", None), ("z", HALF)], "b", None),
            kernel("tfl.maximum", [("a", None), ("x", None)], "y", None),
        )
    )
    propagate(module, TFLITE)
    text = str(module)
    report = propagate(module, TFLITE)
    assert str(module) == text
    assert {v.decided_by for v in report.values} == {"specification"}


def test_a_value_that_another_user_decides_decides_its_users():
    module = parsed(
        function(
            kernel("tfl.maximum", [("x", None), ("x", None)], "y", None),
            kernel("tfl.maximum", [("x", None), ("z", None)], "b", HALF),
        )
    )
    propagate(module, TFLITE)
    assert specs(module) == [[HALF] * 3, [HALF] * 3]


def test_none_keeps_a_value_and_its_kernels():
    module = parsed(
        function(
            kernel("tfl.tanh", [("x", UNIT)], "a", None),
            kernel("tfl.tanh", [("a", "!quant.none<f32>")], "y", None),
        )
    )
    before = specs(module)
    report = propagate(module, TFLITE)
    assert specs(module) == before
    assert [k.float_reason for k in report.float_kernels] == [
        "no signature of kernel 'tfl.tanh' accepts result 0 as '!quant.none<f32>'",
        "no signature of kernel 'tfl.tanh' accepts operand 0 as '!quant.none<f32>'",
    ]
    assert report.values[1].float_reason == "kept by '!quant.none<f32>'"


def test_least_width_chooses_the_signature():
    wide = Port(AnyQuantizedType(IntegerType(16)))
    toy = TargetSpec(
        "toy",
        {
            "op": KernelSpec(
                "op",
                [
                    Signature([I8], [I8], constraints=[]),
                    Signature([wide], [wide], constraints=[]),
                ],
            )
        },
    )
    module = parsed(
        function(
            kernel("op", [("x", UNIT)], "a", None),
            kernel("op", [("a", UNIT)], "y", "!quant.any<i16:f32>"),
        )
    )
    propagate(module, toy)
    ((x, a), (b, y)) = specs(module)
    assert x.startswith("!quant.uniform<i8:")
    assert a.startswith("!quant.uniform<i8:")
    assert b.startswith("!quant.uniform<i16:")
    assert y == "!quant.any<i16:f32>"


def test_only_constants_are_at_constant_ports():
    four = AnyQuantizedType(IntegerType(4))
    narrow = Signature([I8, Port(four, is_constant=True)], [I8], constraints=[])
    wide = Signature([I8, I8], [I8], constraints=[])
    move = KernelSpec("move", [Signature([I8], [I8], constraints=[])])
    text = function(
        CONSTANT,
        kernel("op", [("x", UNIT), ("z", UNIT)], "a", UNIT),
        kernel("op", [("a", None), ("c", None)], "b", UNIT),
        kernel("move", [("c", None)], "m", FOUR),
        kernel("op", [("b", None), ("m", None)], "y", UNIT),
    )
    toy = TargetSpec("toy", {"op": KernelSpec("op", [narrow, wide]), "move": move})
    module = parsed(text)
    propagate(module, toy)
    of_arguments, of_constant, _, of_kernel = specs(module)
    assert of_arguments[1].startswith("!quant.uniform<i8:")
    assert of_constant[1].startswith("!quant.uniform<i4:")
    assert of_kernel[1].startswith("!quant.uniform<i4:")
    toy = TargetSpec("toy", {"op": KernelSpec("op", [narrow]), "move": move})
    first, *_ = propagate(parsed(text), toy).float_kernels
    assert first.float_reason == (
        "no signature of kernel 'op' accepts non-constant operands"
    )


def test_kernel_that_the_target_lacks():
    module = parsed(function(kernel("other", [("x", UNIT)], "y", None)))
    report = propagate(module, TFLITE)
    assert specs(module) == [
        [UNIT.replace("-1.0:1.0", "-1.000000e+00:1.000000e+00"), "f32"]
    ]
    reason = "target 'tflite-int8' has no kernel 'other'"
    assert report.float_kernels[0].float_reason == reason
    assert [value.float_reason for value in report.values] == [reason, reason]


def test_kernel_that_the_target_knows_by_name():
    text = '[[kernels]]\nname = "gated"\ninputs = ["i8", "i8"]\noutputs = ["i8"]\n'
    module = parsed(function(kernel("gated", [("x", HALF), ("z", QUARTER)], "y", HALF)))
    before = specs(module)
    assert not propagate(module, parse_target(text)).float_kernels
    assert specs(module) == before
    module = parsed(function(kernel("gated", [("x", HALF), ("z", QUARTER)], "y", None)))
    # The constraints are those of the file, or of the traits of the ops.
    propagate(module, parse_target(f'{text}constraints = ["multiplier-scale"]'))
    assert specs(module) == [[HALF, QUARTER, "!quant.uniform<i8:f32, 1.250000e-01>"]]


# Constraints

CONSTANT = "%c = arith.constant dense<[1.0, -2.0, 3.0, 4.0]> : tensor<4xf32>\n"


def test_product_and_bias():
    toy = target(
        product=(
            [I8, I8, I32],
            [
                AffineOpCoefficient(1),
                AccumulatorUniformScale(2),
                MultiplierUniformScale(),
            ],
        )
    )
    module = parsed(
        function(
            CONSTANT,
            kernel("product", [("x", HALF), ("c", None), ("c", None)], "y", None),
        )
    )
    report = propagate(module, toy)
    weight, bias = f"{4 / 127:.17g}", f"{4 / 127 * 0.5:.17g}"
    assert specs(module) == [
        [
            HALF,
            f"!quant.uniform<i8<-127:127>:f32, {weight}>",
            f"!quant.uniform<i32:f32, {bias}>",
            f"!quant.uniform<i8:f32, {bias}>",
        ]
    ]
    # The constant has two sets of parameters.
    names = [op.name for op in module.walk()]
    assert names.count("arith.constant") == 2
    assert [v.decided_by for v in report.values] == [
        "specification",
        "weight of product",
        "bias of product",
        "product of product",
    ]


def test_powers_of_two():
    toy = target(
        op=([I8], [PowerOfTwoScale(), SameOperandsAndResultsScale()]),
        other=([I8], []),
    )
    module = parsed(
        function(
            kernel("op", [("x", UNIT)], "a", None),
            kernel("other", [("z", None)], "b", "!quant.uniform<i8:f32, 0.3>"),
            kernel("op", [("b", None)], "y", None),
        )
    )
    propagate(module, toy)
    ((x, a), (_, b), (used, y)) = specs(module)
    assert x == a == "!quant.uniform<i8:f32, 1.562500e-02:63>"
    assert b == "!quant.uniform<i8:f32, 3.000000e-01>"
    assert used == y == HALF


def doubled(inputs: Specs, outputs: Specs) -> tuple[Sequence[int], Sequence[int]]:
    """The scale of the result is twice that of the operand."""
    if not isinstance(source := inputs[0], UniformQuantizedType):
        return (), ()
    outputs[0] = UniformQuantizedType(i8, f32, 2 * source.scale.data)
    return (), (0,)


def test_constraint_in_python():
    module = parsed(
        function(
            kernel("op", [("x", None)], "a", None),
            kernel("op", [("a", QUARTER)], "b", None),
            kernel("op", [("b", None)], "y", None),
        )
    )
    report = propagate(module, target(op=([I8], [doubled])))
    assert specs(module) == [
        ["f32", QUARTER],
        [QUARTER, HALF],
        [HALF, "!quant.uniform<i8:f32, 1.000000e+00>"],
    ]
    assert report.values[-1].decided_by == "doubled of op"
    text = str(module)
    propagate(module, target(op=([I8], [doubled])))
    assert str(module) == text


def no_type(inputs: Specs, outputs: Specs) -> tuple[Sequence[int], Sequence[int]]:
    return (), (0,)


def no_port(inputs: Specs, outputs: Specs) -> tuple[Sequence[int], Sequence[int]]:
    return (3,), ()


def no_ports(inputs: Specs, outputs: Specs) -> Any:
    return None


def no_indices(inputs: Specs, outputs: Specs) -> Any:
    return "a", [0.5]


def one_more(inputs: Specs, outputs: Specs) -> tuple[Sequence[int], Sequence[int]]:
    inputs.append(UniformQuantizedType(i8, f32, 0.5))
    return (1,), ()


def fails(inputs: Specs, outputs: Specs) -> Any:
    return 1 // len(inputs[1:])


def other_type(inputs: Specs, outputs: Specs) -> tuple[Sequence[int], Sequence[int]]:
    outputs[0] = UniformQuantizedType(i8, f16, 0.5)
    return (), (0,)


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (
            no_ports,
            "constraint 'no_ports' of kernel 'op' returned 'None', expected indices of "
            "changed operands and indices of changed results",
        ),
        (
            no_indices,
            r"constraint 'no_indices' of kernel 'op' returned '\('a', \[0.5\]\)', expected "
            "indices of changed operands and indices of changed results",
        ),
        (
            one_more,
            "constraint 'one_more' of kernel 'op' changed operand 1, which is not "
            "quantized",
        ),
        (
            fails,
            "constraint 'fails' of kernel 'op' failed: ZeroDivisionError: integer division "
            "or modulo by zero",
        ),
        (
            other_type,
            "constraint 'other_type' of kernel 'op' set result 0 to "
            "'!quant.uniform<i8:f16, 5.000000e-01>'; expected '!quant.uniform' for "
            "elements of 'tensor<4xf32>'",
        ),
        (
            no_type,
            "constraint 'no_type' of kernel 'op' set result 0 to 'f32'; expected "
            "'!quant.uniform' for elements of 'tensor<4xf32>'",
        ),
        (
            no_port,
            "constraint 'no_port' of kernel 'op' changed operand 3, which is not quantized",
        ),
    ],
)
def test_wrong_constraint_in_python(constraint: Constraint, message: str):
    text = function(
        f"%c = func.call @f(%x, %z) : ({T}, {T}) -> {T}\n",
        f"%d = func.call @f(%z, %c) : ({T}, {T}) -> {T}\n",
        result="d",
    ) + function(kernel("op", [("x", HALF)], "y", None), name="f")
    module = parsed(text)
    before = str(module)
    with pytest.raises(PassFailedException, match=f"^module:7:1: error: {message}\n"):
        propagate(module, target(op=([I8], [constraint])))
    # There are no copies of the function, either.
    assert str(module) == before


# Ranges and scales of a dimension

MATRIX = "tensor<2x3xf32>"
TURNED = "tensor<3x2xf32>"
AXIS_STATS = "quant.axis_stats = dense<[[-127.0, 0.0], [0.0, 254.0]]> : tensor<2x2xf64>"
PER_AXIS = "!quant.uniform<i8<-127:127>:f32:{}, {{1.000000e+00,2.000000e+00}}>"


def with_ranges(port: int, kernel: str) -> str:
    return kernel.replace(
        " {\n",
        f" attributes {{quant.port_stats = [{{port = {port}, quant.axis = 0, {AXIS_STATS}}}"
        "]} {\n",
        1,
    ).replace(T, MATRIX)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, f"!quant.uniform<i8:f32, {381 / 255:.17g}:-43>"),
        (
            "!quant.calibrated<f32<-255.0:0.0>>",
            "!quant.uniform<i8:f32, 1.000000e+00:127>",
        ),
        (HALF, HALF),
        ("!quant.none<f32>", "!quant.none<f32>"),
    ],
)
def test_statistics_of_a_port(spec: str | None, expected: str):
    """They are a range of the value, unless a specification says something else."""
    text = with_ranges(0, kernel("k", [("x", spec)], "y", None))
    module = parsed(function(text).replace(T, MATRIX))
    propagate(module, target(k=([I8], [])))
    ((found, _),) = specs(module)
    assert found == expected
    (region,) = [op for op in module.walk() if isinstance(op, RegionOp)]
    # Parameters replace them.
    assert ("quant.port_stats" in region.attributes) == ("none" in expected)


@pytest.mark.parametrize(
    ("dimension", "weight", "bias"),
    [
        (0, PER_AXIS.format(0), "{5.000000e-01,1.000000e+00}"),
        (-2, PER_AXIS.format(0), "{5.000000e-01,1.000000e+00}"),
        # Of any other dimension, the range of all elements counts.
        (1, "!quant.uniform<i8:f32, 2.000000e+00>", None),
        (None, "!quant.uniform<i8:f32, 2.000000e+00>", None),
    ],
)
def test_ranges_of_a_coefficient_axis(
    dimension: int | None, weight: str, bias: str | None
):
    """A weight that is no constant has one scale for each channel, too."""
    toy = target(
        k=(
            [I8, Port(AnyQuantizedType(i8), zero_point=0), I32],
            [AffineOpCoefficient(1, dimension), AccumulatorUniformScale(2)],
        )
    )
    ports = [("x", HALF), ("z", None), ("b", None)]
    constant = CONSTANT.replace("%c", "%b").replace("[1.0, -2.0, 3.0, 4.0]", "1.0")
    module = parsed(
        function(constant, with_ranges(1, kernel("k", ports, "y", HALF))).replace(
            T, MATRIX
        )
    )
    report = propagate(module, toy)
    ((x, found, found_bias, y),) = specs(module)
    assert (x, found, y) == (HALF, weight, HALF)
    if bias is not None:
        assert bias in found_bias
    assert report.values[1].decided_by == "statistics"
    text = str(module)
    propagate(module, toy)
    assert str(module) == text


TRANSPOSE = f"stablehlo.transpose %a, dims = [1, 0] : ({MATRIX}) -> {TURNED}"
RESHAPE = f"stablehlo.reshape %a : ({MATRIX}) -> tensor<{{}}xf32>"
CUBE = "tensor<2x3x5xf32>"
ROLLED = "tensor<5x2x3xf32>"
ROLL = f"stablehlo.transpose %a, dims = [2, 0, 1] : ({CUBE}) -> {ROLLED}"
WIDE, TALL = "tensor<2x4x3xf32>", "tensor<3x4x2xf32>"
REPEAT = "stablehlo.broadcast_in_dim %a, dims = [{}] : ({}) -> {}"


@pytest.mark.parametrize(
    ("op", "types", "before", "after"),
    [
        (f"stablehlo.maximum %a, %a : {MATRIX}", (MATRIX, MATRIX), 0, 0),
        (TRANSPOSE, (MATRIX, TURNED), 0, 1),
        (ROLL, (CUBE, ROLLED), 0, 1),
        (RESHAPE.format("1x2x3"), (MATRIX, "tensor<1x2x3xf32>"), 0, 1),
        (RESHAPE.format("2x3x1"), (MATRIX, "tensor<2x3x1xf32>"), 0, 0),
        (RESHAPE.format("2x1x3"), (MATRIX, "tensor<2x1x3xf32>"), 0, 0),
        (REPEAT.format("0, 2", MATRIX, WIDE), (MATRIX, WIDE), 0, 0),
        (REPEAT.format("2, 0", MATRIX, TALL), (MATRIX, TALL), 0, 2),
    ],
)
@pytest.mark.parametrize("is_backwards", [False, True])
def test_scales_of_a_dimension(
    op: str, types: tuple[str, str], before: int, after: int, is_backwards: bool
):
    """They go through kernels that do not mix dimensions, in both directions."""
    known = PER_AXIS.format(before), PER_AXIS.format(after)
    said = ("f32", known[1]) if is_backwards else (known[0], "f32")
    module = parsed(f"""
      func.func @main(%x: {types[0]}) -> {types[1]} {{
        %y = quant.region "k" (%a = %x : {types[0]} as {said[0]})
            -> ({types[1]} as {said[1]}) {{
          %b = {op}
          quant.return %b : {types[1]}
        }}
        func.return %y : {types[1]}
      }}""")
    toy = target(k=([I8], [SameOperandsAndResultsScale()]))
    report = propagate(module, toy)
    module.verify()
    assert specs(module) == [[*known]]
    assert not report.float_kernels
    text = str(module)
    propagate(module, toy)
    assert str(module) == text


def test_scales_of_a_dimension_that_is_moved():
    """Its elements belong to several indices of the other type."""
    module = parsed(f"""
      func.func @main(%x: {MATRIX}) -> {TURNED} {{
        %y = quant.region "k" (%a = %x : {MATRIX} as {PER_AXIS.format(0)}) -> ({TURNED}) {{
          %b = stablehlo.reshape %a : ({MATRIX}) -> {TURNED}
          quant.return %b : {TURNED}
        }}
        func.return %y : {TURNED}
      }}""")
    report = propagate(module, target(k=([I8], [SameOperandsAndResultsScale()])))
    assert specs(module) == [[PER_AXIS.format(0), "f32"]]
    assert [value.float_reason for value in report.float_values] == [
        "operand 0 of k has several scales, and their axis maps to no known dimension of "
        "other ports"
    ]


@pytest.mark.parametrize(
    ("before", "axis", "after", "expected"),
    [
        ("tensor<?x2xf32>", 1, "tensor<3x1x2xf32>", 2),
        ("tensor<2x?xf32>", 0, "tensor<2x3x1xf32>", 0),
        ("tensor<3x2x4xf32>", 1, "tensor<3x2x2x2xf32>", 1),
        ("tensor<3x2x4xf32>", 1, "tensor<4x2x3xf32>", None),
        ("tensor<?x?x2xf32>", 2, "tensor<2x3x5xf32>", None),
    ],
)
def test_scales_of_a_dimension_that_is_reshaped(
    before: str, axis: int, after: str, expected: int | None
):
    """A dimension of unknown size may be of any."""
    known = PER_AXIS.format(axis)
    module = parsed(f"""
      func.func @main(%x: {before}) -> {after} {{
        %y = quant.region "k" (%a = %x : {before} as {known}) -> ({after}) {{
          %b = stablehlo.reshape %a : ({before}) -> {after}
          quant.return %b : {after}
        }}
        func.return %y : {after}
      }}""")
    propagate(module, target(k=([I8], [SameOperandsAndResultsScale()])))
    result = "f32" if expected is None else PER_AXIS.format(expected)
    assert specs(module) == [[known, result]]


@pytest.mark.parametrize(
    ("type_", "dimensions"), [("tensor<3xf32>", 1), ("tensor<1x3xf32>", "0, 1")]
)
def test_scales_of_a_dimension_that_is_repeated(type_: str, dimensions: object):
    module = parsed(f"""
      func.func @main(%x: {type_}) -> {MATRIX} {{
        %y = quant.region "k" (%a = %x : {type_}) -> ({MATRIX} as {PER_AXIS.format(0)}) {{
          %b = {REPEAT.format(dimensions, type_, MATRIX)}
          quant.return %b : {MATRIX}
        }}
        func.return %y : {MATRIX}
      }}""")
    propagate(module, target(k=([I8], [SameOperandsAndResultsScale()])))
    assert specs(module) == [["f32", PER_AXIS.format(0)]]


def test_a_constant_that_is_only_moved_is_decided_by_its_content():
    module = parsed(f"""
      func.func @main(%x: {MATRIX}) -> {MATRIX} {{
        %c = arith.constant dense<0.25> : tensor<f32>
        %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> {MATRIX}
        %r = stablehlo.reshape %b : ({MATRIX}) -> {MATRIX}
        %x1 = quant.stats %x <-1.0:2.0> : {MATRIX}
        %y = stablehlo.multiply %x1, %r : {MATRIX}
        %y1 = quant.stats %y <-0.25:0.5> : {MATRIX}
        func.return %y1 : {MATRIX}
      }}""")
    int8 = read_target("stablehlo-int8")
    fuse_kernels(module, int8)
    apply_passes(module, "quant-constraints-to-specs")
    report = propagate(module, int8)
    decided = {value.name: value.decided_by for value in report.values}
    assert decided == {
        "%x": "statistics",
        "%c": "constant of stablehlo.broadcast_in_dim",
        "%b": "same scale of stablehlo.broadcast_in_dim",
        "%r": "same scale of stablehlo.reshape",
        "%y": "statistics",
    }
    stored = "!quant.uniform<i8:f32, 9.8039215686274508E-4:-128>"
    assert report.values[1].parameters == stored
    text = str(module)
    propagate(module, int8)
    assert str(module) == text


def test_the_range_of_a_constant_is_nothing_to_a_port_that_is_not_quantized():
    module = parsed(f"""
      func.func @main(%x: {MATRIX}, %w: tensor<3x3xf32>) -> {MATRIX} {{
        %c = arith.constant dense<6.0> : {MATRIX}
        %c1 = quant.stats %c <6.0:6.0> : {MATRIX}
        %x1 = quant.stats %x <-1.0:2.0> : {MATRIX}
        %w1 = quant.stats %w <-1.0:2.0> : tensor<3x3xf32>
        %y = stablehlo.dot_general %x1, %w1, contracting_dims = [1] x [0]
          : ({MATRIX}, tensor<3x3xf32>) -> {MATRIX}
        %z = stablehlo.minimum %y, %c1 : {MATRIX}
        %z1 = quant.stats %z <-0.25:0.5> : {MATRIX}
        func.return %z1 : {MATRIX}
      }}""")
    int8 = read_target("stablehlo-int8")
    fuse_kernels(module, int8)
    apply_passes(module, "quant-constraints-to-specs")
    assert not propagate(module, int8).float_kernels


# Coupled values

COUPLED = (
    ' attributes {{quant.coupled_ports = [{{port = {} : i64, key = "state"}}]}} {{'
)


def coupled(port: int, text: str) -> str:
    return text.replace(" {\n", COUPLED.format(port) + "\n", 1)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # Its range is fixed: it is rescaled after that.
        (
            coupled(0, kernel("tfl.relu", [("x", FOUR)], "a", POSITIVE)),
            kernel("tfl.tanh", [("x", None)], "t", None)
            + coupled(0, kernel("tfl.relu", [("t", FOUR)], "y", None)),
            [0, 0],
        ),
        # Nothing else is known of it.
        (
            coupled(1, kernel("tfl.relu", [("x", FOUR)], "a", POSITIVE)),
            coupled(0, kernel("tfl.relu", [("z", None)], "y", None)),
            [1, 0],
        ),
    ],
)
def test_coupled_values(first: str, second: str, expected: Sequence[int]):
    """They have one set of parameters wherever kernels take them."""
    module = parsed(function(first, second))
    propagate(module, TFLITE)
    found = specs(module)
    a, b = found[0][expected[0]], found[-1][expected[1]]
    assert a == b != "f32"
    text = str(module)
    propagate(module, TFLITE)
    assert str(module) == text


def test_coupled_values_keep_their_range():
    """Otherwise it would be that of the result."""
    maximum = kernel("tfl.maximum", [("x", FOUR), ("x", FOUR)], "a", POSITIVE)
    relu = kernel("tfl.relu", [("z", FOUR)], "y", POSITIVE)
    module = parsed(function(coupled(0, maximum), coupled(0, relu)))
    report = propagate(module, TFLITE)
    found = {value.name: value.parameters for value in report.values}
    assert (
        found["%x"] == found["%z"] == "!quant.uniform<i8:f32, 0.031372549019607843:-1>"
    )
    assert [(value.name, r.operand) for value, r in report.rescales] == [
        ("%x", 0),
        ("%x", 1),
    ]


def test_coupled_values_of_different_types():
    """Each float type has parameters of its own."""
    half = kernel("tfl.relu", [("h", None)], "b", None).replace("f32", "f16")
    module = parsed(
        function(
            f'%h = "test.op"() : () -> {T.replace("f32", "f16")}\n',
            coupled(0, kernel("tfl.relu", [("x", FOUR)], "a", POSITIVE)),
            coupled(0, half),
            coupled(0, kernel("tfl.relu", [("z", None)], "y", None)),
        )
    )
    propagate(module, TFLITE)
    module.verify()
    first, second, third = specs(module)
    assert first[0] == third[0] != second[0] == "f16"


@pytest.mark.parametrize(
    "entry", ['{port = 2 : i64, key = "k"}', "{port = 0 : i64}", "3"]
)
def test_coupled_ports_that_are_wrong(entry: str):
    text = kernel("tfl.relu", [("x", FOUR)], "y", None).replace(
        " {\n", f" attributes {{quant.coupled_ports = [{entry}]}} {{\n", 1
    )
    with pytest.raises(PassFailedException) as failure:
        propagate(parsed(function(text)), TFLITE)
    assert str(failure.value) == (
        "module:2:1: error: 'quant.region' op expects an array of dictionaries with an "
        "integer 'port' below 2 and a string 'key' as 'quant.coupled_ports'"
    )


# Functions

PUBLIC_CALLEE = function(
    kernel("tfl.maximum", [("x", None), ("z", None)], "y", None), name="f"
)
CALLEE = PUBLIC_CALLEE.replace("func.func", "func.func private")


def caller(*parameters: str) -> str:
    lines: list[str] = []
    for i, spec in enumerate(parameters):
        lines += [
            kernel("tfl.relu", [("x", None)], f"a{i}", spec),
            f"%y{i} = func.call @f(%a{i}, %a{i}) : ({T}, {T}) -> {T}\n",
            kernel("tfl.relu", [(f"y{i}", None)], f"b{i}", None),
        ]
    return function(*lines, result="b0")


def test_function_with_different_parameters_is_duplicated():
    module = parsed(caller(HALF, QUARTER, HALF) + CALLEE)
    report = propagate(module, TFLITE)
    assert [op.sym_name.data for op in functions(module)] == ["main", "f", "f_0"]
    assert report.duplicates == {"f_0": "f"}
    assert specs(module)[:6] == [
        ["f32", HALF],
        [HALF, "f32"],
        ["f32", QUARTER],
        [QUARTER, "f32"],
        ["f32", HALF],
        [HALF, "f32"],
    ]
    assert specs(module)[6:] == [[HALF] * 3, [QUARTER] * 3]
    text = str(module)
    propagate(module, TFLITE)
    assert str(module) == text


def test_function_with_equal_parameters_stays_one():
    module = parsed(caller(HALF, HALF) + CALLEE)
    report = propagate(module, TFLITE)
    assert report.duplicates == {}
    assert len(module.body.block.ops) == 2


def test_public_function_keeps_what_is_known_of_it(capsys: pytest.CaptureFixture[str]):
    """Others may call it with other arguments than the calls of the module have."""
    module = parsed(caller(HALF, QUARTER, HALF) + PUBLIC_CALLEE)
    QuantPropagatePass("tflite-int8").apply(Context(), module)
    assert specs(module)[6:] == [["f32"] * 3, [QUARTER] * 3, [HALF] * 3]
    names = [(op.sym_name.data, str(op.sym_visibility)) for op in functions(module)]
    assert names == [
        ("main", "None"),
        ("f", "None"),
        ("f_1", '"private"'),
        ("f_0", '"private"'),
    ]
    assert capsys.readouterr().err.splitlines()[-1] == (
        "module:31:1: warning: public function 'f' ignores the constraints of its calls, "
        "which use a copy; make it private, or add statistics of its arguments"
    )
    text = str(module)
    assert propagate(module, TFLITE).duplicates == {}
    assert str(module) == text


def test_public_function_that_says_the_same_stays_one():
    callee = function(
        kernel("tfl.maximum", [("x", HALF), ("z", HALF)], "y", None), name="f"
    )
    module = parsed(caller(HALF, HALF) + callee)
    report = propagate(module, TFLITE)
    assert specs(module)[4:] == [[HALF] * 3]
    assert report.duplicates == {}


def test_function_that_another_op_names():
    """It may be called with any arguments, though it is private."""
    text = caller(HALF) + CALLEE
    module = parsed(text)
    main, _ = functions(module)
    main.attributes["inner"] = ArrayAttr([DictionaryAttr({"a": SymbolRefAttr("f")})])
    propagate(module, TFLITE)
    assert specs(module)[2:] == [["f32"] * 3, [HALF] * 3]


def test_arguments_of_recursive_functions_are_not_known():
    recursive = function(
        f"%c = func.call @f(%x, %z) : ({T}, {T}) -> {T}\n",
        kernel("tfl.maximum", [("x", None), ("c", None)], "y", None),
        name="f",
    )
    module = parsed(caller(HALF) + recursive)
    propagate(module, TFLITE)
    assert specs(module)[-1] == ["f32"] * 3


# The pass


def test_report(tmp_path: Path):
    text = function(
        kernel("tfl.tanh", [("x", UNIT)], "a", None),
        kernel("tfl.maximum", [("a", None), ("z", HALF)], "y", None),
    )
    for name in ("report.txt", "report.json"):
        module = parsed(text)
        QuantPropagatePass("tflite-int8", str(tmp_path / name)).apply(Context(), module)
    report = json.loads((tmp_path / "report.json").read_text())
    assert [value["name"] for value in report["values"]] == ["%x", "%z", "%a", "%y"]
    assert report["values"][2]["rescales"] == [
        {
            "kernel": "tfl.maximum",
            "operand": 0,
            "parameters": HALF,
            "decided_by": "fixed result of tfl.tanh",
        }
    ]
    lines = (tmp_path / "report.txt").read_text().splitlines()
    assert lines[0] == (
        "target tflite-int8, quantized values: 4 of 4, rescales: 1, kernels in floating "
        "point: 0, ops in no kernel: 0"
    )


def test_kernels_without_parameters(capsys: pytest.CaptureFixture[str]):
    """They stay in floating point, and there is a warning, unless someone asked for it."""
    text = function(
        kernel("tfl.relu", [("x", None)], "a", None),
        kernel("tfl.tanh", [("a", None)], "y", None),
    )
    report = propagate(parsed(text), TFLITE)
    assert [(k.kernel, k.value, k.float_reason) for k in report.float_kernels] == [
        ("tfl.relu", "%a", "operand 0 has no parameters"),
        ("tfl.tanh", "%y", "operand 0 has no parameters"),
    ]
    QuantPropagatePass("mac-array").apply(Context(), parsed(text))
    assert capsys.readouterr().err.endswith(
        "warning: no kernel is propagated: target 'mac-array' has no kernel 'tfl.relu'; "
        "use the target that the kernels were fused for\n"
    )
    QuantPropagatePass("tflite-int8").apply(Context(), parsed(text))
    assert capsys.readouterr().err == (
        "module:2:1: warning: 2 of 2 kernels stay in floating point, the first because "
        "operand 0 of kernel 'tfl.relu' has no parameters; option report=FILE lists "
        "all of them\n"
    )
    QuantPropagatePass("tflite-int8").apply(
        Context(),
        parsed(function(kernel("tfl.tanh", [("x", "!quant.none<f32>")], "y", None))),
    )
    assert not capsys.readouterr().err


def test_ports_that_are_not_quantized_need_no_parameters():
    """Such as the destination of an op of linalg."""
    module = parsed(function(kernel("k", [("x", HALF), ("z", None)], "y", HALF)))
    report = propagate(module, target(k=([I8, Port()], [])))
    assert not report.float_kernels
    (value,) = report.float_values
    assert value.float_reason == "its ports are not quantized"


def test_statistics_that_are_no_specifications(capsys: pytest.CaptureFixture[str]):
    statistics = f"%s = quant.stats %{{}} <-1.0:1.0> : {T}\n"
    before = (statistics.format("x"), kernel("tfl.relu", [("s", HALF)], "y", None))
    after = (kernel("tfl.relu", [("x", None)], "y", HALF), statistics.format("y"))
    for lines, line, port in ((before, 3, "result 0"), (after, 2, "operand 0")):
        QuantPropagatePass("tflite-int8").apply(Context(), parsed(function(*lines)))
        assert capsys.readouterr().err == (
            f"module:{line}:1: warning: 1 of 1 kernels stay in floating point, the "
            f"first because {port} of kernel 'tfl.relu' has no parameters; run "
            "'quant-constraints-to-specs' first to convert statistics to specifications\n"
        )


SIXTEEN = "!quant.uniform<i16:f32, 5.000000e-01>"


TANH_OF_TWO = """%y = quant.region "tfl.tanh" (%p = %x : tensor<4xf32>,
    %q = %z : tensor<4xf32>) -> (tensor<4xf32>) {
  quant.return %q : tensor<4xf32>
}
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            kernel("tfl.tanh", [("x", None)], "y", SIXTEEN),
            f"result 0 as '{SIXTEEN}'; change the specification",
        ),
        (
            TANH_OF_TWO,
            "operands of f32, f32 and results of f32; use the target that the kernels were "
            "fused for",
        ),
    ],
)
def test_kernels_without_signature(
    text: str, reason: str, capsys: pytest.CaptureFixture[str]
):
    QuantPropagatePass("tflite-int8").apply(Context(), parsed(function(text)))
    assert capsys.readouterr().err == (
        "module:2:1: warning: no kernel is propagated: no signature of kernel "
        f"'tfl.tanh' accepts {reason}\n"
    )


def test_specifications_that_exclude_each_other():
    wide = Port(AnyQuantizedType(IntegerType(16)))
    signatures = [Signature([I8], [I8]), Signature([wide], [wide])]
    toy = TargetSpec("toy", {"k": KernelSpec("k", signatures)})
    module = parsed(function(kernel("k", [("x", HALF)], "y", SIXTEEN)))
    assert [k.float_reason for k in propagate(module, toy).float_kernels] == [
        "no signature of kernel 'k' accepts all specifications of the kernel"
    ]


def test_specifications_that_do_not_hold(capsys: pytest.CaptureFixture[str]):
    """A constraint that asks for other parameters counts more, with a warning."""
    text = function(
        kernel("tfl.tanh", [("x", HALF)], "a", HALF),
        kernel("tfl.maximum", [("z", QUARTER), ("x", HALF)], "b", None),
        # What is computed as specified is rescaled.
        kernel("tfl.relu", [("b", None)], "c", QUARTER),
        kernel("tfl.maximum", [("x", HALF), ("c", QUARTER)], "y", HALF),
    )
    module = parsed(text)
    QuantPropagatePass("tflite-int8").apply(Context(), module)
    assert specs(module)[0][1] == "!quant.uniform<i8:f32, 7.812500e-03>"
    assert capsys.readouterr().err == (
        "module:2:1: warning: 1 specification replaced to satisfy constraints, first "
        f"'{HALF}' at result 0 of kernel 'tfl.tanh', by '!quant.uniform<i8:f32, "
        "7.812500e-03>' (fixed result of tfl.tanh); remove them\n"
    )
    QuantPropagatePass("tflite-int8").apply(Context(), module)
    assert not capsys.readouterr().err


@pytest.mark.parametrize(("spec", "is_warned"), [(UNIT, True), (HALF, False)])
def test_constants_that_exceed_their_peers(
    capsys: pytest.CaptureFixture[str], spec: str, is_warned: bool
):
    maximum = kernel("tfl.maximum", [("x", spec), ("c", None)], "y", None)
    module = parsed(function(CONSTANT, maximum))
    QuantPropagatePass("tflite-int8").apply(Context(), module)
    _, _, warning = capsys.readouterr().err.partition("warning: ")
    assert warning == is_warned * (
        "1 constant clamped, first at operand 1 of kernel 'tfl.maximum': elements from -2 "
        "to 4 exceed the range from -0.996078 to 1.00392 of the shared scale; add "
        "statistics of the result\n"
    )


def test_constants_that_exceed_their_peers_and_decide_nothing(
    capsys: pytest.CaptureFixture[str],
):
    """No number of the operand is larger than 4 anyway, but some are than -2."""
    wide = "!quant.calibrated<f32<-2.0:1.0>>"
    minimum = kernel("tfl.minimum", [("x", wide), ("c", None)], "y", None)
    QuantPropagatePass("tflite-int8").apply(
        Context(), parsed(function(CONSTANT, minimum))
    )
    assert not capsys.readouterr().err


CONCATENATION = (
    kernel("tfl.maximum", [("x", FOUR), ("z", FOUR)], "a", FOUR),
    kernel("tfl.maximum", [("a", FOUR), ("z", FOUR)], "b", POSITIVE),
)


def test_values_that_exceed_what_they_have_one_scale_with(
    capsys: pytest.CaptureFixture[str],
):
    """TensorFlow Lite's rule loses numbers, with a warning; others take larger ranges."""
    user = kernel("tfl.add", [("a", FOUR), ("b", POSITIVE)], "y", FOUR)
    text = function(*CONCATENATION, user)
    module = parsed(text)
    QuantPropagatePass("tflite-int8").apply(Context(), module)
    assert capsys.readouterr().err == (
        "module:2:1: warning: 1 value clamped, first '%a' at result 0 of kernel "
        "'tfl.maximum': statistics from -4 to 4 exceed the range from 0 to 4 (same scale "
        "of tfl.maximum); add a specification, or widen the statistics of the values that "
        "share its scale\n"
    )
    toy = replace(TFLITE, range_rule="exact")
    report = propagate(module := parsed(text), toy)
    assert {str(spec) for spec in specs(module)[1]} == {
        "!quant.uniform<i8:f32, 0.031372549019607843:-1>"
    }
    assert not report.rescales
    # Only the result counts.
    QuantPropagatePass("tflite-int8").apply(
        Context(), parsed(function(*CONCATENATION, result="b"))
    )
    assert not capsys.readouterr().err


def test_report_that_cannot_be_written(tmp_path: Path):
    module = parsed(function(kernel("tfl.relu", [("x", UNIT)], "y", None)))
    file = str(tmp_path / "missing" / "report.txt")
    before = str(module)
    with pytest.raises(PassFailedException, match=r"^cannot write report '.*missing"):
        QuantPropagatePass("tflite-int8", file).apply(Context(), module)
    assert str(module) == before


def test_unknown_target():
    with pytest.raises(PassFailedException, match="unknown target 'none'"):
        QuantPropagatePass("none").apply(Context(), ModuleOp([]))


def test_content_that_has_no_scale():
    constant = CONSTANT.replace("4.0", "0x7F800000")
    module = parsed(
        function(constant, kernel("tfl.add", [("x", HALF), ("c", None)], "y", HALF))
    )
    report = propagate(module, TFLITE)
    assert specs(module) == [[HALF, "f32", HALF]]
    (value,) = report.float_values
    assert value.float_reason == "range -2.0 to inf is not finite"


def test_fixed_range_that_has_no_scale():
    toy = target(k=([I8], [FixedResultUniformScale(1.0, 2.0)]))
    module = parsed(function(kernel("k", [("x", HALF)], "y", None)))
    report = propagate(module, toy)
    assert specs(module) == [[HALF, "f32"]]
    (value,) = report.float_values
    assert value.float_reason == (
        "zero point -384 is not representable in 'i8'; expected -128 to 127"
    )


def test_dimension_from_the_end():
    weight = Port(AnyQuantizedType(i8, f32), zero_point=0)
    toy = target(k=([I8, weight], [AffineOpCoefficient(dimension=-1)]))
    constant = CONSTANT.replace("[1.0, -2.0, 3.0, 4.0]", "[127.0, -254.0, 63.5, 127.0]")
    module = parsed(
        function(constant, kernel("k", [("x", HALF), ("c", None)], "y", HALF))
    )
    propagate(module, toy)
    scales = "{1.000000e+00,2.000000e+00,5.000000e-01,1.000000e+00}"
    assert specs(module)[0][1] == f"!quant.uniform<i8<-127:127>:f32:0, {scales}>"


def test_dimension_that_a_weight_lacks(capsys: pytest.CaptureFixture[str]):
    weight = Port(AnyQuantizedType(i8, f32), zero_point=0)
    toy = target(k=([I8, weight], [AffineOpCoefficient(dimension=1)]))
    kernels = [kernel("k", [("x", HALF), ("c", None)], y, HALF) for y in "ay"]
    module = parsed(function(CONSTANT, *kernels))
    propagation = Propagation(module, toy)
    assert (
        specs(module)[0][1] == "!quant.uniform<i8<-127:127>:f32, 0.031496062992125984>"
    )
    propagation.warn_of_missing_dimensions()
    assert capsys.readouterr().err == (
        f"module:3:1: warning: 2 weights without per-axis scales, first '{T}' at operand "
        "1 of kernel 'k': missing dimension 1; change 'coefficient-axis' in the target\n"
    )


def test_ranges_of_a_dimension_that_the_target_does_not_mean():
    """Dimension 3 is not dimension 1 of two."""
    weight = Port(AnyQuantizedType(i8, f32), zero_point=0)
    toy = target(k=([I8, weight], [AffineOpCoefficient(dimension=3)]))
    module = parsed(f"""
      func.func @main(%x: {T}, %w: {MATRIX}) -> {T} {{
        %y = quant.region "k" (%a = %x : {T} as {HALF},
            %b = %w : {MATRIX} as !quant.calibrated<f32<-127.0:127.0>>)
            -> ({T} as {HALF}) attributes {{quant.port_stats = [{{port = 1 : i64,
              quant.axis = 1 : i64, quant.axis_stats = dense<[[-1.0, 1.0], [-2.0, 2.0],
              [-127.0, 127.0]]> : tensor<3x2xf64>}}]}} {{
          quant.return %a : {T}
        }}
        func.return %y : {T}
      }}""")
    propagate(module, toy)
    assert specs(module)[0][1] == "!quant.uniform<i8:f32, 1.000000e+00>"


@pytest.mark.parametrize("number", ["0x7F800000", "0x7FC00000"])
@pytest.mark.parametrize("weight", [None, HALF])
def test_bias_that_is_not_finite(number: str, weight: str | None):
    toy = target(k=([I8, I8, I32], [AffineOpCoefficient(), AccumulatorUniformScale(2)]))
    constants = CONSTANT + CONSTANT.replace("%c", "%b").replace("4.0", number)
    module = parsed(
        function(
            constants,
            kernel("k", [("x", HALF), ("c", weight), ("b", None)], "y", HALF),
        )
    )
    (value,) = propagate(module, toy).float_values
    assert (value.name, value.float_reason) == (
        "%b",
        "the constant has infinities or NaN",
    )
    text = str(module)
    propagate(module, toy)
    assert str(module) == text


# Any program

SPECS: Sequence[TypeAttribute] = (
    CalibratedQuantizedType(f32, -1.0, 1.0),
    CalibratedQuantizedType(f32, 0.0, 1e-9),
    UniformQuantizedType(i8, f32, 0.5, 3),
    UniformQuantizedType(i8, f32, 0.25),
    UniformQuantizedType(IntegerType(16), f32, 0.1),
    UniformQuantizedPerAxisType(i8, f32, [0.5, 1, 2, 4], quantized_dimension=1),
    AnyQuantizedType(i8, f32),
    NoQuantizedType(f32),
)


def with_random_specs(module: ModuleOp, random: Random) -> ModuleOp:
    def drawn(specs: ArrayAttr[TypeAttribute]) -> ArrayAttr[TypeAttribute]:
        return ArrayAttr(
            random.choice(SPECS) if random.random() < 0.25 else spec for spec in specs
        )

    for op in module.walk():
        if isinstance(op, RegionOp):
            op.input_specs = drawn(op.input_specs)
            op.output_specs = drawn(op.output_specs)
    return module


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name", ["tflite-int8", "tflite-int16x8", "stablehlo-int8", "mac-array"]
)
def test_any_program_has_one_result_and_no_other_in_a_second_run(name: str):
    shipped = read_target(name)
    kernel_count = 0
    for seed in range(10):
        random = Random(seed)
        module = parse_module(random_program(random, 20))
        kernel_count += fuse_kernels(module, shipped)
        with_random_specs(module, random)
        copy = parse_module(str(module))
        propagate(module, shipped)
        module.verify()
        report = propagate(copy, shipped)
        assert str(copy) == str(module)
        json.loads(report.json())
        for op in module.walk():
            if isinstance(op, RegionOp):
                assert has_fulfilled_constraints(op, shipped)
        text = str(module)
        propagate(module, shipped)
        assert str(module) == text
    assert kernel_count > 1


def has_fulfilled_constraints(op: RegionOp, shipped: TargetSpec) -> bool:
    """Whether ports of a same-scale kernel that are decided have one set of parameters."""
    ops = [*op.body.block.ops][:-1]
    if not all(has_quantization_trait(o, SameOperandsAndResultsScale) for o in ops):
        return True
    signature = shipped.kernels[op.kernel].signature(
        [*op.input_specs], [*op.output_specs]
    )
    if signature is None:
        return True
    decided = {
        # A dimension that has scales may be another one elsewhere.
        (*spec.scale_array(), *spec.zero_point_array(), spec.storage_text)
        for port, spec in zip(
            (*signature.inputs, *signature.outputs), op.specs, strict=True
        )
        if port.storage is not None and isinstance(spec, UniformType)
    }
    return len(decided) < 2


@pytest.mark.sampled(0)
def test_work_is_linear():
    def work(count: int) -> int:
        lines = [
            kernel(
                "tfl.maximum", [(f"v{i - 1}" if i else "x", None)] * 2, f"v{i}", spec
            )
            for i in range(count)
            for spec in [UNIT if i % 3 else None]
        ]
        module = parsed(function(*lines, result=f"v{count - 1}"))
        return calls(lambda: propagate(module, TFLITE))

    assert 7 < work(400) / work(50) < 9
