"""TOSA with the patches of this package, compared with MLIR: texts and verdicts."""

import re
from collections.abc import Callable, Iterator

import pytest

from xdsl_quant.xdsl_patches.tosa_ops import OPERATIONS

from .answers import Accepted, Crashed, Rejected
from .real_mlir import Mlir
from .this_package import answer_module
from .tosa_texts import (
    ADDED,
    PRESENT,
    Op,
    with_other_elements,
    with_other_shapes,
)

_UNKNOWN_SIZE = "-9223372036854775808"


def _comparable(text: str) -> str:
    """The text with values numbered in their order, and without xDSL's longer op names."""
    names: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return names.setdefault(match[0], f"%{len(names)}")

    text = text.replace("builtin.module", "module").replace("func.return", "return")
    return re.sub(r"%\w+", number, text)


def test_each_op_has_a_text():
    assert {op.name for op in ADDED} | {"const_shape"} == {
        op.name.removeprefix("tosa.") for op in OPERATIONS
    }


@pytest.mark.parametrize("op", [*ADDED, *PRESENT], ids=lambda op: op.name)
def test_texts_round_trip(mlir: Mlir, op: Op):
    """Each reads what the other has printed, in both forms, as what it was."""
    text, custom = str(op), ""
    for generic in (False, True):
        real, ours = (
            mlir.run(text, generic=generic),
            answer_module(text, generic=generic),
        )
        assert isinstance(real, Accepted), f"{real}\n{text}"
        assert isinstance(ours, Accepted), f"{ours}\n{text}"
        custom = custom or _comparable(real.text)
        for printed in (real.text, ours.text):
            read = answer_module(printed)
            assert isinstance(read, Accepted), f"{read}\n{printed}"
            assert _comparable(read.text) == custom
            read = mlir.run(printed)
            assert isinstance(read, Accepted), f"{read}\n{printed}"
            assert _comparable(read.text) == custom


@pytest.mark.parametrize("variants", [with_other_elements, with_other_shapes])
@pytest.mark.parametrize("op", ADDED, ids=lambda op: op.name)
def test_verdicts(mlir: Mlir, op: Op, variants: Callable[[Op], Iterator[Op]]):
    for variant in variants(op):
        text = str(variant)
        real, ours = mlir.run(text), answer_module(text)
        assert not isinstance(ours, Crashed), f"{ours}\n{text}"
        if isinstance(real, Rejected) and _UNKNOWN_SIZE in real.message:
            # A size that is not known is a number to this verifier.
            continue
        assert type(ours) is type(real), f"{real}\n{ours}\n{text}"
