"""The runtime's built-in tools."""

from collections.abc import Iterable

from libs.outbound import GuardedResolver
from services.runtime.adapters.tools.artifacts.artifact_create import ArtifactCreate
from services.runtime.adapters.tools.artifacts.artifact_reading import ArtifactRead, ArtifactSearch
from services.runtime.adapters.tools.artifacts.table_query import TableQuery
from services.runtime.adapters.tools.calculator import Calculator
from services.runtime.adapters.tools.current_time import CurrentTime
from services.runtime.adapters.tools.http_get import HttpGet
from services.runtime.adapters.tools.knowledge_search import KnowledgeSearch
from services.runtime.domain.artifacts import SessionArtifacts
from services.runtime.domain.knowledge import KnowledgeRetriever
from services.runtime.domain.tools import Tool, Toolbox


def builtin_tools(
    http_hosts: Iterable[str] = (),
    retriever: KnowledgeRetriever | None = None,
    artifacts: SessionArtifacts | None = None,
    resolver: GuardedResolver | None = None,
) -> Toolbox:
    """Creates the built-in tools. Search needs a retriever, and file tools need artifacts.

    `http_get` may access `http_hosts`, whose addresses `resolver` checks.
    """
    tools: list[Tool] = [Calculator(), CurrentTime(), HttpGet(http_hosts, resolver=resolver)]
    if retriever is not None:
        tools.append(KnowledgeSearch(retriever))
    if artifacts is not None:
        tools += [ArtifactRead(artifacts), ArtifactSearch(artifacts), TableQuery(artifacts), ArtifactCreate(artifacts)]
    return Toolbox(*tools)
