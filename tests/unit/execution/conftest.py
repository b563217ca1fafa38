"""What tests of compiled code have in common."""

from collections.abc import Iterator

import pytest

from tests.unit.execution.other_cpus import ops_without_hash


@pytest.fixture(autouse=True, scope="session")
def no_hash_of_ops() -> Iterator[None]:
    """Lets each set or dict of MLIR ops fail: see `identity_of`."""
    with ops_without_hash():
        yield
