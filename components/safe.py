"""The one gate for text that others wrote: documents, file names, questions, model output.

Everything the app draws as HTML is built with `el`, which escapes every plain string it is given; everything
that must go into a Streamlit label (labels are Markdown) goes through `label`; a spreadsheet cell through
`cell`; chart text through `chart_text`. Nothing that passes can run, load, restyle the page or turn into
mathematics, emoji or a link.
"""

from __future__ import annotations

import html
import re
import unicodedata

_CONTROLS = {c: None for c in range(32) if c not in (9, 10)} | {127: None}
_DIRECTIONS = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_URL = re.compile(r"(?i)\b(https?|ftp|mailto|www)([:.])")
_TAG = re.compile(r"[a-z][a-z0-9]*\Z")
_ATTRIBUTE = re.compile(r"[a-z][a-z0-9-]*\Z")
_VOID = frozenset({"br", "hr", "col"})

# fmt: off
TAGS = frozenset((
    "a", "article", "b", "blockquote", "br", "button", "caption", "code", "col", "dd", "details", "div", "dl",
    "dt", "em", "figcaption", "figure", "h1", "h2", "h3", "h4", "hr", "i", "li", "mark", "ol", "p", "pre", "q",
    "section", "small", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th", "thead", "tr",
    "ul",
))
# fmt: on
"""The only elements `el` draws."""


class Safe(str):
    """HTML that may be drawn as it stands. Only `el`, `join` and `escape` make one."""

    __slots__ = ()


def clean(text: str) -> str:
    """The text without control characters; marks that reorder the line become a visible sign; line ends are one."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = "".join("\ufffd" if unicodedata.category(c) == "Cs" else c for c in text)
    return text.translate(_CONTROLS).translate(_DIRECTIONS)


def escape(value: object) -> Safe:
    """`value` as HTML text. A `Safe` passes unchanged."""
    if isinstance(value, Safe):
        return value
    return Safe(html.escape(clean(str(value)), quote=True))


def join(*parts: object) -> Safe:
    """The parts one after another, each escaped unless it is `Safe`; None is left out."""
    return Safe("".join(escape(part) for part in parts if part is not None))


def el(tag: str, *children: object, **attributes: object) -> Safe:
    """One element. Children and attribute values are escaped unless they are `Safe`.

    `cls` stands for `class`; underscores become dashes; an attribute that is None or False is left out and
    True is written bare. Raises ValueError for a tag or attribute name that the gate does not know, for event
    handlers, and for a link that leaves the page.
    """
    if tag not in TAGS:
        raise ValueError(f"<{tag}> is not an element the app draws.")
    written = []
    for key, value in attributes.items():
        name = "class" if key == "cls" else key.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if not _ATTRIBUTE.match(name) or name.startswith("on") or name in {"src", "srcset", "action", "srcdoc"}:
            raise ValueError(f"{name!r} is not an attribute the app writes.")
        if name == "href" and not str(value).startswith(("#", "?", "/")):
            raise ValueError("A link of the app stays in the app.")
        if value is True:
            written.append(f" {name}")
            continue
        text = str(value)
        if name == "style" and re.search(r"url|expression|[<>@\\]", text):
            raise ValueError("A style may not fetch anything.")
        written.append(f' {name}="{html.escape(clean(text), quote=True)}"')
    opening = f"<{tag}{''.join(written)}>"
    return Safe(opening) if tag in _VOID else Safe(f"{opening}{join(*children)}</{tag}>")


def label(text: str, limit: int | None = 120) -> str:
    """`text` for a place that Streamlit reads as Markdown (a label, a title, a tooltip), shown as it stands.

    Every ASCII punctuation mark becomes a character reference, so no Markdown, directive, emoji code or formula
    can form; an address is broken with a word joiner so that it does not become a link. `limit` cuts long text.
    """
    text = re.sub(r"[ \t\n]+", " ", clean(text)).strip()
    if limit is not None and len(text) > limit:
        text = text[: limit - 1].rstrip() + "…"
    text = _URL.sub("\\1\u2060\\2", text).replace("@", "\u2060@")
    return _PUNCTUATION.sub(lambda found: f"&#{ord(found.group())};", text)


def chart_text(text: str, limit: int = 40) -> str:
    """`text` for a Plotly label, which reads a few HTML tags."""
    text = " ".join(clean(text).split())
    if len(text) > limit:
        text = text[: limit - 1].rstrip() + "…"
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")


def cell(text: str) -> str:
    """`text` for a cell of a table that may be opened in a spreadsheet: it cannot begin a formula."""
    text = clean(text)
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t") else text


def markdown_text(text: str) -> str:
    """`text` for Markdown that is copied elsewhere: backslash escapes, still readable by people."""
    return re.sub(r"([\\`*_{}\[\]<>()#!|~$])", r"\\\1", clean(text))


def file_name(text: str, fallback: str = "receipt") -> str:
    """A plain ASCII file name part made of `text`."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-").lower()[:60] or fallback
