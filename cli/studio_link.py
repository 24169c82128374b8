"""The address of the studio that signs in who opens it, once."""

from cli.connection import Connection
from deploy.local.errors import StackError

# Long enough to find the browser.
_SECONDS = 3600


def studio_link(connection: Connection, shown_as: str | None = None) -> str:
    """Link with a bearer token in its fragment, which browsers send to nobody; the plain address without a token.

    The studio makes a key of its own with the token, which is used up by it. `shown_as` replaces the address.
    """
    address = f"{shown_as or connection.base_url}/studio/"
    try:
        with connection.client(retries=0, timeout=10) as client:
            return f"{address}#token={client.tokens.create(expires_in=_SECONDS).access_token}"
    except StackError:
        return address
