"""Authentication with API keys, and the cache of keys."""

from datetime import timedelta

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


@pytest.mark.parametrize("secret", [None, "", "nonsense", "aes_short", new_secret().text, "aes_" + "é" * 43])
async def test_missing_and_unknown_keys_are_refused(public: Gateway, secret: str | None) -> None:
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


async def test_a_scope_that_is_missing_is_named(public: Gateway) -> None:
    secret, _ = public.keys.issue(scopes=frozenset({"sessions:read"}))
    response = await public.client.get("/agent/", headers={"x-api-key": secret})
    error = error_of(response)
    assert (response.status_code, error["type"]) == (403, "permission_error")
    assert "agents:read" in error["message"]


async def test_the_rate_limit_is_a_bucket_that_refills(public: Gateway) -> None:
    secret, _ = public.keys.issue(rate_limit=6)
    assert [await status_with(public, secret) for _ in range(7)] == [200] * 6 + [429]
    response = await public.client.get("/me/", headers={"x-api-key": secret})
    assert error_of(response)["type"] == "rate_limit_error"
    assert response.headers["retry-after"] == "10"
    public.clock.advance(10)
    assert [await status_with(public, secret) for _ in range(2)] == [200, 429]


async def test_a_key_without_a_limit_is_never_refused(public: Gateway) -> None:
    assert {(await public.client.get("/me/")).status_code for _ in range(700)} == {200}
