"""Functions as terms, compared with what the interpreter computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.machines.numpy import StatefulModel, run_function
from xdsl_quant.proving import equivalent
from xdsl_quant.proving.scalars import SCALAR_OPS, Number
from xdsl_quant.proving.tensors import TENSOR_RULES, as_elements, scalar
from xdsl_quant.proving.terms import Terms, UnsupportedError
from xdsl_quant.proving.translation import translate_function
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import parse_module

DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "i1": np.bool_,
    "i4": np.int8,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "index": np.int64,
}
FLOATS = ["f16", "bf16", "f32", "f64"]
NUMBERS = [
    *(0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.3, 127.5, -128.5, 255.5),
    *(np.inf, -np.inf, np.nan, 32767.6, 65504.0, 2e9, -2147483648.0, 9.3e18, 1e-7),
]


def values(type_: str, random: np.random.Generator) -> NDArray[Any]:
    """Values of a type, with those at which something changes."""
    dtype = np.dtype(DTYPES[type_])
    if type_ in FLOATS:
        bits = random.integers(0, 256, (30, dtype.itemsize), np.uint8)
        with np.errstate(all="ignore"):
            known = np.array(NUMBERS).astype(dtype)
        return np.concatenate([known, bits.view(dtype).ravel()])
    if type_ == "i1":
        return np.array([False, True])
    width = 64 if type_ == "index" else int(type_[1:])
    low, high = -(1 << width - 1), (1 << width - 1) - 1
    some = [low, low + 1, -2, -1, 0, 1, 2, high - 1, high]
    return np.array([*some, *random.integers(low, high, 20, endpoint=True)], dtype)


def bits_of(value: Any, type_: str) -> int:
    if type_ in FLOATS or type_ == "i1":
        return int.from_bytes(np.asarray(value).tobytes(), "little")
    return int(value)


def function_of(op: str, types: str, result: str, spelled: str = "") -> FuncOp:
    """A function of one op."""
    sources = types.split()
    arguments = ", ".join(f"%{i}: {type_}" for i, type_ in enumerate(sources))
    operands = ", ".join(f"%{i}" for i in range(len(sources)))
    text = spelled or f"{operands} : {result}"
    return entry_function(
        parse_module(
            f"func.func @main({arguments}) -> {result} {{\n"
            f"  %r = {op} {text}\n  return %r : {result}\n}}"
        )
    )


def module_of(function: FuncOp) -> ModuleOp:
    module = function.parent_op()
    assert isinstance(module, ModuleOp)
    return module


def of_arguments(terms: Terms, function: FuncOp, arguments: Any) -> Number:
    constants = [
        Number(
            terms.of_bits(argument.type, bits_of(value, str(argument.type))),
            terms.true(),
        )
        for argument, value in zip(function.args, arguments, strict=True)
    ]
    return scalar(*translate_function(terms, function, constants))


ROWS = 60
"""Number of operands that are compared for each op."""


def check_equal(
    function: FuncOp, seed: int, is_taken: Callable[[Sequence[Any]], bool] = bool
) -> int:
    """Compare terms with the interpreter; how often the result is defined."""
    random = np.random.default_rng(seed)
    terms = Terms()
    columns = [values(str(argument.type), random) for argument in function.args]
    rows = [[random.choice(column) for column in columns] for _ in range(ROWS)]
    type_: Attribute = function.function_type.outputs.data[0]
    model = StatefulModel(module_of(function))
    conditions: list[Any] = []
    taken = [row for row in rows if is_taken(row)]
    numbers = [of_arguments(terms, function, row) for row in taken]
    # Mostly all are defined, for which one question is enough.
    all_defined = terms.all(*(number.is_defined for number in numbers))
    are_defined = terms.counterexample(all_defined, [], 10).verdict == "holds"
    for row, number in zip(taken, numbers, strict=True):
        if not are_defined and (
            terms.counterexample(number.is_defined, [], 10).verdict != "holds"
        ):
            continue
        with np.errstate(all="ignore"):
            (result,) = model.step(*row)
        expected = terms.of_bits(type_, bits_of(result, str(type_)))
        conditions.append(terms.equal(number.term, expected))
    assert terms.counterexample(terms.all(*conditions), [], 60).verdict == "holds"
    return len(conditions)


TWO_FLOATS = (
    *("arith.addf", "arith.subf", "arith.mulf", "arith.divf"),
    *("arith.maximumf", "arith.minimumf"),
)
ONE_FLOAT = (
    *("arith.negf", "math.absf", "math.roundeven", "math.round", "math.sqrt"),
    *("math.floor", "math.ceil", "math.trunc"),
)
OPEN_ZEROS = ("arith.maxnumf", "arith.minnumf")
"""Of two zeros they may be either of them."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("type_", FLOATS)
@pytest.mark.parametrize("op", TWO_FLOATS)
def test_float_arithmetic(op: str, type_: str):
    assert check_equal(function_of(op, f"{type_} {type_}", type_), 0) == ROWS


@pytest.mark.sampled(9)
@pytest.mark.parametrize("type_", FLOATS)
@pytest.mark.parametrize("op", ONE_FLOAT)
def test_ops_on_one_float(op: str, type_: str):
    assert check_equal(function_of(op, type_, type_), 1) == ROWS


@pytest.mark.parametrize("type_", FLOATS)
@pytest.mark.parametrize("op", OPEN_ZEROS)
def test_min_and_max_of_all_but_zeros(op: str, type_: str):
    function = function_of(op, f"{type_} {type_}", type_)
    assert check_equal(function, 0, lambda row: any(row)) > ROWS * 4 // 5


@pytest.mark.parametrize("type_", FLOATS)
@pytest.mark.parametrize("op", ["arith.maximumf", "arith.minimumf"])
def test_zeros_are_ordered(op: str, type_: str):
    function, terms = function_of(op, f"{type_} {type_}", type_), Terms()
    for zeros in product((0.0, -0.0), repeat=2):
        number = of_arguments(terms, function, [DTYPES[type_](zero) for zero in zeros])
        # 0.0 is larger than -0.0.
        is_negative = (all if op == "arith.maximumf" else any)(map(np.signbit, zeros))
        right = DTYPES[type_](-0.0 if is_negative else 0.0)
        expected = terms.of_bits(function.args[0].type, bits_of(right, type_))
        claim = terms.equal(number.term, expected)
        assert terms.counterexample(claim, [], 10).verdict == "holds", zeros


def test_the_sign_of_a_zero_that_is_open():
    """It may be any, but operands may change places."""
    sources = [
        f"func.func @main(%0: f32, %1: f32) -> f32 {{\n"
        f"  %r = arith.{op} : f32\n  return %r : f32\n}}"
        for op in ("maxnumf %0, %1", "maxnumf %1, %0")
    ]
    modules = [parse_module(source) for source in sources]
    assert equivalent(*modules).verdict == "proved"
    first = """
func.func @main(%0: f32, %1: f32) -> f32 {
  %a = arith.cmpf oge, %0, %1 : f32
  %b = arith.cmpf uno, %1, %1 : f32
  %c = arith.ori %a, %b : i1
  %r = arith.select %c, %0, %1 : f32
  return %r : f32
}"""
    for one in (first, first.replace("oge", "ogt")):
        found = equivalent(modules[0], parse_module(one))
        assert found.verdict == "refuted"
        assert "result 0 = 0.0 " in found.details.replace("-", "")


@pytest.mark.parametrize("type_", ["f16", "bf16", "f32"])
def test_fma(type_: str):
    assert check_equal(function_of("math.fma", " ".join([type_] * 3), type_), 0) == ROWS


def test_fma_of_bf16_is_rounded_once():
    types = "%x: bf16, %y: bf16, %z: bf16"
    fused = f"""
func.func @main({types}) -> bf16 {{
  %r = math.fma %x, %y, %z : bf16
  return %r : bf16
}}"""
    wide = f"""
func.func @main({types}) -> bf16 {{
  %a = arith.extf %x : bf16 to f32
  %b = arith.extf %y : bf16 to f32
  %c = arith.extf %z : bf16 to f32
  %d = math.fma %a, %b, %c : f32
  %r = arith.truncf %d : f32 to bf16
  return %r : bf16
}}"""
    found = equivalent(parse_module(fused), parse_module(wide))
    assert found.verdict == "refuted"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("type_", FLOATS)
@pytest.mark.parametrize(
    "predicate",
    "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split(),
)
def test_comparisons_of_floats(predicate: str, type_: str):
    spelled = f"{predicate}, %0, %1 : {type_}"
    function = function_of("arith.cmpf", f"{type_} {type_}", "i1", spelled)
    assert check_equal(function, 2) == ROWS


CONVERSIONS = (
    *(
        ("arith.extf", a, b)
        for a, b in (("f16", "f32"), ("bf16", "f32"), ("f32", "f64"))
    ),
    *(
        ("arith.truncf", a, b)
        for a, b in (("f32", "f16"), ("f32", "bf16"), ("f64", "f32"))
    ),
    *(
        ("arith.sitofp", a, b)
        for a in ("i8", "i16", "i32")
        for b in ("f16", "f32", "f64")
    ),
    *(
        ("arith.uitofp", a, b)
        for a in ("i8", "i16", "i32")
        for b in ("f16", "f32", "f64")
    ),
    ("arith.sitofp", "i8", "bf16"),
    ("arith.uitofp", "i16", "bf16"),
    ("arith.sitofp", "i64", "bf16"),
    ("arith.uitofp", "i64", "bf16"),
    ("arith.truncf", "f64", "bf16"),
    *(("arith.extsi", a, b) for a, b in (("i4", "i8"), ("i8", "i32"), ("i32", "i64"))),
    *(("arith.extui", a, b) for a, b in (("i4", "i8"), ("i8", "i32"), ("i32", "i64"))),
    *(("arith.trunci", a, b) for a, b in (("i32", "i8"), ("i64", "i32"), ("i8", "i4"))),
    ("arith.index_cast", "i32", "index"),
    ("arith.index_cast", "index", "i32"),
    ("arith.index_cast", "i64", "index"),
)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("op", "source", "target"), CONVERSIONS)
def test_conversions(op: str, source: str, target: str):
    function = function_of(op, source, target, f"%0 : {source} to {target}")
    assert check_equal(function, 3) == ROWS


TO_INTEGERS = ("arith.fptosi", "arith.fptoui")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", ["i4", "i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("op", TO_INTEGERS)
def test_floats_to_integers(op: str, source: str, target: str):
    function = function_of(op, source, target, f"%0 : {source} to {target}")
    assert check_equal(function, 4) >= 6


@pytest.mark.parametrize(
    ("op", "source", "target", "limits"),
    [
        # The last number that is defined, and the first one that is not.
        ("arith.fptosi", "f32", "i8", [(127.99999, 128.0), (-128.99998, -129.0)]),
        ("arith.fptoui", "f32", "i8", [(255.99998, 256.0), (-0.99999994, -1.0)]),
        (
            "arith.fptosi",
            "f32",
            "i32",
            [(2147483520.0, 2147483648.0), (-2147483648.0, -2147483904.0)],
        ),
        ("arith.fptosi", "f16", "i16", [(32752.0, 32768.0), (-32768.0, -32800.0)]),
        ("arith.fptosi", "f16", "i32", [(65504.0, np.inf), (-65504.0, -np.inf)]),
        ("arith.fptoui", "f16", "i32", [(65504.0, np.inf), (0.0, np.nan)]),
    ],
)
def test_where_conversions_are_defined(
    op: str, source: str, target: str, limits: list[tuple[float, float]]
):
    function = function_of(op, source, target, f"%0 : {source} to {target}")
    terms = Terms()
    for pair in limits:
        defined = [
            terms.counterexample(
                of_arguments(terms, function, [DTYPES[source](value)]).is_defined,
                [],
                10,
            ).verdict
            for value in pair
        ]
        assert defined == ["holds", "fails"], pair


TWO_INTEGERS = tuple(
    f"arith.{name}"
    for name in (
        *("addi", "subi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui"),
        *("minui", "shli", "shrsi", "shrui", "divsi", "divui", "remui"),
    )
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("type_", ["i4", "i8", "i32", "i64"])
@pytest.mark.parametrize("op", TWO_INTEGERS)
def test_integer_arithmetic(op: str, type_: str):
    count = check_equal(function_of(op, f"{type_} {type_}", type_), 5)
    if op.startswith("arith.sh"):
        assert count >= 3
    else:
        assert (
            count > ROWS * 4 // 5
            if op.endswith(("divsi", "divui", "remui"))
            else count == ROWS
        )


@pytest.mark.parametrize(
    ("op", "pairs"),
    [
        *(
            (f"sh{rest}", [((1, 7), True), ((1, 8), False)])
            for rest in ("li", "rsi", "rui")
        ),
        *(
            (op, [((1, 1), True), ((1, 0), False)])
            for op in ("divsi", "divui", "remui")
        ),
        ("divsi", [((-128, -1), False), ((-127, -1), True), ((-128, 1), True)]),
        ("divui", [((-128, -1), True)]),
        ("remui", [((-128, -1), True)]),
    ],
)
def test_where_integers_are_defined(op: str, pairs: list[tuple[tuple[int, int], bool]]):
    function, terms = function_of(f"arith.{op}", "i8 i8", "i8"), Terms()
    for operands, is_defined in pairs:
        number = of_arguments(terms, function, operands)
        answer = terms.counterexample(number.is_defined, [], 10)
        assert answer.verdict == ("holds" if is_defined else "fails"), operands


@pytest.mark.parametrize(
    "predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]
)
def test_comparisons_of_integers(predicate: str):
    function = function_of("arith.cmpi", "i8 i8", "i1", f"{predicate}, %0, %1 : i8")
    assert check_equal(function, 6) == ROWS


def test_selection():
    function = function_of("arith.select", "i1 f32 f32", "f32")
    assert check_equal(function, 7) == ROWS


def verdict(text: str, arguments: list[Any]) -> str:
    terms, function = Terms(), entry_function(parse_module(text))
    return terms.counterexample(
        of_arguments(terms, function, arguments).is_defined, [], 10
    ).verdict


def test_poison_spreads_but_not_from_what_is_not_selected():
    text = """
func.func @main(%c: i1, %x: f32, %n: i8) -> i8 {{
  %y = arith.fptosi %x : f32 to i8
  %z = arith.select %c, %y, %n : i8
  %w = arith.addi %{}, %n : i8
  return %w : i8
}}"""
    huge = np.float32(1e9)
    assert verdict(text.format("z"), [True, huge, np.int8(1)]) == "fails"
    assert verdict(text.format("z"), [False, huge, np.int8(1)]) == "holds"
    assert verdict(text.format("y"), [False, huge, np.int8(1)]) == "fails"


@pytest.mark.parametrize(
    ("flags", "arguments", "expected"),
    [
        ("nsw", (100, 27), "holds"),
        ("nsw", (100, 28), "fails"),
        ("nuw", (100, 28), "holds"),
        ("nuw", (-1, 1), "fails"),
        ("none", (-1, 1), "holds"),
    ],
)
def test_overflow(flags: str, arguments: tuple[int, int], expected: str):
    text = f"""
func.func @main(%a: i8, %b: i8) -> i8 {{
  %c = arith.addi %a, %b overflow<{flags}> : i8
  return %c : i8
}}"""
    assert verdict(text, [*map(np.int8, arguments)]) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "func.func @main(%x: f32) -> f32 {\n  %y = math.exp %x : f32\n"
            "  return %y : f32\n}",
            "module:2:3: error: 'math.exp' op is unsupported in proofs",
        ),
    ],
)
def test_what_has_no_term(text: str, message: str):
    with pytest.raises(UnsupportedError) as caught:
        verdict(text, [0.0])
    assert str(caught.value) == message


def check_tensors(text: str, *arrays: Any) -> int:
    """Compare all elements of results with the interpreter; how many there are."""
    module, terms = parse_module(text), Terms()
    function = entry_function(module)
    arguments: list[Any] = []
    for argument, array in zip(function.args, arrays, strict=True):
        element = scalar_or_element_type(argument.type)
        numbers = np.empty(np.shape(array), object)
        for index, value in np.ndenumerate(array):
            bits = terms.of_bits(element, bits_of(value, str(element)))
            numbers[index] = Number(bits, terms.true())
        arguments.append(numbers if numbers.ndim else numbers[()])
    found = translate_function(terms, function, arguments)
    expected = run_function(module_of(function), "main", *arrays)
    conditions: list[Any] = []
    types = function.function_type.outputs
    for type_, some, right in zip(types, found, expected, strict=True):
        element = scalar_or_element_type(type_)
        some = np.asarray(some, object)
        assert some.shape == np.shape(right)
        for number, value in zip(some.ravel(), np.ravel(right), strict=True):
            bits = terms.of_bits(element, bits_of(value, str(element)))
            conditions += [number.is_defined, terms.equal(number.term, bits)]
    assert terms.counterexample(terms.all(*conditions), [], 60).verdict == "holds"
    return len(conditions) // 2


X = np.array([[1.5, -0.0, np.nan], [np.inf, -2.25, 3.0]], np.float32)
TENSORS: dict[str, tuple[str, str, list[Any], int]] = {
    "arith.constant": (
        "tensor<2x2xbf16>",
        "arith.constant dense<[[1.5, -0.0], [0.1, 3.0]]> : tensor<2x2xbf16>",
        [],
        4,
    ),
    "tensor.cast": (
        "tensor<2x3xf32>",
        "tensor.cast %0 : tensor<2x3xf32> to tensor<2x3xf32>",
        [X],
        6,
    ),
    "tensor.collapse_shape": (
        "tensor<6xf32>",
        "tensor.collapse_shape %0 [[0, 1]] : tensor<2x3xf32> into tensor<6xf32>",
        [X],
        6,
    ),
    "tensor.concat": (
        "tensor<2x6xf32>",
        "tensor.concat dim(1) %0, %1 : "
        "(tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>",
        [X, -X],
        12,
    ),
    "tensor.dim": ("index", "tensor.dim %0, %one : tensor<2x3xf32>", [X], 1),
    "tensor.expand_shape": (
        "tensor<2x3x1xf32>",
        "tensor.expand_shape %0 [[0], [1, 2]] output_shape [2, 3, 1] : "
        "tensor<2x3xf32> into tensor<2x3x1xf32>",
        [X],
        6,
    ),
    "tensor.extract": (
        "f32",
        "tensor.extract %0[%zero, %one] : tensor<2x3xf32>",
        [X],
        1,
    ),
    "tensor.extract_slice": (
        "tensor<2x2xf32>",
        "tensor.extract_slice %0[0, 0] [2, 2] [1, 2] : "
        "tensor<2x3xf32> to tensor<2x2xf32>",
        [X],
        4,
    ),
    "tensor.from_elements": (
        "tensor<2x1xi8>",
        "tensor.from_elements %0, %1 : tensor<2x1xi8>",
        [np.int8(-3), np.int8(5)],
        2,
    ),
    "tensor.splat": (
        "tensor<2x3xi8>",
        "tensor.splat %0 : tensor<2x3xi8>",
        [np.int8(-3)],
        6,
    ),
}
"""Of each op the type of its result, its text, arguments, and how many numbers result."""


def type_of(value: Any) -> str:
    """The type of an argument."""
    names: dict[Any, str] = {np.dtype(np.float32): "f32", np.dtype(np.int8): "i8"}
    shape, name = np.shape(value), names[np.asarray(value).dtype]
    return f"tensor<{'x'.join(map(str, shape))}x{name}>" if shape else name


@pytest.mark.parametrize("op", TENSORS)
def test_tensors(op: str):
    result, spelled, arrays, count = TENSORS[op]
    arguments = ", ".join(f"%{i}: {type_of(array)}" for i, array in enumerate(arrays))
    text = f"""
func.func @main({arguments}) -> {result} {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %r = {spelled}
  return %r : {result}
}}"""
    assert check_tensors(text, *arrays) == count


LINALG = {
    "linalg.fill": (
        "linalg.fill ins(%y : i8) outs(%x : tensor<2x3xi8>) -> tensor<2x3xi8>",
        6,
    ),
    "linalg.generic": (
        """linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>],
    iterator_types = ["reduction", "parallel"]
  } ins(%x : tensor<2x3xi8>) outs(%z : tensor<3xi8>) {
  ^bb0(%a: i8, %b: i8):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i8
    %c = arith.muli %a, %j : i8
    %d = arith.subi %c, %b : i8
    linalg.yield %d : i8
  } -> tensor<3xi8>""",
        3,
    ),
    "linalg.matmul": (
        "linalg.matmul ins(%x, %t : tensor<2x3xi8>, tensor<3x2xi8>) "
        "outs(%s : tensor<2x2xi8>) -> tensor<2x2xi8>",
        4,
    ),
    "linalg.transpose": (
        "linalg.transpose ins(%x : tensor<2x3xi8>) outs(%t : tensor<3x2xi8>) "
        "permutation = [1, 0]",
        6,
    ),
    "linalg.add": (
        "linalg.add ins(%x, %x : tensor<2x3xi8>, tensor<2x3xi8>) "
        "outs(%x : tensor<2x3xi8>) -> tensor<2x3xi8>",
        6,
    ),
}


@pytest.mark.parametrize("op", LINALG)
def test_structured_ops(op: str):
    spelled, count = LINALG[op]
    result = spelled.rpartition(" -> ")[2]
    if op == "linalg.transpose":
        result = "tensor<3x2xi8>"
    text = f"""
func.func @main(%x: tensor<2x3xi8>, %t: tensor<3x2xi8>, %s: tensor<2x2xi8>,
    %z: tensor<3xi8>, %y: i8) -> {result} {{
  %r = {spelled}
  return %r : {result}
}}"""
    random = np.random.default_rng(0)
    arrays = [
        random.integers(-128, 128, shape, np.int8)
        for shape in ((2, 3), (3, 2), (2, 2), (3,))
    ]
    assert check_tensors(text, *arrays, np.int8(-7)) == count


def test_empty_tensors_are_undefined():
    function = entry_function(
        parse_module("""
func.func @main() -> tensor<2xf32> {
  %r = tensor.empty() : tensor<2xf32>
  return %r : tensor<2xf32>
}""")
    )
    terms = Terms()
    (found,) = translate_function(terms, function, [])
    for number in as_elements(found):
        assert terms.counterexample(number.is_defined, [], 10).verdict == "fails"


def test_stored_values_are_their_bits():
    function = function_of(
        "quant.scast",
        "i8",
        "!quant.uniform<i8:f32, 0.5>",
        "%0 : i8 to !quant.uniform<i8:f32, 0.5>",
    )
    terms = Terms()
    number = of_arguments(terms, function, [np.int8(-3)])
    claim = terms.equal(number.term, terms.of_bits(function.args[0].type, -3))
    assert terms.counterexample(claim, [], 10).verdict == "holds"


def test_all_ops_that_have_terms_are_compared():
    conversions = {op for op, _, _ in CONVERSIONS}
    others = {"arith.cmpf", "arith.cmpi", "arith.select", "math.fma", "quant.scast"}
    floats = {*TWO_FLOATS, *ONE_FLOAT, *OPEN_ZEROS, *TO_INTEGERS}
    scalars = {*floats, *TWO_INTEGERS, *conversions, *others, "arith.constant"}
    assert scalars == SCALAR_OPS
    # Those of TOSA are in `test_rescale.py`: there is no interpreter of them.
    tosa = {"tosa.clamp", "tosa.const", "tosa.rescale"}
    assert {*TENSORS, *tosa, "tensor.empty"} == {*TENSOR_RULES}
