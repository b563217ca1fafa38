"""
Generated inputs, compared with MLIR 22.

`fuzz.py` does the same for as long as one likes.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .checks import Conformance
from .differences import PassName, Subject
from .strategies import function_texts, op_texts, type_texts, valid_type_texts


def budget(examples: int) -> settings:
    """The same inputs in each run; how long it takes is nobody's concern."""
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def expect_conformance(conformance: Conformance, subject: Subject, text: str) -> None:
    """Fail if the answers differ, and the difference is not a deliberate one."""
    mismatch = conformance.check(subject, text)
    assert mismatch is None, str(mismatch)


@budget(200)
@given(text=type_texts)
def test_types(conformance: Conformance, text: str):
    expect_conformance(conformance, "type", text)


@budget(100)
@given(text=valid_type_texts)
def test_valid_types(conformance: Conformance, text: str):
    expect_conformance(conformance, "type", text)


@budget(100)
@given(text=op_texts)
def test_ops(conformance: Conformance, text: str):
    expect_conformance(conformance, "op", text)


@pytest.mark.parametrize(
    "name", ["lower-quant-ops", "strip-func-quant-types", "normalize-quant-types"]
)
@budget(15)
@given(data=st.data())
def test_passes(conformance: Conformance, name: PassName, data: st.DataObject):
    expect_conformance(conformance, name, data.draw(function_texts))
