"""MLIR text in colours."""

import pytest

from tests.unit.display.html_tree import classes, parse_html, text_of
from xdsl_quant.display.highlight import (
    alias_definitions,
    highlight_html,
    shorten_token,
    shorten_tokens,
)

LONG = "!quant.uniform<i8<-8:7>:f32:0, {" + ",".join(["1.000000e+00"] * 64) + "}>"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("// a %x", [("c", "// a %x")]),
        ('x = "a <b> \\" // %c"', [("s", '"a <b> \\" // %c"')]),
        ("!q0 #map", [("q", "!q0"), ("q", "#map")]),
        ("!quant.any<i8<-8:7>:f32>>", [("q", "!quant.any<i8<-8:7>:f32>")]),
        ("!a.b<c> #a.b", [("t", "!a.b"), ("t", "#a.b")]),
        ("%0#1, %x.y ^bb1 @f", [("v", "%0#1"), ("v", "%x.y"), ("v", "^bb1"), ("v", "@f")]),
        ("dense<[1, 2]> : ", [("n", "dense<[1, 2]>")]),
        ("-1.5e+00, 0xFF, 12", [("n", "-1.5e+00"), ("n", "0xFF"), ("n", "12")]),
        ("quant.qcast func.func", [("o", "quant.qcast"), ("o", "func.func")]),
        (
            "tensor<?x3x!q0>, tensor<*xf32>, tuple<i1>",
            [
                ("t", "tensor<?x3x"),
                ("q", "!q0"),
                ("t", "tensor<*xf32"),
                ("t", "tuple<i1"),
            ],
        ),
        ("si8 ui8 i64 bf16 f8E4M3FN index", [
            ("t", "si8"), ("t", "ui8"), ("t", "i64"),
            ("t", "bf16"), ("t", "f8E4M3FN"), ("t", "index"),
        ]),
        ("(a) -> b", []),
    ],
)  # fmt: skip
def test_tokens(text: str, tokens: list[tuple[str, str]]):
    tree = parse_html(highlight_html(text, {}))
    assert classes(tree) == tokens
    assert text_of(tree) == text


def test_aliases_have_a_title():
    tree = parse_html(highlight_html('!q0 !q1 "!q0"', {"!q0": '<"&">', "!q1": LONG}))
    titles = [span.get("title") for span in tree.iter("span")]
    assert titles == ['<"&">', shorten_token(LONG), None]


@pytest.mark.parametrize("token", [LONG, f'"{"a" * 999}"', f"dense<{[1] * 500}>"])
def test_long_tokens_lose_their_middle(token: str):
    tree = parse_html(highlight_html(f"a {token} b", {}))
    assert (
        text_of(tree) == shorten_tokens(f"a {token} b") == f"a {shorten_token(token)} b"
    )
    assert len(shorten_token(token)) < 130
    assert shorten_token(token)[:80] == token[:80]
    assert shorten_token(token)[-20:] == token[-20:]


def test_alias_definitions():
    text = '!a = i8\n#m = affine_map<(d0) -> (d0)>\nfoo {x = !a, y = "\n!b"}\n'
    assert alias_definitions(text) == {"!a": "i8", "#m": "affine_map<(d0) -> (d0)>"}
