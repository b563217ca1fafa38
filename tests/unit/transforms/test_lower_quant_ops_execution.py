"""Lowered casts are compiled, run, and held against the reference bit for bit."""

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.universe import Universe

from examples.wake_word.run_mlir import CompiledModule
from xdsl_quant.rounding_mode import RoundingMode
from xdsl_quant.transforms.lower_quant_ops import LowerQuantOpsPass

from .quantization_reference import (
    DTYPES,
    Storage,
    dequantize,
    edge_values,
    is_convertible,
    quantize,
)

_ir: Any = import_module("mlir.ir")
_passmanager: Any = import_module("mlir.passmanager")

I8 = Storage("i8", -128, 127)
U8 = Storage("u8", 0, 255)
I4 = Storage("i4", -8, 7)
NARROW_I8 = Storage("i8", -127, 127)
NARROW_U8 = Storage("u8", 3, 200)
I16 = Storage("i16", -32768, 32767)
U16 = Storage("u16", 0, 65535)
I32 = Storage("i32", -(2**31), 2**31 - 1)
U32 = Storage("u32", 0, 2**32 - 1)
I24 = Storage("i24", -(2**23), 2**23 - 1)
I1 = Storage("i1", -1, 0)

Container = Literal["scalar", "ranked", "dynamic", "unranked"]


@dataclass(frozen=True)
class Case:
    """A quantized type on a tensor."""

    name: str
    container: Container
    expressed: str
    storage: Storage
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None
    blocks: tuple[tuple[int, int], ...] | None = None
    scales_shape: tuple[int, ...] = ()
    """Shape in which the scales are spelled, for blocks."""

    rows: int = 1

    @property
    def quantized_type(self) -> str:
        storage = f"{self.storage.name}<{self.storage.low}:{self.storage.high}>"
        elements = [
            f"{s:.20f}:{z}" for s, z in zip(self.scales, self.zero_points, strict=True)
        ]
        prefix = f"!quant.uniform<{storage}:{self.expressed}"
        if self.blocks is not None:
            for size in reversed(self.scales_shape):
                elements = [
                    f"{{{', '.join(elements[i : i + size])}}}"
                    for i in range(0, len(elements), size)
                ]
            blocks = ", ".join(f"{axis}:{size}" for axis, size in self.blocks)
            return f"{prefix}:{{{blocks}}}, {elements[0]}>"
        if self.axis is not None:
            return f"{prefix}:{self.axis}, {{{','.join(elements)}}}>"
        return f"{prefix}, {elements[0]}>"

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return self.values().shape

    def values(self) -> NDArray[Any]:
        """Expressed values that include the edges of every scale."""
        columns = [
            edge_values(scale, zero_point, self.storage)
            for scale, zero_point in zip(self.scales, self.zero_points, strict=True)
        ]
        count = len(columns[0]) // 12 * 12
        with np.errstate(all="ignore"):
            if self.blocks is None and self.axis is None:
                return np.array(columns[0]).astype(DTYPES[self.expressed])
            if self.blocks is None:
                table = np.array([column[:count] for column in columns])
                table = table if self.axis == 0 else np.ascontiguousarray(table.T)
                return table.astype(DTYPES[self.expressed])
            table = np.array([c for column in columns for c in column[-60:]])
            return np.resize(table, (self.rows, 4, 12)).astype(DTYPES[self.expressed])

    def parameters(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Scales and zero points as arrays that broadcast to the values."""
        scales, zero_points = np.array(self.scales), np.array(self.zero_points)
        if self.blocks is not None:
            blocks = dict(self.blocks)
            full = [
                size // blocks[axis] if axis in blocks else 1
                for axis, size in enumerate(self.shape)
            ]
            scales, zero_points = scales.reshape(full), zero_points.reshape(full)
            for axis, size in blocks.items():
                scales = scales.repeat(size, axis)
                zero_points = zero_points.repeat(size, axis)
        elif self.axis == 0:
            scales, zero_points = scales[:, None], zero_points[:, None]
        return scales, zero_points


def _cases() -> list[Case]:
    cases: list[Case] = []
    for container in ("scalar", "ranked", "dynamic", "unranked"):
        for expressed in DTYPES:
            for storage, zero_point in (
                (I8, 3),
                (U8, 130),
                (I4, 0),
                (NARROW_I8, 0),
                (NARROW_U8, 17),
                (I16, -7),
                (U16, 65000),
                (I32, 12345),
                (U32, 0),
                (I24, 1),
                (I1, 0),
            ):
                if container != "ranked" and expressed != "f32":
                    continue
                if container != "ranked" and storage in (I4, I16, U16, I24):
                    continue
                # MLIR does not compile a tensor.splat of i1 with dynamic sizes.
                if container in ("dynamic", "unranked") and storage == I1:
                    continue
                # LLVM converts f64 to bf16 by a call into a library that is not loaded.
                if expressed == "bf16" and storage.width > 16:
                    continue
                # One scale that is a power of two in all types, and one that is not.
                for scale in (0.25, 0.1):
                    low = str(storage.low).replace("-", "m")
                    name = f"{container}_{expressed}_{storage.name}_{low}"
                    cases.append(
                        Case(
                            f"{name}_{scale}".replace(".", "p"),
                            container,
                            expressed,
                            storage,
                            (scale,),
                            (zero_point,),
                        )
                    )
    for container in ("ranked", "dynamic", "unranked"):
        for axis in (0, 1):
            storages = (I8, NARROW_U8, I16, I32) if container == "ranked" else (I8,)
            for storage in storages:
                for zero_points in ((0, 0, 0), (5, 100, 64)):
                    name = f"axis{axis}_{container}_{storage.name}_{zero_points[0]}"
                    cases.append(
                        Case(
                            name,
                            container,
                            "f32",
                            storage,
                            (0.5, 0.1, 3.0),
                            zero_points,
                            axis,
                        )
                    )
        for blocks, shape, compact in (
            (((1, 2), (2, 6)), (1, 2, 2), (2, 2)),
            (((2, 3),), (1, 1, 4), (4,)),
            (((2, 6), (1, 2)), (1, 2, 2), (2, 2)),
            (((0, 1), (2, 12)), (3, 1, 1), (3, 1)),
        ):
            count = int(np.prod(shape))
            scales = (0.5, 0.1, 0.25, 1.5)[:count]
            for spelled in (shape, compact) if container == "unranked" else (shape,):
                name = f"blocks_{container}_{'_'.join(map(str, blocks))}_{len(spelled)}"
                cases.append(
                    Case(
                        "".join(c if c.isalnum() else "_" for c in name),
                        container,
                        "f32",
                        I8,
                        scales,
                        (0, 5, -3, 100)[:count],
                        None,
                        blocks,
                        spelled,
                        shape[0] if shape[0] > 1 else 2,
                    )
                )
    return cases


CASES = _cases()


def _tensor(case: Case, element_type: str, container: str) -> str:
    if container == "unranked":
        return f"tensor<*x{element_type}>"
    sizes = "?" if container == "dynamic" else None
    return (
        f"tensor<{''.join(f'{sizes or size}x' for size in case.shape)}{element_type}>"
    )


def _elementwise(
    case: Case, value: str, from_type: str, to_type: str, body: str, result: str
) -> str:
    """A linalg.generic that computes `body` for each `%in`, from type to type."""
    dims = ", ".join(f"d{i}" for i in range(len(case.shape)))
    identity = f"affine_map<({dims}) -> ({dims})>"
    kinds = ", ".join(['"parallel"'] * len(case.shape))
    source, target = (_tensor(case, t, "ranked") for t in (from_type, to_type))
    return f"""
      {result}_empty = tensor.empty() : {target}
      {result} = linalg.generic {{indexing_maps = [{identity}, {identity}],
          iterator_types = [{kinds}]}}
          ins({value} : {source}) outs({result}_empty : {target}) {{
      ^bb0(%in: {from_type}, %out: {to_type}):
        {body}
      }} -> {target}"""


def _signless(case: Case) -> str:
    return f"i{case.storage.width}"


def _widen(case: Case, value: str, result: str) -> str:
    """Stored values as i64."""
    stored = _signless(case)
    extend = "arith.extsi" if case.storage.is_signed else "arith.extui"
    body = f"%w = {extend} %in : {stored} to i64\nlinalg.yield %w : i64"
    return _elementwise(case, value, stored, "i64", body, result)


def _narrow(case: Case, value: str, result: str) -> str:
    """Stored values from i64."""
    stored = _signless(case)
    body = f"%n = arith.trunci %in : i64 to {stored}\nlinalg.yield %n : {stored}"
    return _elementwise(case, value, "i64", stored, body, result)


def _cast(case: Case, value: str, element_type: str, back: bool, result: str) -> str:
    static = _tensor(case, element_type, "ranked")
    other = _tensor(case, element_type, case.container)
    source, target = (other, static) if back else (static, other)
    return f"{result} = tensor.cast {value} : {source} to {target}"


def _functions(case: Case) -> str:
    """
    `quantize` takes expressed values and returns i64, `dequantize` the reverse,
    as bits."""
    expressed, stored, quantized = case.expressed, _signless(case), case.quantized_type
    if case.container == "scalar":
        quantize_body = _elementwise(
            case,
            "%x",
            expressed,
            stored,
            f"""%q = quant.qcast %in : {expressed} to {quantized}
        %s = quant.scast %q : {quantized} to {stored}
        linalg.yield %s : {stored}""",
            "%stored",
        )
        dequantize_body = _elementwise(
            case,
            "%stored",
            stored,
            expressed,
            f"""%q = quant.scast %in : {stored} to {quantized}
        %e = quant.dcast %q : {quantized} to {expressed}
        linalg.yield %e : {expressed}""",
            "%y",
        )
    else:
        values = {
            element_type: _tensor(case, element_type, case.container)
            for element_type in (expressed, stored, quantized)
        }
        quantize_body = f"""
      {_cast(case, "%x", expressed, False, "%c")}
      %q = quant.qcast %c : {values[expressed]} to {values[quantized]}
      %s = quant.scast %q : {values[quantized]} to {values[stored]}
      {_cast(case, "%s", stored, True, "%stored")}"""
        dequantize_body = f"""
      {_cast(case, "%stored", stored, False, "%c")}
      %q = quant.scast %c : {values[stored]} to {values[quantized]}
      %e = quant.dcast %q : {values[quantized]} to {values[expressed]}
      {_cast(case, "%e", expressed, True, "%y")}"""
    wide, real = _tensor(case, "i64", "ranked"), _tensor(case, expressed, "ranked")
    integer = f"i{8 * np.dtype(DTYPES[expressed]).itemsize}"
    # A copy of a tensor that was unranked would be a call into a library of MLIR's.
    bits_body = _elementwise(
        case,
        "%y",
        expressed,
        integer,
        f"%b = arith.bitcast %in : {expressed} to {integer}\nlinalg.yield %b : {integer}",
        "%bits",
    )
    bits = _tensor(case, integer, "ranked")
    return f"""
    func.func @quantize_{case.name}(%x: {real}) -> {wide} {{{quantize_body}
      {_widen(case, "%stored", "%wide")}
      return %wide : {wide}
    }}
    func.func @dequantize_{case.name}(%wide: {wide}) -> {bits} {{
      {_narrow(case, "%wide", "%stored")}{dequantize_body}{bits_body}
      return %bits : {bits}
    }}"""


@pytest.fixture(scope="module")
def module() -> ModuleOp:
    """All functions of all cases."""
    ctx = Context()
    for name, factory in Universe.get_multiverse().all_dialects.items():
        ctx.register_dialect(name, factory)
    parsed = Parser(ctx, "\n".join(map(_functions, CASES))).parse_module()
    parsed.verify()
    return parsed


def _lower(module: ModuleOp, lower: LowerQuantOpsPass) -> str:
    ctx = Context()
    lower.apply(ctx, module)
    module.verify()
    # MLIR with assertions does not read all types: no cast to one of them may be left.
    CanonicalizePass().apply(ctx, module)
    lowered = str(module)
    assert "quant." not in lowered
    return lowered


def _compile(text: str) -> CompiledModule:
    with _ir.Context():
        module = _ir.Module.parse(text)
        _passmanager.PassManager.parse(
            "builtin.module(canonicalize,func.func(shape-to-shape-lowering),"
            "convert-shape-to-std,canonicalize)"
        ).run(module.operation)
        return CompiledModule(str(module), [], opt_level=0)


def _check_quantize(
    compiled: CompiledModule, case: Case, rounding_mode: RoundingMode
) -> None:
    values = case.values()
    scales, zero_points = case.parameters()
    expected = quantize(
        values, scales, zero_points, case.expressed, case.storage, rounding_mode
    )
    actual = np.zeros(values.shape, np.int64)
    compiled.call(f"quantize_{case.name}", values, actual)
    if rounding_mode == "truncate":
        defined = is_convertible(
            values, scales, zero_points, case.expressed, case.storage
        )
        expected, actual = expected[defined], actual[defined]
    np.testing.assert_array_equal(actual, expected, err_msg=case.name)


def _stored_values(case: Case) -> NDArray[np.int64]:
    low, high = case.storage.low, case.storage.high
    values = {low, low + 1, 0, 1, (low + high) // 2, high - 1, high}
    values |= set(np.linspace(low, high, 101).astype(np.int64).tolist())
    usable = sorted(v for v in values if low <= v <= high)
    return np.resize(np.array(usable), case.shape)


def _check_dequantize(
    compiled: CompiledModule, case: Case, rounding_mode: RoundingMode
) -> None:
    stored = _stored_values(case)
    scales, zero_points = case.parameters()
    expected = dequantize(
        stored, scales, zero_points, case.expressed, case.storage, rounding_mode
    )
    actual = np.zeros(stored.shape, f"u{expected.itemsize}")
    compiled.call(f"dequantize_{case.name}", stored, actual)
    np.testing.assert_array_equal(
        actual, expected.view(actual.dtype), err_msg=case.name
    )


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("rounding_mode", ["truncate", "nearest-even", "nearest-away"])
def test_compiled_casts_agree_with_numpy(
    module: ModuleOp, rounding_mode: RoundingMode, fuse: bool
):
    lowered = _lower(module.clone(), LowerQuantOpsPass(rounding_mode, fuse))
    compiled = _compile(lowered)
    for case in CASES:
        _check_quantize(compiled, case, rounding_mode)
        _check_dequantize(compiled, case, rounding_mode)
