"""
Modules, and passes that should not change what they compute, or do so for a reason.

Each family is for one pass, fold or fusion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from xdsl_quant.proving import Theorem, preserved
from xdsl_quant.proving.pipelines import lowering
from xdsl_quant.rounding_mode import Rounding, ScaleRounding
from xdsl_quant.runtime.loading import parse_module

SECONDS = 60
"""How long the solver may take for a module."""

NEAREST = Rounding()
PER_TENSOR = (
    "!quant.uniform<i8:f32, 0.3:5>",
    "!quant.uniform<u8<3:200>:f32, 0.25:128>",
    "!quant.uniform<i8<-127:127>:f32, 1.0e-30>",
    "!quant.uniform<i4:f16, 1.7:-3>",
    "!quant.uniform<i8:bf16, 0.125:1>",
    "!quant.uniform<i16:f32, 1.0e-4:7>",
)
SEVERAL_SCALES = (
    "!quant.uniform<i8:f32:0, {0.5, 0.3:-5}>",
    "!quant.uniform<u4:f32:1, {0.25:3, 0.125:2}>",
    "!quant.uniform<i8:f32:{0:1}, {{0.5:1}, {0.25:2}}>",
    "!quant.uniform<i8:f32:{0:2}, {{0.5:1}}>",
    "!quant.uniform<i8:f32:{0:1,1:1}, {{0.5, 0.25:3}, {0.5, 0.125:1}}>",
    "!quant.uniform<i8:f32:{0:1,1:2}, {{0.5:7}, {0.3:7}}>",
)
FIXED_POINT = (
    (
        "!quant.fixed_point<i8:f32, 1518500250p-37:-5>",
        "i8<-100:90>",
        "1173741824p-38:13",
    ),
    ("!quant.fixed_point<i8:f32, 1073741824p-37>", "i8", "1073741824p-30"),
    ("!quant.fixed_point<u8:f32, 1518500250p-37:9>", "i8", "1973741824p-36:-9"),
    ("!quant.fixed_point<i16:f32, 1518500250p-42>", "i8", "1173741824p-36:13"),
    ("!quant.fixed_point<i8:f32, 1518500250p-37:9>", "i16", "1973741824p-46"),
)


@dataclass(frozen=True)
class Instance:
    """A module, and passes that it is compared after."""

    family: str
    text: str
    passes: str
    reason: str = ""
    """Why results change, if they do."""

    rounding: Rounding = NEAREST
    scale_rounding: ScaleRounding = "single"

    def theorem(self) -> Theorem:
        """What the solver says."""
        lowered_by = lowering(self.rounding, scale_rounding=self.scale_rounding)
        module = parse_module(self.text)
        return preserved(module, self.passes, lowered_by=lowered_by, seconds=SECONDS)


def _expressed(type_: str) -> str:
    (found,) = re.findall(r":(b?f\d+)", type_)
    return found


def _casts(type_: str, ops: str, shape: str = "", *, nan: str = "") -> str:
    """A function of casts: `q` and `d`, in this order, of a tensor if there is a shape."""
    expressed = _expressed(type_)
    container = f"tensor<{shape}x{{}}>" if shape else "{}"
    quantized, expressed = container.format(type_), container.format(expressed)
    pairs = {"q": (expressed, quantized), "d": (quantized, expressed)}
    attributes = {"q": f' {{quant.nan = "{nan}"}}' if nan else "", "d": ""}
    lines = [
        f"  %{i + 1} = quant.{op}cast %{i}{attributes[op]} : {' to '.join(pairs[op])}"
        for i, op in enumerate(ops)
    ]
    source, target = pairs[ops[0]][0], pairs[ops[-1]][1]
    return "\n".join(
        [
            f"func.func @main(%0: {source}) -> {target} {{",
            *lines,
            f"  return %{len(ops)} : {target}",
            "}",
        ]
    )


def _containers() -> Iterator[tuple[str, str]]:
    """Types, and the shapes of their tensors."""
    yield from product(PER_TENSOR, ("", "1"))
    yield from ((type_, "2x2") for type_ in SEVERAL_SCALES)


def _folds() -> Iterator[Instance]:
    for type_, shape in _containers():
        yield Instance(
            "qcast(dcast(q)) is q", _casts(type_, "dq", shape), "canonicalize"
        )
        yield Instance(
            "dcast(qcast(x)) is x",
            _casts(type_, "qd", shape),
            "canonicalize",
            "folds to x, as in MLIR, without rounding; keep-qdq=true keeps the casts",
        )
    for type_ in PER_TENSOR:
        stored = type_.partition("<")[2].partition(":")[0].partition("<")[0]
        stored = f"i{stored[1:]}"
        text = f"""func.func @main(%0: {type_}) -> {type_} {{
  %1 = quant.scast %0 : {type_} to {stored}
  %2 = quant.scast %1 : {stored} to {type_}
  return %2 : {type_}
}}"""
        yield Instance("scast(scast(q)) is q", text, "canonicalize")


def _lowered() -> Iterator[Instance]:
    roundings = [
        Rounding("nearest-even"),
        Rounding("nearest-away", "after-rounding"),
        Rounding("nearest-even", "before-rounding", "stored-zero"),
        Rounding("truncate"),
    ]
    for type_, shape in _containers():
        if not shape:
            continue
        for mode, order, nan in roundings:
            options = (
                f"rounding-mode={mode} zero-point-order={order} nan={nan} keep-qdq=true"
            )
            yield Instance(
                "lower-quant-ops{fuse=true}",
                _casts(type_, "q", shape),
                f"lower-quant-ops{{{options} fuse=true}}",
                rounding=Rounding(mode, order, nan),
            )
        yield Instance(
            "lower-quant-ops{fuse=true}",
            _casts(type_, "d", shape),
            "lower-quant-ops{rounding-mode=nearest-even fuse=true}",
        )
    for type_, shape in _containers():
        text = _casts(type_, "dq", shape)
        yield Instance("strip-func-quant-types", text, "strip-func-quant-types")
        yield Instance(
            "canonicalize after lowering",
            text,
            f"{lowering(NEAREST)},canonicalize",
        )
    for type_ in SEVERAL_SCALES:
        text = _casts(type_, "qd", "2x2")
        yield Instance("normalize-quant-types", text, "normalize-quant-types")


def _stablehlo() -> Iterator[Instance]:
    for type_, shape in _containers():
        if not shape or "{0:1,1" in type_ or "{0:" in type_:
            continue
        for nan in ("", "stored-zero"):
            text = _casts(type_, "q", shape, nan=nan)
            yield Instance(
                "quant-casts-to-stablehlo",
                text,
                "quant-casts-to-stablehlo",
                "" if nan else "StableHLO quantizes NaN to the stored value 0",
            )
        there = "quant-casts-to-stablehlo"
        text = _casts(type_, "d", shape)
        yield Instance(there, text, there)
        back = f"{there},stablehlo-casts-to-quant"
        text = _casts(type_, "q", shape, nan="stored-zero")
        yield Instance(f"{there} and back", text, back)
    for op, types in product(
        ("add", "subtract", "multiply", "maximum", "minimum"),
        (
            ("i4:f32, 0.5", "i4:f32, 0.5", "i4:f32, 0.5"),
            ("i4:f32, 0.5:3", "i4:f32, 0.25:-2", "i4:f32, 1.0:1"),
        ),
    ):
        lhs, rhs, result = (f"tensor<1x!quant.uniform<{type_}>>" for type_ in types)
        text = f"""func.func @main(%0: {lhs}, %1: {rhs}) -> {result} {{
  %2 = "stablehlo.{op}"(%0, %1) : ({lhs}, {rhs}) -> {result}
  return %2 : {result}
}}"""
        to_qdq = "stablehlo-legalize-quantized-op-to-qdq"
        yield Instance(
            f"{to_qdq}",
            text,
            to_qdq,
            "integer forms round half up, casts round half to even",
        )
        yield Instance(
            f"{to_qdq} and back",
            text,
            f"{to_qdq},stablehlo-legalize-qdq-to-quantized-op",
        )


def _fixed_point() -> Iterator[Instance]:
    roundings: Sequence[ScaleRounding] = ("single", "double")
    for (source, storage, rest), rounding in product(FIXED_POINT, roundings):
        target = f"!quant.fixed_point<{storage}:f32, {rest}>"
        text = f"""func.func @main(%0: tensor<1x{source}>) -> tensor<1x{target}> {{
  %1 = quant.dcast %0 : tensor<1x{source}> to tensor<1xf32>
  %2 = quant.qcast %1 : tensor<1xf32> to tensor<1x{target}>
  return %2 : tensor<1x{target}>
}}"""
        option = f"{{scale-rounding={rounding}}}"
        there = f"quant-requantize-to-tosa{option}"
        for name, passes in (
            ("quant-requantize-to-tosa", there),
            (
                "quant-requantize-to-tosa and back",
                f"{there},tosa-rescale-to-quant{option}",
            ),
        ):
            yield Instance(name, text, passes, scale_rounding=rounding)
    for type_, shape in _containers():
        if "{0:" in type_ or "-30" in type_:
            continue
        for op in "qd":
            passes = "quant-scales-to-fixed-point,quant-scales-from-fixed-point"
            text = _casts(type_, op, shape)
            yield Instance("quant-scales-to-fixed-point and back", text, passes)


def _dynamic() -> Iterator[Instance]:
    there = "quant-casts-to-dynamic"
    for (type_, shape), op in product(_containers(), "qd"):
        text = _casts(type_, op, shape)
        yield Instance(there, text, there)
        # Constant scales are a type again.
        yield Instance(f"{there} and back", text, f"{there},canonicalize")
        back = f"{there},quant-casts-from-dynamic"
        yield Instance(f"{there} and back", text, back)


def _constants() -> Iterator[Instance]:
    for type_ in (*PER_TENSOR, *SEVERAL_SCALES):
        tensor = f"tensor<2x2x{_expressed(type_)}>"
        text = f"""func.func @main() -> tensor<2x2x{type_}> {{
  %0 = arith.constant dense<[[1.75, -0.15], [0.45, 3.125]]> : {tensor}
  %1 = quant.qcast %0 : {tensor} to tensor<2x2x{type_}>
  return %1 : tensor<2x2x{type_}>
}}"""
        yield Instance("quant-convert-const", text, "quant-convert-const")


def _kernels() -> Iterator[Instance]:
    text = """!q = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%0: tensor<2xf32>, %1: tensor<2xf32>) -> tensor<2xf32> {
  %2 = stablehlo.add %0, %1 : tensor<2xf32>
  %3 = stablehlo.multiply %2, %1 : tensor<2xf32>
  %4 = quant.qcast %3 : tensor<2xf32> to tensor<2x!q>
  %5 = quant.dcast %4 : tensor<2x!q> to tensor<2xf32>
  return %5 : tensor<2xf32>
}"""
    yield Instance(
        "quant-fuse-kernels, quant-inline-regions",
        text,
        "quant-fuse-kernels{target=stablehlo-int8},quant-inline-regions",
    )
    text = """func.func @main(%0: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %1 = stablehlo.constant dense<[[0.5, 0.3], [0.25, -0.7]]> : tensor<2x2xf32>
  %2 = stablehlo.constant dense<[[1.5, 0.7]]> : tensor<1x2xf32>
  %3 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] :
    (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %4 = stablehlo.multiply %3, %2 : tensor<1x2xf32>
  return %4 : tensor<1x2xf32>
}"""
    yield Instance(
        "quant-fold-batch-norm",
        text,
        "quant-fold-batch-norm",
        "float products are rounded in another order",
    )
    powers = text.replace("1.5, 0.7", "0.5, 2.0")
    yield Instance(
        "quant-fold-batch-norm",
        powers,
        "quant-fold-batch-norm",
        "the product of a subnormal number and 0.5 is rounded",
    )
    statistics = """func.func @main(%0: tensor<2xf32>) -> tensor<2xf32> {
  %1 = "quant.stats"(%0) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>}
    : (tensor<2xf32>) -> tensor<2xf32>
  %2 = arith.addf %1, %1 : tensor<2xf32>
  return %2 : tensor<2xf32>
}"""
    passes = "quant-remove-instrumentation"
    yield Instance(passes, statistics, passes)


INSTANCES: Sequence[Instance] = [
    *_folds(),
    *_lowered(),
    *_stablehlo(),
    *_fixed_point(),
    *_constants(),
    *_dynamic(),
    *_kernels(),
]
"""All modules with passes."""
