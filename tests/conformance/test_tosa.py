"""TOSA with the patches of this package, compared with MLIR: texts and verdicts."""

import re
from collections.abc import Callable, Iterator
from io import StringIO

import pytest
from xdsl.parser import Parser

from xdsl_quant.frontends.tosa.mlir_main import MLIRMainTarget
from xdsl_quant.frontends.tosa.ops import OPERATIONS
from xdsl_quant.runtime.loading import multiverse_context

from .answers import Accepted, Crashed, Rejected
from .real_mlir import PYTHON_24, Mlir, mlir_24
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


@pytest.mark.sampled(2)
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


@pytest.mark.sampled
@pytest.mark.parametrize("variants", [with_other_elements, with_other_shapes])
@pytest.mark.parametrize("op", ADDED, ids=lambda op: op.name)
def test_verdicts(
    mlir: Mlir,
    op: Op,
    variants: Callable[[Op], Iterator[Op]],
    request: pytest.FixtureRequest,
):
    step = 1 if request.config.getoption("--all-cases") else 8
    for variant in [*variants(op)][::step]:
        text = str(variant)
        real, ours = mlir.run(text), answer_module(text)
        assert not isinstance(ours, Crashed), f"{ours}\n{text}"
        if isinstance(real, Crashed) or (
            # A size that is not known is a number to this verifier.
            isinstance(real, Rejected) and _UNKNOWN_SIZE in real.message
        ):
            continue
        assert type(ours) is type(real), f"{real}\n{ours}\n{text}"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("op", PRESENT, ids=lambda op: op.name)
def test_ops_of_xdsl_accept_what_mlir_accepts(mlir: Mlir, op: Op):
    """They may accept more: patches never refuse what xDSL accepts."""
    step = 1 if op.name in ("matmul", "clamp", "mul") else 4
    for variant in [*with_other_elements(op), *with_other_shapes(op)][::step]:
        text = str(variant)
        ours = answer_module(text)
        assert not isinstance(ours, Crashed), f"{ours}\n{text}"
        # MLIR does not compare all shapes of products, nor the result type of `matmul`.
        if isinstance(ours, Rejected) and not re.search(
            "cannot multiply|shapes are not compatible|result 'output'", ours.message
        ):
            assert not isinstance(mlir.run(text), Accepted), f"{ours}\n{text}"


@pytest.mark.parametrize(
    "op", [op for op in (*ADDED, *PRESENT) if "#tosa" in op.properties], ids=str
)
def test_enum_attributes_are_read_in_custom_forms(mlir: Mlir, op: Op):
    real = mlir.run(str(op))
    assert isinstance(real, Accepted)
    text = real.text
    for attribute, name in re.findall(r"(#tosa\.\w+<(\w+)>)", op.properties):
        text = text.replace(f" = {name}", f" = {attribute}")
    assert "#tosa" in text
    assert mlir.run(text) == real
    ours = answer_module(text)
    assert isinstance(ours, Accepted), f"{ours}\n{text}"
    assert _comparable(ours.text) == _comparable(real.text)


@pytest.fixture(scope="module")
def mlir_of_main() -> Iterator[Mlir]:
    if not PYTHON_24.exists():
        pytest.skip("no MLIR 24: make mlir24")
    with mlir_24() as worker:
        yield worker


def _block_scaled(parameters: str) -> str:
    type_ = f"tensor<1x32x!tosa.block_scaled<{parameters}>>"
    return f"func.func private @f({type_})"


_ELEMENTS = "f8E4M3FN f8E5M2 f6E2M3FN f6E3M2FN f4E2M1FN !tosa.mxint8".split()


@pytest.mark.parametrize("element", _ELEMENTS)
def test_block_scaled_types_round_trip(mlir_of_main: Mlir, element: str):
    scales = ", ".join(f"{2.0**exponent:e}" for exponent in range(-127, 128))
    for suffix in ("", ", {1.000000e+00, 2.500000e-01}", f", {{{scales}}}"):
        text = _block_scaled(f"BLOCK_SHAPE_32:f8E8M0FNU:{element}{suffix}")
        ours = answer_module(text)
        assert isinstance(ours, Accepted)
        assert text in ours.text
        real = mlir_of_main.run(ours.text)
        assert isinstance(real, Accepted)
        # MLIR's text has six digits of each scale, which stand for the same one.
        assert answer_module(real.text) == ours
        assert suffix == f", {{{scales}}}" or text in real.text


@pytest.mark.parametrize(
    "parameters",
    [
        "BLOCK_SHAPE_32:f8E8M0FNU:i8",
        "BLOCK_SHAPE_32:f8E8M0FNU:f32",
        "BLOCK_SHAPE_32:f8E8M0FNU:f8E8M0FNU",
        "BLOCK_SHAPE_32:f8E4M3FN:f4E2M1FN",
        "BLOCK_SHAPE_16:f8E8M0FNU:f4E2M1FN",
        "BLOCK_SHAPE_32:f8E8M0FNU",
        "f4E2M1FN",
        *(
            f"BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN{suffix}"
            for suffix in (
                ", {}",
                ", {-1.0}",
                ", {nan}",
                ", 1.0",
                ", {1.0",
                ", {1.0}, 1",
            )
        ),
    ],
)
def test_block_scaled_types_are_refused(mlir_of_main: Mlir, parameters: str):
    text = _block_scaled(parameters)
    assert isinstance(mlir_of_main.run(text), Rejected)
    assert isinstance(answer_module(text), Rejected)


def test_casts_of_blocks_are_the_same_in_main(mlir_of_main: Mlir, mlir: Mlir):
    for op in ADDED:
        if op.name == "cast_from_block_scaled":
            assert mlir_of_main.run(str(op)) == mlir.run(str(op))


@pytest.mark.parametrize("op", [*ADDED, *PRESENT], ids=lambda op: op.name)
def test_text_for_main_is_read_by_all_versions(mlir: Mlir, mlir_of_main: Mlir, op: Op):
    ctx = multiverse_context()
    module, output = Parser(ctx, str(op)).parse_module(), StringIO()
    MLIRMainTarget().emit(ctx, module, output)
    text = output.getvalue()
    # Main has no dictionary of properties in custom forms.
    assert not re.search(r" tosa\.[^\n]* \{\w+ =", text)
    assert mlir.run(text) == mlir.run(str(op))
    assert mlir_of_main.run(text) == mlir_of_main.run(str(op))
    assert answer_module(text) == answer_module(str(op))


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (
            "tosa.clamp %x min_val(-3 : i8) max_val(4 : i8) : "
            "(tensor<4xi8>) -> tensor<4xi8>",
            "tosa.clamp %x {max_val = 4 : i8, min_val = -3 : i8} : "
            "(tensor<4xi8>) -> tensor<4xi8>",
        ),
        (
            "tosa.clamp %x min_val(-3 : i8) max_val(4 : i8) nan_mode(IGNORE) "
            "{a = 1 : i8} : "
            "(tensor<4xi8>) -> tensor<4xi8>",
            "tosa.clamp %x {a = 1 : i8, max_val = 4 : i8, min_val = -3 : i8, "
            "nan_mode = IGNORE} : "
            "(tensor<4xi8>) -> tensor<4xi8>",
        ),
    ],
)
def test_custom_forms_of_main_are_read(op: str, expected: str):
    answer = answer_module(f"func.func @f(%x: tensor<4xi8>) {{\n%0 = {op}\nreturn\n}}")
    assert isinstance(answer, Accepted)
    assert f"%0 = {expected}\n" in answer.text
