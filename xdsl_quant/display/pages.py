"""HTML from the templates of this folder."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from xdsl_quant.diagnostics import counted, shortened_text
from xdsl_quant.runtime.extras import check_packages

if TYPE_CHECKING:
    from jinja2 import Environment


def percent(part: float) -> str:
    """A percentage that is 0% or 100% only if it is exactly that."""
    if part in (0, 1):
        return f"{part:.0%}"
    return "< 0.001%" if part < 1e-5 else f"{part * 100:.2g}%"


def location_name(location: str) -> str:
    """The name of a location, or where it is in a text."""
    return location.removeprefix('loc("').removesuffix('")')


@cache
def templates() -> Environment:
    """
    The templates, which escape what is put in.

    Raises:
        ImportError: if Jinja2 is not installed.
    """
    check_packages("an HTML page", "Jinja2")
    # It is optional.
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
"""Functions that all templates call."""


def render(name: str, **values: object) -> str:
    """
    Return the HTML of a template.

    Args:
        name: the name of the file.
        values: what is put in.

    Raises:
        ImportError: if Jinja2 is not installed.
    """
    return templates().get_template(name).render(_FUNCTIONS, **values)


def page(title: str, body: str) -> str:
    """The text of an HTML page that needs nothing else."""
    return render("report_page.html", title=title, body=body)
