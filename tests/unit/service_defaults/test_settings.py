import pytest
from pydantic_settings import SettingsConfigDict

from libs.service_defaults import ServiceSettings
from libs.service_defaults._command_line import _read


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
