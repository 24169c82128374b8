import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from libs.contracts.asyncapi import document, examples_of, published_messages
from libs.contracts.messages import Command
from libs.contracts.topics import TOPICS

SCHEMA = json.loads((Path(__file__).parent / "asyncapi_schema" / "3.0.0.json").read_text())
DOCUMENT = document("broker.example.com:9092", prefix="staging-")


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for item in value.values() for found in references(item)]
    if isinstance(value, list):
        return [found for item in value for found in references(item)]
    return []


def resolve(reference: str) -> Any:
    found: Any = DOCUMENT
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return found


@pytest.mark.parametrize("rendered", [document(), DOCUMENT], ids=["without a server", "with a server"])
def test_it_is_asyncapi_3(rendered: dict[str, Any]) -> None:
    validator = jsonschema_rs.Draft7Validator(SCHEMA)

    assert [(list(error.instance_path), error.message[:500]) for error in validator.iter_errors(rendered)] == []


def test_every_reference_leads_somewhere() -> None:
    for reference in references(DOCUMENT):
        assert resolve(reference) is not None


def test_channels_are_the_declared_topics() -> None:
    assert set(DOCUMENT["channels"]) == {topic.name for topic in TOPICS}
    for topic in TOPICS:
        channel = DOCUMENT["channels"][topic.name]
        binding = channel["bindings"]["kafka"]
        assert channel["address"] == f"staging-{topic.name}"
        assert binding["partitions"] == topic.partitions
        assert binding["topicConfiguration"]["retention.ms"] == topic.retention_ms


@pytest.mark.parametrize("name", published_messages())
def test_a_message_is_on_its_channel_and_its_examples_fit_its_schemas(name: str) -> None:
    _, topic = published_messages()[name]
    message = DOCUMENT["components"]["messages"][name]
    assert name in DOCUMENT["channels"][topic.name]["messages"]
    assert message["examples"]
    for part in ("headers", "payload"):
        # AsyncAPI names a discriminator by its property, which plain JSON Schema ignores.
        validator = jsonschema_rs.Draft202012Validator({**message[part], "components": DOCUMENT["components"]})
        for example in examples_of(name):
            assert [error.message for error in validator.iter_errors(example[part])] == []


def test_every_command_names_its_outcomes_as_reply() -> None:
    for model, topic in published_messages().values():
        if issubclass(model, Command):
            operation = DOCUMENT["operations"][f"{topic.owner}-carries-out-{model.__name__}"]
            replies = {reply["$ref"].rsplit("/", 1)[1] for reply in operation["reply"]["messages"]}
            assert replies == model.outcome_types()
            assert model.rejected_type() in replies


def test_senders_send_and_consumers_receive() -> None:
    for topic in TOPICS:
        operations = [
            (operation["action"], operation["tags"][0]["name"])
            for operation in DOCUMENT["operations"].values()
            if operation["channel"]["$ref"] == f"#/channels/{topic.name}"
        ]
        assert topic.senders
        assert {service for action, service in operations if action == "send"} == set(topic.senders)
        assert {service for action, service in operations if action == "receive"} == {
            *topic.consumers,
            *topic.tailed_by,
        }


def test_types_are_named_by_service_noun_verb_and_version() -> None:
    for name, (_, topic) in published_messages().items():
        assert re.fullmatch(rf"aes\.{topic.owner}\.[a-z_]+(\.[a-z_]+)*\.v[1-9]\d*", name)
