import pytest
from typer.testing import CliRunner

from cli import dlq as command
from cli.installation import bus_address


def test_without_a_broker_it_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.delenv("AES_KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setenv("AES_HOME", str(tmp_path))
    result = CliRunner().invoke(command.app, ["list", "--json"])

    assert result.exit_code == 1
    assert "aes up" in result.stderr
    monkeypatch.setenv("AES_KAFKA_BOOTSTRAP_SERVERS", "kafka:9092")
    assert bus_address().servers == "kafka:9092"
