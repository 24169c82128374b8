"""Checks Office files before they're unpacked."""

import zipfile
from pathlib import Path

from libs.documents import DocumentEncrypted, DocumentUnreadable
from services.ingestion.domain.parsing import Unparsable

_MOST_UNPACKED_BYTES = 512 * 1024**2
_BOMB_RATIO = 200
_BOMB_SIZE = 32 * 1024**2


def check_package(path: Path) -> None:
    """Checks a .docx or .xlsx file. Raises an error if the file isn't safe to unpack."""
    try:
        with zipfile.ZipFile(path) as package:
            members = package.infolist()
            if any(member.flag_bits & 1 for member in members):
                raise DocumentEncrypted
            _check_size(members)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError, ValueError, OSError) as error:
        raise DocumentUnreadable(f"The file is damaged or incomplete: {error}.") from None


def _check_size(members: list[zipfile.ZipInfo]) -> None:
    unpacked = sum(member.file_size for member in members)
    bomb = any(
        member.file_size > _BOMB_SIZE and member.file_size > _BOMB_RATIO * max(member.compress_size, 1)
        for member in members
    )
    if bomb or unpacked > _MOST_UNPACKED_BYTES:
        raise Unparsable("too_large", f"The file would unpack to {unpacked // 1024**2:,} MB. Upload a smaller file.")
