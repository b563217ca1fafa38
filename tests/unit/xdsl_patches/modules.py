"""What tests of patches share."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from xdsl_quant.runtime.loading import multiverse_context


def parse(text: str) -> ModuleOp:
    return Parser(multiverse_context(), text).parse_module()


def run(*command: str, stdin: str | None = None, **variables: str) -> str:
    """Run a tool of this environment in a process that knows nothing of this one."""
    executable, *arguments = command
    path = (
        sys.executable
        if executable == "python"
        else shutil.which(executable, path=str(Path(sys.executable).parent))
    )
    assert path is not None
    result = subprocess.run(
        [path, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )
    assert not result.returncode, result.stderr
    return result.stdout


def accepted(mlir: Mlir, text: str, pipeline: str | None = None) -> str:
    """Return the text that MLIR prints for a module, after the passes of a pipeline."""
    answer = mlir.run(text, pipeline)
    assert isinstance(answer, Accepted), answer
    return answer.text


def message(text: str) -> str | None:
    """What xDSL's verifier says about the first op in the body of a function."""
    try:
        function = parse(text).body.block.first_op
    except VerifyException as error:
        # Declarative formats check operands while they are parsed.
        return str(error)
    assert isinstance(function, FuncOp)
    op = function.body.block.first_op
    assert op is not None
    try:
        op.verify_()
    except VerifyException as error:
        return str(error)
    return None
