"""A fixture of tests of patches."""

from collections.abc import Iterator

import pytest

from tests.conformance.real_mlir import Mlir
from xdsl_quant import xdsl_patches


@pytest.fixture(scope="module")
def mlir() -> Iterator[Mlir]:
    with Mlir() as mlir:
        yield mlir


@pytest.fixture(autouse=True, scope="package")
def patches() -> None:
    xdsl_patches.apply()
