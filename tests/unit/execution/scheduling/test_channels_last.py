"""Convolutions with channels first: the same results, computed with channels last."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from tests.cpus.foreign_code import foreign_code
from tests.unit.execution.scheduling.guarded_memory import before_no_page
from xdsl_quant.execution import compile
from xdsl_quant.execution.cpu import available_cpus
from xdsl_quant.execution.mlir_bindings import ir, ops_in
from xdsl_quant.execution.mlir_bindings import shape as shape_of
from xdsl_quant.execution.scheduling import schedule
from xdsl_quant.execution.scheduling.byte_products import (
    is_byte_product,
    mark_byte_products,
)
from xdsl_quant.execution.scheduling.channels_last import move_channels_last
from xdsl_quant.execution.scheduling.contractions import contraction_of
from xdsl_quant.execution.scheduling.narrow_factors import narrow_factors
from xdsl_quant.kernel_set import KernelSet

RNG = np.random.default_rng(0)

CPU = "native" if "avx512-vnni" in available_cpus() else "avx512-vnni"


@pytest.fixture(autouse=True, scope="module")
def code_for_vnni() -> Iterator[None]:
    """Compile for VNNI, also on machines that lack it."""
    with foreign_code():
        yield


class _Network:
    """Lines of a function on quantized images with channels first."""

    def __init__(self, storage: str, channels: int, size: int):
        self.zero_point = 7 if storage == "u8" else -3
        self.type = f"!quant.uniform<{storage}:f32, 0.05:{self.zero_point}>"
        self.lines: list[str] = []
        self.channels, self.size = channels, size
        self.input = self.image()
        self.value = "%x"

    def image(self) -> str:
        """Return the type of the current value."""
        return f"tensor<2x{self.channels}x{self.size}x{self.size}x{self.type}>"

    def add(self, line: str) -> str:
        """Add a line that defines a value, and return its name."""
        name = f"%{len(self.lines)}"
        self.lines.append(f"{name} = {line}")
        return name

    def convolve(self, channels: int, window: int, groups: int = 1, stride: int = 1):
        """Add a convolution, a bias and a cast to 8 bits."""
        scales = ",".join(f"{s:.6f}" for s in RNG.uniform(0.001, 0.004, channels))
        shape = (channels, self.channels // groups, window, window)
        sizes = "x".join(map(str, shape))
        weights = f"tensor<{sizes}x!quant.uniform<i8<-127:127>:f32:0, {{{scales}}}>>"
        numbers = RNG.integers(-127, 128, shape).tolist()
        w = self.add(
            f"stablehlo.constant() <{{value = dense<{numbers}> : tensor<{sizes}xi8>}}> : "
            f"() -> {weights}"
        )
        bias_scales = ",".join(f"{float(s) * 0.05:.8f}" for s in scales.split(","))
        bias = f"tensor<{channels}x!quant.uniform<i32:f32:0, {{{bias_scales}}}>>"
        biases = RNG.integers(-900, 900, channels).tolist()
        b = self.add(
            f"stablehlo.constant() <{{value = dense<{biases}> : tensor<{channels}xi32>}}> "
            f": () -> {bias}"
        )
        before, pad = self.image(), window // 2
        self.channels = channels
        self.size = (self.size + 2 * pad - window) // stride + 1
        after = self.image()
        sums = after.replace(self.type, f"!quant.uniform<i32:f32:1, {{{bias_scales}}}>")
        sum_ = self.add(
            f"stablehlo.convolution({self.value}, {w}) dim_numbers = "
            "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = "
            f"{{stride = [{stride}, {stride}], pad = [[{pad}, {pad}], [{pad}, {pad}]]}} "
            "{batch_group_count = 1 : i64, "
            f"feature_group_count = {groups} : i64}} : ({before}, {weights}) -> {sums}"
        )
        row = self.add(
            f"stablehlo.broadcast_in_dim {b}, dims = [1] : ({bias}) -> {sums}"
        )
        sum_ = self.add(f"stablehlo.add {sum_}, {row} : {sums}")
        self.value = self.add(
            f"stablehlo.uniform_quantize {sum_} : ({sums}) -> {after}"
        )

    def text(self) -> str:
        """Return the text of the module."""
        body = "\n  ".join([*self.lines, f"return {self.value} : {self.image()}"])
        return f"func.func @main(%x: {self.input}) -> {self.image()} {{\n  {body}\n}}"

    def samples(self, channels: int, size: int) -> np.ndarray:
        """Return random stored values of the argument."""
        numbers = RNG.integers(0, 256, (2, channels, size, size), np.uint8)
        return numbers if "u8" in self.type else numbers.view(np.int8)


def check(
    network: _Network, channels: int, size: int, kernels: KernelSet | None = None
) -> None:
    """Compare the results with those of the plain code."""
    text, x = network.text(), network.samples(channels, size)
    expected = compile(text, schedule=False, kernels=kernels)(x)
    found = compile(text, kernels=kernels, cpu=CPU)(x)
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 20


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("storage", "channels", "size", "layers"),
    [
        ("u8", 3, 9, [(20, 3, 1, 2), (7, 1, 1, 1)]),
        ("i8", 6, 8, [(17, 1, 1, 1), (17, 3, 17, 1), (5, 3, 1, 1)]),
        ("u8", 8, 5, [(8, 3, 8, 2), (33, 1, 1, 1)]),
    ],
)
def test_chains(
    storage: str,
    channels: int,
    size: int,
    layers: Sequence[tuple[int, int, int, int]],
):
    network = _Network(storage, channels, size)
    for layer in layers:
        network.convolve(*layer)
    check(network, channels, size)


@pytest.mark.parametrize(("channels", "is_moved"), [(16, True), (5, False)])
def test_a_depthwise_convolution(channels: int, is_moved: bool):
    """A convolution with many groups is moved, also if it is alone."""
    moved: list[bool] = []

    def record(module: ir.Module) -> None:
        text = str(module)
        move_channels_last(module)
        moved.append(str(module) != text)

    network = _Network("u8", channels, 6)
    network.convolve(channels, 3, channels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "move_channels_last", record)
        check(network, channels, 6)
    assert moved == [is_moved]


def test_residuals_and_concatenations():
    network = _Network("u8", 8, 6)
    network.convolve(8, 3)
    image = network.image()
    network.value = network.add(f"stablehlo.add {network.value}, %x : {image}")
    joined = image.replace("x8x", "x16x")
    network.value = network.add(
        f"stablehlo.concatenate {network.value}, %x, dim = 1 : ({image}, {image}) -> "
        f"{joined}"
    )
    network.channels = 16
    network.convolve(9, 3)
    check(network, 8, 6, "onnxruntime")


def test_a_computed_image(monkeypatch: pytest.MonkeyPatch):
    """An image that other ops compute is stored as bytes with channels last."""
    shapes: list[list[int]] = []

    def record(module: ir.Module) -> None:
        mark_byte_products(module)
        products = filter(is_byte_product, ops_in(module, "linalg.generic"))
        shapes.extend([*shape_of(op.results[0])] for op in products)

    monkeypatch.setattr(schedule, "mark_byte_products", record)
    network = _Network("u8", 8, 6)
    network.value = network.add(f"stablehlo.add %x, %x : {network.image()}")
    network.convolve(20, 1)
    check(network, 8, 6, "onnxruntime")
    assert shapes == [[2, 6, 6, 20]]


def test_a_maximum_of_windows(monkeypatch: pytest.MonkeyPatch):
    """The start of the maximum is moved with the image."""
    shapes: list[list[int]] = []

    def record(module: ir.Module) -> None:
        move_channels_last(module)
        parents = (op.parent for op in ops_in(module, "arith.maxsi"))
        shapes.extend(
            [*shape_of(parent.results[0])]
            for parent in parents
            if parent and "reduction" in str(parent.attributes["iterator_types"])
        )

    monkeypatch.setattr(schedule, "move_channels_last", record)
    network = _Network("u8", 8, 6)
    network.convolve(20, 1)
    image, floats = network.image(), "tensor<2x20x6x6xf32>"
    types = f"({floats}, tensor<f32>) -> tensor<2x20x4x4xf32>"
    x = network.add(f"quant.dcast {network.value} : {image} to {floats}")
    low = network.add("stablehlo.constant dense<0xFF800000> : tensor<f32>")
    network.size = 4
    found = network.add(f"""\
"stablehlo.reduce_window"({x}, {low}) ({{
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %m = stablehlo.maximum %l, %r : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }}) {{window_dimensions = array<i64: 1, 1, 3, 3>}} : {types}""")
    network.value = network.add(
        f"quant.qcast {found} : tensor<2x20x4x4xf32> to {network.image()}"
    )
    check(network, 8, 6, "onnxruntime")
    assert shapes == [[2, 4, 4, 20]]


_MAPS = {
    "first": "(n, c, y, x)",
    "last": "(n, y, x, c)",
}


@pytest.mark.parametrize("shape", [(2, 5, 6, 7), (2, 3, 6, 7), (1, 63, 1, 65)])
def test_transpositions(shape: tuple[int, ...]):
    n, c, y, x = shape
    source, target = f"{n}x{c}x{y}x{x}xi8", f"{n}x{y}x{x}x{c}xi8"
    for results in (("first", source, target), ("last", target, source)):
        order, before, after = results
        maps = [_MAPS[order], _MAPS["first" if order == "last" else "last"]]
        loops = maps[1]
        listed = ", ".join(f"affine_map<{loops} -> {each}>" for each in maps)
        text = f"""
func.func @f(%a: tensor<{before}>) -> tensor<{after}> {{
  %0 = tensor.empty() : tensor<{after}>
  %1 = linalg.generic {{indexing_maps = [{listed}],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%a : tensor<{before}>) outs(%0 : tensor<{after}>) {{
  ^bb0(%l: i8, %r: i8):
    linalg.yield %l : i8
  }} -> tensor<{after}>
  return %1 : tensor<{after}>
}}"""
        sizes = [int(size) for size in before.split("x")[:-1]]
        a = RNG.integers(-128, 128, sizes, np.int8)
        axes = (0, 2, 3, 1) if order == "first" else (0, 3, 1, 2)
        with before_no_page(a) as memory:
            found = compile(text, cpu=CPU)(memory)
        np.testing.assert_array_equal(found, a.transpose(axes))


_CONVOLUTION = """
func.func @f(%a: tensor<1x8x4x6xi8>) -> tensor<1x5x4x6xi32> {
  %x = arith.extui %a : tensor<1x8x4x6xi8> to tensor<1x8x4x6xi16>
  %w = arith.constant dense<WEIGHT> : tensor<5x8xi16>
  %z = arith.constant 0 : i32
  %e = tensor.empty() : tensor<1x5x4x6xi32>
  %c = linalg.fill ins(%z : i32) outs(%e : tensor<1x5x4x6xi32>) -> tensor<1x5x4x6xi32>
  %0 = linalg.generic {indexing_maps = [affine_map<(n, o, y, x, c) -> (n, c, y, x)>,
      affine_map<(n, o, y, x, c) -> (o, c)>, affine_map<(n, o, y, x, c) -> (n, o, y, x)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<1x8x4x6xi16>, tensor<5x8xi16>)
      outs(%c : tensor<1x5x4x6xi32>) {
  ^bb0(%l: i16, %r: i16, %s: i32):
    %le = arith.extsi %l : i16 to i32
    %re = arith.extsi %r : i16 to i32
    %p = arith.muli %le, %re : i32
    %t = arith.addi %s, %p : i32
    linalg.yield %t : i32
  } -> tensor<1x5x4x6xi32>
  return %0 : tensor<1x5x4x6xi32>
}"""


@pytest.mark.parametrize("weight", [-128, 128])
def test_products_of_extended_bytes(weight: int):
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(_CONVOLUTION.replace("WEIGHT", str(weight)))
        narrow_factors(module)
        move_channels_last(module)
        mark_byte_products(module)
        assert module.operation.verify()
        (product,) = filter(contraction_of, ops_in(module, "linalg.generic"))
        assert is_byte_product(product)
        assert shape_of(product.results[0]) == [1, 4, 6, 5]
