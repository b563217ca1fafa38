"""
Optional packages and the slice `display`: whether they are there, and the error if they
are not.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

_PACKAGES = "Jinja2", "matplotlib"
"""The optional packages that draw reports."""

_DISPLAY = "xdsl_quant.display"
"""The slice with pages and plots."""


def missing_package(feature: str, package: str, extra: str) -> ImportError:
    """
    Return the error for a feature that cannot work without an optional package.

    Args:
        feature: what needs the package, as the subject of the sentence.
        package: the name of the package that is missing.
        extra: the extra of this package that installs it.
    """
    return ImportError(
        f"{feature} needs {package}, which is not installed; run pip install "
        f"'.[{extra}]' in a checkout of xdsl-quant"
    )


def check_packages(feature: str, *packages: str) -> None:
    """
    Raise an error if a package is not installed, or the slice `display` is missing.

    Args:
        feature: what needs them, as the subject of a sentence.
        packages: their names; by default those of reports.

    Raises:
        ImportError: if one of them is missing.
    """
    _check_display(feature)
    for package in packages or _PACKAGES:
        if find_spec(package.lower()) is None:
            raise missing_package(feature, package, "notebook")


def _check_display(feature: str) -> None:
    if find_spec(_DISPLAY) is None:
        raise ImportError(
            f"{feature} needs {_DISPLAY}, which is missing; install xdsl-quant again"
        )


def display_function(feature: str, name: str) -> Callable[..., Any]:
    """
    Import a function of the slice `display`. Its type is `Any`, as in `plugins.lazy`.

    Args:
        feature: what needs it, as the subject of a sentence.
        name: its module in the slice and its name, e.g. `pages.render`.

    Raises:
        ImportError: if the slice is missing.
    """
    _check_display(feature)
    module, _, function = name.rpartition(".")
    return getattr(import_module(f"{_DISPLAY}.{module}"), function)


def notebook_html(html: Callable[[], str]) -> str | None:
    """Return HTML; `None` without the slice or a package: then a notebook shows text."""
    modules = _DISPLAY, *map(str.lower, _PACKAGES)
    return None if any(find_spec(module) is None for module in modules) else html()
