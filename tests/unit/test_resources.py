"""Data of resources, written, read and put into attributes."""

import numpy as np
import pytest
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    Builtin,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    ModuleOp,
    TensorType,
    f32,
)
from xdsl.ir import Operation

from xdsl_quant.resources import new_resource, replace_resources, resource_data


def test_data_and_names():
    array = np.array([1.5, -2.5], np.float32)
    type_ = TensorType(f32, (2,))
    first, second = (new_resource("written", array * i, type_) for i in (1, 2))
    assert first.resource_handle != second.resource_handle
    assert resource_data(first) == array.tobytes()
    assert resource_data(second) == (2 * array).tobytes()


def test_large_data():
    array = np.random.default_rng(0).normal(size=100_001).astype(np.float32)
    value = new_resource("large", array, TensorType(f32, array.shape))
    assert resource_data(value) == array.tobytes()


def test_a_header_that_is_no_number():
    interface = Builtin.get_interface(OpAsmDialectInterface)
    assert interface is not None
    for text in ("0xZZ0000000000803f", "0x080"):
        key = interface.declare_resource("bad_header")
        interface.parse_resource(key, text)
        value = DenseResourceAttr.from_params(key, TensorType(f32, (1,)))
        with pytest.raises(ValueError, match="hexadecimal"):
            resource_data(value)


def test_no_data():
    lost = DenseResourceAttr.from_params("nowhere", TensorType(f32, (2,)))
    assert resource_data(lost) is None


def test_replacing():
    type_ = TensorType(f32, (2,))
    array = np.array([1.5, -2.5], np.float32)
    constant = ConstantOp(new_resource("replaced", array, type_))
    constant.attributes["more"] = constant.value
    asked: list[Operation] = []

    def data_of(op: Operation, value: DenseResourceAttr) -> bytes:
        asked.append(op)
        return resource_data(value) or b""

    replace_resources(ModuleOp([constant]), data_of)
    expected = DenseIntOrFPElementsAttr.from_list(type_, [1.5, -2.5])
    assert constant.value == constant.attributes["more"] == expected
    assert asked == [constant, constant]
