"""The page of changes has a row for each patch, and a text for xDSL that would end it."""

import pytest

from tests.host.changes import PAGE, Change, documented_changes
from xdsl_quant import xdsl_patches


def test_the_rows_are_the_patches():
    assert [change.patch for change in documented_changes()] == [
        f"{dialect}.{patch.__name__}"
        for dialect in (*xdsl_patches.PATCHED_DIALECTS, "xdsl_opt")
        for patch in xdsl_patches.patches_of(dialect)
    ]


@pytest.mark.parametrize(
    "change", documented_changes(), ids=lambda change: change.patch
)
def test_a_patch_says_what_mlir_does_and_what_ends_it(change: Change):
    dialect, name = change.patch.split(".")
    (patch,) = (p for p in xdsl_patches.patches_of(dialect) if p.__name__ == name)
    assert "MLIR: " in (patch.__doc__ or "")
    assert f"Obsolete with: `docs/{change.upstream}`." in (patch.__doc__ or "")


def test_each_text_for_xdsl_belongs_to_a_patch():
    files = [*(PAGE.parents[1] / "upstream").iterdir()]
    # The others are for LLVM, see `tests/cpus`, and for LiteRT.
    others = "llvm-", "litert-"
    texts = {f"upstream/{f.name}" for f in files if not f.name.startswith(others)}
    assert texts == {change.upstream for change in documented_changes()}
