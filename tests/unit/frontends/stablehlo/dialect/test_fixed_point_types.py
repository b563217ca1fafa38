"""StableHLO's ops take types whose scales are integers as those whose scales are floats."""

import re
from random import Random

import pytest

from tests.conformance.answers import Accepted, Rejected
from tests.conformance.stablehlo_texts import KINDS, stablehlo_text
from tests.conformance.this_package import answer_module

TYPE = re.compile(r"!quant\.(?:uniform|fixed_point)<(?:[^<>]|<[^<>]*>)*>")

# The scales that are generated: as they are written, as they are printed, and as integers.
SCALES = {
    ("1.0", "1.000000e+00"): "1073741824p-30",
    ("0.5", "5.000000e-01"): "1073741824p-31",
    ("0.25", "2.500000e-01"): "1073741824p-32",
    ("0.125", "1.250000e-01"): "1073741824p-33",
}


def _replaced(text: str, scales: dict[str, str], mnemonic: str) -> str:
    """A text with other scales in types, and another mnemonic."""
    scale = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, scales))})(?![\w.])")

    def type_(match: re.Match[str]) -> str:
        head, separator, tail = match[0].partition(", ")
        tail = scale.sub(lambda found: scales[found[0]], tail)
        return re.sub(r"\.\w+", f".{mnemonic}", head, count=1) + separator + tail

    return TYPE.sub(type_, text)


def with_integer_scales(text: str) -> str:
    scales = {written: integer for (written, _), integer in SCALES.items()}
    return _replaced(text, scales, "fixed_point")


def with_float_scales(text: str) -> str:
    scales = {integer: printed for (_, printed), integer in SCALES.items()}
    return _replaced(text, scales, "uniform")


def has_unfit_zero_point(text: str) -> bool:
    """Whether there is a type that needs no op to be refused."""
    return any(
        isinstance(answer_module(f"func.func private @f({type_})"), Rejected)
        for type_ in TYPE.findall(with_integer_scales(text))
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_same_verdict(kind: str):
    verdicts: list[type] = []
    for seed in range(20):
        text = stablehlo_text(Random(seed), kind)
        if "!quant.uniform" not in text or has_unfit_zero_point(text):
            continue
        expected = answer_module(text)
        found = answer_module(with_integer_scales(text))
        verdicts.append(type(found))
        match expected, found:
            case Accepted(text=one), Accepted(text=other):
                assert with_float_scales(other) == one
            case Rejected(), Rejected():
                assert with_float_scales(found.message) == expected.message
            case _:
                pytest.fail(f"{expected}\n{found}\n{text}")
    assert {*verdicts} == {Accepted, Rejected}
