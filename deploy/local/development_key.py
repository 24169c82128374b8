"""The API key of the development company, made once and kept in the state directory."""

from deploy.local.files import write_atomically
from deploy.local.home import Home


def known_key(home: Home) -> str | None:
    file = home.development_key_file
    return file.read_text().strip() if file.exists() else None


async def ensure_key(home: Home, database_url: str) -> str:
    """Reads the key; makes a new one when it is missing, revoked or unknown to the migrated database."""
    # Imported late: reading the key does not need the gateway.
    from services.gateway.administration import ensure_development_key

    known = known_key(home)
    key = await ensure_development_key(database_url, known)
    if key != known:
        write_atomically(home.development_key_file, key + "\n", mode=0o600)
    return key
