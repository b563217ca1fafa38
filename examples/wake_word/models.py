"""The models, which are those of a package."""

from importlib.util import find_spec
from pathlib import Path

from xdsl_quant.runtime.extras import missing_package


def model_paths() -> dict[str, Path]:
    """
    The models that the package `pymicro-wakeword` brings (licence: Apache-2.0), by name.

    Raises:
        ImportError: if the package is not installed.
    """
    # The package is not imported: that would load its TensorFlow Lite library.
    spec = find_spec("pymicro_wakeword")
    if spec is None or not spec.submodule_search_locations:
        raise missing_package("the demo", "pymicro-wakeword", "demo")
    models = Path(spec.submodule_search_locations[0]) / "models"
    return {path.stem: path for path in sorted(models.glob("*.tflite"))}
