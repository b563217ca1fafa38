"""Large results are written past the cache; nothing but the time may tell."""

from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.dialects.quant import uniform_type
from xdsl_quant.execution import (
    CompiledFunction,
    compilation,
    compile,
    compiled_function,
    machine_code,
)
from xdsl_quant.execution.machine_code import MachineCode
from xdsl_quant.execution.mlir_bindings import ir, run_passes
from xdsl_quant.execution.scheduling.streaming_stores import (
    mark_results,
    stream_marked_results,
    streamable_ops,
)
from xdsl_quant.numerics import QuantizationParameters, dequantize

_GUARD = 0xA5


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compilation, "_cache", OrderedDict[object, object]())


@pytest.fixture
def streaming_codes(monkeypatch: pytest.MonkeyPatch) -> Sequence[MachineCode]:
    """The machine codes with streaming stores, as they are made."""
    codes: list[MachineCode] = []

    def make(*arguments: Any, **options: Any) -> MachineCode:
        code = MachineCode(*arguments, **options)
        _, _, code_options, *_ = arguments
        if code_options.stream:
            codes.append(code)
        return code

    monkeypatch.setattr(machine_code, "MachineCode", make)
    return codes


def stream_from(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(compiled_function, "STREAMED_BYTES", size)


def guarded(array: NDArray[Any], offset: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Memory for an array, so many bytes after the start of a line, with bytes around."""
    memory = np.full(array.nbytes + 256, _GUARD, np.uint8)
    start = -memory.ctypes.data % 64 + 64 + offset
    output = memory[start : start + array.nbytes].view(array.dtype)
    return output.reshape(array.shape), memory


def check_streamed(
    monkeypatch: pytest.MonkeyPatch,
    function: CompiledFunction,
    *arguments: NDArray[Any],
    expected: NDArray[Any] | None = None,
) -> None:
    """The same bytes as without streaming, wherever they are, and nothing beside them."""
    ordinary = function(*arguments)
    if expected is not None:
        np.testing.assert_array_equal(ordinary, expected)
    with monkeypatch.context() as context:
        stream_from(context, 0)
        for offset in (0, ordinary.itemsize, 16, 64 - ordinary.itemsize):
            output, memory = guarded(ordinary, offset)
            assert function(*arguments, out=output) is output
            assert output.tobytes() == ordinary.tobytes()
            output.view(np.uint8)[...] = _GUARD
            assert np.all(memory == _GUARD)


def dequantizing(
    parameters: QuantizationParameters, shape: Sequence[int | str]
) -> CompiledFunction:
    sizes = "".join(f"{size}x" for size in shape)
    expressed = f"tensor<{sizes}{parameters.expressed}>"
    quantized = f"tensor<{sizes}{uniform_type(parameters)}>"
    return compile(
        f"""
func.func @f(%x: {quantized}) -> {expressed} {{
  %y = quant.dcast %x : {quantized} to {expressed}
  return %y : {expressed}
}}"""
    )


# Results


SHAPES = [
    # A chunk of f32 has 2048 elements.
    *((1,), (7,), (15,), (16,), (17,), (2047,), (2048,), (2049,), (10_001,)),
    *((3, 1), (1, 3), (500, 7), (70, 64), (3, 2048), (3, 5001), (100, 60)),
    *((5, 7, 11), (2, 3, 1001), (30, 5, 2, 13), (0,), (0, 4), (4, 0)),
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("is_static", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(
    monkeypatch: pytest.MonkeyPatch,
    streaming_codes: Sequence[MachineCode],
    shape: tuple[int, ...],
    is_static: bool,
):
    parameters = QuantizationParameters(0.3, 5)
    function = dequantizing(parameters, shape if is_static else ["?"] * len(shape))
    stored = np.random.default_rng(0).integers(-128, 128, shape, np.int8)
    expected = dequantize(stored, parameters)
    check_streamed(monkeypatch, function, stored, expected=expected)
    # MLIR knows what is empty.
    assert len(streaming_codes) == (stored.size > 0 or not is_static)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("is_static", [True, False])
@pytest.mark.parametrize(
    ("shape", "scales", "layout"),
    [
        ((300, 64), (64,), {"quantized_dimension": 1}),
        ((64, 300), (64,), {"quantized_dimension": 0}),
        ((5, 4096), (4096,), {"quantized_dimension": 1}),
        ((5, 4099), (5,), {"quantized_dimension": 0}),
        ((20, 256), (20, 8), {"block_sizes": {0: 1, 1: 32}}),
        ((20, 384), (4, 3), {"block_sizes": {0: 5, 1: 128}}),
        ((3, 30, 6, 7), (30,), {"quantized_dimension": 1}),
    ],
    ids=str,
)
def test_layouts(
    monkeypatch: pytest.MonkeyPatch,
    streaming_codes: Sequence[MachineCode],
    shape: tuple[int, ...],
    scales: tuple[int, ...],
    layout: dict[str, Any],
    is_static: bool,
):
    rng = np.random.default_rng(0)
    parameters = QuantizationParameters(
        rng.uniform(0.02, 0.05, scales), rng.integers(-10, 10, scales), **layout
    )
    function = dequantizing(parameters, shape if is_static else ["?"] * len(shape))
    stored = rng.integers(-128, 128, shape, np.int8)
    expected = dequantize(stored, parameters)
    check_streamed(monkeypatch, function, stored, expected=expected)
    assert len(streaming_codes) == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("storage", "expressed"),
    [("i8", "f16"), ("i8", "bf16"), ("u4", "f32"), ("i16", "f32"), ("i8", "f64")],
)
def test_types(
    monkeypatch: pytest.MonkeyPatch,
    streaming_codes: Sequence[MachineCode],
    storage: str,
    expressed: str,
):
    parameters = QuantizationParameters(0.3, 5, storage=storage, expressed=expressed)
    function = dequantizing(parameters, ("?", 101))
    stored = np.random.default_rng(0).integers(
        parameters.storage_min, parameters.storage_max + 1, (99, 101)
    )
    stored = stored.astype(parameters.storage_dtype)
    expected = dequantize(stored, parameters)
    check_streamed(monkeypatch, function, stored, expected=expected)
    assert len(streaming_codes) == 1


def test_several_results(
    monkeypatch: pytest.MonkeyPatch, streaming_codes: Sequence[MachineCode]
):
    function = compile(
        """
!q = !quant.uniform<i8:f32, 0.5>
!p = !quant.uniform<i16:f64, 0.25:3>
func.func @f(%x: tensor<?x!q>, %y: tensor<90x33x!p>)
    -> (tensor<?xf32>, tensor<90x33xf64>, tensor<f64>) {
  %0 = quant.dcast %x : tensor<?x!q> to tensor<?xf32>
  %1 = quant.dcast %y : tensor<90x33x!p> to tensor<90x33xf64>
  %zero = arith.constant dense<0.0> : tensor<f64>
  %2 = linalg.reduce ins(%1 : tensor<90x33xf64>) outs(%zero : tensor<f64>)
      dimensions = [0, 1]
    (%value: f64, %sum: f64) {
      %3 = arith.addf %value, %sum : f64
      linalg.yield %3 : f64
    }
  return %0, %1, %2 : tensor<?xf32>, tensor<90x33xf64>, tensor<f64>
}"""
    )
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, 5003, np.int8)
    y = rng.integers(-1000, 1000, (90, 33), np.int16)
    stream_from(monkeypatch, 0)
    first, second, total = function(x, y)
    assert len(streaming_codes) == 1
    np.testing.assert_array_equal(first, x * np.float32(0.5))
    np.testing.assert_array_equal(second, (y - 3.0) * 0.25)
    assert total == np.sum((y - 3.0) * 0.25)


def test_sizes_are_still_checked(monkeypatch: pytest.MonkeyPatch):
    stream_from(monkeypatch, 0)
    parameters = QuantizationParameters([0.5, 0.25], quantized_dimension=0)
    function = dequantizing(parameters, ["?"])
    with pytest.raises(ValueError, match="size of dimension 0 must be 2"):
        function(np.zeros(3, np.int8))
    np.testing.assert_array_equal(function(np.full(2, 4, np.int8)), [2, 1])


# When it is done


def test_only_large_results(
    monkeypatch: pytest.MonkeyPatch, streaming_codes: Sequence[MachineCode]
):
    function = dequantizing(QuantizationParameters(0.5), ["?"])
    stream_from(monkeypatch, 400)
    function(np.ones(99, np.int8))
    assert not streaming_codes
    function(np.ones(100, np.int8))
    function(np.ones(101, np.int8))
    assert len(streaming_codes) == 1


def test_not_where_more_is_read_than_written(
    monkeypatch: pytest.MonkeyPatch, streaming_codes: Sequence[MachineCode]
):
    function = compile(
        """
!q = !quant.uniform<i8:f32, 0.5>
func.func @f(%x: tensor<?xf32>) -> tensor<?x!q> {
  %q = quant.qcast %x : tensor<?xf32> to tensor<?x!q>
  return %q : tensor<?x!q>
}"""
    )
    stream_from(monkeypatch, 0)
    assert function([1.0]) == [2]
    assert not streaming_codes


def test_many_threads(
    monkeypatch: pytest.MonkeyPatch, streaming_codes: Sequence[MachineCode]
):
    functions = [
        dequantizing(QuantizationParameters(scale), ["?"]) for scale in (0.5, 2.0)
    ]
    stream_from(monkeypatch, 0)

    def run(i: int) -> bool:
        results = [function(np.full(5000 + i, i, np.int8)) for function in functions]
        expected = [np.full(5000 + i, i * scale) for scale in (0.5, 2.0)]
        return all(map(np.array_equal, results, expected))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(40)))
    assert len(streaming_codes) == 2


# Which loops


_KERNEL = """
#id = affine_map<(i, j) -> (i, j)>
#transposed = affine_map<(i, j) -> (j, i)>
#row = affine_map<(i, j) -> (i)>
func.func @kernel(%x: memref<9x9xf32>, %y: memref<9x9xf32>, %rows: memref<9xf32>,
                  %c: i1, %z: memref<9x9xi7>, %seven: i7) {{
  {}
  return
}}"""


def build_generic(
    source: str = "%x : memref<9x9xf32>",
    result: str = "%y : memref<9x9xf32>",
    maps: str = "#id, #id",
    value: str = "%in : f32",
) -> str:
    last = "reduction" if "#row" in maps else "parallel"
    _, _, element_type = value.partition(" : ")
    return f"""
linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "{last}"]}}
    ins({source}) outs({result}) {{
  ^bb0(%in: f32, %old: {element_type}):
    linalg.yield {value}
}}"""


_WITH_GAPS = """
%v = memref.subview %y[0, 0] [9, 8] [1, 1]
    : memref<9x9xf32> to memref<9x8xf32, strided<[9, 1]>>
%zero = arith.constant 0.0 : f32
linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]}
    outs(%v : memref<9x8xf32, strided<[9, 1]>>) {
  ^bb0(%old: f32):
    linalg.yield %zero : f32
}"""


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (build_generic(), 1),
        (build_generic() * 2, 2),
        (build_generic(maps="#transposed, #id"), 1),
        # Not in the order of memory.
        (build_generic(maps="#id, #transposed"), 0),
        # Reductions, or anything that reads what was there.
        (build_generic(result="%rows : memref<9xf32>", maps="#id, #row"), 0),
        (build_generic(value="%old : f32"), 0),
        (build_generic(source="%y : memref<9x9xf32>"), 0),
        # A view of the result.
        (
            "%v = memref.cast %y : memref<9x9xf32> to memref<?x9xf32>"
            + build_generic(source="%v : memref<?x9xf32>"),
            0,
        ),
        # Memory of unknown origin.
        (
            "%v = arith.select %c, %x, %y : memref<9x9xf32>"
            + build_generic(source="%v : memref<9x9xf32>"),
            0,
        ),
        # With gaps.
        (_WITH_GAPS, 0),
        # No result at all.
        (
            "%v = memref.alloc() : memref<9x9xf32>"
            + build_generic(result="%v : memref<9x9xf32>"),
            0,
        ),
        # Perhaps not done.
        (f"scf.if %c {{ {build_generic()} }}", 0),
        # No whole bytes.
        (build_generic(result="%z : memref<9x9xi7>", value="%seven : i7"), 0),
    ],
)
def test_streamable(body: str, count: int):
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(_KERNEL.format(body))
        assert len(streamable_ops(module, "kernel")) == count
        assert not streamable_ops(module, "other")


def test_stores_are_streaming():
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(_KERNEL.format(build_generic()))
        mark_results(streamable_ops(module, "kernel"))
        run_passes(module, ["func.func(convert-linalg-to-loops)"])
        stream_marked_results(module, "kernel")
        text = str(module)
    assert "nontemporal" in text
    # Others see all of the result when the kernel returns.
    assert "llvm.fence seq_cst" in text
    # The only stores to f32 are those to the buffer.
    stores = [line for line in text.splitlines() if "store" in line and "f32" in line]
    assert [line.rpartition(":")[2] for line in stores] == [" memref<4096xf32>"]
