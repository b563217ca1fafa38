"""
The target `mlir-main`: MLIR text that MLIR 22 and MLIR's main branch read.

Main replaces the attribute dictionaries of TOSA ops, `{max_val = 1 : i8}`, by other custom
forms. The generic form of an op is the same in all versions.
"""

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.printer import Printer
from xdsl.syntax_printer import SyntaxPrinter
from xdsl.targets.mlir import MLIRTarget


class MainPrinter(Printer):
    """A printer that prints TOSA ops with properties in generic form."""

    def print_op(self, op: Operation) -> None:
        is_generic = self.print_generic_format
        if op.name.startswith("tosa.") and op.properties:
            self.print_generic_format = True
        super().print_op(op)
        self.print_generic_format = is_generic


class MainSyntaxPrinter(MainPrinter, SyntaxPrinter):
    """A `MainPrinter` with colours for a terminal."""


@dataclass(frozen=True)
class MLIRMainTarget(MLIRTarget):
    """Print MLIR text for MLIR 22 and main; options are those of the target `mlir`."""

    name = "mlir-main"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        printer_type = MainSyntaxPrinter if self.syntax_highlight else MainPrinter
        printer = printer_type(
            stream=output,
            print_generic_format=self.print_generic_format,
            print_properties_as_attributes=self.print_properties_as_attributes,
            print_debuginfo=self.print_debuginfo,
        )
        printer.print_op(module)
        printer.print_metadata(ctx.loaded_dialects)
        output.write("\n")
