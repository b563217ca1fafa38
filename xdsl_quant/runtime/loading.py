"""
Parsing of modules, types, model files and pass pipelines, and application of passes,
outside of `xdsl-opt`.

Each user error is an [`IRError`][xdsl_quant.runtime.loading.IRError]: one sentence,
with its location in the text if known.
"""

import io
import os
from codecs import getincrementaldecoder
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from re import fullmatch, match, search
from typing import BinaryIO, TypeAlias, TypeGuard, Unpack, cast

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.printer import Printer
from xdsl.universe import Universe
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline
from xdsl.utils.exceptions import (
    ArgSpecParseError,
    DiagnosticException,
    ParseError,
    VerifyException,
)

from xdsl_quant import xdsl_patches
from xdsl_quant.diagnostics import (
    error_summary,
    locate,
    location_prefix,
    quoted,
    shortened_message,
)
from xdsl_quant.pass_outcome import CountingPass

from .atomic_files import has_suffix
from .garbage_collection import without_garbage_collection
from .pass_options import options_error_message
from .plugins import ModelFileError, ModelFormat, ReaderOptions, dialects_in, plugins

_UNQUOTED = r"=([^\s\"{}]*[^\s\"{}\w,+-][^\s\"{}]*)"
"""Regular expression of an option value that requires quotes but has none."""


_BYTECODE = b"ML\xefR"
"""First bytes of MLIR bytecode."""


TEXT_SUFFIX = ".mlir"


_WORD = r"[^\s{}()]+"
"""Regular expression of a text that may be a file name, but not a module."""


_BLANK = r"(\s+|//.*)*"
"""Spaces and comments."""


class IRError(ValueError):
    """Raised for invalid IR, model files or pipelines; the message is one line."""

    def __init__(self, message: str):
        super().__init__(shortened_message(message))


@cache
def multiverse() -> Universe:
    """Return all dialects, passes and targets of `xdsl-opt` and its plugins."""
    return Universe.get_multiverse()


def multiverse_context() -> Context:
    """Return a context with all dialects of `xdsl-opt` and its plugins."""
    ctx = Context()
    for name, factory in multiverse().all_dialects.items():
        ctx.register_dialect(name, factory)
    return ctx


# Text


class _LocatingParser(Parser):
    """A parser that records the location of each op."""

    def parse_operation(self) -> Operation:
        start = self.pos
        op = super().parse_operation()
        locate(op, self, start)
        return op


def is_file_name(text: str) -> bool:
    """Return True if text passed as a module is the name of an `.mlir` file."""
    return fullmatch(r"\S+\.mlir", text) is not None


def parse_module(
    text: str, file_name: str = "module", ctx: Context | None = None
) -> ModuleOp:
    """
    Parse and verify a module. Ops get their locations in the text.

    Args:
        text: MLIR text.
        file_name: name of the text in error messages.
        ctx: context with dialects; by default all of `xdsl-opt`.

    Raises:
        IRError: if the text does not parse, or the module is invalid.
        TypeError: if `text` is not a `str`.
    """
    _check_is_text_of_ops(text, file_name)
    xdsl_patches.apply()
    try:
        parser = _LocatingParser(ctx or multiverse_context(), text, file_name)
        parsed = parser.parse_module()
        verify_module(parsed)
    except ParseError as e:
        location = e.span.get_location()
        reason = f"{e.msg.strip()}{xdsl_patches.explanation()}"
        raise IRError(f"{location}: error: {reason}") from None
    except VerifyException as e:
        reason = f"{error_summary(e)}{xdsl_patches.explanation()}"
        raise IRError(f"{file_name}: error: {reason}") from None
    except RecursionError:
        raise IRError(f"{file_name}: error: the text is nested too deeply") from None
    except IRError:
        raise
    except ValueError as e:
        # xDSL's parser does not catch invalid block names, for example. The error has no
        # location.
        raise IRError(f"{file_name}: error: {' '.join(map(str, e.args))}") from e
    return parsed


def _check_is_text_of_ops(text: str, file_name: str) -> None:
    if not isinstance(cast(object, text), str):
        raise TypeError(f"expected MLIR text as a str, found {type(text).__name__}")
    if is_file_name(text):
        raise IRError(
            f"{file_name}: error: expected MLIR text, found the file name '{text}'; pass "
            "the content of the file"
        )
    blank = match(_BLANK, text)
    if blank is not None and blank.end() == len(text):
        raise IRError(f"{file_name}: error: the text contains no op")


def parse_type(text: str, ctx: Context | None = None) -> Attribute:
    """
    Parse a type, e.g. `!quant.uniform<i8:f32, 0.5>`.

    Args:
        text: MLIR text.
        ctx: context with dialects; by default all of `xdsl-opt`.

    Raises:
        IRError: if the text is not one valid type.
    """
    parser = Parser(ctx or multiverse_context(), text)
    try:
        type_ = parser.parse_type()
    except (ParseError, VerifyException) as e:
        reason = e.msg.strip() if isinstance(e, ParseError) else error_summary(e)
        raise IRError(f"{text}: error: {reason}") from None
    if rest := text[parser.pos :].strip():
        raise IRError(f"{text}: error: expected one type, found '{rest}' after it")
    return type_


Model: TypeAlias = ModuleOp | str | bytes | os.PathLike[str]
"""
A module, MLIR text such as that of `jax.jit(f).lower(x).as_text()`, the path of an `.mlir`
or model file, or the bytes of either. A `str` is the name of a file if it has no line
break and ends with `.mlir` or the suffix of a model format.
"""


def as_module(model: Model, *, static: bool = False) -> ModuleOp:
    """
    Return a module (a copy if other packages' ops must be replaced), or read it from text,
    bytes or a file.

    Args:
        model: the model.
        static: True to replace dynamic sizes of a model file by those stored in it.

    Raises:
        IRError: if text does not parse, a file is unreadable, damaged or of an unknown
            kind, or the module is invalid.
        TypeError: if `model` has another type.
        ImportError: if the package that reads the file is not installed.
    """
    if isinstance(model, ModuleOp):
        return _with_own_ops(model)
    if isinstance(model, bytes):
        return _module_of_bytes(model, static)
    if (path := model_path(model)) is not None:
        return _module_of_file(path, static)
    for class_ in type(cast(object, model)).__mro__:
        package = class_.__module__.partition(".")[0]
        if (factory := plugins().model_objects.get(package)) is not None:
            try:
                return factory()(model)
            except ModelFileError as e:
                raise IRError(str(e)) from None
    if not isinstance(cast(object, model), str):
        raise TypeError(
            "model must be a module, MLIR text, bytes or the path of a file, not "
            f"{type(model).__name__}"
        )
    if fullmatch(_WORD, cast(str, model)):
        raise IRError(
            f"{model}: error: expected MLIR text or the name of a "
            f"{suffixes(TEXT_SUFFIX)} file{_reader_advice(cast(str, model))}"
        )
    return parse_module(cast(str, model))


def _reader_advice(name: str, default: str = "") -> str:
    """Return the end of a message about a file without a reader."""
    found = plugins().foreign_files
    advice = next((found[x] for x in found if has_suffix(name, x)), default)
    return f"; {advice}" if advice else ""


def _with_own_ops(module: ModuleOp) -> ModuleOp:
    copies = plugins().own_op_copies
    try:
        for dialect in dialects_in(module) & copies.keys():
            module = copies[dialect]()(module)
    except DiagnosticException as e:
        raise IRError(error_summary(e)) from None
    return module


def model_path(model: object) -> Path | None:
    """Return the path of a model given as a file; `None` for modules, text and bytes."""
    if isinstance(model, str):
        known = (TEXT_SUFFIX, *plugins().model_formats)
        is_name = not search(r"[\n\r]", model) and has_suffix(model, *known)
        return Path(model) if is_name else None
    is_path = isinstance(model, os.PathLike)
    return Path(cast("os.PathLike[str]", model)) if is_path else None


def _module_of_file(path: Path, static: bool) -> ModuleOp:
    if is_model_file(path):
        return read_model_file(path, static=static)
    if not has_suffix(path, TEXT_SUFFIX):
        raise IRError(
            f"{path}: error: unknown kind of file, expected {suffixes(TEXT_SUFFIX)}"
            f"{_reader_advice(str(path))}"
        )
    try:
        with path.open("rb") as stream:
            text = read_utf8(stream, str(path))
    except OSError as e:
        raise IRError(f"{path}: error: {(e.strerror or str(e)).lower()}") from None
    return parse_module(text, str(path))


def _module_of_bytes(content: bytes, static: bool) -> ModuleOp:
    if (format_ := format_of_content(content)) is not None:
        return read_by_format(format_, content, static=static)
    return parse_module(read_utf8(io.BytesIO(content), "module"))


_CHUNK = 1 << 20
"""Number of bytes of a text to decode at a time."""


def read_utf8(stream: BinaryIO, name: str) -> str:
    """
    Read MLIR text in UTF-8 in chunks, and replace other line breaks by `\\n`.

    Args:
        stream: the bytes of the text.
        name: name of the text in error messages.

    Raises:
        IRError: if the bytes are not text.
        OSError: if the bytes cannot be read.
    """
    decoder = io.IncrementalNewlineDecoder(getincrementaldecoder("utf-8")(), True)
    problem = f"{name}: error: expected the text of a module, but got"
    text = ""
    try:
        # CPython 3.11 extends a local `str` in place, without a copy, in `for` loops only.
        for chunk in iter(partial(stream.read, _CHUNK), b""):
            if not text:
                _check_is_no_model(chunk, problem)
            text += decoder.decode(chunk)
        text += decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise IRError(
            f"{problem} a binary file"
            + _reader_advice(name, "use UTF-8 text, like that of a .mlir file")
        )
    return text


def _check_is_no_model(start: bytes, problem: str) -> None:
    if start.startswith(_BYTECODE):
        raise IRError(f"{problem} MLIR bytecode; convert it to text with mlir-opt")
    for suffix, format_ in plugins().model_formats.items():
        if format_.is_content(start):
            raise IRError(
                f"{problem} a {suffix} file; pass a file with the suffix '{suffix}'"
            )


# Files


def model_format(source: object) -> ModelFormat | None:
    """Return the format of a model file by its suffix; `None` for other objects."""
    if not isinstance(source, str | os.PathLike):
        return None
    source, formats = cast("str | os.PathLike[str]", source), plugins().model_formats
    if "\n" in os.fspath(source):
        return None
    return next(
        (formats[suffix] for suffix in formats if has_suffix(source, suffix)), None
    )


def format_of_content(content: bytes) -> ModelFormat | None:
    """Return the format of the bytes of a model file; `None` for other bytes."""
    formats = plugins().model_formats.values()
    return next((f for f in formats if f.is_content(content)), None)


def is_model_file(source: object) -> TypeGuard[str | os.PathLike[str]]:
    """Return True if `source` is the path of a model file, not the text of a module."""
    return model_format(source) is not None


def is_tflite_file(source: object) -> bool:
    """Return True if `source` is the path of a TensorFlow Lite file."""
    return is_model_file(source) and has_suffix(source, ".tflite")


def read_model_file(
    path: str | os.PathLike[str], **options: Unpack[ReaderOptions]
) -> ModuleOp:
    """
    Read a model file and return its verified module.

    Args:
        path: path with the suffix of a model format.
        options: options of the reader.

    Raises:
        IRError: if the file is unreadable or damaged, or the module is invalid.
        ImportError: if the package that reads the file is not installed.
    """
    if (format_ := model_format(path)) is None:
        raise IRError(
            f"{path}: error: unknown kind of file, expected a {suffixes()} file"
        )
    try:
        return read_by_format(format_, Path(path), **options)
    except OSError as e:
        raise IRError(f"{path}: error: {(e.strerror or str(e)).lower()}") from None


def read_by_format(
    format_: ModelFormat, source: Path | bytes, **options: Unpack[ReaderOptions]
) -> ModuleOp:
    """
    Read the path or bytes of a model file.

    Raises:
        IRError: if the file is damaged, or the module is invalid.
        OSError: if the file cannot be read.
        ImportError: if the package that reads the file is not installed.
    """
    read = format_.reader()
    try:
        with without_garbage_collection():
            return read(source, **options)
    except ModelFileError as e:
        raise IRError(str(e)) from None


read_tflite_file = read_model_file


def suffixes(*others: str) -> str:
    """List suffixes for a message: `others` first, then those of model files."""
    *first, last = (*others, *plugins().model_formats) or ("model",)
    return f"{', '.join(first)} or {last}" if first else last


def module_text(module: ModuleOp) -> str:
    """Return the text of a module with the data of its resources, unlike `str`."""
    printer = Printer(stream := io.StringIO())
    printer.print_op(module)
    printer.print_metadata([Builtin])
    return stream.getvalue()


# Verification and passes


def enclosing_location(op: Operation) -> str:
    """Return the location prefix of an op or its nearest ancestor with a location."""
    while (
        not (where := location_prefix(op.location))
        and (parent := op.parent_op()) is not None
    ):
        op = parent
    return where


def _is_invalid(op: Operation) -> bool:
    try:
        op.verify(verify_nested_ops=False)
    except VerifyException:
        return True
    return False


def verify_module(module: ModuleOp, note: str = "") -> None:
    """
    Verify a module.

    Raises:
        IRError: if the module is invalid; `note` is appended to the message.
    """
    xdsl_patches.apply()
    try:
        module.verify()
    except VerifyException as e:
        # The exception does not name the op. xDSL verifies nested ops first.
        op = next(filter(_is_invalid, module.walk(region_first=True)), module)
        reason = f"{error_summary(e)}{xdsl_patches.explanation()}"
        subject = "" if op.name in reason else f"'{op.name}' op "
        raise IRError(
            f"{enclosing_location(op)}error: {subject}{reason}{note}"
        ) from None


def parse_passes(pipeline: str) -> Sequence[ModulePass]:
    """
    Parse a pass pipeline in the syntax of `xdsl-opt -p`.

    Raises:
        IRError: if the pipeline does not parse, or a pass or option is unknown.
    """
    known = multiverse().all_passes
    try:
        specs = [*parse_pipeline(pipeline)]
    except ValueError as e:
        # Raised for an integer with thousands of digits.
        raise IRError(f"pass-pipeline: error: {e}") from None
    except ArgSpecParseError as e:
        # Lines: title, location, text, caret, message.
        _, where, *_, message = str(e).splitlines()
        value = search(_UNQUOTED, pipeline)
        hint = f": {value[1]} must be in double quotes" if value else ""
        raise IRError(f"{where}: error: {message.strip()}{hint}") from None
    if unknown := [spec.name for spec in specs if spec.name not in known]:
        raise IRError(
            f"pass-pipeline: error: unknown pass{'es' if len(unknown) > 1 else ''} "
            f"{quoted(unknown)}; {_suggestion(unknown, known)}"
        )
    return [_pass(known[spec.name](), spec) for spec in specs]


def _suggestion(names: Sequence[str], known: Mapping[str, object]) -> str:
    near = [match for name in names for match in get_close_matches(name, known, 1)]
    if not near:
        return "xdsl-opt --help lists all passes"
    return f"maybe {quoted(near)} {'was' if len(near) == 1 else 'were'} meant"


def _pass(pass_type: type[ModulePass], spec: ArgSpec) -> ModulePass:
    try:
        return pass_type.from_pass_spec(spec)
    except ValueError as e:
        reason = options_error_message(pass_type, spec) or e
        raise IRError(f"pass-pipeline: error: pass {spec.name}: {reason}") from None


def is_of_xdsl(module_pass: ModulePass) -> bool:
    """Return True for xDSL's passes, which raise Python's errors for unsupported ops."""
    return type(module_pass).__module__.startswith("xdsl.")


def apply_passes(
    module: ModuleOp,
    passes: str | Sequence[ModulePass],
    ctx: Context | None = None,
    *,
    is_routine: bool = False,
) -> None:
    """
    Apply passes and verify the module after each.

    Args:
        module: module to change in place.
        passes: passes, or a pipeline in the syntax of `xdsl-opt -p`.
        ctx: context with dialects; by default all of `xdsl-opt`.
        is_routine: True for passes that run on every module: suppresses the warnings
            that a pass changed nothing or left ops unconverted.

    Raises:
        IRError: if a pass is unknown or fails; changes by earlier passes remain.
        TypeError: if `passes` contains other objects.
    """
    if isinstance(passes, str):
        passes = parse_passes(passes)
    _check_are_passes(passes)
    ctx = ctx or multiverse_context()
    for module_pass in passes:
        try:
            if is_routine and isinstance(module_pass, CountingPass):
                module_pass.rewrite(ctx, module)
            else:
                module_pass.apply(ctx, module)
        except (DiagnosticException, NotImplementedError, ValueError) as e:
            if not (isinstance(e, DiagnosticException) or is_of_xdsl(module_pass)):
                raise
            # Errors of passes of this package already contain a location.
            start = "" if ": error: " in str(e) else "error: "
            note = f" (in the pass {module_pass.name})"
            raise IRError(f"{start}{error_summary(e)}{note}") from None
        verify_module(module, f" (after the pass {module_pass.name})")


def _check_are_passes(passes: object) -> None:
    found = type(passes).__name__
    if isinstance(passes, Sequence):
        items = cast(Sequence[object], passes)
        others = [item for item in items if not isinstance(item, ModulePass)]
        if not others:
            return
        found = f"{found} with {type(others[0]).__name__} in it"
    raise TypeError(
        "expected a pipeline, e.g. 'canonicalize,cse', or a list of passes, found "
        f"{found}"
    )
