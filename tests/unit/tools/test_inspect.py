"""The command xdsl-quant inspect."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from xdsl_quant.tools.inspect import main

TEXT = """
!x = !quant.uniform<i8:f32, 0.5:3>
!w = !quant.uniform<i8<-127:127>:f32:1, {0.5,0.25:-1}>
!s = !quant.uniform<u4:f32:{0:1, 1:2}, {{0.5, 1.0}, {1.5, 2.0:3}}>
func.func @main(%x: tensor<?x2x!x>) -> tensor<?x2x!x> {
  %i = arith.constant dense<[[1, -127], [4, 5]]> : tensor<2x2xi8>
  %w = quant.scast %i : tensor<2x2xi8> to tensor<2x2x!w>
  %u = arith.constant dense<[[1, -8, -1, 0], [4, 5, -1, 0]]> : tensor<2x4xi4>
  %s = quant.scast %u : tensor<2x4xi4> to tensor<2x4x!s>
  %f = arith.constant dense<1.0> : tensor<2x2xf32>
  %y = "mine.dense"(%x, %w, %s) : (tensor<?x2x!x>, tensor<2x2x!w>, tensor<2x4x!s>) -> tensor<?x2x!x>
  %z = "mine.any"(%y) : (tensor<?x2x!x>) -> tensor<*x!quant.any<i16:f32>>
  %c = "mine.calibrated"(%z) : (tensor<*x!quant.any<i16:f32>>) -> !quant.calibrated<f32<-1.0:1.0>>
  return %y : tensor<?x2x!x>
}
"""  # noqa: E501 ops on one line

TABLE = """\
value  op               shape     storage       scale          zero point  axis      stored   at bounds  bytes
%x     argument         ?x2       i8            0.5            3           -         -        -          -
%w     quant.scast      2x2       i8<-127:127>  0.25..0.5 (2)  -1..0       1         -127..5  25.00%     4
%s     quant.scast      2x4       u4            0.5..2 (4)     0..3        0:1, 1:2  0..15    50.00%     4
%y     mine.dense       ?x2       i8            0.5            3           -         -        -          -
%z     mine.any         unranked  i16           -              -           -         -        -          -
%c     mine.calibrated  scalar    calibrated    -              -           -         -        -          -

quantized tensors: 2 i8, 1 i8<-127:127>, 1 u4, 1 i16, 1 calibrated
quantized constants: 8 bytes; as f32 48 bytes, 6.00 times as much
other constants: 16 bytes
"""  # noqa: E501 lines of a table


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.mlir"
    path.write_text(TEXT)
    return str(path)


def test_table(model: str, capsys: pytest.CaptureFixture[str]):
    assert main([model]) == 0
    assert capsys.readouterr().out == TABLE


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("order", "x w s y z c"),
        ("name", "c s w x y z"),
        ("op", "x z c y w s"),
        ("storage", "c z x y w s"),
        ("scale", "s x w y z c"),
        ("zero-point", "w s x y z c"),
        ("bytes", "w s x y z c"),
        ("at-bounds", "s w x y z c"),
    ],
)
def test_sorted(key: str, names: str, model: str, capsys: pytest.CaptureFixture[str]):
    assert main([model, "--sort", key]) == 0
    rows = capsys.readouterr().out.partition("\n\n")[0].splitlines()[1:]
    assert [row.split()[0] for row in rows] == [f"%{name}" for name in names.split()]


def test_json(model: str, tmp_path: Path):
    path = tmp_path / "tensors.json"
    assert main([model, "--sort", "scale", "--json", str(path)]) == 0
    content = json.loads(path.read_text())
    tensors = content.pop("tensors")
    assert content == {
        "storage_counts": {"i8": 2, "u4": 1, "i8<-127:127>": 1, "i16": 1}
        | {"calibrated": 1},
        "stored_bytes": 8,
        "float_bytes": 48,
        "other_constant_bytes": 16,
    }
    assert tensors[0] == {
        "name": "%s",
        "function": "main",
        "op": "quant.scast",
        "shape": [2, 4],
        "storage": "u4",
        "scale_count": 4,
        "scales": [0.5, 2.0],
        "zero_points": [0, 3],
        "offsets": None,
        "blocks": {"0": 1, "1": 2},
        "bytes": 4,
        "stored": [0, 15],
        "at_bounds": 0.5,
        "is_constant": True,
    }


def test_tensorflow_lite_file(capsys: pytest.CaptureFixture[str]):
    assert main(["docs/examples/streaming.tflite", "--sort", "bytes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "function  value        op                   shape  storage       scale      "
        "zero point  axis  stored   at bounds  bytes",
        "@main     window       tfl.concatenation    1x6    i8            0.0625     "
        "-2          -     -        -          6",
        "@main     weights      tfl.pseudo_qconst    1x6    i8<-127:127>  0.01562    "
        "0           -     -90..81  0.00%      6",
        "@main     last         tfl.read_variable    1x4    i8            0.0625     "
        "-2          -     -        -          4",
    ]
    assert lines[-3:] == [
        "quantized tensors: 7 i8, 1 i8<-127:127>, 1 i32",
        "quantized constants: 14 bytes; as f32 44 bytes, 3.14 times as much",
        "other constants: 16 bytes",
    ]


FUNCTIONS = """
func.func private @f(f32, tensor<4x!quant.uniform<i8:f32, 0.5>>) -> !quant.any<i4:f32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = quant.region "add" (%a = %x : tensor<4xf32>)
      -> (tensor<4xf32> as !quant.uniform<i8:f32, 0.25>) {
    %z = arith.addf %a, %a : tensor<4xf32>
    quant.return %z : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}
"""

TABLE_OF_FUNCTIONS = """\
function  value       op            shape   storage  scale  zero point  axis  stored  at bounds  bytes
@f        argument 1  func.func     4       i8       0.5    0           -     -       -          4
@f        result 0    func.func     scalar  i4       -      -           -     -       -          1
@main     %y          quant.region  4       i8       0.25   0           -     -       -          4

quantized tensors: 2 i8, 1 i4
"""  # noqa: E501 lines of a table


def test_functions_without_a_body_and_kernels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "model.mlir"
    path.write_text(FUNCTIONS)
    assert main([str(path)]) == 0
    assert capsys.readouterr().out == TABLE_OF_FUNCTIONS


def test_constants_without_elements_or_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "model.mlir"
    path.write_text("""
!q = !quant.uniform<i8:f32, 0.5>
func.func @f() -> () {
  %0 = arith.constant dense<> : tensor<0xi8>
  %1 = quant.scast %0 : tensor<0xi8> to tensor<0x!q>
  %2 = arith.constant dense_resource<missing> : tensor<4xi8>
  %3 = quant.scast %2 : tensor<4xi8> to tensor<4x!q>
  return
}""")
    assert main([str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-4:] for line in lines[1:3]] == [
        ["-", "-", "-", "0"],
        ["-", "-", "-", "4"],
    ]


FLOATS = """
!f8 = !quant.uniform<f8E4M3FN:f32, 0.5>
!f4 = !quant.uniform<f4E2M1FN<-2:6>:f32, 0.5>
!table = !quant.uniform<!quant.quantile<ui4:f16, {-1.0,0.0,0.5,2.0}, <0:3>><0:2>:f32, 0.5:9>
!mxfp6 = !quant.block_scaled<f6E2M3FN:f32:{1:2}, scales = dense<"0x7EFFFF80"> : tensor<4xf8E8M0FNU>>
!nan = !quant.block_scaled<i8:f32:{}, scales = dense<"0xFF"> : tensor<f8E8M0FNU>, zero_points = dense<1.5> : tensor<f16>>
!missing = !quant.block_scaled<i8:f32:{0:4}, scales = dense_resource<missing> : tensor<1xf16>>
func.func @f(%x: tensor<4x!nan>, %y: tensor<4x!missing>) {
  %0 = arith.constant dense<[1.0, 448.0, -448.0, 0x7F]> : tensor<4xf8E4M3FN>
  %1 = quant.scast %0 : tensor<4xf8E4M3FN> to tensor<4x!f8>
  %2 = arith.constant dense<[-2.0, 6.0, 0.5, -6.0]> : tensor<4xf4E2M1FN>
  %3 = quant.scast %2 : tensor<4xf4E2M1FN> to tensor<4x!f4>
  %4 = arith.constant dense<[1, 2, 1, 1]> : tensor<4xi4>
  %5 = quant.scast %4 : tensor<4xi4> to tensor<4x!table>
  %6 = arith.constant dense<7.5> : tensor<1x8xf6E2M3FN>
  %7 = quant.scast %6 : tensor<1x8xf6E2M3FN> to tensor<1x8x!mxfp6>
  return
}"""  # noqa: E501 types on one line
TABLE_OF_FLOATS = """\
value  op           shape  storage                             scale       zero point  axis  stored     at bounds  bytes
%x     argument     4      i8                                  -           1.5         -     -          -          7
%y     argument     4      i8                                  -           0           0:4   -          -          6
%1     quant.scast  4      f8E4M3FN                            0.5         0           -     -448..448  50.00%     4
%3     quant.scast  4      f4E2M1FN<-2:6>                      0.5         0           -     -6..6      50.00%     2
%5     quant.scast  4      !quant.quantile<ui4:f16, ...><0:2>  0.5         9           -     1..2       25.00%     2
%7     quant.scast  1x8    f6E2M3FN                            0.5..2 (4)  0           1:2   7.5        100.00%    10

quantized tensors: 2 i8, 1 f8E4M3FN, 1 f4E2M1FN<-2:6>, 1 !quant.quantile<ui4:f16, ...><0:2>, 1 f6E2M3FN
quantized constants: 18 bytes; as f32 80 bytes, 4.44 times as much
"""  # noqa: E501 lines of a table


@pytest.mark.filterwarnings("default")
def test_floats_tables_and_block_scales(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path, output = tmp_path / "model.mlir", tmp_path / "tensors.json"
    path.write_text(FLOATS)
    assert main([str(path), "--json", str(output)]) == 0
    captured = capsys.readouterr()
    assert captured.out == TABLE_OF_FLOATS
    assert re.fullmatch(
        r"warning: scales of blocks are not shown: missing data of resource "
        r"'missing\w*'\n",
        captured.err,
    )
    tensors = json.loads(output.read_text())["tensors"]
    assert [tensor["stored"] for tensor in tensors[2:]] == [
        [-448, 448], [-6, 6], [1, 2], [7.5, 7.5],
    ]  # fmt: skip


def test_dynamic_sizes_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path, output = tmp_path / "model.mlir", tmp_path / "tensors.json"
    path.write_text("""
func.func @main(%x: tensor<?x2x!quant.uniform<i8:f32, 0.5>>) {
  return
}
""")
    assert main([str(path), "--json", str(output)]) == 0
    assert "?x2" in capsys.readouterr().out
    (tensor,) = json.loads(output.read_text())["tensors"]
    assert tensor["shape"] == [-1, 2]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (
            "func.func private @f(f32)",
            0,
            "{path}: no value has a quantized type; quantize a float model",
        ),
        ("", 1, "{path}: error: the text contains no op"),
        ("func.func", 1, "{path}:1:10: error: expect symbol name"),
        (
            "func.func private @f(!quant.uniform<i8:f32, 0.0>)",
            1,
            "{path}:1:48: error: scale 0.000000e+00 out of expressed type range",
        ),
        ("\0", 1, "{path}: error: expected the text of a module, but got a binary"),
    ],
)
def test_other_files(
    text: str,
    code: int,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    path = tmp_path / "model.mlir"
    path.write_text(text)
    assert main([str(path)]) == code
    captured = capsys.readouterr()
    assert (captured.out or captured.err).startswith(message.format(path=path))
    assert (captured.out + captured.err).count("\n") == 1


def test_mistakes(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([model, "--json", model]) == 1
    assert capsys.readouterr().err == (
        f"--json {model}: error: output would overwrite the input module; use another "
        "file\n"
    )
    assert Path(model).read_text() == TEXT
    missing = tmp_path / "missing.tflite"
    assert main([str(missing)]) == 1
    assert capsys.readouterr().err == f"{missing}: error: no such file or directory\n"


SUPER_BLOCKS = """
!q4_1 = !quant.block_scaled<u4:f32:{1:32}, scales = dense<[0.5, 2.0]> : tensor<2xf16>, offsets = dense<[-8.0, -0.5]> : tensor<2xf16>>
!k = !quant.block_scaled<u4:f32:{1:32}, scales = dense<3> : tensor<2xi6> as !quant.block_scaled<u6:f32:{}, scales = dense<0.5> : tensor<f16>>>
func.func @f() {
  %0 = arith.constant dense<15> : tensor<1x64xi4>
  %1 = quant.scast %0 : tensor<1x64xi4> to tensor<1x64x!q4_1>
  %2 = quant.scast %0 : tensor<1x64xi4> to tensor<1x64x!k>
  return
}"""  # noqa: E501 types on one line
TABLE_OF_SUPER_BLOCKS = """\
value  op           shape  storage  scale       zero point  offset    axis  stored  at bounds  bytes
%1     quant.scast  1x64   u4       0.5..2 (2)  -           -8..-0.5  1:32  15      100.00%    40
%2     quant.scast  1x64   u4       1.5 (2)     0           -         1:32  15      100.00%    36

quantized tensors: 2 u4
quantized constants: 76 bytes; as f32 512 bytes, 6.74 times as much
"""  # noqa: E501 lines of a table


def test_sizes_of_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Q4_1 has 5 bits for each element. Scales of scales count, too."""
    path = tmp_path / "model.mlir"
    path.write_text(SUPER_BLOCKS)
    assert main([str(path)]) == 0
    assert capsys.readouterr().out == TABLE_OF_SUPER_BLOCKS
