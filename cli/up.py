"""The `aes up` command."""

import os
import time
from importlib import import_module
from threading import Thread
from typing import Annotated

import typer

from cli.connection import Connection
from cli.progress import Progress
from cli.terminal import BOLD, GREEN, Json, emphasise, failures_explained, note, print_json
from deploy.local.caller_settings import changed_settings
from deploy.local.control import bring_up, development_key
from deploy.local.home import Home
from deploy.local.services import PREFERRED_PORTS

app = typer.Typer(add_completion=False)


Replicas = Annotated[
    str | None,
    typer.Option(
        "--replicas",
        envvar="AES_REPLICAS",
        help="Replicas by service, such as runtime=2,gateway=2, or 2 for every service.",
        show_default="1 for each",
    ),
]


@app.command()
def up(json_output: Json = False, replicas: Replicas = None) -> None:
    """Start the embedded stack unless it's running.

    The first start downloads Apache Kafka and creates the databases. State is stored in `.aes/` or AES_HOME. Prints the
    address, the development company's API key, and a one-time sign-in link for the studio. `aes status` shows the ports
    of additional gateways.
    """
    home = Home.from_environment()
    began = time.monotonic()
    # Needed at the end for the key and the link. The import takes a second.
    for module in ("services.gateway.administration", "cli.api"):
        Thread(target=import_module, args=(module,), daemon=True).start()
    with failures_explained(json_output):
        with Progress() as progress:
            state, started = bring_up(home, progress.show, replicas)
        key = development_key(home)
        changed = [] if started else changed_settings(state, os.environ)
    if changed:
        note(
            f"The running stack doesn't use your changes to {', '.join(changed)}. "
            "Restart it to apply them: ./aes down && ./aes up"
        )
    seconds = time.monotonic() - began
    if json_output:
        print_json({"base_url": state.base_url, "api_key": key})
        return
    note(emphasise(f"Ready after {seconds:.1f} s." if started else "The stack is already running.", GREEN))
    print(f"""
  API        {state.base_url}/api/v1{_moved(state.base_url)}
  Reference  {state.base_url}/api/v1/docs/
  Key        {key}
             also in {home.development_key_file}
  Studio     {Connection(state.base_url, key).studio_link()}
             this link works once and expires in an hour
""")
    commands = [emphasise(command, BOLD) for command in ("./aes status", "./aes logs -f", "./aes down")]
    note("Next: {}, {} or {}.".format(*commands))


def _moved(base_url: str) -> str:
    """Returns a note if the gateway isn't on its usual port, unless the port was chosen explicitly."""
    usual = PREFERRED_PORTS["gateway"]
    if base_url.endswith(f":{usual}") or "AES_GATEWAY_PORT" in os.environ:
        return ""
    return f"\n             port {usual} was in use; to return to it, run AES_GATEWAY_PORT={usual} ./aes up"
