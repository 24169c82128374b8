"""``/webhooks/…``: endpoints of users that events are delivered to."""

from typing import Annotated, Final

from fastapi import Depends, Security
from starlette.responses import Response

from libs.contracts.identity import Scope
from services.gateway.domain import webhook_deliveries, webhooks
from services.gateway.domain.accounts import Principal
from services.gateway.domain.webhooks import WebhookStatus
from services.gateway.entrypoints.http.authentication import by_api_key
from services.gateway.entrypoints.http.bodies import ParsedBody
from services.gateway.entrypoints.http.dependencies import IdempotentWrite, PlainWrite, UseCasesDep
from services.gateway.entrypoints.http.forwarding import json_answer
from services.gateway.entrypoints.http.queries import Page
from services.gateway.entrypoints.http.reference.described import answer, errors
from services.gateway.entrypoints.http.routing import PREFIX, public_router
from services.gateway.entrypoints.http.webhook_schemas import (
    CHANGES,
    ROTATION,
    WEBHOOKS,
    CreateWebhookBody,
    Delivery,
    DeliveryPage,
    IssuedWebhookReply,
    RotateWebhookBody,
    UpdateWebhookBody,
    Webhook,
    WebhookPage,
)
from services.gateway.use_cases.webhooks.webhooks import IssuedWebhook, WebhookChange, WebhookRequest

router = public_router("/webhooks", "Webhooks")
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.WEBHOOKS_READ])]
Writer = Annotated[Principal, Security(by_api_key, scopes=[Scope.WEBHOOKS_WRITE])]
_ONCE: Final = "The secret is shown this once; it is kept encrypted."


@router.post(
    "/",
    summary="Make a webhook",
    description=(
        "From now on events of these types that you may see are sent to the URL, signed as"
        f" [Standard Webhooks](https://www.standardwebhooks.com) says. {_ONCE}"
    ),
    status_code=201,
    responses={201: answer("The new webhook.", IssuedWebhookReply, location=True), **errors(409)},
)
async def create_webhook(
    _: Writer,
    body: Annotated[CreateWebhookBody, Depends(ParsedBody(CreateWebhookBody, WEBHOOKS))],
    write: IdempotentWrite,
    use: UseCasesDep,
) -> Response:
    wanted = WebhookRequest(
        url=body.url,
        event_types=tuple(dict.fromkeys(body.event_types)),
        description=body.description,
        status=WebhookStatus(body.status),
    )
    issued = await use.webhooks.create(write, wanted)
    return _issued(issued, 201, {"Location": f"{PREFIX}/webhooks/{issued.webhook.id}/"})


@router.get(
    "/",
    summary="List webhooks",
    description="Your own; with a `company:…` scope all of the company. Never with their secrets.",
    responses={200: answer("Webhooks, newest first.", WebhookPage)},
)
async def list_webhooks(caller: Reader, page: Page, use: UseCasesDep) -> Response:
    found = await use.webhooks.page(caller.identity, **page.params())
    shown = WebhookPage(webhooks=[Webhook.model_validate(_fields(each)) for each in found.items], **found.facts)
    return json_answer(shown.model_dump_json().encode())


@router.get("/{id}/", summary="Get a webhook", responses={200: answer("The webhook.", Webhook), **errors(404)})
async def get_webhook(id: str, caller: Reader, use: UseCasesDep) -> Response:
    return _shown(await use.webhooks.get(caller.identity, id))


@router.patch(
    "/{id}/",
    summary="Change a webhook",
    responses={200: answer("The changed webhook.", Webhook), **errors(404, 409)},
)
async def update_webhook(
    id: str,
    _: Writer,
    body: Annotated[UpdateWebhookBody, Depends(ParsedBody(UpdateWebhookBody, CHANGES))],
    write: IdempotentWrite,
    use: UseCasesDep,
) -> Response:
    change = WebhookChange(
        url=body.url,
        event_types=None if body.event_types is None else tuple(dict.fromkeys(body.event_types)),
        description=body.description,
        status=None if body.status is None else WebhookStatus(body.status),
    )
    return _shown(await use.webhooks.change(write, id, change))


@router.delete(
    "/{id}/",
    summary="Delete a webhook",
    description="Nothing is sent to it any more, what waits included.",
    status_code=204,
    responses={204: answer("It is gone."), **errors(404)},
)
async def delete_webhook(id: str, _: Writer, write: PlainWrite, use: UseCasesDep) -> Response:
    await use.webhooks.delete(write, id)
    return Response(status_code=204)


@router.post(
    "/{id}/rotate/",
    summary="Give a webhook a new secret",
    description=f"For a grace period deliveries are signed with the secret before it as well. {_ONCE}",
    responses={200: answer("The webhook with its new secret.", IssuedWebhookReply), **errors(404, 409)},
)
async def rotate_webhook_secret(
    id: str,
    _: Writer,
    body: Annotated[RotateWebhookBody, Depends(ParsedBody(RotateWebhookBody, ROTATION, required=False))],
    write: IdempotentWrite,
    use: UseCasesDep,
) -> Response:
    return _issued(await use.webhooks.rotate_secret(write, id, grace_seconds=body.grace_seconds), 200)


@router.post(
    "/{id}/test/",
    summary="Send a test event",
    description="An event `webhook.test` is sent once. What became of it is in the list of deliveries.",
    responses={200: answer("The delivery, still pending.", Delivery), **errors(404, 409)},
)
async def send_test_event(id: str, _: Writer, write: IdempotentWrite, use: UseCasesDep) -> Response:
    return _delivery(await use.webhooks.send_test(write, id))


@router.get(
    "/{id}/deliveries/",
    summary="List deliveries",
    description="Kept for a week after they were made, pending ones for longer.",
    responses={200: answer("Deliveries, newest first.", DeliveryPage), **errors(404)},
)
async def list_webhook_deliveries(id: str, caller: Reader, page: Page, use: UseCasesDep) -> Response:
    found = await use.webhooks.deliveries(caller.identity, id, **page.params())
    shown = DeliveryPage(deliveries=[_delivered(each) for each in found.items], **found.facts)
    return json_answer(shown.model_dump_json().encode())


@router.post(
    "/{id}/deliveries/{delivery_id}/redeliver/",
    summary="Deliver an event again",
    description="It is sent at once, with the same `webhook-id`, and repeated like a new one.",
    responses={200: answer("The delivery, pending again.", Delivery), **errors(404, 409)},
)
async def redeliver_webhook(id: str, delivery_id: str, _: Writer, write: IdempotentWrite, use: UseCasesDep) -> Response:
    return _delivery(await use.webhooks.deliver_again(write, id, delivery_id))


def _shown(webhook: webhooks.Webhook) -> Response:
    return json_answer(Webhook.model_validate(_fields(webhook)).model_dump_json().encode())


def _issued(issued: IssuedWebhook, status: int, headers: dict[str, str] | None = None) -> Response:
    reply = IssuedWebhookReply.model_validate({**_fields(issued.webhook), "secret": issued.secret})
    return json_answer(reply.model_dump_json().encode(), status, {"Cache-Control": "no-store", **(headers or {})})


def _fields(webhook: webhooks.Webhook) -> dict[str, object]:
    return {
        "id": webhook.id,
        "url": webhook.url,
        "event_types": list(webhook.event_types),
        "description": webhook.description,
        "status": webhook.status,
        "disabled_reason": webhook.disabled_reason,
        "failing_since": webhook.failing_since,
        "company_wide": webhook.sees_company,
        "user_id": webhook.user_id,
        "created_at": webhook.created_at,
        "updated_at": webhook.updated_at,
    }


def _delivery(delivery: webhook_deliveries.Delivery) -> Response:
    return json_answer(_delivered(delivery).model_dump_json().encode())


def _delivered(delivery: webhook_deliveries.Delivery) -> Delivery:
    return Delivery.model_validate({name: getattr(delivery, name) for name in Delivery.model_fields})
