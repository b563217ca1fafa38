"""Data of resources, written, read and put into attributes."""

import tracemalloc
from pathlib import Path

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

from xdsl_quant.runtime.loading import IRError, as_module, parse_module
from xdsl_quant.xdsl_patches.resources import (
    ResourceData,
    keep_resources_as_bytes,
    new_resource,
    replace_resources,
    resource_data,
)


def test_data_and_names():
    array = np.array([1.5, -2.5], np.float32)
    type_ = TensorType(f32, (2,))
    first, second = (new_resource("written", array * i, type_) for i in (1, 2))
    assert first.resource_handle != second.resource_handle
    assert resource_data(first) == array.tobytes()
    assert resource_data(second) == (2 * array).tobytes()


@pytest.mark.parametrize("name", ["a/b:0;c d", 'x"y', "é", "0", "", "-->", "w>"])
def test_any_name_can_be_parsed(name: str):
    array = np.array([1.5, -2.5], np.float32)
    value = new_resource(name, array, TensorType(f32, (2,)))
    module = parse_module(str(ModuleOp([ConstantOp(value)])))
    (parsed,) = [op for op in module.walk() if isinstance(op, ConstantOp)]
    assert isinstance(parsed.value, DenseResourceAttr)


def test_large_data():
    array = np.random.default_rng(0).normal(size=100_001).astype(np.float32)
    value = new_resource("large", array, TensorType(f32, array.shape))
    assert resource_data(value) == array.tobytes()


# Texts


def interface() -> OpAsmDialectInterface:
    interface = Builtin.get_interface(OpAsmDialectInterface)
    assert interface is not None
    return interface


def parsed(text: str) -> str:
    """The key of a resource with a text."""
    key = interface().declare_resource("parsed")
    interface().parse_resource(key, text)
    return key


def data_of(key: str) -> ResourceData | None:
    return resource_data(DenseResourceAttr.from_params(key, TensorType(f32, (1,))))


@pytest.mark.parametrize(
    "digits", ["", "0000803f", "0000803F", "00aF803f", "12" * 99_999]
)
def test_text_stays_what_it_is(digits: str):
    text = f"0x04000000{digits}"
    key = parsed(text)
    assert interface().lookup(key) == text
    assert interface().build_resources([key, "nowhere"]) == {key: text}
    assert data_of(key) == bytes.fromhex(digits)
    assert interface().lookup(key) == text


def test_text_is_not_kept():
    """But for the few with letters of both kinds there are only bytes."""
    before = keep_resources_as_bytes()._blob_storage.copy()  # pyright: ignore[reportPrivateUsage] what is kept
    key = parsed("0x04000000aa00803f")
    assert keep_resources_as_bytes()._blob_storage == {**before, key: ""}  # pyright: ignore[reportPrivateUsage] what is kept


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0xZZ0000000000803f", "data is not hexadecimal: Non-hexadecimal digit found"),
        ("0x0400000000 0080", "data is not hexadecimal: Odd-length string"),
        ("0x04000000000", "data is not hexadecimal: Odd-length string"),
        ("0x0400", "missing header of four bytes"),
        ("0x", "missing header of four bytes"),
    ],
)
def test_text_without_data(text: str, message: str):
    key = parsed(text)
    assert interface().lookup(key) == text
    with pytest.raises(ValueError, match=f"^{message}$"):
        data_of(key)


def test_text_that_is_no_blob():
    key = interface().declare_resource("no_blob")
    with pytest.raises(ValueError, match="Blob must be a hex string"):
        interface().parse_resource(key, "04000000")
    with pytest.raises(KeyError, match="wasn't declared"):
        interface().parse_resource("not_declared", "0x04000000")


def test_resources_from_before(monkeypatch: pytest.MonkeyPatch):
    """What was parsed before the package was imported has its data."""
    xdsl = OpAsmDialectInterface()
    key = xdsl.declare_resource("before")
    xdsl.parse_resource(key, "0x040000000000803F")
    monkeypatch.setattr(Builtin, "_interfaces", [xdsl])
    assert data_of(key) == bytes.fromhex("0000803F")
    assert interface().lookup(key) == "0x040000000000803F"
    assert keep_resources_as_bytes() is interface()


@pytest.mark.parametrize("text", ["0x0400000001", "0x04000000aA", "0x04000000ZZ"])
def test_last_text_of_a_name(text: str):
    key = parsed("0x0400000002")
    interface().parse_resource(key, text)
    assert interface().lookup(key) == text
    if "Z" in text:
        with pytest.raises(ValueError, match="is not hexadecimal"):
            data_of(key)
    else:
        assert data_of(key) == bytes.fromhex(text[-2:])


TEXT = """
builtin.module {
  %0 = arith.constant dense_resource<again> : tensor<2xf32>
  %1 = arith.constant dense_resource<again> : tensor<2xf32>
}
{-#
  dialect_resources: {
    builtin: {
      again: "0x040000000000803F000000C0"
    }
  }
#-}
"""


def test_text_that_is_parsed_again():
    """Names are new ones, but data is what it was."""
    keys: list[str] = []
    for _ in range(3):
        values = [
            op.properties["value"]
            for op in parse_module(TEXT).walk()
            if isinstance(op, ConstantOp)
        ]
        one, other = values
        assert isinstance(one, DenseResourceAttr)
        assert one == other
        assert resource_data(one) == bytes.fromhex("0000803F000000C0")
        keys.append(one.resource_handle.data)
    assert len(set(keys)) == 3


@pytest.mark.parametrize(
    ("digits", "data"),
    [
        ("0x04000000\\30\\31", b"\1"),
        ("0x04000000aA", b"\xaa"),
        ("\\30x0400000001", b"\1"),
        ("0x04000000zz", None),
    ],
)
def test_text_that_bytes_cannot_reproduce(digits: str, data: bytes | None):
    section = f'{{-# dialect_resources: {{ builtin: {{ w: "{digits}" }} }} #-}}'
    text = f"%0 = arith.constant dense_resource<w> : tensor<1xi8> {section}"
    (constant,) = parse_module(text).ops
    value = constant.properties["value"]
    assert isinstance(value, DenseResourceAttr)
    if data is None:
        with pytest.raises(ValueError, match="is not hexadecimal"):
            resource_data(value)
    else:
        assert resource_data(value) == data


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ('w = "0x04000000"', "expected `:`"),
        ("w: 4", "string literal expected"),
        ('w: "04"', "Blob must be a hex string, got: 04"),
    ],
)
def test_errors_of_sections(section: str, message: str):
    with pytest.raises(IRError, match=message):
        parse_module(f"{{-# dialect_resources: {{ builtin: {{ {section} }} }} #-}}")


# Attributes


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
        return bytes(resource_data(value) or b"")

    replace_resources(ModuleOp([constant]), data_of)
    expected = DenseIntOrFPElementsAttr.from_list(type_, [1.5, -2.5])
    assert constant.value == constant.attributes["more"] == expected
    assert asked == [constant, constant]


@pytest.mark.parametrize(
    ("constant", "section"),
    [
        ('dense<"0xDIGITS">', ""),
        (
            "dense_resource<w>",
            '{-# dialect_resources: { builtin: { w: "0x01000000DIGITS" } } #-}',
        ),
    ],
    ids=["dense", "dense_resource"],
)
def test_memory_to_read_a_large_constant(constant: str, section: str, tmp_path: Path):
    size = 1 << 23
    digits = "0102030405060708" * (size // 8)
    line = f"%0 = arith.constant {constant} : tensor<{size}xi8> {section}"
    path = tmp_path / "large.mlir"
    path.write_text(line.replace("DIGITS", digits))
    as_module("func.func private @f()")
    tracemalloc.start()
    try:
        as_module(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The text takes two bytes per element, the data one.
    assert peak < 3.5 * size
