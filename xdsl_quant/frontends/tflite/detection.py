"""
The custom op `TFLite_Detection_PostProcess`: boxes decoded from their offsets to anchors,
and the best detections after non-maximum suppression.

The source is `kernels/detection_postprocess.cc` of LiteRT, whose builtin resolver has the
op. Elements beyond the number of detections are 0 here; LiteRT leaves some of them
undefined.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.diagnostics import quoted
from xdsl_quant.frontends.tflite.dialect import CustomOp
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.runtime.arrays import shape_text
from xdsl_quant.unsupported import Unsupported

from .lowering.kernels.computation import dequantize_array, parameters_of

DETECTION = "TFLite_Detection_PostProcess"
"""Name of the op in files."""

_Floats: TypeAlias = NDArray[np.float32]

_MAX_DETECTIONS = 1 << 24
"""Largest number of detections; a damaged file may have any."""

_DAMAGE = (struct.error, LookupError, ValueError, TypeError, OverflowError)
"""Exceptions of `flatbuffers.flexbuffers` for damaged bytes."""


@dataclass(frozen=True)
class DetectionOptions:
    """Options of the op, by their names in the file."""

    max_detections: int
    max_classes_per_detection: int
    num_classes: int
    nms_score_threshold: float
    nms_iou_threshold: float
    y_scale: float
    x_scale: float
    h_scale: float
    w_scale: float
    detections_per_class: int = 100
    use_regular_nms: bool = False

    @staticmethod
    def of(op: CustomOp) -> DetectionOptions:
        """
        Read the options of an op.

        Raises:
            Unsupported: if they are damaged, missing or out of range.
        """
        # Only files with this op need it.
        from flatbuffers import (  # pyright: ignore[reportMissingTypeStubs] it has no annotations
            flexbuffers,
        )

        library: Any = flexbuffers
        options: dict[str, Any] = {}
        try:
            values = library.GetRoot(op.custom_option.value.data).AsMap
            for option in fields(DetectionOptions):
                with suppress(KeyError):
                    options[option.name] = _as_option(
                        values[option.name], str(option.type)
                    )
        except _DAMAGE:
            raise Unsupported("has options that are not a FlexBuffer map") from None
        try:
            result = DetectionOptions(**options)
        except TypeError:
            required = {option.name for option in fields(DetectionOptions)[:-2]}
            names = required - options.keys()
            raise Unsupported(f"lacks the options {', '.join(sorted(names))}") from None
        result.check()
        return result

    def check(self) -> None:
        """Raise `Unsupported` for options out of range."""
        for option in fields(self):
            name, value = option.name, getattr(self, option.name)
            is_free = name in ("nms_score_threshold", "use_regular_nms")
            if not is_free and not value > 0:
                raise Unsupported(f"has option '{name}' {value}; expected more than 0")
        count = self.max_detections * self.max_classes_per_detection
        if count > _MAX_DETECTIONS:
            raise Unsupported(
                f"has {count} detections; expected at most {_MAX_DETECTIONS}"
            )
        if self.nms_iou_threshold > 1:
            raise Unsupported(
                f"has option 'nms_iou_threshold' {self.nms_iou_threshold}; expected at "
                "most 1"
            )

    @property
    def result_shapes(self) -> Sequence[Sequence[int]]:
        """Shapes of boxes, classes, scores and the number of detections."""
        count = self.max_detections * self.max_classes_per_detection
        return (1, count, 4), (1, count), (1, count), (1,)


def _as_option(value: Any, type_name: str) -> bool | int | float:
    """Convert a FlexBuffer value as LiteRT does."""
    if type_name == "bool":
        return bool(value.AsBool)
    return int(value.AsInt) if type_name == "int" else float(np.float32(value.AsFloat))


def detections(op: CustomOp, *operands: NDArray[Any]) -> tuple[_Floats, ...]:
    """
    Return the best detections.

    Args:
        op: the op, with its options.
        operands: offsets of center and logarithms of size (y, x, h, w) relative to the
            anchors, `[1, boxes, 4]`; scores of the classes of each box, `[1, boxes,
            classes]`, whose first class may be the background; anchors (y, x, h, w),
            `[boxes, 4]`. All are `f32`, or quantized to unsigned bytes.

    Returns:
        Corners `[1, n, 4]` (y, x, y, x), classes `[1, n]`, scores `[1, n]`, and the number
        of detections `[1]`.

    Raises:
        Unsupported: if LiteRT refuses the options, operands or boxes.
    """
    options = DetectionOptions.of(op)
    encodings, scores, anchors = _floats(op, operands)
    count, shape = options.num_classes, scores.shape
    if (
        encodings.shape[:1] != (1,)
        or encodings.ndim != 3
        or encodings.shape[2] < 4
        or shape[:-1] != encodings.shape[:2]
        or anchors.shape != (shape[1], 4)
        or not count <= shape[2] <= count + 1
    ):
        found = ", ".join(shape_text(x.shape) for x in (encodings, scores, anchors))
        raise Unsupported(
            f"has operands of shapes {found}; expected 1xNx4, 1xNx{count} or "
            f"1xNx{count + 1}, and Nx4"
        )
    boxes = decoded_boxes(encodings[0], anchors, options)
    if not (boxes[:, :2] <= boxes[:, 2:]).all():
        raise Unsupported("has a box of negative size")
    classes = scores[0][:, shape[2] - count :]
    select = _by_class if options.use_regular_nms else _by_best_class
    return _results(boxes, classes, options, *select(boxes, classes, options))


def _floats(op: CustomOp, operands: Sequence[NDArray[Any]]) -> Sequence[_Floats]:
    """Return the three operands as floats."""
    if (len(operands), len(op.results)) != (3, 4):
        raise Unsupported(
            f"has {len(operands)} operands and {len(op.results)} results; expected 3 and 4"
        )
    if {x.dtype for x in operands} == {np.dtype(np.float32)}:
        return operands
    parameters = [parameters_of(type_) for type_ in op.operand_types]
    if any(x.dtype != np.uint8 or p is None for x, p in zip(operands, parameters)):
        types = quoted(op.operand_types)
        raise Unsupported(
            f"has operands of types {types}; expected f32, or quantized unsigned bytes"
        )
    encodings, _, anchors = map(dequantize_array, operands, op.operand_types)
    assert parameters[1] is not None
    return encodings, _dequantized_scores(operands[1], parameters[1]), anchors


def _dequantized_scores(
    scores: NDArray[np.uint8], parameters: QuantizationParameters
) -> _Floats:
    """Dequantize as LiteRT's vector code does: it rounds the zero point times the scale."""
    scale = np.float32(parameters.scales)
    zero_point = np.float32(parameters.zero_points)
    values = scores.ravel().astype(np.float32)
    results = values * scale - zero_point * scale
    # Elements after the last vector of eight take the scalar code.
    rest = values.size // 8 * 8
    results[rest:] = (values[rest:] - zero_point) * scale
    return results.reshape(scores.shape)


def decoded_boxes(
    encodings: _Floats, anchors: _Floats, options: DetectionOptions
) -> _Floats:
    """Return corners (y, x, y, x); the centers and sizes are computed in `f64`."""
    x, a = encodings.astype(np.float64), anchors.astype(np.float64)
    center_scales = np.array([options.y_scale, options.x_scale])
    size_scales = np.array([options.h_scale, options.w_scale])
    centers = (x[:, :2] / center_scales * a[:, 2:] + a[:, :2]).astype(np.float32)
    halves = (0.5 * np.exp(x[:, 2:4] / size_scales) * a[:, 2:]).astype(np.float32)
    return np.concatenate([centers - halves, centers + halves], axis=1)


def _sorted(scores: _Floats) -> NDArray[np.intp]:
    """Return indices in descending order of scores; of equals, the lower index first."""
    return np.argsort(-scores, kind="stable")


def _suppressed(
    boxes: _Floats, scores: _Floats, count: int, options: DetectionOptions
) -> Sequence[int]:
    """Return at most `count` boxes by score that do not overlap a better one."""
    (kept,) = np.nonzero(scores >= np.float32(options.nms_score_threshold))
    candidates = kept[_sorted(scores[kept])]
    selected: list[int] = []
    while candidates.size and len(selected) < count:
        first, candidates = int(candidates[0]), candidates[1:]
        selected.append(first)
        overlaps = _overlaps(boxes[first], boxes[candidates])
        candidates = candidates[overlaps <= np.float32(options.nms_iou_threshold)]
    return selected


def _overlaps(box: _Floats, boxes: _Floats) -> _Floats:
    """Return intersections over unions of a box with others."""
    low = np.maximum(box[:2], boxes[:, :2])
    high = np.minimum(box[2:], boxes[:, 2:])
    common = np.prod(np.maximum(high - low, np.float32(0)), axis=1)
    area = np.prod(box[2:] - box[:2])
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    return np.where(common > 0, common / (area + areas - common), np.float32(0))


def _first_by_heap(values: Sequence[float], count: int) -> list[int]:
    """
    Return the indices of the `count` largest values in descending order. The order of
    equal values is that of `std::partial_sort` in libstdc++, which sorts a heap.
    """

    def sink(position: int, size: int, index: int) -> None:
        """Move the hole at `position` to a leaf, and `index` from there up to its place."""
        top = position
        while 2 * position + 1 < size:
            child = min(2 * position + 2, size - 1)
            if values[heap[child]] > values[heap[child - 1]] and child % 2 == 0:
                child -= 1
            heap[position], position = heap[child], child
        while (
            position > top
            and values[heap[parent := (position - 1) // 2]] > values[index]
        ):
            heap[position], position = heap[parent], parent
        heap[position] = index

    heap = [*range(count)]
    for position in reversed(range(count // 2)):
        sink(position, count, heap[position])
    for index in range(count, len(values)):
        if values[index] > values[heap[0]]:
            sink(0, count, index)
    for size in reversed(range(1, count)):
        last, heap[size] = heap[size], heap[0]
        sink(0, size, last)
    return heap


def _best_classes(scores: _Floats, count: int) -> list[int]:
    """Return the classes of the `count` best scores of a box."""
    if np.unique(scores).size == scores.size:
        return _sorted(scores)[:count].tolist()
    return _first_by_heap(scores.tolist(), count)


def _by_best_class(
    boxes: _Floats, scores: _Floats, options: DetectionOptions
) -> tuple[Sequence[int], Sequence[Sequence[int]]]:
    """Suppress boxes by their best scores; each one that is left has several classes."""
    count = min(options.max_classes_per_detection, options.num_classes)
    rows = _suppressed(boxes, scores.max(axis=1), options.max_detections, options)
    return rows, [_best_classes(scores[row], count) for row in rows]


def _by_class(
    boxes: _Floats, scores: _Floats, options: DetectionOptions
) -> tuple[Sequence[int], Sequence[Sequence[int]]]:
    """Suppress boxes for each class, and return the best ones of all classes."""
    pairs: list[tuple[int, int]] = []
    for class_ in range(options.num_classes):
        column = scores[:, class_]
        selected = _suppressed(boxes, column, options.detections_per_class, options)
        pairs += [(row, class_) for row in selected]
    values = np.array([scores[pair] for pair in pairs], np.float32)
    order: list[int] = _sorted(values)[: options.max_detections].tolist()
    best = [pairs[index] for index in order]
    return [row for row, _ in best], [[class_] for _, class_ in best]


def _results(
    boxes: _Floats,
    scores: _Floats,
    options: DetectionOptions,
    rows: Sequence[int],
    classes: Sequence[Sequence[int]],
) -> tuple[_Floats, ...]:
    """Return the results for boxes and the classes of each box."""
    results = [np.zeros(shape, np.float32) for shape in options.result_shapes]
    step = 1 if options.use_regular_nms else options.max_classes_per_detection
    for number, (row, row_classes) in enumerate(zip(rows, classes, strict=True)):
        part = slice(number * step, number * step + len(row_classes))
        results[0][0, part] = boxes[row]
        results[1][0, part] = row_classes
        results[2][0, part] = scores[row, row_classes]
    results[3][0] = len(rows)
    return tuple(results)
