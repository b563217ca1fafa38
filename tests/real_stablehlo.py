"""StableHLO itself, as `litert-converter` has it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[Any]


class RealStableHLO:
    """What it makes of modules; a test that asks is skipped if it is not installed."""

    def __init__(self) -> None:
        reason = "real StableHLO: pip install --no-deps 'litert-converter>=0.5,<0.6'"
        pytest.importorskip("litert_converter", reason=reason)
        module = "litert_converter.mlir"
        self._ir: Any = import_module(f"{module}.ir")
        self._pass_manager: Any = import_module(f"{module}.passmanager")
        self._stablehlo: Any = import_module(f"{module}.dialects.stablehlo")
        extension: Any = import_module(f"{module}._mlir_libs.converter_api_ext")
        self._context = self._ir.Context()
        extension.prepare_mlir_context(self._context)

    def _module(self, text: str, passes: str) -> Any:
        module = self._ir.Module.parse(text)
        if passes:
            pipeline = f"builtin.module(func.func({passes}))"
            self._pass_manager.PassManager.parse(pipeline).run(module.operation)
        return module

    def text(self, text: str, passes: str = "") -> str | None:
        """
        A module after some passes, as it is printed; `None` if it is not valid or one of
        them fails.
        """
        with self._context, self._ir.Location.unknown():
            try:
                return str(self._module(text, passes))
            except self._ir.MLIRError:
                return None

    def results(self, text: str, *arguments: Array, passes: str = "") -> list[Array]:
        """
        The results of the only function of a module after some passes, as the interpreter
        of StableHLO has them.
        """
        with self._context, self._ir.Location.unknown():
            module = self._module(text, passes)
            attributes = [self._attribute(array) for array in arguments]
            results = self._stablehlo.eval_module(module, attributes)
            return [np.array(result) for result in results]

    def _attribute(self, array: Array) -> Any:
        if array.dtype == np.bool_:
            sizes = "".join(f"{size}x" for size in array.shape)
            values = str(array.tolist()).lower()
            return self._ir.Attribute.parse(f"dense<{values}> : tensor<{sizes}i1>")
        prefix = {"i": "i", "u": "ui", "f": "f"}[array.dtype.kind]
        return self._ir.DenseElementsAttr.get(
            np.ascontiguousarray(array),
            type=self._ir.Type.parse(f"{prefix}{8 * array.itemsize}"),
            shape=array.shape,
        )
