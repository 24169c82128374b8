"""Sends tools' requests to their targets."""

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import aiohttp
import orjson

from libs.contracts.resources.toolsets import ConnectedTool
from libs.json_text import without_half_escapes
from libs.outbound import FetchFailed, FetchLimits, FetchRefused, GuardedHttp, GuardedResolver
from services.runtime.adapters.models.failures import retry_after_seconds
from services.runtime.adapters.tools.answer_text import decoded, is_json, is_text
from services.runtime.adapters.tools.toolsets.secrets import ToolsetSecrets
from services.runtime.domain.tools import ToolContext, ToolFailed, ToolOutput
from services.runtime.domain.toolsets import RESERVED_HEADERS, Toolset

# The caller sets the call's time limit.
_LIMITS: Final = FetchLimits(timeout=None, largest_bytes=1_000_000, connect=5.0)
_LONGEST_ERROR: Final = 2_000
_OTHER_TEXTS: Final = frozenset({"application/x-ndjson", "application/x-www-form-urlencoded", "application/graphql"})
_MAY_PASS: Final = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """A request to a tool's target. `headers` may reference secrets, which are resolved when the request is sent."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None


class HttpTarget:
    def __init__(self, resolver: GuardedResolver, secrets: ToolsetSecrets) -> None:
        self._secrets = secrets
        self._http = GuardedHttp(resolver=resolver, limits=_LIMITS, accept="application/json, text/*;q=0.9, */*;q=0.1")

    async def close(self) -> None:
        await self._http.close()

    async def send(
        self, request: TargetRequest, toolset: Toolset, tool: ConnectedTool, context: ToolContext
    ) -> ToolOutput:
        """Sends the request and returns the response's text. Raises ToolFailed if the call fails.

        A call that isn't safe to repeat is sent only once, over a new connection.
        """
        headers = self._secrets.headers(toolset, request.headers)
        headers = {name: value for name, value in headers.items() if name.lower() not in RESERVED_HEADERS}
        headers["Idempotency-Key"] = context.idempotency_key
        pool = (toolset.company_id, toolset.name) if tool.safe_to_repeat else None
        sent = self._http.request(request.method, request.url, headers=headers, body=request.body, pool=pool)
        try:
            async with sent as response:
                body, whole = await self._http.read_beginning(response)
                return ToolOutput(_text(response, body, whole=whole), cut=not whole)
        except FetchFailed as problem:
            raise ToolFailed(f"The call failed: {problem}.{_doubt(tool, problem)}", retry=True) from None
        except FetchRefused as problem:
            raise ToolFailed(f"The call failed: {problem}.") from None


def _doubt(tool: ConnectedTool, problem: FetchFailed) -> str:
    if tool.safe_to_repeat or not problem.sent:
        return ""
    return " It's unknown whether the target executed it."


def _text(response: aiohttp.ClientResponse, body: bytes, *, whole: bool) -> str:
    status, kind = response.status, response.content_type
    text = decoded(body, response.charset, cut=not whole) if _is_text(kind, body, whole=whole) else None
    if text is not None and is_json(kind):
        text = without_half_escapes(text.encode()).decode()
    if status >= 400:
        text = (text or "")[:_LONGEST_ERROR]
        raise ToolFailed(
            f"The target returned status {status}" + (f": {text}" if text.strip() else "."),
            retry=status in _MAY_PASS or status >= 500,
            retry_after=retry_after_seconds(response.headers),
        )
    if not body:
        return f"(status {status}, no content)"
    if text is None:
        raise ToolFailed(f"The target returned content of type {kind[:100]}, which isn't text.")
    if whole and is_json(kind):
        try:
            orjson.loads(text)
        except orjson.JSONDecodeError:
            raise ToolFailed(
                f"The target's response isn't valid JSON, despite its content type: {text[:500]}"
            ) from None
    return text


def _is_text(kind: str, body: bytes, *, whole: bool) -> bool:
    if is_text(kind) or kind in _OTHER_TEXTS:
        return True
    # aiohttp reports this type for a response without a content type.
    return kind == "application/octet-stream" and b"\0" not in body and _is_utf8(body, whole=whole)


def _is_utf8(body: bytes, *, whole: bool) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(body, final=whole)
    except UnicodeDecodeError:
        return False
    return True
