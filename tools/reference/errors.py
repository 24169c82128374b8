"""Generates the tables of docs/reference/errors.md from the error catalog and the protocols' error formats."""

import json
from collections.abc import Iterable

from libs.contracts.error_catalogue import CANCEL_REASONS, DISABLED_REASONS, ERRORS, FILE_ERRORS, FINDINGS, Explanation
from libs.contracts.errors import ErrorInfo, ErrorKind
from services.gateway.entrypoints.a2a.errors import SHAPE as A2A
from services.gateway.entrypoints.mcp.application import SHAPE as MCP
from services.gateway.entrypoints.openai.conventions import error_fields
from tools.reference.markdown import table


def parts() -> dict[str, str]:
    return {
        "types": _types(),
        "details": table(("`type`", "what is wrong"), ((f"`{kind}`", meaning) for kind, meaning in FINDINGS.items())),
        "other protocols": _protocols(),
        "files": _reasons(FILE_ERRORS.items()),
        "cancelled turns": _reasons(CANCEL_REASONS.items()),
        "disabled webhooks": _reasons(DISABLED_REASONS.items()),
    }


def _types() -> str:
    entries = sorted(ERRORS.items(), key=lambda item: item[1].status)
    rows = ((str(entry.status), f"`{kind}`", entry.meaning, entry.advice) for kind, entry in entries)
    return table(("status", "`type`", "what happened", "what to do"), rows)


def _protocols() -> str:
    return table(("`type`", "OpenAI `type`", "OpenAI `code`", "A2A", "MCP"), (_codes(kind) for kind in ERRORS))


def _codes(kind: ErrorKind) -> tuple[str, ...]:
    info = ErrorInfo(type=kind, message="")
    openai = error_fields(info)
    a2a, mcp = (json.loads(shape.body(info))["error"]["code"] for shape in (A2A, MCP))
    return f"`{kind}`", f"`{openai['type']}`", f"`{openai['code']}`", str(a2a), str(mcp)


def _reasons(codes: Iterable[tuple[str, Explanation]]) -> str:
    rows = ((f"`{code}`", explained.meaning, explained.advice) for code, explained in codes)
    return table(("code", "what happened", "what to do"), rows)
