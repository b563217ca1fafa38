"""Context manager that pauses Python's garbage collector, for fast rewriting of ops."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def without_garbage_collection() -> Generator[None]:
    """
    Disable the garbage collector inside a `with` statement.

    Building and rewriting ops creates many objects but little garbage, so repeated
    collections cost more time than the work itself.
    """
    # Threads that find it disabled must not disable it: they would not enable it again.
    if was_enabled := gc.isenabled():
        gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
