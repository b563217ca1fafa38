"""Handwritten digits: a training half and a test half."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DIRECTORY = Path(__file__).parent / "data"
"""Directory of the images and weights; its README lists the sources."""

TRAINING_SIZE = 898
"""Number of images for training and calibration; the other images are for tests."""


class Digits(NamedTuple):
    """Images and their labels."""

    images: NDArray[np.float32]
    """Shape `(n, 8, 8, 1)`, values from 0 to 1."""

    labels: NDArray[np.uint8]
    """Shape `(n,)`, values from 0 to 9."""


def load_digits() -> tuple[Digits, Digits]:
    """Load the training half and the test half."""
    with np.load(DIRECTORY / "digits.npz") as file:
        images, labels = file["images"], file["labels"]
    pixels = images[..., np.newaxis].astype(np.float32) / np.float32(16)
    halves = slice(TRAINING_SIZE), slice(TRAINING_SIZE, None)
    training, test = (Digits(pixels[half], labels[half]) for half in halves)
    return training, test
