import stat
from pathlib import Path

from deploy.local.credentials import Credentials
from deploy.local.services import DATABASES
from libs.secrets import parse_keys


def test_secrets_are_made_once_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "credentials.json"
    first = Credentials.load_or_create(file)
    assert Credentials.load_or_create(file) == first
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(first.signing_key) >= 32
    assert len(parse_keys(first.secrets_key)) == 1


def test_every_service_has_a_password_of_its_own(tmp_path: Path) -> None:
    passwords = Credentials.load_or_create(tmp_path / "credentials.json").databases
    assert set(passwords) == set(DATABASES)
    assert len(set(passwords.values())) == len(DATABASES)


def test_a_service_added_later_gets_a_password_and_the_others_keep_theirs(tmp_path: Path) -> None:
    file = tmp_path / "credentials.json"
    file.write_text('{"signing_key": "s", "administrator": "a", "databases": {"gateway": "g"}}')
    credentials = Credentials.load_or_create(file)
    assert (credentials.signing_key, credentials.databases["gateway"]) == ("s", "g")
    assert credentials.databases["runtime"]


def test_keys_that_somebody_gave_are_kept_for_the_next_start(tmp_path: Path) -> None:
    """The stack encrypts with them, so a start without them has to know them."""
    file = tmp_path / "credentials.json"
    made = Credentials.load_or_create(file)
    made.with_secrets_keys(" new , older,", file)
    stored = Credentials.load_or_create(file)
    assert stored.secrets_key == f"new,older,{made.secrets_key}"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    stored.with_secrets_keys("new", file, drop_others=True)
    assert Credentials.load_or_create(file).secrets_key == "new"
