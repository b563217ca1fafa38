"""
Compare the types of fake quantization with those of LiteRT's converter, on random modules.

    python -m tests.oracles.fake_quantization --modules 200 --seed 1

`stablehlo-legalize-quant-composite` is compared with `tfl-lower-quant-annotations`,
`tf-to-quant` with the pass of that name. The converter does not register the first one, so
it is made by the function of its library. It has no pass for `tfl.fake_quant`, whose types
are compared with those of `tf.FakeQuantWithMinMaxVars`. The exit code is 1 if a type
differs.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import sys
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from xdsl.ir import Attribute

from xdsl_quant.dialects.quant import QuantizeCastOp
from xdsl_quant.frontends.stablehlo.dialect import UniformQuantizeOp
from xdsl_quant.runtime.loading import apply_passes, parse_module, parse_type

_LOWER_ANNOTATIONS = "_ZN4mlir3TFL31CreateLowerQuantAnnotationsPassEv"
_WARM = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "tfl.logistic"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""
"""A module whose conversion loads all dialects."""


class Converter:
    """The passes of LiteRT's converter."""

    def __init__(self) -> None:
        # The bindings have no type information.
        package: Any = import_module("litert_converter")
        self._ir: Any = import_module("litert_converter.mlir.ir")
        self._passes: Any = import_module("litert_converter.mlir.passmanager")
        self._api: Any = import_module(
            "litert_converter.mlir._mlir_libs.converter_api_ext"
        )
        self._context = self._ir.Context()
        self._api.prepare_mlir_context(self._context)
        file = Path(package.__file__).with_name("libLiteRTCompilerMLIR.so")
        library = ctypes.CDLL(str(file))
        self._create = getattr(library, _LOWER_ANNOTATIONS)
        self._create.argtypes, self._create.restype = [ctypes.c_void_p], None
        self._add: Any = library.mlirPassManagerAddOwnedPass
        self._add.argtypes, self._add.restype = [ctypes.c_void_p] * 2, None
        with self._context, self._ir.Location.unknown():
            module = self._ir.Module.parse(_WARM)
            manager, config = self._passes.PassManager(), self._api.ConvertToTFLConfig()
            self._api.run_convert_to_tfl_passes(module, manager, config)

    def types(self, text: str, *, is_tensorflow: bool) -> Sequence[Attribute]:
        """Return the quantized types of the module after the pass, in order."""
        with self._context, self._ir.Location.unknown():
            module = self._ir.Module.parse(text)
            if is_tensorflow:
                pipeline = "builtin.module(func.func(tf-to-quant))"
                manager = self._passes.PassManager.parse(pipeline)
            else:
                manager = self._passes.PassManager("builtin.module")
                self._add(_pointer(manager), self._lower_annotations())
            manager.run(module.operation)
            found = re.findall(r"-> (tensor<\S*!quant\.uniform<.*>>)", str(module))
        return [parse_type(text) for text in found]

    def _lower_annotations(self) -> int | None:
        # C++ returns the owning pointer in memory that the caller passes.
        created = ctypes.c_void_p()
        self._create(ctypes.byref(created))
        return created.value


def _pointer(manager: Any) -> int | None:
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsule = manager._CAPIPtr
    return api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))


def own_types(text: str, *, is_tensorflow: bool) -> Sequence[Attribute]:
    """Return the quantized types of the module after the pass of this package."""
    module = parse_module(text)
    apply_passes(
        module, "tf-to-quant" if is_tensorflow else "stablehlo-legalize-quant-composite"
    )
    casts = QuantizeCastOp if is_tensorflow else UniformQuantizeOp
    return [op.results[0].type for op in module.walk() if isinstance(op, casts)]


# Random modules


def _tensor(shape: Sequence[int], element: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def _dense(values: Sequence[float]) -> str:
    return f"dense<[{', '.join(f'{value:.9e}' for value in values)}]>"


def _shape(random: Random) -> Sequence[int]:
    return [random.randint(1, 4) for _ in range(random.randint(1, 4))]


def annotation(random: Random) -> str:
    """Draw a module with a fake-quantization composite or custom call."""
    shape = _shape(random)
    type_ = _tensor(shape, random.choice(("f32", "f32", "bf16")))
    axis = random.randrange(len(shape))
    count = random.choice((1, shape[axis]))
    dtype = random.choice(("i2", "i4", "i8", "i8", "i16", "ui4", "ui8"))
    width = int(dtype.lstrip("ui"))
    low = 0 if dtype[0] == "u" else -(1 << width - 1)
    narrow = random.choice(("true", "false"))
    scales = [2 ** random.uniform(-12, 4) for _ in range(count)]
    # f32 and f64 scales that both types of floats can have.
    scale_type = random.choice(("f32", "f64"))
    attributes = [f'dtype = "{dtype}"', f"narrow_range = {narrow}"]
    attributes.append(f"scale = {_dense(scales)} : tensor<{count}x{scale_type}>")
    # StableHLO requires zero points in the storage range, which may exclude 0.
    if random.random() < 0.8 or not low:
        points = [random.randrange(low + 1, low + (1 << width)) for _ in range(count)]
        points = points[: random.choice((1, count))]
        texts = ", ".join(map(str, points))
        kind = random.choice(("i64", "i32"))
        attributes.append(
            f"zero_point = dense<[{texts}]> : tensor<{len(points)}x{kind}>"
        )
    if count > 1 or random.random() < 0.5:
        kind = random.choice(("i64", "i32"))
        attributes.append(f"quantization_dimension = {axis} : {kind}")
    random.shuffle(attributes)
    body = ", ".join(attributes)
    if random.random() < 0.3:
        op = f"stablehlo.custom_call @quant.fake_quant(%x) {{{body}}}"
    else:
        options = f"composite_attributes = {{{body}}}, decomposition = @f"
        op = f'stablehlo.composite "quant.fake_quant" %x {{{options}}}'
    return f"""
func.func @main(%x: {type_}) -> {type_} {{
  %0 = {op} : ({type_}) -> {type_}
  func.return %0 : {type_}
}}
func.func private @f(%x: {type_}) -> {type_} {{
  func.return %x : {type_}
}}
"""


def tensorflow(random: Random) -> str:
    """Draw a module with fake quantization of TensorFlow."""
    shape = _shape(random)
    is_per_channel = random.random() < 0.5
    count = shape[-1] if is_per_channel else 1
    lows = [random.choice((0.0, -1e-7, random.uniform(-4, 2))) for _ in range(count)]
    highs = [random.choice((0.0, 5e-7, random.uniform(-1, 4))) for _ in range(count)]
    type_, suffix = _tensor(shape, "f32"), "PerChannel" if is_per_channel else ""
    range_type = _tensor([count] if is_per_channel else [], "f32")
    low, high = (
        _dense(values) if is_per_channel else f"dense<{values[0]:.9e}>"
        for values in (lows, highs)
    )
    bits, narrow = random.randint(2, 16), random.choice(("true", "false"))
    return f"""
func.func @main(%x: {type_}) -> {type_} {{
  %a = "tf.Const"() {{value = {low} : {range_type}}} : () -> {range_type}
  %b = "tf.Const"() {{value = {high} : {range_type}}} : () -> {range_type}
  %0 = "tf.FakeQuantWithMinMaxVars{suffix}"(%x, %a, %b) {{
    num_bits = {bits}, narrow_range = {narrow}
  }} : ({type_}, {range_type}, {range_type}) -> {type_}
  func.return %0 : {type_}
}}
"""


def as_lite(text: str) -> str | None:
    """
    Return the module with `tfl.fake_quant` in place of `tf.FakeQuantWithMinMaxVars`, or
    `None` without this op.
    """
    ranges = re.findall(r"dense<([^[>]*)>", text)
    options = re.search(r"num_bits = (\d+), narrow_range = (\w+)", text)
    if "PerChannel" in text or len(ranges) != 2 or options is None:
        return None
    properties = (
        f"min = {ranges[0]} : f32, max = {ranges[1]} : f32, "
        f"num_bits = {options[1]} : i32, narrow_range = {options[2]}"
    )
    _, _, type_ = text.partition("-> ")
    type_, *_ = type_.split(" {")
    op = f'"tfl.fake_quant"(%x) {{{properties}}} : ({type_}) -> {type_}'
    return f"""
func.func @main(%x: {type_}) -> {type_} {{
  %0 = {op}
  func.return %0 : {type_}
}}
"""


def compare(converter: Converter, seed: int, index: int) -> str | None:
    """Return a description of the difference of a module, or `None`."""
    random = Random(f"{seed} {index}")
    is_tensorflow = bool(index % 2)
    text = (tensorflow if is_tensorflow else annotation)(random)
    real = converter.types(text, is_tensorflow=is_tensorflow)
    own = own_types(text, is_tensorflow=is_tensorflow)
    lite = as_lite(text) if is_tensorflow else None
    if lite is not None and own_types(lite, is_tensorflow=True) != real:
        return f"seed {seed}, module {index}:{lite}real: {real}"
    if real == own and len(own) == 1:
        return None
    return f"seed {seed}, module {index}:{text}real: {real}\nown:  {own}"


def main(args: Sequence[str] | None = None) -> int:
    """Compare modules and return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--modules", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(args)
    converter, outcomes = Converter(), Counter[str]()
    for index in range(options.modules):
        difference = compare(converter, options.seed, index)
        outcomes["equal" if difference is None else "different"] += 1
        if difference is not None:
            print(difference)
    print(", ".join(f"{count} {name}" for name, count in outcomes.items()))
    return int(bool(outcomes["different"]))


if __name__ == "__main__":
    sys.exit(main())
