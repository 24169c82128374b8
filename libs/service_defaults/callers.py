"""Who an internal call is made for."""

from typing import Final

from fastapi import Request

from libs.contracts.errors import AuthenticationFailed
from libs.contracts.identity import Identity
from libs.eventing import IdentitySigner

BEARER: Final = "Bearer "


def caller(request: Request) -> Identity:
    """The identity that the token stands for (a FastAPI dependency). Raises ``AuthenticationFailed``."""
    token = request.headers.get("Authorization", "")
    if not token.startswith(BEARER):
        raise AuthenticationFailed("an internal call needs a service token")
    signer: IdentitySigner = request.app.state.signer
    return signer.verify_call(token.removeprefix(BEARER))
