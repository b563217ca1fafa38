"""
What is compared with those who define the formats: inputs, and the answers of this package.

It runs in the environments of the oracles, too, so it needs NumPy only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.formats import FORMATS
from xdsl_quant.numerics.formats.block_scaled import BlockScaled
from xdsl_quant.numerics.formats.gguf import GGUFFormat
from xdsl_quant.numerics.formats.mx import NVFP4_FORMAT, MXFormat, ScaleRule
from xdsl_quant.numerics.formats.nf4 import NF4_FORMAT
from xdsl_quant.numerics.small_floats import small_float

Array = NDArray[Any]
Arrays = dict[str, Array]

GOLDEN = Path(__file__).with_name("golden")
"""What the oracles answered, one file for each."""

MX: Mapping[str, MXFormat] = {
    name: each for name, each in FORMATS.items() if isinstance(each, MXFormat)
}
GGUF: Mapping[str, GGUFFormat] = {
    name: each for name, each in FORMATS.items() if isinstance(each, GGUFFormat)
}
QUANTIZED_BY_GGUF = "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "GGUF_MXFP4"
TORCHAO_CASES = tuple(
    (name, rule)
    for name, rule in product(MX, get_args(ScaleRule))
    if name != "MXINT8" and rule != "even"
)
TENSOR_SCALES = None, 1.0, 0.37
"""Of NVFP4: that of the values, none, and one that is given."""


# Inputs


def drawn_values(random: np.random.Generator, rows: int = 128) -> NDArray[np.float32]:
    """
    Rows of 64 values: normal and heavy-tailed ones, many ties, zeros of both signs,
    subnormal numbers, powers of two with their neighbours, one huge value, largest
    magnitudes at the limits of rounding, infinities and NaN.
    """
    x = random.normal(size=(rows, 64))
    parts = np.array_split(np.arange(rows - 64), 4)
    x[parts[1]] *= np.exp2(random.integers(-100, 100, (len(parts[1]), 1)))
    x[parts[2]] = random.standard_t(2, (len(parts[2]), 64))
    sixteenths = random.integers(-64, 65, (len(parts[3]), 64)) / 16
    x[parts[3]] = sixteenths * np.exp2(random.integers(-9, 9, (len(parts[3]), 1)))
    special = x[-64:]
    special[0] = 0
    special[1, :32] = -0.0
    special[2, 3], special[3, 40] = 1e30, -1e30
    special[4] = -np.abs(special[4])
    special[5:9] *= np.array([[1e-39], [1e-42], [3e37], [1e-3]])
    special[9], special[10] = np.finfo(np.float32).max, 1e-45
    powers = np.exp2(np.arange(-30, 34)).astype(np.float32)
    special[11], special[12] = powers, np.nextafter(powers, np.float32(0))
    special[13] = np.nextafter(powers, np.float32(np.inf))
    special[16:60] *= 0.01
    special[16:48, 0] = 1 + np.arange(32) / 32
    special[16:48, 32] = np.nextafter((2 + np.arange(32) / 16).astype(np.float32), 0)
    # Ties between the largest element and what would be the next one.
    special[48:52, 0] = 1.75, 1.8125, 1.875, 1.9375
    special[48:52, 32] = -3.75, 7.9375, 3.5, np.nextafter(np.float32(1.8125), 2)
    special[60, 5], special[61, 5] = np.inf, -np.inf
    special[62, 5], special[63, [3, 7]] = np.nan, [np.nan, np.inf]
    return x.astype(np.float32)


def _largest(values: Array) -> Array:
    return np.abs(values).max(-1, initial=0)


def gguf_inputs(random: np.random.Generator, rows: int = 128) -> Arrays:
    """
    Values that f16 scales and offsets can have; and bytes, but not those with the scale
    255 of MXFP4, which is NaN here.
    """
    values = drawn_values(random, rows)
    largest = _largest(values)
    values = values[((largest > 1e-36) | (largest == 0)) & (largest < 6e4)]
    inputs: Arrays = {"values": values}
    for name, each in GGUF.items():
        shape = (rows // 32, 2 * each.layout.itemsize)
        data = random.integers(0, 256, shape, dtype=np.uint8)
        if name == "GGUF_MXFP4":
            data[:, :: each.layout.itemsize] %= 255
        inputs[f"{name}/data"] = data
    return inputs


def torchao_inputs(random: np.random.Generator, rows: int = 128) -> Arrays:
    """
    Values without NaN, and without two kinds of blocks: those whose scale would be less
    than 2^-126, which torchao divides by another one; and those whose scale with the rule
    `rceil` is just above a power of two, whose logarithm torchao rounds to an integer.
    """
    values = drawn_values(random, rows)
    of_blocks = _largest(values.reshape(-1, 2, 32))
    blocks = of_blocks.min(-1)
    is_right = ~np.isnan(blocks) & ((blocks > 1e-30) | (_largest(values) == 0))
    for each in MX.values():
        if each.type != "i8":
            mantissas, _ = np.frexp(of_blocks / small_float(each.type).largest)
            is_right &= ~((mantissas > 0.5) & (mantissas < 0.5 + 2.0**-19)).any(-1)
    values = values[is_right]
    finite = values[(_largest(values) < 1e9)]
    return {"values": values, "finite": finite}


def tosa_inputs(random: np.random.Generator, rows: int = 128) -> Arrays:
    """All values."""
    return {"values": drawn_values(random, rows)}


def bitsandbytes_inputs(random: np.random.Generator, rows: int = 128) -> Arrays:
    """
    Finite values, of which the last block is shorter, and those of which the mean of the
    scales is one of f32.
    """
    values = drawn_values(random, rows).reshape(-1)
    values = values[np.isfinite(values)]
    return {"values": values[:-27], "moderate": values[np.abs(values) < 1e4][:-1]}


def packed_inputs(random: np.random.Generator, rows: int = 128) -> Arrays:
    """Bits of AWQ, and weights for GPTQ, which AutoGPTQ has for multiples of 32 outputs."""
    rows -= rows % 32
    bits: Arrays = {
        name: random.integers(-(2**31), 2**31, shape).astype(np.int32)
        for name, shape in (("qweight", (256, rows // 8)), ("qzeros", (2, rows // 8)))
    }
    scales = random.lognormal(size=(2, rows)).astype(np.float16)
    shape = rows, 256
    return bits | {
        "scales": scales,
        "values": random.normal(size=shape).astype(np.float32),
    }


INPUTS = {
    "gguf": gguf_inputs,
    "torchao": torchao_inputs,
    "tosa": tosa_inputs,
    "bitsandbytes": bitsandbytes_inputs,
    "packed": packed_inputs,
}
"""The inputs for each oracle; `packed` are AutoGPTQ and AutoAWQ."""


# Answers


def _gguf(inputs: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    for name, each in GGUF.items():
        if name in QUANTIZED_BY_GGUF:
            data = each.pack(each.quantize(inputs["values"]))["data"]
            yield f"{name}/quantized", data
        numbers = each.unpack({"data": inputs[f"{name}/data"]}).dequantize()
        if name == "GGUF_MXFP4":
            # In GGUF -0 is the same as 0.
            numbers += 0
        yield f"{name}/dequantized", numbers


def _torchao(inputs: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    for name, rule in TORCHAO_CASES:
        stored = MX[name].quantize(inputs["values"], rule)
        yield from _packed(f"{name}/{rule}", name, stored)
    for scale in TENSOR_SCALES:
        stored = NVFP4_FORMAT.quantize(inputs["finite"], tensor_scale=scale)
        yield from _packed(f"NVFP4/{scale}", "NVFP4", stored)


def _packed(key: str, name: str, stored: BlockScaled) -> Iterator[tuple[str, Array]]:
    for part, array in FORMATS[name].pack(stored).items():
        yield f"{key}/{part}", array
    yield f"{key}/dequantized", stored.dequantize()


def _tosa(inputs: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    for name, each in MX.items():
        stored = each.quantize(inputs["values"], "even")
        unit = 64 if name == "MXINT8" else 1
        yield f"{name}/scales", stored.scales.dequantize() * unit
        yield f"{name}/dequantized", stored.dequantize()


def _bitsandbytes(inputs: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    stored = NF4_FORMAT.quantize(inputs["values"])
    packed = NF4_FORMAT.pack(stored)
    yield "weight", packed["weight"]
    yield "absmax", packed["absmax"]
    yield "dequantized", stored.dequantize()
    # PyTorch's sums and tables depend on the processor.
    stored = NF4_FORMAT.quantize(
        inputs["moderate"],
        quantizes_scales=True,
        offset=float(inputs["nested_offset"]),
        table=inputs["nested_quant_map"].tolist(),
    )
    for name, array in NF4_FORMAT.pack(stored).items():
        if name in ("weight", "absmax", "nested_absmax"):
            yield f"double/{name}", array
    yield "double/dequantized", stored.dequantize()


def _group_formats(inputs: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    awq, gptq = (FORMATS[name] for name in ("AWQ", "GPTQ"))
    yield "AWQ/dequantized", awq.unpack(inputs).dequantize().T.astype(np.float16)
    stored = gptq.quantize(inputs["values"])
    packed = gptq.pack(stored)
    yield "GPTQ/qweight", packed["qweight"]
    yield "GPTQ/qzeros", packed["qzeros"]
    yield "GPTQ/dequantized", stored.dequantize()


_ANSWERS = {
    "gguf": _gguf,
    "torchao": _torchao,
    "tosa": _tosa,
    "bitsandbytes": _bitsandbytes,
    "packed": _group_formats,
}


def answers(oracle: str, inputs: Mapping[str, Array]) -> Arrays:
    """What this package answers to the questions for an oracle."""
    return dict(_ANSWERS[oracle](inputs))


def count_differing(first: Array, second: Array) -> int:
    """How many elements differ in their bits, but for what is NaN in both."""
    kinds = [(each.dtype, each.shape) for each in (first, second)]
    assert kinds[0] == kinds[1], kinds
    bits = f"u{first.itemsize}"
    first, second = np.atleast_1d(first), np.atleast_1d(second)
    contiguous = (np.ascontiguousarray(each) for each in (first, second))
    is_other = np.not_equal(*(each.view(bits) for each in contiguous))
    if first.dtype.kind == "f":
        is_other &= ~(np.isnan(first) & np.isnan(second))
    return int(is_other.sum())
