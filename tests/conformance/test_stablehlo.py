"""
Generated StableHLO ops, compared with real StableHLO, which is that of `litert-converter`:
the same verdict in the same words, and the same text in both directions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.transforms.canonicalize import CanonicalizePass

from .answers import Accepted, Answer, Crashed, Rejected
from .real_mlir import Mlir
from .stablehlo_rare_texts import RARE_KINDS, rare_text
from .stablehlo_texts import KINDS, stablehlo_text
from .this_package import answer_module


def _texts(kind: str) -> st.SearchStrategy[str]:
    return st.builds(stablehlo_text, st.randoms(use_true_random=False), st.just(kind))


_DEFINITIONS = re.compile(r"%\w+(?= =|: )|^ *(%\w+, )+(?=%\w+ =)", re.MULTILINE)
"""Values where they are defined: results of ops, and arguments of functions and blocks."""


def _comparable(text: str) -> str:
    """
    The text with values numbered in the order of their definitions, without xDSL's longer
    op names, and with a name for each result of an op. Different regions may use the same
    names.
    """
    numbers = count()
    names: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        if match["defined"]:
            for name in re.findall(r"%\w+", match[0]):
                names[name] = f"%{next(numbers)}"
        return re.sub(r"%\w+", lambda name: names.get(name[0], name[0]), match[0])

    def unpack(match: re.Match[str]) -> str:
        parts = ", ".join(f"{match[1]}_{i}" for i in range(int(match[2])))
        return parts

    text = text.replace("builtin.module", "module").replace("func.return", "return")
    # Without operands, MLIR prints the space between them and the types, too.
    text = text.replace("after_all  :", "after_all :").replace("tuple  :", "tuple :")
    text = re.sub(r"(%\w+):(\d+)(?= =)", unpack, text.replace("return \n", "return\n"))
    text = re.sub(r"(%\w+)#(\d+)", r"\1_\2", text)
    # MLIR omits the type of the elements of arrays.
    text = re.sub(r"(\d) : i64(?=[],])", r"\1", text)
    pattern = rf"(?P<defined>{_DEFINITIONS.pattern})|%\w+"
    return re.sub(pattern, number, text, flags=re.MULTILINE)


def _concerns_quantization(message: str) -> bool:
    if message.startswith("expects window-dimensions size"):
        return False
    words, _, _ = message.partition("Got:")
    return "quant" in words


def _is_known_difference(real: str, ours: str) -> bool:
    """
    What is not about quantized types has words of its own. xDSL verifies what is in a
    region before the op that has it, and operands before properties; and what no
    permutation has is a number from somewhere in real StableHLO.
    """
    if real.startswith("operand quantization_dimension"):
        return ours.startswith("expects") and "permutation" in ours
    if "'stablehlo.reduce" in real and "'stablehlo.reduce" not in ours:
        return True
    if "'stablehlo.return'" in ours or ours.startswith("operand is used with type"):
        return True
    is_of_property = "failed to satisfy constraint" in real
    return is_of_property or not _concerns_quantization(real)


def _reads_what_is_absent(text: str, real: Answer) -> bool:
    """
    For a dynamic broadcast, real StableHLO compares as many scales as the result has in
    its quantized dimension, also if this size is not known. For an alias of a result, it
    reads one, also if the call has none.
    """
    if "output_operand_alias<" in text and ") -> ()" in text:
        return isinstance(real, Crashed)
    is_fault = isinstance(real, Crashed) or (
        isinstance(real, Rejected) and real.message.startswith("mismatch result scale")
    )
    return "dynamic_broadcast_in_dim" in text and is_fault


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=20,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_ops(litert_converter: Mlir, kind: str, data: st.DataObject):
    _expect_same_verdict(litert_converter, data.draw(_texts(kind)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", RARE_KINDS)
def test_rare_ops(litert_converter: Mlir, kind: str, request: pytest.FixtureRequest):
    """Collectives, transfers, linear algebra and others: 200 of each with `--all-cases`."""
    number = 200 if request.config.getoption("--all-cases") else 20
    texts = [rare_text(Random(f"{kind} {i}"), kind) for i in range(number)]
    accepted = sum(
        _expect_same_verdict(litert_converter, text, _is_other_wording)
        for text in texts
    )
    assert 0.1 < accepted / number < 0.95


def _is_other_wording(real: str, ours: str) -> bool:
    """Rare ops have words of their own, also if a type in them is quantized."""
    return _is_known_difference(re.sub(r"'(tensor<|!)[^']*'", "", real), ours)


def _expect_same_verdict(
    litert_converter: Mlir,
    text: str,
    is_difference: Callable[[str, str], bool] = _is_known_difference,
) -> bool:
    """Compare verdicts, messages and printed texts; return True for a valid module."""
    real, ours = litert_converter.run(text), answer_module(text)
    if _reads_what_is_absent(text, real):
        return False
    assert not isinstance(real, Crashed), text
    if isinstance(real, Rejected):
        assert isinstance(ours, Rejected), f"{real.message}\n{text}"
        messages = real.message, ours.message
        assert ours.message == real.message or is_difference(*messages), text
        return False
    assert isinstance(ours, Accepted), f"{ours}\n{text}"
    assert _comparable(ours.text) == _comparable(real.text)
    _expect_exchange(litert_converter, text, real, ours)
    return True


def _expect_exchange(
    litert_converter: Mlir, text: str, real: Accepted, ours: Accepted
) -> None:
    """Each reads what the other has printed, in both forms, as what it was."""
    generic = answer_module(text, generic=True)
    assert isinstance(generic, Accepted)
    for printed in (ours.text, generic.text):
        read = litert_converter.run(printed)
        assert isinstance(read, Accepted), f"{read}\n{printed}"
        assert _comparable(read.text) == _comparable(real.text)
    generic = litert_converter.run(text, generic=True)
    assert isinstance(generic, Accepted)
    for printed in (real.text, generic.text):
        read = answer_module(printed)
        assert isinstance(read, Accepted), f"{read}\n{printed}"
        assert _comparable(read.text) == _comparable(ours.text)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "kind",
    [
        *("dynamic_shape", "real_dynamic_slice", "dynamic_pad", "dynamic_gather"),
        "dynamic_conv",
    ],
)
def test_static_forms(litert_converter: Mlir, kind: str):
    """Ops with constant shapes become the same static ops."""
    static = 0
    for seed in range(60):
        text = stablehlo_text(Random(seed), kind, returns=True)
        pipeline = "func.func(stablehlo-canonicalize-dynamism)"
        real = litert_converter.run(text, pipeline)
        if not isinstance(real, Accepted):
            continue
        ours = answer_module(text, (CanonicalizePass(),))
        assert isinstance(ours, Accepted)
        is_static = f"stablehlo.{kind.partition('_')[0]}" not in real.text
        assert is_static == (f"stablehlo.{kind.partition('_')[0]}" not in ours.text), (
            text
        )
        if is_static:
            assert _comparable(ours.text) == _comparable(real.text)
            static += 1
    assert static


@pytest.mark.sampled(0)
def test_both_verdicts_occur():
    """The generator is of no use if it makes valid or invalid ops alone."""
    for kind in KINDS:
        answers = [answer_module(stablehlo_text(Random(i), kind)) for i in range(40)]
        accepted = sum(isinstance(answer, Accepted) for answer in answers)
        assert 4 <= accepted <= 36, kind
