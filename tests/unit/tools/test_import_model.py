"""`xdsl-quant import`, in this process and once as a command."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tflite.files.model import Model, Operator, Subgraph, Tensor
from xdsl_quant.frontends.tflite.files.schema import schema
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.tools.import_model import main

TEXT = """\
builtin.module attributes {tfl.schema_version = 3 : i32} {
  func.func @main(%x: tensor<SIZEx2xf32>) -> tensor<SIZEx2xf32> attributes \
{tf.entry_function = {inputs = "x", outputs = "y"}} {
    %y = "tfl.relu"(%x) : (tensor<SIZEx2xf32>) -> tensor<SIZEx2xf32>
    func.return %y : tensor<SIZEx2xf32>
  }
}
"""


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A directory with a file, and a module."""
    monkeypatch.chdir(tmp_path)
    tensors = [Tensor(name, "FLOAT32", [1, 2], [-1, 2]) for name in "xy"]
    graph = Subgraph("main", tensors, [0], [1], [Operator("RELU", [0], [1])])
    Path("m.tflite").write_bytes(write_model(Model([graph])))
    Path("m.mlir").write_text(TEXT.replace("SIZE", "?"))


def output(capsys: pytest.CaptureFixture[str], *args: str) -> str:
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
    ("options", "size"),
    [
        ((), "?"),
        (("--static",), "1"),
        (("--shape", "x=1x2"), "1"),
        (("-p", "canonicalize"), "?"),
    ],
)
def test_file_to_text(
    options: tuple[str, ...], size: str, capsys: pytest.CaptureFixture[str]
):
    expected = TEXT.replace("SIZE", size)
    assert output(capsys, "m.tflite", *options) == expected
    assert output(capsys, "m.tflite", *options, "-o", "-") == expected
    assert output(capsys, "m.tflite", *options, "-o", "new.mlir") == ""
    assert Path("new.mlir").read_text() == expected


@pytest.mark.parametrize("name", ["m.tflite", "m.mlir"])
@pytest.mark.parametrize(
    ("options", "size"), [((), "?"), (("--static",), "1"), (("--shape", "x=3x2"), "3")]
)
def test_standard_input(
    name: str,
    options: tuple[str, ...],
    size: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    with open(name) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert output(capsys, "-", *options) == TEXT.replace("SIZE", size)


def test_damaged_file_on_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    Path("bad.tflite").write_bytes(Path("m.tflite").read_bytes()[:99])
    with open("bad.tflite") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert error(capsys, "-") == (
            "<bytes>: error: the file is damaged: an offset is beyond the end of the file"
        )


def test_capital_letters(capsys: pytest.CaptureFixture[str]):
    Path("M.TFLITE").write_bytes(Path("m.tflite").read_bytes())
    assert output(capsys, "M.TFLITE") == TEXT.replace("SIZE", "?")


def test_text_to_file(capsys: pytest.CaptureFixture[str]):
    assert output(capsys, "m.mlir", "-o", "new.tflite") == ""
    assert str(read_tflite("new.tflite")) == str(read_tflite("m.tflite"))
    assert output(capsys, "new.tflite", "-o", "newer.tflite") == ""
    assert Path("newer.tflite").read_bytes() == Path("new.tflite").read_bytes()


FALLBACKS = """
!q = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%x: tensor<4x!q>, %y: tensor<4x!q>) -> tensor<4x!q> {
  %0 = tfl.add %x, %y {fused_activation_function = "NONE"} : tensor<4x!q>
  %1 = tfl.div %0, %y {fused_activation_function = "RELU6"} : tensor<4x!q>
  %2 = "tfl.neg"(%1) : (tensor<4x!q>) -> tensor<4x!q>
  %3 = tfl.div %2, %y {fused_activation_function = "NONE"} : tensor<4x!q>
  return %3 : tensor<4x!q>
}
"""


def test_text_with_names_of_constants():
    path = Path(__file__).parents[3] / "docs" / "examples" / "streaming.tflite"
    assert main([str(path), "-o", "file.tflite"]) == 0
    assert main([str(path), "--print-debuginfo", "-o", "text.mlir"]) == 0
    assert main(["text.mlir", "-o", "again.tflite"]) == 0
    assert Path("again.tflite").read_bytes() == Path("file.tflite").read_bytes()


def test_table_of_fallbacks(capsys: pytest.CaptureFixture[str]):
    Path("div.mlir").write_text(FALLBACKS)
    assert main(["div.mlir", "-p", "convert-tfl-to-linalg"]) == 0
    captured = capsys.readouterr()
    assert "linalg.generic" in captured.out
    assert captured.err == (
        "ops without integer kernel, computed with floats: 3\n"
        "    2  tfl.div  has no integer kernel\n"
        "    1  tfl.neg  has a zero point, which the kernel ignores\n"
    )
    assert output(capsys, "div.mlir", "-p", "convert-tfl-to-linalg{fallback=only}")
    assert output(capsys, "m.tflite", "--static", "-p", "convert-tfl-to-linalg")


def test_large_constants(capsys: pytest.CaptureFixture[str]):
    data = np.arange(1 << 18, dtype=np.float32).view(np.uint8)
    tensors = [Tensor("w", "FLOAT32", [1 << 18], data=data)]
    file = write_model(Model([Subgraph("main", tensors, [], [0], [])]))
    Path("large.tflite").write_bytes(file)
    output(capsys, "large.tflite", "-o", "large.mlir")
    assert "dense_resource<w" in Path("large.mlir").read_text()[:400]
    output(capsys, "large.mlir", "-o", "again.tflite")
    assert data.tobytes() in Path("again.tflite").read_bytes()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("no.tflite",), "no.tflite: error: no such file or directory"),
        (("no.mlir",), "no.mlir: error: no such file or directory"),
        (
            ("m.tflite", "-o", "m.tflite"),
            "-o m.tflite: error: output would overwrite the input module; use another file",
        ),
        (("m.tflite", "-o", "no/m.mlir"), "no/m.mlir: error: missing directory"),
        (
            ("m.tflite", "-o", "m.foo"),
            "-o m.foo: error: expected a .mlir, .onnx or .tflite file",
        ),
        (
            ("m.mlir", "--shape", "x=1x3"),
            "m.mlir:2:3: error: argument 0 has shape 1x3, but its type is "
            "'tensor<?x2xf32>'; expected the static sizes of the type (in the pass "
            "tfl-infer-shapes)",
        ),
        (
            ("m.tflite", "--shape", "x"),
            "--shape x: error: expected NAME=SIZES, e.g. x=1x16x16x3",
        ),
        (
            ("m.tflite", "--shape", "x=1x?"),
            "--shape x=1x?: error: expected NAME=SIZES, e.g. x=1x16x16x3",
        ),
        (
            ("m.tflite", "--shape", f"x=1x{10**20}"),
            f"--shape x=1x{10**20}: error: expected sizes up to 2147483647, found {10**20}",
        ),
        (
            ("m.tflite", "--shape", "z=1x2"),
            "m.tflite: error: unknown input 'z'; available: 'x'",
        ),
        (
            ("arith.mlir", "--static"),
            "arith.mlir: error: --shape, --static and --constant are for .onnx or "
            ".tflite models; the sizes of other modules are in their types",
        ),
        (
            ("bad.tflite",),
            "bad.tflite: error: not a TensorFlow Lite model: bytes 4 to 8 are not "
            "'TFL3'",
        ),
        (
            ("arith.mlir", "-o", "arith.tflite"),
            "arith.mlir:2:3: error: 'arith.addf' op is not an op of TensorFlow Lite; lower "
            "it to 'tfl' first",
        ),
        (
            ("m.tflite", "-p", "no"),
            "pass-pipeline: error: unknown pass 'no'; xdsl-opt --help lists all passes",
        ),
    ],
)
def test_errors(
    args: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
):
    Path("bad.tflite").write_text("no model")
    Path("arith.mlir").write_text(
        "func.func @main(%a: f32) -> f32 {\n  %b = arith.addf %a, %a : f32\n"
        "  func.return %b : f32\n}"
    )
    assert error(capsys, *args) == message
    assert not Path("arith.tflite").exists()


def test_missing_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    schema.cache_clear()
    monkeypatch.setitem(sys.modules, "tflite", None)
    try:
        assert error(capsys, "m.tflite") == (
            "m.tflite: error: reading a '.tflite' file needs tflite, which is not "
            "installed; run pip install '.[tflite]' in a checkout of xdsl-quant"
        )
    finally:
        schema.cache_clear()


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_options_without_an_input(option: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as e:
        main([option])
    assert e.value.code == 0
    printed = capsys.readouterr().out
    assert "xdsl-quant" in printed
    if option == "--version":
        assert printed == f"xdsl-quant {metadata.version('xdsl-quant')}\n"


def test_as_a_command():
    command = [sys.executable, "-m", "xdsl_quant.tools.import_model", "m.tflite"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == TEXT.replace("SIZE", "?")


ADD = """\
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


def test_onnx_files(capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("onnx")
    Path("add.mlir").write_text(ADD)
    assert output(capsys, "add.mlir", "-o", "add.onnx") == ""
    text = output(capsys, "add.onnx")
    assert "stablehlo.add %x, %x : tensor<2xf32>" in text
    assert output(capsys, "add.onnx", "-o", "again.onnx") == ""
    assert output(capsys, "again.onnx") == text
    # Ops of TensorFlow Lite are converted.
    assert output(capsys, "m.tflite", "--static", "-o", "m.onnx") == ""
    assert "stablehlo.clamp" in output(capsys, "m.onnx")


def test_ops_without_form_in_onnx(capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("onnx")
    Path("cbrt.mlir").write_text(ADD.replace("add %x, %x", "cbrt %x"))
    message = error(capsys, "cbrt.mlir", "-o", "new.onnx")
    assert message == (
        "cbrt.mlir:2:3: error: 'stablehlo.cbrt' op cannot be written as ONNX: "
        "unsupported op"
    )
    assert not Path("new.onnx").exists()


@pytest.mark.parametrize("arguments", ["add.mlir -o add.onnx", "add.onnx"])
def test_missing_package_onnx(arguments: str):
    Path("add.mlir").write_text(ADD)
    Path("add.onnx").write_bytes(b"")
    script = (
        "import sys; sys.modules['onnx'] = None\n"
        "from xdsl_quant.tools.import_model import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, *arguments.split()],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    source = arguments.partition(" ")[0]
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"{source}: error: a '.onnx' file needs onnx, which is not installed; run pip "
        "install '.[onnx]' in a checkout of xdsl-quant\n"
    )
