"""HTML rendering with the templates in this folder."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from xdsl_quant.diagnostics import counted, shortened_text
from xdsl_quant.runtime.extras import check_packages

if TYPE_CHECKING:
    from jinja2 import Environment


def percent(part: float) -> str:
    """Format a fraction as a percentage; only exactly 0 and 1 give 0% and 100%."""
    if part in (0, 1):
        return f"{part:.0%}"
    return "< 0.001%" if part < 1e-5 else f"{part * 100:.2g}%"


def location_name(location: str) -> str:
    """Return a location without `loc("...")`."""
    return location.removeprefix('loc("').removesuffix('")')


@cache
def templates() -> Environment:
    """
    Return the template environment, which escapes values.

    Raises:
        ImportError: if Jinja2 is not installed.
    """
    check_packages("an HTML page", "Jinja2")
    # Jinja2 is optional.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        autoescape=True,
        loader=PackageLoader("xdsl_quant", "display"),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )


_FUNCTIONS = {
    "counted": counted,
    "location_name": location_name,
    "percent": percent,
    "shortened_text": shortened_text,
}
"""Functions available in all templates."""


def render(name: str, **values: object) -> str:
    """
    Render a template to HTML.

    Args:
        name: file name of the template.
        values: variables of the template.

    Raises:
        ImportError: if Jinja2 is not installed.
    """
    return templates().get_template(name).render(_FUNCTIONS, **values)


def page(title: str, body: str) -> str:
    """Return a self-contained HTML page."""
    return render("report_page.html", title=title, body=body)
