"""Ids, timestamps, envelopes and errors as they are on the wire."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

import pytest

from libs.contracts import registry
from libs.contracts.errors import (
    Conflict,
    ErrorDetail,
    ErrorInfo,
    ErrorKind,
    InternalError,
    NotFound,
    RateLimited,
    ServiceUnavailable,
    ValidationFailed,
    error_from,
)
from libs.contracts.identifiers import creation_time, is_correlation_id, is_id, new_id
from libs.contracts.identity import Identity, Scope
from libs.contracts.messages import (
    Envelope,
    Event,
    PoisonMessage,
    command_models,
    envelope_from,
    envelope_from_attributes,
    event_models,
    public_name,
)
from libs.contracts.timestamps import format_time, parse_time
from libs.contracts.topics import REGISTRY_EVENTS

ENVELOPE = Envelope(
    id="event",
    type="aes.notes.note.taken.v1",
    source="/aes/notes",
    subject="note",
    time="2026-01-02T03:04:05.000006Z",
    correlation_id="label",
    company_id="company",
    causation_id="command",
    owner_id="ada",
    sequence=7,
)


def test_ids_are_distinct_ordered_in_time_and_recognised() -> None:
    ids = [new_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert ids == sorted(ids)
    assert all(is_id(one) for one in ids)
    assert ids[0][14] == "7"


def test_an_id_tells_when_it_was_made() -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    made = creation_time(new_id())
    assert made is not None
    assert before <= made <= datetime.now(UTC) + timedelta(milliseconds=1)
    for text in ("", "label", str(uuid4()), "ffffffff-ffff-7fff-bfff-ffffffffffff"):
        assert creation_time(text) is None, text


@pytest.mark.parametrize("text", ["", "x", "1", new_id().upper(), new_id() + "\n", " " + new_id(), new_id()[:-1]])
def test_other_texts_are_no_ids(text: str) -> None:
    assert not is_id(text)


@pytest.mark.parametrize("text", ["a", "A.b_c:d-9", "x" * 128])
def test_correlation_ids_of_callers(text: str) -> None:
    assert is_correlation_id(text)


@pytest.mark.parametrize("text", ["", "x" * 129, "a b", "a/b", "ü", "a\n"])
def test_other_texts_are_no_correlation_ids(text: str) -> None:
    assert not is_correlation_id(text)


def test_timestamps_have_six_digits_and_are_utc() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    assert format_time(moment) == "2026-01-02T01:04:05.000000Z"
    assert parse_time("2026-01-02T01:04:05.000000Z") == moment
    assert parse_time(format_time(datetime.now(UTC))).tzinfo is not None


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-02T01:04:05", "2026-13-02T01:04:05Z"])
def test_other_texts_are_no_timestamps(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - several messages of the standard library
        parse_time(text)


def test_an_envelope_survives_its_headers_and_unknown_ones_are_ignored() -> None:
    headers = [*ENVELOPE.headers(), ("ce_new", b"\xff"), ("other", b"x")]
    assert envelope_from(headers) == ENVELOPE
    assert ("ce_specversion", b"1.0") in headers


@pytest.mark.parametrize(
    "name", ["ce_id", "ce_type", "ce_source", "ce_subject", "ce_time", "ce_correlationid", "ce_companyid"]
)
def test_an_envelope_without_a_required_attribute_is_malformed(name: str) -> None:
    with pytest.raises(PoisonMessage, match="missing"):
        envelope_from([(header, value) for header, value in ENVELOPE.headers() if header != name])


@pytest.mark.parametrize(
    ("name", "value"),
    [("ce_sequence", b"seven"), ("ce_subject", b"\xff"), ("ce_id", b"a\0b"), ("ce_causationid", b"\0")],
)
def test_an_unreadable_attribute_is_malformed(name: str, value: bytes) -> None:
    with pytest.raises(PoisonMessage, match="unreadable"):
        envelope_from([*ENVELOPE.headers(), (name, value)])


@pytest.mark.parametrize(
    ("name", "value"), [("ce_sequence", 7), ("ce_sequence", True), ("ce_subject", None), ("ce_id", [])]
)
def test_an_attribute_that_is_no_text_is_malformed(name: str, value: Any) -> None:
    attributes: dict[str, Any] = ENVELOPE.attributes()
    assert envelope_from_attributes(attributes | {"ce_unknown": value}) == ENVELOPE
    with pytest.raises(PoisonMessage, match="unreadable"):
        envelope_from_attributes(attributes | {name: value})


@pytest.mark.parametrize(
    "problem", [Conflict("no"), NotFound("?"), RateLimited("slow", retry_after=7), ServiceUnavailable("x")]
)
def test_an_error_comes_back_from_its_body(problem: Exception) -> None:
    back = error_from(ErrorInfo.model_validate_json(problem.info("label").model_dump_json()))  # type: ignore[attr-defined]
    assert type(back) is type(problem)
    assert (back.message, back.retry_after) == (problem.message, problem.retry_after)  # type: ignore[attr-defined]


def test_what_is_not_valid_always_says_where() -> None:
    (whole,) = ValidationFailed("it is wrong").info().details or []
    assert (whole.loc, whole.message) == ([], "it is wrong")
    place = ErrorDetail(loc=["name"], type="missing", message="it is missing")
    assert ValidationFailed("it is wrong", details=[place]).info().details == [place]


def test_every_kind_of_error_has_an_exception() -> None:
    for kind in set(ErrorKind) - {ErrorKind.METHOD_NOT_ALLOWED, ErrorKind.INTERNAL}:
        assert type(error_from(ErrorInfo(type=kind, message=""))) is not InternalError


def test_public_names_drop_prefix_and_version() -> None:
    assert public_name("aes.runtime.turn.output_text.delta.v1") == "turn.output_text.delta"


def test_outcomes_and_rejections_of_commands_are_found_by_type() -> None:
    assert registry.RESOURCES  # imported, so all messages are known
    assert registry.RESOURCES  # imported, so that every message is known
    assert command_models()
    for command in command_models().values():
        assert command.rejected_type() in command.outcome_types()
        assert command.outcome_types() - {command.rejected_type()} <= event_models().keys()


def test_a_message_travels_on_the_topic_of_the_service_in_its_type() -> None:
    class AgentTested(Event, type="aes.registry.agent.tested.v1"):
        pass

    assert AgentTested.TOPIC is REGISTRY_EVENTS
    with pytest.raises(LookupError, match="notes"):

        class NoteTaken(Event, type="aes.notes.note.taken.v1"):
            pass


def test_what_an_identity_may_touch() -> None:
    def caller(*scopes: Scope) -> Identity:
        return Identity(company_id="c", user_id="me", key_id="k", scopes=frozenset(scopes))

    assert caller().may_read_of("me")
    assert caller().may_write_of("me")
    assert not caller().may_read_of("you")
    assert caller(Scope.COMPANY_READ).may_read_of("you")
    assert not caller(Scope.COMPANY_READ).may_write_of("you")
    assert caller(Scope.COMPANY_WRITE).may_write_of("you")
