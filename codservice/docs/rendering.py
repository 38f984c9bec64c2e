"""Renders Markdown as HTML without inline styles or scripts, with anchors at its headings."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.anchors import anchors_plugin


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the text under it, up to the next heading."""

    level: int
    anchor: str
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Rendered:
    html: str
    sections: list[Section]
    """In the page's order. The first has the page's title, and the text before the second heading."""


_GROUPS = re.compile(r"(?<=\d) (?=\d{3}(?!\d))", re.ASCII)  # of a number: 10 000
_SPACE = re.compile(r" (?=[:;?!»])|(?<=«) ")
_APOSTROPHE = re.compile(r"(?<=\w)'")


def typeset(text: str) -> str:
    """Text in the active language with the characters that nobody types: no line breaks within a number, and in French
    none before the punctuation that ends a phrase."""
    text = grouped(text)
    if get_language() != "fr":
        return text
    return _APOSTROPHE.sub("’", _SPACE.sub("\N{NARROW NO-BREAK SPACE}", text))


def grouped(text: str) -> str:
    """Text with the groups of each number kept together: within Arabic they would run from right to left."""
    return _GROUPS.sub("\N{NARROW NO-BREAK SPACE}", text)


def render(text: str, where_to: Callable[[str], str], english: Sequence[Section] = ()) -> Rendered:
    """The page, with each address of a link or image replaced by what `where_to` returns. HTML in it is escaped.

    If it has the same sections as the page in English, the anchors of those lead to them too."""
    parser = _parser()
    tokens = parser.parse(text)
    sections = list(_sections(tokens))  # before typesetting: search reads the text as it was typed
    for token in _all(tokens):
        if token.type == "text":
            token.content = typeset(token.content)
        for attribute in ("href", "src"):
            if attribute in token.attrs and token.type in ("link_open", "image"):
                token.attrs[attribute] = where_to(str(token.attrs[attribute]))
        if token.type in ("th_open", "td_open") and (style := token.attrs.pop("style", None)):
            token.attrs["class"] = str(style).replace("text-align:", "to-")
    _label_cells(tokens)
    if len(english) == len(sections):
        _add_anchors(tokens, [each.anchor for each in english], known={each.anchor for each in sections})
    return Rendered(parser.renderer.render(tokens, parser.options, {}), sections)


def inline(text: str) -> SafeString:
    """The text of one paragraph, such as a description of the API, as HTML. HTML in it is escaped."""
    return SafeString(_parser().renderInline(text))  # noqa: S703  (what is rendered is escaped)


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.use(anchors_plugin, min_level=1, max_level=3)
    # What is wider than a phone scrolls, by keyboard too.
    parser.add_render_rule("table_open", lambda *args: '<div class="scroll" ' + _scrolled(_("Table")) + "><table>\n")
    parser.add_render_rule("table_close", lambda *args: "</table></div>\n")
    shown = parser.renderer.rules["fence"]  # type: ignore[attr-defined]

    def fence(renderer: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
        html = shown(tokens, index, options, env)
        return html.replace("<pre>", "<pre " + _scrolled(_("Example")) + ">", 1)

    parser.add_render_rule("fence", fence)
    return parser


def _scrolled(label: str) -> str:
    return f'role="group" tabindex="0" aria-label="{label}"'


def _label_cells(tokens: list[Token]) -> None:
    """Make each row's first cell its heading, and label the others by column: on a phone cells are stacked."""
    headings: list[str] = []
    column, tag = 0, ""
    for token, following in pairwise(tokens):
        if token.type == "table_open":
            headings = []
        elif token.type == "tr_open":
            column = 0
        elif token.type == "th_open":
            token.attrs["scope"] = "col"
            headings.append(_plain(following))
        elif token.type == "td_open":
            if column and headings[column]:
                token.attrs["data-label"] = headings[column]
            if not column and _plain(following):
                token.tag, token.attrs["scope"] = "th", "row"
            tag = token.tag
            column += 1
        elif token.type == "td_close":
            token.tag = tag


def _add_anchors(tokens: list[Token], anchors: list[str], known: set[str]) -> None:
    headings = (text for start, text in pairwise(tokens) if start.type == "heading_open" and "id" in start.attrs)
    for heading, anchor in zip(headings, anchors, strict=True):
        if anchor not in known:
            mark = Token("html_inline", "", 0, content=f'<span id="{anchor}"></span>')
            heading.children = [mark, *(heading.children or [])]


def _all(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _all(token.children or [])


def _sections(tokens: list[Token]) -> Iterator[Section]:
    heading: tuple[int, str, str] | None = None
    texts: list[str] = []
    for index, token in enumerate(tokens):
        if token.type == "heading_open" and token.tag in ("h1", "h2", "h3"):
            if heading:
                yield Section(*heading, "\n".join(texts))
            texts = []
            heading = (int(token.tag[1]), str(token.attrs["id"]), _plain(tokens[index + 1]))
        elif token.type == "inline" and tokens[index - 1].tag not in ("h1", "h2", "h3"):
            texts.append(_plain(token))
        elif token.type in ("fence", "code_block"):
            texts.append(token.content)
    if heading:
        yield Section(*heading, "\n".join(texts))


def _plain(inline: Token) -> str:
    return "".join(" " if token.type == "softbreak" else token.content for token in inline.children or [])
