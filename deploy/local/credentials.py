"""Secrets of one installation, made once and readable by their owner only."""

import base64
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from deploy.local.files import read_json, write_atomically
from deploy.local.services import DATABASES


@dataclass(frozen=True)
class Credentials:
    signing_key: str
    secrets_key: str
    administrator: str
    kafka: str
    databases: Mapping[str, str]

    @classmethod
    def load_or_create(cls, file: Path) -> "Credentials":
        known = read_json(file)
        credentials = cls(
            signing_key=known.get("signing_key") or _secret(),
            secrets_key=known.get("secrets_key") or base64.b64encode(secrets.token_bytes(32)).decode(),
            administrator=known.get("administrator") or _secret(),
            kafka=known.get("kafka") or _secret(),
            databases={name: known.get("databases", {}).get(name) or _secret() for name in DATABASES},
        )
        if asdict(credentials) != known:
            write_atomically(file, json.dumps(asdict(credentials), indent=2) + "\n", mode=0o600)
        return credentials


def _secret() -> str:
    return secrets.token_hex(24)
