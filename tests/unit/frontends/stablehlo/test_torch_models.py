"""Models of PyTorch; `tests/oracles/torch_networks.py` runs the real torch-mlir."""

import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from xdsl_quant.frontends.stablehlo import torch_models
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import IRError, as_module, parse_module

EXAMPLES = Path(__file__).parents[4] / "docs/examples"


class ExportedProgram:
    """Stands for the class of PyTorch."""

    __module__ = "torch.export.exported_program"


class Module:
    """Stands for the base class of networks."""

    __module__ = "torch.nn.modules.module"


class Network(Module):
    """A network that a user defines."""


def test_other_objects_of_pytorch():
    expected = (
        "model must be an ExportedProgram, not Network of PyTorch; pass "
        "torch.export.export\\(model, inputs\\)"
    )
    with pytest.raises(TypeError, match=expected):
        quantize(Network(), [])  # pyright: ignore[reportArgumentType] a mistake


def test_without_torch_mlir(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch_models, "find_spec", lambda name: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] of any name
    with pytest.raises(ImportError, match="pip install --no-deps torch-mlir packaging"):
        as_module(ExportedProgram())  # pyright: ignore[reportArgumentType] as `Model` does not name classes of PyTorch


def test_the_process_of_torch_mlir(monkeypatch: pytest.MonkeyPatch):
    text, returned = (EXAMPLES / "torch_mlp.mlir").read_text(), [0, 1]

    def save(program: object, path: Path) -> None:
        path.write_bytes(b"program")

    def run(command: list[object], **_: object) -> SimpleNamespace:
        program, result = command[-2:]
        assert isinstance(program, Path)
        assert isinstance(result, Path)
        assert program.read_bytes() == b"program"
        result.write_text(text)
        return SimpleNamespace(returncode=returned.pop(0), stderr="a\nunknown op: b\n")

    torch = ModuleType("torch")
    torch.__dict__["export"] = SimpleNamespace(save=save)
    monkeypatch.setitem(sys.modules, "torch", torch)

    def find_spec(name: str) -> ModuleSpec:
        return ModuleSpec(name, None)

    monkeypatch.setattr(torch_models, "find_spec", find_spec)
    monkeypatch.setattr(subprocess, "run", run)
    assert "stablehlo.dot_general" in str(as_module(ExportedProgram()))  # pyright: ignore[reportArgumentType] see above
    with pytest.raises(IRError) as error:
        as_module(ExportedProgram())  # pyright: ignore[reportArgumentType] see above
    assert str(error.value) == (
        "ExportedProgram: error: torch-mlir cannot convert it: unknown op: b"
    )


@pytest.mark.parametrize(
    ("suffix", "advice"),
    [
        (".pt2", "load it with torch.export.load in Python, and pass the program"),
        (".safetensors", "torch.export.export(model, inputs) in Python"),
        (".keras", "convert it to a .tflite file with TensorFlow's TFLiteConverter"),
    ],
)
def test_files_without_a_reader(tmp_path: Path, suffix: str, advice: str):
    path = tmp_path / f"model{suffix}"
    path.write_bytes(b"PK\x03\x04\xff\x00")
    for model in (path, str(path)):
        with pytest.raises(IRError) as error:
            as_module(model)
        assert str(error.value).endswith(advice)


def test_constants_are_folded_and_resources_saved(tmp_path: Path):
    samples = np.load(EXAMPLES / "torch_samples.npy")
    model = quantize(EXAMPLES / "torch_mlp.mlir", samples)
    report = model.report(samples)
    names = [kernel.kernel for kernel in report.kernels]
    broadcast = "stablehlo.broadcast_in_dim"
    assert names == [broadcast, "product_bias_relu", broadcast, "product_bias"]
    assert min(report.outputs.values()) > 40
    model.save(path := tmp_path / "int8.mlir")
    text = path.read_text()
    assert text.count("dense_resource<") == 2
    assert text.count("_quantized_0: ") == 2 or text.count("_quantized") >= 4
    parse_module(text)
