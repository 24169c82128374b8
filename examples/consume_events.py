"""Follows the events with a correlation ID.

Requires only aiokafka:

    python examples/consume_events.py --bootstrap-servers 127.0.0.1:9092 --correlation-id my-request-1 --from-beginning

If Kafka requires a password, set `--username` and the variable KAFKA_PASSWORD. If Kafka requires TLS, set `--ca-file`.
For the embedded stack's Kafka, use the port that `./aes status` shows:

    export KAFKA_PASSWORD=$(cat .aes/kafka-password)
    python examples/consume_events.py --username aes --mechanism PLAIN --bootstrap-servers 127.0.0.1:PORT …
"""

import argparse
import asyncio
import json
import logging
import os
import ssl
import sys
import uuid
from collections.abc import Iterable
from typing import Any

try:
    from aiokafka import AIOKafkaConsumer, ConsumerRecord
    from aiokafka.errors import KafkaError
except ModuleNotFoundError:
    sys.exit("Error: the package aiokafka is missing. Use the project's Python: .aes/venv/bin/python")

EVENT_TOPICS = (
    "runtime-events",
    "registry-events",
    "ingestion-events",
    "artifacts-events",
    "timeline-events",
    "gateway-events",
)
CONNECT_SECONDS = 10
JOIN_SECONDS = 30
LONGEST_SUMMARY = 100


class CannotFollow(Exception):
    """The events can't be followed."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Follow the events with a correlation ID.")
    parser.add_argument(
        "--bootstrap-servers",
        default="127.0.0.1:9092",
        help="address (host:port) of a Kafka broker (default: %(default)s)",
    )
    parser.add_argument("--correlation-id", required=True, help="the correlation ID to follow")
    parser.add_argument("--prefix", default="", help="the installation's AES_TOPIC_PREFIX")
    parser.add_argument("--from-beginning", action="store_true", help="include past events")
    parser.add_argument("--username", default="", help="user name, if Kafka requires one")
    parser.add_argument("--mechanism", default="SCRAM-SHA-512", help="SASL mechanism (default: %(default)s)")
    parser.add_argument("--ca-file", default="", help="PEM file of the brokers' CA; enables TLS")
    parser.add_argument("--group", default="example-", help="consumer group prefix (default: %(default)s)")
    parser.add_argument(
        "--timeout", type=float, help="stop after this many seconds without an event (default: run until Ctrl-C)"
    )
    return parser.parse_args()


def security(username: str, ca_file: str, mechanism: str) -> dict[str, Any]:
    """Returns the consumer's security options. Raises ``CannotFollow`` if the CA file can't be read."""
    given: dict[str, Any] = {}
    if ca_file:
        try:
            given |= {"security_protocol": "SSL", "ssl_context": ssl.create_default_context(cafile=ca_file)}
        except OSError as problem:
            raise CannotFollow(f"{ca_file} can't be read: {problem}") from problem
    if username:
        # Sending the password without TLS is the caller's choice. aiokafka warns about it on each connection.
        logging.getLogger("aiokafka.conn").addFilter(lambda record: "in the clear" not in record.getMessage())
        given |= {
            "security_protocol": "SASL_SSL" if ca_file else "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": username,
            "sasl_plain_password": os.environ.get("KAFKA_PASSWORD", ""),
        }
    return given


async def connect(consumer: AIOKafkaConsumer, servers: str, prefix: str) -> None:
    """Connects to Kafka and subscribes to the event topics that exist. Raises ``CannotFollow``."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await consumer.start()
            there = await consumer.topics()
    except (KafkaError, OSError, TimeoutError) as problem:
        raise CannotFollow(f"Kafka at {servers} doesn't respond: {problem or 'timed out'}") from problem
    topics = [prefix + topic for topic in EVENT_TOPICS if prefix + topic in there]
    if not topics:
        raise CannotFollow(f"Kafka at {servers} has no event topics with the prefix {prefix!r}; check --prefix")
    consumer.subscribe(topics)
    try:
        async with asyncio.timeout(JOIN_SECONDS):
            while not consumer.assignment():
                await asyncio.sleep(0.1)
    except TimeoutError as problem:
        raise CannotFollow(f"Kafka at {servers} assigned no partitions within {JOIN_SECONDS} s") from problem


async def follow(consumer: AIOKafkaConsumer, correlation_id: str, *, timeout: float | None) -> int:
    """Prints events until ``timeout`` seconds pass without one. Returns the number of events."""
    clock = asyncio.get_running_loop().time
    seen: set[str] = set()
    last = clock()
    while timeout is None or clock() - last < timeout:
        batches = await consumer.getmany(timeout_ms=200)
        for headers, value in in_time_order(batches.values()):
            # The headers are enough to skip other events without decoding them.
            if headers.get("ce_correlationid") != correlation_id:
                continue
            # Delivery is at least once, so an event may arrive twice with the same ID.
            if headers["ce_id"] in seen:
                continue
            seen.add(headers["ce_id"])
            last = clock()
            print(line(headers, value), flush=True)
    return len(seen)


def in_time_order(batches: Iterable[list[ConsumerRecord]]) -> list[tuple[dict[str, str], bytes]]:
    """Merges records of several topics by time. Records without CloudEvents headers are dropped."""
    events = []
    for batch in batches:
        for record in batch:
            headers = {name: value.decode(errors="replace") for name, value in record.headers if value is not None}
            if {"ce_id", "ce_type", "ce_time", "ce_correlationid"} <= headers.keys():
                events.append((headers, record.value or b""))
    return sorted(events, key=lambda event: event[0]["ce_time"])


def line(headers: dict[str, str], value: bytes) -> str:
    """Formats an event's time, service, short type such as ``turn.completed``, and summary."""
    parts = headers["ce_type"].split(".")
    service, name = (parts[1], ".".join(parts[2:-1])) if len(parts) > 3 else ("?", headers["ce_type"])
    if "ce_dataref" in headers:
        summary = "(payload too large for Kafka; the service stores it)"
    else:
        try:
            summary = summarize(name, json.loads(value))
        except (ValueError, KeyError, TypeError, AttributeError):
            summary = "(payload from a newer version of the service)"
    if len(summary) > LONGEST_SUMMARY:
        summary = summary[: LONGEST_SUMMARY - 1] + "…"
    return f"{headers['ce_time']}  {service:<9} {name:<26} {summary}"


def summarize(name: str, payload: dict[str, Any]) -> str:
    """Describes an event's payload in a few words."""
    if "error" in payload:
        return f"{payload['error']['type']}: {payload['error']['message']}"
    if name == "turn.completed":
        usage = payload["usage"]
        text = " ".join(payload["response"]["content"].split())
        return f"{usage['input_tokens']}+{usage['output_tokens']} tokens: {text}"
    if name.startswith("turn.tool_call."):
        rest = payload.get("output") or payload.get("reason") or json.dumps(payload.get("arguments", {}))
        return f"{payload['name']} → {rest}" if "arguments" not in payload else f"{payload['name']} {rest}"
    if "agent" in payload:
        agent = payload["agent"]
        return f"{agent['agent_key']} {agent['version_number']}"
    return " ".join(f"{key}={value}" for key, value in payload.items() if isinstance(value, str | int | float))


async def main() -> int:
    options = arguments()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap_servers,
        **security(options.username, options.ca_file, options.mechanism),
        # With a new consumer group, the program doesn't take events from other consumers.
        group_id=f"{options.prefix}{options.group}{uuid.uuid4()}",
        auto_offset_reset="earliest" if options.from_beginning else "latest",
        enable_auto_commit=False,
    )
    try:
        await connect(consumer, options.bootstrap_servers, options.prefix)
        print(f"Following {options.correlation_id} …", file=sys.stderr, flush=True)
        found = await follow(consumer, options.correlation_id, timeout=options.timeout)
    except KafkaError as problem:
        print(f"Error: the connection to Kafka failed: {problem!r}", file=sys.stderr)
        return 1
    finally:
        await consumer.stop()
    if found == 0:
        hint = "" if options.from_beginning else "; use --from-beginning to include past events"
        print(
            f"No event with correlation ID {options.correlation_id} within {options.timeout:g} s{hint}", file=sys.stderr
        )
        return 3
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except CannotFollow as problem:
        sys.exit(f"Error: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
