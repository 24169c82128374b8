"""Serves ``/operations/…``: health, consumer lag, failures and dead-lettered messages."""

import base64
import binascii
from typing import Annotated, Final

import orjson
from fastapi import Query, Security
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema
from starlette.responses import Response

from libs.contracts.errors import invalid_cursor
from libs.contracts.identity import Scope
from libs.contracts.resources import operations as schemas
from libs.eventing.dead_letters import dead_letter_topics
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import model_answer
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.queries import (
    DEFAULT_LIMIT,
    Limit,
    QueryModel,
    Unfiltered,
    refused_parameter,
)
from services.gateway.entrypoints.door.routes import answer, errors, public_router
from services.gateway.entrypoints.rest import dead_letter_answers
from services.gateway.entrypoints.rest.resources import ResourcesDep
from services.gateway.use_cases.dead_letters import DeadLetterPage, DeadLetterQuery, Positions

_TOPICS: Final = tuple(topic.name for topic in dead_letter_topics())
_TRUTH: Final = {"true": True, "false": False}
_LONGEST: Final = 4000


def _topic(name: str) -> str:
    if name not in _TOPICS:
        raise refused_parameter("topic", "must be a dead-letter topic", f"topic={_TOPICS[0]}")
    return name


def _replayed(text: str) -> bool:
    if text not in _TRUTH:
        raise refused_parameter("replayed", "must be true or false", "replayed=false")
    return _TRUTH[text]


def _positions(text: str) -> Positions:
    if len(text) <= _LONGEST:
        try:
            found = orjson.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
        except (binascii.Error, ValueError):
            found = None
        if isinstance(found, dict) and all(type(offset) is int and offset >= 0 for offset in found.values()):
            return found
    raise invalid_cursor()


_Topic = Annotated[str, AfterValidator(_topic), WithJsonSchema({"type": "string", "enum": list(_TOPICS)})]
_Replayed = Annotated[bool, BeforeValidator(_replayed)]
_After = Annotated[Positions, BeforeValidator(_positions), WithJsonSchema({"type": "string", "maxLength": _LONGEST})]


class FailuresQuery(QueryModel):
    correlation_id: str | SkipJsonSchema[None] = Field(None, description="Only failures with this correlation ID.")


class DeadLettersQuery(QueryModel):
    topic: _Topic | SkipJsonSchema[None] = Field(None, description="Only messages of this dead-letter topic.")
    correlation_id: str | SkipJsonSchema[None] = Field(None, description="Only messages with this correlation ID.")
    replayed: _Replayed | SkipJsonSchema[None] = Field(
        None, description="`true`: only replayed messages. `false`: only messages that weren't replayed."
    )
    after: _After | SkipJsonSchema[None] = Field(None, description="The previous page's `next`.")
    limit: Limit = Field(DEFAULT_LIMIT, description="The maximum number of items per page.")

    @property
    def wanted(self) -> DeadLetterQuery:
        return DeadLetterQuery(**dict(self))


def cursor_of(positions: Positions | None) -> str | None:
    """Encodes positions as an opaque cursor."""
    if positions is None:
        return None
    return base64.urlsafe_b64encode(orjson.dumps(dict(positions))).decode().rstrip("=")


router = public_router("/operations", "Operations")
Caller = Annotated[Principal, Security(by_api_key)]
Operator = Annotated[Principal, Security(by_api_key, scopes=[Scope.INSTALLATION_READ])]


@router.get(
    "/services/",
    operation_id="operations.services",
    summary="Get the services' health",
    description=(
        "With `installation:read`, lists all replicas that the gateway knows about, and their unavailable"
        " dependencies. With a `company:…` scope, returns a summary by service. A replica that doesn't respond within"
        " four seconds is `unreachable`. Responses are cached for two seconds."
    ),
    responses={200: answer("The services.", schemas.ServiceStates), **errors(403)},
)
async def list_services(caller: Caller, _: Unfiltered, resources: ResourcesDep) -> Response:
    return _json(await resources.health.services(caller.identity))


@router.get(
    "/consumers/",
    operation_id="operations.consumers",
    summary="Get consumer lag",
    description="Returns the lag of each consumer group by topic. Responses are cached for five seconds.",
    responses={200: answer("The groups and their topics, by name.", schemas.ConsumerStates)},
)
async def list_consumers(_caller: Operator, _: Unfiltered, resources: ResourcesDep) -> Response:
    return _json(await resources.health.lag())


@router.get(
    "/failures/",
    operation_id="operations.failures",
    summary="List internal errors",
    description=(
        "Lists turns, ingestions and commands that ended with `internal_error`, with the type and location of the"
        " underlying exception. The exception's message isn't stored. Returns the latest 100 failures, from the last"
        " eight days."
    ),
    responses={200: answer("Failures, newest first.", schemas.FailureList), **errors(403)},
)
async def list_failures(
    caller: Operator, query: Annotated[FailuresQuery, Query()], resources: ResourcesDep
) -> Response:
    return _json(await resources.health.failures(caller.identity, query.correlation_id))


@router.get(
    "/dead-letters/",
    operation_id="dead_letters.list",
    summary="List dead-lettered messages",
    description=(
        "Lists messages that consumers couldn't process, and why. `installation:read` shows all messages; a `company:…`"
        " scope shows your company's. Each request scans at most 500 messages, so a page can be short or empty while"
        " `has_more` is true."
    ),
    responses={200: answer("Dead-lettered messages, newest first.", schemas.DeadLetterList), **errors(403)},
)
async def list_dead_letters(
    caller: Caller, query: Annotated[DeadLettersQuery, Query()], resources: ResourcesDep
) -> Response:
    page = await resources.dead_letters.page(caller.identity, query.wanted)
    return _json(
        schemas.DeadLetterList(
            dead_letters=[dead_letter_answers.shown(each) for each in page.letters],
            has_more=page.next is not None,
            next=cursor_of(page.next),
            topics=_topics(page),
        )
    )


@router.get(
    "/dead-letters/{id}/",
    operation_id="dead_letters.get",
    summary="Get a dead-lettered message",
    description=(
        "Includes the headers and payload. Hides signed identities, likely secrets, and payloads other than JSON."
        " Requires `installation:read`, or a `company:…` scope for your company's messages."
    ),
    responses={200: answer("The message.", schemas.DeadLetterDetail), **errors(403, 404)},
)
async def get_dead_letter(id: str, caller: Caller, _: Unfiltered, resources: ResourcesDep) -> Response:
    return _json(dead_letter_answers.shown_in_full(await resources.dead_letters.get(caller.identity, id)))


@router.post(
    "/dead-letters/{id}/replay/",
    operation_id="dead_letters.replay",
    summary="Replay a dead-lettered message",
    description=(
        "Sends the unchanged message to its original topic. Consumers skip messages that they've already processed. A"
        " message can be replayed once. Further requests send nothing and return `repeated: true`. Replaying a"
        " message that is more than seven days old returns 409. Requires `installation:write`, or `company:write`"
        " for your company's messages. After a 503, the message may have been sent. Retrying is safe."
    ),
    responses={200: answer("The message was sent.", schemas.ReplayResult), **errors(403, 404, 409)},
)
async def replay_dead_letter(id: str, caller: Caller, resources: ResourcesDep) -> Response:
    done = await resources.dead_letters.replay(caller.identity, id)
    return _json(schemas.ReplayResult(dead_letter=dead_letter_answers.shown(done.listed), repeated=done.repeated))


def _topics(page: DeadLetterPage) -> list[schemas.TopicLetters]:
    return [
        schemas.TopicLetters(
            topic=topic.name,
            letters=content.count,
            not_replayed=content.count - content.replayed.count(content.first, content.end),
        )
        for topic, content in (page.contents or {}).items()
        if content.count
    ]


def _json(found: BaseModel) -> Response:
    # The content is specific to this caller, and outdated soon.
    return model_answer(found, headers={"Cache-Control": "no-store"})
