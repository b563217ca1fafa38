"""HTML of notebooks, read strictly."""

from xml.etree import ElementTree


def parse_html(html: str) -> ElementTree.Element:
    """
    The tree of HTML that is well-formed XML, too, as all HTML of this package is.

    Raises:
        ElementTree.ParseError: for anything that is not closed or not escaped.
    """
    return ElementTree.fromstring(f"<html>{html}</html>")


def text_of(element: ElementTree.Element) -> str:
    """The text in an element and in all that is inside of it."""
    return "".join(element.itertext())


def classes(tree: ElementTree.Element) -> list[tuple[str, str]]:
    """The class and the text of each highlighted token."""
    return [(span.get("class", ""), text_of(span)) for span in tree.iter("span")]
