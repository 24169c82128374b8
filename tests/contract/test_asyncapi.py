"""AsyncAPI's document, and the topics it tells of."""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from libs.contracts.asyncapi import document
from libs.contracts.messages import Command, public_name
from libs.contracts.registry import published_messages
from libs.contracts.topics import TOPICS, Topic, TopicKind, with_dead_letters
from libs.contracts.wire_examples import examples_of
from services.gateway.entrypoints.rest.client_messages import MODELS, message_of
from services.gateway.entrypoints.rest.reference import asyncapi as sockets
from services.gateway.entrypoints.rest.reference.asyncapi import CHANNEL
from tools.reference.references import resolved

SCHEMA = json.loads((Path(__file__).parent / "asyncapi_schema" / "3.0.0.json").read_text())


# Made by the tests: it takes a second, and every worker imports this file.
@cache
def of_the_bus() -> dict[str, Any]:
    return document()


@cache
def with_socket() -> dict[str, Any]:
    return sockets.document()


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for item in value.values() for found in references(item)]
    if isinstance(value, list):
        return [found for item in value for found in references(item)]
    return []


@pytest.mark.parametrize("render", [of_the_bus, with_socket], ids=["the bus", "with the WebSocket"])
def test_it_is_asyncapi_3(render: Callable[[], dict[str, Any]]) -> None:
    validator = jsonschema_rs.Draft7Validator(SCHEMA)

    assert [(list(error.instance_path), error.message[:500]) for error in validator.iter_errors(render())] == []


@pytest.mark.parametrize("render", [of_the_bus, with_socket], ids=["the bus", "with the WebSocket"])
def test_every_reference_leads_somewhere(render: Callable[[], dict[str, Any]]) -> None:
    for reference in references(render()):
        assert resolved({"$ref": reference}, render())


def test_channels_are_the_declared_topics() -> None:
    assert set(of_the_bus()["channels"]) == {topic.name for topic in TOPICS}
    for topic in TOPICS:
        channel = of_the_bus()["channels"][topic.name]
        binding = channel["bindings"]["kafka"]
        assert channel["address"] == topic.name
        assert binding["partitions"] == topic.partitions
        assert binding["topicConfiguration"]["retention.ms"] == topic.retention_ms


@pytest.mark.parametrize("name", published_messages())
def test_a_message_is_on_its_channel_and_its_examples_fit_its_schemas(name: str) -> None:
    _, topic = published_messages()[name]
    message = of_the_bus()["components"]["messages"][name]
    assert name in of_the_bus()["channels"][topic.name]["messages"]
    assert message["examples"]
    for part in ("headers", "payload"):
        # AsyncAPI names a discriminator by its property, which plain JSON Schema ignores.
        validator = jsonschema_rs.Draft202012Validator({**message[part], "components": of_the_bus()["components"]})
        for example in examples_of(name):
            assert [error.message for error in validator.iter_errors(example[part])] == []


def test_every_command_names_its_outcomes_as_reply() -> None:
    for model, topic in published_messages().values():
        if issubclass(model, Command):
            operation = of_the_bus()["operations"][f"{topic.owner}-carries-out-{model.__name__}"]
            replies = {reply["$ref"].rsplit("/", 1)[1] for reply in operation["reply"]["messages"]}
            assert replies == model.outcome_types()
            assert model.rejected_type() in replies


def test_senders_send_and_consumers_receive() -> None:
    for topic in TOPICS:
        operations = [
            (operation["action"], operation["tags"][0]["name"])
            for operation in of_the_bus()["operations"].values()
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


def test_the_websocket_names_every_message_of_both_sides() -> None:
    assert {name for name in with_socket()["channels"][CHANNEL]["messages"] if name.startswith("client.")} == {
        "client.execute", "client.cancel", "client.resolve", "client.subscribe", "client.ping",
    }  # fmt: skip
    sent = {name for name in with_socket()["channels"][CHANNEL]["messages"] if name.startswith("server.")}
    of_turns = {f"server.{public_name(name)}" for name in published_messages() if ".runtime.turn." in name}
    assert sent >= {*of_turns, "server.session.deleted", "server.artifact.uploaded", "server.error", "server.pong"}
    assert not any("rejected" in name or "execute_turn" in name for name in sent)


def test_messages_of_the_websocket_fit_their_schemas() -> None:
    for name in with_socket()["channels"][CHANNEL]["messages"]:
        message = with_socket()["components"]["messages"][name]
        validator = jsonschema_rs.Draft202012Validator(
            {**message["payload"], "components": with_socket()["components"]}
        )
        for example in message["examples"]:
            assert [error.message for error in validator.iter_errors(example["payload"])] == [], name


@pytest.mark.parametrize("kind", MODELS)
def test_examples_of_client_messages_are_accepted(kind: str) -> None:
    message = with_socket()["components"]["messages"][f"client.{kind}"]
    for example in message["examples"]:
        assert message_of(example["payload"]).type == kind


def test_the_websocket_changes_nothing_about_the_bus() -> None:
    bus = document()
    for part in ("channels", "operations"):
        assert {name: with_socket()[part][name] for name in bus[part]} == bus[part]
    for part in ("messages", "schemas"):
        assert {name: with_socket()["components"][part][name] for name in bus["components"][part]} == bus["components"][
            part
        ]


SERVICES = {"gateway", "registry", "runtime", "ingestion", "artifacts", "timeline"}


@pytest.mark.parametrize("topic", with_dead_letters(), ids=lambda topic: topic.name)
def test_every_topic_is_declared_in_full(topic: Topic) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", topic.name)
    assert topic.owner in SERVICES
    assert set(topic.consumers) <= SERVICES
    assert topic.description
    assert topic.partitions >= 1
    assert topic.retention_ms >= topic.segment_ms or topic.kind is TopicKind.DELTAS


def test_a_key_is_in_partitions_of_the_same_number_of_all_events_topics() -> None:
    """The one reader that owns them puts their events in order."""
    assert len({topic.partitions for topic in TOPICS if topic.kind is TopicKind.EVENTS}) == 1


def test_names_are_unique() -> None:
    names = [topic.name for topic in with_dead_letters()]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_every_topic_but_dead_letters_has_a_consumer(topic: Topic) -> None:
    assert topic.consumers or topic.tailed_by
    if topic.kind is TopicKind.COMMANDS:
        assert topic.consumers == (topic.owner,)


def test_commands_are_kept_three_days_and_inboxes_can_outlive_them() -> None:
    commands = [topic for topic in TOPICS if topic.kind is TopicKind.COMMANDS]

    assert {topic.retention_ms for topic in commands} == {3 * 24 * 3600 * 1000}
    assert {topic.segment_ms for topic in commands} == {24 * 3600 * 1000}


def test_only_who_can_give_a_message_up_has_dead_letters() -> None:
    names = {topic.name for topic in with_dead_letters() if topic.kind is TopicKind.DEAD_LETTERS}

    assert {"runtime-commands-runtime-dlq", "runtime-events-artifacts-dlq", "runtime-events-timeline-dlq"} <= names
    assert not any(name.startswith("runtime-deltas-") for name in names)
