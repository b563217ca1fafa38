"""`xdsl-quant run`, in this process and once as a command."""

import io
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.unit.damaged_archives import changed_archive
from xdsl_quant.runtime.array_archives import DAMAGED_ARCHIVE
from xdsl_quant.tools.run import main

QUANTIZE = """
func.func @f(%x: tensor<2x?xf32>, %s: f32)
    -> (tensor<2x?x!quant.uniform<u8:f32, 0.1:128>>, f32) {
  %q = quant.qcast %x : tensor<2x?xf32> to tensor<2x?x!quant.uniform<u8:f32, 0.1:128>>
  return %q, %s : tensor<2x?x!quant.uniform<u8:f32, 0.1:128>>, f32
}"""
IDENTITY = "func.func @f(%x: {0}) -> {0} {{\n  return %x : {0}\n}}"
DOCS = Path(__file__).parents[3] / "docs" / "examples"
DENSE = f"{DOCS}/dense.tflite"
X = np.array([[1, 2, np.nan], [-3.5, 4, 1e9]], np.float32)
STORED = np.array([[138, 148, 0], [93, 168, 255]], np.uint8)


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A directory with a module, and arrays."""
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(QUANTIZE)
    np.save("x.npy", X)
    np.savez("all.npz", x=X, s=np.float32(2))
    Path("i8.mlir").write_text(IDENTITY.format("tensor<?xi8>"))
    Path("f32.mlir").write_text(IDENTITY.format("f32"))


def outputs(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """What the command prints; it must succeed."""
    code = main(args)
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def error(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """The one line that the command prints to stderr; it must fail."""
    code = main(args)
    captured = capsys.readouterr()
    assert (code, captured.out) == (1, "")
    (line,) = captured.err.splitlines()
    return line


@pytest.mark.parametrize(
    "inputs",
    [
        ("--input", "x.npy", "--input", "2"),
        ("--input", "[[1, 2, NaN], [-3.5, 4, 1e9]]", "--input", "2.0"),
        ("--input", "all.npz"),
        ("--input", "all.npz:x", "--input", "all.npz:s"),
    ],
)
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--entry", "f", "--rounding-mode", "nearest-away"),
        ("-p", "lower-quant-ops{rounding-mode=nearest-even fuse=true},canonicalize"),
    ],
)
def test_results(
    inputs: tuple[str, ...],
    options: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
):
    text = outputs(capsys, "m.mlir", *inputs, *options, "--output", "y.npz")
    assert text == (
        "result0: uint8, shape 2x3\n[[138 148   0]\n [ 93 168 255]]\n"
        "result1: float32\n2.0\n"
    )
    with np.load("y.npz") as saved:
        assert saved.files == ["result0", "result1"]
        assert saved["result0"].dtype == np.uint8
        assert np.array_equal(saved["result0"], STORED)
        assert saved["result1"] == np.float32(2)


@pytest.mark.parametrize("name", ["y.npy", "Y.NPY", "Y.NPZ"])
def test_one_result_in_a_file(name: str, capsys: pytest.CaptureFixture[str]):
    outputs(capsys, "i8.mlir", "--input", "[1, -128]", "--output", name)
    saved = np.load(name)
    if name == "Y.NPZ":
        saved = saved["result0"]
    assert saved.dtype == np.int8
    assert saved.tolist() == [1, -128]
    text = outputs(capsys, "i8.mlir", "--input", name)
    assert text == "result0: int8, shape 2\n[   1 -128]\n"


def test_zero_point_order_and_nan(capsys: pytest.CaptureFixture[str]):
    text = """
func.func @f(%x: f32) -> !quant.uniform<i8:f32, 0.5:3> {
  %q = quant.qcast %x : f32 to !quant.uniform<i8:f32, 0.5:3>
  return %q : !quant.uniform<i8:f32, 0.5:3>
}"""
    Path("q.mlir").write_text(text)
    for order, expected in (("before-rounding", -4), ("after-rounding", -5)):
        options = ("--input=-3.75", "--zero-point-order", order)
        assert outputs(capsys, "q.mlir", *options) == f"result0: int8\n{expected}\n"
    text = outputs(capsys, "q.mlir", "--input=nan", "--nan=stored-zero")
    assert text == "result0: int8\n0\n"


def test_rounding_without_casts(capsys: pytest.CaptureFixture[str]):
    """The option would have no effect: the pass has another rounding."""
    Path("q.mlir").write_text("""
func.func @f(%x: f32) -> !quant.uniform<i8:f32, 0.5:3> {
  %q = quant.qcast %x : f32 to !quant.uniform<i8:f32, 0.5:3>
  return %q : !quant.uniform<i8:f32, 0.5:3>
}""")
    passes = "lower-quant-ops{rounding-mode=nearest-even}"
    for option, value in (
        ("--rounding-mode", "nearest-away"),
        ("--zero-point-order", "after-rounding"),
        ("--nan", "stored-zero"),
    ):
        options = ("--input=-3.75", "-p", passes, option, value)
        assert main(["q.mlir", *options]) == 0
        captured = capsys.readouterr()
        assert captured.out == "result0: int8\n-4\n"
        assert captured.err == (
            "q.mlir: warning: --rounding-mode, --zero-point-order and --nan have no "
            "effect: the module has no casts to run; give these options to "
            "lower-quant-ops\n"
        )
    assert main(["q.mlir", "--input=-3.75", "-p", passes]) == 0
    assert capsys.readouterr().err == ""


def test_rounding_mode(capsys: pytest.CaptureFixture[str]):
    text = """
func.func @f(%x: f32) -> !quant.uniform<i8:f32, 1.0> {
  %q = quant.qcast %x : f32 to !quant.uniform<i8:f32, 1.0>
  return %q : !quant.uniform<i8:f32, 1.0>
}"""
    Path("q.mlir").write_text(text)
    for mode, expected in (("truncate", 2), ("nearest-even", 2), ("nearest-away", 3)):
        text = outputs(capsys, "q.mlir", "--input", "2.5", "--rounding-mode", mode)
        assert text == f"result0: int8\n{expected}\n"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("nan", "nan"),
        ("-inf", "-inf"),
        ("-1.5", "-1.5"),
        ("1e3", "1000.0"),
        (".5", "0.5"),
    ],
)
def test_numbers(text: str, printed: str, capsys: pytest.CaptureFixture[str]):
    assert outputs(capsys, "f32.mlir", f"--input={text}").endswith(f"\n{printed}\n")


def test_floats_that_numpy_lacks(capsys: pytest.CaptureFixture[str]):
    for type_, dtype in (("bf16", "bfloat16"), ("f8E5M2", "float8_e5m2")):
        Path("m.mlir").write_text(IDENTITY.format(f"tensor<2x{type_}>"))
        text = outputs(capsys, "m.mlir", "--input", "[1.5, -2]", "--output", "y.npy")
        assert text == f"result0: {dtype}, shape 2\n[1.5 -2]\n"
        saved = np.load("y.npy").view(getattr(ml_dtypes, dtype))
        assert saved.astype(float).tolist() == [1.5, -2]
        assert outputs(capsys, "m.mlir", "--input", "y.npy") == text


def test_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.stdin", Path("f32.mlir").open())
    with sys.stdin:
        assert outputs(capsys, "-", "--input", "1") == "result0: float32\n1.0\n"


@pytest.mark.parametrize(
    "options", [(), ("--static",), ("--shape", "x=1x4"), ("-p", "canonicalize")]
)
def test_tflite_file(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    printed = outputs(capsys, DENSE, "--input", "[[1, 2, 3, 4]]", *options)
    assert printed == "result0: int8, shape 1x3\n[[ 127 -128 -128]]\n"


@pytest.mark.parametrize("passes", ["", "tfl-variables-to-arguments"])
def test_steps(passes: str, capsys: pytest.CaptureFixture[str]):
    args = (f"{DOCS}/running_sum.mlir", "-p", passes, "--steps", "--output", "y.npy")
    np.save("frames.npy", np.array([[1, 2], [3, 4], [-1, 0]], np.int32))
    printed = "result0: int32, shape 3x2\n[[11 22]\n [14 26]\n [13 26]]\n"
    for value in ("frames.npy", "[[1, 2], [3, 4], [-1, 0]]"):
        assert outputs(capsys, *args, "--input", value) == printed
        assert np.load("y.npy").tolist() == [[11, 22], [14, 26], [13, 26]]


def test_steps_of_several_inputs(capsys: pytest.CaptureFixture[str]):
    """Those of a function without state are calls of it; casts round as the options say."""
    args = ("m.mlir", "--steps", "--rounding-mode", "nearest-away")
    x = "[[[0.25], [1]], [[2], [3]]]"
    assert outputs(capsys, *args, "--input", x, "--input", "[5, 6]") == (
        "result0: uint8, shape 2x2x1\n[[[131]\n  [138]]\n\n [[148]\n  [158]]]\n"
        "result1: float32, shape 2\n[5. 6.]\n"
    )


DYNAMIC_RANGE = """
func.func @f(%x: tensor<1x3xf32>) -> tensor<1x1xf32> {
  %w = "tfl.pseudo_qconst"() <{qtype = tensor<1x3x!quant.uniform<i8:f32, 0.1>>,
    value = dense<[[70, 55, 90]]> : tensor<1x3xi8>}>
    : () -> tensor<1x3x!quant.uniform<i8:f32, 0.1>>
  %none = "tfl.no_value"() <{value}> : () -> none
  %y = "tfl.fully_connected"(%x, %w, %none) <{fused_activation_function = "NONE",
    keep_num_dims = false, weights_format = "DEFAULT"}>
    : (tensor<1x3xf32>, tensor<1x3x!quant.uniform<i8:f32, 0.1>>, none)
    -> tensor<1x1xf32>
  return %y : tensor<1x1xf32>
}"""


def test_kernels(capsys: pytest.CaptureFixture[str]):
    """XNNPACK quantizes with 255 steps from 0 to 3.3, others with 127."""
    Path("m.mlir").write_text(DYNAMIC_RANGE)
    args = "m.mlir", "--input", "[[1, 2.2, 3.3]]"
    reference = outputs(capsys, *args)
    assert outputs(capsys, *args, "--kernels", "reference") == reference
    assert printed_number(reference) == pytest.approx(product(127), rel=1e-6)
    result = outputs(capsys, *args, "--kernels", "xnnpack")
    assert printed_number(result) == pytest.approx(product(255), rel=1e-6)


def product(steps: int) -> float:
    """The product if 3.3 is stored as `steps`."""
    stored = np.round(np.array([1, 2.2, 3.3]) * steps / 3.3)
    return float(stored @ [7, 5.5, 9] * 3.3 / steps)


def printed_number(text: str) -> float:
    return float(text.rpartition("[[")[2].partition("]]")[0])


def test_no_results(capsys: pytest.CaptureFixture[str]):
    Path("m.mlir").write_text("func.func @f() {\n  return\n}")
    assert outputs(capsys, "m.mlir") == ""


MISTAKES = {
    "no module": (("no.mlir",), "no.mlir: error: no such file or directory"),
    "no such function": (
        ("m.mlir", "--entry", "g"),
        "m.mlir: error: unknown function 'g'; available: 'f'",
    ),
    "too few inputs": (
        ("m.mlir", "--input", "x.npy"),
        "m.mlir: error: function 'f' takes 2 arguments, but got 1",
    ),
    "wrong rank": (
        ("i8.mlir", "--input", "1"),
        "i8.mlir: error: argument 0 (%x) has rank 0, but 'tensor<?xi8>' has rank 1",
    ),
    "wrong dtype": (
        ("i8.mlir", "--input", "x1.npy"),
        "i8.mlir: error: argument 0 (%x) has dtype float32, but 'tensor<?xi8>' takes int8",
    ),
    "number that does not fit": (
        ("i8.mlir", "--input", "[128]"),
        "i8.mlir: error: argument 0 (%x) contains 128, but 'tensor<?xi8>' takes -128 to "
        "127, or an array of uint8 for unsigned numbers",
    ),
    "no number": (
        ("f32.mlir", "--input", "one"),
        "input one: error: 'one' is not a .npy or .npz file, a number or a list of numbers",
    ),
    "text in quotes": (
        ("f32.mlir", "--input", '"one"'),
        "f32.mlir: error: argument 0 (%x) is a str, expected an array, a number or a "
        "list of numbers",
    ),
    "no such file": (
        ("f32.mlir", "--input", "no.npy"),
        "no.npy: error: no such file or directory",
    ),
    "no arrays": (
        ("f32.mlir", "--input", "text.npy"),
        "input text.npy: error: 'text.npy' is not a NumPy file",
    ),
    "no archive": (
        ("f32.mlir", "--input", "text.npz"),
        "input text.npz: error: 'text.npz' is not a NumPy file",
    ),
    "array that is no archive": (
        ("f32.mlir", "--input", "array.npz"),
        "input array.npz: error: 'array.npz' is not a NumPy archive",
    ),
    "objects": (
        ("f32.mlir", "--input", "objects.npy"),
        "input objects.npy: error: 'objects.npy' is not a NumPy file",
    ),
    "objects in an archive": (
        ("f32.mlir", "--input", "objects.npz"),
        "input objects.npz: error: 'objects.npz' has unsupported arrays of objects",
    ),
    "no such array": (
        ("f32.mlir", "--input", "all.npz:y"),
        "input all.npz:y: error: 'all.npz' has no array 'y', available: x, s",
    ),
    "two results in a .npy file": (
        ("m.mlir", "--input", "all.npz", "--output", "y.npy"),
        "-o y.npy: error: a .npy file holds one result, found 2; use .npz",
    ),
    "output in no directory": (
        ("f32.mlir", "--input", "1", "--output", "no/y.npy"),
        "no/y.npy: error: missing directory",
    ),
    "output in place of the module": (
        ("module.npy", "--output", "module.npy"),
        "-o module.npy: error: output would overwrite the input module; use "
        "another file",
    ),
    "output in place of an input": (
        ("m.mlir", "--input", "x.npy", "--input", "2", "--output", "./x.npy"),
        "-o ./x.npy: error: output would overwrite --input x.npy; use another file",
    ),
    "output in place of an archive": (
        ("m.mlir", "--input", "2", "--input", "all.npz:x", "--output", "all.npz"),
        "-o all.npz: error: output would overwrite --input all.npz:x; use another file",
    ),
    "unknown suffix": (
        ("f32.mlir", "--input", "1", "--output", "y.txt"),
        "-o y.txt: error: expected a .npy or .npz file",
    ),
    "parse error": (
        ("bad.mlir",),
        "bad.mlir:1:26: error: Expected 'x' in shape delimiter, got y",
    ),
    "verification": (
        ("invalid.mlir",),
        "invalid.mlir:1:1: error: 'func.func' op Expected entry block arguments to have "
        "the same types as the function input types",
    ),
    "division by zero": (
        ("divide.mlir", "--input", "1"),
        "divide.mlir:3:1: error: 'arith.divsi' op divides by zero",
    ),
    "error with a location": (
        ("located.mlir", "--input", "1"),
        "model.py:1:2: error: 'arith.divsi' op divides by zero",
    ),
    "op without an interpretation": (
        ("unknown.mlir", "--input", "1"),
        "unknown.mlir: error: Could not find interpretation function for op math.cttz",
    ),
    "recursion": (
        ("recursive.mlir",),
        "recursive.mlir: error: calls in function 'f' are nested too deeply; check for "
        "infinite recursion",
    ),
    "unknown pass": (
        ("m.mlir", "-p", "no-pass"),
        "pass-pipeline: error: unknown pass 'no-pass'; xdsl-opt --help lists all "
        "passes",
    ),
    "pipeline": (
        ("m.mlir", "-p", "canonicalize{"),
        "pass-pipeline:1:14: error: Expected argument name here",
    ),
    "tflite file that is missing": (
        ("no.tflite",),
        "no.tflite: error: no such file or directory",
    ),
    "tflite file that is damaged": (
        ("bad.tflite",),
        "bad.tflite: error: not a TensorFlow Lite model: bytes 4 to 8 are not 'TFL3'",
    ),
    "shape of a text": (
        ("m.mlir", "--shape", "x=2"),
        "m.mlir: error: --shape, --static and --constant are for .onnx or "
        ".tflite models; the sizes of other modules are in their types",
    ),
    "shape that does not fit": (
        (DENSE, "--shape", "x=2x5", "--input", "[[1, 2, 3, 4, 5]]"),
        f"{DENSE}: error: input 'x' cannot have shape 2x5; expected ?x4",
    ),
    "steps of a number": (
        ("i8.mlir", "--steps", "--input", "3"),
        "i8.mlir: error: input 0 has rank 0; expected steps along its first dimension",
    ),
    "no steps": (
        ("i8.mlir", "--steps", "--input", "[]"),
        "i8.mlir: error: inputs have 0 steps; expected the same number, at least 1",
    ),
    "no input for steps": (
        ("i8.mlir", "--steps"),
        "i8.mlir: error: inputs have no steps; expected the same number, at least 1",
    ),
    "different steps": (
        ("m.mlir", "--steps", "--input", "[[[1], [2]], [[3], [4]]]", "--input", "[1]"),
        "m.mlir: error: inputs have 1 and 2 steps; expected the same number, at least 1",
    ),
    "different shapes of steps": (
        ("i8.mlir", "--steps", "--input", "[[1], [2, 3]]"),
        "i8.mlir: error: result 0 has shapes 1 and 2; expected the same shape in all steps",
    ),
    "step that fails": (
        ("i8.mlir", "--steps", "--input", "[[1], [[2]]]"),
        "i8.mlir: error: argument 0 (%x) has rank 2, but 'tensor<?xi8>' has rank 1",
    ),
    "pass that fails": (
        ("any.mlir", "-p", "lower-quant-ops", "--input", "1"),
        "any.mlir:2:1: error: 'quant.qcast' op cannot be lowered: type "
        "'!quant.any<i8:f32>' has no scale (in the pass lower-quant-ops)",
    ),
}
DIVIDE = "func.func @f(%x: i8) -> i8 {{\n{}\n  return %r : i8\n}}".format(
    "%z = arith.constant 0 : i8\n%r = arith.divsi %x, %z : i8"
)


@pytest.mark.parametrize("damage", ["encrypted", "method", "deflate", "checksum"])
def test_damaged_archives(damage: str, capsys: pytest.CaptureFixture[str]):
    np.savez_compressed("x.npz", x=X)
    changed_archive(Path("x.npz"), damage)
    arguments = ["f32.mlir", "--input", "x.npz", "--output", "y.npy"]
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.err == f"input x.npz: error: 'x.npz': {DAMAGED_ARCHIVE}\n"
    assert not captured.out
    assert not Path("y.npy").exists()


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, capsys: pytest.CaptureFixture[str]):
    np.save("x1.npy", X[0])
    Path("bad.tflite").write_text("no model")
    Path("module.npy").write_text("func.func @f() {\n  return\n}")
    Path("text.npy").write_text("text")
    Path("text.npz").write_text("text")
    Path("array.npz").write_bytes(Path("x.npy").read_bytes())
    objects = np.array([None, 1])
    np.save("objects.npy", objects)
    np.savez("objects.npz", objects=objects)
    Path("bad.mlir").write_text("func.func @f(%x: tensor<2y>) {\n  return\n}")
    Path("invalid.mlir").write_text(
        '"func.func"() <{sym_name = "f", function_type = (f32) -> ()}> ({\n'
        '^bb0(%x: f64):\n"func.return"() : () -> ()\n}) : () -> ()'
    )
    Path("divide.mlir").write_text(DIVIDE)
    located = DIVIDE.replace("%x, %z : i8", '%x, %z : i8 loc("model.py":1:2)')
    Path("located.mlir").write_text(located)
    Path("unknown.mlir").write_text(
        "func.func @f(%x: i32) -> i32 {\n%r = math.cttz %x : i32\nreturn %r : i32\n}"
    )
    Path("recursive.mlir").write_text(
        "func.func @f() {\nfunc.call @f() : () -> ()\nreturn\n}"
    )
    Path("any.mlir").write_text(
        "func.func @f(%x: f32) -> !quant.any<i8:f32> {\n"
        "%r = quant.qcast %x : f32 to !quant.any<i8:f32>\n"
        "return %r : !quant.any<i8:f32>\n}"
    )
    args, message = MISTAKES[name]
    assert error(capsys, *args) == message


def test_output_that_cannot_be_written(capsys: pytest.CaptureFixture[str]):
    Path("y.npy").mkdir()
    code = main(["f32.mlir", "--input", "1", "--output", "y.npy"])
    assert code == 1
    assert capsys.readouterr().err == "y.npy: error: is a directory\n"


def test_standard_output(
    capfdbinary: pytest.CaptureFixture[bytes],
):
    """One result is a .npy file, several are a .npz file."""
    assert main(["f32.mlir", "--input", "1.5", "-o", "-"]) == 0
    printed = capfdbinary.readouterr()
    assert np.load(io.BytesIO(printed.out)) == 1.5
    assert printed.err.startswith(b"result0: ")


def test_arrays_of_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    expected = outputs(capsys, "m.mlir", "--input", "all.npz")
    for file, more in (("all.npz", ()), ("x.npy", ("--input", "2"))):
        with Path(file).open() as stream:
            monkeypatch.setattr("sys.stdin", stream)
            assert outputs(capsys, "m.mlir", "--input", "-", *more) == expected


def test_help(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "usage: xdsl-quant run" in text
    assert "--rounding-mode" in text


def test_command():
    result = subprocess.run(
        [sys.executable, "-W", "error", "-m", "xdsl_quant.tools.run", "f32.mlir"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stdout == ""
    assert (
        result.stderr == "f32.mlir: error: function 'f' takes 1 argument, but got 0\n"
    )


def test_reader_that_has_gone():
    """What a shell does for `| head -0`; the results are saved all the same."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-W", "error", "-m", "xdsl_quant.tools.run", "f32.mlir"]
    with os.fdopen(write_end, "wb") as pipe:
        result = subprocess.run(
            [*command, "--input", "1", "--output", "y.npy"],
            stdout=pipe,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (result.returncode, result.stderr) == (0, b"")
    assert np.load("y.npy") == 1


@pytest.mark.parametrize("name", ["y.npy", "y.npz"])
def test_full_disk(name: str, small_disk: Path, capsys: pytest.CaptureFixture[str]):
    """The old file stays, and nothing else."""
    file = small_disk / name
    Path("large.mlir").write_text(IDENTITY.format("tensor<?xf32>"))
    np.save("small.npy", np.ones(4, np.float32))
    np.save("large.npy", np.ones(1 << 16, np.float32))
    outputs(capsys, "large.mlir", "--input", "small.npy", "--output", str(file))
    before = file.read_bytes()
    assert main(["large.mlir", "--input", "large.npy", "--output", str(file)]) == 1
    assert capsys.readouterr().err == f"{file}: error: no space left on device\n"
    assert file.read_bytes() == before
    assert os.listdir(small_disk) == [name]
