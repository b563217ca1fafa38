"""Ops that cannot be part of a kernel, and kernels that are never found."""

from collections.abc import Sequence

import pytest

from tests.unit.transforms.propagation.test_shipped_targets import SHIPPED
from xdsl_quant.inspecting.target_checks import check_target
from xdsl_quant.runtime.loading import multiverse_context
from xdsl_quant.runtime.toml_tables import TomlFile
from xdsl_quant.transforms.propagation.target_files import (
    TargetError,
    parse_target,
    target_file,
)

CONTEXT = multiverse_context()


def warnings(text: str) -> Sequence[str]:
    parse_target(text)
    return check_target(TomlFile(text, "my.toml", TargetError), CONTEXT)


@pytest.mark.parametrize("target", SHIPPED)
def test_nothing_is_wrong_with_what_is_shipped(target: str):
    assert not check_target(target_file(target), CONTEXT)


# Ops


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        ("arith.constant", "a constant"),
        ("builtin.unrealized_conversion_cast", "an op of dialect 'builtin'"),
        ("cf.br", "an op of dialect 'cf'"),
        ("func.call", "an op of dialect 'func'"),
        ("func.return", "an op of dialect 'func'"),
        ("linalg.yield", "a terminator"),
        ("memref.store", "an op without results"),
        ("quant.region", "an op of dialect 'quant'"),
        ("quant.stats", "an op of dialect 'quant'"),
        ("scf.if", "an op of dialect 'scf'"),
        ("stablehlo.constant", "a constant"),
        ("stablehlo.uniform_quantize", "a cast of quantized values"),
        ("tfl.dequantize", "a cast of quantized values"),
        ("tfl.pseudo_const", "a constant"),
    ],
)
def test_ops_that_cannot_be_part_of_a_kernel(op: str, reason: str):
    with pytest.raises(TargetError) as error:
        warnings(
            f"""\
[[kernels]]
name = "k"
patterns = ["tfl.add",
  "tfl.mul -> {op}"]
inputs = ["i8"]
outputs = ["i8"]
"""
        )
    assert str(error.value) == (
        f"my.toml:4: error: unsupported op of a kernel, found '{op}', {reason}; leave it "
        "out"
    )


def test_ops_in_regions():
    text = """\
[[kernels]]
ops = ["linalg.generic[arith.constant,arith.addf{}]"]
inputs = ["i8"]
outputs = ["i8"]
"""
    assert not warnings(text.format(""))
    with pytest.raises(TargetError) as error:
        warnings(text.format(", linalg.yield"))
    assert str(error.value) == (
        "my.toml:2: error: unsupported op of the region of an op, found 'linalg.yield', a "
        "terminator; leave it out"
    )


def test_unknown_ops_are_told_once():
    text = """\
[[kernels]]
ops = ["tfl.ad", "no.op[tfl.xyzxyz]"]
inputs = ["i8"]
outputs = ["i8"]

[[kernels]]
name = "k"
patterns = ["tfl.add -> tfl.ad"]
inputs = ["i8"]
outputs = ["i8"]
"""
    assert warnings(text) == [
        "my.toml:2: warning: unknown op, found 'tfl.ad'; use 'tfl.pad'",
        "my.toml:2: warning: unknown dialect 'no' of op 'no.op'; install the plugin that "
        "defines it",
        "my.toml:2: warning: unknown op, found 'tfl.xyzxyz'; use another name",
    ]


# Unreachable patterns and signatures


def signatures(*ports: str) -> str:
    """A kernel that has signatures, each with inputs, `->`, and outputs."""
    tables = (each.split(" -> ") for each in ports)
    return "[[kernels]]\nops = ['tfl.add', 'tfl.mul']\n" + "\n".join(
        f"[[kernels.signatures]]\ninputs = [{inputs}]\noutputs = [{outputs}]"
        for inputs, outputs in tables
    )


@pytest.mark.parametrize(
    ("first", "second", "is_unused"),
    [
        ("'i8' -> 'i8'", "'i8' -> 'i8'", True),
        ("'i8' -> 'i8'", "'u8' -> 'i8'", False),
        ("'i8' -> 'i8'", "'i8' -> 'i16'", False),
        # Ranges and zero points
        ("'i8' -> 'i8'", "'i8<-127:127>' -> 'i8'", True),
        ("'i8<-127:127>' -> 'i8'", "'i8' -> 'i8'", False),
        ("'i8<-128:126>' -> 'i8'", "'i8' -> 'i8'", False),
        ("'i8' -> 'i8'", "'i8:0' -> 'i8'", True),
        ("'i8:0' -> 'i8'", "'i8:0' -> 'i8'", True),
        ("'i8:0' -> 'i8'", "'i8' -> 'i8'", False),
        ("'i8:0' -> 'i8'", "'i8:1' -> 'i8'", False),
        # Wildcards, constants, and what is not quantized
        ("'any=i8' -> 'i8'", "'i16' -> 'i8'", True),
        ("'any=i8' -> 'i8'", "'any=i16' -> 'i8'", True),
        ("'any=i8:0' -> 'i8'", "'i16' -> 'i8'", False),
        ("'i8' -> 'i8'", "'any=i8' -> 'i8'", False),
        ("'i8' -> 'i8'", "'const i8' -> 'i8'", True),
        ("'const i8' -> 'i8'", "'i8' -> 'i8'", False),
        ("'-' -> 'i8'", "'-' -> 'i8'", True),
        ("'-' -> 'i8'", "'i8' -> 'i8'", False),
        ("'i8' -> 'i8'", "'-' -> 'i8'", False),
        # Numbers of ports
        ("'i8', 'i8' -> 'i8'", "'i8' -> 'i8'", True),
        ("'i8' -> 'i8'", "'i8', 'i8' -> 'i8'", False),
        ("'i8', '...' -> 'i8'", "'i8', 'i8' -> 'i8'", True),
        ("'i8', '...' -> 'i8'", "'i8', '...' -> 'i8'", True),
        ("'i8', '...' -> 'i8'", "'i8', 'i16' -> 'i8'", False),
        ("'i8', '...' -> 'i8'", "'i8', 'i16', '...' -> 'i8'", False),
        ("'i8', 'i8' -> 'i8'", "'i8', '...' -> 'i8'", False),
        ("'i8' -> 'i8', '...'", "'i8' -> 'i8', 'i8'", True),
        ("'i8' -> 'i8', 'i8'", "'i8' -> 'i8', '...'", False),
    ],
)
def test_signatures(first: str, second: str, is_unused: bool):
    warning = (
        "my.toml:6: warning: unreachable signature, found it after signature 0 of the "
        "kernel, which matches the same ports; remove one of them, or change their order"
    )
    assert warnings(signatures(first, second)) == [warning] * is_unused


def test_signature_after_several():
    ports = ("'i8' -> 'i8'", "'i16' -> 'i8'", "'i16' -> 'i8'", "'i32' -> 'i8'")
    (warning,) = warnings(signatures(*ports))
    assert warning.startswith("my.toml:9: warning: ")
    assert "after signature 1 of" in warning


def kernel(
    name: str, patterns: Sequence[str], inputs: str = "'i8'", key: str = "patterns"
) -> str:
    texts = ",\n".join(f"'{pattern}'" for pattern in patterns)
    return f"""\
[[kernels]]
name = '{name}'
inputs = [{inputs}]
outputs = ['i8']
{key} = [
{texts}
]
"""


@pytest.mark.parametrize(
    ("first", "second", "is_unused"),
    [
        ("tfl.add", "tfl.add", True),
        ("tfl.add", "tfl.mul", False),
        ("tfl.add|tfl.mul", "tfl.mul", True),
        ("tfl.add", "tfl.mul | tfl.add", False),
        ("tfl.add -> tfl.mul", "tfl.mul", False),
        ("tfl.add", "tfl.add -> tfl.mul", False),
        ("tfl.add -> tfl.mul?", "tfl.add", True),
        ("tfl.add -> tfl.mul?", "tfl.add -> tfl.mul", True),
        ("tfl.add -> tfl.mul?", "tfl.add -> tfl.mul?", True),
        ("tfl.add -> tfl.mul", "tfl.add -> tfl.mul?", False),
        # A name without a region is that of all.
        ("stablehlo.reduce[tfl.add]", "stablehlo.reduce", False),
        ("stablehlo.reduce", "stablehlo.reduce[tfl.add]", True),
    ],
)
def test_patterns(first: str, second: str, is_unused: bool):
    text = kernel("k", [first]) + kernel("m", ["tfl.tanh", second])
    warning = (
        f"my.toml:14: warning: unreachable pattern, found '{second}' after kernel 'k', "
        "which matches the same ops; remove one of them"
    )
    assert warnings(text) == [warning] * is_unused


def test_patterns_of_other_signatures():
    pattern = ["tfl.add"]
    text = kernel("k", pattern, "'const i8'") + kernel("m", pattern)
    assert not warnings(text)
    assert warnings(kernel("k", pattern) + kernel("m", pattern, "'const i8'"))


def test_patterns_of_one_kernel():
    text = kernel("k", ["tfl.add", "tfl.add"]) + kernel("m", ["tfl.add"], key="ops")
    sentence = (
        "unreachable pattern, found 'tfl.add' after kernel 'k', which matches the"
    )
    assert warnings(text) == [
        f"my.toml:{line}: warning: {sentence} same ops; remove one of them"
        for line in (6, 14)
    ]


# Biases


def product(pattern: str, constraints: str, bias: str = "i32:0") -> str:
    """A kernel of a product with a bias."""
    return f"""\
[[kernels]]
name = "k"
patterns = ["{pattern}"]
inputs = ["i8", "i8", "{bias}"]
outputs = ["i8"]
{constraints}
"""


SUM = "stablehlo.dot_general -> stablehlo.add"
SCALE = '{ kind = "accumulator-scale", bias = 2 }'


@pytest.mark.parametrize(
    ("pattern", "constraints", "bias", "is_free"),
    [
        (SUM, "", "i32:0", True),
        (SUM, 'constraints = ["coefficient-of-op"]', "const i32:0", True),
        (SUM, f"constraints = [{SCALE}]", "i32:0", False),
        (SUM, "", "i8", False),
        ("stablehlo.add -> stablehlo.add", "", "i32:0", False),
        # The op says it, unless constraints are given.
        ("tfl.conv_2d", "", "i32:0", False),
        ("tfl.conv_2d", 'constraints = ["coefficient-of-op"]', "i32:0", True),
    ],
)
def test_biases(pattern: str, constraints: str, bias: str, is_free: bool):
    warning = (
        "my.toml:1: warning: unconstrained bias scale, found operand 2 of "
        f"'!quant.any<i32>' without a constraint; add {SCALE}"
    )
    assert warnings(product(pattern, constraints, bias)) == [warning] * is_free


# Kernels without ops


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("tfl.conv_2e", "tfl.conv_2d"),
        ("tfl.conv_2d", None),
        ("gated_unit", None),
    ],
)
def test_names_of_kernels_without_ops(name: str, warning: str | None):
    kernel = f'[[kernels]]\nname = "{name}"\ninputs = ["i4"]\noutputs = ["i4"]\n'
    assert warnings(kernel) == []
    found = warnings(f'extends = ["tflite-int8"]\n{kernel}')
    if warning is None:
        assert found == []
        return
    assert found == [
        f"my.toml:3: warning: kernel without ops, found '{name}', which no target in "
        f"'extends' has; use '{warning}', or add 'ops'"
    ]
    assert warnings(f'extends = ["tflite-int8"]\n{kernel}ops = ["tfl.add"]\n') == []
