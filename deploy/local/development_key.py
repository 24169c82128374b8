"""The API key of the development company, made once and kept in the state directory."""

from deploy.local.files import write_atomically
from deploy.local.home import Home


def known_key(home: Home) -> str | None:
    file = home.development_key_file
    return file.read_text().strip() if file.exists() else None


async def ensure_key(home: Home, database_url: str) -> str:
    """The key, made in the gateway's migrated database when there is none yet."""
    key = known_key(home)
    if key is None:
        # Imported late: only the first start makes a key.
        from services.gateway.administration import ensure_development_key

        key = await ensure_development_key(database_url)
        write_atomically(home.development_key_file, key + "\n", mode=0o600)
    return key
