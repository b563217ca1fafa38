"""Checks for optional packages, and imports from slices."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

_PACKAGES = "Jinja2", "matplotlib"
"""Optional packages that render reports."""

_DISPLAY = "xdsl_quant.display"
"""Slice with pages and plots."""


def missing_package(feature: str, package: str, extra: str) -> ImportError:
    """
    Return the error for a feature whose optional package is not installed.

    Args:
        feature: feature that needs the package, for the message, e.g. `proving`.
        package: name of the missing package.
        extra: extra of xdsl-quant that installs it.
    """
    return ImportError(
        f"{feature} needs {package}, which is not installed; run pip install "
        f"'.[{extra}]' in a checkout of xdsl-quant"
    )


def check_packages(feature: str, *packages: str) -> None:
    """
    Check that packages are installed and that the slice `display` exists.

    Args:
        feature: feature that needs the packages, for the message, e.g. `a plot`.
        packages: package names; by default those for reports.

    Raises:
        ImportError: if a package or the slice is missing.
    """
    _check_slice(feature, _DISPLAY)
    for package in packages or _PACKAGES:
        if find_spec(package.lower()) is None:
            raise missing_package(feature, package, "notebook")


def _check_slice(feature: str, folder: str) -> None:
    if find_spec(folder) is None:
        raise ImportError(
            f"{feature} needs {folder}, which is missing; install xdsl-quant again"
        )


def slice_function(feature: str, name: str) -> Callable[..., Any]:
    """
    Import a function of a slice. The type is `Any`, as in `plugins.lazy`.

    Args:
        feature: feature that needs the function, for the message, e.g. `a plot`.
        name: folder, module and function name, e.g. `display.pages.render`.

    Raises:
        ImportError: if the slice is missing.
    """
    folder, module, function = name.split(".")
    for path in (f"xdsl_quant.{folder}", f"xdsl_quant.{folder}.{module}"):
        _check_slice(feature, path)
    return getattr(import_module(path), function)


def notebook_html(html: Callable[[], str]) -> str | None:
    """Return HTML for a notebook; `None` (plain text) if a package is missing."""
    modules = _DISPLAY, *map(str.lower, _PACKAGES)
    return None if any(find_spec(module) is None for module in modules) else html()
