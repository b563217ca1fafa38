"""Templates of pages, and what there is without the packages that draw them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from jinja2 import UndefinedError

from xdsl_quant.calibration import Statistics
from xdsl_quant.calibration.statistics import KeyObservation
from xdsl_quant.display import calibration_report
from xdsl_quant.display.figure_svg import Limit, Point, trade_off_svg
from xdsl_quant.display.pages import page, render, templates
from xdsl_quant.execution.profile import Profile
from xdsl_quant.numerics.observers import parse_observer
from xdsl_quant.quantizer import BitSearchResult, Budget, KernelReport, ModelReport
from xdsl_quant.quantizer.search_result import Assignment
from xdsl_quant.runtime.extras import check_packages


def calibration() -> Any:
    observer = parse_observer("min-max")
    seen = KeyObservation.of(np.arange(3.0), None, observer, 0, False)
    return calibration_report(Statistics("min-max", {"x": seen}, 1))


def model() -> Any:
    kernel = KernelReport("k", "", "", "", 20.0, 30.0, math.nan, 0.0, 0, 0)
    return ModelReport([kernel], {"y": 20.0})


def search() -> Any:
    chosen = Assignment([8], [8], 100, 0.01)

    def again(_: Budget) -> BitSearchResult:
        raise NotImplementedError

    return BitSearchResult(Budget(10, "dB"), [], chosen, chosen, [chosen], again)


def profile() -> Any:
    return Profile("f", [], 1)


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
@pytest.mark.parametrize("make", [calibration, model, search, profile])
def test_a_notebook_shows_text_without_packages(
    make: Callable[[], Any], package: str, monkeypatch: pytest.MonkeyPatch
):
    formatter: Any = DisplayFormatter()
    shown = make()
    assert set(formatter.format(shown)[0]) == {"text/plain", "text/html"}
    monkeypatch.setitem(sys.modules, package, None)
    assert formatter.format(shown)[0] == {"text/plain": repr(shown)}


def draw_trade_off() -> str:
    return trade_off_svg([Point(1, 2.0, "t", is_on_curve=True)], Limit(), "t")


@pytest.mark.parametrize(
    ("package", "draw", "subject"),
    [
        ("Jinja2", lambda: calibration().page(), "an HTML page"),
        ("Jinja2", lambda: model().page(), "an HTML page"),
        ("matplotlib", lambda: model().page(), "a plot"),
        ("matplotlib", draw_trade_off, "a plot"),
        ("matplotlib", lambda: search().svg(), "a plot"),
        ("Jinja2", lambda: check_packages("this"), "this"),
        ("matplotlib", lambda: check_packages("this"), "this"),
    ],
)
def test_missing_packages(
    package: str,
    draw: Callable[[], object],
    subject: str,
    monkeypatch: pytest.MonkeyPatch,
):
    templates.cache_clear()
    draw()
    templates.cache_clear()
    monkeypatch.setitem(sys.modules, package.lower(), None)
    with pytest.raises(ImportError) as e:
        draw()
    assert str(e.value) == (
        f"{subject} needs {package}, which is not installed; run pip install "
        "'.[notebook]' in a checkout of xdsl-quant"
    )


def test_text_is_escaped():
    assert "<title>&lt;b&gt; &amp; c</title>" in page("<b> & c", "<p>d</p>")
    assert "<p>d</p>" in page("", "<p>d</p>")


def test_templates_have_all_that_they_show():
    with pytest.raises(UndefinedError):
        render("report_page.html", title="t")
