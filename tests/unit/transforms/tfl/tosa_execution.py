"""Modules of TOSA, validated and lowered by MLIR, and executed."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from xdsl_quant.execution.compiled_function import CompiledFunction
from xdsl_quant.execution.entry_point import EntryPoint
from xdsl_quant.execution.entry_wrapper import EntryWrapper

TO_LINALG = (
    "func.func(tosa-optional-decompositions,tosa-to-linalg-named,tosa-to-linalg,"
    "tosa-to-arith{include-apply-rescale=true},tosa-to-tensor)"
)

VALIDATE = (
    "tosa-attach-target{specification_version=1.1.draft level=none profiles=pro_int,pro_fp "
    "extensions=int16,int4,int64,doubleround,inexactround,dynamic},"
    "tosa-validate{strict-op-spec-alignment}"
)


def validated(mlir: Mlir, module: ModuleOp) -> Any:
    """What MLIR says about the ops of TOSA, given the extensions that there are."""
    return mlir.run(str(module), VALIDATE)


def executable(mlir: Mlir, module: ModuleOp) -> CompiledFunction:
    """The function `main` of a module of TOSA, as MLIR lowers it, for arrays."""
    entry_point = EntryPoint.of(module, "main", ())
    answer = mlir.run(str(entry_point.module), TO_LINALG)
    assert isinstance(answer, Accepted), f"{answer}\n{module}"
    # xDSL does not read all of what MLIR prints, so only the signature goes through it.
    aliases, _, rest = answer.text.partition("module {\n")
    functions = rest.rpartition("}")[0]
    wrapper = EntryWrapper(entry_point)
    return CompiledFunction(wrapper, aliases + functions, {}, schedule=False)
