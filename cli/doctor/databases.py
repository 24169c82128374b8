"""Checks each service's database: its connection, migrations, secrets and clock, and recent internal errors."""

import asyncio
import time
from collections.abc import Mapping
from functools import partial

import psycopg

from cli.doctor.findings import Check, Finding, compare_clocks, failed, ok, warning
from deploy.local.home import PROJECT_ROOT
from libs.persistence import Connection, IncompatibleSchema, fetch_value, is_migrated, newest_revision
from libs.secrets import key_id, parse_keys
from libs.secrets.stored import SECRET_TABLES, SecretTable


def database_checks(urls: Mapping[str, str], secrets_key: str) -> list[Check]:
    remedy = (
        "Start PostgreSQL, or fix the server, role or password in AES_{}_DATABASE_URL. With TLS, also check "
        "sslmode and sslrootcert."
    )
    return [
        Check(f"database of {service}", partial(_database, service, url, secrets_key), remedy.format(service.upper()))
        for service, url in urls.items()
    ]


async def _database(service: str, url: str, secrets_key: str) -> list[Finding]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True, connect_timeout=10) as connection:
        version = connection.info.server_version // 10000
        findings = [ok(f"database of {service}", f"PostgreSQL {version} responds{_encryption(connection)}")]
        findings.append(await _migrations(service, url, connection))
        if service == "ingestion":
            findings += await _vectors(connection)
        if secrets_key and findings[-1].level == "ok":
            findings += [
                await _secrets(connection, table, secrets_key) for table in SECRET_TABLES if table.service == service
            ]
        if findings[1].level == "ok":
            findings.append(await _failures(service, connection))
        findings.append(await _clock(service, connection))
    return findings


def _encryption(connection: Connection) -> str:
    if connection.pgconn.ssl_in_use:
        return ", over TLS"
    # A Unix socket doesn't need TLS.
    return "" if connection.info.host.startswith("/") else ", unencrypted"


async def _migrations(service: str, url: str, connection: Connection) -> Finding:
    migrations = PROJECT_ROOT / "services" / service / "migrations"
    check, newest = f"migrations of {service}", newest_revision(migrations)
    try:
        migrated = await asyncio.to_thread(is_migrated, url, migrations)
    except IncompatibleSchema as problem:
        return failed(check, "the database has an outdated schema", str(problem))
    found = await fetch_value(connection, "SELECT to_regclass('alembic_version')::text")
    at = await fetch_value(connection, "SELECT version_num FROM alembic_version") if found else None
    if not migrated:
        return failed(check, f"at {at or 'none'}, needs {newest}", f"Run: python -m services.{service} migrate")
    if str(at) > newest:
        return warning(
            check, f"at {at}, newer than this release ({newest})", "Run the release that migrated this database."
        )
    return ok(check, f"at {at}")


async def _vectors(connection: Connection) -> list[Finding]:
    version = await fetch_value(connection, "SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    if version is not None:
        return [ok("pgvector", str(version))]
    remedy = "Install pgvector on the server. As its administrator, run: CREATE EXTENSION vector"
    return [failed("pgvector", "the extension isn't installed in the ingestion database", remedy)]


async def _secrets(connection: Connection, table: SecretTable, secrets_key: str) -> Finding:
    """Checks that every stored secret can be decrypted and is encrypted with the first key."""
    check = table.what
    try:
        ids = [key_id(key) for key in parse_keys(secrets_key)]
    except ValueError:
        return failed(check, "AES_SECRETS_KEY is invalid, so secrets can't be decrypted", "Fix AES_SECRETS_KEY.")
    found = await table.count_by_key(connection)
    lost = sum(count for under, count in found.items() if under not in ids)
    old = sum(count for under, count in found.items() if under in ids[1:])
    if lost:
        remedy = "Add the missing key to AES_SECRETS_KEY, or store these secrets again."
        return failed(check, f"not encrypted with any key in AES_SECRETS_KEY: {lost} of {sum(found.values())}", remedy)
    if old:
        remedy = "Run ./aes secrets rotate before you remove keys."
        return warning(check, f"not encrypted with the first key yet: {old} of {sum(found.values())}", remedy)
    total = sum(found.values())
    return ok(check, f"all {total} encrypted with the first key" if total else "none stored")


async def _failures(service: str, connection: Connection) -> Finding:
    """Counts the internal errors in the last day's events, and lists the newest ones."""
    check = f"internal errors of {service}"
    found = await connection.execute(
        """SELECT count(*) OVER (), correlation_id, type, cause FROM outbox
           WHERE cause IS NOT NULL AND created_at > now() - interval '1 day' ORDER BY id DESC LIMIT 3"""
    )
    rows = await found.fetchall()
    if not rows:
        return ok(check, "none in the last day")
    newest = "; ".join(f"{correlation_id}: {kind}, {cause}" for _, correlation_id, kind, cause in rows)
    remedy = "GET /operations/failures/ lists all of them. Search the log for the correlation ID, and report the cause."
    return warning(check, f"{rows[0][0]} in the last day, newest first: {newest}", remedy)


async def _clock(service: str, connection: Connection) -> Finding:
    before = time.time()
    theirs = await fetch_value(connection, "SELECT extract(epoch FROM clock_timestamp())::float8")
    return compare_clocks(f"clock of the {service} database", float(theirs), before, time.time())
