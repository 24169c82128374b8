"""Finds the service's address and the API key for commands that call the API."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from cli.terminal import failures_explained
from deploy.local.credentials import known_key
from deploy.local.errors import StackError
from deploy.local.home import Home

if TYPE_CHECKING:
    from aes_client import Client

BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", envvar="AES_BASE_URL", help="Service URL.", show_default="the local stack's"),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        envvar="AES_API_KEY",
        help="API key.",
        show_default="the local stack's key for loopback addresses",
    ),
]
# Enough time to open the browser.
_LINK_SECONDS = 3600
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Connection:
    base_url: str
    """The service's URL, without `/api/v1`."""
    api_key: str

    def client(
        self, *, retries: int = 7, timeout: float = 150, headers: Mapping[str, str] | None = None
    ) -> AbstractContextManager[Client]:
        """Yields a client. Errors are raised as StackError. ``timeout`` is in seconds per attempt."""
        # Importing the client takes longer than most commands.
        from cli.api import open_client

        return open_client(self, retries=retries, timeout=timeout, headers=headers or {})

    def studio_link(self, shown_as: str | None = None) -> str:
        """Returns a link that signs in to the studio once, or only opens the studio if no token can be created.

        The token is in the fragment, which browsers never send. `shown_as` replaces the address.
        """
        address = f"{shown_as or self.base_url}/studio/"
        try:
            with self.client(retries=0, timeout=10) as client:
                return f"{address}#token={client.tokens.create(expires_in=_LINK_SECONDS).access_token}"
        except StackError:
            return address


@contextmanager
def connected(as_json: bool, base_url: str | None, api_key: str | None) -> Iterator[Client]:
    """Yields a client. If something fails, prints the error and exits with 1."""
    with failures_explained(as_json), connect(base_url, api_key).client() as client:
        yield client


def connect(base_url: str | None, api_key: str | None) -> Connection:
    """Returns the address and API key. By default, they're the running embedded stack's.

    Raises StackError if there's no address or no key.
    """
    home = Home.from_environment()
    if base_url is None:
        from deploy.local.state import StackState

        state = StackState.read(home.state_file)
        if not (state.is_supervised() and state.phase == "running"):
            raise StackError(
                "No address given, and the embedded stack isn't running.",
                "Start it with ./aes up, or set --base-url or AES_BASE_URL.",
            )
        base_url = state.base_url
    host = _host(base_url)
    api_key = api_key or os.environ.get("AES_API_KEY")
    # The embedded stack's key must not reach another machine.
    if api_key is None and host in _THIS_MACHINE:
        api_key = known_key(home)
    if api_key is None:
        raise StackError(f"No API key given for {base_url}.", "Set --api-key or AES_API_KEY.")
    return Connection(base_url.rstrip("/"), api_key)


def _host(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        if parts.scheme in ("http", "https") and parts.hostname:
            return parts.hostname
    except ValueError:
        pass
    raise StackError(f"Invalid service URL {base_url!r}.", "Use a URL such as http://127.0.0.1:8080.")
