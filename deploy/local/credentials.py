"""An installation's secrets, created once and readable only by their owner, and the development company's key."""

import base64
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from deploy.local.files import read_json, write_atomically
from deploy.local.home import Home
from deploy.local.services import DATABASES


@dataclass(frozen=True)
class Credentials:
    signing_key: str
    secrets_key: str
    """Comma-separated keys, as in AES_SECRETS_KEY. The first key encrypts; all keys decrypt."""
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
            credentials._write(file)
        return credentials

    def with_secrets_keys(self, keys: str, file: Path, *, drop_others: bool = False) -> "Credentials":
        """Stores the keys for later starts. Keeps the other stored keys for decryption, unless `drop_others` is set."""
        given, known = ([key for part in text.split(",") if (key := part.strip())] for text in (keys, self.secrets_key))
        others = [] if drop_others else [key for key in known if key not in given]
        changed = replace(self, secrets_key=",".join([*given, *others]))
        if changed != self:
            changed._write(file)
        return changed

    def _write(self, file: Path) -> None:
        write_atomically(file, json.dumps(asdict(self), indent=2) + "\n", mode=0o600)


def _secret() -> str:
    return secrets.token_hex(24)


def known_key(home: Home) -> str | None:
    file = home.development_key_file
    return file.read_text().strip() if file.exists() else None


async def ensure_key(home: Home, database_url: str) -> str:
    """Returns the development company's key. Creates a new key if the stored one isn't valid."""
    # Imported late, since reading the key doesn't need the gateway.
    from services.gateway.administration import ensure_development_key

    known = known_key(home)
    key = await ensure_development_key(database_url, known)
    if key != known:
        write_atomically(home.development_key_file, key + "\n", mode=0o600)
    return key
