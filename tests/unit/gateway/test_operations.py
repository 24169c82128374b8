"""``/operations/…``: who sees what, readiness of processes, pages of dead letters, replay."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from libs.contracts.identity import Identity
from libs.contracts.resources.operations import Replica
from libs.eventing.dead_letters import ReplayOffsets, ReplayOvertaken
from libs.eventing.lag import GroupLag, PartitionLag
from libs.retry import RetryPolicy
from services.gateway.adapters import health_http
from services.gateway.adapters.health_http import read_replicas
from services.gateway.domain.accounts import ALL_SCOPES, OPERATOR_SCOPES
from services.gateway.use_cases.dead_letters import MOST_EXAMINED, VisibleDeadLetters
from tests.support.gateway import Gateway, error_of
from tests.support.waiting import WITHIN

LETTERS = "/operations/dead-letters/"
EVENTS = "runtime-events-artifacts-dlq"
COMMANDS = "runtime-commands-runtime-dlq"


class Caller:
    """Asks with a key of its own."""

    def __init__(self, public: Gateway, scopes: frozenset[str], company: str = "company-1") -> None:
        self._client = public.client
        secret, _ = public.keys.issue(scopes=scopes, company_id=company)
        self._headers = {"x-api-key": secret}

    async def get(self, path: str, status: int = 200, **params: Any) -> Any:
        response = await self._client.get(path, params=params, headers=self._headers)
        assert response.status_code == status, response.text
        return error_of(response) if status >= 400 else response.json()

    async def post(self, path: str, status: int = 200) -> Any:
        response = await self._client.post(path, headers=self._headers)
        assert response.status_code == status, response.text
        return error_of(response) if status >= 400 else response.json()

    async def ids(self, **params: Any) -> list[str]:
        return [each["id"] for each in (await self.get(LETTERS, **params))["dead_letters"]]


@pytest.fixture
def operator(public: Gateway) -> Caller:
    return Caller(public, OPERATOR_SCOPES)


@pytest.fixture
def company(public: Gateway) -> Caller:
    return Caller(public, ALL_SCOPES)


@pytest.fixture
def other(public: Gateway) -> Caller:
    return Caller(public, ALL_SCOPES, "company-2")


async def test_a_company_cannot_make_an_operators_key(public: Gateway) -> None:
    answer = await public.client.post("/api-keys/", json={"name": "more", "scopes": ["installation:read"]})

    assert (answer.status_code, "installation:read" in error_of(answer)["message"]) == (403, True)


async def test_a_key_without_a_scope_for_it_sees_nothing(public: Gateway) -> None:
    letter = public.dead_letters.add()
    some = Caller(public, ALL_SCOPES - {"company:read", "company:write"})

    for path in ("/operations/services/", "/operations/consumers/", LETTERS, f"{LETTERS}{letter}/"):
        assert (await some.get(path, 403))["type"] == "permission_error"
    await some.post(f"{LETTERS}{letter}/replay/", 403)
    assert (public.service_health.looks, public.groups.looks, public.dead_letters.opened) == (0, 0, 0)


async def test_reading_is_not_replaying(public: Gateway) -> None:
    letter = public.dead_letters.add()
    for scopes in ({"company:read"}, {"installation:read"}):
        await Caller(public, frozenset(scopes)).post(f"{LETTERS}{letter}/replay/", 403)
    assert public.dead_letters.sent == []


async def test_health_is_whole_for_operators_and_short_for_a_company(
    public: Gateway, operator: Caller, company: Caller
) -> None:
    public.service_health.found = {
        "runtime": [
            Replica(address="10.0.0.1:8000", status="ready", version="0.1.0", reason=""),
            Replica(address="10.0.0.2:8000", status="not ready", version=None, reason="database: not yet"),
        ],
        "registry": [Replica(address="10.0.0.3:8000", status="unreachable", version=None, reason="refused")],
    }

    whole = await operator.get("/operations/services/")
    assert [(each["service"], each["status"], each["ready"], each["total"]) for each in whole["services"]] == [
        ("runtime", "degraded", 1, 2),
        ("registry", "unavailable", 0, 1),
    ]
    assert whole["services"][0]["replicas"][1]["reason"] == "database: not yet"
    assert whole["services"][0]["replicas"][0]["version"] == "0.1.0"

    short = await company.get("/operations/services/")
    assert [each["replicas"] for each in short["services"]] == [[], []]
    assert "10.0.0" not in json.dumps(short)


async def test_those_who_look_at_the_same_time_share_an_answer(public: Gateway, operator: Caller) -> None:
    for path, looks in (
        ("/operations/services/", lambda: public.service_health.looks),
        ("/operations/consumers/", lambda: public.groups.looks),
    ):
        await asyncio.gather(*(operator.get(path) for _ in range(10)))
        assert looks() == 1
        public.clock.advance(5.1)
        await operator.get(path)
        assert looks() == 2


async def test_internal_errors_are_those_of_all_services_for_operators_only(
    public: Gateway, operator: Caller, company: Caller
) -> None:
    def failure(subject: str, at: str) -> dict[str, str]:
        ids = {"correlation_id": "label", "company_id": "company-1", "subject": subject}
        return {**ids, "type": "aes.runtime.turn.failed.v1", "at": at, "cause": "KeyError at services.runtime.x:7"}

    older, newer = "2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:01.000000Z"
    answers = public.upstreams.answers
    answers["GET", "runtime", "/internal/failures"] = (200, [failure("turn", older)])
    answers["GET", "ingestion", "/internal/failures"] = (200, [failure("base", newer)])
    answers["GET", "artifacts", "/internal/failures"] = (200, [])
    answers["GET", "timeline", "/internal/failures"] = (200, [])
    answers["GET", "registry", "/internal/failures"] = (503, {})

    found = await operator.get("/operations/failures/", correlation_id="label")
    assert [(each["service"], each["subject"], each["at"]) for each in found["failures"]] == [
        ("ingestion", "base", newer), ("runtime", "turn", older),
    ]  # fmt: skip
    assert found["failures"][0]["cause"] == "KeyError at services.runtime.x:7"
    assert found["unreachable"] == ["registry"]
    await company.get("/operations/failures/", 403)


async def test_lag_is_for_operators_only(public: Gateway, operator: Caller, company: Caller) -> None:
    partitions = (PartitionLag(0, 4, 10, 6), PartitionLag(1, None, 3, 3))
    public.groups.found = [GroupLag("runtime-commands", "runtime-commands", "Stable", 2, partitions)]

    found = await operator.get("/operations/consumers/")
    [group] = found["consumers"]
    assert (found["lag"], group["lag"], group["members"], group["state"]) == (9, 9, 2, "Stable")
    assert group["partitions"][1] == {"partition": 1, "committed": None, "end": 3, "lag": 3}
    await company.get("/operations/consumers/", 403)


async def test_an_outage_of_kafka_is_told_without_its_address_and_is_not_kept(
    public: Gateway, operator: Caller
) -> None:
    letter = public.dead_letters.add()
    public.groups.down = public.dead_letters.down = True

    for path in ("/operations/consumers/", LETTERS, f"{LETTERS}{letter}/"):
        problem = await operator.get(path, 503)
        assert problem["type"] == "service_unavailable"
        assert "kafka-1" not in problem["message"]
    await operator.post(f"{LETTERS}{letter}/replay/", 503)

    public.groups.down = public.dead_letters.down = False
    await operator.get("/operations/consumers/")
    assert await operator.ids() == [letter]


async def test_a_company_sees_its_own_letters_and_no_others(
    public: Gateway, operator: Caller, company: Caller, other: Caller
) -> None:
    own = public.dead_letters.add()
    others = public.dead_letters.add(company="company-2", minute=1)
    nobodys = public.dead_letters.add(company=None, minute=2)

    assert await operator.ids() == [nobodys, others, own]
    assert await company.ids() == [own]
    assert await other.ids() == [others]
    assert (await company.get(LETTERS))["topics"] == []
    assert (await operator.get(LETTERS))["topics"] == [{"topic": EVENTS, "letters": 3, "not_replayed": 3}]

    for hidden in (others, nobodys, f"{EVENTS}.99", "no-such-topic.0", "nonsense"):
        absent = await company.get(f"{LETTERS}{hidden}/", 404)
        refused = await company.post(f"{LETTERS}{hidden}/replay/", 404)
        assert absent["message"] == refused["message"] == "There is no dead-lettered message with this ID."
    assert public.dead_letters.sent == []


async def test_pages_are_newest_first_over_all_topics_and_lose_nothing(public: Gateway, operator: Caller) -> None:
    minutes = {EVENTS: range(0, 120, 2), COMMANDS: range(1, 61)}
    made = {public.dead_letters.add(topic, minute=at): at for topic, each in minutes.items() for at in each}

    found: list[str] = []
    page = await operator.get(LETTERS, limit=7)
    while True:
        assert len(page["dead_letters"]) <= 7
        found += [each["id"] for each in page["dead_letters"]]
        if not page["has_more"]:
            assert page["next"] is None
            break
        page = await operator.get(LETTERS, limit=7, after=page["next"])

    assert sorted(found) == sorted(made)
    assert [made[each] for each in found] == sorted(made.values(), reverse=True)


async def test_letters_that_come_meanwhile_move_no_page(public: Gateway, operator: Caller) -> None:
    ids = [public.dead_letters.add(minute=at) for at in range(4)]
    first = await operator.get(LETTERS, limit=2)
    public.dead_letters.add(minute=9)
    public.dead_letters.add(COMMANDS, minute=9)

    assert await operator.ids(limit=2, after=first["next"]) == [ids[1], ids[0]]


async def test_filters(public: Gateway, operator: Caller) -> None:
    one = public.dead_letters.add(ce_correlationid="one")
    two = public.dead_letters.add(COMMANDS, minute=1, ce_correlationid="two")
    public.dead_letters.replayed[EVENTS] = ReplayOffsets(1)

    assert await operator.ids(topic=COMMANDS) == [two]
    assert await operator.ids(correlation_id="one") == [one]
    assert await operator.ids(replayed="true") == [one]
    assert await operator.ids(replayed="false") == [two]
    for params in ({"topic": "runtime-events"}, {"replayed": "maybe"}, {"after": "!"}, {"after": "e30x"}, {"page": 1}):
        await operator.get(LETTERS, 422, **params)


async def test_a_page_reads_a_bounded_part_of_the_topics(public: Gateway, company: Caller) -> None:
    own = public.dead_letters.add()
    for at in range(MOST_EXAMINED + 100):
        public.dead_letters.add(company="company-2", minute=at + 1)

    first = await company.get(LETTERS)
    assert (first["dead_letters"], first["has_more"]) == ([], True)
    assert sum(end - begin for _, begin, end in public.dead_letters.reads) <= MOST_EXAMINED + 25
    assert await company.ids(after=first["next"]) == [own]


async def test_a_page_ends_in_time(public: Gateway, operator: Caller) -> None:
    ids = [public.dead_letters.add(minute=at) for at in range(60)]
    public.dead_letters.before_read = lambda: public.clock.advance(4)

    page = await operator.get(LETTERS, limit=60)
    assert 0 < len(page["dead_letters"]) < 60
    public.dead_letters.before_read = lambda: None
    rest = await operator.ids(limit=60, after=page["next"])
    assert [each["id"] for each in page["dead_letters"]] + rest == ids[::-1]


async def test_the_cause_is_a_code_and_a_message(public: Gateway, operator: Caller) -> None:
    public.dead_letters.add(reason="OperationalError('disk full')")
    public.dead_letters.add(reason="the header ce_id is missing", minute=1)

    poison, failed = (await operator.get(LETTERS))["dead_letters"]
    assert failed["cause"] == {"code": "OperationalError", "message": "disk full"}
    assert poison["cause"] == {"code": "poison_message", "message": "the header ce_id is missing"}
    assert (failed["attempts"], failed["source_topic"], failed["consumer"]) == (3, "runtime-events", "artifacts")


async def test_secrets_are_never_shown(public: Gateway, operator: Caller) -> None:
    secret = "aes_" + "x" * 43
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
    payload = {
        "ciphertext": "c1phertext",
        "headers": {"X-Whatever": "h1dden"},
        "toolset": {"url": "https://ada:p4ss@tools.example/?api_key=k3y&page=2", "apiKey": "k3y"},
        "content": f"my key is {secret} and Bearer {token}",
        "secret_id": "kept",
        "usage": {"input_tokens": 5},
    }
    letter = public.dead_letters.add(
        payload=payload,
        reason=f"ValueError('cannot use {secret}')",
        ce_identity="s1gned.identity",
        authorization=f"Bearer {token}",
    )

    shown = json.dumps([await operator.get(f"{LETTERS}{letter}/"), await operator.get(LETTERS)])
    for hidden in (secret, token, "c1phertext", "h1dden", "p4ss", "k3y", "s1gned"):
        assert hidden not in shown
    value = (await operator.get(f"{LETTERS}{letter}/"))["payload"]["value"]
    assert (value["secret_id"], value["usage"]) == ("kept", {"input_tokens": 5})
    assert value["toolset"]["url"].endswith("&page=2")


@pytest.mark.parametrize(
    ("payload", "headers", "note"),
    [
        (b"password=secret", {}, "The payload isn't JSON."),
        (b'"' + b"x" * 300_000 + b'"', {}, "larger than"),
        (b"", {"dlq_omitted_bytes": "2000000"}, "too large for the dead-letter topic"),
    ],
)
async def test_a_payload_that_is_not_shown_says_why(
    public: Gateway, operator: Caller, payload: bytes, headers: dict[str, str], note: str
) -> None:
    letter = public.dead_letters.add(payload=payload, **headers)

    shown = (await operator.get(f"{LETTERS}{letter}/"))["payload"]
    assert (shown["value"], note in shown["note"]) == (None, True)


async def test_a_letter_is_replayed_once_however_often_it_is_asked_for(public: Gateway, company: Caller) -> None:
    letter = public.dead_letters.add()
    path = f"{LETTERS}{letter}/replay/"

    answers = await asyncio.gather(*(company.post(path) for _ in range(5)))

    assert sorted(each["repeated"] for each in answers) == [False, True, True, True, True]
    assert {each["dead_letter"]["replayed"] for each in answers} == {True}
    assert public.dead_letters.sent == [("runtime-events", 0)]
    assert (await company.get(f"{LETTERS}{letter}/"))["replayed"] is True


async def test_an_operator_replays_letters_of_any_company(public: Gateway, operator: Caller) -> None:
    for company in ("company-2", None):
        letter = public.dead_letters.add(company=company)
        assert (await operator.post(f"{LETTERS}{letter}/replay/"))["repeated"] is False
    assert len(public.dead_letters.sent) == 2


async def test_a_letter_that_has_to_stay_is_a_conflict_that_says_why(public: Gateway, operator: Caller) -> None:
    letter = public.dead_letters.add()
    public.dead_letters.refusals[(EVENTS, 0)] = "The message is more than 7 days old."

    assert (await operator.post(f"{LETTERS}{letter}/replay/", 409))["message"] == "The message is more than 7 days old."
    assert (await operator.get(LETTERS))["dead_letters"][0]["replayed"] is False


async def test_another_replay_of_the_topic_is_waited_for_a_few_times(public: Gateway) -> None:
    letter = public.dead_letters.add()
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    identity = Identity(company_id="c", user_id="u", key_id="k", scopes=OPERATOR_SCOPES)
    letters = VisibleDeadLetters(public.dead_letters.open, public.clock.monotonic, RetryPolicy(attempts=3, sleep=sleep))
    public.dead_letters.overtaken = 3
    with pytest.raises(ReplayOvertaken):
        await letters.replay(identity, letter)
    public.dead_letters.overtaken = 2
    assert (await letters.replay(identity, letter)).repeated is False
    assert len(slept) == 4


class Programs:
    """Answers for several services, by the first name of the path."""

    def __init__(self) -> None:
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        match request.match_info["name"]:
            case "good":
                return web.json_response({"service": "runtime", "version": "0.1.0", "status": "ready", "checks": {}})
            case "waiting":
                checks = {"started": "ok", "database": "OperationalError('postgresql://gateway:p4ss@db/gateway')"}
                body = {"service": "runtime", "version": "0.1.0", "status": "not ready", "checks": checks}
                return web.json_response(body, status=503)
            case "other":
                return web.json_response({"service": "registry", "status": "ready"})
            case "page":
                return web.Response(text="<html>")
            case _:
                await asyncio.Event().wait()
                raise AssertionError


@pytest.fixture
async def programs() -> AsyncIterator[Programs]:
    found = Programs()
    application = web.Application()
    application.router.add_get("/{name}/health/ready", found.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield found
    await runner.cleanup()


async def test_each_process_is_judged_by_its_own_answer(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_http, "_ANSWER_SECONDS", WITHIN)
    names = ("good", "waiting", "other", "page")
    with socket.socket() as taken:
        # Bound, and nobody listens: no other program gets the port meanwhile.
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
        addresses = [*(("runtime", f"{programs.url}/{name}") for name in names), ("runtime", nobody)]
        good, waiting, other, page, absent = (await read_replicas(addresses))["runtime"]

    assert (good.status, good.version, good.reason) == ("ready", "0.1.0", "")
    assert (waiting.status, waiting.reason.startswith("database: ")) == ("not ready", True)
    assert "p4ss" not in waiting.reason
    assert [each.status for each in (other, page, absent)] == ["unreachable"] * 3
    assert other.reason == "another program responds at this address"


async def test_a_process_that_is_too_slow_is_not_waited_for(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_http, "_ANSWER_SECONDS", 0.1)
    (slow,) = (await read_replicas([("runtime", f"{programs.url}/slow")]))["runtime"]
    assert (slow.status, slow.reason) == ("unreachable", "it didn't respond in time")


async def test_a_name_with_several_addresses_is_asked_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolved(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", (host, 8000)) for host in ("10.1.0.2", "10.1.0.1", "10.1.0.2")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolved)
    assert await health_http._targets("http://runtime:8000") == ["http://10.1.0.1:8000", "http://10.1.0.2:8000"]
    assert await health_http._targets("https://runtime:8000") == ["https://runtime:8000"]
