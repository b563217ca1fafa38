"""Kernels, compared with MLIR 14 where it is installed."""

import re
import subprocess
from io import StringIO
from random import Random

import pytest
from xdsl.context import Context
from xdsl.dialects import builtin, func
from xdsl.dialects.builtin import StringAttr, TensorType, f16, f32, i8
from xdsl.ir import Block, Region
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import is_side_effect_free
from xdsl.utils.exceptions import VerifyException

from tests.unit.mlir_14 import MLIR_OPT_14, needs_mlir_14
from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    Quant,
    RegionOp,
    ReturnOp,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.regions import is_specification

T = TensorType(f32, (4,))
ANY = AnyQuantizedType(i8, f32)


def parse(text: str) -> builtin.ModuleOp:
    ctx = Context()
    for dialect in (builtin.Builtin, func.Func, Quant):
        ctx.load_dialect(dialect)
    return Parser(ctx, text).parse_module()


def region_of(module: builtin.ModuleOp) -> RegionOp:
    return next(op for op in module.walk() if isinstance(op, RegionOp))


def answer(module: builtin.ModuleOp) -> str:
    try:
        module.verify()
    except VerifyException as e:
        return str(e)
    return "valid"


def mlir_answers(texts: list[str]) -> list[str]:
    """What MLIR 14 says about each of some functions."""
    assert MLIR_OPT_14 is not None
    joined = "// -----\n".join(text.replace("func.", "") for text in texts)
    command = [MLIR_OPT_14, "-split-input-file", "-"]
    done = subprocess.run(command, input=joined, capture_output=True, text=True)
    answers = ["valid"] * len(texts)
    lines = joined.splitlines()
    for start, message in re.findall(
        r"within split at <stdin>:(\d+) offset .*?: error: (.*)", done.stderr
    ):
        answers[lines[: int(start)].count("// -----")] = message
    return answers


def mlir_answer(text: str) -> str:
    return mlir_answers([text])[0]


def generic(
    types: list[str],
    result_types: list[str],
    attributes: str,
    *,
    arguments: list[str] | None = None,
    returned: list[str] | None = None,
    body: str = "",
) -> str:
    """A function with one kernel, which returns its first operands if there are any."""
    arguments = types if arguments is None else arguments
    returned = result_types if returned is None else returned
    results = "".join(f"%r{i}, " for i in range(len(result_types)))[:-2]
    named = [f"%a{i}: {t}" for i, t in enumerate(arguments)]
    label = f"^bb0({', '.join(named)}):\n" if named else ""
    parameters = ", ".join(f"%x{i}: {t}" for i, t in enumerate(types))
    operands = ", ".join(f"%x{i}" for i in range(len(types)))
    values = ", ".join(f"%a{arguments.index(t)}" for t in returned)
    return (
        f"func.func @f({parameters}) {{\n"
        f'{results}{" = " * bool(results)}"quant.region"({operands}) ({{\n{label}{body}'
        f'"quant.return"({values}) : ({", ".join(returned)}) -> ()\n'
        f"}}) {{{attributes}}} : ({', '.join(types)}) -> ({', '.join(result_types)})\n"
        "func.return\n}\n"
    )


def specified(inputs: str, outputs: str = "f32") -> str:
    return f'input_specs = [{inputs}], logical_kernel = "k", output_specs = [{outputs}]'


UNIFORM = "!quant.uniform<i8:f32, 0.5>"
SPECS = {
    "f32": [
        "f32",
        UNIFORM,
        "!quant.any<i8:f32>",
        "!quant.any<i8<-8:7>:f32>",
        "!quant.calibrated<f32<-1.0:1.0>>",
        "!quant.uniform<u8:f32, 0.1:128>",
    ],
    "f16": ["f16", "!quant.any<i8:f16>", "!quant.uniform<i4:f16, 0.5>"],
    "i32": ["i32"],
}
WRONG_SPECS = [
    "!quant.any<i8>",
    "!quant.uniform<i8:f64, 0.5>",
    "index",
    "tensor<4xf32>",
    "f64",
]
CONTAINERS = ["tensor<4x{}>", "tensor<?x2x{}>", "tensor<*x{}>", "tensor<{}>"]


def random_kernel(rng: Random) -> str:
    """A kernel with tensors at its ports; a third has a mistake."""
    elements = [rng.choice([*SPECS]) for _ in range(rng.randint(1, 4))]
    types = [rng.choice(CONTAINERS).format(e) for e in elements]
    results = rng.choices(range(len(types)), k=rng.randrange(3))
    inputs = [rng.choice(SPECS[e]) for e in elements]
    outputs = [rng.choice(SPECS[elements[i]]) for i in results]
    mistaken = rng.choice((inputs, outputs))
    match rng.randrange(9):
        case 0 if mistaken:
            mistaken[rng.randrange(len(mistaken))] = rng.choice(WRONG_SPECS)
        case 1 if mistaken:
            mistaken.pop()
        case 2:
            mistaken.append("f32")
        case _:
            pass
    return generic(
        types,
        [types[i] for i in results],
        specified(", ".join(inputs), ", ".join(outputs)),
    )


@needs_mlir_14
def test_random_kernels_are_what_mlir_14_says():
    rng = Random(0)
    texts = [random_kernel(rng) for _ in range(400)]
    modules = [parse(text) for text in texts]
    answers = [answer(module) for module in modules]
    assert mlir_answers(texts) == answers
    assert 80 < answers.count("valid") < 360
    # What is written in the generic form has the same answer again.
    written = [generic_text(module) for module in modules]
    assert mlir_answers(written) == answers


def generic_text(module: builtin.ModuleOp) -> str:
    """The function of a module, with the kernel in the generic form."""
    function = next(op for op in module.ops if isinstance(op, func.FuncOp))
    stream = StringIO()
    printer = Printer(stream, print_generic_format=True)
    function.print(printer)
    text = stream.getvalue().replace('"func.return"() : () -> ()', "func.return")
    return f"func.func{text}\n"


MISTAKES = [
    generic(["tensor<4xf32>"], [], attributes)
    for attributes in (
        'logical_kernel = "k", output_specs = []',
        "input_specs = [f32], output_specs = []",
        'input_specs = [f32], logical_kernel = "k"',
        'input_specs = [1], logical_kernel = "k", output_specs = []',
        'input_specs = [unit], logical_kernel = "k", output_specs = []',
        'input_specs = f32, logical_kernel = "k", output_specs = []',
        'input_specs = [f32], logical_kernel = "k", output_specs = 1.0 : f32',
        "input_specs = [f32], logical_kernel = 1, output_specs = []",
        "input_specs = [f32], logical_kernel = @k, output_specs = []",
        'input_specs = [], logical_kernel = "k", output_specs = []',
        'input_specs = [f32], logical_kernel = "", output_specs = [], quant.a = 1',
    )
] + [
    # What is quantized already is no port.
    generic(["tensor<4x!quant.any<i8:f32>>"], [], specified(spec, ""))
    for spec in ("!quant.any<i8:f32>", "f32")
]


@needs_mlir_14
@pytest.mark.parametrize("text", MISTAKES)
def test_answers_are_those_of_mlir_14(text: str):
    assert mlir_answer(text) == answer(parse(text))


NESTED = (
    '"quant.region"() ({ "quant.return"() : () -> () }) {input_specs = [], '
    'logical_kernel = "l", output_specs = []} : () -> ()\n'
)

VALID_IN_MLIR_14 = {
    generic(
        ["tensor<4xf32>"],
        ["tensor<5xf32>"],
        specified("f32"),
        returned=["tensor<4xf32>"],
    ): "'quant.region' op expected returned values of types "
    "'tensor<5xf32>' like its results, but got 'tensor<4xf32>'",
    generic(["tensor<4xf32>"], ["tensor<4xf32>"], specified("f32"), returned=[]): (
        "'quant.region' op expected returned values of types 'tensor<4xf32>' like its "
        "results, but got none"
    ),
    generic(["tensor<4xf32>"], [], specified("f32", ""), arguments=["f32"]): (
        "'quant.region' op expected arguments of types 'tensor<4xf32>' like its operands, "
        "but got 'f32'"
    ),
    generic(["tensor<4xf32>"], [], specified("f32", ""), body=NESTED): (
        "'quant.region' op must not be nested in another 'quant.region' op"
    ),
    'func.func @f() {\n"quant.return"() : () -> ()\n}\n': (
        "'quant.return' expects parent op 'quant.region'"
    ),
    **{
        generic(["tensor<4xf32>"], [], specified(spec, "")): (
            f"'quant.region' op has incompatible specification {spec} and input type "
            "'tensor<4xf32>'"
        )
        for spec in (
            "!quant.uniform<i8:f32:0, {5.000000e-01}>",
            "!quant.uniform<i8:f32:1, {5.000000e-01}>",
        )
    },
}

# A scalar is no operand of `quant.return` there, nor is anything but a tensor a port.
INVALID_IN_MLIR_14 = [
    generic(["f32"], ["f32"], specified("f32")),
    generic(["f32"], [], specified("!quant.any<i8:f32>", "f32")).replace("[f32]", "[]"),
    generic(["memref<4xf32>"], [], specified("memref<4xf32>", "")),
    generic(["vector<4xf32>"], [], specified("vector<4xf32>", "")),
    generic(["tuple<f32>"], [], specified("tuple<f32>", "")),
]


@pytest.mark.parametrize(("text", "message"), VALID_IN_MLIR_14.items())
def test_what_is_refused_on_purpose(text: str, message: str):
    assert answer(parse(text)) == message


@needs_mlir_14
@pytest.mark.parametrize("text", VALID_IN_MLIR_14)
def test_mlir_14_accepts_what_is_refused_on_purpose(text: str):
    assert mlir_answer(text) == "valid"


@pytest.mark.parametrize("text", INVALID_IN_MLIR_14)
def test_ports_without_a_tensor(text: str):
    assert answer(parse(text)) == "valid"


@needs_mlir_14
def test_mlir_14_has_tensors_at_ports():
    assert "valid" not in mlir_answers(INVALID_IN_MLIR_14[:1] + INVALID_IN_MLIR_14[2:])


@pytest.mark.parametrize("text", [*MISTAKES, *VALID_IN_MLIR_14, *INVALID_IN_MLIR_14])
def test_valid_or_not_a_kernel_is_printed(text: str):
    module = parse(text)
    printed = str(module)
    if answer(module) == "valid":
        again = parse(printed)
        assert again.is_structurally_equivalent(module)
        assert str(again) == printed
        assert parse(generic_text(module)).is_structurally_equivalent(module)


# Constructors and accessors


def kernel(**specs: list[UniformQuantizedType] | list[AnyQuantizedType]) -> RegionOp:
    block = Block(arg_types=[T, T])
    body = Block(arg_types=[T, T])
    body.add_op(ReturnOp(body.args[1]))
    return RegionOp("k", block.args, [T], Region(body), **specs)


def test_what_is_not_specified_is_the_element_type():
    op = kernel()
    op.verify()
    assert op.specs == (f32, f32, f32)
    assert op.kernel == "k"
    assert tuple(op.returned_values) == (op.body.block.args[1],)


def test_specifications():
    op = kernel(input_specs=[ANY, ANY], output_specs=[UniformQuantizedType(i8, f32, 2)])
    op.verify()
    assert op.specs == (ANY, ANY, UniformQuantizedType(i8, f32, 2))


def test_default_body():
    op = RegionOp("k", Block(arg_types=[T]).args, [])
    op.verify()
    (argument,) = op.body.block.args
    assert argument.type == T
    assert isinstance(op.body.block.last_op, ReturnOp)


def test_a_body_without_a_return_gets_one():
    op = RegionOp("k", [], [], Region(Block()))
    op.verify()
    assert tuple(op.returned_values) == ()


def test_a_kernel_without_effects_has_none():
    assert is_side_effect_free(kernel())


def test_an_invalid_kernel_is_printed():
    op = kernel()
    op.attributes["input_specs"] = StringAttr("a")
    with pytest.raises(VerifyException, match="type array"):
        op.verify()
    assert 'input_specs = "a"' in str(op)


@pytest.mark.parametrize(
    ("spec", "type_", "expected"),
    [
        (f32, f32, True),
        (f32, T, True),
        (f16, T, False),
        (T, T, False),
        (ANY, T, True),
        (ANY, f32, True),
        (AnyQuantizedType(i8), T, False),
        (AnyQuantizedType(i8, f16), T, False),
        *(
            (
                UniformQuantizedPerAxisType(i8, f32, [1.0] * n, quantized_dimension=d),
                type_,
                (n, d, type_) == (4, 0, T),
            )
            for n, d, type_ in ((4, 0, T), (3, 0, T), (4, 1, T), (4, 0, f32))
        ),
        *(
            (
                UniformQuantizedSubChannelType(
                    i8, f32, [1.0, 2.0], quantized_dimensions=[0], block_sizes=[size]
                ),
                T,
                size == 2,
            )
            for size in (2, 4)
        ),
    ],
)
def test_which_specifications_a_type_may_have(
    spec: AnyQuantizedType, type_: TensorType, expected: bool
):
    assert is_specification(spec, type_) == expected


# Text


def test_names_within_are_independent_of_names_outside():
    module = parse("""
        func.func @f(%x: f32, %y: f32) -> f32 {
          %z = quant.region "k" (%y = %x : f32, %x = %y : f32) -> (f32) {
            quant.return %x : f32
          }
          func.return %z : f32
        }""")
    op = region_of(module)
    assert tuple(op.returned_values) == (op.body.block.args[1],)
    assert [value.name_hint for value in op.inputs] == ["x", "y"]
    assert parse(str(module)).is_structurally_equivalent(module)


def test_names_outside_are_back_after_a_kernel():
    module = parse("""
        func.func @f(%x: f32) -> f32 {
          %z = quant.region "k" (%a = %x : f32) -> (f32) {
            quant.return %a : f32
          }
          %a = quant.region "l" (%b = %x : f32) -> (f32) {
            quant.return %b : f32
          }
          func.return %a : f32
        }""")
    module.verify()
