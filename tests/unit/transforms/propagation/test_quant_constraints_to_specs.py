"""Constraints on values become specifications of the ports that define or use them."""

import subprocess
from collections.abc import Sequence
from io import StringIO
from random import Random

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.printer import Printer

from tests.unit.mlir_14 import MLIR_OPT_14, needs_mlir_14
from xdsl_quant.dialects.quant import (
    CoupledRefOp,
    DequantizeCastOp,
    QuantizeCastOp,
    RegionOp,
    StatisticsOp,
)
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module
from xdsl_quant.transforms.propagation.port_ranges import (
    PORT_STATS,
    coupled_ports,
    port_ranges,
)
from xdsl_quant.transforms.propagation.quant_constraints_to_specs import (
    QuantConstraintsToSpecsPass,
)
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE

U = "!quant.uniform<i8:f32, 5.000000e-01>"
V = "!quant.uniform<i8:f32, 2.500000e-01>"
CALIBRATED = "!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>"
NONE = "!quant.none<f32>"


def converted(text: str) -> ModuleOp:
    module = parse_module(text)
    apply_passes(module, "quant-constraints-to-specs")
    module.verify()
    return module


def kernels(module: Operation) -> list[RegionOp]:
    return [op for op in module.walk() if isinstance(op, RegionOp)]


def specs(text: str) -> list[str]:
    """The specifications of all ports after the pass, in order."""
    return [str(spec) for op in kernels(converted(text)) for spec in op.specs]


def error(text: str) -> str:
    before = parse_module(text)
    module = parse_module(text)
    with pytest.raises(IRError) as caught:
        apply_passes(module, "quant-constraints-to-specs")
    assert module.is_structurally_equivalent(before)
    return str(caught.value).split(" (in the pass")[0]


def cast(number: int, type_: str) -> str:
    """Casts of `%vNUMBER` to `%v(NUMBER + 1)`."""
    return (
        f"%q{number} = quant.qcast %v{number} : f32 to {type_}\n"
        f"%v{number + 1} = quant.dcast %q{number} : {type_} to f32\n"
    )


def stats(number: int, low: float, high: float) -> str:
    return f"%v{number + 1} = quant.stats %v{number} <{low:.1f}:{high:.1f}> : f32\n"


def function(*links: str, input_spec: str = "f32", result_spec: str = "f32") -> str:
    """A kernel whose result passes through ops to another one."""
    return (
        "func.func @f(%x: f32) {\n"
        f'%v0 = quant.region "first" (%a = %x : f32) -> (f32 as {result_spec}) {{\n'
        "quant.return %a : f32\n}\n"
        f"{''.join(links)}"
        f'quant.region "second" (%a = %v{len(links)} : f32 as {input_spec}) {{\n}}\n'
        "func.return\n}\n"
    )


def test_registered():
    name = QuantConstraintsToSpecsPass.name
    assert name == "quant-constraints-to-specs"
    assert XDSL_QUANT_UNIVERSE.all_passes[name]() is QuantConstraintsToSpecsPass


# Several constraints on one value

ANY4, ANY8, ANY_U8 = (f"!quant.any<{t}:f32>" for t in ("i4", "i8", "u8"))
NARROW = "!quant.uniform<i8<-127:127>:f32, 5.000000e-01>"
I16 = "!quant.uniform<i16:f32, 5.000000e-01>"


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ([U], U),
        ([U, U, U], U),
        ([CALIBRATED, CALIBRATED], CALIBRATED),
        ([NONE, NONE], NONE),
        # Ranges give way to all but a storage type.
        ([U, CALIBRATED], U),
        ([NONE, CALIBRATED], NONE),
        ([CALIBRATED, U, "!quant.calibrated<f32<0.0:1.0>>"], U),
        # Storage that is wide enough.
        ([ANY4, ANY8], ANY8),
        ([ANY8, U], U),
        ([ANY8, NARROW], NARROW),
        ([ANY4, ANY8, I16], I16),
        # A width and a range are both kept.
        ([CALIBRATED, ANY8], ANY8),
        ([CALIBRATED, ANY8, U], U),
    ],
)
def test_constraints_that_agree(types: list[str], expected: str):
    for some in (types, types[::-1]):
        links = [cast(number, type_) for number, type_ in enumerate(some)]
        assert specs(function(*links)) == ["f32", expected, expected]
        # Specifications count as well.
        first, *others = some
        links = [cast(number, type_) for number, type_ in enumerate(others)]
        for given in ({"input_spec": first}, {"result_spec": first}):
            text = function(*links, **given)
            assert specs(text) == ["f32", expected, expected]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (U, NONE),
        (CALIBRATED, "!quant.calibrated<f32<0.000000e+00:1.000000e+00>>"),
        (ANY8, ANY_U8),
        (ANY8, NONE),
        (ANY8, "!quant.any<i8<-127:127>:f32>"),
        (U, ANY_U8),
        (U, "!quant.any<i16:f32>"),
    ],
)
def test_contradictions(a: str, b: str):
    assert error(function(cast(0, a), cast(1, b))).startswith("module:")
    for x, y in ((a, b), (b, a)):
        message = error(function(cast(0, x), cast(1, y)))
        assert "error: contradictory constraints on a value, found " in message
        assert f"{x} of 'quant.qcast' op at module:5:1" in message
        assert f"{y} of 'quant.qcast' op at module:7:1" in message
        assert message.endswith("; keep one of them")
        message = error(function(cast(0, x), input_spec=y))
        assert f"{x} of 'quant.qcast' op at module:5:1" in message
        assert f"{y} of input #0 of kernel 'second' at module:7:1" in message
        message = error(function(cast(0, x), result_spec=y))
        assert f"{y} of output #0 of kernel 'first' at module:2:1" in message


@pytest.mark.parametrize(
    "other", [V, NARROW, "!quant.fixed_point<i8:f32, 1073741824p-31>"]
)
def test_casts_to_other_parameters_are_rescales(other: str):
    for a, b in ((U, other), (other, U)):
        assert specs(function(cast(0, a), cast(1, b))) == ["f32", a, b]
        assert specs(function(cast(0, a), input_spec=b)) == ["f32", a, b]
        assert specs(function(cast(0, a), result_spec=b)) == ["f32", b, a]


def branches(*links: str, uses: Sequence[str], returned: str = "") -> str:
    """A function in which kernels take `%v0`, the result of one, and results of links."""
    takers = "".join(
        f'quant.region "use{i}" (%a = {use} : f32) {{\n}}\n'
        for i, use in enumerate(uses)
    )
    return (
        f"func.func @f(%x: f32){' -> f32' if returned else ''} {{\n"
        '%v0 = quant.region "first" (%a = %x : f32) -> (f32) {\n'
        f"quant.return %a : f32\n}}\n{''.join(links)}{takers}"
        f"func.return{f' {returned} : f32' if returned else ''}\n}}\n"
    )


def branch(name: str, value: str, type_: str) -> str:
    return (
        f"%{name}q = quant.qcast {value} : f32 to {type_}\n"
        f"%{name} = quant.dcast %{name}q : {type_} to f32\n"
    )


@pytest.mark.parametrize(
    ("links", "uses", "expected"),
    [
        # All uses are behind the cast: it decides the value.
        ([branch("b", "%v0", U)], ["%b", "%b"], [U, U, U]),
        ([branch("b", "%v0", U), branch("c", "%v0", U)], ["%b", "%c"], [U, U, U]),
        # A plain use.
        ([branch("b", "%v0", U)], ["%b", "%v0"], ["f32", U, "f32"]),
        # Statistics before and after the cast.
        (
            ["%s = quant.stats %v0 <-1.0:1.0> : f32\n", branch("b", "%s", U)],
            ["%b", "%s"],
            [CALIBRATED, U, CALIBRATED],
        ),
        (
            [branch("b", "%v0", U), "%s = quant.stats %v0 <-1.0:1.0> : f32\n"],
            ["%b", "%s"],
            [CALIBRATED, U, CALIBRATED],
        ),
        # Two casts, and two casts with a plain use.
        ([branch("b", "%v0", U), branch("c", "%v0", V)], ["%b", "%c"], ["f32", U, V]),
        (
            [branch("b", "%v0", U), branch("c", "%v0", V)],
            ["%c", "%b", "%v0"],
            ["f32", V, U, "f32"],
        ),
        # A cast behind a cast.
        ([branch("b", "%v0", U), branch("c", "%b", V)], ["%b", "%c"], [U, U, V]),
        # Fake quantization is a cast as well.
        (
            ["%b = quant.const_fake_quant %v0 <-1.0:0.9921875> bits 8 signed : f32\n"],
            ["%b", "%v0"],
            ["f32", "!quant.uniform<i8:f32, 7.812500e-03>", "f32"],
        ),
    ],
)
def test_a_cast_speaks_for_the_uses_behind_it(
    links: Sequence[str], uses: Sequence[str], expected: Sequence[str]
):
    text = branches(*links, uses=uses)
    assert specs(text) == ["f32", *expected]
    module = converted(text)
    assert not [op for op in module.walk() if op.name in ("quant.qcast", "quant.stats")]
    assert converted(str(module)).is_structurally_equivalent(module)


def test_a_cast_of_a_branch_stays_for_uses_outside_of_kernels():
    casts = branch("b", "%v0", U)
    module = converted(branches(casts, uses=["%b", "%v0"], returned="%b"))
    expected = ["f32", "f32", U, "f32"]
    assert [str(s) for op in kernels(module) for s in op.specs] == expected
    names = [op.name for op in module.walk()]
    assert names.count("quant.qcast") == names.count("quant.dcast") == 1
    # The kernels take the value itself.
    assert len({op.inputs[0] for op in kernels(module)[1:]}) == 1


def test_a_plain_use_outside_of_kernels_is_one():
    casts = branch("b", "%v0", U)
    module = converted(branches(casts, uses=["%b"], returned="%v0"))
    assert [str(s) for op in kernels(module) for s in op.specs] == ["f32", "f32", U]
    assert "quant.qcast" not in [op.name for op in module.walk()]


def test_message_about_a_contradiction():
    assert error(function(cast(0, U), cast(1, NONE))) == (
        f"module:7:1: error: contradictory constraints on a value, found {U} of "
        f"'quant.qcast' op at module:5:1 and {NONE} of 'quant.qcast' op at module:7:1; "
        "keep one of them"
    )


def test_parameters_of_ports_may_differ():
    text = function(input_spec=U, result_spec=V)
    assert specs(text) == ["f32", V, U]
    assert specs(function(cast(0, U), input_spec=U, result_spec=V)) == ["f32", V, U]
    assert "contradictory" in error(function(input_spec=U, result_spec=NONE))
    assert "contradictory" in error(
        function(input_spec=CALIBRATED, result_spec="!quant.calibrated<f32<0.0:1.0>>")
    )


REF = '%v1 = quant.stats_ref %v0 "r" : f32\n'


def test_parameters_of_ports_differ_and_others_have_those_of_the_definition():
    third = 'quant.region "third" (%a = %v1 : f32) {\n}\n'
    for link in (REF, stats(0, -1, 1)):
        text = function(link, third, input_spec=U, result_spec=V)
        text = text.replace("%v2", "%v1")
        assert specs(text) == ["f32", V, V, U]


def test_parameters_of_ports_differ_and_the_definition_has_none():
    text = f"""func.func @f(%x: f32) {{
      STATS
      quant.region "k" (%a = %y : f32 as {U}, %b = %y : f32, %c = %y : f32 as {V}) {{
      }}
      func.return
    }}"""
    recorded = text.replace("STATS", '%y = quant.stats_ref %x "r" : f32')
    assert specs(recorded) == [U, "f32", V]
    observed = text.replace("STATS", "%y = quant.stats %x <-1.0:1.0> : f32")
    assert specs(observed) == [U, CALIBRATED, V]


def test_values_that_are_quantized_outside_of_kernels_may_be_rescaled():
    text = f"""func.func @f(%q: {U}) -> {U} {{
      %x = quant.dcast %q : {U} to f32
      %y = quant.region "k" (%a = %x : f32 as {V}, %b = %x : f32) -> (f32 as {V}) {{
        quant.return %a : f32
      }}
      %r = quant.qcast %y : f32 to {U}
      %d = quant.dcast %r : {U} to f32
      quant.region "l" (%a = %d : f32) {{
      }}
      func.return %r : {U}
    }}"""
    module = converted(text)
    assert [str(s) for op in kernels(module) for s in op.specs] == [V, U, V, U]
    assert converted(str(module)).is_structurally_equivalent(module)
    # A pair of casts speaks for the uses behind it. A storage type is a wish.
    assert specs(text.replace("func.return %r", "func.return %q")) == [V, U, V, U]
    assert "contradictory" in error(text.replace(f"as {V}, %b", f"as {ANY_U8}, %b"))


def test_statistics_of_one_value_differ():
    message = error(function(stats(0, -1, 1), stats(1, 0, 1)))
    assert message == (
        f"module:6:1: error: contradictory constraints on a value, found {CALIBRATED} of "
        "'quant.stats' op at module:5:1 and "
        "!quant.calibrated<f32<0.000000e+00:1.000000e+00>> of 'quant.stats' op at "
        "module:6:1; keep one of them"
    )


# Statistics of an axis

T = "tensor<2x3xf32>"
FIRST = "axis 0 [<-1.0:0.0>, <0.0:1.0>]"
OTHER = "axis 0 [<-1.0:1.0>, <0.0:1.0>]"
LAST = "axis 1 [<-1.0:0.0>, <0.0:1.0>, <0.0:0.0>]"


def axes(*ranges: str, couple: bool = False) -> str:
    """As many values with statistics, coupled or one after the other."""
    if not couple:
        links = "".join(
            f"%v{i + 1} = quant.stats %v{i} <-1.0:1.0> {text} : {T}\n"
            for i, text in enumerate(ranges)
        )
        return (
            f"func.func @f(%v0: {T}) {{\n{links}"
            f'quant.region "k" (%a = %v{len(ranges)} : {T}) {{\n}}\nfunc.return\n}}'
        )
    arguments = ", ".join(f"%x{i}: {T}" for i in range(len(ranges)))
    links = "".join(
        f"%s{i} = quant.stats %x{i} <-1.0:1.0> {text} : {T}\n"
        f'%c{i} = quant.coupled_ref %s{i} "k" : {T}\n'
        for i, text in enumerate(ranges)
    )
    ports = ", ".join(f"%a{i} = %c{i} : {T}" for i in range(len(ranges)))
    return (
        f"func.func @f({arguments}) {{\n{links}"
        f'quant.region "k" ({ports}) {{\n}}\nfunc.return\n}}'
    )


def axis_ranges(text: str) -> list[tuple[int | None, list[list[float]] | None]]:
    module = converted(text)
    (kernel,) = kernels(module)
    again = converted(str(module))
    assert again.is_structurally_equivalent(module)
    return [
        (ranges.axis, None if (pairs := ranges.axis_ranges) is None else pairs.tolist())
        for ranges in port_ranges(kernel).values()
    ]


def test_ranges_of_an_axis():
    expected = (0, [[-1.0, 0.0], [0.0, 1.0]])
    assert axis_ranges(axes(FIRST)) == [expected]
    assert axis_ranges(axes(FIRST, FIRST)) == [expected]
    assert axis_ranges(axes("", FIRST)) == [expected]
    assert axis_ranges(axes(FIRST, "")) == [expected]
    assert axis_ranges(axes("")) == [(None, None)]


@pytest.mark.parametrize("others", [(FIRST, LAST), (FIRST, OTHER)])
def test_ranges_of_an_axis_differ(others: tuple[str, str]):
    assert "contradictory constraints on a value" in error(axes(*others))


def test_ranges_of_an_axis_of_coupled_values():
    assert (
        axis_ranges(axes(FIRST, OTHER, couple=True))
        == [(0, [[-1.0, 1.0], [0.0, 1.0]])] * 2
    )
    for others in ((FIRST, LAST), (FIRST, "")):
        assert axis_ranges(axes(*others, couple=True)) == [(None, None)] * 2


def test_an_axis_that_a_coupled_value_does_not_have():
    text = f"""
      func.func @f(%x: {T}, %y: tensor<3xf32>, %z: f32, %u: tensor<*xf32>) {{
        %s = quant.stats %x <-1.0:1.0> {FIRST} : {T}
        %0 = quant.coupled_ref %s "k" : {T}
        %1 = quant.coupled_ref %y "k" : tensor<3xf32>
        %2 = quant.coupled_ref %z "k" : f32
        %3 = quant.coupled_ref %u "k" : tensor<*xf32>
        quant.region "k" (
          %a = %0 : {T}, %b = %1 : tensor<3xf32>, %c = %2 : f32, %d = %3 : tensor<*xf32>
        ) {{
        }}
        func.return
      }}"""
    assert axis_ranges(text) == [(0, [[-1.0, 0.0], [0.0, 1.0]])] + [(None, None)] * 3


def test_ranges_of_a_cast_with_an_axis():
    module = parse_module(axes(FIRST))
    apply_passes(module, "quant-stats-to-calibrated")
    assert converted(str(module)).is_structurally_equivalent(converted(axes(FIRST)))


def test_inlined_kernels_keep_ranges_of_an_axis():
    inlined = converted(axes(FIRST))
    apply_passes(inlined, "quant-inline-regions")
    expected = parse_module(axes(FIRST))
    apply_passes(expected, "quant-stats-to-calibrated,quant-inline-regions")
    casts, expected_casts = (
        [op for op in module.walk() if isinstance(op, QuantizeCastOp)]
        for module in (inlined, expected)
    )
    assert len(casts) == 1
    assert [op.attributes for op in casts] == [op.attributes for op in expected_casts]


@pytest.mark.parametrize(
    "attribute",
    [
        "1",
        "[1]",
        "[{}]",
        "[{port = unit}]",
        "[{port = 0, quant.axis = 0}]",
        "[{port = 0, quant.axis = 0, quant.axis_stats = dense<0.0> : tensor<2xf64>}]",
    ],
)
def test_statistics_of_ports_in_another_form(attribute: str):
    text = f"""func.func @f(%x: f32) {{
      quant.region "k" (%a = %x : f32 as {CALIBRATED})
        attributes {{{PORT_STATS} = {attribute}}} {{
      }}
      func.return
    }}"""
    assert error(text).startswith("module:2:7: error: 'quant.region' op expects ")


def test_a_width_and_a_range_are_at_one_port():
    text = function(cast(0, ANY8), stats(1, -1, 2), stats(2, -1, 2))
    module = converted(text)
    for kernel, port in zip(kernels(module), (1, 0), strict=True):
        assert str(kernel.specs[port]) == ANY8
        assert port_ranges(kernel)[port].layer.tolist() == [[-1, 2]]
    before = str(module)
    apply_passes(module, "quant-constraints-to-specs")
    assert str(module) == before
    # They survive inlining, too.
    apply_passes(module, "quant-inline-regions{kernels=second}")
    apply_passes(module, "quant-constraints-to-specs")
    (kernel,) = kernels(module)
    assert port_ranges(kernel)[1].layer.tolist() == [[-1, 2]]


def test_the_range_beside_a_width_is_two_numbers():
    text = function(result_spec=ANY8).replace(
        f"(f32 as {ANY8}) {{",
        f"(f32 as {ANY8}) attributes {{quant.port_stats = [{{port = 1 : i64, "
        "quant.layer_stats = array<f64: 1.0>}]} {",
    )
    assert "op expects 'quant.layer_stats' with two numbers of type f64" in error(text)


def with_port_stats(attribute: str, spec: str = "") -> str:
    return f"""func.func @f(%x: {T}) {{
      quant.region "k" (%a = %x : {T}{spec}) attributes {{{PORT_STATS} = {attribute}}} {{
      }}
      func.return
    }}"""


AXIS_STATS = "quant.axis_stats = dense<[[-1.0, 0.0], [0.0, 2.0]]> : tensor<2x2xf64>"
OF_PORT = f"port = 0, quant.axis = 0, {AXIS_STATS}"


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (
            f"[{{port = 1, quant.axis = 0, {AXIS_STATS}}}]",
            "has 'quant.port_stats' of port 1, expected distinct port numbers below 1",
        ),
        (
            f"[{{{OF_PORT}}}, {{{OF_PORT}}}]",
            "has 'quant.port_stats' of port 0, expected distinct port numbers below 1",
        ),
        (
            f"[{{port = 0, quant.axis = 1, {AXIS_STATS}}}]",
            "has 2 ranges of dimension 1 of port 0 in 'quant.port_stats', but this port "
            "has type 'tensor<2x3xf32>'; expected one range for each index of the "
            "dimension",
        ),
        (
            f"[{{{OF_PORT.replace('0.0, 2', '3.0, 2')}}}]",
            "range 3.0 to 2.0 is reversed",
        ),
        (
            "[{port = 0, quant.axis = 0, quant.axis_stats = dense<> : tensor<0x2xf64>}]",
            "expects 'quant.axis_stats' with at least one range",
        ),
    ],
)
def test_wrong_statistics_of_ports(attribute: str, message: str):
    text = with_port_stats(attribute)
    assert error(text) == f"module:2:7: error: 'quant.region' op {message}"


def test_statistics_of_ports_are_ranges():
    """Also if nothing else says something; other specifications count more."""
    (kernel,) = kernels(converted(with_port_stats(f"[{{{OF_PORT}}}]")))
    assert list(map(str, kernel.specs)) == [
        "!quant.calibrated<f32<-1.000000e+00:2.000000e+00>>"
    ]
    assert port_ranges(kernel)[0].axis == 0
    assert specs(with_port_stats(f"[{{{OF_PORT}}}]", f" as {U}")) == [U]


# Couplings


def coupled(*types: str) -> str:
    """A kernel whose operands are coupled, and have been cast."""
    arguments = ", ".join(f"%v{2 * i}: f32" for i in range(len(types)))
    links = "".join(
        (cast(2 * i, type_) if type_ else f"%v{2 * i + 1} = quant.stats_ref %v{2 * i} "
         '"r" : f32\n')
        + f'%c{i} = quant.coupled_ref %v{2 * i + 1} "k" : f32\n'
        for i, type_ in enumerate(types)
    )  # fmt: skip
    ports = ", ".join(f"%a{i} = %c{i} : f32" for i in range(len(types)))
    return (
        f"func.func @f({arguments}) {{\n{links}"
        f'quant.region "k" ({ports}) {{\n}}\nfunc.return\n}}'
    )


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (["", U], U),
        ([U, U, CALIBRATED], U),
        (["", NONE, CALIBRATED], NONE),
        (["", ANY4, ANY8], ANY8),
        (
            [CALIBRATED, "!quant.calibrated<f32<0.0:2.0>>", ""],
            "!quant.calibrated<f32<-1.000000e+00:2.000000e+00>>",
        ),
    ],
)
def test_coupled_values_have_one_specification(types: list[str], expected: str):
    module = converted(coupled(*types))
    (kernel,) = kernels(module)
    assert [str(spec) for spec in kernel.specs] == [expected] * len(types)
    assert not any(isinstance(op, CoupledRefOp) for op in module.walk())
    # They will have one set of parameters, too.
    is_open = expected not in (U, NONE)
    keys = dict.fromkeys(range(len(types)), "k") if is_open else {}
    assert coupled_ports(kernel) == keys


def test_coupled_values_of_different_types():
    assert error(coupled(U, "", V)) == (
        "module:7:1: error: contradictory constraints on values coupled by 'k', found "
        f"{U} of 'quant.qcast' op at module:2:1 and {V} of 'quant.qcast' op at "
        "module:7:1; keep one of them"
    )


def test_quantized_values_that_are_coupled():
    text = f"""
      func.func @f(%x: f32, %q: {V}) {{
        %0 = quant.coupled_ref %x "k" : f32
        %1 = quant.coupled_ref %q "k" : {V}
        quant.region "k" (%a = %0 : f32 as SPEC) {{
        }}
        func.return
      }}"""
    module = converted(text.replace("SPEC", "f32"))
    (kernel,) = kernels(module)
    assert str(kernel.specs[0]) == V
    assert sum(isinstance(op, CoupledRefOp) for op in module.walk()) == 2
    message = error(text.replace("SPEC", U))
    assert f"{V} of 'quant.coupled_ref' op at module:4:9" in message
    assert f"{U} of input #0 of kernel 'k' at module:5:9" in message


def test_couplings_without_constraints(capsys: pytest.CaptureFixture[str]):
    module = converted(coupled("", ""))
    assert module.is_structurally_equivalent(parse_module(coupled("", "")))
    assert capsys.readouterr().err == (
        "module:3:1: warning: couplings of values without constraints have no effect, "
        "found 2 'quant.coupled_ref'; add statistics, or remove them\n"
    )


def test_a_specification_that_does_not_fit_a_coupled_value():
    text = f"""func.func @f(%x: {T}, %y: f32) {{
      %0 = quant.const_fake_quant_per_axis %x axis 0 [<-1.0:1.0>, <-1.0:1.0>] bits 8 : {T}
      %1 = quant.coupled_ref %0 "k" : {T}
      %2 = quant.coupled_ref %y "k" : f32
      quant.region "k" (%a = %1 : {T}, %b = %2 : f32) {{
      }}
      func.return
    }}"""
    assert error(text) == (
        "module:5:7: error: input #1 of kernel 'k' has type 'f32', which does not support "
        "!quant.uniform<u8:f32:0, {0.0078431372549019607:128,0.0078431372549019607:128}> "
        "of 'quant.const_fake_quant_per_axis' op at module:2:7; remove one of the "
        "constraints"
    )


# What stays


def test_constraints_elsewhere_are_reported(capsys: pytest.CaptureFixture[str]):
    text = """func.func @f(%x: f32, %y: f32) -> (f32, f32) {
      %0 = quant.stats %x <-1.0:1.0> : f32
      %1 = quant.stats_ref %0 "r" : f32
      %2 = quant.const_fake_quant %y <-1.0:1.0> bits 8 : f32
      %3 = quant.stats %2 <-1.0:1.0> : f32
      func.return %1, %3 : f32, f32
    }"""
    assert converted(text).is_structurally_equivalent(parse_module(text))
    assert capsys.readouterr().err == (
        "module:2:7: warning: constraints of values outside of kernels have no effect, "
        "found 1 'quant.const_fake_quant', 2 'quant.stats'; run 'quant-fuse-kernels' "
        "first to create kernels\n"
    )
    converted(text + function(stats(0, -1, 1)).replace("@f", "@g"))
    assert capsys.readouterr().err == (
        "module:4:7: warning: constraints of values outside of kernels have no effect, "
        "found 1 'quant.const_fake_quant'; add kernels for the ops next to them to the "
        "target, or remove them\n"
    )


def test_nothing_is_reported_if_all_constraints_are_specified(
    capsys: pytest.CaptureFixture[str],
):
    converted(function(stats(0, -1, 1), cast(1, U)))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("link", "message"),
    [
        (stats(0, 1, -1), "range 1.0 to -1.0 is reversed"),
        (
            "%v1 = quant.const_fake_quant %v0 <-1.0:1.0> bits 40 : f32\n",
            "unsupported FakeQuant number of bits: 40",
        ),
    ],
)
def test_constraints_that_are_none(link: str, message: str):
    found = error(function(link))
    assert found.startswith("module:5:1: error: ")
    assert found.endswith(message)


def test_exact_bits():
    link = "%v1 = quant.const_fake_quant %v0 <-1.0:1.0> bits 4 signed : f32\n"
    module = parse_module(function(link))
    apply_passes(module, "quant-constraints-to-specs{exact-bits=true}")
    assert "!quant.uniform<i4:" in str(kernels(module)[1].specs[0])


# Random modules, compared with the definition: values are nodes of a graph.


def random_module(rng: Random) -> str:
    """Kernels, and statistics and couplings of values between them."""
    values = [f"%x{i}" for i in range(rng.randint(1, 4))]
    lines = [f"func.func @f({', '.join(f'{value}: f32' for value in values)}) {{"]
    for i in range(rng.randint(1, 25)):
        value = rng.choice(values[-5:])
        match rng.randrange(4):
            case 0:
                lines.append(
                    f'%v{i} = quant.region "k" (%a = {value} : f32) -> (f32) {{\n'
                    "quant.return %a : f32\n}"
                )
            case 1:
                lines.append(
                    f'%v{i} = quant.coupled_ref {value} "{rng.randrange(3)}" : f32'
                )
            case 2:
                low, high = -rng.randrange(1, 9), rng.randrange(1, 9)
                lines.append(f"%v{i} = quant.stats {value} <{low}.0:{high}.0> : f32\n")
            case _:
                lines.append(f'%v{i} = quant.stats_ref {value} "r" : f32')
        values.append(f"%v{i}")
    return "\n".join([*lines, "func.return\n}"])


def expected_specs(module: ModuleOp) -> list[str] | None:
    """The specifications by the definition; `None` if ranges of a value differ."""
    neighbours: dict[object, set[object]] = {}

    def connect(a: object, b: object) -> None:
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)

    for op in module.walk():
        if op.name in ("quant.stats", "quant.stats_ref", "quant.coupled_ref"):
            connect(op.operands[0], op.results[0])
        if isinstance(op, CoupledRefOp):
            connect(op.input, op.coupled_key.data)

    def reached(value: object) -> set[object]:
        found, todo = {value}, [value]
        while todo:
            for other in neighbours.get(todo.pop(), ()):
                if other not in found:
                    found.add(other)
                    todo.append(other)
        return found

    result: list[str] = []
    for kernel in kernels(module):
        for value in (*kernel.inputs, *kernel.results):
            group = reached(value)
            ranges = [
                tuple(op.layer_stats.get_values())
                for op in module.walk()
                if isinstance(op, StatisticsOp) and op.input in group
            ]
            if not ranges:
                result.append("f32")
                continue
            if len({*ranges}) > 1 and not any(isinstance(key, str) for key in group):
                return None
            low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
            result.append(f"!quant.calibrated<f32<{low:.6e}:{high:.6e}>>")
    return result


@pytest.mark.sampled(0)
def test_random_modules():
    rng = Random(0)
    contradictions = 0
    for _ in range(40):
        text = random_module(rng)
        expected = expected_specs(parse_module(text))
        if expected is None:
            contradictions += 1
            assert "contradictory constraints on a value, found" in error(text)
            continue
        module = converted(text)
        assert [str(s) for op in kernels(module) for s in op.specs] == expected
        again = converted(str(module))
        assert again.is_structurally_equivalent(module)
    assert 2 < contradictions < 20


# MLIR 14


def mlir_14_text(module: ModuleOp) -> str:
    """The generic form without properties, which MLIR 14 does not have."""
    stream = StringIO()
    Printer(
        stream, print_generic_format=True, print_properties_as_attributes=True
    ).print_op(module)
    return stream.getvalue()


# Calls


def called(*arguments: str, inner: str = "", visibility: str = "private") -> str:
    """Calls of a function with a kernel, each with a constraint on its operand."""
    lines = "".join(
        f"{argument}%y{i} = func.call @f(%v{i}) : (f32) -> f32\n"
        for i, argument in enumerate(arguments)
    )
    names = ", ".join(f"%x{i}: f32" for i in range(len(arguments)))
    return f"""
      func.func @main({names}) -> f32 {{
        {lines}
        func.return %y0 : f32
      }}
      func.func {visibility} @f(%a: f32) -> f32 {{
        {inner or "%b = quant.stats_ref %a " + '"a" : f32'}
        %c = quant.region "k" (%d = %b : f32) -> (f32) {{
          quant.return %d : f32
        }}
        func.return %c : f32
      }}"""


def range_of_argument(number: int, low: float, high: float) -> str:
    return f"%v{number} = quant.stats %x{number} <{low:.1f}:{high:.1f}> : f32\n"


WIDE = CALIBRATED.replace("1.0", "2.0")


def functions_with_specs(module: ModuleOp) -> list[tuple[str, list[str]]]:
    return [
        (op.sym_name.data, [str(spec) for k in kernels(op) for spec in k.specs])
        for op in module.body.block.ops
        if isinstance(op, FuncOp)
    ]


def test_statistics_of_a_value_that_is_only_passed_to_a_call(
    capsys: pytest.CaptureFixture[str],
):
    module = converted(called(range_of_argument(0, -1, 1)))
    assert functions_with_specs(module) == [("main", []), ("f", [CALIBRATED, "f32"])]
    assert not any(isinstance(op, StatisticsOp) for op in module.walk())
    assert not capsys.readouterr().err
    text = str(module)
    apply_passes(module, "quant-constraints-to-specs")
    assert str(module) == text


def test_casts_of_a_value_that_is_only_passed_to_a_call():
    casts = f"%q = quant.qcast %x0 : f32 to {U}\n%v0 = quant.dcast %q : {U} to f32\n"
    inner = "%b = quant.stats %a <-1.0:1.0> : f32"
    module = converted(called(casts, inner=inner))
    assert functions_with_specs(module) == [("main", []), ("f", [U, "f32"])]


@pytest.mark.parametrize(
    ("visibility", "functions"),
    [
        ("private", [("f", CALIBRATED), ("f_0", WIDE)]),
        # Others may call it with anything.
        ("", [("f", "f32"), ("f_1", WIDE), ("f_0", CALIBRATED)]),
    ],
)
def test_function_that_is_called_with_different_statistics(
    visibility: str,
    functions: list[tuple[str, str]],
    capsys: pytest.CaptureFixture[str],
):
    arguments = [range_of_argument(i, -1 - i % 2, 1 + i % 2) for i in range(3)]
    module = converted(called(*arguments, visibility=visibility))
    _, *found = functions_with_specs(module)
    assert found == [(name, [spec, "f32"]) for name, spec in functions]
    _, _, warning = capsys.readouterr().err.partition("warning: ")
    assert warning == (not visibility) * (
        "public function 'f' ignores the constraints of its calls, which use a copy; "
        "make it private, or add statistics of its arguments\n"
    )
    text = str(module)
    apply_passes(module, "quant-constraints-to-specs")
    assert str(module) == text


def test_statistics_in_a_function_count_more(capsys: pytest.CaptureFixture[str]):
    inner = "%b = quant.stats %a <-2.0:2.0> : f32"
    arguments = [range_of_argument(i, -1, 1) for i in range(2)]
    module = converted(called(*arguments, inner=inner))
    assert functions_with_specs(module)[1:] == [("f", [WIDE, "f32"])]
    assert not capsys.readouterr().err


def test_statistics_through_several_calls():
    """Of an argument, of what a call returns, and of both sides of a call."""
    module = converted("""
      func.func @main(%x: f32) -> f32 {
        %0 = quant.stats %x <-1.0:0.5> : f32
        %1 = func.call @f(%0) : (f32) -> f32
        %2 = quant.stats %1 <-2.0:2.0> : f32
        func.return %2 : f32
      }
      func.func private @f(%x: f32) -> f32 {
        %0 = quant.stats %x <0.0:1.0> : f32
        %1 = func.call @g(%0) : (f32) -> f32
        func.return %1 : f32
      }
      func.func private @g(%x: f32) -> f32 {
        %0 = quant.region "k" (%a = %x : f32) -> (f32) {
          quant.return %a : f32
        }
        func.return %0 : f32
      }""")
    assert functions_with_specs(module)[1:] == [("f", []), ("g", [CALIBRATED, WIDE])]


def test_casts_before_and_behind_a_call_are_a_rescale():
    casts = f"%q = quant.qcast %x0 : f32 to {U}\n%v0 = quant.dcast %q : {U} to f32\n"
    inner = f"%p = quant.qcast %a : f32 to {V}\n%b = quant.dcast %p : {V} to f32\n"
    module = converted(called(casts, inner=inner))
    assert V in [str(s) for op in kernels(module) for s in op.specs]
    # The cast of the caller stays: it is a rescale.
    (kept,) = [op for op in module.walk() if op.name == "quant.qcast"]
    assert str(kept.results[0].type) == U


def test_recursive_functions_know_nothing_of_their_calls(
    capsys: pytest.CaptureFixture[str],
):
    inner = "%b = func.call @f(%a) : (f32) -> f32\n"
    module = converted(called(range_of_argument(0, -1, 1), inner=inner))
    assert functions_with_specs(module)[1:] == [("f", ["f32", "f32"])]
    assert capsys.readouterr().err == (
        "module:3:9: warning: 'quant-constraints-to-specs' changed nothing, expected "
        "casts, statistics or fake quantization of values at the ports of kernels, "
        "found 1 'quant.stats'\n"
    )
    assert "quant.stats" in str(module)


@needs_mlir_14
def test_mlir_14_reads_specifications():
    text = f"""
      func.func @f(%x: {T}, %y: {T}) -> {T} {{
        %0 = quant.stats %x <-1.0:1.0> {FIRST} : {T}
        %1 = quant.const_fake_quant %y <-1.0:1.0> bits 8 signed narrow : {T}
        %2 = quant.region "add" (%a = %0 : {T}, %b = %1 : {T}) -> ({T} as {ANY8}) {{
          %3 = tfl.add(%a, %b) <{{fused_activation_function = "NONE"}}> : ({T}, {T}) -> {T}
          quant.return %3 : {T}
        }}
        %4 = quant.const_fake_quant_per_axis %2 axis 0 [<-1.0:1.0>, <-2.0:2.0>] bits 16
          signed : {T}
        %5 = quant.region "neg" (%a = %4 : {T}) -> ({T}) {{
          %6 = "tfl.neg"(%a) : ({T}) -> {T}
          quant.return %6 : {T}
        }}
        func.return %5 : {T}
      }}"""
    module = converted(text)
    assert MLIR_OPT_14 is not None
    command = [MLIR_OPT_14, "--allow-unregistered-dialect", "--mlir-print-op-generic"]
    done = subprocess.run(
        [*command, "-"],
        input=mlir_14_text(module),
        capture_output=True,
        text=True,
        check=True,
    )
    again = parse_module(done.stdout)
    assert [op.attributes for op in kernels(again)] == [
        op.attributes for op in kernels(module)
    ]
    assert len(kernels(again)) == 2
    assert PORT_STATS in kernels(again)[0].attributes
    assert again.is_structurally_equivalent(module)


def test_what_is_not_in_a_kernel_keeps_its_casts():
    """It would be given numbers that are not rounded; those of kernels are in any case."""
    module = converted(f"""
        func.func @f(%x: f32) -> (f32, f32) {{
          %q = quant.qcast %x : f32 to {U}
          %y = quant.dcast %q : {U} to f32
          %z = quant.region "k" (%a = %y : f32) -> (f32) {{
            quant.return %a : f32
          }}
          %r = quant.qcast %z : f32 to {V}
          %s = quant.dcast %r : {V} to f32
          func.return %y, %s : f32, f32
        }}
    """)
    (kernel,) = kernels(module)
    function = kernel.parent_op()
    assert isinstance(function, FuncOp)
    assert list(map(str, kernel.specs)) == [U, V]
    assert [*kernel.inputs] == [*function.body.block.args]
    terminator = function.body.block.last_op
    assert terminator is not None
    first, second = terminator.operands
    assert isinstance(first.owner, DequantizeCastOp)
    assert second is kernel.results[0]
