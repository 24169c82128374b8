"""`aes companies`, `aes users` and `aes keys` on a gateway's database."""

import errno
import json
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cli.app import app
from cli.installation import Installation
from cli.keys import parse_expiry, parse_grace
from services.gateway.domain.accounts import ALL_SCOPES, OPERATOR_SCOPES

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def aes(database_url: str, *arguments: str, exit_code: int = 0) -> Any:
    """Without a URL, the command works on the embedded stack."""
    given = ["--database-url", database_url] if database_url else []
    result = CliRunner().invoke(app, [*arguments, *given, "--json"])
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


def test_from_a_company_to_a_revoked_key(database_url: str) -> None:
    aes(database_url, "companies", "create", "Acme", "--rate-limit", "0")
    user = aes(database_url, "users", "create", "ada", "--company", "Acme")
    assert [company["name"] for company in aes(database_url, "companies", "list")["companies"]] == ["Acme"]
    assert [found["id"] for found in aes(database_url, "users", "list", "--company", "Acme")["users"]] == [user["id"]]
    key = aes(database_url, "keys", "create", "--company", "Acme", "--user", "ada", "--scopes", "agents:read,keys:read")
    assert (key["user_id"], key["scopes"], key["rate_limit"]) == (user["id"], ["agents:read", "keys:read"], None)
    assert key["secret"].startswith(key["prefix"])
    successor = aes(database_url, "keys", "rotate", key["id"], "--grace", "1h")
    assert aes(database_url, "keys", "revoke", successor["id"]) == {"id": successor["id"], "revoked": True}
    listed = aes(database_url, "keys", "list", "--company", "Acme")["api_keys"]
    assert [(k["id"], k["revoked_at"] is None) for k in listed] == [(successor["id"], False), (key["id"], True)]
    assert listed[1]["successor_id"] == successor["id"]
    assert "secret" not in listed[0]


def test_scopes_of_the_installation_are_given_by_name_only(database_url: str) -> None:
    aes(database_url, "companies", "create", "Acme")
    aes(database_url, "users", "create", "ada", "--company", "Acme")
    make = ("keys", "create", "--company", "Acme", "--user", "ada")
    assert set(aes(database_url, *make)["scopes"]) == ALL_SCOPES
    named = aes(database_url, *make, "--scopes", "all, installation:read")
    assert set(named["scopes"]) == ALL_SCOPES | {"installation:read"}
    assert aes(database_url, "keys", "rotate", named["id"])["scopes"] == named["scopes"]


def test_a_rotation_says_how_long_the_old_key_works(database_url: str) -> None:
    aes(database_url, "companies", "create", "Acme")
    aes(database_url, "users", "create", "ada", "--company", "Acme")
    key = aes(database_url, "keys", "create", "--company", "Acme", "--user", "ada")
    rotated = CliRunner().invoke(app, ["keys", "rotate", key["id"], "--grace", "2h", "--database-url", database_url])
    _, old = aes(database_url, "keys", "list", "--company", "Acme")["api_keys"]
    ends = datetime.fromisoformat(old["expires_at"])
    assert f"The old key works until {ends:%Y-%m-%d %H:%M:%S} UTC." in rotated.stderr


def test_a_rotated_development_key_is_saved(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AES_HOME", str(tmp_path))
    stack = Installation(title="the embedded stack", databases={"gateway": database_url})
    monkeypatch.setattr("cli.databases.find_installation", lambda: stack)
    saved = tmp_path / "development-key"
    aes(database_url, "keys", "first", "--company", "Development", "--user", "developer", str(saved))
    first = saved.read_text()
    other = aes(database_url, "keys", "create", "--company", "Development", "--user", "developer")
    aes("", "keys", "rotate", other["id"])
    assert saved.read_text() == first
    key = aes(database_url, "keys", "list", "--company", "Development")["api_keys"][-1]
    rotated = aes("", "keys", "rotate", key["id"])
    assert saved.read_text() == rotated["secret"] + "\n"
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert rotated["expires_at"] is None

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("cli.keys.write_atomically", full)
    assert aes("", "keys", "rotate", rotated["id"])["secret"].startswith("aes_"), "it's shown all the same"
    assert saved.read_text() == rotated["secret"] + "\n"


def test_the_key_of_the_stack_is_kept_when_a_copy_that_knows_it_is_rotated(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AES_HOME", str(tmp_path))
    saved = tmp_path / "development-key"
    aes(database_url, "keys", "first", "--company", "Development", "--user", "developer", str(saved))
    of_the_stack = saved.read_text()
    (key,) = aes(database_url, "keys", "list", "--company", "Development")["api_keys"]
    assert aes(database_url, "keys", "rotate", key["id"])["secret"] + "\n" != of_the_stack
    assert saved.read_text() == of_the_stack


def test_the_first_key_is_made_once_and_taken_once(database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    first = ("keys", "first", "--company", "Acme", "--user", "ada", str(file))
    assert aes(database_url, *first) == {"made": True}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert aes(database_url, *first) == {"made": False}
    secret = take(file)["secret"]
    (key,) = aes(database_url, "keys", "list", "--company", "Acme")["api_keys"]
    assert secret.startswith(key["prefix"])
    assert set(key["scopes"]) == OPERATOR_SCOPES
    assert secret not in file.read_text()
    assert "already removed" in take(file, exit_code=1)["error"]["message"]
    assert aes(database_url, *first) == {"made": False}
    file.unlink()
    assert "doesn't contain a key" in take(file, exit_code=1)["error"]["message"]
    assert aes(database_url, *first) == {"made": False}, "a restored installation has keys"
    aes(database_url, "keys", "revoke", key["id"])
    assert aes(database_url, *first) == {"made": True}, "of a company and a user that are there"


def take(file: Path, exit_code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["keys", "take", str(file), "--json"])
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


def test_what_is_wrong_is_said_in_words(database_url: str) -> None:
    error = aes(database_url, "users", "create", "ada", "--company", "Nobody", exit_code=1)["error"]
    assert "Nobody" in error["message"]


@pytest.mark.parametrize("migrations", [None])
def test_a_database_that_is_not_the_gateways_is_recognised(database_url: str, migrations: None) -> None:
    assert "migrate" in aes(database_url, "companies", "list", exit_code=1)["error"]["remedy"]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("never", None),
        ("12h", datetime(2030, 1, 1, 12, tzinfo=UTC)),
        ("90d", datetime(2030, 4, 1, tzinfo=UTC)),
        ("2w", datetime(2030, 1, 15, tzinfo=UTC)),
        ("2031-02-03", datetime(2031, 2, 3, tzinfo=UTC)),
        ("2031-02-03T04:05:06Z", datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC)),
    ],
)
def test_ways_to_write_an_expiry(text: str, moment: datetime | None) -> None:
    assert parse_expiry(text, NOW) == moment


@pytest.mark.parametrize(("text", "seconds"), [("60", 60), ("24h", 86_400), ("30d", 2_592_000), ("2w", 1_209_600)])
def test_ways_to_write_a_grace_period(text: str, seconds: int) -> None:
    assert parse_grace(text) == seconds


@pytest.mark.parametrize("text", ["", "59", "0h", "31d", "2592001", "never", "²", "2030-01-02"])
def test_nonsense_is_no_grace_period(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="60 seconds to 30d"):
        parse_grace(text)


@pytest.mark.parametrize("text", ["", "soon", "90", "2029-12-31"])
def test_nonsense_is_no_expiry(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_expiry(text, NOW)
