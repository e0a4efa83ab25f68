"""Texts of API descriptions: without markup, on one line, of bounded length."""

from __future__ import annotations

import html
import re
from functools import lru_cache

_READ = 20_000  # characters that are looked at
_KEPT = 1_000  # characters of a text that may be kept to be met again
_TAGS = (
    "a abbr b blockquote br center code dd del details div dl dt em font h1 h2 h3 h4 h5 h6 hr i img"
    " kbd li ol p pre q s small span strong sub summary sup table tbody td th thead tr tt u ul var"
)
_TAG = re.compile(rf"</?(?:{'|'.join(_TAGS.split())})(?:\s[^<>]{{0,500}})?\s?/?>|<!--", re.I)
_LINK = re.compile(r"!?\[([^\[\]]{0,300})\]\([^()\s]{0,500}(?:\s\"[^\"]{0,200}\")?\)")
_LINE = re.compile(
    r"^[ \t]{0,9}(?:#{1,6}[ \t]+|>[ \t]|```.*$|\|?[ \t]{0,9}:?-{3,}[-:| \t]*$)", re.M
)
_BOLD = re.compile(r"\*\*([^*\n]{1,300})\*\*|(?<!\w)__([^_\n]{1,300})__(?!\w)")
_SPACED = re.compile(r" ([,.;:)])")  # what a tag before a comma leaves
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_SPACES = re.compile(r"\s+")


def legible(text: str) -> str:
    """Characters that JSON and UTF-8 can hold, without control characters."""
    if text.isascii() and text.isprintable():
        return text
    text = text.encode("utf-8", "replace").decode()
    return _CONTROL.sub(" ", text)


def sentence(text: object) -> str:
    """A text without HTML and Markdown, on one line. Anything else than text is empty."""
    if not isinstance(text, str):
        return ""
    return _bare(text) if len(text) < _KEPT else _bare.__wrapped__(text[:_READ])


@lru_cache(maxsize=4_096)  # what is referred to is read again and again
def _bare(text: str) -> str:
    if "<" in text:
        text = _SPACED.sub(r"\1", _TAG.sub(" ", text))
    if "&" in text:
        text = html.unescape(text)
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    if "\n" in text or text[:1] in "#>`|":
        text = _LINE.sub("", text)
    if "**" in text or "__" in text:
        text = _BOLD.sub(lambda found: found[1] or found[2], text)
    return _SPACES.sub(" ", legible(text)).strip()


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters, cut after a word or, if one ends late enough, a sentence."""
    if len(text) <= limit:
        return text
    if limit < 2:
        return ""
    head = text[: limit - 1]
    end = head.rfind(". ")
    if end > limit // 2:
        return head[: end + 1]
    space = head.rfind(" ")
    return (head[:space] if space > limit // 2 else head).rstrip(" ,;:") + "…"
