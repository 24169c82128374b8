"""Images embedded in a request, until they're stored as artifacts of its session."""

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from libs.contracts.file_types import TYPES
from libs.contracts.resources.artifacts import Artifact

_MOST: Final = 50
_EXTENSIONS: Final = ("png", "jpg", "gif", "webp", "bmp")
_HEAD: Final = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)
_SHORT_URL: Final = re.compile(r"data:image/[a-z]+;sha256,[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class InlineImage:
    """An image embedded in a request. ``path``: the path of its first occurrence in the body."""

    extension: str
    content: bytes
    path: Sequence[str | int]

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def name(self) -> str:
        return f"image-{self.digest[:12]}.{self.extension}"

    @property
    def content_type(self) -> str:
        return TYPES[self.extension].content_type


@dataclass(slots=True)
class InlineImages:
    """The images embedded in a request, by the short URLs that replace them in the body.

    ``waiting``: images that aren't stored yet. ``slot``: the request's slot for a large body, held until all images
    are stored.
    """

    slot: AsyncExitStack = field(default_factory=AsyncExitStack)
    waiting: dict[str, InlineImage] = field(default_factory=dict)
    artifacts: dict[str, Artifact] = field(default_factory=dict)

    def take(self, given: str, path: Sequence[str | int]) -> str:
        """Adds an image, given as a ``data:`` URL or as plain Base64, and returns its short URL.

        Raises ``ValueError`` for an invalid image or too many images. The message is for the client.
        """
        content = _decoded(given)
        extension = next((each for each in _EXTENSIONS if TYPES[each].begins(content[:16])), None)
        if extension is None:
            raise ValueError("this isn't a PNG, JPEG, GIF, WebP or BMP image")
        image = InlineImage(extension, content, tuple(path))
        url = f"data:{image.content_type};sha256,{image.digest}"
        if url not in self.waiting and len(self.waiting) == _MOST:
            raise ValueError(f"a request can contain at most {_MOST} different images; upload others to the session")
        self.waiting.setdefault(url, image)
        return url


def stands_for_image(url: str) -> bool:
    """Returns whether this is a short URL from ``InlineImages``."""
    return _SHORT_URL.fullmatch(url) is not None


def _decoded(given: str) -> bytes:
    head = _HEAD.match(given)
    if head is None and given[:5].lower() == "data:":
        raise ValueError("a data: URL must contain `;base64,` before the data")
    try:
        # Removes line breaks, which some encoders insert.
        return base64.b64decode("".join(given[head.end() if head else 0 :].split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the image isn't valid Base64") from None
