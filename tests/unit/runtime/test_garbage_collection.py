"""Pauses of the garbage collector."""

import gc

import pytest

from xdsl_quant.runtime.garbage_collection import without_garbage_collection


@pytest.fixture(autouse=True)
def enabled_collector():
    assert gc.isenabled()
    yield
    gc.enable()


def test_collector_is_enabled_after_an_error():
    @without_garbage_collection()
    def fail() -> None:
        assert not gc.isenabled()
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    assert gc.isenabled()


def test_overlapping_pauses_of_threads(monkeypatch: pytest.MonkeyPatch):
    """The pause of another thread ends when this one has found the collector disabled."""
    other, is_enabled = without_garbage_collection(), gc.isenabled
    other.__enter__()

    def leave_other() -> bool:
        found = is_enabled()
        other.__exit__(None, None, None)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(gc, "isenabled", leave_other)
        with without_garbage_collection():
            pass
    assert gc.isenabled()
