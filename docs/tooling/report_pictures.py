"""
Render the report of `docs/reading_the_report.md` in the light and the dark theme.

`python -m docs.tooling.report_pictures` writes `docs/images/report_light.png` and
`docs/images/report_dark.png`. It needs Chromium.
"""

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from xdsl_quant.quantizer import quantize

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
IMAGES = ROOT / "docs" / "images"
SIZE = 960, 985


def main() -> None:
    """Write both pictures."""
    model = quantize(EXAMPLES / "wine.tflite", EXAMPLES / "wine_samples.npz")
    report = model.report(EXAMPLES / "wine_test.npz", EXAMPLES / "wine_test_labels.npy")
    with TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        report.save_html(page, "Quantized wine.tflite")
        # Chromium's numbers of the color schemes: 0 is dark, 1 is light.
        for scheme, name in enumerate(("report_dark.png", "report_light.png")):
            command = (
                "chromium --headless --no-sandbox --hide-scrollbars --disable-gpu",
                f"--blink-settings=preferredColorScheme={scheme}",
                f"--window-size={SIZE[0]},{SIZE[1]}",
                f"--screenshot={IMAGES / name} {page.as_uri()}",
            )
            subprocess.run(" ".join(command).split(), check=True)


if __name__ == "__main__":
    main()
