"""Checks services, object stores and Weaviate over HTTP."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx

from cli.doctor.findings import Check, Finding, failed, ok
from libs.objects import open_store

_SECONDS = 10.0


def service_checks(urls: Mapping[str, str]) -> list[Check]:
    return [
        Check(
            f"service {name}",
            partial(_service, name, url),
            f"Start the service, or set AES_{name.upper()}_URL to where it is.",
        )
        for name, url in urls.items()
    ]


def object_checks(urls: Mapping[str, str]) -> list[Check]:
    remedy = "Start the S3 server, or set AES_{}_OBJECTS_URL to the right address, keys and bucket."
    return [
        Check(f"objects of {service}", partial(_objects, service, url), remedy.format(service.upper()))
        for service, url in urls.items()
        # Directories are checked with their disks.
        if not url.startswith("file:")
    ]


def weaviate_checks(address: tuple[str, int]) -> list[Check]:
    remedy = "Start Weaviate, or set AES_INGESTION_WEAVIATE_URL and AES_INGESTION_WEAVIATE_GRPC_PORT to where it is."
    return [Check("weaviate", lambda: _weaviate(*address), remedy)]


async def _service(name: str, urls: str) -> list[Finding]:
    found = await asyncio.gather(*(_process(name, url.strip()) for url in urls.split(",")))
    return [finding for findings in found for finding in findings]


async def _process(name: str, url: str) -> list[Finding]:
    check = f"service {name}"
    async with httpx.AsyncClient(timeout=_SECONDS) as client:
        answer = await client.get(f"{url.rstrip('/')}/health/ready")
    health = _health(answer, name)
    if health is not None and answer.status_code == httpx.codes.OK:
        return [ok(check, f"ready at {url}")]
    if health is None:
        remedy = f"Something else listens there: set AES_{name.upper()}_URL to the service."
        return [failed(check, f"{url} answers with {answer.status_code}", remedy)]
    waits = [part for part, state in health["checks"].items() if state != "ok"]
    return [failed(check, f"not ready: {', '.join(waits)}", "See to what it waits for, then read its log.")]


def _health(answer: httpx.Response, name: str) -> dict[str, Any] | None:
    """Parses the service's health document; None when another program answers."""
    try:
        health = answer.json()
    except ValueError:
        return None
    return health if isinstance(health, dict) and health.get("service") == name else None


async def _objects(service: str, url: str) -> list[Finding]:
    entries = open_store(url).entries("doctor/")
    try:
        await anext(entries, None)
    finally:
        await entries.aclose()
    return [ok(f"objects of {service}", f"{urlsplit(url).hostname} answers")]


async def _weaviate(url: str, grpc_port: int) -> list[Finding]:
    async with httpx.AsyncClient(timeout=_SECONDS) as client:
        answer = await client.get(f"{url.rstrip('/')}/v1/.well-known/ready")
    if answer.status_code != httpx.codes.OK:
        return [failed("weaviate", f"{url} is not ready ({answer.status_code})", "Read its log.")]
    _, writer = await asyncio.open_connection(urlsplit(url).hostname, grpc_port)
    writer.close()
    await writer.wait_closed()
    return [ok("weaviate", f"ready at {url}, gRPC at {grpc_port}")]
