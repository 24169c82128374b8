"""Serves ``/webhooks/…``: URLs to which events are sent."""

from typing import Annotated, Final

from fastapi import Depends, Security
from starlette.responses import Response

from libs.contracts.identifiers import id_of
from libs.contracts.identity import Scope
from libs.contracts.messages import Command
from libs.contracts.resources.webhooks import (
    TEST_EVENT,
    CreateWebhookBody,
    DeleteWebhook,
    Delivery,
    DeliveryPage,
    IssuedWebhookReply,
    Redeliver,
    RotateWebhookBody,
    SendTestEvent,
    UpdateWebhook,
    UpdateWebhookBody,
    Webhook,
    WebhookDeliveryRequested,
    WebhookPage,
    WebhookStatus,
)
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import model_answer
from services.gateway.entrypoints.door.application import DoorDep, Submission, Submit, Upstream
from services.gateway.entrypoints.door.bodies import ParsedBody
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.queries import Page
from services.gateway.entrypoints.door.routes import PREFIX, answer, errors, public_router
from services.gateway.entrypoints.door.writes import IdempotentWrite, PlainWrite
from services.gateway.entrypoints.rest.resources import ResourcesDep

router = public_router("/webhooks", "Webhooks")
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.WEBHOOKS_READ])]
Writer = Annotated[Principal, Security(by_api_key, scopes=[Scope.WEBHOOKS_WRITE])]
_OWNER: Final = "timeline"
NewWebhook = Annotated[CreateWebhookBody, Depends(ParsedBody(CreateWebhookBody))]
WebhookChanges = Annotated[UpdateWebhookBody, Depends(ParsedBody(UpdateWebhookBody))]
Rotation = Annotated[RotateWebhookBody, Depends(ParsedBody(RotateWebhookBody, required=False))]


@router.post(
    "/",
    operation_id="webhooks.create",
    summary="Create a webhook",
    description=(
        "Sends new events of the given `event_types` to the `url`, if you have access to the events. Requests are"
        " signed according to [Standard Webhooks](https://www.standardwebhooks.com). The secret is returned only once"
        " and stored encrypted."
    ),
    status_code=201,
    responses={201: answer("The new webhook.", IssuedWebhookReply, location=True), **errors(409)},
)
async def create_webhook(_: Writer, body: NewWebhook, write: IdempotentWrite, resources: ResourcesDep) -> Response:
    issued = await resources.webhooks.create(write, body)
    return _issued(issued, 201, {"Location": f"{PREFIX}/webhooks/{issued.id}/"})


@router.get(
    "/",
    operation_id="webhooks.list",
    summary="List webhooks",
    description="Lists your webhooks. With a `company:…` scope, lists all company webhooks. Secrets aren't included.",
    responses={200: answer("Webhooks, newest first.", WebhookPage)},
)
async def list_webhooks(caller: Reader, page: Page, upstream: Upstream) -> Response:
    return await upstream.get(caller, _OWNER, "/internal/webhooks", page.params())


@router.get(
    "/{id}/",
    operation_id="webhooks.get",
    summary="Get a webhook",
    responses={200: answer("The webhook.", Webhook), **errors(404)},
)
async def get_webhook(id: str, caller: Reader, upstream: Upstream) -> Response:
    return await upstream.get(caller, _OWNER, _path(id))


@router.patch(
    "/{id}/",
    operation_id="webhooks.update",
    summary="Update a webhook",
    responses={200: answer("The updated webhook.", Webhook), **errors(404, 409)},
)
async def update_webhook(id: str, caller: Writer, body: WebhookChanges, submit: Submit, upstream: Upstream) -> Response:
    path = _path(id)
    command = UpdateWebhook(
        webhook_id=id,
        url=body.url,
        event_types=None if body.event_types is None else tuple(dict.fromkeys(body.event_types)),
        description=body.description,
        status=None if body.status is None else WebhookStatus(body.status),
    )
    await submit(command)
    return await upstream.get(caller, _OWNER, path)


@router.delete(
    "/{id}/",
    operation_id="webhooks.delete",
    summary="Delete a webhook",
    description="Pending deliveries are dropped.",
    status_code=204,
    responses={204: answer("The webhook was deleted."), **errors(404)},
)
async def delete_webhook(id: str, _: Writer, write: PlainWrite, door: DoorDep) -> Response:
    await door.commands.run(write, DeleteWebhook(webhook_id=id_of(id, "webhook")))
    return Response(status_code=204)


@router.post(
    "/{id}/rotate/",
    operation_id="webhooks.rotate",
    summary="Rotate a webhook's secret",
    description="For a grace period, deliveries are signed with the old and the new secret. The new secret is returned"
    " only once and stored encrypted.",
    responses={200: answer("The webhook with its new secret.", IssuedWebhookReply), **errors(404, 409)},
)
async def rotate_webhook_secret(
    id: str, caller: Writer, body: Rotation, write: IdempotentWrite, resources: ResourcesDep, upstream: Upstream
) -> Response:
    webhook = await upstream.read(Webhook, caller, _OWNER, _path(id))
    return _issued(await resources.webhooks.rotate_secret(write, webhook, grace_seconds=body.grace_seconds), 200)


@router.post(
    "/{id}/test/",
    operation_id="webhooks.test",
    summary="Send a test event",
    description="Sends a `webhook.test` event once. The list of deliveries shows the result.",
    responses={200: answer("The delivery, still pending.", Delivery), **errors(404, 409)},
)
async def send_test_event(id: str, _: Writer, submit: Submit) -> Response:
    webhook_id = id_of(id, "webhook")
    requested = await _requested(submit, SendTestEvent(webhook_id=webhook_id))
    delivery = Delivery(
        id=requested.delivery_id,
        event_id=requested.event_id,
        type=TEST_EVENT,
        status="pending",
        attempts=0,
        next_attempt_at=requested.due_at,
        last_status=None,
        last_response=None,
        created_at=requested.due_at,
    )
    return model_answer(delivery)


@router.get(
    "/{id}/deliveries/",
    operation_id="webhooks.deliveries",
    summary="List deliveries",
    description="Deliveries are kept for a week, and pending deliveries for longer.",
    responses={200: answer("Deliveries, newest first.", DeliveryPage), **errors(404)},
)
async def list_webhook_deliveries(id: str, caller: Reader, page: Page, upstream: Upstream) -> Response:
    return await upstream.get(caller, _OWNER, f"{_path(id)}/deliveries", page.params())


@router.post(
    "/{id}/deliveries/{delivery_id}/redeliver/",
    operation_id="webhooks.redeliver",
    summary="Deliver an event again",
    description="The event is sent immediately, with the same `webhook-id`, and retried like a new event.",
    responses={200: answer("The delivery, pending again.", Delivery), **errors(404, 409)},
)
async def redeliver_webhook(id: str, delivery_id: str, caller: Writer, submit: Submit, upstream: Upstream) -> Response:
    path = f"{_path(id)}/deliveries/{id_of(delivery_id, 'delivery')}"
    before = await upstream.read(Delivery, caller, _OWNER, path)
    requested = await _requested(submit, Redeliver(webhook_id=id, delivery_id=delivery_id))
    again = before.model_copy(update={"status": "pending", "attempts": 0, "next_attempt_at": requested.due_at})
    return model_answer(again)


def _path(webhook_id: str) -> str:
    return f"/internal/webhooks/{id_of(webhook_id, 'webhook')}"


async def _requested(submit: Submission, command: Command) -> WebhookDeliveryRequested:
    return WebhookDeliveryRequested.decode((await submit(command)).payload)


def _issued(issued: IssuedWebhookReply, status: int, headers: dict[str, str] | None = None) -> Response:
    return model_answer(issued, status, {"Cache-Control": "no-store", **(headers or {})})
