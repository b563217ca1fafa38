"""
Public ONNX models of text recognition, with images of handwritten digits as samples.

The wheels of rapidocr-onnxruntime 1.4.4 and captcha-whisperer 0.1.0 contain the models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.version_converter

from examples.classifiers.networks import Floats, load_network


class PublicModel(NamedTuple):
    """A model and its samples."""

    file: str
    """End of the path of the model."""

    argument: str
    height: int
    width: int
    digit_size: int
    """Height and width of a digit, a multiple of 8."""

    digits: int
    """Largest number of digits of an image."""

    scale: float = 2.0
    """Factor of pixels between 0 and 1."""

    offset: float = 1.0
    """Number subtracted from scaled pixels."""

    may_be_turned: bool = False

    test_count: int = 24
    """Number of samples that measure errors, fewer for models with many results."""

    def samples(self, seed: int, count: int) -> Sequence[Floats]:
        """Draw images of digits in a row: shape 1 x 3 x height x width."""
        random = np.random.default_rng([seed, 7])
        digits = load_network("digits").samples.reshape(-1, 8, 8)
        return [self._image(random, digits / digits.max()) for _ in range(count)]

    def _image(self, random: np.random.Generator, digits: Floats) -> Floats:
        light, dark = random.uniform(0.7, 1), random.uniform(0, 0.35)
        image = np.full((self.height, self.width), light)
        size, repeats = self.digit_size, self.digit_size // 8
        count = int(random.integers(2, self.digits + 1))
        x = int(random.integers(0, max(1, self.width - count * (size + 2) + 1)))
        y = int(random.integers(0, self.height - size + 1))
        for _ in range(count):
            if x + size > self.width:
                break
            digit = digits[random.integers(len(digits))]
            digit = digit.repeat(repeats, 0).repeat(repeats, 1)
            image[y : y + size, x : x + size] += (dark - light) * digit
            x += size + int(random.integers(0, 4))
        image = np.clip(image + random.normal(0, 0.02, image.shape), 0, 1)
        if self.may_be_turned and random.random() < 0.5:
            image = image[::-1, ::-1]
        colors = image * random.uniform(0.85, 1, (3, 1, 1))
        pixels = colors * self.scale - self.offset
        return pixels[np.newaxis].astype(np.float32)

    def read(self, folder: Path) -> onnx.ModelProto:
        """
        Read the model from unpacked wheels, with the shape of the samples. Quantization by
        onnxruntime with scales per channel needs opset 13.
        """
        (path,) = (path for path in folder.rglob("*.onnx") if self.is_file(path))
        model = onnx.load_from_string(path.read_bytes())
        if model.opset_import[0].version < 13:
            model = onnx.version_converter.convert_version(model, 17)
        (argument,) = (each for each in model.graph.input if each.name == self.argument)
        sizes = (1, 3, self.height, self.width)
        dimensions: Any = argument.type.tensor_type.shape.dim
        for dimension, size in zip(dimensions, sizes, strict=True):
            dimension.Clear()
            dimension.dim_value = size
        return model

    def is_file(self, path: Path) -> bool:
        """Return True for the path of the model."""
        return path.as_posix().endswith(self.file)


PUBLIC_MODELS: Mapping[str, PublicModel] = {
    "direction": PublicModel(
        *("ch_ppocr_mobile_v2.0_cls_infer.onnx", "x", 48, 192, 40, 4),
        may_be_turned=True,
        test_count=400,
    ),
    "recognition": PublicModel(*("ch_PP-OCRv4_rec_infer.onnx", "x", 48, 160, 40, 4)),
    "captcha": PublicModel(*("captcha_crnn.onnx", "image", 60, 160, 24, 5, 1.0, 0.0)),
}
"""Models by name: direction of a line of text, and recognition of text."""
