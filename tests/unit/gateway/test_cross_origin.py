"""CORS: origins that may read answers, and preflight requests."""

from typing import Any

import psycopg
import pytest

from libs.contracts.identifiers import new_id
from tests.support.gateway import Gateway, error_of
from tests.support.public_agents import ELSEWHERE, SHOP, connect, open_to_the_public

CONSOLE = "https://console.example"


async def preflight(public: Gateway, path: str, origin: str, method: str = "POST") -> Any:
    public.client.headers.pop("x-api-key", None)
    headers = {"Origin": origin, "Access-Control-Request-Method": method}
    return await public.client.options(path, headers=headers)


async def test_a_preflight_for_an_origin_of_the_key_is_answered(public: Gateway) -> None:
    connection = await connect(public)
    open_to_the_public(public)
    for key in (f"connection_key={connection.key}", "agent_key=support"):
        answer = await preflight(public, f"/sessions/?{key}", SHOP)
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers["access-control-allow-origin"] == SHOP
        assert answer.headers["access-control-allow-methods"] == "POST"
        assert "Content-Type" in answer.headers["access-control-allow-headers"]
        assert answer.headers["vary"] == "Origin"


async def test_a_preflight_for_a_configured_origin_is_answered(public: Gateway) -> None:
    answer = await preflight(public, "/sessions/", CONSOLE)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-methods"] == "GET, HEAD, POST"
    assert "X-API-Key" in answer.headers["access-control-allow-headers"]


async def test_other_origins_are_told_nothing(public: Gateway) -> None:
    for with_key in [True, False]:
        for origin in [ELSEWHERE, "null", "https://console.example.evil.example", ""]:
            key = f"?connection_key={(await connect(public)).key}" if with_key else ""
            answer = await preflight(public, f"/sessions/{key}", origin)
            assert (answer.status_code, error_of(answer)["type"]) == (405, "method_not_allowed")
            assert not [name for name in answer.headers if name.startswith("access-control-")]


async def test_a_key_that_is_none_opens_nothing(public: Gateway) -> None:
    for key in (f"connection_key=pub_{'a' * 32}", "agent_key=unknown", "agent_key=a&connection_key=b"):
        answer = await preflight(public, f"/sessions/?{key}", SHOP)
        assert "access-control-allow-origin" not in answer.headers


async def test_paths_that_public_keys_cannot_use_are_refused(public: Gateway) -> None:
    connection = await connect(public)
    answer = await preflight(public, f"/files/?connection_key={connection.key}", SHOP, "GET")
    assert (answer.status_code, error_of(answer)["type"]) == (403, "permission_error")
    assert (await preflight(public, "/nothing/", CONSOLE)).status_code == 404


async def test_answers_can_be_read_by_configured_origins_errors_as_well(public: Gateway) -> None:
    for path, status in (("/me/", 200), ("/nothing/", 404), ("/api-keys/?limit=x", 422)):
        answer = await public.client.get(path, headers={"Origin": CONSOLE})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (status, CONSOLE)
        assert "X-Correlation-ID" in answer.headers["access-control-expose-headers"]
    other = await public.client.get("/me/", headers={"Origin": ELSEWHERE})
    assert (other.status_code, "access-control-allow-origin" in other.headers) == (200, False)


async def test_caches_are_told_that_answers_depend_on_the_origin(public: Gateway) -> None:
    for origin in (CONSOLE, ELSEWHERE, None):
        headers = {} if origin is None else {"Origin": origin}
        for path in ("/me/", "/nothing/", "/docs/"):
            assert (await public.client.get(path, headers=headers)).headers["vary"] == "Origin"


async def test_bytes_behind_a_link_can_be_read_by_configured_origins_and_those_of_a_public_key(
    public: Gateway,
) -> None:
    artifact_id = new_id()
    path = f"/internal/artifact-links/{artifact_id}"
    public.upstreams.answers["GET", "artifacts", f"{path}?expires=1&signature=s"] = (200, "bytes")
    public.client.headers.pop("x-api-key")
    link = f"/artifacts/{artifact_id}/content/?expires=1&signature=s"
    key = f"&connection_key={(await connect(public)).key}"
    for origin, added, told in (
        (CONSOLE, "", CONSOLE), (SHOP, "", None), (SHOP, key, SHOP), (ELSEWHERE, key, None),
    ):  # fmt: skip
        answer = await public.client.get(link + added, headers={"Origin": origin})
        assert (answer.status_code, answer.headers.get("access-control-allow-origin")) == (200, told)


def failing(problem: Exception) -> Any:
    async def fail(_: str) -> None:
        raise problem

    return fail


async def test_an_outage_of_the_look_up_can_be_read_as_one(public: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    public.client.headers.pop("x-api-key")
    public.upstreams.down = True
    away = await public.client.get("/me/?agent_key=support", headers={"Origin": SHOP})
    assert (away.status_code, error_of(away)["type"]) == (503, "service_unavailable")

    for problem, status in ((psycopg.OperationalError("away"), 503), (RuntimeError("a mistake"), 500)):
        monkeypatch.setattr(public.connections, "by_key", failing(problem))
        answer = await public.client.get(f"/me/?connection_key=pub_{'a' * 32}", headers={"Origin": SHOP})
        assert answer.status_code == status
        for each in (away, answer):
            assert each.headers["access-control-allow-origin"] == SHOP
            assert "Retry-After" in each.headers["access-control-expose-headers"]
            assert each.headers["vary"] == "Origin"
