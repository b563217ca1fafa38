"""
A few generated inputs, compared with MLIR 24 if `make mlir24` was run; `fuzz.py` has many.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .checks import Conformance
from .differences import PassName
from .fuzz import PASSES_OF_MAIN
from .strategies import (
    function_texts,
    main_function_texts,
    main_op_texts,
    main_type_texts,
    op_texts,
    type_texts,
)
from .test_generated import budget, expect_conformance


@budget(200)
@given(text=type_texts)
def test_types(conformance_24: Conformance, text: str):
    expect_conformance(conformance_24, "type", text)


@budget(500)
@given(text=main_type_texts)
def test_types_of_main(conformance_24: Conformance, text: str):
    expect_conformance(conformance_24, "type", text)


@budget(50)
@given(text=op_texts)
def test_ops(conformance_24: Conformance, text: str):
    expect_conformance(conformance_24, "op", text)


@budget(50)
@given(text=main_op_texts)
def test_ops_of_main(conformance_24: Conformance, text: str):
    expect_conformance(conformance_24, "op", text)


@pytest.mark.parametrize(
    "name", ["lower-quant-ops", "strip-func-quant-types", "normalize-quant-types"]
)
@budget(20)
@given(data=st.data())
def test_passes(conformance_24: Conformance, name: PassName, data: st.DataObject):
    expect_conformance(conformance_24, name, data.draw(function_texts))


@pytest.mark.parametrize("name", PASSES_OF_MAIN)
@budget(20)
@given(data=st.data())
def test_passes_of_main(
    conformance_24: Conformance, name: PassName, data: st.DataObject
):
    expect_conformance(conformance_24, name, data.draw(main_function_texts))
