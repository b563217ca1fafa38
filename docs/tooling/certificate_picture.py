"""
Draw the picture of `docs/certificates.md`: certified error, observed error and margin of
each sample.

`python -m docs.tooling.certificate_picture` writes `docs/images/certificates.svg`.
"""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from xdsl_quant.proving import Certificate, Region, certify
from xdsl_quant.runtime.loading import read_model_file

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
PICTURE = ROOT / "docs" / "images" / "certificates.svg"

RADIUS = 0.05


def certificate() -> Certificate:
    """Certify the quantized wine network near all test samples."""
    quantized, float_module = (
        read_model_file(EXAMPLES / name, static=True)
        for name in ("wine_int8.onnx", "wine.onnx")
    )
    with np.load(EXAMPLES / "wine_test.npz") as file:
        samples = np.asarray(file["x"], np.float64)
    return certify(quantized, float_module, Region.ball(samples, RADIUS))


def draw(found: Certificate) -> Figure:
    """Draw a column for each sample, ordered by margin."""
    regions = sorted(found.regions, key=lambda each: each.margin)
    columns = np.arange(len(regions))
    is_open = np.array([r.verdicts["agreement"] != "certified" for r in regions])
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    # matplotlib has no complete types.
    axes: Any = figure.subplots()
    errors = [each.error for each in regions]
    margins = np.array([each.margin for each in regions])
    axes.bar(columns, errors, color="#9db7d5", label="certified: no error is larger")
    observed = [each.observed for each in regions]
    axes.plot(
        columns, observed, "o", ms=3, color="#1f4e79", label="largest error found"
    )
    axes.step(
        columns, margins, where="mid", color="#c55a11", label="margin of the class"
    )
    if is_open.any():
        axes.plot(
            columns[is_open],
            margins[is_open],
            "x",
            color="#c55a11",
            label="same class not certified",
        )
    axes.set_yscale("log")
    axes.set_xlabel("sample, ordered by margin")
    axes.set_ylabel("logit")
    axes.set_xlim(-1, len(regions))
    axes.legend(frameon=False, fontsize=8, ncols=2)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    """Write the picture."""
    settings: Any = mpl.rcParams
    settings.update({"svg.hashsalt": "certificates", "svg.fonttype": "none"})
    picture: Any = draw(certificate())
    picture.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
