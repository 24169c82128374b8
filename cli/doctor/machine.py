"""Checks this machine's disks, the embedded stack's ports and processes, the signing key and the secrets keys."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cli.doctor.findings import Check, Finding, failed, ok, skipped, warning
from deploy.local.files import read_json
from deploy.local.home import Home
from deploy.local.ports import is_free
from deploy.local.status import read_status
from libs.secrets import parse_keys

_GIB: Final = 1024**3
_LOW_BYTES: Final = 5 * _GIB
_FULL_BYTES: Final = _GIB
_SHORTEST_KEY: Final = 32


def machine_checks(
    signing_key: str, secrets_key: str, directories: Mapping[str, Path], home: Home | None
) -> list[Check]:
    async def keys() -> list[Finding]:
        return [_signing_key(signing_key), _secrets_key(secrets_key)]

    async def disks() -> list[Finding]:
        if not directories:
            return [skipped("disks", "not checked: no data on this machine")]
        return [_disk(what, path) for what, path in directories.items()]

    checks = [Check("keys", keys, ""), Check("disk", disks, "Check the disk.")]
    if home is not None:
        checks.append(Check("stack", lambda: _stack(home), "Read the log: ./aes logs supervisor"))
    return checks


def _signing_key(key: str) -> Finding:
    remedy = "Set AES_SIGNING_KEY to the same secret for all services. Generate one with: openssl rand -hex 32"
    if not key:
        return skipped("signing key", "not checked: AES_SIGNING_KEY isn't set here")
    if len(key) < _SHORTEST_KEY:
        return failed("signing key", f"fewer than {_SHORTEST_KEY} characters", remedy)
    if len(set(key)) < _SHORTEST_KEY // 4:
        return warning("signing key", "doesn't look random", remedy)
    return ok("signing key", f"{len(key)} characters")


def _secrets_key(keys: str) -> Finding:
    remedy = "Generate AES_SECRETS_KEY with: openssl rand -base64 32"
    if not keys:
        return skipped("secrets key", "not checked: AES_SECRETS_KEY isn't set here")
    try:
        found = parse_keys(keys)
    except ValueError as problem:
        return failed("secrets key", str(problem), remedy)
    if len(set(found[0])) < len(found[0]) // 2:
        return warning("secrets key", "doesn't look random", remedy)
    several = f"; keys only for decryption: {len(found) - 1}" if len(found) > 1 else ""
    return ok("secrets key", f"32 bytes{several}")


def _disk(what: str, path: Path, low: int = _LOW_BYTES, full: int = _FULL_BYTES) -> Finding:
    check = f"disk of {what}"
    there = path
    # If a directory doesn't exist yet, the disk that it will be on is checked.
    while not there.exists():
        there = there.parent
    if not os.access(there, os.W_OK):
        return failed(check, f"{there} isn't writable", "Make it writable for the user that runs the services.")
    free = shutil.disk_usage(there).free
    detail = f"{free / _GIB:.1f} GiB free at {there}"
    if free >= low:
        return ok(check, detail)
    remedy = "Free some space. Kafka and PostgreSQL stop when the disk is full."
    return failed(check, detail, remedy) if free < full else warning(check, detail, remedy)


async def _stack(home: Home) -> list[Finding]:
    status = await read_status(home)
    if status.state in ("starting", "stopping"):
        return [failed("stack", f"the stack is {status.state}", "Wait a moment, then run ./aes doctor again.")]
    if status.state not in ("running", "degraded"):
        return [failed("stack", f"the stack is {status.state}", "Start it with: ./aes up"), *_ports(home)]
    findings = [
        failed(f"process {name}", f"{part.state} {part.detail}".rstrip(), f"Read the log: ./aes logs {name}")
        for name, part in status.unready.items()
    ]
    findings += [
        warning(f"process {name}", f"crashed and was restarted {_times(unasked)}", f"Read the log: ./aes logs {name}")
        for name, part in status.parts.items()
        if (unasked := part.restarts - part.asked_restarts)
    ]
    # The demo and upgrades restart the runtime deliberately.
    asked = [f"{name} {_times(part.asked_restarts)}" for name, part in status.parts.items() if part.asked_restarts]
    restarted = f"; restarted on request: {', '.join(asked)}" if asked else ""
    return findings or [ok("stack", f"all {len(status.parts)} processes are ready{restarted}")]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _ports(home: Home) -> list[Finding]:
    remembered = {name: port for name, port in read_json(home.ports_file).items() if isinstance(port, int)}
    taken = [f"{name} ({port})" for name, port in remembered.items() if not is_free(port)]
    if not taken:
        return [ok("ports", "all free")]
    remedy = "The next start uses other ports. To use these again, stop the programs that listen on them."
    return [warning("ports", f"in use by other programs: {', '.join(taken)}", remedy)]
