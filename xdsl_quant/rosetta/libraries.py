"""Runtimes from other projects. Their packages lack complete type annotations."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import ClassVar, Protocol

import numpy as np

from xdsl_quant.frontends.tflite import write_tflite
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.loading import parse_module

from .runtimes import CastKind, Library, Unavailable, cast_types

_FLOATS = {"f16": "FLOAT16", "f32": "FLOAT"}
_STORAGES = {"i8": "INT8", "u8": "UINT8", "i16": "INT16", "u16": "UINT16"}


def _checked_name(names: Collection[str], kind: str, name: str) -> str:
    """Return `name`, or raise `Unavailable` if it is not in `names`."""
    if name not in names:
        raise Unavailable(f"unsupported {kind} type '{name}'")
    return name


# ONNX


class _Input(Protocol):
    name: str


class _Session(Protocol):
    def get_inputs(self) -> Sequence[_Input]: ...
    def run(self, names: None, inputs: Mapping[str, Array], /) -> Sequence[Array]: ...


def _session_of(model: bytes) -> _Session:
    return import_module("onnxruntime").InferenceSession(
        model, providers=["CPUExecutionProvider"]
    )


@cache
def _session(expressed: str, storage: str, cast: CastKind) -> _Session:
    onnx = import_module("onnx")
    helper, types = onnx.helper, onnx.TensorProto
    float_type = getattr(types, _FLOATS[_checked_name(_FLOATS, "expressed", expressed)])
    stored_type = getattr(
        types, _STORAGES[_checked_name(_STORAGES, "storage", storage)]
    )
    op, source, target = "DequantizeLinear", stored_type, float_type
    if cast == "quantize":
        op, source, target = "QuantizeLinear", float_type, stored_type
    graph = helper.make_graph(
        [helper.make_node(op, ["x", "scale", "zero_point"], ["y"])],
        "cast",
        [
            helper.make_tensor_value_info("x", source, [None]),
            helper.make_tensor_value_info("scale", float_type, []),
            helper.make_tensor_value_info("zero_point", stored_type, []),
        ],
        [helper.make_tensor_value_info("y", target, [None])],
    )
    opset = helper.make_opsetid("", 21)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    return _session_of(model.SerializeToString())


class OnnxRuntime(Library):
    """onnxruntime's CPU kernels for `QuantizeLinear` and `DequantizeLinear`."""

    name = "onnxruntime"
    package = "onnxruntime"
    modules = ("onnxruntime", "onnx")

    def run(
        self, op: CastKind, parameters: QuantizationParameters, values: Array
    ) -> Array:
        session = _session(parameters.expressed, parameters.storage, op)
        arrays = {
            "x": values,
            "scale": parameters.scales.astype(parameters.expressed_dtype),
            "zero_point": parameters.zero_points.astype(parameters.storage_dtype),
        }
        return session.run(None, arrays)[0]

    def run_model(self, model: bytes, runs: Sequence[Sequence[Array]]) -> list[Array]:
        """Run a model on each list of arguments, and return the flattened results."""
        session = _session_of(model)
        names = [tensor.name for tensor in session.get_inputs()]
        return [
            session.run(None, dict(zip(names, run, strict=True)))[0].ravel()
            for run in runs
        ]


# PyTorch

_TORCH_STORAGES = {"i8": "qint8", "u8": "quint8", "i32": "qint32"}


class Torch(Library):
    """`torch.quantize_per_tensor`, and `dequantize` of its result."""

    name = "torch"
    package = "torch"
    modules = ("torch",)

    def run(
        self, op: CastKind, parameters: QuantizationParameters, values: Array
    ) -> Array:
        torch = import_module("torch")
        _checked_name({"f32"}, "expressed", parameters.expressed)
        storage = _checked_name(_TORCH_STORAGES, "storage", parameters.storage)
        scale, zero_point = float(parameters.scales), int(parameters.zero_points)
        arguments = torch.from_numpy(values), scale, zero_point
        if op == "dequantize":
            quantized = torch._make_per_tensor_quantized_tensor(*arguments)
            return quantized.dequantize().numpy()
        storage_type = getattr(torch, _TORCH_STORAGES[storage])
        return torch.quantize_per_tensor(*arguments, storage_type).int_repr().numpy()


class TorchFakeQuantize(Torch):
    """`torch.fake_quantize_per_tensor_affine`, with results as stored values."""

    name = "torch-fake-quantize"
    only_quantizes = True

    def run(
        self, op: CastKind, parameters: QuantizationParameters, values: Array
    ) -> Array:
        if op == "dequantize":
            raise Unavailable("dequantization is unsupported")
        torch = import_module("torch")
        _checked_name({"f16", "f32"}, "expressed", parameters.expressed)
        scale = float(np.float32(parameters.scales))
        zero_point = int(parameters.zero_points)
        floats = torch.fake_quantize_per_tensor_affine(
            torch.from_numpy(values),
            scale,
            zero_point,
            parameters.storage_min,
            parameters.storage_max,
        )
        return np.rint(floats.numpy().astype(np.float64) / scale) + zero_point


# LiteRT


class _Interpreter(Protocol):
    def get_input_details(self) -> Sequence[Mapping[str, object]]: ...
    def get_output_details(self) -> Sequence[Mapping[str, object]]: ...
    def get_tensor(self, index: object, /) -> Array: ...
    def invoke(self) -> None: ...
    def set_tensor(self, index: object, values: Array, /) -> None: ...


@cache
def _interpreter(
    parameters: QuantizationParameters, op: str, count: int, resolver: str
) -> _Interpreter:
    """Return an interpreter for one cast of `count` values."""
    source, target = cast_types(parameters, op, count)
    properties = f"<{{qtype = {target}}}> " if op == "quantize" else ""
    module = parse_module(
        f"func.func @main(%x: {source}) -> {target} {{\n"
        f'  %y = "tfl.{op}"(%x) {properties}: ({source}) -> {target}\n'
        f"  return %y : {target}\n}}"
    )
    return _loaded_model(write_tflite(module), resolver)


def _loaded_model(file: bytes, resolver: str) -> _Interpreter:
    library = import_module("ai_edge_litert.interpreter")
    interpreter = library.Interpreter(
        model_content=file,
        experimental_op_resolver_type=getattr(library.OpResolverType, resolver),
        num_threads=1,
    )
    interpreter.allocate_tensors()
    return interpreter


def _invoked(interpreter: _Interpreter, arguments: Sequence[Array]) -> Array:
    for detail, array in zip(interpreter.get_input_details(), arguments, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    (result,) = interpreter.get_output_details()
    return interpreter.get_tensor(result["index"])


class LiteRTReference(Library):
    """LiteRT's reference kernels for `QUANTIZE` and `DEQUANTIZE`."""

    name = "litert-reference"
    package = "ai-edge-litert"
    modules = ("ai_edge_litert", "tflite")

    resolver: ClassVar[str] = "BUILTIN_REF"
    """LiteRT's name for the set of kernels."""

    def run(
        self, op: CastKind, parameters: QuantizationParameters, values: Array
    ) -> Array:
        _checked_name({"f32"}, "expressed", parameters.expressed)
        _checked_name({"i8", "u8", "i16"}, "storage", parameters.storage)
        interpreter = _interpreter(parameters, op, values.size, self.resolver)
        return _invoked(interpreter, [values])

    def run_file(self, file: bytes, runs: Sequence[Sequence[Array]]) -> list[Array]:
        """Run a `.tflite` file on each list of arguments; return the flattened results."""
        interpreter = _loaded_model(file, self.resolver)
        return [_invoked(interpreter, run).ravel() for run in runs]


class LiteRTOptimized(LiteRTReference):
    """LiteRT's optimized kernels, without a delegate."""

    name = "litert-optimized"
    resolver = "BUILTIN_WITHOUT_DEFAULT_DELEGATES"


class XNNPACK(LiteRTReference):
    """XNNPACK, LiteRT's default delegate."""

    name = "litert-xnnpack"
    resolver = "AUTO"


# StableHLO


class StableHLO(Library):
    """The StableHLO interpreter of `litert-converter`."""

    name = "stablehlo"
    package = "litert-converter"
    modules = ("litert_converter",)

    def run(
        self, op: CastKind, parameters: QuantizationParameters, values: Array
    ) -> Array:
        ir = import_module("litert_converter.mlir.ir")
        stablehlo = import_module("litert_converter.mlir.dialects.stablehlo")
        extension = import_module("litert_converter.mlir._mlir_libs.converter_api_ext")
        # The interpreter returns no data for other types.
        _checked_name({"f16", "f32", "f64"}, "expressed", parameters.expressed)
        _checked_name({*_STORAGES, "i32"}, "storage", parameters.storage)
        source, target = cast_types(parameters, op, values.size)
        element = parameters.expressed if op == "quantize" else parameters.storage
        context = ir.Context()
        extension.prepare_mlir_context(context)
        with context, ir.Location.unknown():
            module = ir.Module.parse(
                f"func.func @main(%x: {source}) -> {target} {{\n"
                f"  %y = stablehlo.uniform_{op} %x : ({source}) -> {target}\n"
                f"  return %y : {target}\n}}"
            )
            argument = ir.DenseElementsAttr.get(
                values,
                type=ir.Type.parse(element.replace("u", "ui")),
                shape=values.shape,
            )
            (result,) = stablehlo.eval_module(module, [argument])
            return np.array(result)
