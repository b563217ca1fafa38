"""
The target `mlir-aliased`: MLIR text with an alias, `!q0 = !quant...`, for each quantized
type, so that a long per-axis type is written once per file and not once per use.
"""

from dataclasses import dataclass
from io import StringIO
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute
from xdsl.printer import Printer
from xdsl.syntax_printer import SyntaxPrinter
from xdsl.targets.mlir import MLIRTarget

from xdsl_quant.dialects.quant import QuantizedType


class AliasPrinter(Printer):
    """
    A printer that replaces quantized types by aliases.

    After printing, write `definitions` in front of the printed text.
    """

    aliases: dict[QuantizedType, str]
    """The alias of each type; printers may share this dictionary."""

    used_types: dict[QuantizedType, None]
    """The types printed so far, in order of first use."""

    def __init__(
        self,
        stream: IO[str] | None = None,
        *,
        aliases: dict[QuantizedType, str] | None = None,
        print_generic_format: bool = False,
        print_properties_as_attributes: bool = False,
        print_debuginfo: bool = False,
    ) -> None:
        # `Printer` is a dataclass with a generated `__init__` only before xDSL 0.75.
        super().__init__(
            stream,
            print_generic_format=print_generic_format,
            print_properties_as_attributes=print_properties_as_attributes,
            print_debuginfo=print_debuginfo,
        )
        self.aliases = {} if aliases is None else aliases
        self.used_types = {}

    def print_attribute(self, attribute: Attribute) -> None:
        if not isinstance(attribute, QuantizedType):
            super().print_attribute(attribute)
            return
        if (alias := self.aliases.get(attribute)) is None:
            alias = self.aliases[attribute] = f"!q{len(self.aliases)}"
        self.used_types[attribute] = None
        self.print_string(alias)

    @property
    def definitions(self) -> str:
        """The alias definitions of all printed types: one line `!q0 = !quant...` each."""
        return "".join(
            f"{self.aliases[type_]} = {type_}\n" for type_ in self.used_types
        )


class AliasSyntaxPrinter(AliasPrinter, SyntaxPrinter):
    """An `AliasPrinter` with colours for a terminal."""


@dataclass(frozen=True)
class MLIRAliasedTarget(MLIRTarget):
    """
    Print MLIR text with an alias for each quantized type; options are those of the
    target `mlir`.

    Aliases are `!q0`, `!q1`, ... in order of first use. xDSL and MLIR parse the text to
    the same module as the output of the target `mlir`.

    Example: `xdsl-opt -t mlir-aliased` or `-t 'mlir-aliased{print-debuginfo=true}'` prints

    ```mlir
    !q0 = !quant.uniform<i8:f32, 5.000000e-01>
    builtin.module {
      func.func private @f(tensor<4x!q0>) -> !q0
    }
    ```
    """

    name = "mlir-aliased"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        printer_type = AliasSyntaxPrinter if self.syntax_highlight else AliasPrinter
        body = StringIO()
        printer = printer_type(
            stream=body,
            print_generic_format=self.print_generic_format,
            print_properties_as_attributes=self.print_properties_as_attributes,
            print_debuginfo=self.print_debuginfo,
        )
        printer.print_op(module)
        printer.print_metadata(ctx.loaded_dialects)
        output.write(f"{printer.definitions}{body.getvalue()}\n")
