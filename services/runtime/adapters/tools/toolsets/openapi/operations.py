"""Compiles the operations of an OpenAPI document into tools. Runs in a sandboxed process."""

import json
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Final

from libs.confined import JobRefused, answer_job
from libs.contracts.resources.toolsets import MAX_TOOLS, ConnectedTool, DiscoveredTools, LeftOutTool
from services.runtime.adapters.tools.toolsets.openapi.arguments import LONGEST_DESCRIPTION, Arguments
from services.runtime.adapters.tools.toolsets.openapi.document import Document, Operation, Target, parse_document
from services.runtime.adapters.tools.toolsets.openapi.rendering import OperationBinding
from services.runtime.adapters.tools.toolsets.openapi.schemas import Schemas, distinct

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME: Final = 60
_LARGEST_OF_ALL: Final = 3_000_000


def compile_operations(contents: Any, target: Target, chosen: Sequence[str] | None) -> DiscoveredTools:
    """Returns the document's tools, or only those for the `chosen` operations. Omits unusable operations.

    Raises JobRefused if a chosen operation can't become a tool, or if no tool remains.
    """
    document = Document.of(contents)
    found = list(document.operations())
    if chosen is not None:
        found = _choose(found, chosen)
    if not found:
        raise JobRefused("the document doesn't contain any operations")
    if len(found) > MAX_TOOLS:
        raise JobRefused(
            f"the document has {len(found)} operations. The maximum is {MAX_TOOLS}; select some with `operations`"
        )
    schemas, names, size = Schemas(document), set[str](), 0
    tools, refusals = [], list[tuple[str, JobRefused]]()
    for operation in found:
        try:
            tool = _tool(operation, schemas, target, names)
        except JobRefused as refusal:
            if chosen is not None:
                raise
            refusals.append((operation.id or operation.label, refusal))
            continue
        size += len(json.dumps(tool.parameters))
        if size > _LARGEST_OF_ALL:
            raise JobRefused("the schemas of all operations together are too large; select fewer with `operations`")
        tools.append(tool)
    if not tools:
        raise refusals[0][1]
    return DiscoveredTools(tools=tools, left_out=[LeftOutTool.of(name, str(refusal)) for name, refusal in refusals])


def _choose(found: Sequence[Operation], chosen: Iterable[str]) -> list[Operation]:
    by_name = {operation.label: operation for operation in found}
    by_name |= {operation.id: operation for operation in found if operation.id is not None}
    picked: dict[str, Operation] = {}
    for name in chosen:
        method, _, path = name.partition(" ")
        operation = by_name.get(name) or by_name.get(f"{method.upper()} {path}")
        if operation is None:
            near = get_close_matches(name, by_name, n=3)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise JobRefused(f"the document doesn't have an operation {name!r}{hint}")
        picked.setdefault(operation.label, operation)
    return list(picked.values())


def _tool(operation: Operation, schemas: Schemas, target: Target, names: set[str]) -> ConnectedTool:
    parsed = operation.parsed()
    arguments = Arguments(operation, schemas, target.headers)
    binding = OperationBinding(
        method=operation.method.upper(),
        url=operation.url(parsed.servers, target),
        parameters=arguments.parameters(),
        body=arguments.body(),
    )
    name = _NOT_IN_NAMES.sub("_", operation.id or operation.label.lower()).strip("_")
    return ConnectedTool(
        name=distinct(name[:_LONGEST_NAME] or "operation", names),
        description=_described(parsed.summary, parsed.description) or operation.label,
        parameters=arguments.schema(),
        safe_to_repeat=operation.safe,
        binding=binding.model_dump(exclude_defaults=True),
    )


def _described(summary: str | None, description: str | None) -> str:
    parts = dict.fromkeys(part.strip() for part in (summary, description) if part and part.strip())
    text = "\n\n".join(parts)
    return text if len(text) <= LONGEST_DESCRIPTION else text[: LONGEST_DESCRIPTION - 1] + "…"


def compile_document(job: dict[str, Any]) -> dict[str, Any]:
    """Returns the tools of the job's `document`, which is text or already parsed. Raises JobRefused."""
    document = job["document"]
    target = Target(job["base_url"], job["document_url"], frozenset(name.lower() for name in job["headers"]))
    contents = parse_document(document) if isinstance(document, str) else document
    return compile_operations(contents, target, job["operations"]).model_dump()


if __name__ == "__main__":
    answer_job(compile_document)
