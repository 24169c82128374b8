"""`aes topics`."""

import asyncio
import os

import typer

from cli.terminal import Json, failures_explained, note, print_json

app = typer.Typer(help="Manage the topics on the bus.", no_args_is_help=True, add_completion=False)


@app.callback()
def topics() -> None:
    """Manage the topics on the bus."""


@app.command()
def create(json_output: Json = False) -> None:
    """Create missing topics in AES_KAFKA_BOOTSTRAP_SERVERS, their names prefixed with AES_TOPIC_PREFIX."""
    from deploy.local.errors import StackError
    from deploy.local.topics import create_topics

    with failures_explained(json_output):
        servers = os.environ.get("AES_KAFKA_BOOTSTRAP_SERVERS")
        if not servers:
            raise StackError("AES_KAFKA_BOOTSTRAP_SERVERS is not set.", "Set it to host:port of a Kafka broker.")
        asyncio.run(create_topics(servers, os.environ.get("AES_TOPIC_PREFIX", "")))
    if json_output:
        print_json({"created": True})
    else:
        note("All declared topics exist.")
