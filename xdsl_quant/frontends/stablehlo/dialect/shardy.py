"""
Shardings of [Shardy](https://openxla.org/shardy), as JAX prints them on functions and ops:
their text is kept, and lowered modules have none.
"""

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
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    prop_def,
    traits_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter
from xdsl.traits import SymbolOpInterface
from xdsl.utils.hints import isa

__all__ = ["SDY", "MeshOp", "ShardyAttr", "erase_shardings"]


class ShardyAttr(ParametrizedAttribute, ABC):
    """Attribute whose body is kept as text."""

    body: StringAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        body = parser._parse_dialect_symbol_body()  # pyright: ignore[reportPrivateUsage] no public way
        return (StringAttr(body),)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.body.data}>")


@irdl_attr_definition
class ManualAxesAttr(ShardyAttr):
    """`#sdy<manual_axes{"x"}>`"""

    name = "sdy.manual_axes"


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
    def parse(cls, parser: Parser) -> "MeshOp":
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


def erase_shardings(module: ModuleOp) -> None:
    """Erase meshes, and shardings of ops, arguments and results."""
    for op in [*module.walk()]:
        if isinstance(op, MeshOp):
            Rewriter.erase_op(op)
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
    [MeshOp],
    [
        ManualAxesAttr,
        MeshAttr,
        OpShardingRuleAttr,
        TensorShardingAttr,
        TensorShardingPerValueAttr,
    ],
)
"""Dialect of shardings."""
