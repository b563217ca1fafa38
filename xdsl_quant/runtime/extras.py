"""Optional packages: whether they are installed, and the error if they are not."""

from collections.abc import Callable
from importlib.util import find_spec

_PACKAGES = "Jinja2", "matplotlib"
"""The optional packages that draw reports."""


def missing_package(feature: str, package: str, extra: str) -> ImportError:
    """
    The error for a feature that cannot work without an optional package.

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
    Raise an error if a package is not installed.

    Args:
        feature: what needs them, as the subject of a sentence.
        packages: their names; by default those of reports.

    Raises:
        ImportError: if one of them is missing.
    """
    for package in packages or _PACKAGES:
        if find_spec(package.lower()) is None:
            raise missing_package(feature, package, "notebook")


def notebook_html(html: Callable[[], str]) -> str | None:
    """Return HTML, or `None` without the packages: then a notebook shows text."""
    if any(find_spec(package.lower()) is None for package in _PACKAGES):
        return None
    return html()
