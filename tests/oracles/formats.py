"""
Compare the named formats with those who define them: `make formats`.

    .venv-gguf/bin/python -m tests.oracles.formats gguf --rows 20000

It runs in an environment that has NumPy and the oracle. With `--write`, answers to few
questions are written to the files that the unit tests compare with.

The exit code is 1 if a bit differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import distribution
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tests.unit.numerics.formats.answers import (
    GGUF,
    GOLDEN,
    INPUTS,
    MX,
    QUANTIZED_BY_GGUF,
    TENSOR_SCALES,
    TORCHAO_CASES,
    Array,
    Arrays,
    answers,
    count_differing,
)
from xdsl_quant.numerics.formats import FORMATS

ROOT = Path(__file__).parents[2]

Pairs = Iterator[tuple[str, Array]]


def gguf(inputs: Mapping[str, Array]) -> Pairs:
    """What the package `gguf` answers."""
    quants: Any = import_module("gguf.quants")
    types: Any = import_module("gguf.constants").GGMLQuantizationType
    for name in GGUF:
        type_ = types[name.removeprefix("GGUF_")]
        if name in QUANTIZED_BY_GGUF:
            yield f"{name}/quantized", quants.quantize(inputs["values"], type_)
        yield f"{name}/dequantized", quants.dequantize(inputs[f"{name}/data"], type_)


def torchao(inputs: Mapping[str, Array]) -> Pairs:
    """What `torchao` answers."""
    torch: Any = import_module("torch")
    mx: Any = import_module("torchao.prototype.mx_formats.mx_tensor")
    nvfp4: Any = import_module("torchao.prototype.mx_formats.nvfp4_tensor")
    elements: Any = {
        "MXFP8_E4M3": torch.float8_e4m3fn,
        "MXFP8_E5M2": torch.float8_e5m2,
        "MXFP6_E2M3": "fp6_e2m3",
        "MXFP6_E3M2": "fp6_e3m2",
        "MXFP4": torch.float4_e2m1fn_x2,
    }

    def bytes_of(tensor: Any) -> Array:
        return tensor.view(torch.uint8).numpy()

    values = torch.from_numpy(inputs["values"])
    for name, rule in TORCHAO_CASES:
        mode = mx.ScaleCalculationMode[rule.upper()]
        scale, data = mx.to_mx(values, elements[name], 32, mode)
        key = f"{name}/{rule}"
        yield f"{key}/scale", bytes_of(scale)
        yield f"{key}/qdata", bytes_of(data)
        numbers = mx.to_dtype(data, scale, elements[name], 32, torch.float32)
        yield f"{key}/dequantized", numbers.numpy()
    finite = torch.from_numpy(inputs["finite"])
    for given in TENSOR_SCALES:
        scale: Any = torch.tensor(given) if given else None
        if given is None:
            scale = nvfp4.per_tensor_amax_to_scale(finite.abs().max())
        # 1 is a format of one level, for which torchao has no scale.
        scale_or_none = None if given == 1 else scale
        scales, data = nvfp4.nvfp4_quantize(finite, 16, scale_or_none)
        tensor = nvfp4.NVFP4Tensor(data, scales, 16, torch.float32, scale_or_none)
        key = f"NVFP4/{given}"
        yield f"{key}/qdata", bytes_of(data)
        yield f"{key}/scale", bytes_of(scales)
        yield f"{key}/per_tensor_scale", scale.numpy()
        yield f"{key}/dequantized", tensor.dequantize(torch.float32).numpy()


_TOSA_MODULE = """
func.func @main(%values: {values}) -> ({values}, {values}) {{
  %ones = "tosa.const"() {{values = dense<1.0> : {ones}}} : () -> {ones}
  %stored:2 = tosa.cast_to_block_scaled %values {{block_size = {block}}}
      : ({values}) -> ({stored}, {scales})
  %numbers = tosa.cast_from_block_scaled %stored#0, %stored#1 {{block_size = {block}}}
      : ({stored}, {scales}) -> {values}
  %spread = tosa.cast_from_block_scaled %ones, %stored#1 {{block_size = {block}}}
      : ({ones}, {scales}) -> {values}
  return %spread, %numbers : {values}, {values}
}}
"""


def tosa(inputs: Mapping[str, Array]) -> Pairs:
    """What TOSA's reference model answers. It does not show the codes of what it stores."""
    sys.path.append(str(ROOT / "xdsl_quant" / "rosetta"))
    worker: Any = import_module("tosa_worker")
    values = inputs["values"]
    rows, size = values.shape
    for name, each in MX.items():
        element = "!tosa.mxint8" if each.type == "i8" else each.type
        text = _TOSA_MODULE.format(
            values=f"tensor<{rows}x{size}xf32>",
            ones=f"tensor<{rows}x{size}xf8E4M3FN>",
            stored=f"tensor<{rows}x{size}x{element}>",
            scales=f"tensor<{rows}x{size // 32}xf8E8M0FNU>",
            block="#tosa.block_size<BLOCK_SIZE_32>",
        )
        status, results = worker.run_once(text, [values])
        if status != "runs":
            raise RuntimeError(f"{name}: {results}")
        spread, numbers = map(np.asarray, results)
        yield f"{name}/scales", spread[:, ::32]
        yield f"{name}/dequantized", numbers


def bitsandbytes(inputs: Mapping[str, Array]) -> Pairs:
    """What `bitsandbytes` answers on a CPU."""
    torch: Any = import_module("torch")
    functional: Any = import_module("bitsandbytes.functional")
    for prefix, name in (("", "values"), ("double/", "moderate")):
        is_double = name == "moderate"
        values = torch.from_numpy(inputs[name])
        weight, state = functional.quantize_4bit(
            values, blocksize=64, quant_type="nf4", compress_statistics=is_double
        )
        yield f"{prefix}weight", weight.numpy()
        yield f"{prefix}absmax", state.absmax.numpy()
        if is_double:
            yield f"{prefix}nested_absmax", state.state2.absmax.numpy()
        numbers = functional.dequantize_4bit(weight, state)
        yield f"{prefix}dequantized", numbers.numpy().reshape(values.shape)


def with_double_quantization(inputs: Arrays):
    """Add the offset and the table that `bitsandbytes` computes."""
    torch: Any = import_module("torch")
    functional: Any = import_module("bitsandbytes.functional")
    _, state = functional.quantize_4bit(
        torch.from_numpy(inputs["moderate"]),
        blocksize=64,
        quant_type="nf4",
        compress_statistics=True,
    )
    inputs["nested_offset"] = state.offset.numpy()
    inputs["nested_quant_map"] = state.state2.code.numpy()


def packed(inputs: Mapping[str, Array]) -> Pairs:
    """
    What AutoAWQ and AutoGPTQ answer: one module of each, since both packages need versions
    of others that are gone.
    """
    torch: Any = import_module("torch")
    awq = _module_of("autoawq", "awq/utils/packing_utils.py")
    names = "qweight", "qzeros", "scales"
    tensors = [torch.from_numpy(inputs[name]) for name in names]
    yield "AWQ/dequantized", awq.dequantize_gemm(*tensors, 4, 128).numpy()

    class Conv1D:
        """Nothing is one of these."""

    transformers: Any = ModuleType("transformers")
    transformers.pytorch_utils = SimpleNamespace(Conv1D=Conv1D)
    sys.modules["transformers"] = transformers
    gptq = _module_of("auto-gptq", "auto_gptq/nn_modules/qlinear/qlinear_cuda_old.py")
    stored = FORMATS["GPTQ"].quantize(inputs["values"])
    assert stored.zero_points is not None
    outputs, size = stored.shape
    linear = torch.nn.Linear(size, outputs, bias=False)
    linear.weight.data = torch.from_numpy(stored.dequantize())
    module = gptq.QuantLinear(4, 128, size, outputs, False, weight_dtype=torch.float32)
    scales, zero_points = (
        torch.from_numpy(part.codes.astype(np.float32))
        for part in (stored.scales, stored.zero_points)
    )
    module.pack(linear, scales, zero_points, None)
    yield "GPTQ/qweight", module.qweight.numpy()
    yield "GPTQ/qzeros", module.qzeros.numpy()
    yield "GPTQ/dequantized", module(torch.eye(size)).T.contiguous().numpy()


def _module_of(package: str, path: str) -> Any:
    """A module of an installed package, without those that the package imports."""
    file = str(distribution(package).locate_file(path))
    spec = spec_from_file_location(Path(path).stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ORACLES: Mapping[str, Callable[[Mapping[str, Array]], Pairs]] = {
    "gguf": gguf,
    "torchao": torchao,
    "tosa": tosa,
    "bitsandbytes": bitsandbytes,
    "packed": packed,
}


def compared(oracle: str, inputs: Arrays) -> tuple[Arrays, int, int]:
    """The oracle's answers, how many numbers they have, and how many of these differ."""
    if oracle == "bitsandbytes":
        with_double_quantization(inputs)
    with np.errstate(all="ignore"):
        expected = dict(ORACLES[oracle](inputs))
    found = answers(oracle, inputs)
    assert expected.keys() == found.keys(), expected.keys() ^ found.keys()
    differing = {key: count_differing(found[key], expected[key]) for key in expected}
    for key, count in differing.items():
        if count:
            print(f"    {key}: {count} of {expected[key].size} differ")
    total = sum(array.size for array in expected.values())
    return expected, total, sum(differing.values())


def main(args: Sequence[str] | None = None) -> int:
    """The exit code for the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracles.formats")
    parser.add_argument("oracles", nargs="+", choices=ORACLES)
    parser.add_argument("--rows", type=int, default=20_000, help="of 64 values")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--write", action="store_true", help="write what the unit tests compare with"
    )
    options = parser.parse_args(args)
    failures = 0
    for oracle in options.oracles:
        if options.write:
            inputs = INPUTS[oracle](np.random.default_rng(1), 80)
            expected: Any
            expected, _, differing = compared(oracle, inputs)
            failures += differing
            GOLDEN.mkdir(exist_ok=True)
            arrays: Any = {f"inputs/{key}": array for key, array in inputs.items()}
            np.savez_compressed(GOLDEN / f"{oracle}.npz", **arrays, **expected)
        inputs = INPUTS[oracle](np.random.default_rng(options.seed), options.rows)
        _, total, differing = compared(oracle, inputs)
        print(f"{oracle}: {total:,} numbers compared, {differing} differ")
        failures += differing
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
