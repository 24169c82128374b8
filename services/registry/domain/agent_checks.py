"""Checks agents' URLs and origins, and that updates don't set required fields to null."""

import re
from collections.abc import Iterator
from typing import Final

from libs.contracts.errors import ErrorDetail
from libs.contracts.origins import is_origin
from libs.contracts.resources.agents import CreateAgentBody, UpdateAgentBody
from services.registry.domain.findings import found

_NULLABLE: Final = frozenset({"origin_url", "output_schema"})
_HTTP_URL: Final = re.compile(r"https?://[^\s/?#]+(?:[/?#]\S*)?", re.IGNORECASE)


def agent_errors(body: CreateAgentBody | UpdateAgentBody) -> Iterator[ErrorDetail]:
    if isinstance(body, UpdateAgentBody):
        for name in UpdateAgentBody.model_fields:
            if name in body.model_fields_set - _NULLABLE and getattr(body, name) is None:
                hint = "omit the field to keep its value, or send a new one"
                yield found((name,), "null_not_allowed", "must not be null", hint)
    if body.origin_url is not None and not _HTTP_URL.fullmatch(body.origin_url):
        hint = "for example https://example.com/chat"
        yield found(("origin_url",), "url_invalid", "must be an http or https URL", hint)
    for index, origin in enumerate(body.allowed_origins or ()):
        if not is_origin(origin):
            message = "must be an origin: a scheme, a host and optionally a port"
            hint = "use an origin such as https://example.com, without a path or a trailing slash"
            yield found(("allowed_origins", index), "origin_invalid", message, hint)
