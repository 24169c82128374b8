"""``/operations/…``: health, lag and dead letters, for operators."""

import base64
import binascii
from dataclasses import asdict
from typing import Annotated, Final

import orjson
from fastapi import Query, Security
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema
from starlette.responses import Response

from libs.contracts.identity import Scope
from libs.contracts.resources import operations as schemas
from libs.eventing.dead_letters import dead_letter_topics
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import json_answer
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.described import answer, errors
from services.gateway.entrypoints.door.queries import DEFAULT_LIMIT, Limit, QueryModel, Unfiltered, refused_parameter
from services.gateway.entrypoints.door.routes import public_router
from services.gateway.entrypoints.rest import dead_letter_answers
from services.gateway.entrypoints.rest.resources import ResourcesDep
from services.gateway.use_cases.dead_letters import DeadLetterPage, DeadLetterQuery, Positions
from services.gateway.use_cases.health import HealthOfService

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
    raise refused_parameter("after", "must be the next of a page", "leave it out to begin with the newest")


_Topic = Annotated[str, AfterValidator(_topic), WithJsonSchema({"type": "string", "enum": list(_TOPICS)})]
_Replayed = Annotated[bool, BeforeValidator(_replayed)]
_After = Annotated[Positions, BeforeValidator(_positions), WithJsonSchema({"type": "string", "maxLength": _LONGEST})]


class FailuresQuery(QueryModel):
    correlation_id: str | SkipJsonSchema[None] = Field(None, description="Only failures of this correlation id.")


class DeadLettersQuery(QueryModel):
    topic: _Topic | SkipJsonSchema[None] = Field(None, description="Only letters of this dead-letter topic.")
    correlation_id: str | SkipJsonSchema[None] = Field(None, description="Only letters of this correlation id.")
    replayed: _Replayed | SkipJsonSchema[None] = Field(
        None, description="Only letters that were replayed, or were not."
    )
    after: _After | SkipJsonSchema[None] = Field(None, description="The `next` of the page before.")
    limit: Limit = Field(DEFAULT_LIMIT, description="Items in the page.")

    @property
    def wanted(self) -> DeadLetterQuery:
        return DeadLetterQuery(
            topic=self.topic,
            correlation_id=self.correlation_id,
            replayed=self.replayed,
            after=self.after,
            limit=self.limit,
        )


def cursor_of(positions: Positions | None) -> str | None:
    """The positions as text, opaque to callers."""
    if positions is None:
        return None
    return base64.urlsafe_b64encode(orjson.dumps(dict(positions))).decode().rstrip("=")


router = public_router("/operations", "Operations")
Caller = Annotated[Principal, Security(by_api_key)]
Operator = Annotated[Principal, Security(by_api_key, scopes=[Scope.INSTALLATION_READ])]


@router.get(
    "/services/",
    operation_id="operations.services",
    summary="See the services' health",
    description=(
        "Every replica whose address the gateway knows, with what it waits for; one that does not answer within four"
        " seconds is `unreachable`. With `installation:read` all of that, with a `company:…` scope the services in"
        " short. Answers are shared for two seconds."
    ),
    responses={200: answer("The services.", schemas.ServiceStates), **errors(403)},
)
async def list_services(caller: Caller, _: Unfiltered, resources: ResourcesDep) -> Response:
    report = await resources.health.services(caller.identity)
    services = [_service(each) for each in report.services]
    return _json(schemas.ServiceStates(services=services, checked_at=report.checked_at))


@router.get(
    "/consumers/",
    operation_id="operations.consumers",
    summary="See how far consumers are behind",
    description="Consumer groups of the services at each topic. Answers are shared for five seconds.",
    responses={200: answer("Groups and topics, by name.", schemas.ConsumerStates)},
)
async def list_consumers(_caller: Operator, _: Unfiltered, resources: ResourcesDep) -> Response:
    report = await resources.health.lag()
    consumers = [schemas.ConsumerState.model_validate({**asdict(each), "lag": each.lag}) for each in report.groups]
    total = sum(each.lag for each in consumers)
    return _json(schemas.ConsumerStates(consumers=consumers, lag=total, measured_at=report.measured_at))


@router.get(
    "/failures/",
    operation_id="operations.failures",
    summary="List internal errors",
    description=(
        "What ended with `internal_error`: turns, ingestions and commands, with the type and place of the exception"
        " behind it. Its message isn't kept. The newest hundred of the last eight days."
    ),
    responses={200: answer("Failures, newest first.", schemas.FailureList), **errors(403)},
)
async def list_failures(
    caller: Operator, query: Annotated[FailuresQuery, Query()], resources: ResourcesDep
) -> Response:
    report = await resources.failures.newest(caller.identity, query.correlation_id)
    return _json(schemas.FailureList.model_validate(asdict(report)))


@router.get(
    "/dead-letters/",
    operation_id="dead_letters.list",
    summary="List dead letters",
    description=(
        "Messages that their consumers gave up, with the cause. With `installation:read` those of all companies, with"
        " a `company:…` scope those that name the company. A page reads 500 letters at most, so that it may have fewer"
        " than `limit`, or none, while `has_more` says that there are older ones."
    ),
    responses={200: answer("Letters, newest first.", schemas.DeadLetterList), **errors(403)},
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
    summary="Get a dead letter",
    description=(
        "With headers and payload. Signed identities, text that looks like a secret, and payloads other than JSON are"
        " not shown."
    ),
    responses={200: answer("The letter.", schemas.DeadLetterDetail), **errors(403, 404)},
)
async def get_dead_letter(id: str, caller: Caller, _: Unfiltered, resources: ResourcesDep) -> Response:
    return _json(dead_letter_answers.shown_in_full(await resources.dead_letters.get(caller.identity, id)))


@router.post(
    "/dead-letters/{id}/replay/",
    operation_id="dead_letters.replay",
    summary="Replay a dead letter",
    description=(
        "Sends the message, as it was, to the topic that it came from; all consumers see it again, and those that have"
        " processed it pass over it. Each letter is sent once: asked again, the answer says `repeated`. A message that"
        " was made more than seven days ago stays a letter (409). Takes `installation:write`, or `company:write` for a"
        " letter of the company. After a 503 it may have been sent; asking again is safe."
    ),
    responses={200: answer("It was sent.", schemas.ReplayResult), **errors(403, 404, 409)},
)
async def replay_dead_letter(id: str, caller: Caller, resources: ResourcesDep) -> Response:
    done = await resources.dead_letters.replay(caller.identity, id)
    return _json(schemas.ReplayResult(dead_letter=dead_letter_answers.shown(done.listed), repeated=done.repeated))


def _service(found: HealthOfService) -> schemas.ServiceState:
    return schemas.ServiceState.model_validate({**asdict(found), "replicas": list(map(asdict, found.replicas or ()))})


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
    # What letters and replicas tell is of this moment, and for this caller.
    return json_answer(found.model_dump_json().encode(), headers={"Cache-Control": "no-store"})
