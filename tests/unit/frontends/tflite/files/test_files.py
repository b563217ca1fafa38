"""Files as models and back, and files that are damaged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pymicro_wakeword
import pytest

from tests.unit.frontends.tflite.detection_files import random_detections
from tests.unit.frontends.tflite.formulas.cases import cases
from tests.unit.frontends.tflite.lowering.computed_shapes import random_file
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tflite.files.model import (
    Model,
    ModelSignature,
    Operator,
    Subgraph,
    Tensor,
    TensorQuantization,
    TFLiteFileError,
)
from xdsl_quant.frontends.tflite.files.reader import default_options, read_tflite_model
from xdsl_quant.frontends.tflite.files.schema import schema
from xdsl_quant.frontends.tflite.files.writer import write_model

from .litert import LiteRT
from .models import model_of
from .sparse_files import sparse, with_sparse_constant
from .test_composites import nested_model
from .test_sparse import FORMS, densify, weights_of

PATHS = sorted(Path(pymicro_wakeword.__file__).parent.rglob("*.tflite"))


def as_data(value: Any) -> Any:
    """A model with lists in place of arrays, which have no equality."""
    match value:
        case np.ndarray():
            return value.tolist()
        case [*elements]:
            return [as_data(element) for element in elements]
        case {**entries}:
            return {key: as_data(element) for key, element in entries.items()}
        case _:
            pass
    return as_data(vars(value)) if hasattr(value, "__dict__") else value


def written_and_read(model: Model) -> Model:
    return read_tflite_model(write_model(model), "model.tflite")


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_real_models(path: Path):
    model = read_tflite_model(path.read_bytes(), path.name)
    assert as_data(written_and_read(model)) == as_data(model)


def test_single_ops():
    for case in cases():
        model = model_of(case)
        assert as_data(written_and_read(model)) == as_data(model), case.name


def sample_model() -> Model:
    weights = Tensor(
        "weights",
        "INT8",
        [2],
        data=np.array([1, 255], np.uint8),
        quantization=TensorQuantization(
            np.array([0.5, 0.25], np.float32), np.array([0, 0], np.int64), 0
        ),
    )
    image = Tensor("image", "FLOAT32", [1, 2], signature=[-1, 2])
    operator = Operator("CUSTOM", [0, -1, 1], [2], {}, "Mine", b"abc")
    tensors = [image, weights, Tensor("result", "INT64", [])]
    subgraph = Subgraph("main", tensors, [0], [2], [operator])
    return Model(
        [subgraph],
        [ModelSignature("serve", 0, {"x": 0}, {"y": 2})],
        "a model",
        {"version": b"1\0"},
    )


def test_all_fields():
    model = sample_model()
    assert as_data(written_and_read(model)) == as_data(model)


def test_tensors_share_buffers():
    model = sample_model()
    data = np.arange(200, dtype=np.uint8)
    tensors = [Tensor(str(i), "UINT8", [200], data=data) for i in range(100)]
    shared = replace(model, subgraphs=[replace(model.subgraphs[0], tensors=tensors)])
    assert len(write_model(shared)) < 100 * 200


def products_model() -> Model:
    """A model with constants of 8 and 12 bytes."""
    numbers = [Tensor(name, "FLOAT32", [2]) for name in "xyz"]
    arrays = np.array([2, 3], np.float32), np.array([0.5, -1], np.float32)
    for tensor, array in zip(numbers[1:], arrays, strict=True):
        tensor.data = array.view(np.uint8)
    tensors = [*numbers, Tensor("p", "FLOAT32", [2]), Tensor("q", "FLOAT32", [2])]
    options = default_options("MulOptions")
    operators = [
        Operator("MUL", [0, 1], [3], options),
        Operator("MUL", [3, 2], [4], options),
    ]
    return Model(
        [Subgraph("main", tensors, [0], [4], operators)], metadata={"m": b"abc"}
    )


def test_constants_after_the_tables():
    """As in files of more than 2 GB."""
    model = products_model()
    file = write_model(model, max_constant_bytes=15)
    assert len(file) % 16 == 3
    assert as_data(read_tflite_model(file, "m")) == as_data(model)
    assert as_data(written_and_read(model)) == as_data(model)
    assert len(write_model(model, max_constant_bytes=16)) != len(file)
    (result,) = LiteRT(file).run(np.array([1, 10], np.float32))
    assert result.tolist() == [1, -30]


def test_constants_beyond_the_end_of_the_file():
    file = write_model(products_model(), max_constant_bytes=0)
    with pytest.raises(TFLiteFileError) as e:
        read_tflite_model(file[:-1], "m")
    size = len(file)
    assert str(e.value) == (
        f"m: error: buffer 3 ends at byte {size} of a file of {size - 1} bytes"
    )


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (0, 6, "DEQUANTIZE"),
        (6, 0, "DEQUANTIZE"),
        (6, None, "DEQUANTIZE"),
        (19, 19, "RELU"),
        (127, 150, "GELU"),
    ],
)
def test_codes_of_ops_are_the_larger_of_two_fields(
    old: int, new: int | None, code: str
):
    """AI Edge Quantizer leaves the old field at 0."""
    content = bytearray(write_model(with_operator(Operator("RELU", [0], [1]))))
    table = schema().Model.GetRootAs(content, 0).OperatorCodes(0)
    fields = [table._tab.Offset(field) + table._tab.Pos for field in (4, 10)]
    content[fields[0]] = old
    if new is None:
        # Without an offset the field is not there.
        vtable = table._tab.Pos - int.from_bytes(
            content[table._tab.Pos : table._tab.Pos + 4], "little", signed=True
        )
        content[vtable + 10 : vtable + 12] = bytes(2)
    else:
        content[fields[1] : fields[1] + 4] = new.to_bytes(4, "little")
    (operator,) = read_tflite_model(bytes(content), "").subgraphs[0].operators
    assert operator.code == code


# Damaged files


def error_of(model: Model) -> str:
    with pytest.raises(TFLiteFileError) as e:
        written_and_read(model)
    return str(e.value)


def with_tensor(tensor: Tensor) -> Model:
    model = sample_model()
    tensors = [tensor, *model.subgraphs[0].tensors[1:]]
    return replace(model, subgraphs=[replace(model.subgraphs[0], tensors=tensors)])


def with_operator(operator: Operator) -> Model:
    model = sample_model()
    return replace(model, subgraphs=[replace(model.subgraphs[0], operators=[operator])])


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (
            Tensor("x", "INT16", [3], data=np.zeros(5, np.uint8)),
            "tensor 0 ('x') has 5 bytes; expected 6 for type INT16 and shape [3]",
        ),
        (
            Tensor("x", "INT4", [3], data=np.zeros(3, np.uint8)),
            "tensor 0 ('x') has 3 bytes; expected 2 for type INT4 and shape [3]",
        ),
        (
            Tensor("x", "INT8", [-3]),
            "tensor 0 ('x') has a negative size: [-3]",
        ),
        (
            Tensor("x", "INT8", [1, 2], signature=[-1]),
            "tensor 0 ('x') has rank 2, but a shape signature of rank 1",
        ),
    ],
)
def test_wrong_tensors(tensor: Tensor, message: str):
    assert error_of(with_tensor(tensor)) == f"model.tflite: error: {message}"


@pytest.mark.parametrize(
    ("scales", "zero_points", "axis", "message"),
    [
        ([1, 2], [0, 0], 2, "has quantized dimension 2; expected a value in [0, 1)"),
        ([1, 2], [0, 0], -1, "has quantized dimension -1; expected a value in [0, 1)"),
        (
            [1, 2, 3],
            [0, 0],
            0,
            "has 3 scales and 2 zero points; expected one zero point, or one per scale",
        ),
        (
            [],
            [0],
            0,
            "has 0 scales and 1 zero points; expected one zero point, or one per scale",
        ),
        ([-1], [0], 0, "has an invalid scale; expected finite values >= 0"),
        ([np.nan], [0], 0, "has an invalid scale; expected finite values >= 0"),
    ],
)
def test_wrong_quantization(
    scales: list[float], zero_points: list[int], axis: int, message: str
):
    quantization = TensorQuantization(
        np.array(scales, np.float32), np.array(zero_points, np.int64), axis
    )
    model = with_tensor(Tensor("x", "INT8", [2], quantization=quantization))
    assert error_of(model) == f"model.tflite: error: tensor 0 ('x') {message}"


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (
            Operator("RELU", [3], [1]),
            "operator 0 (RELU) has tensor index 3; expected a value in [0, 3)",
        ),
        (
            Operator("RELU", [0], [-1]),
            "operator 0 (RELU) has tensor index -1; expected a value in [0, 3)",
        ),
        (
            Operator("CALL_ONCE", [], [], {"init_subgraph_index": 1}),
            "operator 0 (CALL_ONCE) has subgraph index 1; expected a value in [0, 1)",
        ),
    ],
)
def test_wrong_operators(operator: Operator, message: str):
    assert error_of(with_operator(operator)) == f"model.tflite: error: {message}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a TensorFlow Lite model: bytes 4 to 8 are not 'TFL3'"),
        (
            b"\x08\0\0\0TFL2",
            "not a TensorFlow Lite model: bytes 4 to 8 are not 'TFL3'",
        ),
        (
            b"\xff\xff\0\0TFL3",
            "the file is damaged: an offset is beyond the end of the file",
        ),
    ],
)
def test_no_model(content: bytes, message: str):
    with pytest.raises(TFLiteFileError) as e:
        read_tflite_model(content, "x.tflite")
    assert str(e.value) == f"x.tflite: error: {message}"


def mutated(content: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Files with some bytes changed, most of them outside of constants."""
    random = np.random.default_rng(seed)
    model = read_tflite_model(content, "")
    whole = np.frombuffer(content, np.uint8)
    is_data = np.zeros(len(content), np.bool_)
    for tensor in model.subgraphs[0].tensors:
        if tensor.data is not None:
            address = tensor.data.__array_interface__["data"][0]
            first = address - whole.__array_interface__["data"][0]
            if not 0 <= first < len(content):
                # A sparse constant, which the reader makes dense.
                continue
            is_data[first : first + tensor.data.size] = True
    places = np.flatnonzero(~is_data)
    numbers = [0, 1, 2, 0x7FFFFFFF, 0xFFFFFFFF, len(content)]
    for index in range(count):
        new = bytearray(content)
        place = int(random.choice(places)) // 4 * 4
        match index % 4:
            case 0:
                new = new[: random.integers(len(content))]
            case 1:
                new[int(random.choice(places))] = int(random.integers(256))
            case 2:
                number = int(random.choice([*numbers, *random.integers(0, 300, 9)]))
                new[place : place + 4] = number.to_bytes(4, "little")
            case _:
                for i in random.choice(places, 8):
                    new[int(i)] = int(random.integers(256))
        yield bytes(new)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_mutated_files(path: Path):
    outcomes: Counter[str] = Counter()
    messages: list[str] = []
    for content in mutated(path.read_bytes(), 125, 0):
        try:
            read_tflite_model(content, "model.tflite")
            outcomes["read"] += 1
        except TFLiteFileError as e:
            messages.append(str(e))
            outcomes["refused"] += 1
    assert all(re.fullmatch("model.tflite: error: .*", text) for text in messages)
    assert outcomes.total() == 125
    assert min(outcomes["read"], outcomes["refused"]) > 20


def new_files() -> dict[str, bytes]:
    """Files with sparse constants, composite and custom ops, and computed shapes."""
    weights = weights_of("float32")
    values, sparsity = sparse(weights, *FORMS[4])
    return {
        "sparse": with_sparse_constant(densify(weights), "w", values, sparsity),
        "composites": write_model(nested_model()),
        "detections": random_detections(2)[0],
        "shapes": random_file(1),
    }


@pytest.mark.parametrize("name", ["sparse", "composites", "detections", "shapes"])
def test_mutated_files_as_modules(name: str):
    content = new_files()[name]
    outcomes: Counter[str] = Counter()
    messages: list[str] = []
    for index, changed in enumerate(mutated(content, 60, 1)):
        try:
            read_tflite(changed, static=index % 2 == 1)
            outcomes["read"] += 1
        except TFLiteFileError as e:
            messages.append(str(e))
    assert not any("\n" in message for message in messages)
    assert min(outcomes["read"], len(messages)) > 5


def test_names_with_line_breaks():
    tensor = Tensor("a\nb\0", "FLOAT32", [2], data=np.zeros(3, np.uint8))
    assert "tensor 0 ('a\ufffdb\ufffd') has 3" in error_of(with_tensor(tensor))
