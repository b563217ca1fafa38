"""What files of hardware targets say, and what is told of mistakes in them."""

import re
from pathlib import Path
from random import Random

import pytest
from xdsl.dialects.builtin import NoneType, f32, i8

from xdsl_quant.dialects.quant import AnyQuantizedType, UniformQuantizedType
from xdsl_quant.dialects.quant.traits import (
    AccumulatorUniformScale,
    AffineOpCoefficient,
    FixedResultUniformScale,
    SameOperandsAndResultsScale,
)
from xdsl_quant.transforms.propagation.target_files import (
    TargetError,
    parse_target,
    read_target,
)
from xdsl_quant.transforms.propagation.target_spec import (
    MultiplierUniformScale,
    OpPattern,
    PatternStep,
    Port,
    PowerOfTwoScale,
)

TEXT = """\
name = "npu"
description = "A target."
range-rule = "mlir"

[[kernels]]
name = "dense"
patterns = ["my.dot | my.conv -> my.add -> my.relu?"]
inputs = ["i8", "const i8<-127:127>:0", "i32:0"]
outputs = ["u8"]
constraints = [
  { kind = "coefficient-axis", dimension = 0 },
  { kind = "accumulator-scale", bias = 2 },
  { kind = "multiplier-scale", factors = [0, 1] },
  { kind = "fixed-scale", minimum = 0, maximum = 1, symmetric-widths = [16] },
  "power-of-two-scale",
]

[[kernels]]
ops = ["my.concat", "my.pack"]

[[kernels.signatures]]
inputs = ["any=i8", "..."]
outputs = ["any=i8"]
constraints = ["same-scale"]

[[kernels.signatures]]
inputs = ["-", "const float"]
outputs = ["i8", "..."]
constraints = []

[[kernels]]
name = "either"
ops = ["my.sin", "my.cos", "my.map [ my.a,my.b ]"]
inputs = ["i8"]
outputs = ["i8"]
"""


def test_what_a_file_says():
    target = parse_target(TEXT)
    assert (target.name, target.description, target.range_rule) == (
        "npu",
        "A target.",
        "mlir",
    )
    assert [*target.kernels] == ["dense", "my.concat", "my.pack", "either"]
    dense = target.kernels["dense"]
    assert dense.patterns == [
        OpPattern(
            [
                PatternStep(["my.dot", "my.conv"]),
                PatternStep(["my.add"]),
                PatternStep(["my.relu"], is_optional=True),
            ]
        )
    ]
    (signature,) = dense.signatures
    assert [port.text for port in (*signature.inputs, *signature.outputs)] == [
        "i8",
        "const i8<-127:127>:0",
        "i32:0",
        "u8",
    ]
    assert signature.constraints == [
        AffineOpCoefficient(1, 0),
        AccumulatorUniformScale(2),
        MultiplierUniformScale(0, (0, 1)),
        FixedResultUniformScale(0, 1, (16,)),
        PowerOfTwoScale(),
    ]
    first, second = target.kernels["my.pack"].signatures
    assert first.is_variadic
    assert not first.has_variadic_results
    assert first.constraints == [SameOperandsAndResultsScale()]
    assert second.has_variadic_results
    assert second.inputs == [Port(), Port(is_constant=True)]
    assert second.constraints == []
    either = target.kernels["either"]
    assert either.patterns == [
        OpPattern([PatternStep(["my.sin", "my.cos", "my.map[my.a,my.b]"])])
    ]
    assert either.signatures[0].constraints is None


def test_byte_order_mark(tmp_path: Path):
    file = tmp_path / "npu.toml"
    file.write_text(KERNEL, "utf-8-sig")
    assert [*read_target(file).kernels] == ["a.b"]


def test_name_of_a_file(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(KERNEL)
    assert read_target(path) == read_target(str(path))
    assert read_target(path).name == "mine"


def test_signatures_that_fit():
    target = parse_target(TEXT)
    dense, concat = target.kernels["dense"], target.kernels["my.concat"]
    assert dense.signature([f32, f32, f32], [f32]) is not None
    assert dense.signature([f32, f32, NoneType()], [f32]) is not None
    assert dense.signature([f32, f32], [f32]) is not None
    assert dense.signature([f32] * 4, [f32]) is None
    assert dense.signature([i8, f32], [f32]) is None
    weights = UniformQuantizedType(i8, f32, 0.5, storage_type_min=-127)
    assert dense.signature([f32, weights], [f32]) is not None
    shifted = UniformQuantizedType(i8, f32, 0.5, 3, storage_type_min=-127)
    assert dense.signature([f32, shifted], [f32]) is None
    first = concat.signature([f32] * 5, [AnyQuantizedType(i8, f32)])
    assert first is not None
    assert len(first.inputs) == 5
    second = concat.signature([i8], [f32] * 3)
    assert second is not None
    assert (len(second.inputs), len(second.outputs)) == (1, 3)
    assert not second.has_variadic_results


KERNEL = """\
[[kernels]]
ops = ["a.b"]
inputs = ["i8"]
outputs = ["i8"]
"""
ARRAY = KERNEL.replace('inputs = ["i8"]', 'inputs = [\n  "i8",\n  "{}",\n]')
CONSTRAINT = KERNEL + "constraints = [{}]\n"
PORT_WORDS = (
    "write a storage type such as 'i8', 'i8<-127:127>', 'u8', 'any=i8', 'i16:0', "
    "'f8E4M3FN' or 'const i4{1:32}', a float type such as 'bf16', or '-' for an "
    "unquantized port"
)

MISTAKES = [
    ("x = ", "1", "expected TOML, found invalid value; see https://toml.io"),
    ("x = [1,\n2", "2", "expected TOML, found unclosed array; see https://toml.io"),
    ("", "1", "expected kernels, found none; add a table [[kernels]]"),
    (
        "kernels = 3",
        "1",
        "expected tables with the header [[kernels]] for 'kernels', found 3; write tables "
        "with the header [[kernels]]",
    ),
    ("kernel = 3", "1", "unknown key, found 'kernel' in a target; use 'kernels'"),
    (
        "name = 3\n" + KERNEL,
        "1",
        "expected a string for 'name', found 3; write a string",
    ),
    (
        "range-rule = 'best'\n" + KERNEL,
        "1",
        "unknown rule for ranges, found 'best'; use one of 'exact', 'mlir', 'tflite'",
    ),
    (
        "name = ' '\n" + KERNEL,
        "1",
        "expected a name, found an empty string; write a name",
    ),
    (
        KERNEL + "name = ''",
        "5",
        "expected a name, found an empty string; write a name",
    ),
    (
        KERNEL.replace("a.b", ""),
        "2",
        "expected the name of an op, found ''; write it with its dialect, e.g. "
        "'stablehlo.add'",
    ),
    (
        KERNEL.replace('["a.b"]', '[\n  "a.b",\n  "a.b[c.d, c.e]",\n  "a.b"\n]')
        + "name = 'x'",
        "3",
        "expected different ops, found 'a.b' twice; leave out one",
    ),
    (
        KERNEL.replace("ops = ", 'name = "x"\npatterns = ').replace(
            "a.b", "a.b -> a.c | a.c"
        ),
        "3",
        "expected different ops, found 'a.c' twice; leave out one",
    ),
    (
        KERNEL + "input = []",
        "5",
        "unknown key, found 'input' in a kernel; use 'inputs'",
    ),
    (
        KERNEL + "xyz = []",
        "5",
        "unknown key, found 'xyz' in a kernel; use one of 'name', 'ops', 'composites', "
        "'patterns', 'signatures', 'inputs', 'outputs', 'constraints'",
    ),
    (
        KERNEL.replace('["i8"]', '["i8", 3]', 1),
        "3",
        "expected an array of strings for 'inputs', found 3 in it; write a string in its "
        "place",
    ),
    (
        KERNEL.replace('["i8"]', '"i8"', 1),
        "3",
        "expected an array of strings for 'inputs', found 'i8'; write an array of strings",
    ),
    (ARRAY.format("i9x"), "5", f"expected a port, found 'i9x'; {PORT_WORDS}"),
    (ARRAY.format("any"), "5", f"expected a port, found 'any'; {PORT_WORDS}"),
    (ARRAY.format("f8"), "5", f"expected a port, found 'f8'; {PORT_WORDS}"),
    (
        ARRAY.format("i64"),
        "5",
        "illegal storage type size: 64, found 'i64'; write another storage type",
    ),
    (
        ARRAY.format("i8<3:1>"),
        "5",
        "illegal storage min and storage max: (3:1), found 'i8<3:1>'; write another "
        "storage type",
    ),
    (
        ARRAY.format("i8:200"),
        "5",
        "zero point exceeds the storage range, found 'i8:200'; write one from "
        "-128 to 127",
    ),
    (
        KERNEL.replace('["i8"]', '["...", "i8"]', 1),
        "3",
        "expected '...' after the last port of 'inputs', found it elsewhere; move "
        "it to the end",
    ),
    (
        KERNEL.replace('outputs = ["i8"]\n', ""),
        "1",
        "missing 'outputs' of a kernel; add an array of ports, e.g. outputs = [\"i8\"]",
    ),
    (
        KERNEL + KERNEL,
        "6",
        "duplicate kernel, found 'a.b' twice; rename one, or merge them with several "
        "[[kernels.signatures]]",
    ),
    (
        KERNEL.replace('ops = ["a.b"]\n', ""),
        "1",
        "expected ops or a name of a kernel, found neither; add 'ops', or 'name'",
    ),
    (
        KERNEL.replace("ops", "patterns"),
        "2",
        "expected a name of a kernel with patterns, found none; add 'name'",
    ),
    (
        KERNEL.replace("a.b", "add"),
        "2",
        "expected the name of an op, found 'add'; write it with its dialect, e.g. "
        "'stablehlo.add'",
    ),
    (
        KERNEL.replace("ops = ", 'name = "x"\npatterns = ').replace(
            "a.b", "a.b? -> a.c?"
        ),
        "3",
        "expected a required op in a pattern, found only optional ones in "
        "'a.b? -> a.c?'; leave out a '?'",
    ),
    (
        KERNEL.replace("ops = ", 'name = "x"\npatterns = ').replace("a.b", "@mine"),
        "3",
        "unknown pattern of a plugin, found '@mine', available: 'onnx.normalization', "
        "'onnx.softmax', 'stablehlo.dynamic-softmax'; install the plugin "
        "that defines it",
    ),
    (
        KERNEL.replace("ops = ", 'name = "x"\npatterns = ').replace(
            '"a.b"', '"""\na.b ->\nc"""'
        ),
        "3",
        "expected the name of an op, found 'c'; write it with its dialect, e.g. "
        "'stablehlo.add'",
    ),
    (
        KERNEL.replace('"a.b"', '"""\na.b\nc"""'),
        "2",
        "expected the name of an op, found 'a.b c'; write it with its dialect, e.g. "
        "'stablehlo.add'",
    ),
    (
        KERNEL + '[[kernels.signatures]]\ninputs = ["i8"]\n',
        "3",
        "expected either 'inputs' or 'signatures', found both; move 'inputs' into a table "
        "of [[kernels.signatures]]",
    ),
    (
        '[[kernels]]\nops = ["a.b"]\n[[kernels.signatures]]\ninputs = []\noutputs = []\n'
        "[[kernels.signatures]]\ninputs = []\nout = []\n",
        "8",
        "unknown key, found 'out' in a signature; use 'outputs'",
    ),
    (
        CONSTRAINT.format('"same-scal"'),
        "5",
        "unknown constraint, found 'same-scal'; use 'same-scale'",
    ),
    (
        CONSTRAINT.format('"accumulator-scale"'),
        "5",
        "missing 'bias' of 'accumulator-scale'; add it",
    ),
    (
        CONSTRAINT.format('{ kind = "accumulator-scale", bias = 2 }'),
        "5",
        "unknown port, found index 2 for 'bias' of 'accumulator-scale' and 1 inputs; "
        "count from 0",
    ),
    (
        CONSTRAINT.format('{ kind = "multiplier-scale", factors = [0], result = 1 }'),
        "5",
        "unknown port, found index 1 for 'result' of 'multiplier-scale' and 1 outputs; "
        "count from 0",
    ),
    (
        CONSTRAINT.format('{ kind = "coefficient-axis", axis = 0 }'),
        "5",
        "unknown key, found 'axis' in 'coefficient-axis'; use one of 'kind', 'operand', "
        "'dimension'",
    ),
    (
        CONSTRAINT.replace('["i8"]', '["-"]', 1).format(
            '{ kind = "coefficient-axis", operand = 0 }'
        ),
        "5",
        "expected a quantized port for 'operand' of 'coefficient-axis', found '-' at index "
        "0 of inputs; use another index, or a storage type there",
    ),
    (
        CONSTRAINT.format('{ kind = "fixed-scale", minimum = 0, maximum = "x" }'),
        "5",
        "expected a number for 'maximum' of 'fixed-scale', found 'x'; write a number",
    ),
    *(
        (
            CONSTRAINT.format(
                f'{{ kind = "fixed-scale", minimum = {m}, maximum = {n} }}'
            ),
            "5",
            "expected a finite range that contains 0 for 'fixed-scale', found "
            f"{found}; write other numbers",
        )
        for m, n, found in (
            ("0", "0", "0 to 0"),
            ("1", "-1", "1 to -1"),
            ("2", "4.5", "2 to 4.5"),
            ("nan", "1", "nan to 1"),
            ("0", "inf", "0 to inf"),
        )
    ),
    (
        CONSTRAINT.format('{ kind = "multiplier-scale", factors = [] }'),
        "5",
        "expected factors of 'multiplier-scale', found none; add the indices of operands",
    ),
    (
        CONSTRAINT.format('{ kind = "accumulator-scale", bias = 0, factors = [0] }'),
        "5",
        "expected different ports for bias and factors of 'accumulator-scale', found "
        "index 0 for both; use another index",
    ),
    (
        '[[kernels]]\nops = ["a.b"]\nsignatures = []',
        "3",
        "expected signatures, found none; add a table [[kernels.signatures]]",
    ),
    (
        CONSTRAINT.format("true"),
        "5",
        "expected a constraint, found true; write a name, e.g. 'same-scale', or a table "
        "with 'kind'",
    ),
    (
        CONSTRAINT.format('"@mine"'),
        "5",
        "unknown constraint of a plugin, found '@mine', available: none; install the "
        "plugin that defines it",
    ),
]


@pytest.mark.parametrize(("text", "place", "message"), MISTAKES)
def test_mistakes(text: str, place: str, message: str):
    with pytest.raises(TargetError) as error:
        parse_target(text, "my.toml")
    assert str(error.value) == f"my.toml:{place}: error: {message}"


TOKENS = """
    " [ ] { } = [[kernels]] [kernels] [[kernels.signatures]] "..." "i8" "const -" 3 true 1e5
    1979-05-27 inputs outputs ops name patterns constraints kind "@x" -> | ? \'\'\'
    "i9999999999999999999" "i8<-99999999999999999999:1>" 99999999999999999999
""".split()


def broken(random: Random) -> str:
    """A text with some characters and lines in the wrong place."""
    lines: list[str] = [*TEXT.splitlines()]
    for _ in range(random.randrange(1, 4)):
        index = random.randrange(len(lines))
        line = lines[index]
        match random.randrange(3):
            case 0:
                lines[index] = random.choice(lines)
            case 1:
                parts = [part for part in re.split(r'("[^"]*"|\W)', line) if part]
                if parts:
                    parts[random.randrange(len(parts))] = random.choice(TOKENS)
                lines[index] = "".join(parts)
            case _:
                place = random.randrange(len(line) + 1)
                lines[index] = line[:place] + random.choice(TOKENS) + line[place:]
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(5))
def test_any_mistake_is_one_sentence(seed: int):
    random = Random(seed)
    messages: list[str] = []
    for _ in range(100):
        try:
            parse_target(broken(random))
        except TargetError as e:
            messages.append(str(e))
    assert len(messages) > 50
    for message in messages:
        assert re.fullmatch(r"target.toml:\d+(:\d+)?: error: .+; .+", message)


def test_targets_that_are_not_there(tmp_path: Path):
    with pytest.raises(TargetError) as error:
        read_target("tflite-int9")
    assert str(error.value).startswith("unknown target 'tflite-int9', available: '")
    missing = tmp_path / "missing.toml"
    with pytest.raises(TargetError) as error:
        read_target(missing)
    assert str(error.value) == (
        f"{missing}: error: no such file or directory; use the path of a .toml file"
    )
    missing.write_bytes(b"\xff\xff")
    with pytest.raises(TargetError) as error:
        read_target(missing)
    assert str(error.value) == (
        f"{missing}: error: expected UTF-8 text, found a binary file; use the path of a "
        ".toml file"
    )


# Targets that extend others


BASE = """\
range-rule = "mlir"

[[kernels]]
name = "dense"
patterns = ["my.dot -> my.add"]
inputs = ["i8", "i8"]
outputs = ["i8"]

[[kernels]]
ops = ["my.tanh"]
inputs = ["i8"]
outputs = ["i8"]
"""
WIDE = """\
[[kernels]]
ops = ["my.tanh", "my.exp"]

[[kernels.signatures]]
inputs = ["i16"]
outputs = ["i16"]

[[kernels.signatures]]
inputs = ["i8"]
outputs = ["i8"]
"""
NARROW = """\
extends = [{}]

[[kernels]]
name = "dense"
inputs = ["i8", "i4"]
outputs = ["i8"]
constraints = ["coefficient-axis"]
"""


def test_a_target_extends_others(tmp_path: Path):
    base, wide = tmp_path / "base.toml", tmp_path / "wide.toml"
    base.write_text(BASE)
    wide.write_text(WIDE)
    target = parse_target(NARROW.format(f'"{base}", "{wide}"'))
    found = {
        name: [
            [port.text for port in (*each.inputs, *each.outputs)]
            for each in kernel.signatures
        ]
        for name, kernel in target.kernels.items()
    }
    # Signatures of its own come first, and those that would never be found are left out.
    assert found == {
        "dense": [["i8", "i4", "i8"], ["i8", "i8", "i8"]],
        "my.tanh": [["i8", "i8"], ["i16", "i16"]],
        "my.exp": [["i16", "i16"], ["i8", "i8"]],
    }
    assert (
        target.kernels["dense"].patterns == read_target(base).kernels["dense"].patterns
    )
    assert target.kernels["dense"].signatures[0].constraints == [AffineOpCoefficient(1)]
    assert target.range_rule == "mlir"
    assert parse_target(f'extends = ["{wide}"]').kernels == read_target(wide).kernels


def test_a_target_cannot_extend_itself(tmp_path: Path):
    one, other = tmp_path / "one.toml", tmp_path / "other.toml"
    one.write_text(f'extends = ["{other}"]')
    other.write_text(f'description = "x"\nextends = ["{one}"]')
    with pytest.raises(TargetError) as caught:
        read_target(one)
    assert str(caught.value) == (
        f"{other}:2: error: target extends itself, found '{one}'; leave it out"
    )


def test_a_kernel_without_ops_has_a_name_only(tmp_path: Path):
    base = tmp_path / "base.toml"
    base.write_text(BASE)
    target = parse_target(NARROW.format(f'"{base}"').replace("dense", "danse"))
    danse = target.kernels["danse"]
    assert (danse.name, danse.patterns) == ("danse", [])
    assert danse.signature([f32, f32], [f32]) is not None
    assert [*target.kernels] == ["dense", "my.tanh", "danse"]
    # A target that extends it may say which ops the kernel has.
    by_name = tmp_path / "by_name.toml"
    by_name.write_text(KERNEL.replace('ops = ["a.b"]', 'name = "k"'))
    ops = KERNEL.replace('ops = ["a.b"]', 'name = "k"\nops = ["a.b"]')
    (kernel,) = parse_target(f'extends = ["{by_name}"]\n{ops}').kernels.values()
    assert kernel.patterns == [OpPattern([PatternStep(["a.b"])])]
