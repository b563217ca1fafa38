"""Composite ops: calls of the subgraph that decomposes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import TFLiteFileError, read_tflite, write_tflite
from xdsl_quant.frontends.tflite.files.model import Model, Operator, Subgraph
from xdsl_quant.frontends.tflite.files.reader import read_tflite_model
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import parse_module

from .litert import LiteRT
from .test_blockwise import unpacked
from .test_modules import graph, op, tensor

OPTIONS = {
    "name": "odml.mine",
    "decomposition_subgraph_index": 1,
    "composite_attributes": b"\x01\xff\x00a",
    "version": 3,
}


def model() -> Model:
    """A square of a composite op, `relu(x) + relu(x)`."""
    x, y, z = (tensor(name, "FLOAT32", 3) for name in "xyz")
    operators = [
        Operator("STABLEHLO_COMPOSITE", [0], [1], OPTIONS),
        op("MUL", [1, 1], [2]),
    ]
    inner = [op("RELU", [0], [1]), op("ADD", [1, 1], [2])]
    return Model(
        [
            graph([x, y, z], [0], [2], *operators),
            graph([x, y, z], [0], [2], *inner, name="decomposition"),
        ]
    )


X = np.array([1, -2, 3], np.float32)


def test_calls():
    file = write_model(model())
    module = read_tflite(file)
    text = str(module)
    assert "call @decomposition(%x)" in text
    assert 'name = "odml.mine", version = 3 : i32' in text
    expected = [4, 0, 36]
    assert LiteRT(file).run(X)[0].tolist() == expected
    assert np.asarray(run_function(module, "main", X)[0]).tolist() == expected
    assert np.asarray(compile(module, "main")(X)).tolist() == expected


def test_options_are_written():
    module = read_tflite(write_model(model()))
    for source in (module, parse_module(str(module), "m.mlir")):
        written = write_tflite(source)
        operator = unpacked(written).subgraphs[0].operators[0]
        options = operator.builtinOptions2
        assert operator.builtinOptions2Type == 21
        assert (options.name, options.version) == (b"odml.mine", 3)
        assert options.decompositionSubgraphIndex == 1
        assert bytes(options.compositeAttributes) == b"\x01\xff\x00a"
        read = read_tflite_model(written, "").subgraphs[0].operators[0]
        assert bytes(read.options["composite_attributes"]) == b"\x01\xff\x00a"  # pyright: ignore[reportArgumentType] an option of any type
        assert LiteRT(written).run(X)[0].tolist() == [4, 0, 36]


def changed(**options: object) -> Subgraph:
    main = model().subgraphs[0]
    composite = replace(main.operators[0], options={**OPTIONS, **options})
    return replace(main, operators=[composite, main.operators[1]])


def test_unknown_decompositions():
    main = changed(decomposition_subgraph_index=2)
    with pytest.raises(TFLiteFileError) as e:
        read_tflite(write_model(Model([main, model().subgraphs[1]])))
    assert str(e.value) == (
        "<bytes>: error: operator 0 (STABLEHLO_COMPOSITE) has subgraph index 2; expected a "
        "value in [0, 2)"
    )


def test_decompositions_of_other_types():
    x = tensor("x", "FLOAT32", 2)
    other = graph([x], [0], [0], name="decomposition")
    with pytest.raises(TFLiteFileError) as e:
        read_tflite(write_model(Model([model().subgraphs[0], other])))
    assert str(e.value) == (
        "<bytes>: error: operator 0 (STABLEHLO_COMPOSITE) calls 'decomposition', whose "
        "inputs or outputs have other types than its own"
    )
