"""
The generated inputs as hypothesis strategies.

The generators draw from a `random.Random`. Here it is one of hypothesis, which shrinks
what was drawn; `fuzz.py` hands them a plain one.
"""

from collections.abc import Callable
from random import Random

from hypothesis import strategies as st

from .function_texts import function_text, main_function_text
from .op_texts import main_op_text, op_text
from .type_texts import main_type_text, type_text, valid_type_text


def _texts(generate: Callable[[Random], str]) -> st.SearchStrategy[str]:
    return st.builds(generate, st.randoms(use_true_random=False))


type_texts = _texts(type_text)
"""Types that are valid, and types with a few mistakes."""

valid_type_texts = _texts(valid_type_text)
"""Types that are valid, but for a rare number out of its range."""

op_texts = _texts(op_text)
"""Modules with one cast, on types that fit it or that do not."""

function_texts = _texts(function_text)
"""Modules of functions with casts and calls."""


# With float and quantile storage, which MLIR has since version 23.

main_type_texts = _texts(main_type_text)
"""Types that are valid, and types with a few mistakes."""

main_op_texts = _texts(main_op_text)
"""Modules with one cast."""

main_function_texts = _texts(main_function_text)
"""Modules of functions with casts and calls."""
