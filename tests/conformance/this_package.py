"""The same questions to this package, in this process."""

import traceback
from collections.abc import Callable
from functools import cache
from io import StringIO

from xdsl.context import Context
from xdsl.ir import Attribute, Operation
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.printer import Printer
from xdsl.universe import Universe
from xdsl.utils.exceptions import DiagnosticException, ParseError
from xdsl.utils.mlir_lexer import MLIRTokenKind

from .answers import Accepted, Answer, Crashed, Diagnostic, Rejected


@cache
def _context() -> Context:
    """A context with every dialect that `xdsl-opt` has, loaded when it is used."""
    context = Context()
    for name, factory in Universe.get_multiverse().all_dialects.items():
        context.register_dialect(name, factory)
    return context


def _answer(question: Callable[[], str]) -> Answer:
    try:
        return Accepted(question())
    except ParseError as e:
        location = e.span.get_location()
        return Rejected((Diagnostic(location.line, location.col, e.msg),))
    except DiagnosticException as e:
        # The errors of verifiers and passes have no place in the text.
        return Rejected((Diagnostic(0, 0, str(e)),))
    except Exception as e:
        return Crashed("".join(traceback.format_exception(e, limit=-8)))


def parse_type(text: str) -> Attribute:
    """
    The type that `text` is.

    Raises:
        ParseError: if it is none, with MLIR's words for what follows a type.
    """
    parser = Parser(_context(), text)
    parsed = parser.parse_type()
    token = parser._current_token  # pyright: ignore[reportPrivateUsage] no public way
    if token.kind is not MLIRTokenKind.EOF:
        rest = text[token.span.start :]
        parser.raise_error(f"found trailing characters: '{rest}'")
    return parsed


def answer_type(text: str) -> Answer:
    """What this package says about the text of a type."""
    return _answer(lambda: str(parse_type(text)))


def _text_of(module: Operation, generic: bool) -> str:
    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    return stream.getvalue()


def _run(text: str, passes: tuple[ModulePass, ...], generic: bool) -> str:
    module = Parser(_context(), text).parse_module()
    module.verify()
    for module_pass in passes:
        module_pass.apply(_context(), module)
        module.verify()
    return _text_of(module, generic)


def answer_module(
    text: str, passes: tuple[ModulePass, ...] = (), *, generic: bool = False
) -> Answer:
    """What this package says about a module, after some passes."""
    return _answer(lambda: _run(text, passes, generic))
