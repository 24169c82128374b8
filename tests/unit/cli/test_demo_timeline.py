import shlex
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from cli.bus_address import BusAddress
from cli.demo import timeline
from cli.demo.api import Api
from deploy.local.errors import StackError
from deploy.local.home import PROJECT_ROOT
from libs.eventing import KafkaConnection


class FakeApi:
    """Answers one page after the other; the last one is repeated."""

    def __init__(self, *pages: list[tuple[int, str, str]]) -> None:
        self.pages = list(pages)
        self.asked: list[str] = []

    def get(self, path: str) -> dict[str, Any]:
        self.asked.append(path)
        page = self.pages.pop(0) if self.pages else []
        events = [{"position": position, "type": kind, "subject": subject} for position, kind, subject in page]
        return {"events": events, "has_more": False, "next": events[-1]["position"] if events else 9}


def test_the_timeline_is_read_until_the_turns_have_ended() -> None:
    api = FakeApi([(3, "turn.started", "a"), (5, "turn.completed", "a")], [], [(9, "turn.failed", "b")])
    found = timeline.read(cast(Api, api), "mine", {"a", "b"}, sleep=lambda _: None)
    assert [event["position"] for event in found] == [3, 5, 9]
    assert [path.split("after=")[1].split("&")[0] for path in api.asked] == ["0", "5", "9"]


def test_a_timeline_that_gets_nothing_ends_the_demo() -> None:
    with pytest.raises(StackError, match="timeline"):
        timeline.read(cast(Api, FakeApi()), "mine", {"a"}, sleep=lambda _: None)


def test_the_command_for_kafka_can_be_copied(tmp_path: Path) -> None:
    password_file = tmp_path / "kafka-password"
    kafka = KafkaConnection(
        servers="127.0.0.1:9092",
        security_protocol="sasl_plaintext",
        sasl_mechanism="PLAIN",
        username="aes",
        password="of-kafka",
    )
    command = timeline.consumer_command(BusAddress(kafka, "test-"), password_file, "mine").replace("\\\n", "")
    assert command.startswith(f"KAFKA_PASSWORD=$(cat {password_file}) ")
    interpreter, example, *options = shlex.split(command.partition(") ")[2])
    assert Path(interpreter).resolve() == Path(sys.executable).resolve()
    assert (PROJECT_ROOT / example).exists()
    assert options[: options.index("--timeout")] == [
        *("--bootstrap-servers", "127.0.0.1:9092", "--prefix", "test-", "--username", "aes", "--mechanism", "PLAIN"),
        *("--correlation-id", "mine", "--from-beginning"),
    ]
    assert "of-kafka" not in command
