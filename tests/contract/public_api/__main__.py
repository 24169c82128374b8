"""Writes the baseline anew, after a change of the public API that is meant: ``python -m tests.contract.public_api``."""

import json
from pathlib import Path

from services.gateway.entrypoints.rest.application import openapi_document
from tests.contract.public_api.compact import compact

BASELINE = Path(__file__).parent / "baseline.json"


def write() -> None:
    parts = [_part(name, entries) for name, entries in compact(openapi_document()).items()]
    BASELINE.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def _part(name: str, entries: dict[str, object]) -> str:
    lines = ",\n".join(map(_line, sorted(entries.items())))
    return f'"{name}": {{\n{lines}\n}}'


def _line(entry: tuple[str, object]) -> str:
    name, described = entry
    return f' "{name}": {json.dumps(described, separators=(",", ":"), sort_keys=True, ensure_ascii=False)}'


if __name__ == "__main__":
    write()
