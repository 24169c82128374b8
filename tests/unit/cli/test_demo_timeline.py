import shlex
import sys
from pathlib import Path

import pytest
from aes_client.models import TimelineEventView

from cli.demo import steps
from cli.demo.steps import near
from cli.installation import BusAddress
from deploy.local.errors import StackError
from deploy.local.home import PROJECT_ROOT
from libs.eventing import KafkaConnection
from tests.support.cli_service import document
from tests.support.client_service import FakeService, blocking, events
from tests.support.client_service import event as sent


def happened(position: int, kind: str, subject: str) -> bytes:
    return sent(str(position), kind, **document(TimelineEventView, position=position, type=kind, subject=subject))


def test_the_timeline_is_read_until_the_turns_have_ended() -> None:
    service = FakeService()
    service.on(
        "GET",
        "/events/",
        events(happened(3, "turn.started", "a"), happened(5, "turn.completed", "a")),
        events(happened(9, "turn.failed", "b"), happened(10, "turn.started", "c")),
    )
    found = steps.read_timeline(blocking(service), "mine", {"a", "b"})
    assert [event.position for event in found] == [3, 5, 9]
    assert [each.headers.get("last-event-id") for each in service.requests] == [None, "5"]
    assert {each.url.params["correlation_id"] for each in service.requests} == {"mine"}


def test_a_timeline_that_gets_nothing_ends_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_TIMELINE_SECONDS", 0.0)
    service = FakeService()
    service.on("GET", "/events/", events(b": keep-alive\n\n"))
    with pytest.raises(StackError, match="timeline"):
        steps.read_timeline(blocking(service), "mine", {"a"})


def test_the_command_for_kafka_can_be_copied(tmp_path: Path) -> None:
    password_file = tmp_path / "kafka-password"
    kafka = KafkaConnection(
        servers="127.0.0.1:9092",
        security_protocol="sasl_plaintext",
        sasl_mechanism="PLAIN",
        username="aes",
        password="of-kafka",
    )
    command = steps.consumer_command(BusAddress(kafka, "test-"), password_file, "mine").replace("\\\n", "")
    assert command.startswith(f"KAFKA_PASSWORD=$(cat {near(password_file)}) ")
    interpreter, example, *options = shlex.split(command.partition(") ")[2])
    assert Path(interpreter).resolve() == Path(sys.executable).resolve()
    assert (PROJECT_ROOT / example).exists()
    assert options[: options.index("--timeout")] == [
        *("--bootstrap-servers", "127.0.0.1:9092", "--prefix", "test-", "--username", "aes", "--mechanism", "PLAIN"),
        *("--correlation-id", "mine", "--from-beginning"),
    ]
    assert "of-kafka" not in command
