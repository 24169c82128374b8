"""One-time sign-in links for the studio."""

from cli.connection import Connection
from deploy.local.errors import StackError

# Enough time to open the browser.
_SECONDS = 3600


def studio_link(connection: Connection, shown_as: str | None = None) -> str:
    """Returns a link that signs in to the studio.

    Its fragment, which browsers never send, contains a bearer token. The token works once: the studio exchanges it for
    its own key. If no token can be created, the link has none. `shown_as` replaces the address.
    """
    address = f"{shown_as or connection.base_url}/studio/"
    try:
        with connection.client(retries=0, timeout=10) as client:
            return f"{address}#token={client.tokens.create(expires_in=_SECONDS).access_token}"
    except StackError:
        return address
