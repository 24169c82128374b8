"""Where client commands find the service and the key they use."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from deploy.local.errors import StackError

if TYPE_CHECKING:
    import httpx

BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", envvar="AES_BASE_URL", help="Address of the service; else the stack's."),
]
ApiKey = Annotated[
    str | None,
    typer.Option("--api-key", envvar="AES_API_KEY", help="API key; else the development company's."),
]


@dataclass(frozen=True)
class Connection:
    base_url: str
    """Without `/api/v1`."""
    api_key: str

    def client(self, timeout: float = 150) -> "httpx.Client":
        """A client whose paths are relative to the API's root, such as `/me/`. The caller closes it."""
        import httpx

        headers = {"x-api-key": self.api_key}
        return httpx.Client(base_url=f"{self.base_url}/api/v1", headers=headers, timeout=timeout)


def connect(base_url: str | None, api_key: str | None) -> Connection:
    """What was given, completed by the running stack; raises StackError when something is missing."""
    from deploy.local.development_key import known_key
    from deploy.local.home import Home
    from deploy.local.state import StackState

    home = Home.from_environment()
    if base_url is None:
        state = StackState.read(home.state_file)
        if not (state.is_supervised() and state.phase == "running"):
            raise StackError(
                "No address given and the embedded stack does not run.",
                "Start it with: ./aes up, or name a service with --base-url or AES_BASE_URL.",
            )
        base_url = state.base_url
    elif not base_url.startswith(("http://", "https://")):
        raise StackError(f"{base_url!r} is no address of a service.", "Give one such as http://127.0.0.1:8080.")
    api_key = api_key or os.environ.get("AES_API_KEY") or known_key(home)
    if api_key is None:
        raise StackError("No API key given.", "Name one with --api-key or AES_API_KEY.")
    return Connection(base_url.rstrip("/"), api_key)
