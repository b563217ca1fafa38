"""Quantization as a pipeline of named stages."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from xdsl_quant.diagnostics import quoted
from xdsl_quant.runtime.batches import Batch
from xdsl_quant.runtime.entry_function import entry_function

from .recipe import Budget, Recipe
from .results import Model, QuantizedModel
from .samples import Data, LabelData, Progress, batches_of, evenly_spaced_batches
from .signal_noise import Error
from .user_warnings import warn_of_low_sqnr

if TYPE_CHECKING:
    from xdsl_quant.transforms.propagation.target_spec import TargetSpec

Stage: TypeAlias = Callable[[ModuleOp], ModuleOp]
"""Function that takes a module, which it may change, and returns it or another one."""

_MOST_BATCHES = 128
"""Maximum number of batches on which stages measure errors."""


@dataclass(frozen=True)
class Request:
    """Arguments of [`quantize`][xdsl_quant.quantizer.quantize]."""

    model: Model
    data: Data
    recipe: Recipe | str | Path = "int8"
    target: str | TargetSpec | None = None
    budget: Budget | str | None = None
    labels: LabelData | None = None
    entry: str | None = None
    executor: Executor | None = None
    checkpoint: str | os.PathLike[str] | None = None
    progress: Progress | None = None


class Pipeline(ABC):
    """
    Stages of the quantization of a model, which can be run one by one, replaced and
    extended.

    Each stage returns a module, and stores any other results in attributes.
    """

    stages: Mapping[str, Stage]
    """
    Stages by name, in order. Each takes a copy of the module of the stage before it;
    the first takes a copy of the float model.
    """

    errors: Mapping[str, Error] | None = None
    """
    Errors of the model results, if a stage has measured them. A later stage that
    changes results sets this attribute to `None`.
    """

    def __init__(self, request: Request, recipe: Recipe, module: ModuleOp):
        """
        Prepare the pipeline of a request.

        Args:
            request: the arguments of the quantization.
            recipe: the recipe of the request.
            module: the float model.
        """
        self.request = request
        self.recipe = recipe
        self.float_model = module
        self.modules: dict[str, ModuleOp] = {}
        """Module after each stage that has run, by name of the stage."""

    @property
    def module(self) -> ModuleOp:
        """Module after the last stage that has run; initially the float model."""
        return [self.float_model, *self.modules.values()][-1]

    def run(self, until: str | None = None) -> ModuleOp:
        """
        Run the remaining stages, and return the module after the last of them.

        Args:
            until: the stage to stop after; by default the last.

        Raises:
            ValueError: if the stage is unknown; the stages raise the errors of
                [`quantize`][xdsl_quant.quantizer.quantize].
        """
        if until is not None:
            self._check_stage(until)
        for name, stage in self.stages.items():
            if name not in self.modules:
                self.modules[name] = stage(self.module.clone())
            if name == until:
                break
        return self.module

    def check(self, module: ModuleOp) -> ModuleOp:
        """Warn of results with a low SQNR."""
        warn_of_low_sqnr(self.known_errors(module))
        return module

    @abstractmethod
    def result(self) -> QuantizedModel:
        """Run the remaining stages, and return the quantized model."""

    # Stages

    def replace(self, name: str, stage: Stage) -> None:
        """
        Replace a stage that has not run yet.

        Raises:
            ValueError: if the stage is unknown or has run.
        """
        self._check_is_left(name)
        self.stages = {**self.stages, name: stage}

    def insert(self, name: str, stage: Stage, *, before: str) -> None:
        """
        Add a stage before another one that has not run yet.

        Raises:
            ValueError: if the stage `before` is unknown or has run, or `name` exists.
        """
        self._check_is_left(before)
        if name in self.stages:
            raise ValueError(f"stage '{name}' exists already; replace it")
        items = [*self.stages.items()]
        index = [*self.stages].index(before)
        self.stages = dict([*items[:index], (name, stage), *items[index:]])

    def _check_stage(self, name: str) -> None:
        if name not in self.stages:
            raise ValueError(
                f"unknown stage '{name}', available: {quoted([*self.stages])}"
            )

    def _check_is_left(self, name: str) -> None:
        self._check_stage(name)
        if name in self.modules:
            raise ValueError(f"stage '{name}' has run; use a new pipeline")

    # Shared by stages

    def entry_function(self, module: ModuleOp) -> FuncOp:
        """Return the function of a module that takes the samples."""
        return entry_function(module, self.request.entry)

    @cached_property
    def _counted_batches(self) -> tuple[Iterable[Batch], int | None]:
        return batches_of(self.request.data, self.entry_function(self.float_model))

    @property
    def batches(self) -> Iterable[Batch]:
        """
        Samples as batches.

        Raises:
            DataError: if the samples cannot be used.
        """
        return self._counted_batches[0]

    def samples(self) -> Iterable[Batch]:
        """Return the batches; iterating them reports progress."""
        progress = self.request.progress
        return self.batches if progress is None else progress(*self._counted_batches)

    def known_errors(self, module: ModuleOp) -> Mapping[str, Error]:
        """Return the errors of results; measure them if no stage has done so."""
        return self.measured_errors(module) if self.errors is None else self.errors

    @abstractmethod
    def measured_errors(self, module: ModuleOp) -> Mapping[str, Error]:
        """Measure the errors of results with the weights and biases of a module."""

    def judged_batches(self) -> Sequence[Batch]:
        """Return up to `_MOST_BATCHES` evenly spaced batches to measure errors on."""
        return evenly_spaced_batches(self.batches, _MOST_BATCHES)
