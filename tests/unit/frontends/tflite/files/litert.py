"""LiteRT, which runs files: the reference kernels, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[Any]


class LiteRT:
    """An interpreter of a file; a test that makes one is skipped without LiteRT."""

    def __init__(self, file: bytes, is_reference: bool = True):
        pytest.importorskip("ai_edge_litert", reason="pip install ai-edge-litert")
        # It has no type annotations.
        library: Any = import_module("ai_edge_litert.interpreter")
        resolvers = library.OpResolverType
        self._interpreter: Any = library.Interpreter(
            model_content=file,
            experimental_op_resolver_type=resolvers.BUILTIN_REF
            if is_reference
            else resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            experimental_preserve_all_tensors=True,
            num_threads=1,
        )
        self._interpreter.allocate_tensors()

    def input_types(self) -> Sequence[tuple[Sequence[int], Any]]:
        """The shapes and dtypes of the arguments."""
        details = self._interpreter.get_input_details()
        return [(detail["shape"], detail["dtype"]) for detail in details]

    def details(self) -> Sequence[Any]:
        """Details of the first argument and of the first result."""
        return (
            self._interpreter.get_input_details()[0],
            self._interpreter.get_output_details()[0],
        )

    def details_of_all(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Details of all arguments and results."""
        interpreter = self._interpreter
        return interpreter.get_input_details(), interpreter.get_output_details()

    def run(self, *arguments: Array) -> Sequence[Array]:
        """The results of one step; variables keep their values from step to step."""
        details = self._interpreter.get_input_details()
        for detail, array in zip(details, arguments, strict=True):
            self._interpreter.set_tensor(detail["index"], array)
        self._interpreter.invoke()
        return [
            self._interpreter.get_tensor(detail["index"])
            for detail in self._interpreter.get_output_details()
        ]

    def op_results(self) -> Sequence[Array]:
        """What the ops gave in the last step, but for handles of variables."""
        indices = [
            index
            for op in self._interpreter._get_ops_details()
            for index in op["outputs"]
        ]
        types = {
            detail["index"]: detail["dtype"]
            for detail in self._interpreter.get_tensor_details()
        }
        return [
            self._interpreter.get_tensor(index)
            for index in indices
            if np.dtype(types[index]).kind in "biuf"
        ]
