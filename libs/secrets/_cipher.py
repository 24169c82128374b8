"""Authenticated encryption of secrets."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
_FORM: Final = b"\x01"
_ID_BYTES: Final = 8
_NONCE_BYTES: Final = 12
_HEAD: Final = len(_FORM) + _ID_BYTES


class SecretUnreadable(Exception):
    """No configured key can decrypt the ciphertext, or it was changed or copied from another place."""


class SecretCipher:
    """An AES-256-GCM cipher with several keys. The first key encrypts, and every key decrypts.

    A ciphertext consists of a format byte, the key's ID, the nonce, and the encrypted text with its tag. It can only be
    decrypted with the same ``context``, such as a table and row.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"each key needs {KEY_BYTES} bytes")
        self._keys = {key_id(key): AESGCM(key) for key in keys}
        self.current_id: Final = key_id(keys[0])

    def encrypt(self, secret: str, *, context: str) -> bytes:
        head, nonce = _FORM + self.current_id, secrets.token_bytes(_NONCE_BYTES)
        return head + nonce + self._keys[self.current_id].encrypt(nonce, secret.encode(), head + context.encode())

    def decrypt(self, ciphertext: bytes, *, context: str) -> str:
        """Decrypts a ciphertext. Raises SecretUnreadable."""
        head, nonce = ciphertext[:_HEAD], ciphertext[_HEAD : _HEAD + _NONCE_BYTES]
        key = self._keys.get(id_of(ciphertext))
        if key is None:
            raise SecretUnreadable(f"AES_SECRETS_KEY doesn't contain the key with the ID {id_of(ciphertext).hex()}")
        try:
            opened = key.decrypt(nonce, ciphertext[_HEAD + _NONCE_BYTES :], head + context.encode())
        except (InvalidTag, ValueError) as problem:
            raise SecretUnreadable("the ciphertext was changed, or copied from another place") from problem
        return opened.decode()


def key_id(key: bytes) -> bytes:
    """Returns an ID that doesn't reveal the key."""
    return hashlib.sha256(b"aes secrets key id\x00" + key).digest()[:_ID_BYTES]


def id_of(ciphertext: bytes) -> bytes:
    """Returns the ID of the key that encrypted the ciphertext, or no bytes if the format is unknown."""
    return ciphertext[len(_FORM) : _HEAD] if ciphertext[: len(_FORM)] == _FORM else b""
