"""Bearer tokens: their scopes and expiry."""

from datetime import timedelta
from typing import Any

import jwt
import pytest

from libs.contracts.errors import AuthenticationFailed
from libs.eventing import IdentitySigner
from services.gateway.domain.accounts import TokenGrant
from services.gateway.domain.tokens import JwtTokens
from services.gateway.use_cases.principals import Principals
from tests.support.gateway import Gateway, error_of

SIGNING_KEY = "k" * 40


async def make(public: Gateway, secret: str | None = None, **body: Any) -> Any:
    headers = {} if secret is None else {"x-api-key": secret}
    return await public.client.post("/auth/token/", json=body, headers=headers)


def principals(public: Gateway) -> Principals:
    return Principals(
        public.keys,
        public.connections,
        JwtTokens(SIGNING_KEY),
        public.upstreams,
        fresh=public.bus.fresh,
        now=public.clock.now,
        monotonic=lambda: 0.0,
    )


async def test_a_key_is_exchanged_for_a_token_of_an_hour(public: Gateway) -> None:
    made = await public.client.post("/auth/token/")
    assert made.status_code == 200
    assert made.headers["cache-control"] == "no-store"
    assert (made.json()["token_type"], made.json()["expires_in"]) == ("Bearer", 3600)
    assert made.json()["expires_at"] == "2030-01-01T01:00:00.000000Z"
    assert made.json()["scopes"] == sorted(public.key.scopes)
    principal = await principals(public).by_token(made.json()["access_token"])
    assert (principal.identity.user_id, principal.identity.key_id) == ("user-1", public.key.id)
    assert principal.rate_limit == public.key.rate_limit


async def test_what_makes_no_sense_is_refused(public: Gateway) -> None:
    for body in [{"expires_in": 3601}, {"expires_in": 59}, {"scopes": []}, {"scopes": ["x"]}, {"a": 1}]:
        refused = await make(public, **body)
        assert (refused.status_code, error_of(refused)["type"]) == (422, "validation_error")


async def test_a_token_has_no_scope_that_its_key_lacks(public: Gateway) -> None:
    secret, key = public.keys.issue(scopes=frozenset({"artifacts:read", "agents:read"}))
    refused = await make(public, secret, scopes=["artifacts:write"])
    assert (refused.status_code, error_of(refused)["type"]) == (403, "permission_error")
    token = (await make(public, secret, scopes=["artifacts:read"])).json()["access_token"]
    assert (await principals(public).by_token(token)).identity.scopes == {"artifacts:read"}
    public.keys.change(key.id, scopes=frozenset({"agents:read"}))
    assert (await principals(public).by_token(token)).identity.scopes == frozenset()


async def test_a_token_ends_in_time_and_with_its_key(public: Gateway) -> None:
    secret, key = public.keys.issue(expires_at=public.clock.now() + timedelta(minutes=10))
    made = (await make(public, secret)).json()
    assert made["expires_in"] == 600
    short = (await make(public, secret, expires_in=60)).json()["access_token"]
    public.clock.advance(60)
    assert "expired" in await refusal(public, short)
    public.keys.change(key.id, revoked_at=public.clock.now())
    assert "revoked" in await refusal(public, made["access_token"])


async def test_a_revocation_that_is_heard_of_ends_tokens_at_once(public: Gateway) -> None:
    secret, key = public.keys.issue()
    token = (await make(public, secret)).json()["access_token"]
    known = principals(public)
    await known.by_token(token)
    public.keys.change(key.id, revoked_at=public.clock.now())
    await known.by_token(token)
    known.forget(key.id)
    with pytest.raises(AuthenticationFailed, match="revoked"):
        await known.by_token(token)


async def test_a_token_of_somebody_elses_making_is_none(public: Gateway) -> None:
    grant = TokenGrant(
        key_id=public.key.id, scopes=frozenset({"artifacts:read"}), expires_at=public.clock.now() + timedelta(hours=1)
    )
    good = JwtTokens(SIGNING_KEY).encode(grant)
    head, claims, signature = good.split(".")
    unsigned = jwt.encode({"kid": public.key.id, "scopes": [], "exp": 2_000_000_000}, "", algorithm="none")
    plain = jwt.encode({"kid": public.key.id, "scopes": [], "exp": 2_000_000_000}, SIGNING_KEY, algorithm="HS256")
    identity = (await principals(public).by_token(good)).identity
    internal = IdentitySigner(SIGNING_KEY).sign(identity, expires_at=2_000_000_000)
    for bad in ("", "x", good[:-2], f"{head}.{claims}.", f"{head}.{claims}A.{signature}", unsigned, plain, internal):
        assert "Invalid" in await refusal(public, bad)
    with pytest.raises(AuthenticationFailed):
        IdentitySigner(SIGNING_KEY).verify_call(good)


async def test_a_token_made_with_a_token_gives_neither_more_time_nor_more_rights(public: Gateway) -> None:
    first = (await make(public, scopes=["events:read", "keys:read"], expires_in=600)).json()
    public.client.headers.pop("x-api-key")
    headers = {"Authorization": f"Bearer {first['access_token']}"}
    public.clock.advance(300)
    second = (await public.client.post("/auth/token/", headers=headers)).json()
    assert (second["expires_at"], second["scopes"]) == (first["expires_at"], first["scopes"])
    refused = await public.client.post("/auth/token/", json={"scopes": ["runtime:execute"]}, headers=headers)
    assert (refused.status_code, error_of(refused)["type"]) == (403, "permission_error")


async def test_what_is_no_token_is_refused(public: Gateway) -> None:
    public.client.headers.pop("x-api-key")
    for presented in ["Bearer", "Bearer ", "bearer x", "Bearer a.b.c"]:
        refused = await public.client.get("/me/", headers={"Authorization": presented})
        assert (refused.status_code, error_of(refused)["type"]) == (401, "authentication_error")


async def test_a_key_of_another_service_is_said_to_be_one(public: Gateway) -> None:
    public.client.headers.pop("x-api-key")
    refused = await public.client.get("/me/", headers={"Authorization": "Bearer sk-proj-abc"})
    assert "it isn't an API key or token of this service" in error_of(refused)["message"]


async def test_tokens_keep_within_their_scopes_and_the_keys_rate_limit(public: Gateway) -> None:
    secret, key = public.keys.issue(scopes=frozenset({"artifacts:read"}), rate_limit=4)
    token = (await make(public, secret)).json()["access_token"]
    public.client.headers.pop("x-api-key")
    headers = {"Authorization": f"bearer {token}"}
    path = f"/sessions/{key.id}/artifacts/"
    public.upstreams.answers["GET", "artifacts", f"/internal{path.rstrip('/')}"] = (200, {"artifacts": []})
    assert (await public.client.get(path, headers=headers)).status_code == 200
    assert (public.upstreams.asked_as[0].key_id, public.upstreams.asked_as[0].scopes) == (key.id, {"artifacts:read"})
    refused = await public.client.post(path, files={"file": ("a.txt", b"x")}, headers=headers)
    assert (refused.status_code, error_of(refused)["type"]) == (403, "permission_error")
    statuses = [(await public.client.get(path, headers=headers)).status_code for _ in range(2)]
    assert statuses == [200, 429], "tokens share what their key allows"
    public.clock.advance(3600)
    expired = await public.client.get(path, headers=headers)
    assert (expired.status_code, "expired" in error_of(expired)["message"]) == (401, True)


async def refusal(public: Gateway, token: str) -> str:
    with pytest.raises(AuthenticationFailed) as caught:
        await principals(public).by_token(token)
    return caught.value.message
