"""`aes keys first` and `aes keys take`: the first key of an installation, made without an operator."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from cli.administration.gateway_database import Company, DatabaseUrl, run
from cli.terminal import Json, failures_explained, note, print_json
from deploy.local.errors import StackError
from deploy.local.files import write_atomically
from libs.contracts.errors import NotFound
from services.gateway.administration import Administration
from services.gateway.domain.accounts import OPERATOR_SCOPES

_TAKEN = "taken\n"
KeyFile = Annotated[Path, typer.Argument(help="File that the key waits in.")]


def first(
    company: Company,
    user: Annotated[str, typer.Option("--user", help="Name of the user.")],
    file: KeyFile,
    database_url: DatabaseUrl = None,
    json_output: Json = False,
) -> None:
    """Make a company, a user and a key for it, each where it is missing. The key waits in a file to be taken, once.

    It has all scopes, those of the installation too.

    A company that has a valid key, as after a restore, gets none: its holders make others.
    """

    async def ensure(gateway: Administration) -> bool:
        if file.exists():
            return False
        await _ensure_user(gateway, company, user)
        now = datetime.now(UTC)
        if any(key.state(now) == "valid" for key in await gateway.keys(company)):
            return False
        # Who installs it operates it.
        issued = await gateway.create_key(company, user, scopes=OPERATOR_SCOPES, name="first key")
        write_atomically(file, issued.secret + "\n", mode=0o600)
        return True

    made = run(ensure, database_url, json_output)
    if json_output:
        print_json({"made": made})
    else:
        note(f"A key waits in {file}." if made else "There is a key already.")


def take(file: KeyFile, json_output: Json = False) -> None:
    """Show the key that waits in the file, and remove it from there."""
    with failures_explained(json_output):
        secret = _taken(file)
    if json_output:
        print_json({"secret": secret})
    else:
        print(secret)


async def _ensure_user(gateway: Administration, company: str, user: str) -> None:
    try:
        await gateway.company(company)
    except NotFound:
        await gateway.create_company(company)
    try:
        await gateway.user(company, user)
    except NotFound:
        await gateway.create_user(company, user)


def _taken(file: Path) -> str:
    try:
        secret = file.read_text()
    except FileNotFoundError:
        raise StackError("No key waits there.", "Make one with: aes keys create.") from None
    if secret == _TAKEN:
        raise StackError("The key was taken before.", "Make another one with: aes keys create.")
    write_atomically(file, _TAKEN, mode=0o600)
    return secret.strip()
