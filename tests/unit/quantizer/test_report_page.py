"""The report on a quantized model as a page."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.unit.display.html_tree import parse_html, text_of
from xdsl_quant.inspecting.times import Latency, Times
from xdsl_quant.quantizer import (
    KernelReport,
    ModelReport,
    quantize,
    read_recipe,
)
from xdsl_quant.quantizer.accuracy import Accuracy
from xdsl_quant.transforms.composites import inlining

from .models import PLAIN, dense_layers, mixed_model, samples

BARS = "Bars:  floats,  quantized,  saturated."
EVIL = """<script>alert("x")</script> & 'y'"""
DATA = samples(64, 6)


@pytest.fixture(scope="module")
def report() -> ModelReport:
    return quantize(dense_layers(), DATA, PLAIN).report(DATA)


def page_tree(report: ModelReport, title: str = "Title") -> ElementTree.Element:
    return ElementTree.fromstring(report.page(title).removeprefix("<!DOCTYPE html>\n"))


def hide_pictures(tree: ElementTree.Element) -> None:
    """Remove what is in pictures, but not what is after them."""
    for svg in tree.iter("svg"):
        tail = svg.tail
        svg.clear()
        svg.tail = tail


def rows(tree: ElementTree.Element) -> list[list[str]]:
    """The texts of the cells of kernels, without titles of pictures."""
    hide_pictures(tree)
    return [
        [text_of(cell) for cell in row] for body in tree.iter("tbody") for row in body
    ]


def tiles(tree: ElementTree.Element) -> dict[str, str]:
    """What is said of the whole model."""
    (listed,) = (dl for dl in tree.iter("dl"))
    hide_pictures(listed)
    return {text_of(div[0]): text_of(div[1]) for div in listed}


def test_rows_of_kernels(report: ModelReport):
    first, second, third = report.kernels
    assert rows(page_tree(report)) == [
        [
            "1",
            f"stablehlo.dot_general{first.location}",
            "i8i8<-127:127>",
            "",
            f"{first.sqnr:.1f}",
            f"{first.own_sqnr:.1f}",
            f"{first.weight_sqnr:.1f}",
            f"{first.saturated_part * 100:.2g}%",
            "192 → 48",
        ],
        [
            "2",
            f"stablehlo.tanh{second.location}",
            "i8",
            "",
            f"{second.sqnr:.1f}",
            f"{second.own_sqnr:.1f}",
            "-",
            "0%",
            "-",
        ],
        [
            "3",
            f"stablehlo.dot_general{third.location}",
            "i8i8<-127:127>",
            "",
            f"{third.sqnr:.1f}",
            f"{third.own_sqnr:.1f}",
            f"{third.weight_sqnr:.1f}",
            f"{third.saturated_part * 100:.2g}%",
            "96 → 24",
        ],
    ]


CALLED = """
func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %a = stablehlo.tanh %x : tensor<4x6xf32>
  %b = func.call @layer(%a) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %c = stablehlo.logistic %b : tensor<4x6xf32>
  return %c : tensor<4x6xf32>
}
func.func private @layer(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %y = stablehlo.multiply %x, %x : tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
"""


def test_kernels_of_called_functions_are_in_the_order_of_execution(
    monkeypatch: pytest.MonkeyPatch,
):
    # Only large functions stay functions.
    monkeypatch.setattr(inlining, "MAX_INLINED_OPS", 0)
    found = quantize(CALLED, DATA, PLAIN).report(DATA, times=True)
    order = ["stablehlo.tanh", "stablehlo.multiply", "stablehlo.logistic"]
    assert [kernel.kernel for kernel in found.kernels] == order
    places = [line.split()[1] for line in str(found).splitlines()[1:4]]
    assert places == ["module:3:3", "module:9:3", "module:5:3"]
    assert [row[1] for row in rows(page_tree(found))] == [
        f"{name}{place}" for name, place in zip(order, places, strict=True)
    ]
    # A kernel keeps its times.
    assert all(kernel.times.is_known for kernel in found.kernels)


def test_styles_of_notebooks_do_not_move_labels(report: ModelReport):
    """JupyterLab lets `dt` and `dd` float, with a minimum width."""
    style = report.page().partition("</style>")[2]
    (rule,) = re.findall(r"\.tiles dt,\.xdsl-quant-report \.tiles dd\{([^}]*)\}", style)
    settings = set(rule.replace("\n", "").replace(" ", "").split(";"))
    assert {"display:block", "float:none", "clear:none", "min-width:0"} <= settings


def test_the_whole_model(report: ModelReport):
    sqnr = f"{report.outputs['main:output:0']:.1f} dB"
    plain = {
        "SQNR": f"{sqnr}main:output:0",
        "Constants": "288 → 72 bytes4.00 times less",
        "Quantized": "3 of 3 kernelsrecipe int8, target stablehlo-int8",
    }
    assert tiles(page_tree(report)) == plain
    measured = replace(
        report,
        accuracy=Accuracy("accuracy", 0.9, 0.875, 40),
        latency=Latency(Times(1e-3, 2e-6), 4),
    )
    assert tiles(page_tree(measured)) == plain | {
        "Accuracy": "90.0% → 87.5%40 samples",
        "Time": "1 ms → 2 µsa call with 4 samples",
    }
    strange = replace(
        report,
        accuracy=Accuracy(EVIL, 1.0, 2.0, 1),
        latency=Latency(Times(), 1, EVIL),
        outputs={EVIL: math.inf},
        recipe=EVIL,
    )
    found = tiles(page_tree(strange))
    assert found[EVIL] == "1 → 21 sample"
    assert found["Time"] == f"nonea call with 1 sample; {EVIL}"
    assert found["SQNR"] == f"exact{EVIL}"
    assert f"recipe {EVIL}" in found["Quantized"]


def test_bars_have_one_scale_for_each_column(report: ModelReport):
    first, second, third = report.kernels
    kernels = [
        replace(first, saturated_part=0.02, times=Times(4e-6, 1e-6)),
        replace(second, saturated_part=0.005),
        replace(third, saturated_part=0.0),
    ]
    latency = Latency(Times(1e-3, 5e-4), 4)
    tree = page_tree(replace(report, kernels=kernels, latency=latency))
    (caption,) = (text_of(caption) for caption in tree.iter("caption"))
    assert caption == f"Kernels in execution order. {BARS}"
    widths = {
        svg.get("aria-label"): [
            (bar.get("class"), bar.get("width")) for bar in svg.iter("rect")
        ]
        for svg in tree.iter("svg")
    }
    expected = {
        "2% saturated": [("out", "72.0")],
        "0.5% saturated": [("out", "18.0")],
        "192 → 48 bytes": [("float", "72.0"), ("in", "18.0")],
        "96 → 24 bytes": [("float", "36.0"), ("in", "9.0")],
        "4 µs → 1 µs": [("float", "72.0"), ("in", "18.0")],
        "288 and 72 bytes": [("float", "160.0"), ("in", "40.0")],
        "1 ms -> 500 us": [("float", "160.0"), ("in", "80.0")],
    }
    assert expected.items() <= widths.items()
    assert "0% saturated" not in widths
    # One part in a hundred fills a bar if no kernel has more.
    tree = page_tree(replace(report, kernels=[replace(first, saturated_part=0.005)]))
    (bar,) = tree.findall(".//rect[@class='out']")
    assert bar.get("width") == "36.0"


def test_times_of_kernels(report: ModelReport):
    kernels = [
        replace(report.kernels[0], times=Times(2e-6, 1e-6)),
        replace(report.kernels[1], times=Times(2e-6)),
        report.kernels[2],
    ]
    latency = Latency(Times(1e-3, 2e-3), 4)
    cells = rows(page_tree(replace(report, kernels=kernels, latency=latency)))
    assert [row[-1] for row in cells] == ["2 µs → 1 µs", "2 µs → -", "-"]


def test_histograms_of_what_loses_most(report: ModelReport):
    tree = page_tree(report)
    captions = [text_of(caption) for caption in tree.iter("figcaption")]
    order = sorted(range(3), key=lambda index: report.kernels[index].own_sqnr)
    assert [int(caption[0]) - 1 for caption in captions] == order
    last = report.kernels[2]
    assert last.histogram is not None
    assert last.stored_range is not None
    # All values of all batches.
    assert int(last.histogram.counts.sum()) == 64 * 3
    low, high = last.stored_range
    caption = next(caption for caption in captions if caption.startswith("3 "))
    assert f"stored {low:.4g} to {high:.4g}" in caption
    assert f"own SQNR {last.own_sqnr:.1f} dB" in caption
    grounds = [
        figure.find("svg/rect[@class='range']") for figure in tree.iter("figure")
    ]
    assert None not in grounds
    values = float(last.histogram.lows), float(last.histogram.highs)
    is_outside = values[0] < low or high < values[1]
    assert is_outside == (last.saturated_part > 0)


def kernel(number: int, location: str = "") -> KernelReport:
    i8 = "!quant.uniform<i8:f32, 0.5>"
    own = 60.0 - number
    return KernelReport("k", location, i8, "", 20.0, own, math.nan, 0.0, 0, 0)


def test_many_kernels():
    location = f'loc("{"block/" * 30}{EVIL}")'
    kernels = [kernel(number, location) for number in range(200)]
    report = ModelReport(kernels, {"main:output:0": 20.0})
    tree = page_tree(report)
    worst_first = [*range(151, 201), *range(1, 151)]
    assert [row[0] for row in rows(tree)] == [str(number) for number in worst_first]
    (details,) = tree.iter("details")
    assert text_of(details[0]) == "… and 150 more kernels"
    assert len(rows(details)) == 150
    assert [text_of(caption) for caption in tree.iter("caption")] == [
        f"The 50 kernels that lose most, in execution order. {BARS}",
        "Kernels that lose less",
    ]
    names = [div for div in tree.iter("div") if div.get("title")]
    assert names[0].get("title") == f"{'block/' * 30}{EVIL}"
    assert max(len(text_of(name)) for name in names) == 63
    notebook = parse_html(getattr(report, "_repr_html_")())
    shown = rows(notebook)
    assert [row[0] for row in shown] == [str(number) for number in range(151, 201)]
    paragraph = [*notebook.iter("p")][-1]
    assert text_of(paragraph) == (
        "… and 150 more kernels: save_html writes all of them to a file."
    )
    lines = str(report).splitlines()
    assert lines[51] == (
        "... and 150 more kernels with smaller errors; --report writes all of them to a "
        "file"
    )
    assert [float(line.split()[-4]) for line in lines[1:51]] == [*range(-90, -140, -1)]


def test_a_search_for_bits(report: ModelReport):
    recipe = replace(read_recipe("mixed"), bias_correction=False)
    model = mixed_model(dense_layers(), DATA[:16], recipe, budget="40 B")
    found = model.report(DATA[:16])
    assert f"<h2>Search for bits</h2>{model.search.svg()}<pre" in found.page()
    assert "Search for bits" not in getattr(found, "_repr_html_")()
    (table,) = page_tree(found).iter("pre")
    assert text_of(table) == str(model.search)
    assert "Search for bits" not in report.page()
    content = json.loads(found.json())["search"]
    assert content["budget"] == "40 bytes"
    assert content["chosen"] == {
        "weight_bits": [4, None, 4],
        "activation_bits": [8, 8, 8],
        "stored_bytes": 36,
        "noise": model.search.chosen.noise,
        "accuracy": None,
    }
    assert content["chosen"] in content["measured"]
    assert len(content["measured"]) == len(model.search.measured)
    assert [kernel["widths"] for kernel in content["kernels"]] == [
        ["8x2", "8x4", "8x8"],
        ["8"],
        ["8x2", "8x4", "8x8"],
    ]
    assert json.loads(report.json())["search"] is None


def test_a_kernel_that_computes_a_constant_has_no_sqnr():
    constant = replace(kernel(59), is_constant=True)
    report = ModelReport([kernel(0), constant], {"main:output:0": 20.0})
    assert rows(page_tree(report))[1][3:6] == ["constant", "-", "-"]
    assert str(report).splitlines()[2].split() == ["k", "i8", *"----", "0.00%", "-"]
    assert '"own_sqnr": 1.0' in report.json()


def test_constants_are_known():
    text = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %b = stablehlo.constant() <{value = dense<[0.5, 1.0, 0.25]> : tensor<3xf32>}> : () -> tensor<3xf32>
  %c = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  %y = stablehlo.multiply %x, %c : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
"""  # noqa: E501 as printed
    data = samples(4, 3)
    report = quantize(text, data, PLAIN).report(data)
    assert [each.is_constant for each in report.kernels] == [True, False]


def test_only_weights():
    recipe = replace(read_recipe("int8-weights"), bias_correction=False)
    report = quantize(dense_layers(), DATA[:8], recipe).report(DATA[:8])
    tree = page_tree(report)
    assert [row[2] for row in rows(tree)] == ["floati8<-127:127>"] * 2
    assert not [*tree.iter("figure")]
    assert tiles(tree)["Quantized"] == "2 of 2 kernelsrecipe int8-weights"


def test_nothing_reaches_a_kernel():
    unknown = replace(kernel(0), sqnr=math.nan, own_sqnr=math.nan)
    tree = page_tree(ModelReport([unknown], {}))
    assert not [svg for svg in tree.iter("svg") if svg.get("class") == "plot"]
    assert rows(tree)[0][4:6] == ["-", "-"]


def test_the_page_needs_nothing_else(report: ModelReport, tmp_path: Path):
    path = tmp_path / "report.html"
    report.save_html(path, EVIL)
    text = path.read_text()
    assert text == report.page(EVIL)
    tree = page_tree(report, EVIL)
    assert next(map(text_of, tree.iter("title"))) == EVIL
    assert "http" not in text
    assert not [*tree.iter("script"), *tree.iter("link"), *tree.iter("img")]
    for svg in tree.iter("svg"):
        title = svg.find("title")
        assert title is not None
        assert (svg.get("role"), svg.get("aria-label")) == ("img", text_of(title))


def test_histograms_of_infinite_values():
    text = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = stablehlo.exponential %x : tensor<2xf32>
  return %y : tensor<2xf32>
}
"""
    model = quantize(text, samples(4), PLAIN)
    (found,) = model.report([np.array([1000, 0.5], np.float32)]).kernels
    assert found.histogram is not None
    assert int(found.histogram.counts.sum()) == 1
    (found,) = model.report([np.array([1000, 999], np.float32)]).kernels
    assert found.histogram is None


def test_a_recipe_of_the_user():
    recipe = replace(PLAIN, name="mine")
    report = quantize(dense_layers(), DATA, recipe).report(DATA)
    assert (report.recipe, report.target) == ("mine", "stablehlo-int8")
