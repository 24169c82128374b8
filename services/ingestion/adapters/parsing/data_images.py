"""Removes `data:` images from text, but keeps their descriptions."""

import re
from html import unescape
from typing import Final

# The length is limited, because each opening bracket would otherwise trigger a search to the end of the text.
_INLINE: Final = re.compile(
    r"!?\[((?:[^\[\]]|\[[^\[\]]{0,1000}\]){0,1000})\]\(\s*<?data:(?:[^()]|\([^()]*\))*\)", re.IGNORECASE
)
_DEFINITION: Final = re.compile(r"^ {0,3}\[([^\]\n]{1,1000})\]:[ \t]*<?data:[^\n]*\n?", re.IGNORECASE | re.MULTILINE)
_REFERENCE: Final = re.compile(r"!\[([^\]]{0,1000})\](?:\[([^\]]{0,1000})\])?")
_ATTRIBUTE: Final = re.compile(
    r"(\b(?:src|srcset|href|poster|data)\s*=\s*)(?:\"\s*data:[^\"]*\"|'\s*data:[^']*'|data:[^\s>]+)", re.IGNORECASE
)
_TAG: Final = re.compile(r"<img\b([^>]{0,2000})>", re.IGNORECASE)
_ALT: Final = re.compile(r"\balt\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)


def emptied_addresses(html: str) -> str:
    """Shortens `data:` URLs in HTML to `data:`."""
    return _ATTRIBUTE.sub(r'\1"data:"', html)


def without_data_images(markdown: str) -> str:
    """Replaces each Markdown image or link that has a `data:` URL with its text."""
    if "data:" not in markdown.lower():
        return markdown
    text = _TAG.sub(_alternative, emptied_addresses(markdown))
    text = _INLINE.sub(lambda image: image.group(1), text)
    defined = {label.casefold() for label in _DEFINITION.findall(text)}
    if not defined:
        return text
    text = _DEFINITION.sub("", text)
    return _REFERENCE.sub(
        lambda image: image.group(1) if (image.group(2) or image.group(1)).casefold() in defined else image.group(),
        text,
    )


def _alternative(image: re.Match[str]) -> str:
    if 'src="data:"' not in image.group(1).replace("SRC", "src").replace(" ", ""):
        return image.group()
    found = _ALT.search(image.group(1))
    return unescape(found.group(1) or found.group(2) or found.group(3) or "") if found else ""
