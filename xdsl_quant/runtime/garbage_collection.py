"""Making and rewriting ops without pauses."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def without_garbage_collection() -> Generator[None]:
    """
    Making and rewriting ops makes many objects and no garbage: to look for some, again and
    again, would take as long as the work itself, and longer the more there is.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
