"""The supported file types, detected by extension and checked against a file's first bytes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from libs.contracts.errors import UnsupportedMediaType

HEAD_BYTES: Final = 8 * 1024
"""The number of bytes at the start of a file that are needed to check its signature."""

_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_ENTRY: Final = b"PK\x03\x04"
_ENTRY_HEAD: Final = 30
_OLE: Final = (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",)
# The main streams of legacy Office documents, and the bytes that the streams start with, at the start of a sector.
_OLD_STREAMS: Final = tuple(name.encode("utf-16-le") for name in ("WordDocument", "Workbook"))
_OLD_CONTENT: Final = (b"\xec\xa5\xc1\x00", b"\x09\x08\x10\x00", b"\x09\x08\x08\x00")
_SECTOR: Final = 512
_KNOWN: Final[dict[str, tuple[bytes, ...]]] = {
    "a PNG image": (b"\x89PNG\r\n\x1a\n",),
    "a JPEG image": (b"\xff\xd8\xff",),
    "a GIF image": (b"GIF87a", b"GIF89a"),
    "a PDF document": (b"%PDF-",),
    "an Office Open XML document or another ZIP archive": _ZIP,
    "a legacy or password-protected Office document": _OLE,
    "a gzip archive": (b"\x1f\x8b\x08",),
    "a 7z archive": (b"7z\xbc\xaf\x27\x1c",),
    "a RAR archive": (b"Rar!\x1a\x07",),
    "a program": (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"),
}
Check = Callable[[bytes], bool]


@dataclass(frozen=True, slots=True)
class FileType:
    """A supported file type. ``begins`` returns whether a file's first bytes match it."""

    content_type: str
    begins: Check


def _signature(*signatures: bytes) -> Check:
    return lambda head: head.startswith(signatures)


def _webp(head: bytes) -> bool:
    return head.startswith(b"RIFF") and head[8:12] == b"WEBP"


def _pdf(head: bytes) -> bool:
    # PDF readers accept other bytes before the header if it's within the first kilobyte.
    return b"%PDF-" in head[:1024]


def _office(folder: str) -> Check:
    """Returns a check for Office Open XML documents with parts in ``folder``.

    A document also matches if its first bytes contain no folder names.
    """

    def check(head: bytes) -> bool:
        found = _office_folders(head)
        return _protected(head) or (head.startswith(_ZIP) and (not found or folder in found))

    return check


def _protected(head: bytes) -> bool:
    """Returns whether the file may be a password-protected document, rather than one in a legacy Office format."""
    if not head.startswith(_OLE):
        return False
    begins = any(head[offset : offset + 4] in _OLD_CONTENT for offset in range(_SECTOR, len(head), _SECTOR))
    return not begins and not any(name in head for name in _OLD_STREAMS)


def _office_folders(head: bytes) -> set[str]:
    return {name.partition("/")[0] for name in _entries(head)} & set(_OFFICE_FOLDERS)


def _entries(head: bytes) -> Iterator[str]:
    """Yields the names of a ZIP archive's entries whose headers are in ``head``."""
    offset = head.find(_ENTRY)
    while offset >= 0:
        length = int.from_bytes(head[offset + 26 : offset + 28], "little")
        yield head[offset + _ENTRY_HEAD : offset + _ENTRY_HEAD + length].decode("utf-8", "replace")
        offset = head.find(_ENTRY, offset + len(_ENTRY))


def _text(head: bytes) -> bool:
    return _looks_like(head) is None


_IMAGES: Final = {
    "png": FileType("image/png", _signature(*_KNOWN["a PNG image"])),
    "jpg": FileType("image/jpeg", _signature(*_KNOWN["a JPEG image"])),
    "gif": FileType("image/gif", _signature(*_KNOWN["a GIF image"])),
    "bmp": FileType("image/bmp", _signature(b"BM")),
    "webp": FileType("image/webp", _webp),
}
_OFFICE_FOLDERS: Final = {"word": "a Word document", "xl": "an Excel workbook", "ppt": "a PowerPoint presentation"}
_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
TYPES: Final[dict[str, FileType]] = {
    **_IMAGES,
    "jpeg": _IMAGES["jpg"],
    "pdf": FileType("application/pdf", _pdf),
    "docx": FileType(f"{_OFFICE}.wordprocessingml.document", _office("word")),
    "doc": FileType("application/msword", _signature(*_OLE)),
    "txt": FileType("text/plain", _text),
    "md": FileType("text/markdown", _text),
    "html": FileType("text/html", _text),
    "csv": FileType("text/csv", _text),
    "xlsx": FileType(f"{_OFFICE}.spreadsheetml.sheet", _office("xl")),
    "xls": FileType("application/vnd.ms-excel", _signature(*_OLE)),
    "json": FileType("application/json", _text),
}


def type_of(name: str) -> FileType:
    """Returns the file type for a name's extension. Raises ``UnsupportedMediaType``."""
    extension = name.rpartition(".")[2].lower() if "." in name else ""
    found = TYPES.get(extension)
    if found is None:
        problem = f".{extension} files aren't supported" if extension else "The file has no extension"
        supported = ", ".join(f".{each}" for each in TYPES)
        raise UnsupportedMediaType(f"{problem}: '{name}'. Supported extensions: {supported}.")
    return found


def check_signature(name: str, kind: FileType, head: bytes) -> None:
    """Raises ``UnsupportedMediaType`` if a file's first bytes don't match its type."""
    if kind.begins(head):
        return
    looks = _looks_like(head)
    says = f"the file looks like {looks}" if looks else "the file's content doesn't match"
    raise UnsupportedMediaType(f"The extension of '{name}' indicates {kind.content_type}, but {says}.")


def _looks_like(head: bytes) -> str | None:
    for folder in _office_folders(head) if head.startswith(_ZIP) else ():
        return _OFFICE_FOLDERS[folder]
    for name, signatures in _KNOWN.items():
        if head.startswith(signatures):
            return name
    return "a WebP image" if _webp(head) else None
