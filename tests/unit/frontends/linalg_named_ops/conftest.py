"""The fixtures of tests of patches."""

from tests.unit.xdsl_patches.conftest import mlir, patches

__all__ = ["mlir", "patches"]
