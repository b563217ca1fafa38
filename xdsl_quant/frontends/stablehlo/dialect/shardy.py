"""
Shardings of [Shardy](https://openxla.org/shardy), as JAX prints them on functions and ops:
their text is kept, and lowered modules have none.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    SymbolNameConstraint,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import (
    Attribute,
    Dialect,
    ParametrizedAttribute,
    SpacedOpaqueSyntaxAttribute,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator, Pure, SymbolOpInterface
from xdsl.utils.hints import isa

__all__ = [
    "SDY",
    "ManualComputationOp",
    "MeshOp",
    "ShardingConstraintOp",
    "ShardyAttr",
    "ShardyReturnOp",
    "erase_shardings",
]


class ShardyAttr(ParametrizedAttribute, ABC):
    """Attribute whose body is kept as text."""

    body: StringAttr

    @classmethod
    def parse_body(cls, parser: AttrParser) -> str:
        """Parse `<...>`, and return the text between the brackets."""
        return parser._parse_dialect_symbol_body()  # pyright: ignore[reportPrivateUsage] no public way

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return (StringAttr(cls.parse_body(parser)),)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.body.data}>")


@irdl_attr_definition
class ManualAxesAttr(ParametrizedAttribute, SpacedOpaqueSyntaxAttribute):
    """`#sdy<manual_axes {"x", "y"}>`"""

    name = "sdy.manual_axes"

    axes: ArrayAttr[StringAttr]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        axes = parser.parse_comma_separated_list(
            parser.Delimiter.BRACES, parser.parse_str_literal
        )
        return (ArrayAttr(map(StringAttr, axes)),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_braces():
            printer.print_list(self.axes, printer.print_attribute)


@irdl_attr_definition
class MeshAttr(ShardyAttr):
    """`#sdy.mesh<["x"=2, "y"=4]>`"""

    name = "sdy.mesh"


@irdl_attr_definition
class OpShardingRuleAttr(ShardyAttr):
    """`#sdy.op_sharding_rule<([i, j])->([i, j]) {i=4, j=4}>`"""

    name = "sdy.op_sharding_rule"


@irdl_attr_definition
class TensorShardingAttr(ShardyAttr):
    """`#sdy.sharding<@mesh, [{"x"}, {}]>`"""

    name = "sdy.sharding"


@irdl_attr_definition
class TensorShardingPerValueAttr(ShardyAttr):
    """`#sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>`"""

    name = "sdy.sharding_per_value"


@irdl_op_definition
class MeshOp(IRDLOperation):
    """
    Mesh of devices.

    Example:

    ```mlir
    sdy.mesh @mesh = <["x"=2, "y"=4]>
    ```
    """

    name = "sdy.mesh"

    sym_name = prop_def(SymbolNameConstraint())
    mesh = prop_def(MeshAttr)

    traits = traits_def(SymbolOpInterface())

    @classmethod
    def parse(cls, parser: Parser) -> MeshOp:
        name = parser.parse_symbol_name()
        parser.parse_punctuation("=")
        mesh = MeshAttr.new(MeshAttr.parse_parameters(parser))
        attributes = parser.parse_optional_attr_dict()
        return cls.build(
            properties={"sym_name": name, "mesh": mesh}, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(" = ")
        self.mesh.print_parameters(printer)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class ShardingConstraintOp(IRDLOperation):
    """
    Tensor with a sharding.

    Example:

    ```mlir
    %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {}]> : tensor<8x4xf32>
    ```
    """

    name = "sdy.sharding_constraint"

    input = operand_def()
    sharding = prop_def(TensorShardingAttr)
    result = result_def()

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ShardingConstraintOp:
        operand = parser.parse_unresolved_operand()
        sharding = TensorShardingAttr.new(TensorShardingAttr.parse_parameters(parser))
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        return cls.build(
            operands=[parser.resolve_operand(operand, type_)],
            result_types=[type_],
            properties={"sharding": sharding},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.input)
        printer.print_string(" ")
        self.sharding.print_parameters(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class ShardyReturnOp(IRDLOperation):
    """Terminator that returns the results of `sdy.manual_computation`."""

    name = "sdy.return"

    results_ = var_operand_def()

    assembly_format = "attr-dict ($results_^ `:` type($results_))?"

    traits = traits_def(Pure(), IsTerminator())


@irdl_op_definition
class ManualComputationOp(IRDLOperation):
    """
    Computation of each device on its shards, in which devices communicate by collectives.

    Example:

    ```mlir
    %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"x"}]>]
        out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%a: tensor<4xf32>) {
      sdy.return %a : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    ```
    """

    name = "sdy.manual_computation"

    inputs = var_operand_def()
    in_shardings = prop_def(TensorShardingPerValueAttr)
    out_shardings = prop_def(TensorShardingPerValueAttr)
    manual_axes = prop_def(ManualAxesAttr)
    body = region_def("single_block")
    results_ = var_result_def()

    @classmethod
    def parse(cls, parser: Parser) -> ManualComputationOp:
        pos, paren = parser.pos, parser.Delimiter.PAREN
        operands = parser.parse_comma_separated_list(
            paren, parser.parse_unresolved_operand
        )
        shardings = {
            name: _parse_shardings(parser, name)
            for name in ("in_shardings", "out_shardings")
        }
        parser.parse_keyword("manual_axes")
        parser.parse_punctuation("=")
        axes = ManualAxesAttr.new(ManualAxesAttr.parse_parameters(parser))
        arguments = parser.parse_comma_separated_list(paren, parser.parse_argument)
        region = parser.parse_region(arguments)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_function_type()
        return cls.build(
            operands=[parser.resolve_operands(operands, type_.inputs.data, pos)],
            result_types=[type_.outputs.data],
            properties={**shardings, "manual_axes": axes},
            attributes=attributes,
            regions=[region],
        )

    def print(self, printer: Printer) -> None:
        with printer.in_parens():
            printer.print_list(self.inputs, printer.print_ssa_value)
        for name, shardings in (
            ("in_shardings", self.in_shardings),
            ("out_shardings", self.out_shardings),
        ):
            printer.print_string(f" {name}={shardings.body.data}")
        printer.print_string(" manual_axes=")
        self.manual_axes.print_parameters(printer)
        printer.print_string(" ")
        with printer.in_parens():
            printer.print_list(self.body.block.args, printer.print_block_argument)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)


def _parse_shardings(parser: Parser, name: str) -> TensorShardingPerValueAttr:
    """Parse `name=[<...>, ...]`."""
    parser.parse_keyword(name)
    parser.parse_punctuation("=")
    bodies = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: TensorShardingAttr.parse_body(parser)
    )
    body = ", ".join(f"<{body}>" for body in bodies)
    return TensorShardingPerValueAttr.new([StringAttr(f"[{body}]")])


def erase_shardings(module: ModuleOp) -> None:
    """Erase meshes, constraints, and shardings of ops, arguments and results."""
    for op in [*module.walk()]:
        if isinstance(op, MeshOp):
            Rewriter.erase_op(op)
            continue
        if isinstance(op, ShardingConstraintOp):
            Rewriter.replace_op(op, (), op.operands)
            continue
        for name in [n for n, a in op.attributes.items() if isinstance(a, ShardyAttr)]:
            del op.attributes[name]
        if isinstance(op, FuncOp):
            for name in ("arg_attrs", "res_attrs"):
                _erase_from_values(op, name)


def _erase_from_values(op: FuncOp, name: str) -> None:
    """Erase the shardings in the attributes of arguments or results."""
    values = op.properties.get(name)
    if not isa(values, ArrayAttr[DictionaryAttr]):
        return
    op.properties[name] = ArrayAttr(
        DictionaryAttr(
            {n: a for n, a in value.data.items() if not isinstance(a, ShardyAttr)}
        )
        for value in values
    )


SDY = Dialect(
    "sdy",
    [ManualComputationOp, MeshOp, ShardingConstraintOp, ShardyReturnOp],
    [
        ManualAxesAttr,
        MeshAttr,
        OpShardingRuleAttr,
        TensorShardingAttr,
        TensorShardingPerValueAttr,
    ],
)
"""Dialect of shardings."""
