"""Encrypts and decrypts secrets with keys that can be rotated."""

from libs.secrets._cipher import SecretCipher, SecretUnreadable, id_of, key_id
from libs.secrets._settings import SecretsSettings, parse_keys

__all__ = [
    "SecretCipher",
    "SecretUnreadable",
    "SecretsSettings",
    "id_of",
    "key_id",
    "parse_keys",
]
