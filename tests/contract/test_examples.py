"""Every example of a message is read by the current models."""

import json
from pathlib import Path
from typing import Any

import pytest

from libs.contracts import registry, resources
from libs.contracts.asyncapi import EXAMPLES, examples_of, published_messages
from libs.contracts.identifiers import is_correlation_id
from libs.contracts.messages import Command, envelope_from

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


def test_every_resource_is_registered() -> None:
    files = {file.stem for folder in resources.__path__ for file in Path(folder).glob("[!_]*.py")}
    assert {module.__name__.rpartition(".")[2] for module in registry.RESOURCES} == files


def test_every_file_is_an_example_of_a_message_that_has_no_others() -> None:
    kept = sum(len(examples_of(name)) for name in {file.stem.partition("+")[0] for file in EXAMPLES.glob("*.json")})
    assert kept == len(list(EXAMPLES.glob("*.json")))


def test_every_message_type_has_an_example() -> None:
    assert [name for name in MESSAGES if not examples_of(name)] == []


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
