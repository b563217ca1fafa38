"""The dialects of the ops of a model."""

from __future__ import annotations

from xdsl.ir import Operation

from xdsl_quant.diagnostics import op_name
from xdsl_quant.runtime.model_dialects import ModelDialect
from xdsl_quant.runtime.plugins import plugins

_UNKNOWN = ModelDialect()


def model_dialect(op: Operation) -> ModelDialect:
    """Return the dialect of an op."""
    found = plugins().model_dialects.get(op_name(op).partition(".")[0])
    return _UNKNOWN if found is None else found()
