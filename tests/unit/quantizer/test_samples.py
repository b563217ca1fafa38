"""Samples as batches, and what is wrong with them."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.damaged_archives import changed_archive
from xdsl_quant.quantizer.samples import Data, DataError, batches_of
from xdsl_quant.runtime.array_archives import DAMAGED_ARCHIVE
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import parse_module

Array = NDArray[Any]


def batches(data: Data, *types: str) -> list[tuple[Array, ...]]:
    arguments = ", ".join(f"%a{i}: {type_}" for i, type_ in enumerate(types))
    function = entry_function(
        parse_module(f"func.func @main({arguments}) {{ return }}"), None
    )
    found, count = batches_of(data, function)
    result: Any = [*found]
    assert count == len(result)
    assert [*map(repr, found)] == [*map(repr, result)]
    return result


def rows(count: int, *shape: int) -> Array:
    size = count * int(np.prod(shape))
    return np.arange(size, dtype=np.float32).reshape(count, *shape)


def saved(array: Array, path: Path, kind: str) -> Data:
    if kind == "array":
        return array
    if kind == "mapping":
        return {"x": array}
    if kind == ".npy":
        np.save(path / "x.npy", array)
        return path / "x.npy"
    save: Callable[..., None] = np.savez if kind == ".npz" else np.savez_compressed
    save(path / "x.npz", x=array)
    return str(path / "x.npz")


KINDS = ["array", "mapping", ".npy", ".npz", "compressed"]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_cut_into_batches_of_the_size_that_the_function_takes(
    kind: str, tmp_path: Path
):
    array = rows(6, 2, 3)
    found = batches(saved(array, tmp_path, kind), "tensor<2x2x3xf32>")
    assert [len(batch) for batch in found] == [1, 1, 1]
    np.testing.assert_array_equal(np.concatenate([x for (x,) in found]), array)
    assert all(x.shape == (2, 2, 3) and x.dtype == np.float32 for (x,) in found)


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_that_takes_any_number_of_rows_gets_all(kind: str, tmp_path: Path):
    array = rows(70, 3)
    found = batches(saved(array, tmp_path, kind), "tensor<?x3xf32>")
    assert [len(x) for (x,) in found] == [32, 32, 6]
    np.testing.assert_array_equal(np.concatenate([x for (x,) in found]), array)


def test_rows_that_are_left_over():
    message = "the last 1 of 7 samples are left out: function 'main' takes batches of 3"
    with pytest.warns(UserWarning, match=f"^{message}$"):
        found = batches(rows(7, 3), "tensor<3x3xf32>")
    assert [len(x) for (x,) in found] == [3, 3]


def test_several_arguments(tmp_path: Path):
    x, y = rows(4, 2), np.asfortranarray(rows(4, 3))
    np.savez(tmp_path / "xy.npz", first=x, second=y)
    found = batches(tmp_path / "xy.npz", "tensor<2x2xf32>", "tensor<?x3xf32>")
    np.testing.assert_array_equal(found[1][0], x[2:])
    np.testing.assert_array_equal(found[1][1], y[2:])


def test_batches_are_taken_as_they_are():
    given = [(np.ones(3),), (np.zeros(3),)]
    assert batches(given, "tensor<3xf64>") == given


def test_what_is_no_data():
    data: Any = 3
    with pytest.raises(TypeError) as caught:
        batches_of(data, _function())
    assert str(caught.value) == (
        "data must be a file, an array, a dict of arrays or an iterable of batches, not int"
    )


def test_a_generator_is_read_once():
    def generated() -> Iterable[Array]:
        yield np.arange(3)

    found, count = batches_of(generated(), _function())
    assert count == 1
    assert len([*found]) == len([*found]) == 1


def _function() -> Any:
    module = parse_module("func.func @main(%x: tensor<?x3xf32>) { return }")
    return entry_function(module, None)


def _message(data: Data) -> str:
    with pytest.raises(DataError) as caught:
        for _ in batches_of(data, _function())[0]:
            pass
    return str(caught.value)


def test_arrays_that_do_not_fit():
    assert _message(rows(4, 5)) == (
        "data: rows of shape [5] do not match argument 0 of function 'main' of type "
        "tensor<?x3xf32>, expected rows of shape [3]"
    )
    assert _message({"a": rows(4, 3), "b": rows(4, 3)}) == (
        "expected 1 array, one for each argument of function 'main', found 2: 'a', 'b'; "
        "leave out arrays that are not arguments, such as labels"
    )
    assert _message({}) == (
        "expected 1 array, one for each argument of function 'main', found none; write all "
        "of them to a .npz file, or give a dict in Python"
    )
    assert _message(np.array(2.0)) == (
        "data: expected an array of numbers with a row for each sample"
    )
    assert _message(rows(0, 3)) == "data: found 0 samples, expected 1 or more"


def test_an_array_for_each_argument(tmp_path: Path):
    text = "func.func @main(%x: tensor<?x3xf32>, %y: tensor<?x2xf32>) { return }"
    path = tmp_path / "x.npy"
    np.save(path, rows(4, 3))
    with pytest.raises(DataError) as caught:
        batches_of(path, entry_function(parse_module(text), None))
    assert str(caught.value) == (
        "expected 2 arrays, one for each argument of function 'main', found 1: "
        f"{path}; write all of them to a .npz file, or give a dict in Python"
    )


def test_arrays_of_different_lengths():
    text = "func.func @main(%x: tensor<?x3xf32>, %y: tensor<?x2xf32>) { return }"
    function = entry_function(parse_module(text), None)
    with pytest.raises(DataError) as caught:
        batches_of({"a": rows(4, 3), "b": rows(5, 2)}, function)
    assert str(caught.value) == (
        "expected arrays with equal numbers of rows, found 'a' with 4, 'b' with 5"
    )


def test_fewer_samples_than_a_call_takes():
    text = "func.func @main(%x: tensor<8x3xf32>) { return }"
    with pytest.raises(DataError) as caught:
        batches_of(rows(4, 3), entry_function(parse_module(text), None))
    assert str(caught.value) == "data: found 4 samples, expected 8 or more"


def test_a_call_that_takes_no_samples():
    text = "func.func @main(%x: tensor<0x3xf32>) { return }"
    with pytest.raises(DataError) as caught:
        batches_of(rows(4, 3), entry_function(parse_module(text), None))
    assert str(caught.value) == "function 'main' takes 0 rows, expected 1 or more"


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_that_is_not_finite(kind: str, tmp_path: Path):
    array = rows(70, 3)
    array[40, 1] = np.nan
    name = {
        "array": "data",
        "mapping": "'x'",
        ".npy": str(tmp_path / "x.npy"),
    }.get(kind, f"{tmp_path / 'x.npz'}:x")
    assert _message(saved(array, tmp_path, kind)) == (
        f"{name}: non-finite value in row 40: nan; leave the sample out"
    )


def test_files_that_cannot_be_read(tmp_path: Path):
    missing = tmp_path / "missing.npz"
    assert _message(missing) == f"{missing}: no such file or directory"
    text = tmp_path / "text.npy"
    text.write_text("no array")
    assert _message(text) == f"{text}: expected a NumPy file of numbers, .npy or .npz"
    broken = tmp_path / "broken.npz"
    np.savez(broken, x=rows(100, 3))
    broken.write_bytes(broken.read_bytes()[:-40])
    assert (
        _message(broken) == f"{broken}: expected a NumPy file of numbers, .npy or .npz"
    )


def test_an_array_of_objects(tmp_path: Path):
    path = tmp_path / "x.npz"
    np.savez(path, x=np.array([[{}]], dtype=object))
    assert _message(path) == (
        f"{path}:x: expected an array of numbers with a row for each sample"
    )
    np.save(tmp_path / "x.npy", np.array([[{}]], dtype=object))
    assert _message(tmp_path / "x.npy") == (
        f"{tmp_path / 'x.npy'}: expected a NumPy file of numbers, .npy or .npz"
    )


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", ["layer/x", "a:b", "v1.2"])
def test_names_of_arrays(name: str, order: Literal["C", "F"], tmp_path: Path):
    array = np.asarray(rows(4, 3), order=order)
    save: Callable[..., None] = np.savez
    save(tmp_path / "x.npz", **{name: array})
    ((found,),) = batches(tmp_path / "x.npz", "tensor<4x3xf32>")
    np.testing.assert_array_equal(found, array)


def test_an_archive_without_a_suffix(tmp_path: Path):
    np.savez(tmp_path / "x.npz", x=rows(4, 3))
    path = (tmp_path / "x.npz").rename(tmp_path / "x")
    ((found,),) = batches(path, "tensor<4x3xf32>")
    np.testing.assert_array_equal(found, rows(4, 3))


@pytest.mark.parametrize("count", [10, 10_000])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_archive(save: Callable[..., None], count: int, tmp_path: Path):
    path = tmp_path / "x.npz"
    array = np.random.default_rng(0).uniform(1, 2, (count, 3)).astype(np.float32)
    save(path, x=array)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert _message(path) == f"{path}: {DAMAGED_ARCHIVE}"


@pytest.mark.parametrize("damage", ["encrypted", "method"])
def test_an_archive_that_numpy_does_not_write(damage: str, tmp_path: Path):
    path = tmp_path / "x.npz"
    np.savez(path, x=rows(4, 3))
    changed_archive(path, damage)
    assert _message(path) == f"{path}: {DAMAGED_ARCHIVE}"


def test_a_function_without_arguments():
    function = entry_function(parse_module("func.func @main() { return }"), None)
    for data in ({}, {"a": rows(4, 3)}):
        with pytest.raises(DataError) as caught:
            batches_of(data, function)
        assert str(caught.value) == (
            "function 'main' has no arguments, expected one for samples"
        )


@pytest.mark.parametrize("dtype", ["float64", "int32", "uint8", "bool", "object"])
def test_numbers_of_another_dtype(dtype: str):
    assert _message({"x": rows(4, 3).astype(dtype)}) == (
        f"'x': unsupported dtype {dtype} for argument 0 of function 'main', "
        "expected float32; convert them with astype"
    )


def test_dtypes_that_fit():
    batches(rows(4, 3).astype(">f4"), "tensor<4x3xf32>")
    batches(rows(4, 3).astype(np.uint8), "tensor<4x3xi8>")
    batches(rows(4, 3).astype(np.float16).view("V2"), "tensor<4x3xbf16>")


def test_an_argument_without_rows():
    text = "func.func @main(%x: tensor<1x3xf32>, %t: tensor<f32>) { return }"
    function = entry_function(parse_module(text), None)
    with pytest.raises(DataError) as caught:
        batches_of({"x": rows(4, 3), "t": rows(4)}, function)
    assert str(caught.value) == (
        "argument 1 of function 'main' has no rows, found tensor<f32>; in Python, give "
        "batches, each a tuple of the arguments"
    )


def test_no_batches():
    assert _message([]) == "expected one or more batches, found none"
    assert _message(iter(())) == "expected one or more batches, found none"


@pytest.mark.parametrize("is_named", [False, True])
def test_masked_arrays(is_named: bool):
    array: Any = np.ma.masked_greater(rows(4, 3), 5)
    with pytest.raises(TypeError, match="mask"):
        batches_of({"x": array} if is_named else array, _function())


def test_batches_with_a_number_that_is_not_finite():
    x, y = rows(4, 3), np.float32(np.inf)
    given = [(x, np.float32(1)), (x, y)]
    with pytest.raises(DataError) as caught:
        batches(given, "tensor<?x3xf32>", "tensor<f32>")
    assert str(caught.value) == (
        "batch 1, argument 1: non-finite value: inf; leave the sample out"
    )


# Names


@pytest.mark.parametrize("kind", ["mapping", ".npz"])
def test_arrays_with_the_names_of_arguments_are_these_arguments(
    kind: str, tmp_path: Path
):
    types = "tensor<1xf32>", "tensor<1xf32>"
    swapped = {"a1": rows(2), "a0": 10 + rows(2)}
    save: Callable[..., None] = np.savez
    save(tmp_path / "x.npz", **swapped)
    data: Data = swapped if kind == "mapping" else str(tmp_path / "x.npz")
    found = [[float(x[0]) for x in batch] for batch in batches(data, *types)]
    assert found == [[10, 0], [11, 1]]
    # Other names say nothing.
    others = {"y": rows(2), "x": 10 + rows(2)}
    found = [[float(x[0]) for x in batch] for batch in batches(others, *types)]
    assert found == [[0, 10], [1, 11]]


def test_names_of_other_arguments():
    types = "tensor<1xf32>", "tensor<1xf32>"
    with pytest.raises(DataError) as error:
        batches({"a1": rows(2), "x": rows(2)}, *types)
    assert str(error.value) == (
        "'a1': array 0 has the name of argument 1 of function 'main'; name all arrays "
        "after the arguments a0, a1, or none"
    )
    assert len(batches({"x": rows(2), "a1": rows(2)}, *types)) == 2
    # An array too many is the mistake, whatever is called like the argument.
    with pytest.raises(
        DataError, match=r"expected 1 array, .* found 2: 'labels', 'a0';"
    ):
        batches({"labels": rows(2), "a0": rows(2)}, types[0])


@pytest.mark.parametrize("suffix", ["", ":0"])
def test_names_of_tensors_in_a_file(suffix: str):
    text = """
        func.func @main(%0: tensor<1xf32>, %1: tensor<1xf32>)
            attributes {tf.entry_function = {inputs = "b:0,a:0", outputs = ""}} {
          return
        }"""
    function = entry_function(parse_module(text), None)
    found, _ = batches_of({f"a{suffix}": rows(1), f"b{suffix}": 5 + rows(1)}, function)
    (batch,) = found
    np.testing.assert_array_equal(np.array(batch), [[5], [0]])


def test_a_whole_match_counts_before_a_name_in_another_place():
    text = """
        func.func @main(%x: tensor<1xf32>, %y: tensor<1xf32>)
            attributes {tf.entry_function = {inputs = "y:0,x:0", outputs = ""}} {
          return
        }"""
    function = entry_function(parse_module(text), None)
    found, _ = batches_of({"x:0": rows(1), "y:0": 5 + rows(1)}, function)
    (batch,) = found
    np.testing.assert_array_equal(np.array(batch), [[5], [0]])


@pytest.mark.parametrize("value", [0.0, -2.5])
def test_constant_samples(value: float, tmp_path: Path):
    path = tmp_path / "x.npy"
    np.save(path, np.full((70, 3), value, np.float32))
    with pytest.warns(UserWarning, match="constant samples") as caught:
        batches(path, "tensor<?x3xf32>")
    assert [str(each.message) for each in caught] == [
        f"{path}: constant samples: every value is {value}; use real inputs, or ranges "
        "and errors are meaningless"
    ]
