"""The internal API of a service in miniature, called as the gateway calls it."""

import time
from typing import Any

import httpx
from fastapi import FastAPI

from libs.contracts.identity import Identity
from libs.eventing import IdentitySigner
from libs.service_defaults import UpstreamResponse
from libs.service_defaults.errors import install_error_handlers


class InternalApi:
    def __init__(self, signer: IdentitySigner) -> None:
        self.app = FastAPI()
        self.app.state.signer = self._signer = signer
        install_error_handlers(self.app)

    async def answer(
        self, method: str, path: str, identity: Identity, params: dict[str, Any] | None, body: bytes | None
    ) -> UpstreamResponse:
        token = self._signer.sign(identity, expires_at=time.time() + 60)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://owner") as client:
            reply = await client.request(method, path, params=params, content=body, headers=headers)
        return UpstreamResponse(reply.status_code, reply.content, reply.headers.get("content-type", ""))
