"""Options `--trace` and `--c-header` of the command `xdsl-quant run`: golden vectors."""

import argparse
import os
import secrets
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.inspecting.c_header import c_header
from xdsl_quant.inspecting.golden_vectors import TracedModel
from xdsl_quant.numerics.arrays import Array

from .failures import Failure, UsageError, failure_at, write_text


@contextmanager
def traced_runner(
    options: argparse.Namespace, rounding: Mapping[str, Any]
) -> Generator[Callable[[ModuleOp, str], Callable[..., Sequence[Array]]]]:
    """
    Yield a factory of functions that run. When the `with` statement ends without an error,
    write the directory of golden vectors and the C header.

    Args:
        options: parsed options, with `module`, `trace` and `c_header`.
        rounding: arguments of `StatefulModel`.

    Raises:
        Failure: if the directory is not empty or cannot be written.
    """
    if options.trace is None:
        raise UsageError("--c-header: error: needs the option --trace DIR")
    directory = Path(options.trace)
    _check_empty(directory)
    name = os.path.basename(options.module)
    temporary = directory.absolute().with_name(f".{secrets.token_hex(8)}.tmp")
    models: list[TracedModel] = []

    def runner(module: ModuleOp, name: str) -> Callable[..., Sequence[Array]]:
        models.append(TracedModel(temporary, module, name, **rounding))
        return models[-1].step

    try:
        temporary.mkdir()
        yield runner
        (model,) = models
        model.vectors.write_index(name)
        header = "" if options.c_header is None else c_header(model.vectors, name)
        # Fails more often than the rename, so that no directory is left behind.
        write_text(options.c_header, header)
        _rename(temporary, directory)
    except OSError as error:
        raise failure_at(options.trace, error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _rename(source: Path, directory: Path) -> None:
    """Rename a directory to one that is missing or empty."""
    if directory.exists():
        directory.rmdir()
    source.replace(directory)


def _check_empty(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise Failure(f"--trace {directory}: error: is not a directory")
    if directory.is_dir() and (count := len([*directory.iterdir()])):
        raise Failure(
            f"--trace {directory}: error: directory is not empty: found {count} "
            f"{'entry' if count == 1 else 'entries'}; use a new directory"
        )
    if not directory.absolute().parent.is_dir():
        raise Failure(f"--trace {directory}: error: missing directory")
