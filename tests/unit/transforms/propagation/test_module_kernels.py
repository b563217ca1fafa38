"""Modules without kernels."""

import pytest

from xdsl_quant.runtime.loading import apply_passes, parse_module

TEXT = "func.func @f(%x: tensor<4xf32>) {\n  func.return\n}"


@pytest.mark.parametrize(
    "name",
    [
        "quant-propagate{target=tflite-int8}",
        "quant-inline-regions",
    ],
)
def test_a_pass_says_that_there_is_nothing_to_do(
    name: str, capsys: pytest.CaptureFixture[str]
):
    apply_passes(parse_module(TEXT), name)
    assert capsys.readouterr().err == (
        f"warning: '{name.partition('{')[0]}' changed nothing, expected kernels, which "
        "'quant-fuse-kernels' creates, found none\n"
    )


@pytest.mark.parametrize("name", ["quant-export", "quant-export{mode=codegen}"])
def test_export_says_that_there_is_nothing_to_do(
    name: str, capsys: pytest.CaptureFixture[str]
):
    apply_passes(parse_module(TEXT), name)
    assert capsys.readouterr().err == (
        "warning: 'quant-export' changed nothing, expected a 'quant.region' with a "
        "quantized form, which 'quant-fuse-kernels' creates, found none\n"
    )


def test_a_pass_that_does_something_says_nothing(capsys: pytest.CaptureFixture[str]):
    kernel = '  quant.region "empty" () {}\n  func.return'
    apply_passes(parse_module(TEXT.replace("  func.return", kernel)), "quant-export")
    assert capsys.readouterr().err == ""
