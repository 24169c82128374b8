"""The `aes keys` commands."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from cli.administration import Company, DatabaseUrl, as_json, run
from cli.commands import Commands
from cli.terminal import Json, failures_explained, local_time, note, print_json, show, show_table
from deploy.local.credentials import known_key
from deploy.local.errors import StackError
from deploy.local.files import write_atomically
from deploy.local.home import Home
from libs.contracts.errors import NotFound
from libs.contracts.resources.keys import LONGEST_GRACE_SECONDS, SHORTEST_GRACE_SECONDS
from services.gateway.administration import Administration
from services.gateway.domain.accounts import ALL_SCOPES, OPERATOR_SCOPES, ApiKey
from services.gateway.use_cases.keys import IssuedKey

app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False)
_ALL = "all"
_TAKEN = "taken\n"
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
KeyId = Annotated[str, typer.Argument(help="ID of the key.")]


@app.command()
def first(
    company: Company,
    user: Annotated[str, typer.Option("--user", help="Name of the user.")],
    file: Annotated[Path, typer.Argument(help="File to store the key in.")],
    database_url: DatabaseUrl = None,
    json_output: Json = False,
) -> None:
    """Create a company and a user, unless they exist, and store a key with all scopes in a file.

    To print the key and remove it from the file, run `aes keys take`. If the company already has a valid key, for
    example after a restore, no key is created.
    """

    async def ensure(gateway: Administration) -> bool:
        if file.exists():
            return False
        await _ensure_user(gateway, company, user)
        now = datetime.now(UTC)
        if any(key.state(now) == "valid" for key in await gateway.keys(company)):
            return False
        # The user who installs the service also operates it.
        issued = await gateway.create_key(company, user, scopes=OPERATOR_SCOPES, name="first key")
        write_atomically(file, issued.secret + "\n", mode=0o600)
        return True

    made = run(ensure, database_url, json_output)
    show(json_output, {"made": made}, f"The key is in {file}." if made else "The company already has a valid key.")


@app.command()
def take(file: Annotated[Path, typer.Argument(help="File that contains the key.")], json_output: Json = False) -> None:
    """Print the key in a file, and remove the key from the file."""
    with failures_explained(json_output):
        secret = _taken(file)
    if json_output:
        print_json({"secret": secret})
    else:
        print(secret)


@app.command()
def create(
    company: Company,
    user: Annotated[str, typer.Option("--user", help="User name or ID.")],
    scopes: Annotated[
        str,
        typer.Option("--scopes", help="Comma-separated scopes; 'all' means all that don't begin with 'installation:'."),
    ] = _ALL,
    expires: Annotated[
        str, typer.Option("--expires", help="Expiry: a duration such as 90d or 12h, a date, a timestamp, or 'never'.")
    ] = "90d",
    name: Annotated[str, typer.Option("--name", help="Purpose of the key.")] = "",
    rate_limit: Annotated[
        int | None, typer.Option("--rate-limit", min=1, help="Requests per minute.", show_default="the company's limit")
    ] = None,
    database_url: DatabaseUrl = None,
    json_output: Json = False,
) -> None:
    """Create an API key. Its secret is shown only once."""
    expires_at = parse_expiry(expires, datetime.now(UTC))
    named = frozenset(scope.strip() for scope in scopes.split(","))
    wanted = named - {_ALL} | ALL_SCOPES if _ALL in named else named
    issued = run(
        lambda gateway: gateway.create_key(
            company, user, scopes=wanted, expires_at=expires_at, name=name, rate_limit=rate_limit
        ),
        database_url,
        json_output,
    )
    _show_issued(issued, json_output)


@app.command("list")
def list_all(company: Company, database_url: DatabaseUrl = None, json_output: Json = False) -> None:
    """List a company's keys, including expired and revoked ones."""
    found = run(lambda gateway: gateway.keys(company), database_url, json_output)
    now = datetime.now(UTC)
    rows = [(key.id, key.prefix, key.name, _state(key, now), local_time(key.expires_at), key.user_id) for key in found]
    document = {"api_keys": [as_json(key) for key in found]}
    show_table(json_output, document, ("id", "prefix", "name", "state", "expires", "user"), rows)


@app.command()
def rotate(
    key_id: KeyId,
    grace: Annotated[
        str,
        typer.Option("--grace", help="How long the old key still works, such as 12h; from 60 seconds to 30 days."),
    ] = "24h",
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires", help="Expiry, in the same formats as for create.", show_default="the old key's lifetime"
        ),
    ] = None,
    database_url: DatabaseUrl = None,
    json_output: Json = False,
) -> None:
    """Replace a key with a new one. Both keys are valid for a grace period."""
    expires_at = parse_expiry(expires, datetime.now(UTC)) if expires else None
    grace_seconds = parse_grace(grace)
    home = Home.from_environment()

    async def replace(gateway: Administration) -> tuple[IssuedKey, ApiKey]:
        # A restored copy also knows the embedded stack's key, which the file must keep.
        known = known_key(home) if database_url is None else None
        development = await gateway.valid_key(known) if known is not None else None
        issued = await gateway.rotate_key(key_id, grace_seconds=grace_seconds, expires_at=expires_at)
        if development is not None and development.id == key_id:
            _save(issued.secret, home.development_key_file)
        return issued, await gateway.key(key_id)

    issued, old = run(replace, database_url, json_output)
    if not json_output:
        note(f"The old key works until {_time(old.expires_at)}.")
    _show_issued(issued, json_output)


@app.command()
def revoke(key_id: KeyId, database_url: DatabaseUrl = None, json_output: Json = False) -> None:
    """Revoke a key. It stops working immediately."""
    run(lambda gateway: gateway.revoke_key(key_id), database_url, json_output)
    show(json_output, {"id": key_id, "revoked": True}, "Revoked the key.")


def _save(secret: str, file: Path) -> None:
    """Replaces the key in a file. A failure is only printed, because the caller must still see the key."""
    try:
        write_atomically(file, secret + "\n", mode=0o600)
    except OSError as error:
        note(f"Couldn't save the new key in {file}: {error.strerror}.")
    else:
        note(f"Saved the new key in {file}.")


def parse_expiry(text: str, now: datetime) -> datetime | None:
    """Parses an expiry: `90d`, `12h`, `2w`, a date, a timestamp, or `never`, which returns None."""
    if text == "never":
        return None
    if (duration := _duration(text)) is not None:
        return now + duration
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"Invalid expiry '{text}'. Use a duration such as 90d, a date or 'never'.") from None
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    if moment <= now:
        raise typer.BadParameter(f"'{text}' is in the past. Use a future time.")
    return moment


def parse_grace(text: str) -> int:
    """Returns a grace period in seconds. ``text`` is a duration such as `12h`, or a number of seconds."""
    duration = timedelta(seconds=int(text)) if re.fullmatch(r"[0-9]{1,9}", text) else _duration(text)
    if duration is None or not SHORTEST_GRACE_SECONDS <= duration.total_seconds() <= LONGEST_GRACE_SECONDS:
        raise typer.BadParameter(f"Invalid grace period '{text}'. Use a duration from 60 seconds to 30d, such as 12h.")
    return int(duration.total_seconds())


def _duration(text: str) -> timedelta | None:
    """Returns a duration such as `90d`, `12h` or `2w`, or None if the text isn't one."""
    found = re.fullmatch(r"([0-9]{1,5})([hdw])", text)
    return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None


def _show_issued(issued: IssuedKey, json_output: bool) -> None:
    if json_output:
        print_json({**as_json(issued.key), "secret": issued.secret})
        return
    note(f"Key {issued.key.id}, valid until {_time(issued.key.expires_at)}. The secret is shown only once:")
    print(issued.secret)


def _time(expires_at: datetime | None) -> str:
    return "it's revoked" if expires_at is None else f"{expires_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _state(key: ApiKey, now: datetime) -> str:
    state = key.state(now)
    return "rotated, in grace" if state == "valid" and key.successor_id else state


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
        raise StackError("The file doesn't contain a key.", "Create one with: aes keys create.") from None
    if secret == _TAKEN:
        raise StackError("The key was already removed from the file.", "Create another with: aes keys create.")
    write_atomically(file, _TAKEN, mode=0o600)
    return secret.strip()
