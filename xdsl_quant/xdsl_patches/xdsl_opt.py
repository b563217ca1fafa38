"""
Patches of the tool `xdsl-opt`: located errors without traceback.

They are applied only in programs that have imported the tool.
"""

import sys
from argparse import ArgumentParser
from importlib import import_module
from types import TracebackType
from typing import IO, NoReturn

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser

from xdsl_quant.diagnostics import locate

_TOOL = "xdsl.xdsl_opt_main"

_REPORT = "xdsl_quant.runtime.xdsl_opt_errors"
"""Module of the messages, which is imported on the first error."""


def record_op_locations() -> None:
    """
    Record the location of each op while `xdsl-opt` parses a file, for error messages and
    warnings. With `--print-debuginfo` or `--verify-diagnostics`, the output remains that of
    xDSL.

    MLIR: records and prints them.
    Obsolete with: `docs/upstream/xdsl-opt-errors.md`.
    """
    tool = sys.modules[_TOOL].xDSLOptMain
    parse_chunk = tool.parse_chunk

    def parse_located_chunk(
        self: object, chunk: IO[bytes], file_extension: str, start_offset: int = 0
    ) -> ModuleOp | None:
        parse_operation = Parser.parse_operation

        def parse_located_operation(self: Parser) -> Operation:
            start = self.pos
            op = parse_operation(self)
            locate(op, self, start, start_offset)
            return op

        args = vars(self)["args"]
        if not (args.print_debuginfo or args.verify_diagnostics):
            Parser.parse_operation = parse_located_operation
        try:
            return parse_chunk(self, chunk, file_extension, start_offset)
        finally:
            Parser.parse_operation = parse_operation

    tool.parse_chunk = parse_located_chunk


def print_errors_without_traceback() -> None:
    """
    Print errors of the input of `xdsl-opt` as a located sentence, the source line and a
    caret, unless `XDSL_QUANT_TRACEBACK` is set. Other exceptions keep their traceback.

    MLIR: prints errors in this form.
    Obsolete with: `docs/upstream/xdsl-opt-errors.md`.
    """
    print_traceback = sys.excepthook

    def print_error(
        kind: type[BaseException],
        error: BaseException,
        traceback: TracebackType | None,
    ) -> None:
        if not import_module(_REPORT).print_user_error(error):
            print_traceback(kind, error, traceback)

    sys.excepthook = print_error


def print_errors_without_usage() -> None:
    """
    Print errors of the arguments of `xdsl-opt` without the list of all its options.

    MLIR: prints errors in this form.
    Obsolete with: `docs/upstream/xdsl-opt-errors.md`.
    """
    tool = sys.modules[_TOOL].xDSLOptMain
    register_all_arguments = tool.register_all_arguments

    def register_quiet_arguments(self: object, parser: ArgumentParser) -> None:
        def error(message: str) -> NoReturn:
            parser.exit(
                2, f"{parser.prog}: error: {message}\nSee {parser.prog} --help\n"
            )

        register_all_arguments(self, parser)
        parser.error = error

    tool.register_all_arguments = register_quiet_arguments


PATCHES = (
    record_op_locations,
    print_errors_without_traceback,
    print_errors_without_usage,
)
