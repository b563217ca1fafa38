"""The tools of the conformance tests work themselves."""

from random import Random

import pytest

from . import real_mlir
from .answers import Accepted, Crashed, Rejected
from .checks import Conformance
from .fuzz import main
from .minimize import minimized
from .real_mlir import Mlir
from .this_package import answer_module
from .type_texts import type_text

_ABORTING = "!quant.uniform<i8:f32:{}, {1.0:-1}>"


def test_mlir_answers(mlir: Mlir):
    assert mlir.type("!quant.any< i8 >") == Accepted("!quant.any<i8>")
    assert mlir.type("!quant.any<\ni0>") == Rejected(
        ((2, 1, "illegal storage type size: 0"),)  # pyright: ignore[reportArgumentType] a tuple equals a Diagnostic
    )


def test_mlir_survives_an_abort(mlir: Mlir):
    assert isinstance(mlir.type(_ABORTING), Crashed)
    assert mlir.type("!quant.any<i8>") == Accepted("!quant.any<i8>")


def test_a_question_that_takes_too_long_is_a_crash():
    text = "".join(f"func.func private @f{i}(!quant.any<i8>)\n" for i in range(20_000))
    with Mlir(cpu_seconds=0.001) as mlir:
        assert mlir.run(text) == Crashed("Profiling timer expired")


def test_mlir_runs_passes(mlir: Mlir):
    text = "func.func private @f(!quant.any<i8>)\n"
    answer = mlir.run(text, "strip-func-quant-types")
    assert answer == Accepted("module {\n  func.func private @f(i8)\n}")


def test_missing_mlir_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(real_mlir, "_WORKER", "no such file")
    with (
        Mlir() as mlir,
        pytest.raises(RuntimeError, match="is `mlir` installed"),
    ):
        mlir.type("!quant.any<i8>")


def test_crashes_never_agree(conformance: Conformance):
    assert conformance.check("type", _ABORTING) is None
    outcome = "type: sub-channel zero points out of range (MLIR crashed)"
    assert conformance.outcomes[outcome]


def test_python_errors_are_crashes():
    assert isinstance(answer_module("func.func private @f()", (None,)), Crashed)  # pyright: ignore[reportArgumentType] a pass that fails in Python


def test_generators_are_seedable():
    first, second = (
        [type_text(rng) for _ in range(50)] for rng in (Random(7), Random(7))
    )
    assert first == second


def test_minimized():
    assert minimized("one two three four", lambda text: "three" in text) == "three"


def test_fuzz(capsys: pytest.CaptureFixture[str]):
    assert main(["--seconds", "0.5", "--seed", "1"]) == 0
    assert "0 unexplained differences from MLIR 22, seed 1" in capsys.readouterr().out
