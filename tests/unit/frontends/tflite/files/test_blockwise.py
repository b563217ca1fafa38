"""Files with quantization details of blocks, compared with LiteRT's own schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Attribute
from xdsl.printer import Printer

from xdsl_quant.dialects.quant import BlockScaledQuantizedType
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.tflite import TFLiteFileError, read_tflite, write_tflite
from xdsl_quant.frontends.tflite.dialect import QConstOp
from xdsl_quant.frontends.tflite.files.model import (
    Model,
    Tensor,
    TensorBlocks,
    TensorQuantization,
)
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.runtime.loading import parse_module

from .test_modules import constant, graph

RECIPES = sorted(Path(__file__).with_name("recipes").glob("*_*.tflite"))
REPORTED = Path(__file__).with_name("reported")

all_recipes = pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)


def schema() -> Any:
    """LiteRT's module of the schema, which has no type annotations."""
    return import_module("ai_edge_litert.schema_py_generated")


def unpacked(file: bytes) -> Any:
    tables = schema()
    return tables.ModelT.InitFromObj(tables.Model.GetRootAs(file, 0))


def fields_of(table: object) -> dict[str, Any]:
    fields: Mapping[str, Any] = vars(table)
    return {name: np.ravel(value).tolist() for name, value in fields.items()}


def parameters_of(file: bytes) -> Mapping[str, Any]:
    """Bytes, scales and details of the constants of a file, by name."""
    model = unpacked(file)
    tensors: Sequence[Any] = model.subgraphs[0].tensors
    constants: dict[str, Any] = {}
    for tensor in tensors:
        if (data := model.buffers[tensor.buffer].data) is None:
            continue
        entry = {"type": tensor.type, "shape": [*tensor.shape], "data": bytes(data)}
        quantization, details = tensor.quantization, None
        for name in ("scale", "zeroPoint"):
            numbers = None if quantization is None else getattr(quantization, name)
            entry[name] = [] if numbers is None else numbers.tolist()
        if quantization is not None and (details := quantization.details) is not None:
            fields = fields_of(details)
            fields["scales"] = tensors[details.scales].name.decode()
            entry["details"] = quantization.detailsType, fields
        constants[tensor.name.decode()] = entry
    return constants


@all_recipes
def test_recipes_are_written_as_they_were(path: Path):
    file = path.read_bytes()
    assert parameters_of(write_tflite(read_tflite(file))) == parameters_of(file)


@all_recipes
def test_recipes_as_text(path: Path):
    module = read_tflite(path)
    stream = StringIO()
    Printer(stream, print_debuginfo=True).print_op(module)
    parsed = parse_module(stream.getvalue(), "m.mlir")
    assert write_tflite(parsed) == write_tflite(module)


def quantized_types(source: Path | bytes) -> Sequence[Attribute]:
    """The element types of the quantized constants."""
    return [
        scalar_or_element_type(op.output.type)
        for op in read_tflite(source).walk()
        if isinstance(op, QConstOp)
    ]


@pytest.mark.parametrize("size", [32, 64])
def test_weights_of_recipes(size: int):
    """8 bits leave all weights in floats, 2 bits those of the lookup."""

    def types(name: str) -> list[str]:
        path = Path(__file__).with_name("recipes") / f"{name}.tflite"
        return [
            re.sub(", scales.*>", ">", str(type_)) for type_ in quantized_types(path)
        ]

    int2, int4 = (
        f"!quant.block_scaled<i{bits}:f32:{{0:1, 1:{size}}}>" for bits in (2, 4)
    )
    assert types(f"dynamic_wi8b{size}_afp32") == []
    assert types(f"dynamic_wi4b{size}_afp32") == [int4] * 3
    assert types(f"dynamic_wi2b{size}_afp32") == [int2] * 2
    assert types(f"gemma4_mixed48_b{size}_tf_lite_embedder") == [int4]
    prefill = types(f"gemma4_mixed48_b{size}_tf_lite_prefill_decode")
    assert prefill[0] == int4
    assert prefill[1].startswith("!quant.uniform<i8<-127:127>:f32:0,")


def block_type(file: bytes) -> BlockScaledQuantizedType:
    (type_,) = quantized_types(file)
    assert isinstance(type_, BlockScaledQuantizedType)
    return type_


def test_scales_are_those_of_the_file():
    file = (REPORTED / "multi_axis.tflite").read_bytes()
    type_ = block_type(file)
    assert type_.get_blocks() == {0: (16, 1), 1: (4, 32)}
    assert type_.scales.data() == parameters_of(file)["w_scales"]["data"]
    assert str(type_.scales.element_type) == "f16"


# Files that no tool writes


INT4_DATA = np.arange(32, dtype=np.uint8)


def weights(sizes: Mapping[int, int], *shape: int, **fields: Any) -> Model:
    """A model of a constant of blocks with scales of 0.5, 1.0, ..."""
    counts = [shape[axis] // size for axis, size in sizes.items()]
    numbers = np.arange(1, np.prod(counts) + 1, dtype=np.float16) / 2
    scales = constant("scales", "FLOAT16", numbers.reshape(counts))
    blocks = TensorBlocks(sizes, scales, **fields)
    empty = np.empty(0, np.float32), np.empty(0, np.int64)
    quantization = TensorQuantization(*empty, blocks=blocks)
    tensor = Tensor("w", "INT4", shape, data=INT4_DATA, quantization=quantization)
    return Model([graph([tensor], [], [0])])


@pytest.mark.parametrize(
    ("sizes", "kind", "fields"),
    [
        ({0: 1, 1: 8}, 2, {"blockSize": 8, "blockShape": None}),
        ({1: 8}, 3, {"blockSize": 8, "quantizedDimensions": [1]}),
        ({0: 2, 1: 1}, 3, {"blockSize": 2, "quantizedDimensions": [0, 1]}),
        ({0: 4}, 3, {"blockSize": 4, "quantizedDimensions": [0]}),
    ],
)
def test_details(sizes: Mapping[int, int], kind: int, fields: Mapping[str, Any]):
    file = write_model(weights(sizes, 4, 16))
    assert block_type(file).block_size_info == tuple(sizes.items())
    for written in (file, write_tflite(read_tflite(file))):
        tensors = unpacked(written).subgraphs[0].tensors
        assert [tensor.type for tensor in tensors] == [17, 1]
        quantization = tensors[0].quantization
        assert quantization.detailsType == kind
        details = fields_of(quantization.details)
        for key, value in {"scales": 1, "zeroPoints": -1, **fields}.items():
            assert details[key] == np.ravel(value).tolist()


def test_zero_points():
    zero_points = constant("z", "INT8", np.array([[1], [2], [3], [-8]], np.int8))
    file = write_model(weights({0: 1, 1: 16}, 4, 16, zero_points=zero_points))
    type_ = block_type(file)
    assert type_.get_numbers()["zero_points"].tolist() == [[1], [2], [3], [-8]]
    tensors = unpacked(write_tflite(read_tflite(file))).subgraphs[0].tensors
    assert [tensor.name.decode() for tensor in tensors] == [
        "w",
        "w_scales",
        "w_zero_points",
    ]
    assert tensors[0].quantization.details.zeroPoints == 2


def changed(file: bytes, change: Callable[[Any, Any, Any], None]) -> bytes:
    """A file after a change of LiteRT's model, its first tensor and the details of it."""
    flatbuffers: Any = import_module("flatbuffers")
    model = unpacked(file)
    tensor = next(
        t
        for t in model.subgraphs[0].tensors
        if t.quantization is not None and t.quantization.details is not None
    )
    change(model, tensor, tensor.quantization.details)
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


BLOCKWISE = write_model(weights({0: 1, 1: 8}, 4, 16))
MULTI_AXIS = write_model(weights({1: 8}, 4, 16))


def set_details(**fields: Any) -> Callable[[Any, Any, Any], None]:
    def change(model: Any, tensor: Any, details: Any) -> None:
        for name, value in fields.items():
            setattr(details, name, value)

    return change


def test_default_of_zero_points():
    """The default of the field is 0, the index of a tensor."""
    file = changed(BLOCKWISE, set_details(zeroPoints=0))
    assert "zero_points" not in block_type(file).get_numbers()


def test_block_shape():
    file = changed(BLOCKWISE, set_details(blockShape=[1, 8], blockSize=0))
    assert block_type(file).block_size_info == ((0, 1), (1, 8))


def test_flat_scales():
    def flatten(model: Any, tensor: Any, details: Any) -> None:
        model.subgraphs[0].tensors[details.scales].shape = [8]

    numbers = block_type(changed(BLOCKWISE, flatten)).get_numbers()["scales"]
    assert numbers.tolist() == [[0.5, 1], [1.5, 2], [2.5, 3], [3.5, 4]]


def error_of(file: bytes) -> str:
    with pytest.raises(TFLiteFileError) as e:
        read_tflite(file)
    return str(e.value).removeprefix("<bytes>: error: tensor 0 ('w') ")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scales": 9}, "has its scales in tensor 9; expected a value in [0, 2)"),
        (
            {"scales": 0},
            "has its scales in tensor 'w' of type INT4; expected constant floats",
        ),
        (
            {"zeroPoints": 1},
            "has its zero points in tensor 1; expected constant integers in the shape of "
            "its scales, [4, 2]",
        ),
        (
            {"blockSize": 5},
            "of shape [4, 16] is not a multiple of its blocks of shape [1, 5]",
        ),
        (
            {"blockSize": 16},
            "of shape [4, 16] has scales of shape [4, 2]; expected a scale for each block "
            "of size 1 along axis 0, size 16 along axis 1",
        ),
        (
            {"blockSize": 0},
            "of rank 2 has blocks of shape [1, 0]; expected a positive size for each "
            "dimension",
        ),
        (
            {"blockShape": [8]},
            "of rank 2 has blocks of shape [8]; expected a positive size for each "
            "dimension",
        ),
    ],
)
def test_wrong_blocks(fields: Mapping[str, Any], message: str):
    assert error_of(changed(BLOCKWISE, set_details(**fields))) == message


@pytest.mark.parametrize(
    ("fields", "axes", "size"),
    [
        ({"quantizedDimensions": [0, 1]}, [0, 1], 8),
        ({"quantizedDimensions": [2]}, [2], 8),
        ({"blockSize": 4}, [1], 4),
    ],
)
def test_wrong_axes(fields: Mapping[str, Any], axes: list[int], size: int):
    assert error_of(changed(MULTI_AXIS, set_details(**fields))) == (
        f"of shape [4, 16] has scales of shape [2] along axes {axes}; expected a scale for "
        f"each index or for each {size} indices"
    )


def test_blocks_that_do_not_divide_an_axis():
    def change(model: Any, tensor: Any, details: Any) -> None:
        tensor.shape, tensor.buffer = [4, 17], 0

    assert error_of(changed(MULTI_AXIS, change)) == (
        "of shape [4, 17] has scales of shape [2] along axes [1]; expected a scale for "
        "each index or for each 8 indices"
    )


def test_weights_without_elements():
    def change(model: Any, tensor: Any, details: Any) -> None:
        tensor.shape, tensor.buffer = [0, 16], 0
        scales = model.subgraphs[0].tensors[details.scales]
        scales.shape = [0, 2]
        model.buffers[scales.buffer].data = np.empty(0, np.uint8)

    message = (
        "has its scales in tensor 'scales' of type FLOAT16; expected constant floats"
    )
    assert error_of(changed(BLOCKWISE, change)) == message


def test_scales_of_bfloat16_that_are_not_finite():
    def change(model: Any, tensor: Any, details: Any) -> None:
        scales = model.subgraphs[0].tensors[details.scales]
        scales.type = 18
        model.buffers[scales.buffer].data = np.full(8, 0x7F80, np.uint16).view(np.uint8)

    assert error_of(changed(BLOCKWISE, change)) == (
        "has an invalid quantized type: block parameters must be finite, but one is inf"
    )


def test_scales_that_are_not_finite():
    def change(model: Any, tensor: Any, details: Any) -> None:
        buffer = model.buffers[model.subgraphs[0].tensors[details.scales].buffer]
        buffer.data = np.full(8, np.inf, np.float16).view(np.uint8)

    message = "has an invalid scale; expected finite values"
    assert error_of(changed(BLOCKWISE, change)) == message


def test_unknown_option():
    def change(model: Any, tensor: Any, details: Any) -> None:
        model.subgraphs[0].operators[0].builtinOptions.quantSpec = np.ones(3, np.uint8)

    path = Path(__file__).with_name("recipes") / "dynamic_wi4b32_afp32.tflite"
    with pytest.raises(TFLiteFileError) as e:
        read_tflite(changed(path.read_bytes(), change))
    assert str(e.value) == (
        "<bytes>: error: operator 0 (FULLY_CONNECTED) has unsupported option 'quant_spec'"
    )


def test_data_in_another_file():
    def change(model: Any, tensor: Any, details: Any) -> None:
        tensor.externalBuffer = 7

    assert error_of(changed(BLOCKWISE, change)) == (
        "has its data in external buffer 7 of another file, which is unsupported"
    )


@pytest.mark.parametrize(
    ("number", "kind"), [(1, "CustomQuantization"), (4, "4"), (200, "200")]
)
def test_unknown_details(number: int, kind: str):
    def change(model: Any, tensor: Any, details: Any) -> None:
        tensor.quantization.detailsType = 1
        tensor.quantization.details = schema().CustomQuantizationT()

    file = bytearray(changed(BLOCKWISE, change))
    parameters = (
        schema().Model.GetRootAs(file, 0).Subgraphs(0).Tensors(0).Quantization()
    )
    file[parameters._tab.Pos + parameters._tab.Offset(12)] = number
    assert error_of(bytes(file)) == (
        f"has unsupported quantization details of kind '{kind}'; expected per-tensor or "
        "per-axis scales, or scales of blocks"
    )


@pytest.mark.parametrize(
    ("type", "problem"),
    [
        (
            "i4:f32:{0:1, 1:2}, scales = dense<1.0> : tensor<2x2xf32>",
            "scales other than 'f16'; the runtime reads them as 'f16'",
        ),
        (
            "i4:f32:{0:2, 1:4}, scales = dense<1.0> : tensor<1x1xf16>",
            "blocks of size 2 along axis 0, size 4 along axis 1",
        ),
        (
            "i4:f32:{0:1, 1:2}, scales = dense<1.0> : tensor<2x2xf16>, "
            "offsets = dense<1.0> : tensor<2x2xf16>",
            "offsets, or an expressed type other than 'f32'",
        ),
        (
            "i4:f32:{0:1, 1:2}, scales = dense<1.0> : tensor<2x2xf16>, "
            "zero_points = dense<1.0> : tensor<2x2xf16>",
            "zero points of 'tensor<2x2xf16>'",
        ),
    ],
)
def test_types_that_files_do_not_have(type: str, problem: str):
    tensor = f"tensor<2x4x!quant.block_scaled<{type}>>"
    module = parse_module(
        f"""func.func @main(%x: {tensor}) -> {tensor} {{
          return %x : {tensor}
        }}""",
        "m.mlir",
    )
    message = (
        f"'func.func' op has a type with {problem}, which is unsupported in '.tflite' "
        "files; use '!quant.block_scaled' with blocks of one size and scales of 'f16'"
    )
    with pytest.raises(TFLiteFileError, match=re.escape(message)):
        write_tflite(module)
