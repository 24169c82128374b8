"""Conventions of every path: slashes, unknown paths, correlation ids, bodies, pages."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from pydantic import TypeAdapter, ValidationError

from libs.contracts.identifiers import new_id
from services.gateway.entrypoints.door.bodies import MAX_BODY, MAX_DRAIN
from services.gateway.entrypoints.openai.vector_store_bodies import Nothing
from tests.support.bad_bodies import INVALID, JSON, MALFORMED_JSON, MALFORMED_YAML, WRONG, YAML
from tests.support.declared_operations import OPERATIONS
from tests.support.gateway import Gateway, error_of

EXECUTE = f"/runtime/{new_id()}/execute/"


async def test_unknown_paths_are_not_found(public: Gateway) -> None:
    for path in ["/nothing/", "/agent/a/b/c/d/", "/", "//", "/agent//versions/", "/docs/assets/no.js"]:
        response = await public.client.get(f"http://gateway/api/v1{path}")
        assert (response.status_code, error_of(response)["type"]) == (404, "not_found_error")


async def test_only_this_version_is_served(public: Gateway) -> None:
    for url in ["/api/v10/me/", "/api/v1me/", "/api/v1", "/api/v10/me"]:
        response = await public.client.get(f"http://gateway{url}")
        assert (response.status_code, error_of(response)["type"]) == (404, "not_found_error")


async def test_a_method_that_a_path_lacks_is_named(public: Gateway) -> None:
    response = await public.client.put("/agent/")
    assert (response.status_code, error_of(response)["type"]) == (405, "method_not_allowed")
    assert response.headers["allow"] == "GET, HEAD, POST"


async def test_a_read_needs_no_slash(public: Gateway) -> None:
    for path in ["/me", "/api-keys", "/webhooks?limit=1", "/agent?limit=0", f"/webhooks/{new_id()}"]:
        for method in ["GET", "HEAD"]:
            address, mark, query = path.partition("?")
            bare = await public.client.request(method, path, headers={"X-Correlation-ID": "same"})
            slashed = await public.client.request(
                method, f"{address}/{mark}{query}", headers={"X-Correlation-ID": "same"}
            )
            assert (bare.status_code, bare.content) == (slashed.status_code, slashed.content)
            assert bare.headers == slashed.headers


async def test_no_read_is_redirected_or_unknown_without_its_slash(public: Gateway) -> None:
    paths = [each.route.path_format.removeprefix("/api/v1") for each in OPERATIONS if each.method == "GET"]
    assert len(paths) > 40
    for path in paths:
        bare = path.rstrip("/").translate({ord(bracket): None for bracket in "{}"})
        # A key that is refused ends each request before anything is streamed.
        found = await public.client.get(bare, headers={"X-API-Key": "none"})
        assert found.status_code == (404 if path == "/artifacts/{id}/content/" else 401), path
        assert "nothing at this path" not in found.text, path


async def test_the_reference_without_its_slash_finds_its_assets(public: Gateway) -> None:
    assert '<base href="docs/">' in (await public.client.get("/docs")).text
    assert "<base" not in (await public.client.get("/docs/")).text


async def test_a_missing_slash_is_added_by_a_redirect_that_keeps_the_method(public: Gateway) -> None:
    for path in ["/me", "/docs", f"/agent/{new_id()}"]:
        response = await public.client.post(f"{path}?limit=1")
        assert response.status_code == 308
        assert response.headers["location"] == f"/api/v1{path}/?limit=1"
        assert f"Send the request to /api/v1{path}/?limit=1." in response.json()["message"]


async def test_a_correlation_id_comes_back_and_one_is_made_when_absent(public: Gateway) -> None:
    given = await public.client.get("/me/", headers={"X-Correlation-ID": "order.47:11_a-b"})
    assert given.headers["x-correlation-id"] == "order.47:11_a-b"
    made = [(await public.client.get("/me/")).headers["x-correlation-id"] for _ in range(2)]
    assert made[0] != made[1]


async def test_a_bad_correlation_id_is_refused(public: Gateway) -> None:
    for label in ["", "a b", "x" * 129, "ümlaut", "a/b"]:
        response = await public.client.get("/me/", headers={"X-Correlation-ID": label.encode()})
        assert (response.status_code, error_of(response)["type"]) == (400, "invalid_request_error")


async def test_a_body_that_cannot_be_read_is_refused(public: Gateway) -> None:
    for media_type, faults in ((JSON, MALFORMED_JSON), (YAML, MALFORMED_YAML)):
        for name, (content, expected) in faults.items():
            response = await public.client.post(EXECUTE, content=content, headers={"Content-Type": media_type})
            assert (response.status_code, error_of(response)["type"]) == expected, (media_type, name)
    assert public.bus.sent == []


async def test_a_message_that_makes_no_sense_is_refused(public: Gateway) -> None:
    for name, body in WRONG.items():
        # JSON is YAML, too.
        for media_type in (JSON, YAML):
            headers = {"Content-Type": media_type}
            response = await public.client.post(EXECUTE, content=orjson.dumps(body), headers=headers)
            assert (response.status_code, error_of(response)["type"]) == INVALID, (media_type, name)
            assert error_of(response)["details"]
    assert public.bus.sent == []


async def test_a_body_that_does_not_say_how_long_it_is_is_stopped_while_it_streams_in(public: Gateway) -> None:
    sent = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(10_000):
            sent += 16_384
            yield b"x" * 16_384

    response = await public.client.post("/agent/", content=pieces(), headers={"Content-Type": "application/json"})
    assert (response.status_code, error_of(response)["type"]) == (413, "request_too_large")
    assert response.headers["connection"] == "close"
    assert MAX_BODY < sent < MAX_BODY + MAX_DRAIN + 1_000_000


async def test_every_finding_is_told_with_its_place(public: Gateway) -> None:
    body: dict[str, Any] = {
        "agent_type": "wizard",
        "sytem_prompt": "typo",
        "llm_config": {"temperature": "hot"},
        "tools": ["ok", 5],
    }
    response = await public.client.post("/agent/", json=body)
    details = {tuple(detail["loc"]): detail for detail in error_of(response)["details"]}
    assert set(details) == {
        ("name",),
        ("agent_type",),
        ("sytem_prompt",),
        ("llm_config", "temperature"),
        ("tools", 1),
    }
    assert details["sytem_prompt",]["hint"] == "did you mean 'system_prompt'?"
    assert all({"loc", "type", "message", "hint"} == set(detail) for detail in details.values())


async def test_an_owner_that_is_down_is_unavailable(public: Gateway) -> None:
    public.upstreams.down = True
    response = await public.client.get("/models/")
    assert (response.status_code, error_of(response)["type"]) == (503, "service_unavailable")
    assert int(response.headers["retry-after"]) > 0


async def test_an_error_nobody_expected_has_the_shape_of_errors_and_tells_nothing(public: Gateway) -> None:
    async def broken(_: bytes) -> None:
        raise ZeroDivisionError("secret detail")

    public.keys.find_by_digest = broken  # type: ignore[method-assign, assignment]
    response = await public.client.get("/me/")
    assert (response.status_code, error_of(response)["type"]) == (500, "internal_error")
    assert "secret detail" not in response.text


async def test_agents_come_as_an_array_whole_or_by_pages(public: Gateway) -> None:
    route = ("GET", "registry", "/internal/agents")
    public.upstreams.answers[route] = (200, [{"id": "a"}, {"id": "b"}, {"id": "c"}])
    whole = await public.client.get("/agent/")
    assert (len(whole.json()), "link" in whole.headers, public.upstreams.asked[-1][3]) == (3, False, None)
    page = await public.client.get("/agent/?limit=2&offset=4")
    assert page.json() == [{"id": "a"}, {"id": "b"}]
    assert page.headers["link"] == '</api/v1/agent/?limit=2&offset=6>; rel="next"'
    assert public.upstreams.asked[-1][3] == {"limit": 3, "offset": 4}
    last = await public.client.get("/agent/?limit=3")
    assert (len(last.json()), "link" in last.headers) == (3, False)
    for wrong in ("limit=0", "limit=201", "limit=x", "after=x"):
        assert (await public.client.get(f"/agent/?{wrong}")).status_code == 422


async def test_attributes_that_are_not_kept_are_refused_in_words() -> None:
    with pytest.raises(ValidationError, match="aren't supported; omit them"):
        TypeAdapter(Nothing).validate_python({"colour": "red"})
    assert TypeAdapter(Nothing).validate_python({}) == {}


async def test_an_answer_ends_with_a_line_break(public: Gateway) -> None:
    for path in ["/me/", "/nothing/", "/agent/?limit=x", "/webhooks/"]:
        answer = await public.client.get(path)
        assert answer.content.endswith(b"}\n")
        assert int(answer.headers["content-length"]) == len(answer.content)
