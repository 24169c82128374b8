"""One-time sign-in links for the studio."""

from cli.connection import Connection
from deploy.local.errors import StackError

# Enough time to open the browser.
_SECONDS = 3600


def studio_link(connection: Connection, shown_as: str | None = None) -> str:
    """Returns a link that signs in to the studio once, or only opens the studio if no token can be created.

    The token is in the fragment, which browsers never send. `shown_as` replaces the address.
    """
    address = f"{shown_as or connection.base_url}/studio/"
    try:
        with connection.client(retries=0, timeout=10) as client:
            return f"{address}#token={client.tokens.create(expires_in=_SECONDS).access_token}"
    except StackError:
        return address
