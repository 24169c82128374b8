"""Checks that each service's database answers, is migrated and has a correct clock."""

import time
from collections.abc import Mapping
from functools import partial

import psycopg

from cli.doctor.findings import Check, Finding, compare_clocks, failed, ok, warning
from deploy.local.home import PROJECT_ROOT
from libs.persistence import Connection, fetch_value


def database_checks(urls: Mapping[str, str]) -> list[Check]:
    remedy = (
        "Start PostgreSQL, or set AES_{}_DATABASE_URL to the right server, role and password, and with "
        "TLS to the right sslmode and sslrootcert."
    )
    return [
        Check(f"database of {service}", partial(_database, service, url), remedy.format(service.upper()))
        for service, url in urls.items()
    ]


async def _database(service: str, url: str) -> list[Finding]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True, connect_timeout=10) as connection:
        version = connection.info.server_version // 10000
        findings = [ok(f"database of {service}", f"PostgreSQL {version} answers{_encryption(connection)}")]
        findings.append(await _migrations(service, connection))
        if service == "ingestion":
            findings += await _vectors(connection)
        findings.append(await _clock(service, connection))
    return findings


def _encryption(connection: Connection) -> str:
    if connection.pgconn.ssl_in_use:
        return ", by TLS"
    # A Unix socket needs no TLS.
    return "" if connection.info.host.startswith("/") else ", not encrypted"


async def _migrations(service: str, connection: Connection) -> Finding:
    check = f"migrations of {service}"
    newest = newest_migration(service)
    found = await fetch_value(connection, "SELECT to_regclass('alembic_version')::text")
    at = await fetch_value(connection, "SELECT version_num FROM alembic_version") if found else None
    if at is None or str(at) < newest:
        return failed(check, f"at {at or 'none'}, {newest} is needed", f"Run: python -m services.{service} migrate")
    if str(at) > newest:
        return warning(check, f"at {at}, this release knows {newest}", "A newer release was here: use its programs.")
    return ok(check, f"at {at}")


def newest_migration(service: str) -> str:
    files = (PROJECT_ROOT / "services" / service / "migrations" / "versions").glob("[0-9]*.py")
    return max(file.stem.split("_", 1)[0] for file in files)


async def _vectors(connection: Connection) -> list[Finding]:
    version = await fetch_value(connection, "SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    if version is not None:
        return [ok("pgvector", str(version))]
    remedy = "Install pgvector on the server, and as its administrator: CREATE EXTENSION vector"
    return [failed("pgvector", "the extension is not in the database of ingestion", remedy)]


async def _clock(service: str, connection: Connection) -> Finding:
    before = time.time()
    theirs = await fetch_value(connection, "SELECT extract(epoch FROM clock_timestamp())::float8")
    return compare_clocks(f"clock of database of {service}", float(theirs), before, time.time())
