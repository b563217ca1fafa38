"""ONNX's own node tests: import, interpret, compare with the results of the cases."""

import pytest

from .node_cases import node_cases

_PARTS = 40
"""Number of parts that the cases are divided into: each is a test."""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("part", range(_PARTS))
def test_node_cases(part: int):
    failures: list[str] = []
    for case in node_cases()[part::_PARTS]:
        if case.left_out is not None:
            continue
        try:
            case.run()
        except Exception as e:
            # All failures of a part are reported at once.
            failures.append(f"{case.name}: {type(e).__name__}: {e}")
    assert not failures, "\n".join(failures)
