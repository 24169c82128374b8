"""The setting for encryption keys."""

from __future__ import annotations

import base64
import binascii

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from libs.secrets._cipher import KEY_BYTES, SecretCipher

_REMEDY = "generate one with: openssl rand -base64 32"


class SecretsSettings(BaseSettings):
    """A mixin for the settings of services that store users' secrets."""

    model_config = SettingsConfigDict(hide_input_in_errors=True)

    secrets_key: SecretStr = Field(
        SecretStr(""),
        validation_alias="AES_SECRETS_KEY",
        description="Key that encrypts stored secrets. If empty, webhooks and secrets are disabled.",
    )

    @field_validator("secrets_key")
    @classmethod
    def _readable(cls, keys: SecretStr) -> SecretStr:
        parse_keys(keys.get_secret_value())
        return keys

    def secret_cipher(self) -> SecretCipher | None:
        """Returns a cipher with the configured keys, or None if there are none."""
        keys = parse_keys(self.secrets_key.get_secret_value())
        return SecretCipher(keys) if keys else None


def parse_keys(text: str) -> list[bytes]:
    """Parses comma-separated keys in standard or URL-safe base64. Raises a ValueError that doesn't contain any key."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return [_key(part, number) for number, part in enumerate(parts, start=1)]


def _key(text: str, number: int) -> bytes:
    bare = text.rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        key = base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"key {number} isn't base64; {_REMEDY}") from None
    if len(key) != KEY_BYTES:
        raise ValueError(f"key {number} has {len(key)} bytes, not {KEY_BYTES}; {_REMEDY}")
    return key
