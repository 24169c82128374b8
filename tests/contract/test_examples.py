"""Every example of a message is read by the current models."""

import json
from pathlib import Path
from typing import Any

import pytest

from libs.contracts.identifiers import is_correlation_id
from libs.contracts.messages import Command, envelope_from
from libs.contracts.registry import published_messages
from libs.contracts.wire_examples import RELEASES, examples_of, write_release

MESSAGES = published_messages()
RECORDS = [pytest.param(name, record, id=name) for name in MESSAGES for record in examples_of(name)]


def contains(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            name in whole and contains(whole[name], value) for name, value in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and len(whole) == len(part) and all(map(contains, whole, part))
    return bool(whole == part)


def test_the_payloads_of_every_release_are_read(tmp_path: Path) -> None:
    write_release(tmp_path / "now.json")

    for file in (tmp_path / "now.json", *RELEASES.glob("*.json")):
        for name, payloads in json.loads(file.read_text()).items():
            for payload in payloads:
                message = MESSAGES[name][0].decode(json.dumps(payload).encode())
                assert contains(json.loads(message.encode()), payload), (file.name, name)


@pytest.mark.parametrize(("name", "example"), RECORDS)
def test_an_example_parses_and_encodes_to_the_same_fields(name: str, example: dict[str, Any]) -> None:
    model, topic = MESSAGES[name]

    message = model.decode(json.dumps(example["payload"]).encode())

    assert contains(json.loads(message.encode()), example["payload"])
    assert example["topic"] == topic.name


@pytest.mark.parametrize(("name", "example"), RECORDS)
def test_the_headers_of_an_example_are_an_envelope(name: str, example: dict[str, Any]) -> None:
    envelope = envelope_from((name, value.encode()) for name, value in example["headers"].items())

    assert envelope.type == name
    assert envelope.correlation_id == example["key"]
    assert is_correlation_id(example["key"])
    written = envelope.attributes()
    assert written == example["headers"]


@pytest.mark.parametrize("name", MESSAGES)
def test_unknown_fields_are_ignored(name: str) -> None:
    model, _ = MESSAGES[name]
    payload = examples_of(name)[0]["payload"]

    message = model.decode(json.dumps({**payload, "added_later": {"by": "a newer service"}}).encode())

    assert message == model.decode(json.dumps(payload).encode())


def test_a_command_ends_in_one_of_its_outcomes_or_a_rejection_on_the_topic_of_events() -> None:
    for name, (model, topic) in MESSAGES.items():
        if not issubclass(model, Command):
            continue
        assert model.OUTCOMES, name
        for outcome in model.outcome_types():
            assert MESSAGES[outcome][1].name == f"{topic.owner}-events"
