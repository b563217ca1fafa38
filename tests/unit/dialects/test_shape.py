"""
The shape ops against MLIR's verdicts, and who has the say if xDSL gets a shape dialect.
"""

import subprocess
import sys
from collections.abc import Iterator
from itertools import product

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import (
    Builtin,
    IndexType,
    ModuleOp,
    TensorType,
    UnrankedTensorType,
    f32,
)
from xdsl.dialects.func import Func
from xdsl.dialects.test import Test
from xdsl.ir import Block
from xdsl.parser import Parser
from xdsl.traits import Pure
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.exceptions import VerifyException

from tests.conformance.answers import Accepted, Rejected
from tests.conformance.real_mlir import Mlir
from xdsl_quant.dialects.shape import (
    NumElementsOp,
    Shape,
    ShapeOfOp,
    ShapeType,
    SplitAtOp,
)

EXTENTS = TensorType(IndexType(), [-1])


@pytest.fixture(scope="module")
def mlir() -> Iterator[Mlir]:
    with Mlir() as mlir:
        yield mlir


def parse(text: str) -> ModuleOp:
    ctx = Context()
    for dialect in (Builtin, Func, Shape, Test):
        ctx.load_dialect(dialect)
    return Parser(ctx, text).parse_module()


def function(types: tuple[str, ...], op: str) -> str:
    arguments = ", ".join(f"%{index}: {type_}" for index, type_ in enumerate(types))
    return f"func.func @f({arguments}) {{\n  {op}\n  func.return\n}}"


def message(text: str) -> str | None:
    """What the verifier says about the first op in the body of a function."""
    body = parse(text).body.block.first_op
    assert body is not None
    op = body.regions[0].block.first_op
    assert op is not None
    try:
        op.verify_()
    except VerifyException as error:
        return str(error)
    return None


def questions() -> Iterator[str]:
    results = (
        "tensor<?xindex>",
        "tensor<0xindex>",
        "tensor<2xindex>",
        "tensor<2x2xindex>",
        "tensor<index>",
        "tensor<*xindex>",
        "tensor<2xi64>",
        'tensor<2xindex, "encoding">',
        "!shape.shape",
        "index",
        "memref<2xindex>",
    )
    arguments = (
        "tensor<2x3xf32>",
        "tensor<?x3xi8>",
        "tensor<f32>",
        "tensor<*xf32>",
        "memref<2x?xf32>",
        "memref<*xf32>",
        "vector<4x4xf32>",
        "!shape.value_shape",
        "!shape.shape",
        "f32",
        "tuple<f32, f32>",
    )
    for argument, result in product(arguments, results):
        yield function((argument,), f"%r = shape.shape_of %0 : {argument} -> {result}")

    sizes = ("index", "!shape.size", "i64", "tensor<index>")
    for shape, size in product(results, sizes):
        yield function((shape,), f"%r = shape.num_elements %0 : {shape} -> {size}")

    some_results = (results[0], results[2], results[6], results[8])
    for shape, index, head, tail in product(results, sizes, some_results, some_results):
        yield function(
            (shape, index),
            f'%h, %t = "shape.split_at"(%0, %1) : ({shape}, {index}) -> ({head}, {tail})',
        )


@pytest.mark.sampled(0)
def test_verdicts_are_those_of_mlir(mlir: Mlir):
    accepted = 0
    rejected = 0
    for text in questions():
        answer = mlir.run(text)
        if isinstance(answer, Accepted):
            assert message(text) is None, text
            accepted += 1
            continue
        assert isinstance(answer, Rejected), text
        assert message(text) == answer.message, text
        rejected += 1
    # That both answers occur often is the point of the list of types.
    assert (accepted, rejected) == (129, 740)


@pytest.mark.parametrize(
    "op",
    [
        "%r = shape.shape_of %0 : tensor<*xf32> -> tensor<?xindex>",
        "%r = shape.shape_of %0 {a.b} : tensor<*xf32> -> !shape.shape",
        "%r = shape.num_elements %1 : tensor<?xindex> -> index",
        "%r = shape.num_elements %1 {a.b = 1 : i8} : tensor<?xindex> -> !shape.size",
        '%head, %tail = "shape.split_at"(%1, %2) : (tensor<?xindex>, index) -> '
        "(tensor<?xindex>, tensor<?xindex>)",
    ],
)
def test_text_is_kept_and_mlir_reads_it_alike(mlir: Mlir, op: str):
    text = function(("tensor<*xf32>", "tensor<?xindex>", "index"), op)
    printed = str(parse(text))
    assert op in printed
    assert mlir.run(printed) == mlir.run(text)
    assert isinstance(mlir.run(text), Accepted)


def test_constructors():
    tensor, index = Block(arg_types=[UnrankedTensorType(f32), IndexType()]).args
    shape_of = ShapeOfOp(tensor, EXTENTS)
    split_at = SplitAtOp(shape_of, index, EXTENTS, ShapeType())
    num_elements = NumElementsOp(split_at.head)
    for op in (shape_of, split_at, num_elements):
        op.verify()
        assert op.has_trait(Pure)
    assert shape_of.result.type == EXTENTS
    assert [result.type for result in split_at.results] == [EXTENTS, ShapeType()]
    assert num_elements.result.type == IndexType()


REPEATED = """
func.func @f(%x: tensor<*xf32>, %i: index) {
  %0 = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
  %1 = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
  %2, %3 = "shape.split_at"(%0, %i) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
  %4, %5 = "shape.split_at"(%1, %i) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
  %6 = shape.num_elements %2 : tensor<?xindex> -> index
  %7 = shape.num_elements %4 : tensor<?xindex> -> index
  %8 = shape.num_elements %5 : tensor<?xindex> -> index
  "test.op"(%6, %7) : (index, index) -> ()
  func.return
}
"""  # noqa: E501 - a line that must not be broken


def test_repeated_and_dead_ops_are_removed():
    module = parse(REPEATED)
    cse(module)
    region_dce(module.body)
    function_op = module.body.block.first_op
    assert function_op is not None
    ops = list(function_op.regions[0].block.ops)
    assert [op.name for op in ops] == [
        "shape.shape_of",
        "shape.split_at",
        "shape.num_elements",
        "test.op",
        "func.return",
    ]
    count = ops[2].results[0]
    assert tuple(ops[3].operands) == (count, count)


UPSTREAM = """
import sys
import types

import xdsl.dialects
from xdsl.ir import Dialect, Operation, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition, irdl_op_definition

NAMES = {
    "ShapeOfOp": "shape.shape_of",
    "NumElementsOp": "shape.num_elements",
    "SplitAtOp": "shape.split_at",
    "BroadcastOp": "shape.broadcast",
    "ShapeType": "shape.shape",
    "SizeType": "shape.size",
    "ValueShapeType": "shape.value_shape",
}
upstream = types.ModuleType("xdsl.dialects.shape")
for class_name in sys.argv[1:]:
    fields = {"name": NAMES[class_name], "__annotations__": {}}
    if class_name.endswith("Op"):
        class_ = irdl_op_definition(type(class_name, (IRDLOperation,), fields))
    else:
        bases = (ParametrizedAttribute, TypeAttribute)
        class_ = irdl_attr_definition(type(class_name, bases, fields))
    setattr(upstream, class_name, class_)
classes = [v for v in vars(upstream).values() if isinstance(v, type)]
upstream.Shape = Dialect(
    "shape",
    [v for v in classes if issubclass(v, Operation)],
    [v for v in classes if not issubclass(v, Operation)],
)
sys.modules["xdsl.dialects.shape"] = upstream
stock = xdsl.dialects.get_all_dialects
xdsl.dialects.get_all_dialects = lambda: {**stock(), "shape": lambda: upstream.Shape}

from xdsl_quant.dialects import shape

registered = [*shape.Shape.operations, *shape.Shape.attributes]
assert len(registered) == len({class_.name for class_ in registered})
for class_name in NAMES:
    if (class_ := getattr(shape, class_name, None)) is None:
        continue
    assert class_ in registered, class_name
    is_theirs = class_ is getattr(upstream, class_name, None)
    print(class_name, "theirs" if is_theirs else "ours")
print(len(registered), "classes")
print("their dialect" if shape.Shape is upstream.Shape else "our dialect")
"""


def run_with_upstream(*class_names: str) -> list[str]:
    """Import our module with an xDSL that has the given classes of the dialect."""
    result = subprocess.run(
        [sys.executable, "-c", UPSTREAM, *class_names],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not result.returncode, result.stderr
    return result.stdout.splitlines()


def test_classes_of_xdsl_are_used_if_it_has_them():
    operations = ("ShapeOfOp", "NumElementsOp", "SplitAtOp")
    types = ("ShapeType", "SizeType", "ValueShapeType")
    assert run_with_upstream(*operations, "BroadcastOp", *types) == [
        "ShapeOfOp theirs",
        "NumElementsOp theirs",
        "SplitAtOp theirs",
        "ShapeType theirs",
        "SizeType theirs",
        "ValueShapeType theirs",
        "7 classes",
        "their dialect",
    ]


def test_ours_complete_those_of_xdsl():
    assert run_with_upstream("ShapeOfOp", "BroadcastOp", "SizeType") == [
        "ShapeOfOp theirs",
        "NumElementsOp ours",
        "SplitAtOp ours",
        "ShapeType ours",
        "SizeType theirs",
        "ValueShapeType ours",
        "7 classes",
        "our dialect",
    ]


def test_ours_are_used_if_xdsl_has_none():
    for op_type in (ShapeOfOp, NumElementsOp, SplitAtOp):
        assert op_type.__module__ == "xdsl_quant.dialects.shape"
        assert op_type in Shape.operations
