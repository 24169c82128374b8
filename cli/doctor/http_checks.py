"""Checks services, object stores and Weaviate over HTTP."""

import asyncio
from collections.abc import Mapping
from functools import partial
from urllib.parse import urlsplit

from cli.doctor.findings import Check, Finding, failed, ok
from libs.diagnostics.health import ask_health, get
from libs.objects import open_store


def service_checks(urls: Mapping[str, str]) -> list[Check]:
    return [
        Check(
            f"service {name}",
            partial(_service, name, url),
            f"Start the service, or set AES_{name.upper()}_URL to its address.",
        )
        for name, url in urls.items()
    ]


def object_checks(urls: Mapping[str, str]) -> list[Check]:
    remedy = "Start the S3 server, or fix the address, keys and bucket in AES_{}_OBJECTS_URL."
    return [
        Check(f"objects of {service}", partial(_objects, service, url), remedy.format(service.upper()))
        for service, url in urls.items()
        # Directories are checked with their disks.
        if not url.startswith("file:")
    ]


def weaviate_checks(address: tuple[str, int]) -> list[Check]:
    remedy = "Start Weaviate, or set AES_INGESTION_WEAVIATE_URL and AES_INGESTION_WEAVIATE_GRPC_PORT to its address."
    return [Check("weaviate", lambda: _weaviate(*address), remedy)]


async def _service(name: str, urls: str) -> list[Finding]:
    found = await asyncio.gather(*(_process(name, url.strip()) for url in urls.split(",")))
    return [finding for findings in found for finding in findings]


async def _process(name: str, url: str) -> list[Finding]:
    check = f"service {name}"
    health = await ask_health(url, name)
    if health is None:
        remedy = f"Set AES_{name.upper()}_URL to the service's address."
        return [failed(check, f"another program responds at {url}", remedy)]
    if health.is_ready:
        return [ok(check, f"ready at {url}")]
    remedy = "Check what the service is waiting for, then read the service's log."
    return [failed(check, f"not ready: {', '.join(health.waiting)}", remedy)]


async def _objects(service: str, url: str) -> list[Finding]:
    entries = open_store(url).entries("doctor/")
    try:
        await anext(entries, None)
    finally:
        await entries.aclose()
    return [ok(f"objects of {service}", f"{urlsplit(url).hostname} responds")]


async def _weaviate(url: str, grpc_port: int) -> list[Finding]:
    status, _ = await get(url, "/v1/.well-known/ready")
    if status != 200:
        return [failed("weaviate", f"{url} isn't ready ({status})", "Read Weaviate's log.")]
    _, writer = await asyncio.open_connection(urlsplit(url).hostname, grpc_port)
    writer.close()
    await writer.wait_closed()
    return [ok("weaviate", f"ready at {url}, gRPC at {grpc_port}")]
