"""What tests of several folders need."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.conformance.real_mlir import Mlir

# What is compiled is tested, by processes that tests start, too.
os.environ.setdefault("XDSL_QUANT_CACHE", "off")


@pytest.fixture(scope="module")
def litert_converter() -> Iterator[Mlir]:
    """The real dialects `tfl` and `stablehlo`, the importer and the exporter."""
    reason = "pip install --no-deps 'litert-converter>=0.5,<0.6'"
    pytest.importorskip("litert_converter", reason=reason)
    with Mlir(package="litert_converter.mlir") as worker:
        yield worker
