"""Named ops of linalg: same text, body, maps, verdicts and numbers as in MLIR."""

import re
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from xdsl.dialects import linalg
from xdsl.dialects.linalg.abstract_ops import ConvOperation
from xdsl.dialects.linalg.ops import MatmulOp
from xdsl.transforms.linalg_generalize_named_ops import LinalgGeneralizeNamedOpsPass
from xdsl.utils.exceptions import VerifyException

from tests.conformance.answers import Accepted, Rejected
from tests.conformance.real_mlir import Mlir
from tests.unit.xdsl_patches.modules import accepted, message, parse
from xdsl_quant.execution import compile
from xdsl_quant.frontends.linalg_named_ops.generalization import generalize_named_ops
from xdsl_quant.frontends.linalg_named_ops.ops import LAYOUTS
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import multiverse_context

SIZES = dict(n=2, g=2, b=2, c=3, f=4, m=4, k=5, d=7, h=8, w=9, D=2, H=2, W=3)

STEP = {"d": 2, "h": 2, "w": 1}
"""Strides. Dilations are 1 for `d`, otherwise 2."""

TYPES = {
    "i8 to i32": ("i8", "i8", "i32"),
    "i32 and i8": ("i32", "i8", "i32"),
    "i32 to i8": ("i32", "i16", "i8"),
    "f16 to f32": ("f16", "f16", "f32"),
    "f32": ("f32", "f32", "f32"),
    "i8 to f32": ("i8", "f16", "f32"),
    "f32 to i32": ("f32", "f32", "i32"),
    "f64 to f32": ("f64", "f32", "f32"),
    "i1": ("i1", "i1", "i1"),
}

OF_XDSL = {
    op.name
    for op in linalg.ops.__dict__.values()
    if isinstance(op, type)
    and issubclass(op, MatmulOp | ConvOperation)
    and op is not ConvOperation
}
"""Products that xDSL has, whose body stays if all elements have one type."""

HAS_STEPS = re.compile(r"conv_.*_.*_|pooling")


def has_zero_points(name: str) -> bool:
    return "quantized" in name or name.endswith("_q")


def tensor(shape: list[int], element: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def text(name: str, types: tuple[str, str, str], attributes: str | None = None) -> str:
    """A function that calls an op. The `c` of a depthwise result is that of the image."""
    (inputs, result), steps = LAYOUTS[name].split()[0].split("->"), []
    image, window = inputs.split(",")
    spatial = [letter for letter in image if letter.upper() in window]
    sizes = dict(SIZES)
    if HAS_STEPS.search(name):
        for letter in spatial:
            dilation = 1 if letter == "d" else 2
            reach = SIZES[letter] - 1 - (SIZES[letter.upper()] - 1) * dilation
            sizes[letter] = reach // STEP[letter] + 1
        strides = ", ".join(str(STEP[letter]) for letter in spatial)
        dilations = ", ".join("1" if letter == "d" else "2" for letter in spatial)
        type_ = f"tensor<{len(spatial)}xi64>"
        steps = [
            f"dilations = dense<[{dilations}]> : {type_}",
            f"strides = dense<[{strides}]> : {type_}",
        ]
    else:
        for letter in spatial:
            sizes[letter] = SIZES[letter] - SIZES[letter.upper()] + 1
    if attributes is None:
        attributes = f"{{{', '.join(steps)}}} " if steps else ""
    lhs = tensor([SIZES[letter] for letter in image], types[0])
    rhs = tensor([SIZES[letter] for letter in window], types[1])
    out = tensor([sizes[letter] for letter in result], types[2])
    zero = "i32" if types[2] != "i1" else "i1"
    points, point_types = (
        (", %z, %z", f", {zero}, {zero}") if has_zero_points(name) else ("", "")
    )
    return f"""
func.func @f(%a: {lhs}, %b: {rhs}, %z: {zero}, %o: {out}) -> {out} {{
  %r = {name} {attributes}ins(%a, %b{points} : {lhs}, {rhs}{point_types})
    outs(%o : {out}) -> {out}
  func.return %r : {out}
}}"""


def check_same_as_in_mlir(
    mlir: Mlir, source: str, *, has_body_of_xdsl: bool = False
) -> None:
    """Compare the text, and the generic op that has the body, maps and loops."""
    module = parse(source)
    module.verify()
    assert accepted(mlir, str(module)) == accepted(mlir, source)
    LinalgGeneralizeNamedOpsPass().apply(multiverse_context(), module)
    generalized = accepted(mlir, source, "func.func(linalg-generalize-named-ops)")
    if has_body_of_xdsl:
        # xDSL adds in the other order.
        generalized = re.sub(
            r"(arith\.add[fi]) (%out), (%\w+)", r"\1 \3, \2", generalized
        )
    assert accepted(mlir, str(module)) == generalized


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", LAYOUTS)
def test_text_body_and_maps(mlir: Mlir, name: str, kind: str):
    source = text(name, TYPES[kind])
    module = parse(source)
    if isinstance(answer := mlir.run(source), Rejected):
        with pytest.raises(VerifyException, match="unsupported operation") as error:
            module.verify()
        problem = re.search("unsupported operation.*", answer.message)
        assert problem is not None
        assert problem[0] in str(error.value)
        return
    is_of_xdsl = name in OF_XDSL and kind == "f32"
    check_same_as_in_mlir(mlir, source, has_body_of_xdsl=is_of_xdsl)


@pytest.mark.parametrize("name", [*filter(HAS_STEPS.search, LAYOUTS)])
def test_steps_are_1_by_default(mlir: Mlir, name: str):
    source = text(name, TYPES["i8 to i32"], attributes="")
    check_same_as_in_mlir(mlir, source)


@pytest.mark.parametrize("name", ["linalg.matmul", "linalg.pooling_nhwc_max"])
def test_no_conversion_between_floats_of_equal_width(mlir: Mlir, name: str):
    source = text(name, ("bf16", "bf16", "f16"))
    assert isinstance(mlir.run(source), Rejected)
    with pytest.raises(VerifyException, match="bf16"):
        parse(source).verify()


@pytest.mark.parametrize(
    "steps", ["dense<1> : tensor<3xi64>", "dense<1> : tensor<2xi32>"]
)
def test_invalid_steps(mlir: Mlir, steps: str):
    name = "linalg.conv_2d_nhwc_hwcf_q"
    source = text(name, TYPES["i8 to i32"], f"{{strides = {steps}}} ")
    answer = mlir.run(source)
    assert isinstance(answer, Rejected)
    assert (problem := message(source)) is not None
    assert problem in answer.message


TRANSPOSED = (
    "indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, "
    "affine_map<(i, j, k) -> (i, j)>] "
)

UNSIGNED = "{cast = #linalg.type_fn<cast_unsigned>} "


@pytest.mark.parametrize("attributes", [TRANSPOSED, UNSIGNED, TRANSPOSED + UNSIGNED])
@pytest.mark.parametrize("name", ["matmul", "batch_matmul", "batch_reduce_matmul"])
def test_products_with_maps_and_casts(mlir: Mlir, name: str, attributes: str):
    source = text(f"linalg.{name}", TYPES["i8 to i32"], attributes)
    if TRANSPOSED in attributes:
        source = source.replace("tensor<5x2xi8>", "tensor<2x5xi8>")
        for old, new in (("(i", "(b, i"), ("(j", "(b, j")) if name != "matmul" else ():
            source = source.replace(old, new)
        source = source.replace("tensor<2x5x2xi8>", "tensor<2x2x5xi8>")
        if name == "batch_reduce_matmul":
            source = source.replace("-> (b, i, j)>", "-> (i, j)>")
    check_same_as_in_mlir(mlir, source)


@pytest.mark.parametrize("name", ["linalg.matmul", "linalg.conv_2d_nhwc_hwcf_q"])
def test_no_operands(mlir: Mlir, name: str):
    source = f"func.func @f() {{ {name}\n func.return }}"
    assert isinstance(mlir.run(source), Rejected)
    with pytest.raises(VerifyException, match="number of indexing_map"):
        parse(source).verify()


@pytest.mark.parametrize(
    ("ins", "problem"),
    [
        ("%a : tensor<4x5xi8>", "number of indexing_map"),
        ("%a, %b, %a : tensor<4x5xi8>, tensor<5x4xi8>, tensor<4x5xi8>", "indexing_map"),
        ("%a, %q : tensor<4x5xi8>, tensor<5x4x!quant.uniform<i8:f32, 0.5>>", "found"),
    ],
)
def test_wrong_operands(mlir: Mlir, ins: str, problem: str):
    source = f"""
func.func @f(%a: tensor<4x5xi8>, %b: tensor<5x4xi8>, %o: tensor<4x4xi32>,
             %q: tensor<5x4x!quant.uniform<i8:f32, 0.5>>) {{
  %r = linalg.matmul ins({ins}) outs(%o : tensor<4x4xi32>) -> tensor<4x4xi32>
  func.return
}}"""
    assert not isinstance(mlir.run(source), Accepted)
    with pytest.raises(VerifyException, match=problem):
        parse(source).verify()


def arrays(types: tuple[str, str, str], source: str) -> list[NDArray[np.generic]]:
    random = np.random.default_rng(0)
    found = re.search(
        r"%a: tensor<(.*?)>, %b: tensor<(.*?)>.*%o: tensor<(.*?)>", source
    )
    assert found is not None
    shapes = [[int(n) for n in group.split("x")[:-1]] for group in found.groups()]
    dtypes = {"i8": np.int8, "i32": np.int32, "f32": np.float32, "f16": np.float16}
    return [
        random.integers(-100, 100, shape).astype(dtypes[type_])
        for shape, type_ in zip(shapes, types, strict=True)
    ]


def reference(
    name: str,
    a: NDArray[np.generic],
    b: NDArray[np.generic],
    o: NDArray[np.generic],
    zero_point: int | np.int32,
) -> NDArray[np.generic]:
    inputs, result = LAYOUTS[name].split()[0].split("->")
    image, window = inputs.split(",")
    spatial = [letter for letter in image if letter.upper() in window]
    has_steps = HAS_STEPS.search(name)
    dilations = [1 + (letter != "d" and bool(has_steps)) for letter in spatial]
    axes = [image.index(letter) for letter in spatial]
    sizes = [(SIZES[c.upper()] - 1) * d + 1 for c, d in zip(spatial, dilations)]
    is_unsigned = name.endswith("unsigned") and o.dtype == np.int32
    number = np.uint32 if is_unsigned else np.int64
    a = a.view(np.uint8) if is_unsigned else a
    windows: Any = sliding_window_view(a.astype(number) - zero_point, sizes, (*axes,))
    steps = [STEP[c] if has_steps and c in spatial else 1 for c in image] + dilations
    windows = windows[tuple(slice(None, None, step) for step in steps)]
    if "pooling" in name:
        last = (*range(-len(spatial), 0),)
        initial = o.astype(number)
        if "sum" in name:
            values = windows.sum(last) + initial
        elif "max" in name:
            values = np.maximum(windows.max(last), initial)
        else:
            values = np.minimum(windows.min(last), initial)
    else:
        letters = image + "".join(letter.upper() for letter in spatial)
        factor = b.astype(np.int64) - zero_point
        values = np.einsum(f"{letters},{window}->{result}", windows, factor) + o
    return values.astype(o.dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for name in LAYOUTS
        for kind in ("i8 to i32", "f16 to f32")
        if not (name.endswith("unsigned") and kind == "f16 to f32")
    ],
)
def test_numbers(name: str, kind: str):
    """Interpreted and compiled, against `numpy.einsum` over windows."""
    source = text(name, TYPES[kind])
    a, b, o = arrays(TYPES[kind], source)
    z = np.int32(3)
    expected = reference(name, a, b, o, z if has_zero_points(name) else 0)
    (interpreted,) = run_function(parse(source), "f", a, b, z, o)
    compiled = compile(source)(a, b, z, o)
    assert interpreted.dtype == compiled.dtype == expected.dtype
    assert interpreted.tolist() == compiled.tolist() == expected.tolist()


ZERO_POINTS = [name for name in LAYOUTS if has_zero_points(name)]


@pytest.mark.parametrize("name", ZERO_POINTS)
def test_symmetric_filters(name: str):
    """The zero point of the image is subtracted after the products."""
    source = text(name, TYPES["i8 to i32"])
    a, b, o = arrays(TYPES["i8 to i32"], source)
    module = parse(
        source.replace("%z, %z", "%z, %s").replace(
            "  %r", "  %s = arith.constant 0 : i32\n  %r", 1
        )
    )
    o = o.astype(np.int32) + np.int32(2**31 - 100)
    (interpreted,) = run_function(module, "f", a, b, np.int32(-128), o)
    assert compile(module)(a, b, np.int32(-128), o).tolist() == interpreted.tolist()
    generalize_named_ops(module)
    assert "arith.subi %" in str(module)
    (generalized,) = run_function(module, "f", a, b, np.int32(-128), o)
    assert generalized.tolist() == interpreted.tolist()


def test_other_zero_points_stay_in_the_body():
    source = text("linalg.quantized_matmul", TYPES["i8 to i32"])
    module = parse(source)
    generalize_named_ops(module)
    assert str(module).count("linalg.generic") == 1
