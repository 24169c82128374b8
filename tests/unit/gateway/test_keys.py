"""API keys: authentication, the cache of keys, and their life over HTTP within the rights of the maker."""

from datetime import timedelta
from typing import Any

import pytest

from services.gateway.domain.accounts import new_secret
from tests.support.gateway import Gateway, error_of


async def status_with(public: Gateway, secret: str | None, path: str = "/me/") -> int:
    public.client.headers.pop("x-api-key", None)
    headers = {} if secret is None else {"x-api-key": secret}
    return (await public.client.get(path, headers=headers)).status_code


async def message_with(public: Gateway, secret: str | None) -> str:
    public.client.headers.pop("x-api-key", None)
    response = await public.client.get("/me/", headers={} if secret is None else {"x-api-key": secret.encode()})
    error = error_of(response)
    assert (response.status_code, error["type"]) == (401, "authentication_error")
    return str(error["message"])


async def test_missing_and_unknown_keys_are_refused(public: Gateway) -> None:
    for secret in [None, "", "nonsense", "aes_short", new_secret().text, "aes_" + "é" * 43]:
        message = await message_with(public, secret)
        assert "expired" not in message
        assert "revoked" not in message


async def test_a_revoked_key_is_refused(public: Gateway) -> None:
    secret, _ = public.keys.issue(revoked_at=public.clock.now())
    assert "revoked" in await message_with(public, secret)


async def test_expiry_counts_at_every_request_also_of_a_cached_key(public: Gateway) -> None:
    secret, _ = public.keys.issue(expires_at=public.clock.now() + timedelta(seconds=10))
    assert await status_with(public, secret) == 200
    public.clock.advance(10)
    assert "expired" in await message_with(public, secret)
    assert public.keys.loads == 1


async def test_a_key_is_looked_up_once_in_thirty_seconds(public: Gateway) -> None:
    secret, _ = public.keys.issue()
    for _ in range(5):
        assert await status_with(public, secret) == 200
    assert public.keys.loads == 1
    public.clock.advance(30)
    assert await status_with(public, secret) == 200
    assert public.keys.loads == 2


async def test_an_unknown_key_is_looked_up_once_in_five_seconds_unless_there_is_news(public: Gateway) -> None:
    secret = new_secret().text
    for _ in range(5):
        assert await status_with(public, secret) == 401
    assert public.keys.loads == 1
    public.clock.advance(5)
    assert await status_with(public, secret) == 401
    assert public.keys.loads == 2
    public.api.credentials.changed("some agent")
    assert await status_with(public, secret) == 401
    assert public.keys.loads == 3


async def test_a_revocation_that_is_heard_of_takes_effect_at_once(public: Gateway) -> None:
    secret, key = public.keys.issue()
    assert await status_with(public, secret) == 200
    public.keys.change(key.id, revoked_at=public.clock.now())
    assert await status_with(public, secret) == 200
    public.api.credentials.revoked(key.id)
    assert await status_with(public, secret) == 401


async def test_what_was_looked_up_before_a_revocation_is_not_remembered(public: Gateway) -> None:
    secret, key = public.keys.issue()
    look_up = public.keys.find_by_digest

    async def overtaken(digest: bytes) -> object:
        found = await look_up(digest)
        public.keys.change(key.id, revoked_at=public.clock.now())
        public.api.credentials.revoked(key.id)
        return found

    public.keys.find_by_digest = overtaken  # type: ignore[method-assign, assignment]
    assert await status_with(public, secret) == 200
    public.keys.find_by_digest = look_up  # type: ignore[method-assign]
    assert await status_with(public, secret) == 401


@pytest.mark.rule(21)
async def test_without_news_from_the_bus_every_request_looks_the_key_up(public: Gateway) -> None:
    secret, key = public.keys.issue()
    assert await status_with(public, secret) == 200
    public.bus.is_fresh = False
    public.keys.change(key.id, revoked_at=public.clock.now())
    assert await status_with(public, secret) == 401


async def test_the_rate_limit_is_a_bucket_that_refills(public: Gateway) -> None:
    secret, _ = public.keys.issue(rate_limit=6)
    assert [await status_with(public, secret) for _ in range(7)] == [200] * 6 + [429]
    response = await public.client.get("/me/", headers={"x-api-key": secret})
    assert error_of(response)["type"] == "rate_limit_error"
    assert response.headers["retry-after"] == "10"
    public.clock.advance(10)
    assert [await status_with(public, secret) for _ in range(2)] == [200, 429]


async def make(public: Gateway, secret: str | None = None, **body: Any) -> Any:
    headers = {} if secret is None else {"x-api-key": secret}
    return await public.client.post("/api-keys/", json=body, headers=headers)


async def test_a_new_key_works_and_its_secret_is_shown_once(public: Gateway) -> None:
    made = await make(public, name="dashboard", scopes=["agents:read"])
    assert made.status_code == 201
    secret = made.json()["secret"]
    assert secret.startswith(made.json()["prefix"])
    me = await public.client.get("/me/", headers={"x-api-key": secret})
    assert me.json()["scopes"] == ["agents:read"]
    listed = await public.client.get("/api-keys/")
    assert listed.json()["total"] == 2
    assert secret not in listed.text


async def test_the_scope_that_was_meant_is_suggested(public: Gateway) -> None:
    [detail] = error_of(await make(public, scopes=["usage:reed"]))["details"]
    assert (detail["loc"], detail["message"]) == (["scopes", 0], "unknown scope")
    assert detail["hint"] == "did you mean 'usage:read'?"


async def test_a_key_cannot_have_scopes_that_its_maker_lacks(public: Gateway) -> None:
    secret, _ = public.keys.issue(scopes=frozenset({"keys:write", "agents:read"}))
    refused = await make(public, secret, scopes=["agents:read", "agents:write"])
    assert (refused.status_code, error_of(refused)["type"]) == (403, "permission_error")
    made = await make(public, secret)
    assert made.json()["scopes"] == ["agents:read", "keys:write"]


async def test_a_key_cannot_have_a_higher_rate_limit_than_its_maker(public: Gateway) -> None:
    secret, _ = public.keys.issue(rate_limit=100)
    assert (await make(public, secret, rate_limit=101)).status_code == 403
    assert (await make(public, secret, rate_limit=50)).json()["rate_limit"] == 50
    assert (await make(public, secret)).json()["rate_limit"] == 100


async def test_what_makes_no_sense_is_refused(public: Gateway) -> None:
    cases: list[Any] = [
        {"scopes": []},
        {"scopes": ["everything"]},
        {"expires_at": "2029-01-01T00:00:00Z"},
        {"expires_at": "9999-12-31T23:59:59-23:00"},
        {"expires_at": "2031-01-01T00:00:00"},
        {"expires_at": "soon"},
        {"rate_limit": 0},
        {"rate_limit": "10"},
        {"surprise": 1},
    ]
    for body in cases:
        refused = await make(public, **body)
        assert refused.status_code == 422
        assert error_of(refused)["details"][0]["loc"][0] == next(iter(body))


async def test_both_keys_are_valid_for_the_grace_period(public: Gateway) -> None:
    old_secret, old = public.keys.issue(expires_at=public.clock.now() + timedelta(days=30))
    rotated = await public.client.post(f"/api-keys/{old.id}/rotate/", json={"grace_seconds": 60})
    assert rotated.status_code == 201
    new_secret = rotated.json()["secret"]

    async def statuses() -> list[int]:
        secrets = (old_secret, new_secret)
        return [(await public.client.get("/me/", headers={"x-api-key": s})).status_code for s in secrets]

    assert await statuses() == [200, 200]
    public.clock.advance(60)
    assert await statuses() == [401, 200]
    again = await public.client.post(f"/api-keys/{old.id}/rotate/")
    assert (again.status_code, error_of(again)["type"]) == (409, "conflict_error")


async def test_a_key_with_more_scopes_cannot_be_rotated_into_ones_hands(public: Gateway) -> None:
    weak, _ = public.keys.issue(scopes=frozenset({"keys:write"}))
    _, strong = public.keys.issue()
    refused = await public.client.post(f"/api-keys/{strong.id}/rotate/", headers={"x-api-key": weak})
    assert refused.status_code == 403


async def test_a_revoked_key_stops_at_once_and_revoking_again_is_no_error(public: Gateway) -> None:
    secret, key = public.keys.issue()
    assert (await public.client.get("/me/", headers={"x-api-key": secret})).status_code == 200
    for _ in range(2):
        gone = await public.client.delete(f"/api-keys/{key.id}/")
        assert (gone.status_code, gone.content) == (204, b"")
    assert (await public.client.get("/me/", headers={"x-api-key": secret})).status_code == 401
