"""The fallback on operations of a small dialect that is made here."""

import contextlib
import io
import re
from collections.abc import Sequence
from inspect import cleandoc
from textwrap import dedent, indent

import pytest
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, StringAttr
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.dialects.quant import DequantizeCastOp, Quant
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.dequantize_fallback import (
    DequantizeFallback,
    lower_with_fallback,
    replace_with_built,
)


@irdl_op_definition
class NegOp(IRDLOperation):
    name = "toy.neg"
    value = operand_def()
    negated = result_def()


@irdl_op_definition
class ManyOp(IRDLOperation):
    """Any number of operands, and as many results of the same expressed types."""

    name = "toy.many"
    values = var_operand_def()
    outputs = var_result_def()


class LowerNeg(DequantizeFallback[NegOp]):
    op_type = NegOp

    def lower_float(
        self,
        op: NegOp,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        builder: Builder,
    ) -> Sequence[SSAValue]:
        negf_op = builder.insert(arith.NegfOp(operands[0]))
        assert negf_op.result.type == result_types[0]
        return negf_op.results


class LowerNegOfFloats(LowerNeg):
    lowers_float_ops = True


class LowerMany(DequantizeFallback[ManyOp]):
    """Lowers to one operation that shows what the lowering is given."""

    op_type = ManyOp

    def lower_float(
        self,
        op: ManyOp,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        builder: Builder,
    ) -> Sequence[SSAValue]:
        return builder.insert(
            ManyOp.create(operands=operands, result_types=result_types)
        ).results


ALIASES = """
!q = !quant.uniform<i8:f32, 5.000000e-01>
!h = !quant.uniform<u8:f16, 2.000000e+00:128>
!a = !quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}>
!s = !quant.uniform<i8:f32:{0:2}, {{5.000000e-01}, {2.500000e-01}}>
!c = !quant.calibrated<f32<-1.000000e+00:1.000000e+00>>
"""


def parse(text: str) -> builtin.ModuleOp:
    ctx = Context()
    toy = Dialect("toy", [NegOp, ManyOp])
    for dialect in (arith.Arith, builtin.Builtin, func.Func, Quant, toy):
        ctx.load_dialect(dialect)
    return Parser(ctx, ALIASES + text).parse_module()


def lowered(text: str, *patterns: RewritePattern) -> str:
    """The body of the only function of `text` after lowering, with short types."""
    module = parse(text)
    module.verify()
    lower_with_fallback(module, patterns or (LowerNeg(), LowerMany()))
    module.verify()
    return body_text(module)


def body_text(module: builtin.ModuleOp) -> str:
    printed = str(module)
    for name, type_ in re.findall(r"(!\w+) = (.*)\n", ALIASES):
        printed = printed.replace(type_, name)
    return dedent("\n".join(printed.splitlines()[2:-2])) + "\n"


def check(text: str, expected: str, *patterns: RewritePattern) -> None:
    assert lowered(text, *patterns) == dedent(expected).lstrip()


def test_worked_example():
    """The example of the documentation prints what it says."""
    documentation = cleandoc(DequantizeFallback.__doc__ or "")
    blocks = re.findall(r"```\w+\n(.*?)```", documentation, re.DOTALL)
    code, printed = blocks
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, {"__name__": "example"})
    assert output.getvalue() == printed


@pytest.mark.parametrize(
    ("quantized", "expressed"),
    [
        ("!q", "f32"),
        ("!h", "f16"),
        ("!c", "f32"),
        ("tensor<!q>", "tensor<f32>"),
        ("tensor<4x?x!q>", "tensor<4x?xf32>"),
        ("tensor<*x!q>", "tensor<*xf32>"),
        ('tensor<4x!q, "encoded">', 'tensor<4xf32, "encoded">'),
        ("tensor<3x2x!a>", "tensor<3x2xf32>"),
        ("tensor<*x!a>", "tensor<*xf32>"),
        ("tensor<4x3x!s>", "tensor<4x3xf32>"),
    ],
)
def test_containers(quantized: str, expressed: str):
    check(
        f"""
        func.func @f(%x : {quantized}) -> {quantized} {{
          %y = "toy.many"(%x) : ({quantized}) -> {quantized}
          func.return %y : {quantized}
        }}
        """,
        f"""
        %x_{element(expressed)} = quant.dcast %x : {quantized} to {expressed}
        %y_{element(expressed)} = "toy.many"(%x_{element(expressed)}) : ({expressed}) -> {expressed}
        %y = quant.qcast %y_{element(expressed)} : {expressed} to {quantized}
        func.return %y : {quantized}
        """,  # noqa: E501 - a line that must not be broken
    )


def element(type_: str) -> str:
    found = re.search(r"f\d+", type_)
    assert found is not None
    return found[0]


def test_mixed_operands_and_results():
    check(
        """
        func.func @f(%x : tensor<2x!q>, %y : tensor<2xf32>, %z : !h, %i : index, %n : i8)
            -> (tensor<2xf32>, !h, tensor<2x!q>, i1) {
          %0, %r, %s, %t = "toy.many"(%x, %y, %z, %i, %n)
            : (tensor<2x!q>, tensor<2xf32>, !h, index, i8)
            -> (tensor<2xf32>, !h, tensor<2x!q>, i1)
          func.return %0, %r, %s, %t : tensor<2xf32>, !h, tensor<2x!q>, i1
        }
        """,
        """
        %x_f32 = quant.dcast %x : tensor<2x!q> to tensor<2xf32>
        %z_f16 = quant.dcast %z : !h to f16
        %0, %r_f16, %s_f32, %t = "toy.many"(%x_f32, %y, %z_f16, %i, %n) : (tensor<2xf32>, tensor<2xf32>, f16, index, i8) -> (tensor<2xf32>, f16, tensor<2xf32>, i1)
        %r = quant.qcast %r_f16 : f16 to !h
        %s = quant.qcast %s_f32 : tensor<2xf32> to tensor<2x!q>
        func.return %0, %r, %s, %t : tensor<2xf32>, !h, tensor<2x!q>, i1
        """,  # noqa: E501 - a line that must not be broken
    )


def test_only_the_result_is_quantized():
    check(
        """
        func.func @f(%x : f32) -> !q {
          %y = "toy.neg"(%x) : (f32) -> !q
          func.return %y : !q
        }
        """,
        """
        %y_f32 = arith.negf %x : f32
        %y = quant.qcast %y_f32 : f32 to !q
        func.return %y : !q
        """,
    )


def test_no_result():
    check(
        """
        func.func @f(%x : !q) {
          "toy.many"(%x) : (!q) -> ()
          func.return
        }
        """,
        """
        %x_f32 = quant.dcast %x : !q to f32
        "toy.many"(%x_f32) : (f32) -> ()
        func.return
        """,
    )


FLOATS = """
func.func @f(%x : f32, %i : i8) -> f32 {
  %y = "toy.neg"(%x) : (f32) -> f32
  "toy.many"(%i) : (i8) -> ()
  func.return %y : f32
}
"""


def test_without_quantized_values_nothing_happens():
    check(
        FLOATS,
        """
        %y = "toy.neg"(%x) : (f32) -> f32
        "toy.many"(%i) : (i8) -> ()
        func.return %y : f32
        """,
    )


def test_float_operations_on_request():
    check(
        FLOATS,
        """
        %y = arith.negf %x : f32
        "toy.many"(%i) : (i8) -> ()
        func.return %y : f32
        """,
        LowerNegOfFloats(),
        LowerMany(),
    )


def test_values_without_names():
    check(
        """
        func.func @f(%0 : !q) -> !q {
          %1 = "toy.neg"(%0) : (!q) -> !q
          func.return %1 : !q
        }
        """,
        """
        %1 = quant.dcast %0 : !q to f32
        %2 = arith.negf %1 : f32
        %3 = quant.qcast %2 : f32 to !q
        func.return %3 : !q
        """,
    )


def test_locations():
    module = parse(
        """
        func.func @f(%x : !q) -> !q {
          %y = "toy.neg"(%x) : (!q) -> !q loc("model.mlir":3:7)
          func.return %y : !q
        }
        """
    )
    lower_with_fallback(module, [LowerNeg()])
    location = FileLineColLoc(StringAttr("model.mlir"), IntAttr(3), IntAttr(7))
    new_ops = [op for op in module.walk() if op.name.startswith(("quant.", "arith."))]
    assert [op.location for op in new_ops] == [location] * 3


def test_builders_have_the_location_of_what_is_replaced():
    module = parse(
        """
        func.func @f(%x : !q) -> !q {
          %y = "toy.neg"(%x) : (!q) -> !q loc("model.mlir":3:7)
          func.return %y : !q
        }
        """
    )
    (op,) = (op for op in module.walk() if isinstance(op, NegOp))
    locations: list[LocationAttr] = []

    def build(builder: LoweringBuilder) -> Sequence[SSAValue]:
        locations.append(builder.location)
        return op.operands

    replace_with_built(op, PatternRewriter(op), build)
    assert locations == [
        FileLineColLoc(StringAttr("model.mlir"), IntAttr(3), IntAttr(7))
    ]


class LowerNegElsewhere(LowerNeg):
    """A lowering that gives its operation a location."""

    LOCATION = FileLineColLoc(StringAttr("lowering"), IntAttr(1), IntAttr(1))

    def lower_float(
        self,
        op: NegOp,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        builder: Builder,
    ) -> Sequence[SSAValue]:
        negf_op = builder.insert(arith.NegfOp(operands[0]))
        negf_op.location = self.LOCATION
        negf_op.result.name_hint = "minus_x"
        return negf_op.results


def test_location_and_name_of_the_lowering_stay():
    module = parse(
        """
        func.func @f(%x : !q) -> !q {
          %y = "toy.neg"(%x) : (!q) -> !q loc("model.mlir":3:7)
          func.return %y : !q
        }
        """
    )
    lower_with_fallback(module, [LowerNegElsewhere()])
    (negf_op,) = (op for op in module.walk() if isinstance(op, arith.NegfOp))
    assert negf_op.location == LowerNegElsewhere.LOCATION
    assert negf_op.result.name_hint == "minus_x"


class NegOfScalarIsNothing(RewritePattern):
    """A pattern that lowers one case without casts."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: NegOp, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op.value.type, builtin.TensorType):
            rewriter.replace(op, (), [op.value])


SCALAR_AND_TENSOR = """
func.func @f(%x : !q, %t : tensor<4x!q>) -> (!q, tensor<4x!q>) {
  %y = "toy.neg"(%x) : (!q) -> !q
  %u = "toy.neg"(%t) : (tensor<4x!q>) -> tensor<4x!q>
  func.return %y, %u : !q, tensor<4x!q>
}
"""


def test_direct_pattern_before_the_fallback():
    check(
        SCALAR_AND_TENSOR,
        """
        %t_f32 = quant.dcast %t : tensor<4x!q> to tensor<4xf32>
        %u_f32 = arith.negf %t_f32 : tensor<4xf32>
        %u = quant.qcast %u_f32 : tensor<4xf32> to tensor<4x!q>
        func.return %x, %u : !q, tensor<4x!q>
        """,
        NegOfScalarIsNothing(),
        LowerNeg(),
    )


def test_fallback_before_a_direct_pattern():
    check(
        SCALAR_AND_TENSOR,
        """
        %x_f32 = quant.dcast %x : !q to f32
        %y_f32 = arith.negf %x_f32 : f32
        %y = quant.qcast %y_f32 : f32 to !q
        %t_f32 = quant.dcast %t : tensor<4x!q> to tensor<4xf32>
        %u_f32 = arith.negf %t_f32 : tensor<4xf32>
        %u = quant.qcast %u_f32 : tensor<4xf32> to tensor<4x!q>
        func.return %y, %u : !q, tensor<4x!q>
        """,
        LowerNeg(),
        NegOfScalarIsNothing(),
    )


class LowerManyOnce(LowerMany):
    """Would lower what it creates, but is not asked to."""

    lowers_float_ops = True
    count = 0

    def lower_float(
        self,
        op: ManyOp,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        builder: Builder,
    ) -> Sequence[SSAValue]:
        self.count += 1
        assert self.count < 5
        return super().lower_float(op, operands, result_types, builder)


def test_what_is_created_or_unused_stays():
    pattern = LowerManyOnce()
    check(
        """
        func.func @f(%x: tensor<2x!q>) {
          %c = arith.constant 1.000000e+00 : f32
          %y = "toy.many"(%x) : (tensor<2x!q>) -> tensor<2x!q>
          func.return
        }
        """,
        """
        %c = arith.constant 1.000000e+00 : f32
        %x_f32 = quant.dcast %x : tensor<2x!q> to tensor<2xf32>
        %y_f32 = "toy.many"(%x_f32) : (tensor<2xf32>) -> tensor<2xf32>
        %y = quant.qcast %y_f32 : tensor<2xf32> to tensor<2x!q>
        func.return
        """,
        pattern,
    )
    assert pattern.count == 1


def test_nested_operations():
    module = parse(
        """
        builtin.module {
          func.func @f(%x : !q) -> !q {
            %y = "toy.neg"(%x) : (!q) -> !q
            func.return %y : !q
          }
        }
        """
    )
    lower_with_fallback(module, [LowerNeg()])
    assert not any(isinstance(op, NegOp) for op in module.walk())


NO_EXPRESSED_TYPE = """
func.func @f(%x : !q, %a : tensor<4x!quant.any<i8>>) -> !q {
  %y = "toy.neg"(%x) : (!q) -> !q
  %b = "toy.neg"(%a) : (tensor<4x!quant.any<i8>>) -> tensor<4x!quant.any<i8>>
  func.return %y : !q
}
"""

WRONG_AXIS = """
func.func @f(%x : !q) -> !q {
  %y = "toy.neg"(%x) : (!q) -> !q
  %b = "toy.many"(%x) : (!q) -> tensor<4x!a>
  func.return %y : !q
}
"""

WRONG_BLOCKS = """
func.func @f(%x : tensor<5x2x!s>) {
  %b = "toy.neg"(%x) : (tensor<5x2x!s>) -> f32
  func.return
}
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            NO_EXPRESSED_TYPE,
            "'toy.neg' op operand #0 cannot be dequantized: '!quant.any<i8>' has no "
            "expressed type",
        ),
        (
            WRONG_AXIS,
            "'toy.many' op result #0 cannot be dequantized: quantized dimension must "
            "be less than tensor rank",
        ),
        (
            WRONG_BLOCKS,
            "'toy.neg' op operand #0 cannot be dequantized: tensor dimension size 5 at "
            "axis 0 must be divisible by the corresponding block size 2",
        ),
    ],
)
def test_errors_leave_the_module_alone(text: str, message: str):
    module = parse(text)
    before = str(module)
    with pytest.raises(PassFailedException) as e:
        lower_with_fallback(module, [LowerNeg(), LowerMany()])
    assert str(e.value) == message
    (note,) = e.value.__notes__
    assert f"| {message}\n" in note
    assert str(module) == before
    assert not any(isinstance(op, DequantizeCastOp) for op in users(module))


def users(module: builtin.ModuleOp) -> list[Operation]:
    """All operations that use a value of the module, wherever they are."""
    blocks = [b for op in module.walk() for region in op.regions for b in region.blocks]
    values = [arg for block in blocks for arg in block.args]
    values += [result for op in module.walk() for result in op.results]
    return [use.operation for value in values for use in value.uses]


def test_error_of_the_pattern_alone():
    module = parse(NO_EXPRESSED_TYPE)
    with pytest.raises(PassFailedException, match="has no expressed type"):
        PatternRewriteWalker(LowerNeg()).rewrite_module(module)


class LowerNegOfTensors(LowerNeg):
    def check(self, op: NegOp) -> None:
        super().check(op)
        if not isinstance(op.value.type, builtin.TensorType):
            op.emit_error("only tensors", PassFailedException("only tensors"))


def test_subclass_refuses_more():
    module = parse(indent(WRONG_BLOCKS.replace("tensor<5x2x!s>", "!q"), "  "))
    with pytest.raises(PassFailedException, match="only tensors"):
        lower_with_fallback(module, [LowerNegOfTensors()])


def test_wrong_number_of_results():
    class LowerNegToNothing(LowerNeg):
        def lower_float(
            self,
            op: NegOp,
            operands: Sequence[SSAValue],
            result_types: Sequence[Attribute],
            builder: Builder,
        ) -> Sequence[SSAValue]:
            return ()

    with pytest.raises(ValueError, match="argument 2 is longer"):
        lowered(WRONG_AXIS, LowerNegToNothing())
