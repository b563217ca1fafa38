"""What the builder of lowerings builds, as text."""

# Printed ops have long lines.
# ruff: noqa: E501

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest
from xdsl.dialects import arith, test
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FileLineColLoc,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    f16,
    f32,
    f64,
    i1,
    i8,
    i32,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import InsertPoint

from xdsl_quant.transforms.building.builder import (
    INDEX,
    PARALLEL,
    REDUCTION,
    LoweringBuilder,
    TensorwiseBuilder,
    dimensions,
)

TYPE = TensorType(i8, [DYNAMIC_INDEX, 3, DYNAMIC_INDEX])
LOCATION = FileLineColLoc(StringAttr("model"), IntAttr(7), IntAttr(5))

Build = Callable[[LoweringBuilder, SSAValue, SSAValue], object]


def printed(build: Build) -> str:
    """What is built in a block with a tensor `%x` and an index `%n`, and its results."""
    block = Block(arg_types=[TYPE, INDEX])
    tensor, size = block.args
    tensor.name_hint, size.name_hint = "x", "n"
    build(LoweringBuilder(InsertPoint.at_end(block), location=LOCATION), tensor, size)
    for op in block.ops:
        assert op.location == LOCATION
    block.add_op(test.TestTermOp())
    module = ModuleOp([test.TestOp(regions=[Region(block)])])
    module.verify()
    lines = str(module).splitlines()[3:-3]
    return dedent("\n".join(lines)).strip()


def check(build: Build, expected: str) -> None:
    assert printed(build) == dedent(expected).strip()


def sizes(builder: LoweringBuilder, tensor: SSAValue, size: SSAValue) -> None:
    assert builder.plus(2, 3) == 5
    assert builder.plus(size, 0) is size
    assert builder.times(2, 3) == 6
    assert builder.times(size, 1) is size
    assert builder.floor_divide(7, 2) == 3
    assert builder.floor_divide(size, 1) is size
    assert [builder.at_least_zero(n) for n in (-3, 0, 4)] == [0, 0, 4]
    assert builder.size(tensor, 1) == 3
    assert builder.size_value(size) is size
    builder.plus(size, 1)
    builder.plus(2, size)
    builder.plus(0, size)
    builder.times(size, 4)
    builder.floor_divide(size, 5)
    builder.at_least_zero(size)
    first, second, third = builder.sizes(tensor)
    assert second == 3
    builder.plus(first, third)


def test_sizes():
    check(
        sizes,
        """
        %0 = arith.constant 1 : index
        %1 = arith.addi %n, %0 : index
        %2 = arith.constant 2 : index
        %3 = arith.addi %2, %n : index
        %4 = arith.constant 0 : index
        %5 = arith.addi %4, %n : index
        %6 = arith.constant 4 : index
        %7 = arith.muli %n, %6 : index
        %8 = arith.constant 5 : index
        %9 = arith.floordivsi %n, %8 : index
        %10 = arith.constant 0 : index
        %11 = arith.maxsi %n, %10 : index
        %12 = arith.constant 0 : index
        %13 = tensor.dim %x, %12 : tensor<?x3x?xi8>
        %14 = arith.constant 2 : index
        %15 = tensor.dim %x, %14 : tensor<?x3x?xi8>
        %16 = arith.addi %13, %15 : index
        """,
    )


def parts(builder: LoweringBuilder, tensor: SSAValue, size: SSAValue) -> None:
    builder.extract_slice(tensor, [0, size, 1], [2, size, 4], [1, 2, 1])
    part = builder.extract_slice(tensor, [0, 0, 0], [2, size, 4], [1, 1, 1])
    builder.insert_slice(part, tensor, [0, 1, 0], [2, size, 4], [1, 2, 3])


def test_parts():
    check(
        parts,
        """
        %0 = tensor.extract_slice %x[0, %n, 1] [2, %n, 4] [1, 2, 1] : tensor<?x3x?xi8> to tensor<2x?x4xi8>
        %1 = tensor.extract_slice %x[0, 0, 0] [2, %n, 4] [1, 1, 1] : tensor<?x3x?xi8> to tensor<2x?x4xi8>
        %2 = tensor.insert_slice %1 into %x[0, 1, 0] [2, %n, 4] [1, 2, 3] : tensor<2x?x4xi8> into tensor<?x3x?xi8>
        """,
    )


def shapes(builder: LoweringBuilder, tensor: SSAValue, size: SSAValue) -> None:
    assert builder.cast(tensor, TYPE) is tensor
    assert builder.transpose(tensor, [0, 1, 2]) is tensor
    known = builder.cast(tensor, TensorType(i8, [2, 3, 4]))
    assert builder.reshape(known, TensorType(i8, [2, 3, 4]), [2, 3, 4]) is known
    builder.reshape(known, TensorType(i8, [6, 4]), [6, 4])
    dynamic = [DYNAMIC_INDEX, DYNAMIC_INDEX, 3]
    builder.reshape(tensor, TensorType(i8, dynamic), [size, size, 3])
    builder.transpose(tensor, [2, 0, 1])


def test_shapes():
    check(
        shapes,
        """
        %0 = tensor.cast %x : tensor<?x3x?xi8> to tensor<2x3x4xi8>
        %1 = arith.constant dense<[6, 4]> : tensor<2xindex>
        %2 = tensor.reshape %0(%1) : (tensor<2x3x4xi8>, tensor<2xindex>) -> tensor<6x4xi8>
        %3 = arith.constant 3 : index
        %4 = tensor.from_elements %n, %n, %3 : tensor<3xindex>
        %5 = tensor.reshape %x(%4) : (tensor<?x3x?xi8>, tensor<3xindex>) -> tensor<?x?x3xi8>
        %6 = arith.constant 0 : index
        %7 = tensor.dim %x, %6 : tensor<?x3x?xi8>
        %8 = arith.constant 2 : index
        %9 = tensor.dim %x, %8 : tensor<?x3x?xi8>
        %10 = tensor.empty(%9, %7) : tensor<?x?x3xi8>
        %11 = linalg.transpose ins(%x:tensor<?x3x?xi8>) outs(%10:tensor<?x?x3xi8>) permutation = [2, 0, 1]
        """,
    )


def constants(builder: LoweringBuilder, tensor: SSAValue, size: SSAValue) -> None:
    for number in (200, -129, -128, 127, 128):
        builder.number(number, i8)
    for number in (0, 1, 3):
        builder.number(number, i1)
    builder.number(0.1, f32)
    builder.number(2, f64)
    builder.index(5)
    builder.zero(i8)
    builder.zero(f16)


def test_constants():
    check(
        constants,
        """
        %0 = arith.constant -56 : i8
        %1 = arith.constant 127 : i8
        %2 = arith.constant -128 : i8
        %3 = arith.constant 127 : i8
        %4 = arith.constant -128 : i8
        %5 = arith.constant false
        %6 = arith.constant true
        %7 = arith.constant true
        %8 = arith.constant 1.000000e-01 : f32
        %9 = arith.constant 2.000000e+00 : f64
        %10 = arith.constant 5 : index
        %11 = arith.constant dense<0> : tensor<i8>
        %12 = arith.constant dense<0.000000e+00> : tensor<f16>
        """,
    )


def test_true_is_1():
    """The attribute is the one that a parser makes of `true`."""
    builder = LoweringBuilder(InsertPoint.at_end(Block()), location=LOCATION)
    constant = builder.number(3, i1).owner
    assert isinstance(constant, arith.ConstantOp)
    assert constant.value == IntegerAttr(1, 1)


def tensors(builder: LoweringBuilder, tensor: SSAValue, size: SSAValue) -> None:
    sizes = [size, 3, size]
    zero = builder.zero(i8)
    builder.fill(TYPE, sizes, zero)
    builder.fill(
        TensorType(i8, [2]),
        [2],
        zero,
        lambda b, args: b.add(arith.MuliOp(args[0], args[0])),
    )
    builder.zeros(TensorType(f32, [2]), [2])
    builder.map(
        [(tensor, dimensions([2, 1, 0])), (zero, [])],
        TYPE,
        sizes,
        lambda b, args: b.add(arith.AddiOp(args[0], args[1])),
        ["a", "b", "c"],
    )


def test_tensors():
    check(
        tensors,
        """
        %0 = arith.constant dense<0> : tensor<i8>
        %1 = tensor.empty(%n, %n) : tensor<?x3x?xi8>
        %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> ()>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0 : tensor<i8>) outs(%1 : tensor<?x3x?xi8>) {
        ^bb0(%in: i8, %out: i8):
          linalg.yield %in : i8
        } -> tensor<?x3x?xi8>
        %3 = tensor.empty() : tensor<2xi8>
        %4 = linalg.generic {indexing_maps = [affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0 : tensor<i8>) outs(%3 : tensor<2xi8>) {
        ^bb0(%in_1: i8, %out_1: i8):
          %5 = arith.muli %in_1, %in_1 : i8
          linalg.yield %5 : i8
        } -> tensor<2xi8>
        %6 = tensor.empty() : tensor<2xf32>
        %7 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%6 : tensor<2xf32>) {
        ^bb0(%out_2: f32):
          %8 = arith.constant 0.000000e+00 : f32
          linalg.yield %8 : f32
        } -> tensor<2xf32>
        %9 = tensor.empty(%n, %n) : tensor<?x3x?xi8>
        %10 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d1, d0)>, affine_map<(d0, d1, d2) -> ()>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %0 : tensor<?x3x?xi8>, tensor<i8>) outs(%9 : tensor<?x3x?xi8>) {
        ^bb0(%a: i8, %b: i8, %c: i8):
          %11 = arith.addi %a, %b : i8
          linalg.yield %11 : i8
        } -> tensor<?x3x?xi8>
        """,
    )


def loops(builder: LoweringBuilder, tensor: SSAValue, size: SSAValue) -> None:
    """A reduction reads what it writes to; what is parallel reads a copy."""
    row = TensorType(i8, [DYNAMIC_INDEX])
    kinds = [PARALLEL, REDUCTION, REDUCTION]
    for value, rank in ((tensor, 3), (builder.empty(row, [size]), 1)):
        builder.generic(
            [value],
            [builder.empty(row, [size])],
            [AffineMap.identity(rank), AffineMap(rank, 0, tuple(dimensions([0])))],
            kinds[:rank],
            lambda b, args: b.add(arith.AddiOp(args[0], args[1])),
        )
    first, second = builder.generics(
        [tensor],
        [builder.empty(TYPE, [size, 3, size]) for _ in range(2)],
        [AffineMap.identity(3)] * 3,
        [PARALLEL] * 3,
        lambda _, args: (args[2], args[0]),
    )
    builder.op(arith.AddiOp, (first, second), TYPE)


def test_loops():
    check(
        loops,
        """
        %0 = tensor.empty(%n) : tensor<?xi8>
        %1 = tensor.empty(%n) : tensor<?xi8>
        %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0)>], iterator_types = ["parallel", "reduction", "reduction"]} ins(%x : tensor<?x3x?xi8>) outs(%1 : tensor<?xi8>) {
        ^bb0(%in: i8, %out: i8):
          %3 = arith.addi %in, %out : i8
          linalg.yield %3 : i8
        } -> tensor<?xi8>
        %4 = tensor.empty(%n) : tensor<?xi8>
        %5 = arith.constant 0 : index
        %6 = tensor.dim %4, %5 : tensor<?xi8>
        %7 = tensor.empty(%6) : tensor<?xi8>
        %8 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%0, %4 : tensor<?xi8>, tensor<?xi8>) outs(%7 : tensor<?xi8>) {
        ^bb0(%in_1: i8, %in_2: i8, %out_1: i8):
          %9 = arith.addi %in_1, %in_2 : i8
          linalg.yield %9 : i8
        } -> tensor<?xi8>
        %10 = tensor.empty(%n, %n) : tensor<?x3x?xi8>
        %11 = tensor.empty(%n, %n) : tensor<?x3x?xi8>
        %12 = arith.constant 0 : index
        %13 = tensor.dim %10, %12 : tensor<?x3x?xi8>
        %14 = arith.constant 2 : index
        %15 = tensor.dim %10, %14 : tensor<?x3x?xi8>
        %16 = tensor.empty(%13, %15) : tensor<?x3x?xi8>
        %17 = arith.constant 0 : index
        %18 = tensor.dim %11, %17 : tensor<?x3x?xi8>
        %19 = arith.constant 2 : index
        %20 = tensor.dim %11, %19 : tensor<?x3x?xi8>
        %21 = tensor.empty(%18, %20) : tensor<?x3x?xi8>
        %22, %23 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %10, %11 : tensor<?x3x?xi8>, tensor<?x3x?xi8>, tensor<?x3x?xi8>) outs(%16, %21 : tensor<?x3x?xi8>, tensor<?x3x?xi8>) {
        ^bb0(%in_3: i8, %in_4: i8, %in_5: i8, %out_2: i8, %out_3: i8):
          linalg.yield %in_5, %in_3 : i8, i8
        } -> (tensor<?x3x?xi8>, tensor<?x3x?xi8>)
        %24 = arith.addi %22, %23 : tensor<?x3x?xi8>
        """,
    )


def elementwise(builder: LoweringBuilder, tensor: SSAValue, size: SSAValue) -> None:
    scalar = builder.number(3, i8)
    assert builder.lift(scalar) is scalar
    builder.elementwise(arith.AddiOp, (scalar, scalar), i8)
    whole = TensorwiseBuilder(
        builder.insertion_point,
        location=builder.location,
        container=TensorType(i8, TYPE.shape, StringAttr("rows")),
        dynamic_sizes=[size, size],
    )
    lifted = whole.lift(scalar)
    whole.elementwise(arith.AddiOp, (lifted, lifted), i8)
    assert whole.type(i32) == TensorType(i32, TYPE.shape, StringAttr("rows"))


def test_elementwise():
    check(
        elementwise,
        """
        %0 = arith.constant 3 : i8
        %1 = arith.addi %0, %0 : i8
        %2 = tensor.splat %0[%n, %n] : tensor<?x3x?xi8, "rows">
        %3 = arith.addi %2, %2 : tensor<?x3x?xi8, "rows">
        """,
    )


@pytest.mark.parametrize("is_heard", [False, True])
@pytest.mark.parametrize("hint", [None, "sum"])
@pytest.mark.parametrize("at_end", [False, True])
def test_insertion(is_heard: bool, hint: str | None, at_end: bool):
    """In order, with a name if there is one for all, and heard by listeners."""
    first, last = test.TestOp(result_types=[i8]), test.TestOp()
    block = Block([first] if at_end else [first, last])
    last_op = first if at_end else last
    builder = (
        LoweringBuilder(InsertPoint.at_end(block), location=LOCATION)
        if at_end
        else LoweringBuilder.before(last_op)
    )
    heard: list[Operation] = []
    if is_heard:
        builder.operation_insertion_handler = [heard.append]
    builder.name_hint = hint
    number = first.results[0]
    sums = [
        builder.op(arith.AddiOp, (number, number), i8),
        builder.add(arith.MuliOp(number, number)),
    ]
    ops = [value.owner for value in sums]
    assert [*block.ops] == [first, *ops, *([] if at_end else [last])]
    assert heard == (ops if is_heard else [])
    assert [value.name_hint for value in sums] == [hint, hint]
    assert [type(op) for op in ops] == [arith.AddiOp, arith.MuliOp]


def test_before_an_op_has_its_location():
    op = test.TestOp()
    Block([op])
    op.location = LOCATION
    builder = LoweringBuilder.before(op)
    assert builder.location == LOCATION
    end = builder.at_end(block := Block())
    assert end.insertion_point == InsertPoint.at_end(block)
    assert end.location == LOCATION


def test_same_op():
    old = test.TestOp(
        result_types=[i8],
        attributes={"note": StringAttr("a")},
        properties={"kind": StringAttr("b")},
    )
    block = Block([old])
    builder = LoweringBuilder(InsertPoint.before(old), location=LOCATION)
    number = builder.number(1, i8)
    region: Any = Region(Block())
    results = builder.same_op(old, (number,), (i32, i8), (region,))
    new = results[0].owner
    assert isinstance(new, test.TestOp)
    assert [*new.operands] == [number]
    assert [*new.result_types] == [i32, i8]
    assert new.attributes == old.attributes
    assert new.properties == old.properties
    assert [*new.regions] == [region]
    assert new.location == LOCATION
    assert [*block.ops] == [number.owner, new, old]
