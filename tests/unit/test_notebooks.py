"""Notebooks are stored without outputs, run from scratch, and show what they promise."""

from base64 import b64decode
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, cast

import nbformat
import numpy as np
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import run_sync
from matplotlib.image import imread
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))

# The annotations of nbformat are incomplete, and leave out what a notebook has.
_nbformat = cast(Any, nbformat)
Notebook = Any


class Shown(NamedTuple):
    """What a notebook shows."""

    figures: int
    """Number of figures."""

    html: tuple[str, ...]
    """A part of each HTML output, in their order."""

    text: tuple[str, ...]
    """Lines that are printed."""


SHOWN = {
    "digits": Shown(
        figures=2,
        html=("linalg.conv_2d_nhwc_hwcf", "main:linalg.generic:2", "arith.sitofp"),
        text=(
            "mlp          878 of 899  97.66%",
            "convolution  887 of 899  98.67%",
            "i8 per-axis  887 of 899  98.67%",
            "i8 per-axis      6,888     44.6    39.5      877",
            "i4 sub-channel   3,832     21.5    21.4      886",
            "entropy           mlp                  39.5      876",
        ),
    ),
    "formats": Shown(
        figures=2,
        html=(),
        text=(
            "floats            32.00 bits              878 of 899",
            "MXFP4              4.25 bits   18.3 dB  873",
            "Q4_K               4.50 bits   22.6 dB  877",
            "Q8_0               8.50 bits   45.1 dB  878",
            "scale    -0.04727",
        ),
    ),
    "frontend_dialect": Shown(
        figures=0,
        html=("toy.hard_swish", "quant.dcast", "arith.mulf"),
        text=(
            "85 of 768 stored values differ,",
            "module:3:7: error: 'toy.hard_swish' op operand #0 cannot be dequantized: "
            "'!quant.any<i8>' has no expressed type",
        ),
    ),
    "onnx": Shown(
        figures=2,
        html=(),
        text=(
            "argument tensor<?x13xf32>",
            "89 samples -> (89, 3)",
            "86 of 89 correct; differs from onnxruntime by less than 1e-5",
            "{'QuantizeLinear': 4, 'DequantizeLinear': 10, 'Gemm': 3}",
            "4,455 -> 3,919 bytes",
            "xdsl-quant       29.6 dB  86 of 89 correct",
            "kernels=None: 0 of 267 results differ from onnxruntime",
            "scale 0.03: 0.00 % differ, at most by 0: no difference",
        ),
    ),
    "propagation": Shown(
        figures=1,
        html=("stablehlo.maximum", "quant.region", "stablehlo.uniform_quantize"),
        text=(
            "887 of 899 digits are read correctly",
            "%28 = quant.stats %27 <-45.6592255:17.7947311> : tensor<899x10xf32>",
            "34 kernels, ranges by the rule 'exact'",
            "target stablehlo-int8, quantized values: 14 of 16, rescales: 0, kernels in "
            "floating point: 0, ops in no kernel: 0",
            "stablehlo  stablehlo-int8  fixed    887 correct, largest difference 1.33",
            "linalg     mac-array       codegen  888 correct, largest difference 0.82",
        ),
    ),
    "quantizer": Shown(
        figures=2,
        html=("tfl.depthwise_conv_2d",),
        text=(
            "accuracy: 98.7% -> 98.7% of 899 samples",
            "main:tfl.conv_2d:1            tfl.conv_2d            i8      40.4  44.1"
            "    47.9     *",
            "tfl.average_pool_2d    module:12:3  float   -             47.2  exact  -"
            "        0.00%      -",
            "tfl.reshape            module:14:3  i8      -             42.4  44.2   -"
            "        0.00%      -",
            "SQNR of the results: main:output:0 44.0 dB",
            "dynamic-range  47.2  98.67%",
            "int4-weights   24.1  98.78%",
        ),
    ),
    "text_direction": Shown(
        figures=2,
        html=(),
        text=(
            "differs from onnxruntime by less than 1e-5",
            "120 of 120 lines have the same results",
        ),
    ),
    "tflite": Shown(
        figures=3,
        html=("tfl.conv_2d",),
        text=(
            "conv_2d            1x1x1x64    0.042226        -128  0.00 to 10.77",
            "1        64x5x1x40        64        0.000102       0.000358   1.0%",
            "332 steps with 1x3x40 stored values",
            "interpreted    0 of 332 outputs differ from compiled integers, at most by 0",
        ),
    ),
    "tour": Shown(
        figures=1,
        html=("<svg", "quant.qcast", "linalg.generic", "quant.dcast"),
        text=("SQNR           26.3 dB", "out of range   0.18%"),
    ),
    "wake_word_weights": Shown(
        figures=6,
        html=(),
        text=(
            "8  per-axis        513  26,020    8.68   exact   exact   0.00%",
            "4  per-tensor       10  12,024    4.01    13.6    15.2   7.14%",
            "4  per-axis        513  14,036    4.68    17.5    19.6   7.09%",
            "4  sub-channel   1,908  19,616    6.55    21.0    21.9   7.09%",
            "5  per-axis        513  17,032    5.68    24.0    26.4   3.31%",
        ),
    ),
}


def _read(path: Path) -> Notebook:
    notebook: Notebook = _nbformat.read(path, as_version=_nbformat.NO_CONVERT)
    _nbformat.validate(notebook)
    return notebook


def _code_cells(notebook: Notebook) -> Iterator[Any]:
    return (cell for cell in notebook.cells if cell.cell_type == "code")


def test_each_notebook_has_its_expectations():
    assert [path.stem for path in NOTEBOOKS] == sorted(SHOWN)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_without_outputs(path: Path):
    notebook = _read(path)
    for cell in _code_cells(notebook):
        assert cell.outputs == []
        assert cell.execution_count is None
    # Whatever else an editor adds is not for others.
    assert all(cell.metadata == {} for cell in notebook.cells)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.metadata.language_info == {"name": "python"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_begins_with_a_title_and_what_to_install(path: Path):
    first = _read(path).cells[0]
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")
    assert "pip install '.[mlir,notebook" in first.source


def _execute(notebook: Notebook, manager: Any) -> None:
    resources = {"metadata": {"path": str(NOTEBOOKS[0].parent)}}
    client: Any = NotebookClient(
        notebook, km=manager, timeout=None, resources=resources
    )
    client.execute()
    client.kc.stop_channels()


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The manager of a kernel for all notebooks, as imports take longer than most cells."""
    manager: Any = AsyncKernelManager()
    # With no directories to search in, the kernel is the Python that runs the tests.
    manager.kernel_spec_manager = KernelSpecManager(kernel_dirs=[])
    directory = str(tmp_path_factory.mktemp("jupyter"))
    with pytest.MonkeyPatch.context() as patch:
        # Nothing that is configured for the user may change what happens.
        patch.setenv("IPYTHONDIR", directory)
        patch.setenv("JUPYTER_RUNTIME_DIR", directory)
        patch.delenv("MPLBACKEND", raising=False)
        yield manager
        run_sync(manager.shutdown_kernel)(now=True)


SLOW = {"digits", "onnx", "propagation", "quantizer", "text_direction", "tflite"}
"""Notebooks that only `make oracles` runs."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            path,
            marks=[pytest.mark.sampled(0)] if path.stem in SLOW else [],
            id=path.stem,
        )
        for path in NOTEBOOKS
    ],
)
def executed(request: pytest.FixtureRequest, kernel: Any) -> tuple[str, Notebook]:
    """The name of a notebook, and the notebook with all outputs."""
    path: Path = request.param
    notebook = _read(path)
    _execute(notebook, kernel)
    # The next notebook finds no variables.
    reset = _nbformat.v4.new_code_cell("%reset -f")
    _execute(_nbformat.v4.new_notebook(cells=[reset]), kernel)
    return path.stem, notebook


def _outputs(notebook: Notebook) -> list[Any]:
    return [output for cell in _code_cells(notebook) for output in cell.outputs]


def _shown_as(mime_type: str, notebook: Notebook) -> list[str]:
    outputs = [output.get("data", {}) for output in _outputs(notebook)]
    return [output[mime_type] for output in outputs if mime_type in output]


def test_notebook_runs_without_errors_and_warnings(executed: tuple[str, Notebook]):
    _, notebook = executed
    assert all(cell.execution_count for cell in _code_cells(notebook))
    for output in _outputs(notebook):
        assert output.output_type != "error"
        # A warning is text on stderr.
        assert output.get("name") != "stderr", output.text


def test_notebook_prints_what_it_promises(executed: tuple[str, Notebook]):
    name, notebook = executed
    streams = [o.text for o in _outputs(notebook) if o.output_type == "stream"]
    lines = [line.strip() for line in "".join(streams).splitlines()]
    assert [line for line in SHOWN[name].text if line not in lines] == []


def test_notebook_shows_types_and_modules(executed: tuple[str, Notebook]):
    name, notebook = executed
    shown = _shown_as("text/html", notebook)
    assert len(shown) == len(SHOWN[name].html)
    for html, part in zip(shown, SHOWN[name].html, strict=True):
        assert part in html


def test_notebook_shows_figures(executed: tuple[str, Notebook]):
    name, notebook = executed
    figures = _shown_as("image/png", notebook)
    assert len(figures) == SHOWN[name].figures
    for figure in figures:
        image: Any = imread(BytesIO(b64decode(figure)))
        height, width, _ = image.shape
        assert height > 300
        assert width > 600
        # It is not empty.
        assert np.std(image) > 0.1
