"""Settings of a service, its log, and the rotation of signing keys."""

import io
import itertools
import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr, ValidationError
from pydantic_settings import SettingsConfigDict

from libs.contracts.errors import AuthenticationFailed
from libs.contracts.identifiers import new_id
from libs.eventing import IdentitySigner
from libs.service_defaults import ServiceSettings
from libs.service_defaults._command_line import _read
from libs.service_defaults._logging import LogThrottle, configure_logging
from services.artifacts.domain.links import LinkSigner
from services.gateway.domain.accounts import TokenGrant
from services.gateway.domain.tokens import JwtTokens
from services.registry.settings import RegistrySettings
from tests.support.command_records import ALICE
from tests.support.plain_logs import write_plainly


class NotesSettings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="AES_NOTES_", extra="ignore", populate_by_name=True)


GOOD = {
    "AES_SIGNING_KEY": "k" * 40,
    "AES_NOTES_DATABASE_URL": "postgresql://somewhere/notes",
    "AES_NOTES_PORT": "8123",
    "AES_TOPIC_PREFIX": "t-",
    "AES_LOG_LEVEL": "debug",
    "AES_RUNTIME_URL": "http://runtime",
}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in GOOD.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_shared_and_own_variables(environment: pytest.MonkeyPatch) -> None:
    settings = _read(NotesSettings)
    assert settings.database_url.get_secret_value() == "postgresql://somewhere/notes"
    assert (settings.port, settings.topic_prefix, settings.log_level) == (8123, "t-", "DEBUG")
    assert settings.addresses()["runtime"] == "http://runtime"
    assert settings.addresses()["artifacts"] == ""
    assert GOOD["AES_SIGNING_KEY"] not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AES_SIGNING_KEY", None),
        ("AES_LOG_LEVEL", "chatty"),
        ("AES_SIGNING_KEY", "too short"),
        ("AES_NOTES_DATABASE_URL", None),
        ("AES_NOTES_PORT", "eighty"),
        ("AES_NOTES_SHUTDOWN_GRACE_SECONDS", "-17"),
        ("AES_LOG_FORMAT", "xml"),
    ],
)
def test_wrong_settings_are_named_without_their_values(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str | None
) -> None:
    if value is None:
        environment.delenv(name)
    else:
        environment.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        _read(NotesSettings)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(f"{name}: ")
    assert value is None or value not in told.removeprefix(name)


AWAY = "Unable connect to node with id %s: %s"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """Collects a service's log lines."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure_logging(service="test", level="info", form="json")
    stream = io.StringIO()
    for handler in root.handlers:
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    write_plainly()


def test_a_broker_that_is_away_does_not_fill_the_logs(written: io.StringIO) -> None:
    for number in range(50):
        logging.getLogger("aiokafka").error(AWAY, 1, "refused")
        logging.getLogger("aiokafka.consumer.fetcher").error("Failed fetch")
        logging.getLogger("runtime").warning("turn %s", number)
    lines = written.getvalue().splitlines()
    assert [sum(text in line for line in lines) for text in ("Unable connect", "Failed fetch", "turn ")] == [1, 1, 50]


def test_the_database_driver_quotes_no_rows(written: io.StringIO) -> None:
    problem = 'duplicate key value violates unique constraint "uq"\nDETAIL:  Key (text)=(secret) already exists.'
    logging.getLogger("psycopg").warning("error ignored terminating %r: %s", "pipeline", problem)
    assert "violates unique" in written.getvalue()
    assert "secret" not in written.getvalue()


def test_dropped_messages_are_counted() -> None:
    times = iter((0.0, 1.0, 9.0, 10.5, 11.0, 30.0, 60.0))
    throttle = LogThrottle(10.0, lambda: next(times))

    def passes() -> str | None:
        record = logging.LogRecord("aiokafka", logging.ERROR, "", 0, AWAY, (1, "refused"), None)
        return record.getMessage() if throttle.filter(record) else None

    seen = [passes() for _ in range(7)]
    first = "Unable connect to node with id 1: refused"
    assert seen == [
        first,
        None,
        None,
        f"{first} (repeats dropped: 2)",
        None,
        f"{first} (repeats dropped: 1)",
        first,
    ]


OLD, NEW = "the old key of an installation: long enough", "the new key of an installation: long enough"
# What processes are told, one step of the change after the other: the key that signs and those accepted besides.
STEPS = [(OLD,), (OLD, NEW), (NEW, OLD), (NEW,)]


@pytest.mark.parametrize(("before", "after"), list(itertools.pairwise(STEPS)))
def test_neighbours_of_one_step_understand_each_other(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=5)
    grant = TokenGrant(key_id="key-1", scopes=frozenset({"runtime:execute"}), expires_at=soon)
    artifact = new_id()
    for signing, reading in ((before, after), (after, before)):
        token = IdentitySigner(*signing).sign(ALICE, expires_at=time.time() + 60)
        assert IdentitySigner(*reading).verify_call(token) == ALICE
        assert JwtTokens(*reading).decode(JwtTokens(*signing).encode(grant)) == grant
        expires = int(time.time()) + 60
        given = [tuple(pair.split("=")) for pair in LinkSigner(*signing).query(artifact, expires).split("&")]
        LinkSigner(*reading).check(artifact, given, time.time())


def test_the_old_key_is_refused_after_the_rotation() -> None:
    token = IdentitySigner(OLD).sign(ALICE, expires_at=time.time() + 60)
    with pytest.raises(AuthenticationFailed):
        IdentitySigner(NEW).verify_call(token)
    with pytest.raises(AuthenticationFailed):
        IdentitySigner(NEW, "another one that is long enough as well").verify_call(token)


def test_an_expired_token_is_refused_with_every_key() -> None:
    token = IdentitySigner(OLD).sign(ALICE, expires_at=time.time() - 5)
    for keys in ((OLD,), (OLD, NEW), (NEW, OLD)):
        with pytest.raises(AuthenticationFailed):
            IdentitySigner(*keys).verify_call(token)


def settings(accepted: str) -> RegistrySettings:
    return RegistrySettings.model_validate(
        {
            "database_url": SecretStr("postgresql://somewhere/registry"),
            "signing_key": SecretStr(NEW),
            "accepted_signing_keys": SecretStr(accepted),
        }
    )


def test_accepted_keys_are_separated_by_commas() -> None:
    assert settings("").signing_keys() == (NEW,)
    assert settings(f"{OLD}, {'k' * 40}").signing_keys() == (NEW, OLD, "k" * 40)
    with pytest.raises(ValidationError, match="at least 32 characters"):
        settings("short")
    for listed in (f'["{OLD}"]', f' ["{OLD}","{"k" * 40}"]'):
        with pytest.raises(ValidationError, match="must be separated by commas"):
            settings(listed)
