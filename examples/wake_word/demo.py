"""Command line: run the models on audio, and compare all tensors with LiteRT."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .audio import features, speech
from .check import ModelResult, Reference, check_model
from .models import model_paths

_WORDS = ("aesa", "eiais", "eiaio", "oeiau")
"""Approximate vowels of the wake words."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 1 if any value is wrong."""
    paths = model_paths()
    options = _parser([*paths]).parse_args(arguments)
    names: list[str] = [options.model] if options.model else [*paths]
    frames = features(speech(_WORDS, options.seconds))
    results = {name: _checked(paths[name], frames) for name in names}
    print(f"{options.seconds:g} s of audio, {len(frames)} frames of 40 features")
    print("\n".join(_table(results)))
    wrong = sum(result.wrong for result in results.values())
    if count := sum(result.values for result in results.values()):
        print(f"{wrong} of {count:,} values differ from LiteRT's reference kernels")
    else:
        print("nothing is compared: ai-edge-litert is not installed")
    print("\n".join(_times(results)))
    return 1 if wrong else 0


def _parser(models: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.wake_word",
        description="Run streaming wake-word models, compiled as integer code, on audio. "
        "Compare the outputs and all other tensors of each step with those of LiteRT.",
    )
    parser.add_argument("--model", choices=models, help="only this model")
    parser.add_argument(
        "--seconds", type=float, default=10, help="length of the audio (%(default)s)"
    )
    return parser


def _checked(path: Path, frames: NDArray[np.float32]) -> ModelResult:
    try:
        reference = Reference(path)
    except ImportError:
        reference = None
    return check_model(path, frames, reference)


def _table(results: dict[str, ModelResult]) -> Iterator[str]:
    yield "model        ops  fallbacks  steps  tensors  compared  wrong  probability"
    for name, result in results.items():
        probabilities = result.probabilities
        yield (
            f"{name:<11} {result.operators:>4}  {result.fallbacks:>9}  {result.steps:>5}"
            f"  {result.tensors:>7}  {result.values:>8,}  {result.wrong:>5}"
            f"  {probabilities.min():.2f} to {probabilities.max():.2f}"
        )


def _times(results: dict[str, ModelResult]) -> Iterator[str]:
    for name, result in results.items():
        yield (
            f"times of {name}: import {result.import_seconds:.2f} s, compile "
            f"{result.compile_seconds:.2f} s, step {result.step_seconds * 1e3:.2f} ms"
        )


if __name__ == "__main__":
    sys.exit(main())
