"""The `aes topics` commands."""

import asyncio
from typing import Annotated

import typer

from cli.commands import Commands
from cli.installation import named_bus
from cli.terminal import Json, failures_explained, show
from deploy.local.errors import StackError
from libs.eventing.administration import Replication, create_topics
from libs.eventing.bus import BusUnavailable

app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False)
Replicas = Annotated[
    int,
    typer.Option(
        "--replication-factor",
        envvar="AES_KAFKA_REPLICATION_FACTOR",
        min=1,
        help="Number of brokers that store each message.",
    ),
]
InSync = Annotated[
    int | None,
    typer.Option(
        "--min-insync-replicas",
        envvar="AES_KAFKA_MIN_INSYNC_REPLICAS",
        min=1,
        help="Number of brokers that must acknowledge a write.",
        show_default="the replication factor minus one, at least 1",
    ),
]


@app.callback()
def topics() -> None: ...


@app.command()
def create(replication_factor: Replicas = 1, min_insync_replicas: InSync = None, json_output: Json = False) -> None:
    """Create missing topics on the brokers in AES_KAFKA_BOOTSTRAP_SERVERS, with the prefix AES_TOPIC_PREFIX.

    Existing topics are left unchanged.
    """
    with failures_explained(json_output):
        if (bus := named_bus()) is None:
            raise StackError(
                "AES_KAFKA_BOOTSTRAP_SERVERS isn't set.", "Set it to a Kafka broker's address (host:port)."
            )
        try:
            replication = Replication.of(replication_factor, min_insync_replicas)
        except ValueError as problem:
            raise StackError(f"{problem}.", "See: ./aes topics create --help") from None
        try:
            asyncio.run(create_topics(bus.kafka, bus.prefix, replication=replication))
        except BusUnavailable as problem:
            raise StackError(f"{problem}.", "Diagnose it with: ./aes doctor") from None
    document = {"created": True, "replicas": replication.factor, "min_insync_replicas": replication.in_sync}
    show(json_output, document, "All declared topics exist.")
