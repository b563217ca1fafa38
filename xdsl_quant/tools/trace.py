"""Options `--trace` and `--c-header` of the command `xdsl-quant run`: golden vectors."""

import argparse
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.diagnostics import counted
from xdsl_quant.inspecting.c_header import c_header
from xdsl_quant.inspecting.golden_vectors import TracedModel
from xdsl_quant.numerics.arrays import Array

from .failures import Failure, UsageError, write_text


@contextmanager
def traced_runner(
    options: argparse.Namespace, rounding: Mapping[str, Any]
) -> Generator[Callable[[ModuleOp, str], Callable[..., Sequence[Array]]]]:
    """
    Yield a factory of functions that run; without an error, write their golden vectors.

    Args:
        options: parsed options, with `module`, `trace` and `c_header`.
        rounding: arguments of `StatefulModel`.

    Raises:
        Failure: if the directory is not empty or cannot be written.
    """
    if options.trace is None:
        raise UsageError("--c-header: error: needs the option --trace DIR")
    directory, name = Path(options.trace), Path(options.module).name
    models: list[TracedModel] = []
    try:
        if directory.exists() and (count := len([*directory.iterdir()])):
            found = counted(count, "entry", "entries")
            problem = f"directory is not empty: found {found}; use a new directory"
            raise Failure(f"--trace {directory}: error: {problem}")
        parent = directory if directory.exists() else directory.absolute().parent
        with TemporaryDirectory(prefix=".", dir=parent) as temporary:

            def runner(module: ModuleOp, name: str) -> Callable[..., Sequence[Array]]:
                models.append(TracedModel(Path(temporary), module, name, **rounding))
                return models[-1].step

            yield runner
            (vectors,) = (model.vectors for model in models)
            vectors.write_index(name)
            if options.c_header is not None:  # Fails more often than the renames.
                write_text(options.c_header, c_header(vectors, name))
            directory.mkdir(exist_ok=True)
            for path in Path(temporary).iterdir():
                path.replace(directory / path.name)
    except OSError as error:
        problem = str(error.strerror).lower()
        raise Failure(f"--trace {directory}: error: {problem}") from None
