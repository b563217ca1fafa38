"""Models: modules, MLIR text and files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeAlias, cast

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.runtime.file_names import has_suffix
from xdsl_quant.runtime.loading import (
    IRError,
    model_format,
    parse_module,
    read_model_file,
    suffixes,
)

from .results import QuantizedModel

Model: TypeAlias = "ModuleOp | str | os.PathLike[str]"
"""
A module, MLIR text such as that of `jax.jit(f).lower(x).as_text()`, or a `.tflite` or
`.mlir` file.
"""

_TEXT = re.compile(r"\n|[{}]|^\s*(//.*)?$")
"""What MLIR text has in it and the name of a file has not."""


def read_model(model: Model) -> ModuleOp:
    """
    Return the module of a model, a copy if a module is given.

    Raises:
        IRError: if a text does not parse, or a file cannot be read, is damaged or of an
            unknown kind.
        TypeError: if it is none of these.
        ImportError: if a file needs a package that is not installed.
    """
    if isinstance(model, ModuleOp):
        return model.clone()
    if isinstance(model, str) and _TEXT.search(model):
        return parse_module(model)
    if not isinstance(cast(object, model), str | os.PathLike) or isinstance(
        os.fspath(model), bytes
    ):
        raise TypeError(
            "model must be a module, MLIR text or the path of a file, not "
            f"{type(model).__name__}"
        )
    path = Path(model)
    if model_format(path) is not None:
        return read_model_file(path)
    if not has_suffix(path, ".mlir"):
        raise IRError(
            f"{path}: error: unknown kind of file, expected {suffixes()} or .mlir"
        )
    try:
        return parse_module(path.read_text(), str(path))
    except OSError as e:
        reason = (e.strerror or str(e)).lower()
        raise IRError(f"{path}: error: {reason}") from None


def module_of(model: Model | QuantizedModel) -> ModuleOp:
    """
    Return the module of a model, or of a quantized model, a copy if a module is given.

    Raises:
        IRError, TypeError, ImportError: as `read_model`.
    """
    return read_model(model.module if isinstance(model, QuantizedModel) else model)
