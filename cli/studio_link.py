"""The address of the studio that signs in who opens it, once."""

import httpx

from cli.connection import Connection

# Long enough to find the browser.
_SECONDS = 3600


def studio_link(connection: Connection, shown_as: str | None = None) -> str:
    """Link with a bearer token in its fragment, which browsers send to nobody; the plain address without a token.

    The studio makes a key of its own with the token, which is used up by it. `shown_as` replaces the address.
    """
    address = f"{shown_as or connection.base_url}/studio/"
    try:
        with connection.client(timeout=10) as client:
            reply = client.post("/auth/token/", json={"expires_in": _SECONDS})
    except httpx.HTTPError:
        return address
    if reply.status_code != httpx.codes.OK:
        return address
    return f"{address}#token={reply.json()['access_token']}"
