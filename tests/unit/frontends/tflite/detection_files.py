"""Random files with the custom op `TFLite_Detection_PostProcess`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.frontends.tflite.files.model import (
    Model,
    Operator,
    Subgraph,
    Tensor,
    TensorQuantization,
)
from xdsl_quant.frontends.tflite.files.writer import write_model

Array = NDArray[Any]

OPTIONS: Mapping[str, bool | int | float] = {
    "max_detections": 4,
    "max_classes_per_detection": 1,
    "detections_per_class": 3,
    "use_regular_nms": False,
    "nms_score_threshold": 0.25,
    "nms_iou_threshold": 0.5,
    "num_classes": 2,
    "y_scale": 10.0,
    "x_scale": 10.0,
    "h_scale": 5.0,
    "w_scale": 5.0,
}


def packed(options: Mapping[str, bool | int | float]) -> bytes:
    """The options as a FlexBuffer map."""
    from flatbuffers import (  # pyright: ignore[reportMissingTypeStubs] it has no annotations
        flexbuffers,
    )

    library: Any = flexbuffers
    builder = library.Builder()
    with builder.Map():
        for name, value in options.items():
            builder.Key(name)
            if isinstance(value, bool):
                builder.Bool(value)
            elif isinstance(value, int):
                builder.Int(value)
            else:
                builder.Float(value, 4)
    return bytes(builder.Finish())


def file_of(
    boxes: int,
    classes: int,
    anchors: Array,
    options: bytes,
    scales: Sequence[float] = (),
    code: str = "TFLite_Detection_PostProcess",
) -> bytes:
    """A file of the op; with scales, operands are unsigned bytes of zero point 100."""
    type_ = "UINT8" if scales else "FLOAT32"
    quantizations = [
        TensorQuantization(np.array([scale], np.float32), np.array([100]))
        for scale in scales
    ] or [None] * 3
    data = anchors.ravel().view(np.uint8)
    shapes = ([1, boxes, 4], [1, boxes, classes], [boxes, 4])
    tensors = [
        Tensor(name, type_, shape, None, bytes_, quantization)
        for name, shape, bytes_, quantization in zip(
            ("encodings", "scores", "anchors"),
            shapes,
            (None, None, data),
            quantizations,
            strict=True,
        )
    ]
    # The converter writes no shapes.
    names = ("boxes", "classes", "best_scores", "count")
    tensors += [Tensor(name, "FLOAT32", has_rank=False) for name in names]
    operator = Operator("CUSTOM", [0, 1, 2], [3, 4, 5, 6], {}, code, options)
    return write_model(
        Model([Subgraph("main", tensors, [0, 1], [3, 4, 5, 6], [operator])])
    )


def random_detections(
    seed: int,
) -> tuple[bytes, Sequence[Array], Mapping[str, bool | int | float]]:
    """A file, its inputs (half of them with ties of scores) and its options."""
    random = np.random.default_rng(seed)
    boxes, count = (int(random.integers(1, n)) for n in (40, 6))
    classes = count + int(random.integers(2))
    options = {
        **OPTIONS,
        "max_detections": int(random.integers(1, 12)),
        "max_classes_per_detection": int(random.integers(1, 4)),
        "detections_per_class": int(random.integers(1, 8)),
        "use_regular_nms": bool(random.integers(2)),
        "nms_score_threshold": float(random.choice([-1, 0.25, 0.5, 0.9])),
        "nms_iou_threshold": float(np.float32(random.uniform(0.01, 1))),
        "num_classes": count,
    }
    if random.integers(3) == 0:
        encodings, anchors = (
            random.integers(80, 120, shape).astype(np.uint8)
            for shape in ((1, boxes, 4), (boxes, 4))
        )
        anchors[:, 2:] |= 0x78
        scores = random.integers(100, 120, (1, boxes, classes)).astype(np.uint8)
        scales = 0.1, 0.05, 0.01
    else:
        encodings = random.standard_normal((1, boxes, 4)).astype(np.float32)
        anchors = random.uniform(0.1, 0.6, (boxes, 4)).astype(np.float32)
        scores = random.random((1, boxes, classes)).astype(np.float32)
        if random.integers(2):
            scores = np.round(scores * 8) / np.float32(8)
        scales = ()
    file = file_of(boxes, classes, anchors, packed(options), scales)
    return file, (encodings, scores), options
