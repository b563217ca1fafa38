"""Casts to and from quantized types, with values at which they go wrong if they do."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tests.agreement.reference import Storage, edge_values
from xdsl_quant.dialects.quant import uniform_type
from xdsl_quant.numerics import QuantizationParameters

Container = Literal["scalar", "static", "dynamic", "unranked"]
_CONTAINERS: tuple[Container, ...] = get_args(Container)

EXPRESSED_TYPES = ("f16", "bf16", "f32", "f64")


@dataclass(frozen=True)
class Case:
    """A quantized type, and the kind of value that is cast to and from it."""

    name: str
    container: Container
    parameters: QuantizationParameters
    shape: tuple[int, ...]
    """Shape of the values, which are passed one by one to a function on scalars."""

    compact_scales: bool = False
    """Whether the scales of blocks have no dimension for what is not cut into blocks."""

    @cached_property
    def storage(self) -> Storage:
        p = self.parameters
        return Storage(p.storage, p.storage_min, p.storage_max)

    @property
    def element_types(self) -> tuple[str, str, str]:
        """The expressed type, the quantized type, and the signless storage type."""
        quantized_type = uniform_type(self._spelled_parameters())
        signless = f"i{self.parameters.storage_width}"
        return self.parameters.expressed, str(quantized_type), signless

    def _spelled_parameters(self) -> QuantizationParameters:
        p = self.parameters
        if not self.compact_scales or p.block_sizes is None:
            return p
        kept = [p.scales.shape[dimension] for dimension, _ in sorted(p.block_sizes)]
        return QuantizationParameters(
            p.scales.reshape(kept),
            p.zero_points.reshape(kept),
            storage=p.storage,
            storage_min=p.storage_min,
            storage_max=p.storage_max,
            expressed=p.expressed,
            block_sizes=p.block_sizes,
        )

    def full_parameters(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Scales and zero points as arrays that broadcast to the values."""
        p = self.parameters
        scales, zero_points = p.scales, p.zero_points
        if p.quantized_dimension is not None:
            full = [1] * len(self.shape)
            full[p.quantized_dimension] = -1
            return scales.reshape(full), zero_points.reshape(full)
        for dimension, size in dict(p.block_sizes or ()).items():
            scales = scales.repeat(size, dimension)
            zero_points = zero_points.repeat(size, dimension)
        return scales, zero_points

    def expressed_values(self) -> NDArray[Any]:
        """Values at the edges of every scale, where there is room for them."""
        p = self.parameters
        edges = [
            edge_values(scale, zero_point, self.storage)
            for scale, zero_point in zip(
                p.scales.ravel().tolist(), p.zero_points.ravel().tolist(), strict=True
            )
        ]
        dtype = p.expressed_dtype
        with np.errstate(all="ignore"):
            if p.quantized_dimension is not None:
                table = np.array([np.resize(e, self.shape[-1]) for e in edges])
                order = [p.quantized_dimension]
                order += [d for d in range(len(self.shape)) if d not in order]
                table = np.resize(table, [self.shape[d] for d in order])
                back = np.argsort(order)
                return np.ascontiguousarray(table.transpose(back)).astype(dtype)
            flat = np.array(
                [value for row in zip(*edges, strict=True) for value in row]
            )
            return np.resize(flat, self.shape).astype(dtype)

    def stored_values(self) -> NDArray[Any]:
        """Stored values from one end of the range to the other."""
        p = self.parameters
        low, high = p.storage_min, p.storage_max
        values = {low, low + 1, 0, 1, (low + high) // 2, high - 1, high}
        values |= {*map(int, np.linspace(low, high, 101).round().tolist())}
        usable = sorted(value for value in values if low <= value <= high)
        return np.resize(np.array(usable), self.shape).astype(p.storage_dtype)


def _storages() -> Iterator[tuple[str, int | None, int | None, int]]:
    """Storage types with their range and a zero point."""
    yield "i8", None, None, 3
    yield "u8", None, None, 130
    yield "i4", None, None, 0
    yield "u4", None, None, 5
    yield "i8", -127, 127, 0
    yield "u8", 3, 200, 17
    yield "i16", None, None, -7
    yield "u16", None, None, 65000
    yield "i32", None, None, 12345
    yield "u32", None, None, 0
    yield "i24", None, None, 1
    yield "u3", 1, 6, 2
    yield "i1", None, None, 0


def _per_layer_cases() -> Iterator[Case]:
    for container in _CONTAINERS:
        for expressed in EXPRESSED_TYPES:
            for storage, low, high, zero_point in _storages():
                few = storage in ("i8", "u8", "i32", "u32", "i1")
                # Unranked cases pass stored values as signless ones, and i1 is bool.
                few = few and (container, storage) != ("unranked", "i1")
                if container != "static" and (expressed != "f32" or not few):
                    continue
                # One scale that is a power of two in all types, and one that is not.
                for scale in (0.25, 0.1):
                    parameters = QuantizationParameters(
                        scale,
                        zero_point,
                        storage=storage,
                        storage_min=low,
                        storage_max=high,
                        expressed=expressed,
                    )
                    bounds = "" if low is None else f" {low} {high}"
                    name = f"{container} {expressed} {storage}{bounds} {scale}"
                    yield Case(name, container, parameters, (5, 24))


def _per_axis_cases() -> Iterator[Case]:
    for container in _CONTAINERS[1:]:
        for axis, shape in ((0, (3, 120)), (1, (120, 3)), (1, (2, 3, 60))):
            for storage in ("i8", "u8", "i16", "i32", "i4"):
                if container != "static" and storage != "i8":
                    continue
                for zero_points in ((0, 0, 0), (5, 7, 1)):
                    parameters = QuantizationParameters(
                        [0.5, 0.1, 3.0],
                        zero_points,
                        storage=storage,
                        quantized_dimension=axis,
                    )
                    name = f"{container} axis {axis} of {len(shape)} {storage}"
                    yield Case(f"{name} {zero_points[0]}", container, parameters, shape)


def _sub_channel_cases() -> Iterator[Case]:
    for container in _CONTAINERS[1:]:
        for block_sizes, blocks, shape in (
            (((1, 2), (2, 6)), (1, 2, 2), (4, 4, 12)),
            (((2, 3),), (1, 1, 4), (4, 4, 12)),
            (((2, 6), (1, 2)), (1, 2, 2), (4, 4, 12)),
            (((0, 1), (2, 12)), (3, 1, 1), (3, 5, 12)),
        ):
            count = int(np.prod(blocks))
            for compact in (False, True):
                if compact and (container != "unranked" or len(block_sizes) == 1):
                    continue
                parameters = QuantizationParameters(
                    np.array([0.5, 0.1, 0.25, 1.5][:count]).reshape(blocks),
                    np.array([0, 5, -3, 100][:count]).reshape(blocks),
                    block_sizes=block_sizes,
                )
                name = f"{container} blocks {block_sizes}{' compact' * compact}"
                yield Case(name, container, parameters, shape, compact)


CASES = [*_per_layer_cases(), *_per_axis_cases(), *_sub_channel_cases()]


# Modules


def _type(case: Case, element_type: str, container: Container) -> str:
    match container:
        case "scalar":
            return element_type
        case "static":
            return f"tensor<{''.join(f'{n}x' for n in case.shape)}{element_type}>"
        case "dynamic":
            return f"tensor<{'?x' * len(case.shape)}{element_type}>"
        case "unranked":
            return f"tensor<*x{element_type}>"


def module_text(case: Case) -> str:
    """
    A function that quantizes its first argument and dequantizes its second one.

    Its signature has quantized types, but for unranked tensors, which are used inside of
    it alone.
    """
    expressed, quantized, signless = case.element_types
    if case.container != "unranked":
        expressed_type, quantized_type = (
            _type(case, t, case.container) for t in (expressed, quantized)
        )
        return f"""
        func.func @main(%x: {expressed_type}, %s: {quantized_type})
            -> ({quantized_type}, {expressed_type}) {{
          %q = quant.qcast %x : {expressed_type} to {quantized_type}
          %y = quant.dcast %s : {quantized_type} to {expressed_type}
          return %q, %y : {quantized_type}, {expressed_type}
        }}"""
    ranked_e, ranked_s = (_type(case, t, "static") for t in (expressed, signless))
    any_e, any_q, any_s = (_type(case, t, "unranked") for t in case.element_types)
    return f"""
    func.func @main(%x: {ranked_e}, %s: {ranked_s}) -> ({ranked_s}, {ranked_e}) {{
      %x_any = tensor.cast %x : {ranked_e} to {any_e}
      %q = quant.qcast %x_any : {any_e} to {any_q}
      %q_stored = quant.scast %q : {any_q} to {any_s}
      %stored = tensor.cast %q_stored : {any_s} to {ranked_s}
      %s_any = tensor.cast %s : {ranked_s} to {any_s}
      %s_quantized = quant.scast %s_any : {any_s} to {any_q}
      %y_any = quant.dcast %s_quantized : {any_q} to {any_e}
      %y = tensor.cast %y_any : {any_e} to {ranked_e}
      return %stored, %y : {ranked_s}, {ranked_e}
    }}"""
