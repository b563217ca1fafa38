"""Style sheets and templates of HTML, which are files of this package."""

from importlib.resources import files
from string import Template


def text(name: str) -> str:
    """The text of a file."""
    return files("xdsl_quant.display").joinpath(name).read_text(encoding="utf-8")


def style(name: str) -> str:
    """A style sheet as an element of HTML."""
    return f"<style>\n{text(name)}</style>"


def template(name: str) -> Template:
    """A file with `$name` where something is put in."""
    return Template(text(name))
