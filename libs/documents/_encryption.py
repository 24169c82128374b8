"""Detects password-protected Office files."""

import re
from pathlib import Path
from typing import Final

from libs.documents._errors import DocumentEncrypted

_OLE: Final = bytes.fromhex("d0cf11e0a1b11ae1")
_SECTOR: Final = 512
# The marker of encryption in the newer formats.
_PACKAGE: Final = "EncryptedPackage".encode("utf-16-le")
# In Excel 97 and Excel 5, the password record follows the first record, sometimes with a write-protection record in
# between.
_WORKBOOK: Final = re.compile(
    rb"\x09\x08(?:\x10\x00\x00\x06\x05\x00.{12}|\x08\x00\x00\x05\x05\x00.{4})(?:\x86\x00\x00\x00)?\x2f\x00",
    re.DOTALL,
)
# The header of a Word 6 to 2003 document, up to the flags with the encryption bit.
_WORD: Final = re.compile(
    rb"[\xec\xdc]\xa5(?:[\x65-\x69\xc0-\xc2\xd9]\x00|[\x01\x0c\x12]\x01).{7}([\x00-\xff])", re.DOTALL
)


def check_encrypted(path: Path) -> None:
    """Raises ``DocumentEncrypted`` if the file is password-protected.

    Without this check, a parser would report the file as damaged or return obfuscated content.
    """
    with path.open("rb") as file:
        if file.read(len(_OLE)) != _OLE:
            return
        content = _OLE + file.read()
    if _PACKAGE in content or _WORKBOOK.search(content) or _is_encrypted_word(content):
        raise DocumentEncrypted


def _is_encrypted_word(content: bytes) -> bool:
    return any(head.start() % _SECTOR == 0 and head.group(1)[0] & 1 for head in _WORD.finditer(content))
