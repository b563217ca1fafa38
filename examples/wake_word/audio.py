"""
Generate audio similar to speech, and compute the input features of the models.

Vowels are harmonics of a falling pitch, with amplitude peaks at the formants. Fricatives
are noise. Words are separated by pauses.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import pymicro_features  # pyright: ignore[reportMissingTypeStubs] has no stubs
from numpy.typing import NDArray

SAMPLES_PER_SECOND = 16_000

_SYLLABLE = SAMPLES_PER_SECOND // 5
_CHUNK = SAMPLES_PER_SECOND // 100
_FORMANTS = {
    "a": (730, 1090, 2440),
    "e": (530, 1840, 2480),
    "i": (270, 2290, 3010),
    "o": (570, 840, 2410),
    "u": (300, 870, 2240),
}
"""Formants of each vowel in Hz."""


def speech(words: Sequence[str], seconds: float) -> NDArray[np.int16]:
    """
    Repeat words of vowels, `s` for noise and `.` for a pause, and return the samples.

    Returns:
        16,000 samples for each second, shape `[samples]`.
    """
    random = np.random.default_rng(0)
    count = round(seconds * SAMPLES_PER_SECOND)
    syllables = "".join(f"{word}." for word in words)
    parts = [
        _syllable(syllables[i % len(syllables)], random)
        for i in range(-(-count // _SYLLABLE))
    ]
    return np.concatenate(parts)[:count]


def _syllable(sound: str, random: np.random.Generator) -> NDArray[np.int16]:
    noise = random.normal(size=_SYLLABLE)
    if sound not in _FORMANTS:
        return np.round(noise * (1500 if sound == "s" else 30)).astype(np.int16)
    time = np.arange(_SYLLABLE) / SAMPLES_PER_SECOND
    pitch = random.uniform(100, 180) * (1 - time)
    phase = 2 * np.pi * np.cumsum(pitch) / SAMPLES_PER_SECOND
    samples = noise * 30
    for harmonic in range(1, 30):
        amplitude = sum(
            3000 / (1 + ((harmonic * pitch - formant) / 80) ** 2)
            for formant in _FORMANTS[sound]
        )
        samples += amplitude * np.sin(harmonic * phase)
    fade = np.minimum(1, 20 * np.minimum(time, time[::-1]))
    return np.round(np.clip(samples * fade, -32768, 32767)).astype(np.int16)


def features(samples: NDArray[np.int16]) -> NDArray[np.float32]:
    """
    Compute the features of samples with the audio frontend of the models.

    Returns:
        40 features for every 10 ms after the first 20, shape `[frames, 40]`.
    """
    return np.array([*_features(samples)], np.float32)


def _features(samples: NDArray[np.int16]) -> Iterator[list[float]]:
    frontend = cast(Any, pymicro_features).MicroFrontend()
    for start in range(0, len(samples) - _CHUNK + 1, _CHUNK):
        chunk = samples[start : start + _CHUNK]
        computed = frontend.process_samples(chunk.tobytes()).features
        # The first chunks do not fill a window.
        if computed:
            yield computed
