"""What passes change, and what they do not."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.proving import UnsupportedError, equivalent, preserved, provers
from xdsl_quant.proving.pipelines import lowering
from xdsl_quant.rounding_mode import Rounding, ScaleRounding
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

QDQ = """
!q = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%x: {0}) -> {0} {{
  %a = quant.qcast %x : {0} to {1}
  %b = quant.dcast %a : {1} to {0}
  return %b : {0}
}}"""
DQQ = """
!q = !quant.uniform<i8<-100:90>:f32:0, {0.5, 0.3:-5}>
func.func @main(%x: tensor<2x!q>) -> tensor<2x!q> {
  %a = quant.dcast %x : tensor<2x!q> to tensor<2xf32>
  %b = quant.qcast %a : tensor<2xf32> to tensor<2x!q>
  return %b : tensor<2x!q>
}"""
REQUANTIZED = """
!a = !quant.fixed_point<i8:f32, 1518500250p-37:-5>
!b = !quant.fixed_point<i8<-100:90>:f32, 1173741824p-38:13>
func.func @main(%y: tensor<1x!a>) -> tensor<1x!b> {
  %c = quant.dcast %y : tensor<1x!a> to tensor<1xf32>
  %d = quant.qcast %c : tensor<1xf32> to tensor<1x!b>
  return %d : tensor<1x!b>
}"""


def test_what_a_quantized_value_expresses_is_stored_as_this_value():
    found = preserved(parse_module(DQQ), "canonicalize")
    assert found.verdict == "proved"
    assert found.claim == "results are the same for all inputs"


def test_fake_quantization_is_not_nothing():
    text = QDQ.format("f32", "!q")
    found = preserved(parse_module(text), "canonicalize")
    assert found.verdict == "refuted"
    x, _, rest = found.details.removeprefix("%0 = ").partition(": ")
    before, _, after = rest.removeprefix("result 0 = ").partition(" before, and ")
    assert after == f"{x} after"
    # Their text, since 0.0 and -0.0 are different results.
    assert before != x


def test_where_the_first_one_is_undefined_the_second_one_may_be_anything():
    unsigned = """
func.func @main(%x: i8) -> f32 {
  %a = arith.uitofp %x : i8 to f32
  %b = arith.fptosi %a : f32 to i8
  %c = arith.sitofp %b : i8 to f32
  return %c : f32
}"""
    signed = unsigned.replace("uitofp", "sitofp")
    # Only what is less than 128 is defined before.
    modules = [parse_module(text) for text in (unsigned, signed)]
    assert equivalent(*modules).verdict == "proved"
    found = equivalent(*reversed(modules))
    assert found.verdict == "refuted"
    assert found.details.endswith(" before, and undefined after")


@pytest.mark.parametrize(
    "change",
    [("divf", "mulf"), ("addf", "subf"), ("maxnumf", "minnumf"), ("3.0", "4.0")],
)
def test_wrong_folds_are_refuted(change: tuple[str, str]):
    module = parse_module(QDQ.format("tensor<1xf32>", "tensor<1x!q>"))
    apply_passes(module, lowering(Rounding()))
    text = str(module)
    assert change[0] in text
    wrong = parse_module(text.replace(change[0], change[1], 1))
    assert equivalent(module, module).verdict == "proved"
    assert equivalent(module, wrong).verdict == "refuted"


@pytest.mark.parametrize("rounding", ["single", "double"])
def test_requantization_is_rescaling(rounding: ScaleRounding):
    module = parse_module(REQUANTIZED)
    lowered_by = lowering(Rounding(), scale_rounding=rounding)
    passes = f"quant-requantize-to-tosa{{scale-rounding={rounding}}}"
    back = f"{passes},tosa-rescale-to-quant{{scale-rounding={rounding}}}"
    assert preserved(module, passes, lowered_by=lowered_by).verdict == "proved"
    assert preserved(module, back, lowered_by=lowered_by).verdict == "proved"


def test_single_rounding_is_not_double_rounding():
    # Halves are rounded up, or away from zero. This is a division by 128.
    text = REQUANTIZED.replace("1518500250p-37", "1073741824p-37")
    text = text.replace("1173741824p-38", "1073741824p-30")
    passes = "quant-requantize-to-tosa{scale-rounding=double}"
    module = parse_module(text)
    found = preserved(module, passes)
    assert found.verdict == "refuted"
    value = int(found.details.removeprefix("%0[0] = ").partition(":")[0]) + 5
    assert value in (63, -64)


@pytest.mark.parametrize(
    "change",
    [
        ("dense<-5>", "dense<-6>"),
        ("dense<13>", "dense<12>"),
        ("max_val = 90", "max_val = 91"),
        ("min_val = -100", "min_val = -101"),
        ("dense<29>", "dense<30>"),
        ("output_unsigned = false", "output_unsigned = true"),
    ],
)
def test_another_rescale_is_refuted(change: tuple[str, str]):
    module = parse_module(REQUANTIZED)
    apply_passes(module, "quant-requantize-to-tosa")
    text = str(module)
    assert change[0] in text
    wrong = parse_module(text.replace(*change))
    assert equivalent(module, wrong).verdict == "refuted"


@pytest.mark.parametrize("type_", ["f16", "bf16", "f32"])
def test_constants_of_tosa_are_all_of_their_bits(type_: str):
    text = f"""
func.func @main() -> tensor<2x{type_}> {{
  %r = "tosa.const"() <{{values = dense<[1.5, -0.0]> : tensor<2x{type_}>}}>
    : () -> tensor<2x{type_}>
  return %r : tensor<2x{type_}>
}}"""
    module = parse_module(text)
    other = parse_module(text.replace("1.5", "1.25"))
    zero = parse_module(text.replace("-0.0", "0.0"))
    same = parse_module(f"""
func.func @main() -> tensor<2x{type_}> {{
  %r = arith.constant dense<[1.5, -0.0]> : tensor<2x{type_}>
  return %r : tensor<2x{type_}>
}}""")
    assert equivalent(module, same).verdict == "proved"
    assert equivalent(module, other).details == (
        "without arguments: result 0[0] = 1.5 before, and 1.25 after"
    )
    assert equivalent(module, zero).verdict == "refuted"


def test_tensors():
    """Broadcast, reduction, transposition and reshaping of a matrix."""
    text = """
func.func @main(%x: tensor<2x3xi8>) -> tensor<2xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<2xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<2xi32>) -> tensor<2xi32>
  %s = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%x : tensor<2x3xi8>) outs(%f : tensor<2xi32>) {
  ^bb0(%a: i8, %b: i32):
    %c = arith.extsi %a : i8 to i32
    %d = arith.addi %b, %c : i32
    linalg.yield %d : i32
  } -> tensor<2xi32>
  return %s : tensor<2xi32>
}"""
    sums = """
func.func @main(%x: tensor<2x3xi8>) -> tensor<2xi32> {
  %e = arith.extsi %x : tensor<2x3xi8> to tensor<2x3xi32>
  %a = tensor.extract_slice %e[0, 0] [2, 1] [1, 1] : tensor<2x3xi32> to tensor<2x1xi32>
  %b = tensor.extract_slice %e[0, 1] [2, 1] [1, 1] : tensor<2x3xi32> to tensor<2x1xi32>
  %c = tensor.extract_slice %e[0, 2] [2, 1] [1, 1] : tensor<2x3xi32> to tensor<2x1xi32>
  %d = arith.addi %c, %b : tensor<2x1xi32>
  %f = arith.addi %d, %a : tensor<2x1xi32>
  %r = tensor.collapse_shape %f [[0, 1]] : tensor<2x1xi32> into tensor<2xi32>
  return %r : tensor<2xi32>
}"""
    modules = [parse_module(each) for each in (text, sums)]
    assert equivalent(*modules).verdict == "proved"
    other = parse_module(sums.replace("%e[0, 2]", "%e[0, 1]"))
    assert equivalent(modules[0], other).verdict == "refuted"
    # What is not filled is undefined.
    empty = parse_module(text.replace("outs(%f", "outs(%e"))
    assert equivalent(modules[0], empty).verdict == "refuted"


def test_mistakes():
    module = parse_module(DQQ)
    with pytest.raises(UnsupportedError) as other:
        equivalent(module, parse_module(QDQ.format("f32", "!q")))
    assert str(other.value) == (
        "arguments differ in shape, width or float format: "
        "tensor<2x!quant.uniform<i8<-100:90>:f32:0, {5.000000e-01,3.000000e-01:-5}>> "
        "before, f32 after"
    )
    with pytest.raises(UnsupportedError) as dynamic:
        preserved(parse_module(DQQ.replace("2x", "?x")), "canonicalize")
    assert "has a dynamic size, expected static ones" in str(dynamic.value)
    with pytest.raises(IRError, match="unknown"):
        preserved(module, "canonicalise")
    exponential = """
func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {
  %y = math.exp %x : tensor<1xf32>
  return %y : tensor<1xf32>
}"""
    with pytest.raises(UnsupportedError) as missing:
        preserved(parse_module(exponential), "canonicalize")
    assert (
        str(missing.value)
        == "module:3:3: error: 'math.exp' op is unsupported in proofs"
    )


SUM = """
func.func @main(%x: f32, %y: f32) -> f32 {{
  %z = arith.{} : f32
  return %z : f32
}}"""
SHIFTED = """
func.func @main(%x: i8, %y: i8) -> i8 {{
  %z = arith.shli %x, %y {}: i8
  return %z : i8
}}"""
ROUNDED = """
func.func @main(%x: f64) -> f32 {{
  %z = "arith.truncf"(%x) {{{}}} : (f64) -> f32
  return %z : f32
}}"""
CALLED = """
func.func private @f(f32)
func.func @main(%x: f32) -> f32 {{
  {}
  return %x : f32
}}"""


@pytest.mark.parametrize(
    ("text", "plain", "changed", "message"),
    [
        (
            SUM,
            "addf %x, %y",
            "addf %x, %y fastmath<nnan>",
            "'arith.addf' op with 'fastmath'",
        ),
        (
            SUM,
            "divf %x, %y",
            "divf %x, %y fastmath<arcp>",
            "'arith.divf' op with 'fastmath'",
        ),
        (SHIFTED, "", "overflow<nsw> ", "'arith.shli' op with 'overflowFlags'"),
        (
            ROUNDED,
            "",
            "roundingmode = 3 : i32",
            "'arith.truncf' op with 'roundingmode'",
        ),
        (CALLED, "", "func.call @f(%x) : (f32) -> ()", "'func.call' op"),
    ],
)
def test_what_ops_say_beside_their_operands(
    text: str, plain: str, changed: str, message: str
):
    modules = [parse_module(text.format(part)) for part in (plain, changed)]
    assert equivalent(modules[0], modules[0]).verdict == "proved"
    for pair in (modules, modules[::-1]):
        with pytest.raises(UnsupportedError) as error:
            equivalent(*pair)
        assert str(error.value).endswith(f": error: {message} is unsupported in proofs")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "%c = arith.constant 3 : index\n  %r = tensor.dim %x, %c : tensor<0xf32>",
            "4:3: error: 'tensor.dim' op has index 3, expected a dimension of a tensor of "
            "rank 1",
        ),
        (
            '%r = "tosa.reduce_sum"(%x) <{axis = 0 : i32}> '
            ": (tensor<0xf32>) -> tensor<1xf32>",
            "3:3: error: 'tosa.reduce_sum' op is unsupported in proofs",
        ),
        (
            "%r = math.exp %x : tensor<0xf32>",
            "3:3: error: 'math.exp' op is unsupported in proofs",
        ),
        (
            "%r = arith.addf %x, %x fastmath<nnan> : tensor<0xf32>",
            "3:3: error: 'arith.addf' op with 'fastmath' is unsupported in proofs",
        ),
        (
            "%r = func.call @f(%x) : (tensor<0xf32>) -> tensor<0xf32>",
            "3:3: error: 'func.call' op is unsupported in proofs",
        ),
        (
            "%r = tensor.extract_slice %x[3] [2] [1] : tensor<0xf32> to tensor<2xf32>",
            "3:3: error: 'tensor.extract_slice' op accesses index 4 of dimension 0 of "
            "size 0",
        ),
    ],
)
def test_ops_that_no_element_goes_through(body: str, message: str):
    module = parse_module(f"""func.func private @f(tensor<0xf32>) -> tensor<0xf32>
func.func @main(%x: tensor<0xf32>) -> tensor<0xf32> {{
  {body}
  return %x : tensor<0xf32>
}}""")
    with pytest.raises(UnsupportedError) as error:
        equivalent(module, module)
    assert str(error.value) == f"module:{message}"


def test_no_elements():
    modules = [
        parse_module(f"""
func.func @main(%x: tensor<0xf32>) -> tensor<0xf32> {{
  {line}
  return %y : tensor<0xf32>
}}""")
        for line in (
            "%y = arith.negf %x : tensor<0xf32>",
            "%y = arith.constant dense<> : tensor<0xf32>",
        )
    ]
    assert equivalent(*modules).verdict == "proved"


@pytest.mark.parametrize(
    ("op", "flag"), [("arith.shrui", "isExact"), ("arith.extui", "nonNeg")]
)
def test_flags_that_xdsl_does_not_define(op: str, flag: str):
    operands = "%x, %x" if op == "arith.shrui" else "%x"
    types = "(i8, i8) -> i8" if op == "arith.shrui" else "(i8) -> i16"
    module = parse_module(f"""
func.func @main(%x: i8) -> {types.split()[-1]} {{
  %y = "{op}"({operands}) {{{flag}}} : {types}
  return %y : {types.split()[-1]}
}}""")
    with pytest.raises(UnsupportedError) as error:
        equivalent(module, module)
    assert str(error.value) == (
        f"module:3:3: error: '{op}' op with '{flag}' is unsupported in proofs"
    )


TABLE = "!quant.uniform<!quant.quantile<i2:f32, {-1.0, 0.0, 0.25, 1.0}>:f32, 0.5>"
BLOCKS = (
    "tensor<1x2x!quant.block_scaled<i4:f32:{0:1, 1:2}, scales = dense<0.5> "
    ": tensor<1x1xf16>>>"
)


def _same(type_: str) -> ModuleOp:
    return parse_module(f"""
func.func @main(%x: {type_}) -> {type_} {{
  return %x : {type_}
}}""")


@pytest.mark.parametrize(
    ("after", "is_same"),
    [
        ("tensor<2x!quant.uniform<i8:f32:0, {0.5:3, 0.5:3}>>", True),
        ("tensor<2x!quant.uniform<i8:f32:{0:1}, {0.5:3, 0.5:3}>>", True),
        ("tensor<2x!quant.uniform<i8:f32:{0:2}, {0.5:3}>>", True),
        ("tensor<2x!quant.fixed_point<i8:f32, 1073741824p-31:3>>", True),
        ("tensor<2x!quant.any<i8:f32>>", True),
        ("tensor<2xi8>", True),
        ("tensor<2x!quant.uniform<i8:f32, 0.25:3>>", False),
        ("tensor<2x!quant.uniform<i8:f32, 0.5:2>>", False),
        ("tensor<2x!quant.uniform<i8:f32:0, {0.5:3, 0.25:3}>>", False),
        ("tensor<2x!quant.uniform<i8<0:10>:f32, 0.5:3>>", False),
        ("tensor<2x!quant.uniform<u8:f32, 0.5:3>>", False),
        ("tensor<2x!quant.uniform<i8:f16, 0.5:3>>", False),
    ],
)
def test_stored_values_that_express_something_else_are_not_the_same(
    after: str, is_same: bool
):
    before = "tensor<2x!quant.uniform<i8:f32, 0.5:3>>"
    modules = _same(before), _same(after)
    if is_same:
        assert equivalent(*modules).verdict == "proved"
        return
    with pytest.raises(UnsupportedError) as error:
        equivalent(*modules)
    assert "differ in storage range, scales or zero points: " in str(error.value)


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        (TABLE, TABLE, True),
        (TABLE, "i2", True),
        (TABLE, TABLE.replace("0.25", "0.75"), False),
        (TABLE, "!quant.uniform<u2:f32, 0.5>", False),
        *(
            ("!quant.uniform<f8E4M3FN:f32, 0.5>", after, is_same)
            for after, is_same in (
                ("!quant.uniform<f8E4M3FN:f32, 0.5>", True),
                ("!quant.uniform<f8E4M3FN:f32, 0.25>", False),
                ("!quant.uniform<f8E5M2:f32, 0.5>", False),
            )
        ),
        ("!quant.any<i8:f32>", "!quant.any<i8:f32>", True),
        ("!quant.any<i8:f32>", "!quant.any<i8>", True),
        ("!quant.any<i8:f32>", "!quant.any<i8:f16>", False),
        ("!quant.any<i8:f32>", "!quant.any<u8:f32>", False),
        ("!quant.any<i8<-5:5>:f32>", "!quant.any<i8:f32>", False),
        ("!quant.any<i8<-5:5>:f32>", "!quant.uniform<i8:f32, 0.5>", False),
        # All digits of a scale count that are of the expressed type.
        ("!quant.uniform<i8:f64, 1.0>", "!quant.uniform<i8:f64, 1.0000000009>", False),
        ("!quant.uniform<i8:f32, 1.0>", "!quant.uniform<i8:f32, 1.0000000009>", True),
        ("!quant.uniform<i8:f32, 1.0>", "!quant.uniform<i8:f32, 1.0000001>", False),
        ("!quant.uniform<i8:f16, 1.0>", "!quant.uniform<i8:f16, 1.0001>", True),
        ("!quant.uniform<i8:f16, 1.0>", "!quant.uniform<i8:f16, 1.001>", False),
        (BLOCKS, BLOCKS, True),
        (BLOCKS, BLOCKS.replace("0.5", "0.25"), False),
        (BLOCKS.replace("f16", "f32"), "tensor<1x2x!quant.uniform<i4:f32, 0.5>>", True),
        (
            BLOCKS.replace("f16", "f32"),
            "tensor<1x2x!quant.uniform<i4:f32, 0.3>>",
            False,
        ),
        (BLOCKS, "tensor<1x2x!quant.uniform<i4:f32, 0.5>>", True),
        (BLOCKS, "tensor<1x2xi4>", True),
    ],
)
def test_types_that_express_the_same(before: str, after: str, is_same: bool):
    for pair in ((before, after), (after, before)):
        modules = [*map(_same, pair)]
        if is_same:
            assert equivalent(*modules).verdict == "proved"
            continue
        with pytest.raises(UnsupportedError, match=" differ in storage range, "):
            equivalent(*modules)


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (
            ("f32", "i32"),
            "arguments differ in shape, width or float format: f32 before, i32 after",
        ),
        (
            ("f16", "bf16"),
            "arguments differ in shape, width or float format: f16 before, bf16 after",
        ),
        (("tensor<*xf32>",) * 2, "'tensor<*xf32>' has no rank, expected static sizes"),
    ],
)
def test_types_of_other_values(types: tuple[str, str], message: str):
    with pytest.raises(UnsupportedError) as error:
        equivalent(*map(_same, types))
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%c = arith.constant 9 : index", "has an index out of bounds of shape (4,)"),
        ("%c = arith.constant 4 : index", "has an index out of bounds of shape (4,)"),
        ("%c = arith.constant -1 : index", "has an index out of bounds of shape (4,)"),
        ("%c = arith.addi %i, %i : index", "an index depends on an argument"),
    ],
)
def test_indices(line: str, message: str):
    module = parse_module(f"""
func.func @main(%x: tensor<4xf32>, %i: index) -> f32 {{
  {line}
  %z = tensor.extract %x[%c] : tensor<4xf32>
  return %z : f32
}}""")
    with pytest.raises(UnsupportedError) as error:
        equivalent(module, module)
    assert message in str(error.value)


def test_offsets_that_depend_on_arguments():
    module = parse_module("""
func.func @main(%x: tensor<4xf32>, %i: index) -> tensor<2xf32> {
  %z = tensor.extract_slice %x[%i][2][1] : tensor<4xf32> to tensor<2xf32>
  return %z : tensor<2xf32>
}""")
    with pytest.raises(UnsupportedError, match="an index depends on an argument"):
        equivalent(module, module)


@pytest.mark.parametrize(
    ("container", "option"),
    [
        ("{}", "--input=127"),
        ("tensor<{}>", "--input=127"),
        ("tensor<1x1x{}>", "--input=[[127]]"),
    ],
)
def test_the_options_for_a_counterexample(container: str, option: str):
    type_ = container.format("i8")
    constant = "{}" if container == "{}" else "dense<{}>"
    modules = [
        parse_module(f"""
func.func @main(%x: {type_}) -> {type_} {{
  %c = arith.constant {constant.format(largest)} : {type_}
  %r = arith.minsi %x, %c : {type_}
  return %r : {type_}
}}""")
        for largest in (127, 126)
    ]
    assert equivalent(*modules).inputs == [option]


def test_there_are_no_options_for_codes():
    module = parse_module(f"""
func.func @main(%x: {TABLE}, %y: i8) -> i8 {{
  return %y : i8
}}""")
    other = parse_module(f"""
func.func @main(%x: {TABLE}, %y: i8) -> i8 {{
  %r = arith.addi %y, %y : i8
  return %r : i8
}}""")
    found = equivalent(module, other)
    assert (found.verdict, found.inputs) == ("refuted", None)


def test_functions_without_arguments():
    text = """
func.func @main() -> f32 {
  %r = arith.constant 1.0 : f32
  return %r : f32
}"""
    modules = [parse_module(each) for each in (text, text.replace("1.0", "2.0"))]
    assert equivalent(*modules).details == (
        "without arguments: result 0 = 1.0 before, and 2.0 after"
    )


def test_the_solver_can_be_interrupted(monkeypatch: pytest.MonkeyPatch):
    # That it is monotone takes minutes.
    (prover,) = provers("!quant.uniform<i8:f64, 0.3:5>")
    install = signal.signal

    def install_and_interrupt(number: int, handler: Any) -> Any:
        previous = install(number, handler)
        if handler is not signal.default_int_handler:
            signal.raise_signal(number)
        return previous

    # A background process of a shell ignores the signal.
    before = install(signal.SIGINT, signal.default_int_handler)
    try:
        monkeypatch.setattr(signal, "signal", install_and_interrupt)
        with pytest.raises(KeyboardInterrupt):
            prover.is_monotone()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        install(signal.SIGINT, before)
