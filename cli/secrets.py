"""The `aes secrets` commands."""

import asyncio

import psycopg
import typer

from cli.commands import Commands
from cli.databases import database_errors_explained, url_of
from cli.installation import Installation, find_installation
from cli.terminal import Json, failures_explained, note, show_table
from deploy.local.credentials import Credentials
from deploy.local.errors import StackError
from libs.secrets import SecretCipher, parse_keys
from libs.secrets.stored import SECRET_TABLES, Rotation

app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False)


@app.callback()
def secrets() -> None: ...


@app.command()
def rotate(json_output: Json = False) -> None:
    """Re-encrypt all secrets in the databases of the timeline and the registry with the first key in AES_SECRETS_KEY.

    Services can keep running if every process has the old and the new key. Afterwards, you can remove the old keys.
    With the embedded stack, the command also saves the value of AES_SECRETS_KEY for the next start.
    """
    with failures_explained(json_output):
        installation = find_installation()
        found = asyncio.run(_rotate(installation))
        if installation.home is not None:
            file, complete = installation.home.credentials_file, not any(each.unreadable for each in found.values())
            Credentials.load_or_create(file).with_secrets_keys(installation.secrets_key, file, drop_others=complete)
        secrets = [
            {"what": what, "changed": each.changed, "unreadable": [context for context, _ in each.unreadable]}
            for what, each in found.items()
        ]
        rows = [(what, each.changed, len(each.unreadable)) for what, each in found.items()]
        show_table(json_output, {"secrets": secrets}, ("", "re-encrypted", "unreadable"), rows)
        # Scripts read the locations from the JSON document.
        for context, problem in (pair for each in found.values() for pair in each.unreadable if not json_output):
            note(f"{context}: {problem}")
        if any(each.unreadable for each in found.values()):
            raise typer.Exit(1)


async def _rotate(installation: Installation) -> dict[str, Rotation]:
    try:
        keys = parse_keys(installation.secrets_key)
    except ValueError as problem:
        raise StackError(f"AES_SECRETS_KEY is invalid: {problem}.", "See docs/operate/rotation.md.") from None
    if not keys:
        raise StackError("AES_SECRETS_KEY isn't set.", "Set it to the services' list of keys, newest first.")
    cipher, found = SecretCipher(keys), {}
    for table in SECRET_TABLES:
        url = url_of(table.service, installation)
        with database_errors_explained(table.service, url):
            async with await psycopg.AsyncConnection.connect(url, autocommit=True, connect_timeout=10) as connection:
                found[table.what] = await table.rotate(connection, cipher)
    return found
