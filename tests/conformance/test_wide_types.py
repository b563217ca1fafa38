"""
Types that express f80 and f128, checked against an MLIR without assertions: with them it
aborts. It is Debian's; the bindings that other tests use have assertions.
"""

import random
import re
import shutil
import subprocess

import pytest

from .answers import Accepted, Rejected
from .differences import mlir_type_text
from .this_package import answer_type

MLIR_OPT_22 = shutil.which("mlir-opt-22")

needs_mlir_22 = pytest.mark.skipif(
    MLIR_OPT_22 is None,
    reason="MLIR with assertions aborts on these types: apt-get install mlir-22-tools",
)


def mlir_type_texts(types: list[str]) -> list[str]:
    """What MLIR prints for valid types."""
    assert MLIR_OPT_22 is not None
    declarations = (f"func.func private @f{i}({t})\n" for i, t in enumerate(types))
    done = subprocess.run(
        [MLIR_OPT_22, "-"],
        input="".join(declarations),
        capture_output=True,
        text=True,
        check=True,
    )
    return re.findall(r"func\.func private @f\d+\((.*)\)", done.stdout)


def random_scale(source: random.Random) -> str:
    value = source.choice(
        (
            source.random(),
            source.randrange(1, 10**6) / 10 ** source.randint(0, 6),
            2.0 ** source.uniform(-1000, 1000),
            2.0 ** source.randint(-1000, 1000),
            float(source.randrange(1, 10**12)),
        )
    )
    return f"{value:.17e}"


def random_type(source: random.Random) -> str:
    scales = [random_scale(source) for _ in range(3)]
    expressed = source.choice(("f80", "f128"))
    parameters = source.choice(
        (
            f", {scales[0]}:3",
            f":0, {{{scales[0]}, {scales[1]}:-4}}",
            f":{{0:1}}, {{{', '.join(scales)}}}",
        )
    )
    return f"!quant.uniform<i8:{expressed}{parameters}>"


@needs_mlir_22
def test_texts():
    source = random.Random(0)
    types = [random_type(source) for _ in range(3000)]
    for type_, mlir in zip(types, mlir_type_texts(types), strict=True):
        ours = answer_type(type_)
        assert isinstance(ours, Accepted)
        assert mlir_type_text(ours.text) == mlir
        # What is printed is read as the same again.
        assert answer_type(ours.text) == ours


@needs_mlir_22
@pytest.mark.parametrize("expressed", ["f80", "f128"])
@pytest.mark.parametrize("scales", [", {}", ":0, {{{}}}"])
@pytest.mark.parametrize(
    ("scale", "printed", "name"),
    [
        ("0.0", "0.000000e+00", "0.000000e+00"),
        ("1.0e-330", "0.000000e+00", "0.000000e+00"),
        ("1.0e400", "0x7FF0000000000000", "INF"),
    ],
)
def test_scales_that_mlir_takes(
    expressed: str, scales: str, scale: str, printed: str, name: str
):
    text = f"!quant.uniform<i8:{expressed}{scales}>"
    assert mlir_type_texts([text.format(scale)]) == [text.format(printed)]
    ours = answer_type(text.format(scale))
    assert isinstance(ours, Rejected)
    assert ours.message == (
        f"scale {name} out of expressed type range [4.940656e-324, 1.797693e+308]"
    )
