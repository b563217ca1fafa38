"""
Wrong lowerings, written by hand, which no proof may accept.

Each one replaces text in the code of a kernel. Random inputs are skipped: proofs must not
depend on them.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest
from xdsl.dialects import tosa
from xdsl.dialects.builtin import ModuleOp, f32

from tests.proving.kernel_mutants import LINALG, STABLEHLO, TOSA, module
from xdsl_quant.proving.kernels import (
    ModelKernel,
    comparison,
    cut_kernels,
    prove_kernel,
)
from xdsl_quant.proving.kernels.comparison import KernelComparison
from xdsl_quant.proving.terms import UnsupportedError
from xdsl_quant.runtime.arrays import elements_attr
from xdsl_quant.runtime.loading import parse_module

KERNELS = {kernel.op.name: kernel for kernel in cut_kernels(module())}

_MEAN = """
!x = !quant.uniform<i8:f32, 0.05:-3>
func.func @main(%x: tensor<1x4x6x2x!x>) {
  %p = "tfl.average_pool_2d"(%x) <{
    filter_height = 1 : i32, filter_width = 3 : i32, stride_h = 1 : i32,
    stride_w = 3 : i32, padding = "VALID", fused_activation_function = "NONE"
  }> : (tensor<1x4x6x2x!x>) -> tensor<1x4x2x2x!x>
  func.return
}"""
(KERNELS["tfl.mean"],) = cut_kernels(parse_module(_MEAN))


class Wrong(NamedTuple):
    """A wrong lowering."""

    fault: str
    kernel: str
    passes: str
    old: str
    new: str

    number: int = 0
    """Number of the occurrence that is replaced."""

    def mutate(self, lowered: ModuleOp) -> None:
        """Replace the text in a module."""
        parts = str(lowered).split(self.old)
        assert len(parts) > self.number + 1, f"no {self.old!r} in {lowered}"
        start, end = parts[: self.number + 1], parts[self.number + 1 :]
        changed = parse_module(self.old.join(start) + self.new + self.old.join(end))
        block = lowered.body.block
        for op in [*block.ops]:
            op.detach()
            op.erase()
        for op in [*changed.body.block.ops]:
            op.detach()
            block.add_op(op)


CONVOLUTION, DEPTHWISE, POOL = "conv_2d", "depthwise_conv_2d", "average_pool_2d"
DENSE = "fully_connected"
BOUNDS = "[0, 1, 1, 0] [1, 4, 6, 2]"
PADDING = "pad = array<i64: 1, 1, 1, 1>"
PRODUCT = "arith.muli %13, %14 : i32\n      %16 = arith.addi %out_2, %15 : i32"
NUDGE = "arith.subi %29, %33 : i32"
SCALE, ZERO_POINT = "constant 5.000000e-02 : f32", "constant -3.000000e+00 : f32"
ARGUMENT_AS_START = (
    "%11 = linalg",
    """%s = tensor.extract_slice %3[0, 0, 0, 0] [1, 4, 2, 2] [1, 1, 1, 1]
      : tensor<1x4x6x2xf32> to tensor<1x4x2x2xf32>
    %q = arith.constant dense<6.25> : tensor<1x4x2x2xf32>
    %11 = arith.addf %s, %q : tensor<1x4x2x2xf32>
    %unused = linalg""",
)
SWAPPED_MULTIPLIERS = "[1368236013, 2053962747]", "[2053962747, 1368236013]"

WRONG = [
    # Linalg: convolutions
    Wrong("zero point", CONVOLUTION, LINALG, "constant -3 : i32", "constant -4 : i32"),
    Wrong("padding value", CONVOLUTION, LINALG, "constant -3 : i8", "constant 0 : i8"),
    Wrong("padding", CONVOLUTION, LINALG, BOUNDS, "[0, 0, 1, 0] [1, 4, 6, 2]"),
    Wrong("padding", CONVOLUTION, LINALG, BOUNDS, "[0, 1, 2, 0] [1, 4, 6, 2]"),
    Wrong("bias", CONVOLUTION, LINALG, "[-234, -4, -121]", "[-234, -5, -121]"),
    Wrong("bias", CONVOLUTION, LINALG, "[-234, -4, -121]", "[-121, -4, -234]"),
    Wrong("no lower clamp", CONVOLUTION, LINALG, "maxsi %40, %41", "maxsi %40, %40"),
    Wrong("no upper clamp", CONVOLUTION, LINALG, "minsi %42, %43", "minsi %42, %42"),
    Wrong("no rounding", CONVOLUTION, LINALG, "1073741824 : i64", "0 : i64"),
    Wrong("half up", DEPTHWISE, LINALG, NUDGE, "arith.subi %29, %31 : i32"),
    Wrong("logical shift", CONVOLUTION, LINALG, "shrsi %36", "shrui %36"),
    Wrong("shift", CONVOLUTION, LINALG, "constant 5 : i32", "constant 6 : i32"),
    Wrong("unsigned", CONVOLUTION, LINALG, "extsi %in : i8", "extui %in : i8"),
    Wrong(
        "unsigned weight", CONVOLUTION, LINALG, "extsi %in_1 : i8", "extui %in_1 : i8"
    ),
    Wrong("duplicate term", CONVOLUTION, LINALG, "addi %out_2, %15", "addi %15, %15"),
    Wrong(
        "duplicate term",
        CONVOLUTION,
        LINALG,
        PRODUCT,
        PRODUCT.replace("%16", "%twice").replace("%15 : i32", "%15 : i32", 1)
        + "\n      %16 = arith.addi %twice, %15 : i32",
    ),
    Wrong("channels swapped", CONVOLUTION, LINALG, "d5), d6)>", "d5), (1 - d6))>"),
    Wrong(
        "window transposed", CONVOLUTION, LINALG, "(d3, d4, d5, d6)", "(d3, d5, d4, d6)"
    ),
    Wrong("no first value", CONVOLUTION, LINALG, "outs(%8 ", "outs(%7 "),
    Wrong("squares", CONVOLUTION, LINALG, "muli %13, %14", "muli %13, %13"),
    Wrong("scale", CONVOLUTION, LINALG, "1433394647", "1433304647"),
    Wrong("axis of scales", CONVOLUTION, LINALG, "(d3)>", "((d3 * 0))>", 1),
    Wrong("axis of scales", CONVOLUTION, LINALG, "(d3)>", "((d1 floordiv 2))>", 1),
    Wrong(
        "i16 sums",
        CONVOLUTION,
        LINALG,
        "%16 = arith.addi %out_2, %15 : i32",
        "%s = arith.trunci %out_2 : i32 to i16\n %e = arith.extsi %s : i16 to i32\n"
        "%16 = arith.addi %e, %15 : i32",
    ),
    Wrong("dilation", DEPTHWISE, LINALG, "((d1 * 2) + d5)", "(d1 + (d5 * 2))"),
    Wrong("weights", DEPTHWISE, LINALG, "(d5, d6, d3, d4)", "(d5, d6, (1 - d3), d4)"),
    Wrong("multipliers", DEPTHWISE, LINALG, *SWAPPED_MULTIPLIERS),
    Wrong("shifts", DEPTHWISE, LINALG, "dense<[5, 7]>", "dense<[7, 5]>"),
    # Linalg: other kernels
    Wrong("ratio", DENSE, LINALG, "0.0097604546647272576", "0.0097"),
    Wrong("rounding", DENSE, LINALG, "math.copysign %23, %19", "math.floor %19"),
    Wrong(
        "terms",
        DENSE,
        LINALG,
        "(d0, d1, d2) -> (d2, d1)",
        "(d0, d1, d2) -> ((47 - d2), d1)",
    ),
    Wrong("count", POOL, LINALG, "constant 6 : i32", "constant 5 : i32", 1),
    Wrong("rounding", POOL, LINALG, "constant 3 : i32", "constant 2 : i32"),
    Wrong("window", POOL, LINALG, "((d1 * 2) + d4)", "(d1 + d4)"),
    Wrong("window", POOL, LINALG, "((d2 * 3) + d5)", "((d2 * 3) + (d5 * 0))"),
    Wrong("channels", POOL, LINALG, "d5), d3)", "d5), (1 - d3))"),
    Wrong("table index", "logistic", LINALG, "subi %4, %5", "addi %4, %5"),
    Wrong("argument", "add", LINALG, "extsi %in_1 : i8", "extsi %in : i8"),
    Wrong(
        "constant",
        "concatenation",
        LINALG,
        "concat dim(1) %1, %1 : (tensor<1x4x6x2xi8>, "
        "tensor<1x4x6x2xi8>) -> tensor<1x8x6x2xi8>",
        "empty() : tensor<1x8x6x2xi8>",
    ),
    # TOSA
    Wrong("zero point", CONVOLUTION, TOSA, "dense<-3>", "dense<-2>"),
    Wrong("padding", CONVOLUTION, TOSA, PADDING, "pad = array<i64: 0, 2, 1, 1>"),
    Wrong("padding", CONVOLUTION, TOSA, PADDING, "pad = array<i64: 1, 1, 2, 0>"),
    Wrong("clamp", CONVOLUTION, TOSA, "min_val = 7", "min_val = 6"),
    Wrong("rounding", CONVOLUTION, TOSA, "DOUBLE_ROUND", "SINGLE_ROUND"),
    Wrong("shift", CONVOLUTION, TOSA, "dense<36>", "dense<35>"),
    Wrong("bias", CONVOLUTION, TOSA, "[-234, -4, -121]", "[-234, -4, -122]"),
    Wrong("multipliers", DEPTHWISE, TOSA, *SWAPPED_MULTIPLIERS),
    Wrong("weights", DEPTHWISE, TOSA, "[67], [-34]", "[-34], [67]"),
    Wrong("output zero point", DEPTHWISE, TOSA, "dense<7>", "dense<8>"),
    Wrong("count", POOL, TOSA, "dense<6>", "dense<7>"),
    Wrong("weight", POOL, TOSA, "dense<1>", "dense<2>"),
    Wrong("argument", "add", TOSA, "tosa.rescale %1", "tosa.rescale %0"),
    Wrong("multiplier", "quantize", TOSA, "1952257901", "1952257"),
    # StableHLO
    Wrong("padding value", CONVOLUTION, STABLEHLO, "dense<-3>", "dense<0>"),
    Wrong("zero point", CONVOLUTION, STABLEHLO, "-3 : i32", "-4 : i32"),
    Wrong("padding", CONVOLUTION, STABLEHLO, BOUNDS, "[0, 2, 1, 0] [1, 4, 6, 2]"),
    Wrong("bias", CONVOLUTION, STABLEHLO, "[-234, -4, -121]", "[-234, -4, 879]"),
    Wrong("clamp", CONVOLUTION, STABLEHLO, "dense<7>", "dense<-128>"),
    # StableHLO: means of three elements, as sums of floats
    Wrong("count", "mean", STABLEHLO, "dense<3.0", "dense<4.0"),
    Wrong("start", "mean", STABLEHLO, "dense<0.0", "dense<1.0"),
    Wrong("scale", "mean", STABLEHLO, SCALE, SCALE.replace("5.0", "5.1")),
    Wrong(
        "scale of the result", "mean", STABLEHLO, SCALE, SCALE.replace("5.0", "5.1"), 1
    ),
    Wrong("zero point", "mean", STABLEHLO, ZERO_POINT, ZERO_POINT.replace("-3", "-4")),
    Wrong(
        "zero point of the result",
        "mean",
        STABLEHLO,
        ZERO_POINT,
        ZERO_POINT.replace("-3", "-4"),
        1,
    ),
    Wrong("overflow", "mean", STABLEHLO, SCALE, SCALE.replace("e-02", "e+37")),
    Wrong("no number", "mean", STABLEHLO, "arith.mulf %7, %4", "arith.divf %7, %7"),
    Wrong(
        "clamped terms", "mean", STABLEHLO, "arith.subf %6, %5", "arith.maxnumf %6, %5"
    ),
    Wrong(
        "duplicate term", "mean", STABLEHLO, "addf %out_2, %in_2", "addf %in_2, %in_2"
    ),
    Wrong(
        "fast math",
        "mean",
        STABLEHLO,
        "addf %out_2, %in_2",
        "addf %out_2, %in_2 fastmath<fast>",
    ),
    Wrong("start from the argument", "mean", STABLEHLO, *ARGUMENT_AS_START),
    Wrong("term only", "mean", STABLEHLO, "yield %12 : f32", "yield %in_2 : f32"),
    Wrong("window", "mean", STABLEHLO, "(d2 * 3) + d6", "(d2 * 2) + d6"),
    Wrong(
        "exchanged windows", "mean", STABLEHLO, "(d2 * 3) + d6", "(d2 * -3) + d6 + 3"
    ),
    Wrong("rows", "mean", STABLEHLO, "(d1 + d5)", "(d1 * -1 + d5 + 3)"),
    Wrong("clamp", "mean", STABLEHLO, "maxnumf %26, %27", "maxnumf %26, %28"),
    Wrong("rounding", "mean", STABLEHLO, "math.roundeven", "math.floor"),
]


def _skip(_: KernelComparison) -> None:
    return


@pytest.mark.sampled(12)
@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: f"{w.kernel}-{w.fault}")
def test_wrong_lowering_is_not_proved(wrong: Wrong, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(KernelComparison, "check_random_inputs", _skip)
    theorem = prove_kernel(KERNELS[f"tfl.{wrong.kernel}"], wrong.passes, wrong.mutate)
    assert theorem.verdict != "proved"
    assert theorem.method != "no code"


def test_mean_of_floats_is_proved():
    theorem = prove_kernel(KERNELS["tfl.mean"], STABLEHLO)
    assert (theorem.verdict, theorem.method) == ("proved", "766 sums of 3 elements")


def test_halves_of_a_mean_of_floats_are_refuted():
    theorem = prove_kernel(KERNELS[f"tfl.{POOL}"], STABLEHLO)
    assert theorem.verdict == "refuted"
    assert theorem.details.startswith("at most 1 unit: argument 0 is")


def _quantization(storage: str) -> ModelKernel:
    """Return a kernel that quantizes eight numbers of `f32`."""
    zero_point = 255 if storage.startswith("u") else 5
    type_ = f"tensor<8x!quant.uniform<{storage}:f32, 0.1:{zero_point}>>"
    module = parse_module(f"""func.func @main(%x: tensor<8xf32>) {{
      %q = "tfl.quantize"(%x) <{{qtype = {type_}}}> : (tensor<8xf32>) -> {type_}
      func.return
    }}""")
    (kernel,) = cut_kernels(module)
    return kernel


def test_wrapped_bytes_are_not_proved(monkeypatch: pytest.MonkeyPatch):
    # The code wraps where the formula saturates: as signed integers, it never decreases.
    monkeypatch.setattr(KernelComparison, "check_random_inputs", _skip)

    def mutate(lowered: ModuleOp) -> None:
        bound = "2.550000e+02 : f64\n      %15"
        cast = "%16 = arith.fptosi %15 : f64 to i32"
        wrapped = f"""{cast.replace("%16", "%u")}
        %c = arith.constant 256 : i32
        %16 = arith.subi %u, %c : i32"""
        Wrong("", "", "", bound, bound.replace("2.5", "3.0")).mutate(lowered)
        Wrong("", "", "", cast, wrapped).mutate(lowered)

    theorem = prove_kernel(_quantization("u8<200:255>"), LINALG, mutate)
    assert theorem.verdict == "unknown"
    assert "not signed" in theorem.details


def test_index_out_of_a_table_is_refuted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(KernelComparison, "check_random_inputs", _skip)
    first = "dense<-128> : tensor<1xi32>"
    wrong = Wrong("", "", "", first, first.replace("8", "7", 1))
    theorem = prove_kernel(_quantization("i8"), TOSA, wrong.mutate)
    assert theorem.verdict == "refuted"
    assert "out-of-bounds" in theorem.details


@pytest.mark.sampled(3)
@pytest.mark.parametrize("index", [1, 100, 254])
def test_wrong_result_of_one_float_is_refuted(
    index: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(KernelComparison, "check_random_inputs", _skip)

    def mutate(lowered: ModuleOp) -> None:
        tables = [op for op in lowered.walk() if isinstance(op, tosa.ConstOp)]
        (table, _) = [op for op in tables if "256x1xf32" in str(op.result_types[0])]
        bounds: Any = table.properties["values"]
        values = np.array([*bounds.get_values()], np.float32)
        values[index] = np.nextafter(values[index], np.float32(np.inf))
        table.properties["values"] = elements_attr(values.reshape(1, 256, 1), f32)

    theorem = prove_kernel(_quantization("i8"), TOSA, mutate)
    assert theorem.verdict == "refuted"
    assert theorem.details.startswith("at most 1 unit")


def test_index_of_a_sum_out_of_a_table(monkeypatch: pytest.MonkeyPatch):
    cast = "%45 = arith.trunci %44 : i32 to i8"
    lookup = f"""%t = arith.constant dense<{[*range(127)]}> : tensor<127xi8>
      %i = arith.index_cast %44 : i32 to index
      %45 = tensor.extract %t[%i] : tensor<127xi8>"""
    wrong = Wrong("", "", "", cast, lookup)
    kernel = KERNELS["tfl.conv_2d"]
    assert prove_kernel(kernel, LINALG, wrong.mutate).verdict == "refuted"
    # The sums are bounds, which no input may reach.
    monkeypatch.setattr(KernelComparison, "check_random_inputs", _skip)
    monkeypatch.setattr(KernelComparison, "after", KernelComparison.before)
    theorem = prove_kernel(kernel, LINALG, wrong.mutate)
    assert theorem.verdict == "unknown"
    assert "out-of-bounds" in theorem.details


def test_input_with_a_sum_is_searched_from_several_starts():
    """Few sums give a different result, and the input must have one of them exactly."""
    wrong = Wrong("", "", "", "dense<[-409, ", "dense<[-407, ")
    kernel = KERNELS["tfl.depthwise_conv_2d"]
    theorem = prove_kernel(kernel, LINALG, wrong.mutate)
    assert (theorem.verdict, theorem.method) == ("refuted", "search")
    assert theorem.details.startswith("at most 1 unit: argument 0 is -128")


def _pixels(storage: str = "i8") -> ModelKernel:
    """Return a convolution whose results depend on one pixel each."""
    (kernel,) = cut_kernels(
        parse_module(f"""
    !x = !quant.uniform<{storage}:f32, 0.05>
    !y = !quant.uniform<i8:f32, 3.0>
    !w = !quant.uniform<i8<-127:127>:f32:0, {{0.5}}>
    func.func @main(%x: tensor<1x1x4x1x!x>) {{
      %w = "tfl.pseudo_qconst"() <{{qtype = tensor<1x1x1x1x!w>,
        value = dense<1> : tensor<1x1x1x1xi8>}}> : () -> tensor<1x1x1x1x!w>
      %n = "tfl.no_value"() <{{value}}> : () -> none
      %y = "tfl.conv_2d"(%x, %w, %n) <{{dilation_h_factor = 1 : i32,
        dilation_w_factor = 1 : i32, stride_h = 1 : i32, stride_w = 1 : i32,
        padding = "VALID", fused_activation_function = "NONE"}}> :
        (tensor<1x1x4x1x!x>, tensor<1x1x1x1x!w>, none) -> tensor<1x1x4x1x!y>
      func.return
    }}""")
    )
    return kernel


def _with_pixels(factors: str, type_: str) -> str:
    """Return code that adds products of the first pixels to all sums."""
    return f"""
    {factors}
    %first = tensor.extract_slice %1[0, 0, 0, 0] [1, 1, 3, 1] [1, 1, 1, 1] :
      tensor<1x1x4x1xi8> to tensor<1x1x3x1xi8>
    %sums = linalg.generic {{indexing_maps = [
      affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4, d3)>,
      affine_map<(d0, d1, d2, d3, d4) -> (d4)>,
      affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>], iterator_types =
      ["parallel", "parallel", "parallel", "parallel", "reduction"]}}
      ins(%first, %f : tensor<1x1x3x1xi8>, tensor<3x{type_}>)
      outs(%6 : tensor<1x1x4x1xi32>) {{
    ^bb0(%pixel: i8, %factor: {type_}, %sum: i32):
      %wide = arith.extsi %pixel : i8 to i32
      %wide_factor = arith.extsi %factor : {type_} to i32
      %product = arith.muli %wide, %wide_factor : i32
      %new = arith.addi %sum, %product : i32
      linalg.yield %new : i32
    }} -> tensor<1x1x4x1xi32>
    %9 = tensor"""


_DECREMENTED = """
    %f = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]} outs(%fs : tensor<3xi8>) {
    ^bb0(%f_in: i8):
      %one = arith.constant 1 : i8
      %less = arith.subi %f_in, %one : i8
      linalg.yield %less : i8
    } -> tensor<3xi8>"""


@pytest.mark.parametrize(
    ("factors", "type_", "reason"),
    [
        # Their products with 0, 1 and 2, the labels of pixels, have the sum 0.
        ("%f = arith.constant dense<[1, -2, 1]> : tensor<3xi8>", "i8", "two elements"),
        (
            f"%fs = arith.constant dense<[2, -1, 2]> : tensor<3xi8>{_DECREMENTED}",
            *("i8", "two elements"),
        ),
        ("%f = arith.constant dense<true> : tensor<3xi1>", "i1", "tensor<3xi1>"),
    ],
)
def test_sums_of_several_pixels_are_not_proved(
    factors: str, type_: str, reason: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(KernelComparison, "check_random_inputs", _skip)

    def mutate(lowered: ModuleOp) -> None:
        code = _with_pixels(factors, type_)
        Wrong("", "", "", "%9 = tensor", code).mutate(lowered)
        Wrong("", "", "", "ins(%6 ", "ins(%sums ").mutate(lowered)

    theorem = prove_kernel(_pixels(), LINALG, mutate)
    assert theorem.verdict == "unknown"
    assert reason in theorem.details


def test_labels_of_two_stored_values():
    assert prove_kernel(_pixels("i8<0:1>"), LINALG).verdict == "proved"


def test_constants_of_the_formula_differ_between_elements(
    monkeypatch: pytest.MonkeyPatch,
):
    """The stored value 127 saturates, so the last element needs all values."""
    monkeypatch.setattr(KernelComparison, "check_random_inputs", _skip)
    (kernel,) = cut_kernels(
        parse_module(f"""
    !x = !quant.uniform<i8:f32, 0.05>
    func.func @main(%x: tensor<256x!x>) {{
      %w = "tfl.pseudo_qconst"() <{{qtype = tensor<256x!x>,
        value = dense<{[0] * 255 + [1]}> : tensor<256xi8>}}> : () -> tensor<256x!x>
      %y = "tfl.add"(%x, %w) <{{fused_activation_function = "NONE"}}> :
        (tensor<256x!x>, tensor<256x!x>) -> tensor<256x!x>
      func.return
    }}""")
    )
    assert prove_kernel(kernel, LINALG).verdict == "proved"

    def mutate(lowered: ModuleOp) -> None:
        ones = f'"0x{"00" * 4 * 255}00000800"'
        Wrong("", "", "", ones, "0").mutate(lowered)

    theorem = prove_kernel(kernel, LINALG, mutate)
    assert theorem.verdict == "refuted"
    assert theorem.details.startswith("at most 1 unit: argument 0 is -128 everywhere")


def test_squares_are_not_affine(monkeypatch: pytest.MonkeyPatch):
    """The squares of 0 and 1, the only stored values of unit vectors, are the same."""
    monkeypatch.setattr(KernelComparison, "check_random_inputs", _skip)
    (kernel,) = cut_kernels(
        parse_module("""
    !x = !quant.uniform<i8<0:127>:f32, 0.05>
    !y = !quant.uniform<i8:f32, 2.0>
    func.func @main(%x: tensor<1x1x!x>) {
      %y = "tfl.batch_matmul"(%x, %x) <{adj_x = false, adj_y = false}> :
        (tensor<1x1x!x>, tensor<1x1x!x>) -> tensor<1x1x!y>
      func.return
    }""")
    )

    def mutate(lowered: ModuleOp) -> None:
        factor = """%factor = arith.constant dense<1> : tensor<1x1xi8>
    %6 = linalg"""
        Wrong("", "", "", "%6 = linalg", factor).mutate(lowered)
        Wrong("", "", "", "ins(%1, %1, ", "ins(%1, %factor, ").mutate(lowered)

    theorem = prove_kernel(kernel, LINALG, mutate)
    assert (theorem.verdict, theorem.details) == (
        "unknown",
        "multiplies its argument by itself",
    )


def test_sums_that_are_broadcast_are_not_proved(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(KernelComparison, "check_random_inputs", _skip)

    def failing(*_: object) -> ModuleOp:
        raise UnsupportedError("no form")

    monkeypatch.setattr(comparison, "scheduled_module", failing)

    def mutate(lowered: ModuleOp) -> None:
        code = """%zeros = "tosa.const"() <{values = dense<0> : tensor<1x1x4x1xi32>}> :
      () -> tensor<1x1x4x1xi32>
    %start = tosa.const_shape {values = dense<0> : tensor<4xindex>} : () -> !tosa.shape<4>
    %size = tosa.const_shape {values = dense<1> : tensor<4xindex>} : () -> !tosa.shape<4>
    %first = tosa.slice %5, %start, %size : (tensor<1x1x4x1xi32>, !tosa.shape<4>,
      !tosa.shape<4>) -> tensor<1x1x1x1xi32>
    %sums = tosa.add %first, %zeros : (tensor<1x1x1x1xi32>, tensor<1x1x4x1xi32>) ->
      tensor<1x1x4x1xi32>
    %6 ="""
        Wrong("", "", "", "%6 =", code).mutate(lowered)
        Wrong("", "", "", "rescale %5", "rescale %sums").mutate(lowered)

    theorem = prove_kernel(_pixels(), TOSA, mutate)
    assert (theorem.verdict, theorem.details) == ("unknown", "its code broadcasts sums")


def test_sums_of_bytes_are_not_counted(monkeypatch: pytest.MonkeyPatch):
    """A count of dependences could wrap, so that 256 dependences are none."""
    monkeypatch.setattr(KernelComparison, "check_random_inputs", _skip)

    def mutate(lowered: ModuleOp) -> None:
        code = """%bytes = tosa.add %0, %0 : (tensor<1x1x4x1xi8>, tensor<1x1x4x1xi8>) ->
      tensor<1x1x4x1xi8>
    %sums = tosa.cast %bytes : (tensor<1x1x4x1xi8>) -> tensor<1x1x4x1xi32>
    %6 ="""
        Wrong("", "", "", "%6 =", code).mutate(lowered)
        Wrong("", "", "", "rescale %5", "rescale %sums").mutate(lowered)

    theorem = prove_kernel(_pixels("i8<0:1>"), TOSA, mutate)
    assert theorem.verdict == "unknown"
    assert theorem.details == "its sums have less than 32 bits"
