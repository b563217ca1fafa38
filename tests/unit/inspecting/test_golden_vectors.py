"""`xdsl-quant run --trace`: files of ops, a C header, and a C program that replays them."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.wake_word.models import model_paths
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tflite.files.reader import read_tflite_model
from xdsl_quant.inspecting.golden_vectors import hexadecimal
from xdsl_quant.runtime.arrays import shape_of
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.tools.run import main

ROOT = Path(__file__).parents[3]
REPLAY = ROOT / "examples" / "golden_vectors" / "replay.c"

CONVOLUTION = """
!x = !quant.uniform<i8:f32, 0.5:-3>
!w = !quant.uniform<i8<-127:127>:f32:0, {0.25, 0.125}>
!y = !quant.uniform<i8:f32, 0.75:7>
func.func @main(%x: tensor<1x2x2x1x!x>) -> tensor<1x2x2x2x!y> {
  %w = "tfl.pseudo_qconst"() <{qtype = tensor<2x1x1x1x!w>,
    value = dense<[[[[5]]], [[[-9]]]]> : tensor<2x1x1x1xi8>}> : () -> tensor<2x1x1x1x!w>
  %b = "tfl.pseudo_const"() <{value = dense<[100, -7]> : tensor<2xi32>}>
    : () -> tensor<2xi32>
  %y = "tfl.conv_2d"(%x, %w, %b) <{
    dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, stride_h = 1 : i32,
    stride_w = 1 : i32, fused_activation_function = "RELU", padding = "VALID"
  }> : (tensor<1x2x2x1x!x>, tensor<2x1x1x1x!w>, tensor<2xi32>)
    -> tensor<1x2x2x2x!y> loc("a/conv 1")
  return %y : tensor<1x2x2x2x!y>
}"""

DENSE = """
!x = !quant.uniform<i16:f32, 0.5>
!w = !quant.uniform<i8<-127:127>:f32, 0.5>
func.func @main(%x: tensor<1x700x!x>) -> tensor<1x1x!x> {
  %w = "tfl.pseudo_qconst"() <{qtype = tensor<1x700x!w>,
    value = dense<127> : tensor<1x700xi8>}> : () -> tensor<1x700x!w>
  %b = "tfl.no_value"() {value} : () -> none
  %y = "tfl.fully_connected"(%x, %w, %b) {fused_activation_function = "NONE",
    keep_num_dims = false, weights_format = "DEFAULT"}
    : (tensor<1x700x!x>, tensor<1x700x!w>, none) -> tensor<1x1x!x>
  return %y : tensor<1x1x!x>
}"""

LOOP = """
func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {
  %r = "tfl.while"(%x) <{is_stateless = true}> ({
  ^bb0(%c: tensor<1xf32>):
    %limit = "tfl.pseudo_const"() <{value = dense<9.0> : tensor<1xf32>}>
      : () -> tensor<1xf32>
    %0 = "tfl.less"(%c, %limit) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xi1>
    "tfl.yield"(%0) : (tensor<1xi1>) -> ()
  }, {
  ^bb0(%b: tensor<1xf32>):
    %1 = tfl.add %b, %b {fused_activation_function = "NONE"} : tensor<1xf32>
    "tfl.yield"(%1) : (tensor<1xf32>) -> ()
  }) : (tensor<1xf32>) -> tensor<1xf32>
  return %r : tensor<1xf32>
}"""

STABLEHLO = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}"""


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("conv.mlir").write_text(CONVOLUTION)
    Path("loop.mlir").write_text(LOOP)
    Path("hlo.mlir").write_text(STABLEHLO)


def index_of(folder: str) -> Any:
    return json.loads(Path(folder, "index.json").read_text())


def words_of(path: str) -> list[int]:
    return [int(line, 16) for line in Path(f"{path}.hex").read_text().splitlines()]


def error(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(args) in (1, 2)
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


@pytest.mark.parametrize(
    ("array", "bits", "text"),
    [
        (np.array([-1, 127, -128], np.int8), 8, "ff\n7f\n80\n"),
        (np.array([[-8], [7]], np.int8), 4, "8\n7\n"),
        (np.array([True, False]), 1, "1\n0\n"),
        (np.array(-2, np.int32), 32, "fffffffe\n"),
        (np.array([1, -0.0], np.float32), 32, "3f800000\n80000000\n"),
        (np.array([], np.int8), 8, ""),
        (np.arange(4, dtype=np.uint16)[::2], 16, "0000\n0002\n"),
    ],
)
def test_hexadecimal_text(array: np.ndarray, bits: int, text: str):
    assert hexadecimal(array, bits) == text


def test_arrays_of_a_convolution():
    x = [[[[1], [-128]], [[127], [0]]]]
    assert main(["conv.mlir", f"--input={x}", "--trace", "t"]) == 0
    index = index_of("t")
    (op,) = index["ops"]
    stem = "0000_conv_2d_a_conv_1"
    assert (op["file"], op["location"], index["calls"]) == (stem, "a/conv 1", 1)
    sums: list[int] = [
        (v + 3) * w + b for v in (1, -128, 127, 0) for w, b in ((5, 100), (-9, -7))
    ]
    with np.load(f"t/call_000/{stem}.npz") as arrays:
        assert arrays["accumulator"].ravel().tolist() == sums
        assert arrays["operand0"].tolist() == x
        multiplier: Any = arrays["multiplier"]
        shift: Any = arrays["shift"].astype(float)
        real: Any = multiplier * 2.0 ** (shift - 31)
        np.testing.assert_allclose(real, [0.5 * 0.25 / 0.75, 0.5 * 0.125 / 0.75])
        # ReLU: 0 is the stored value 7.
        scaled: Any = np.reshape(sums, (-1, 2)) * real
        result: Any = (scaled.round() + 7).clip(7, 127)
        np.testing.assert_array_equal(arrays["result0"].reshape(-1, 2), result)
    assert words_of(f"t/call_000/{stem}.accumulator") == [s % 2**32 for s in sums]
    assert words_of(f"t/call_000/{stem}.operand0") == [1, 128, 127, 0]
    assert words_of(f"t/constants/{stem}.operand1") == [5, 256 - 9]
    assert words_of(f"t/constants/{stem}.operand2") == [100, 2**32 - 7]
    assert op["operands"][1]["scales"] == [0.25, 0.125]
    assert op["steps"][1]["numbers"] == {"zero_point": 7, "low": 7, "high": 127}
    assert not [*Path().glob(".*")]


def test_floats_are_bits_and_repeated_ops_have_numbers():
    assert main(["loop.mlir", "--input=[3]", "--trace", "t"]) == 0
    less, add = (
        next(op for op in index_of("t")["ops"] if op["op"] == name)
        for name in ("tfl.less", "tfl.add")
    )
    assert (less["executions"], add["executions"]) == ([3], [2])
    bits = [
        words_of(f"t/call_000/{add['file']}{suffix}.result0") for suffix in ("", ".1")
    ]
    assert bits == [[0x40C00000], [0x41400000]]
    assert words_of(f"t/call_000/{less['file']}.2.result0") == [0]


def test_wide_kernels_and_tables(tmp_path: Path):
    """A 16-bit kernel without a bias accumulates 64 bits."""
    text = CONVOLUTION.replace("i8:f32, 0.5:-3", "i16:f32, 0.5").replace(
        "i8:f32, 0.75:7", "i16:f32, 0.75"
    )
    text = text.replace("tensor<2xi32>", "tensor<2xi64>")
    Path("wide.mlir").write_text(text)
    x = [[[[1], [-128]], [[127], [0]]]]
    assert main(["wide.mlir", f"--input={x}", "--trace", "t"]) == 0
    (op,) = index_of("t")["ops"]
    assert op["steps"][0]["primitive"] == "rescale_wide"
    assert op["steps"][0]["arrays"]["accumulator"]["bits"] == 64


def test_width_of_accumulators_is_that_of_the_kernel():
    """Sums of 16-bit values have 64 bits in each call, also if they fit 32 bits."""
    Path("wide.mlir").write_text(DENSE)
    rows = np.array([[[1] * 700], [[32767] * 700]], np.int16)
    np.save("x.npy", rows)
    options = "--input", "x.npy", "--steps", "--trace", "t"
    assert main(["wide.mlir", *options]) == 0
    (op,) = index_of("t")["ops"]
    assert op["steps"][0]["arrays"]["accumulator"]["bits"] == 64
    words = [Path(f"t/call_00{i}/0000_fully_connected.accumulator.hex") for i in (0, 1)]
    assert [path.read_text() for path in words] == [
        f"{value * 127 * 700:016x}\n" for value in (1, 32767)
    ]


def test_empty_directory_behind_a_link():
    Path("empty").mkdir()
    Path("link").symlink_to("empty")
    assert main([*IMAGE, "--trace", "link", "--c-header", "link/x.h"]) == 0
    found = sorted(path.name for path in Path("empty").iterdir())
    assert found == ["call_000", "constants", "index.json", "x.h"]


def test_text_in_the_header_is_escaped():
    text = CONVOLUTION.replace("@main", '@"a\\22b"')
    Path("conv.mlir").write_text(text)
    assert main([*IMAGE, "--trace", "t", "--c-header", "x.h"]) == 0
    assert '#define XQ_FUNCTION "a\\"b"' in Path("x.h").read_text().splitlines()


@pytest.mark.parametrize("name", ["okay_nabu"])
def test_c_program_replays_a_wake_word_model(name: str):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    path = model_paths()[name]
    function = entry_function(read_tflite(path), None)
    shape = shape_of(function.args[0].type)
    frames = np.random.default_rng(0).integers(-128, 128, (3, *shape), np.int8)
    np.save("x.npy", frames)
    options = ("--steps", "--trace", "t", "--c-header", "model.h", "-o", "y.npy")
    assert main([f"{path}", "--input", "x.npy", *options]) == 0
    assert len(REPLAY.read_text().splitlines()) <= 200
    flags = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-include", "model.h")
    sources = (f"{REPLAY}", "-lm", "-o", "replay")
    subprocess.run([compiler, *flags, *sources], check=True)
    operators = read_tflite_model(path.read_bytes(), name).subgraphs[0].operators
    values = sum(op["executions"][1] for op in index_of("t")["ops"])
    # Handles of variables and the call of the initial function have no values.
    without = ("VAR_HANDLE", "CALL_ONCE")
    assert values == sum(op.code not in without for op in operators)
    replay = ["./replay", "t"]
    good = subprocess.run(replay, capture_output=True, text=True, check=True)
    assert good.stdout == "3 calls of 60 ops: 0 of 49839 values differ\n"
    # The program detects a changed value.
    file = next(Path("t/call_001").glob("*conv_2d*.accumulator.hex"))
    file.write_text(file.read_text().replace("f", "e", 1))
    bad = subprocess.run(replay, capture_output=True, text=True, check=False)
    assert bad.returncode == 1
    assert "1 of 49839 values differ" in bad.stdout


IMAGE = "conv.mlir", "--input=[[[[1], [2]], [[3], [4]]]]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (*IMAGE, "--trace", "full"),
            "--trace full: error: directory is not empty: found 1 entry; use a new "
            "directory",
        ),
        (
            ("conv.mlir", "--trace", "conv.mlir"),
            "--trace conv.mlir: error: not a directory",
        ),
        (
            ("conv.mlir", "--trace", "missing/t"),
            "--trace missing/t: error: no such file or directory",
        ),
        (
            ("conv.mlir", "--c-header", "x.h"),
            "--c-header: error: needs the option --trace DIR",
        ),
        (
            (*IMAGE, "--trace", "t", "--c-header", "t"),
            "--c-header t: error: output would overwrite --trace t; use another file",
        ),
        (
            (*IMAGE, "--trace", "t", "--c-header", "missing/x.h"),
            "missing/x.h: error: missing directory",
        ),
        (
            ("hlo.mlir", "--input=[1, 2]", "--trace", "t"),
            "hlo.mlir:3:3: error: 'stablehlo.add' op cannot be traced: it is lowered "
            "before it runs; convert it to 'tfl' first",
        ),
        (
            ("loop.mlir", "--input=[3]", "--trace", "t", "--c-header", "x.h"),
            "loop.mlir: error: 'tfl.less' op 0001_less has 3 executions in a call; "
            "--c-header supports functions without loops",
        ),
    ],
)
def test_errors(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
):
    Path("full").mkdir()
    Path("full/file").write_text("")
    before = {*Path().rglob("*")}
    assert error(capsys, *arguments) == message
    assert {*Path().rglob("*")} == before
