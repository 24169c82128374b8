"""Webhooks over HTTP: made, listed, changed, deleted, tested, delivered again, within the rights of the caller."""

from dataclasses import replace
from typing import Any

import pytest

from libs.contracts.error_catalogue import DisabledReason
from libs.contracts.messages import public_name
from libs.outbound import AddressRefused, UnusableUrl
from services.timeline.domain.deliveries import DeliveryStatus
from tests.support.gateway import Gateway, error_of, gateway
from tests.support.timeline_service import TimelineService
from tests.support.webhook_fakes import CIPHER

URL = "https://example.com/hooks"


async def make(public: Gateway, secret: str | None = None, **body: Any) -> Any:
    headers = {} if secret is None else {"x-api-key": secret}
    return await public.client.post("/webhooks/", json={"url": URL, "event_types": ["turn.*"], **body}, headers=headers)


def emitted(public: Gateway) -> list[str]:
    timeline = public.bus.owners["timeline"]
    assert isinstance(timeline, TimelineService)
    return [public_name(event.TYPE).removeprefix("webhook.") for event in timeline.events]


async def test_a_webhook_is_made_and_its_secret_shown_once(public: Gateway) -> None:
    made = await make(public, event_types=["turn.completed", "knowledge_base.*", "turn.completed"], description="CRM")
    shown = made.json()
    assert made.status_code == 201
    assert made.headers["location"] == f"/api/v1/webhooks/{shown['id']}/"
    assert made.headers["cache-control"] == "no-store"
    secret = shown.pop("secret")
    assert secret.startswith("whsec_")
    assert (shown["status"], shown["disabled_reason"], shown["company_wide"]) == ("enabled", None, True)
    assert shown["event_types"] == ["turn.completed", "knowledge_base.*"]
    assert (await public.client.get(f"/webhooks/{shown['id']}/")).json() == shown
    listed = (await public.client.get("/webhooks/")).json()
    assert listed == {
        "webhooks": [shown],
        "total": 1,
        "total_is_exact": True,
        "has_more": False,
        "next": None,
    }
    (stored,) = public.webhooks.rows[shown["id"]].secrets
    assert CIPHER.decrypt(stored.ciphertext, context=stored.context) == secret


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("url", ""),
        ("url", "https://10.0.0.1/"),
        ("event_types", []),
        ("event_types", ["turn.complete"]),
        ("event_types", ["*.completed"]),
        ("event_types", ["nothing.*"]),
        ("event_types", ["turn.output_text.delta"]),
        ("status", "paused"),
        ("description", "x" * 1001),
        ("surprise", 1),
    ],
)
async def test_what_makes_no_sense_is_refused(public: Gateway, field: str, value: Any) -> None:
    public.endpoints.refused["https://10.0.0.1/"] = AddressRefused("the host resolves to an address that isn't public")
    refused = await make(public, **{field: value})
    assert (refused.status_code, error_of(refused)["type"]) == (422, "validation_error")
    assert error_of(refused)["details"][0]["loc"][0] == field
    made = (await make(public)).json()
    if field != "surprise":
        changed = await public.client.patch(f"/webhooks/{made['id']}/", json={field: value})
        assert (changed.status_code, error_of(changed)["details"][0]["loc"][0]) == (422, field)


async def test_without_a_key_for_secrets_none_is_made() -> None:
    async with gateway(cipher=None) as public:
        refused = await make(public)
        assert (refused.status_code, error_of(refused)["type"]) == (503, "service_unavailable")
        assert "AES_SECRETS_KEY" in error_of(refused)["message"]
        assert (await public.client.get("/webhooks/")).json()["total"] == 0


async def test_a_webhook_is_changed_paused_and_deleted(public: Gateway) -> None:
    made = (await make(public)).json()
    path = f"/webhooks/{made['id']}/"
    public.clock.advance(1)
    paused = (await public.client.patch(path, json={"status": "disabled", "event_types": ["*"]})).json()
    assert (paused["status"], paused["disabled_reason"], paused["event_types"]) == ("disabled", "requested", ["*"])
    assert paused["updated_at"] > made["updated_at"]
    assert (await public.client.post(f"{path}test/")).status_code == 409
    again = (await public.client.patch(path, json={"status": "enabled", "url": "https://example.com/b"})).json()
    assert (again["status"], again["disabled_reason"], again["url"]) == ("enabled", None, "https://example.com/b")
    gone = await public.client.delete(path)
    assert (gone.status_code, gone.content) == (204, b"")
    for method in ("GET", "PATCH", "DELETE"):
        body = {"json": {}} if method == "PATCH" else {}
        assert (await public.client.request(method, path, **body)).status_code == 404  # type: ignore[arg-type]
    assert emitted(public) == ["created", "updated", "disabled", "updated", "deleted"]


async def test_a_webhook_says_since_when_its_deliveries_fail(public: Gateway) -> None:
    made = (await make(public)).json()
    row, path = public.webhooks.rows[made["id"]], f"/webhooks/{made['id']}/"
    assert made["failing_since"] is None
    row.webhook = replace(row.webhook, failing_since=row.webhook.created_at)
    (listed,) = (await public.client.get("/webhooks/")).json()["webhooks"]
    assert listed["failing_since"] == made["created_at"]
    paused = (await public.client.patch(path, json={"status": "disabled"})).json()
    assert paused["failing_since"] == made["created_at"]
    assert (await public.client.patch(path, json={"status": "enabled"})).json()["failing_since"] is None


async def test_secrets_rotate_within_bounds(public: Gateway) -> None:
    made = (await make(public)).json()
    path = f"/webhooks/{made['id']}/rotate/"
    statuses = [(await public.client.post(path)).status_code for _ in range(5)]
    assert statuses == [200] * 4 + [409]
    public.clock.advance(86_400)
    rotated = await public.client.post(path, json={"grace_seconds": 0})
    assert rotated.status_code == 200
    assert rotated.json()["secret"] not in (made["secret"], None)


async def test_a_weaker_key_cannot_turn_a_webhook_of_the_company_to_itself(public: Gateway) -> None:
    own = (await make(public)).json()
    weak, _ = public.keys.issue(scopes=frozenset({"webhooks:read", "webhooks:write"}))
    headers = {"x-api-key": weak}
    for method, path, body in (("PATCH", "", {"url": "https://evil.example/"}), ("POST", "rotate/", {})):
        refused = await public.client.request(method, f"/webhooks/{own['id']}/{path}", json=body, headers=headers)
        assert (refused.status_code, error_of(refused)["type"]) == (403, "permission_error")
    limited = (await make(public, weak)).json()
    assert limited["company_wide"] is False
    changed = await public.client.patch(f"/webhooks/{limited['id']}/", json={"description": "b"}, headers=headers)
    assert (changed.status_code, changed.json()["company_wide"]) == (200, False)


async def test_a_webhook_whose_key_was_revoked_stands_on_the_key_that_enables_it(public: Gateway) -> None:
    made = (await make(public)).json()
    public.webhooks.disable(made["id"], DisabledReason.KEY_REVOKED)
    secret, key = public.keys.issue()
    changed = await public.client.patch(
        f"/webhooks/{made['id']}/", json={"status": "enabled"}, headers={"x-api-key": secret}
    )
    assert (changed.json()["status"], changed.json()["disabled_reason"]) == ("enabled", None)
    assert public.webhooks.rows[made["id"]].webhook.key_id == key.id


async def test_a_change_does_not_undo_what_happened_meanwhile(public: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    made = (await make(public)).json()

    async def looked_at_for_long(_: str) -> None:
        public.webhooks.disable(made["id"], DisabledReason.KEY_REVOKED)

    monkeypatch.setattr(public.endpoints, "check", looked_at_for_long)
    changed = await public.client.patch(f"/webhooks/{made['id']}/", json={"url": "https://example.org/"})
    assert (changed.status_code, changed.json()["url"]) == (200, "https://example.org/")
    assert (changed.json()["status"], changed.json()["disabled_reason"]) == ("disabled", "key_revoked")


async def test_the_event_type_that_was_meant_is_suggested(public: Gateway) -> None:
    refused = await make(public, event_types=["turn.*", "turn.completd"])
    [detail] = error_of(refused)["details"]
    assert (detail["loc"], detail["hint"]) == (["event_types", 1], "did you mean 'turn.completed'?")


@pytest.mark.parametrize(("problem", "advice"), [(UnusableUrl, "https://"), (AddressRefused, "OUTBOUND")])
async def test_the_hint_for_a_url_fits_the_problem(public: Gateway, problem: type[Exception], advice: str) -> None:
    url = "http://user:secret@example.com/"
    public.endpoints.refused[url] = problem("this can't be called")
    [detail] = error_of(await make(public, url=url))["details"]
    assert (detail["loc"], detail["message"]) == (["url"], "this can't be called")
    assert advice in detail["hint"]


async def test_deliveries_are_listed_and_begun_again(public: Gateway) -> None:
    made = (await make(public)).json()
    path = f"/webhooks/{made['id']}"
    tested = (await public.client.post(f"{path}/test/")).json()
    assert (tested["type"], tested["status"], tested["attempts"]) == ("webhook.test", "pending", 0)
    assert set(tested) == {
        "id", "event_id", "type", "status", "attempts", "next_attempt_at", "last_status", "last_response", "created_at",
    }  # fmt: skip
    listed = (await public.client.get(f"{path}/deliveries/")).json()
    assert listed == {
        "deliveries": [tested],
        "total": 1,
        "total_is_exact": True,
        "has_more": False,
        "next": None,
    }
    again = f"{path}/deliveries/{tested['id']}/redeliver/"
    waiting = replace(public.webhooks.kept[tested["id"]], attempts=3, next_attempt_at=None)
    public.webhooks.kept[tested["id"]] = waiting
    now = (await public.client.post(again)).json()
    assert (now["status"], now["attempts"], now["next_attempt_at"]) == ("pending", 0, tested["next_attempt_at"])
    failed = replace(public.webhooks.kept[tested["id"]], status=DeliveryStatus.FAILED, attempts=9, last_status=500)
    public.webhooks.kept[tested["id"]] = failed
    begun = (await public.client.post(again)).json()
    assert (begun["status"], begun["attempts"], begun["last_status"]) == ("pending", 0, 500)
    assert (await public.client.post(f"{path}/deliveries/nonsense/redeliver/")).status_code == 404
    other = (await make(public)).json()["id"]
    assert (await public.client.post(f"/webhooks/{other}/deliveries/{tested['id']}/redeliver/")).status_code == 404
