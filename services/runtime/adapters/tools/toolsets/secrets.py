"""Decrypts toolset secrets for requests, and masks them in responses."""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

from libs.contracts.resources.secrets import secret_context
from libs.contracts.resources.toolsets import SECRET_REFERENCE
from libs.secrets import SecretCipher, SecretUnreadable
from services.runtime.domain.tools import ToolFailed
from services.runtime.domain.toolsets import Toolset

MASK: Final = "[secret]"
_SHORTEST_MASKED: Final = 4
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class ToolsetSecrets:
    """Decrypts a toolset's secrets each time they're used, without storing the plaintext."""

    def __init__(self, cipher: SecretCipher | None) -> None:
        self._cipher = cipher

    def headers(self, toolset: Toolset, headers: Mapping[str, str]) -> dict[str, str]:
        """Returns the headers with their secrets filled in. Raises ToolFailed if a secret can't be used."""
        return {
            name: SECRET_REFERENCE.sub(lambda found: self._open(toolset, found[1]), value)
            for name, value in headers.items()
        }

    def mask(self, toolset: Toolset) -> "Mask":
        return Mask(self._opened(toolset))

    def _opened(self, toolset: Toolset) -> Iterator[str]:
        for name in toolset.secrets:
            try:
                yield self._open(toolset, name)
            except ToolFailed:
                # A secret that can't be decrypted was never sent, so it needs no mask.
                continue

    def _open(self, toolset: Toolset, name: str) -> str:
        ciphertext = toolset.secrets.get(name)
        reference = f"${{secret:{name}}}"
        if ciphertext is None:
            raise ToolFailed(f"The call wasn't made: the secret {name!r} in {reference} doesn't exist.")
        if self._cipher is None:
            raise ToolFailed(f"The call wasn't made: {reference} can't be decrypted because AES_SECRETS_KEY isn't set.")
        try:
            value = self._cipher.decrypt(base64.b64decode(ciphertext), context=secret_context(toolset.company_id, name))
        except (SecretUnreadable, ValueError):
            raise ToolFailed(f"The call wasn't made: {reference} can't be decrypted with AES_SECRETS_KEY.") from None
        if _CONTROL.search(value):
            raise ToolFailed(
                f"The call wasn't made: the value of {reference} contains characters that aren't allowed in headers."
            )
        return value


class Mask:
    """Replaces secrets of at least four characters in a text, including their quoted and encoded forms."""

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in values if len(value) >= _SHORTEST_MASKED for form in _forms(value)}
        # Longer forms come first, because a value may be part of another value.
        alternatives = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
        # Case-insensitive, because targets may return media types and host names in lower case.
        self._pattern = re.compile(alternatives, re.IGNORECASE) if forms else None

    def hide(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(MASK, text)


def _forms(value: str) -> Iterator[str]:
    yield value
    for quoted in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield quoted
        yield re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), quoted)
    for ascii_only in (True, False):
        yield json.dumps(value, ensure_ascii=ascii_only)[1:-1]
    yield json.dumps(value)[1:-1].replace("/", "\\/")
    for before in range(3):
        encoded = _in_base64(value.encode(), before)
        if len(encoded) >= _SHORTEST_MASKED:
            yield encoded
            yield encoded.translate(str.maketrans("+/", "-_"))
    yield value.encode().hex()
    yield value.encode().hex().upper()


def _in_base64(value: bytes, before: int) -> str:
    """Returns the Base64 characters that depend only on `value`, if ``before`` bytes (modulo 3) precede it."""
    encoded = base64.b64encode(b"\0" * before + value).decode()
    return encoded[(before * 8 + 5) // 6 : (before + len(value)) * 8 // 6]
