"""Compiles an OpenAPI document. Runs as a process of its own, which can do nothing else."""

from typing import Any

from libs.confined import answer_job
from services.runtime.adapters.tools.toolsets.openapi.document import parse_document
from services.runtime.adapters.tools.toolsets.openapi.operation import Target
from services.runtime.adapters.tools.toolsets.openapi.operations import compile_operations


def compile_document(job: dict[str, Any]) -> dict[str, Any]:
    """The tools of the job's `document`, text or values. Raises JobRefused."""
    document = job["document"]
    target = Target(job["base_url"], job["document_url"], frozenset(name.lower() for name in job["headers"]))
    contents = parse_document(document) if isinstance(document, str) else document
    return compile_operations(contents, target, job["operations"]).model_dump()


if __name__ == "__main__":
    answer_job(compile_document)
