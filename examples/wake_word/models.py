"""Paths of the models of the package `pymicro-wakeword`."""

from importlib.util import find_spec
from pathlib import Path

from xdsl_quant.runtime.extras import missing_package


def model_paths() -> dict[str, Path]:
    """
    Return the models of the package `pymicro-wakeword` (license: Apache-2.0) by name.

    Raises:
        ImportError: if the package is not installed.
    """
    # Do not import the package: the import loads its TensorFlow Lite library.
    spec = find_spec("pymicro_wakeword")
    if spec is None or not spec.submodule_search_locations:
        raise missing_package("the demo", "pymicro-wakeword", "demo")
    models = Path(spec.submodule_search_locations[0]) / "models"
    return {path.stem: path for path in sorted(models.glob("*.tflite"))}
