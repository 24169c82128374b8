"""The `aes kb` commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from cli.commands import Commands
from cli.connection import ApiKey, BaseUrl, connected
from cli.kb_files import find_files
from cli.kb_progress import follow, upload
from cli.terminal import Json, location_in, note, print_json, shortened, show_table
from deploy.local.errors import StackError

if TYPE_CHECKING:
    from aes_client import Client
    from aes_client.models import Citation, Collection, File, KnowledgeBase

app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False)
_WIDEST_PASSAGE = 400
_FILES_AT_ONCE = 1000


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the knowledge base.")],
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Files and folders to ingest.")],
    description: Annotated[str, typer.Option("--description", help="Description of the content.")] = "",
    strategy: Annotated[
        str,
        typer.Option(
            "--strategy", help="Chunking strategy: recursive, fixed_size, sentence, paragraph, page, markdown or row."
        ),
    ] = "recursive",
    chunk_size: Annotated[int, typer.Option("--chunk-size", min=1, help="Maximum chunk size; see --split-by.")] = 512,
    chunk_overlap: Annotated[
        int | None,
        typer.Option(
            "--chunk-overlap",
            min=0,
            help="Overlap with the previous chunk.",
            show_default="an eighth of the size, but no more than 64",
        ),
    ] = None,
    split_by: Annotated[
        str, typer.Option("--split-by", help="Size unit: token, word, sentence, passage, page, line or character.")
    ] = "token",
    engine: Annotated[
        str | None, typer.Option("--engine", help="Engine: pgvector or weaviate.", show_default="the installation's")
    ] = None,
    embedding: Annotated[
        str | None,
        typer.Option(
            "--embedding", help="Embedding model, such as openai:text-embedding-3-small.", show_default="wordllama"
        ),
    ] = None,
    json_output: Json = False,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Upload files and folders, create a knowledge base from them, and follow its ingestion.

    Exits with 1 if a file couldn't be ingested. All other files are searchable.
    """
    settings: dict[str, Any] = {
        "name": name,
        "description": description,
        "chunking_strategy": {
            "strategy": strategy,
            "chunk_size": chunk_size,
            "split_by": split_by,
        },
    }
    if chunk_overlap is not None:
        settings["chunking_strategy"]["chunk_overlap"] = chunk_overlap
    if engine is not None:
        settings["processing_engine"] = engine
    if embedding is not None:
        provider, _, model = embedding.partition(":")
        settings["embedding_config"] = {"provider": provider, "model": model}
    with connected(json_output, base_url, api_key) as client:
        complete = _create(client, settings, paths, json_output)
    if not complete:
        raise typer.Exit(1)


@app.command("list")
def list_all(json_output: Json = False, base_url: BaseUrl = None, api_key: ApiKey = None) -> None:
    """List the company's knowledge bases."""
    with connected(json_output, base_url, api_key) as client:
        found = list(client.knowledge_bases.list())
    rows = [
        (each.id, each.name, _status(each), f"{each.datasource_count}/{each.total_datasources}", each.processing_engine)
        for each in found
    ]
    show_table(json_output, {"knowledge_bases": found}, ("id", "name", "status", "files", "engine"), rows)


@app.command()
def search(
    knowledge_base: Annotated[str, typer.Argument(help="Knowledge base ID or name.")],
    query: Annotated[list[str], typer.Argument(help="Search query.")],
    mode: Annotated[str, typer.Option("--mode", help="Search mode: hybrid, semantic or keyword.")] = "hybrid",
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, max=100, help="Maximum number of passages.")] = 5,
    json_output: Json = False,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Search a knowledge base in the same way as agents do."""
    wanted: Any = {"query": " ".join(query), "mode": mode, "top_k": top_k}
    with connected(json_output, base_url, api_key) as client:
        reply = client.knowledge_bases.search(_find(client, knowledge_base).id, **wanted)
    if json_output:
        print_json(reply)
        return
    _show_passages(reply.results)


def _find(client: Client, name_or_id: str) -> KnowledgeBase:
    """Returns the knowledge base with this ID or name. Raises StackError if there's none, or several."""
    from aes_client import NotFoundError

    # An empty ID can't be requested.
    with suppress(NotFoundError, ValueError):
        return client.knowledge_bases.get(name_or_id)
    named = [base for base in client.knowledge_bases.list() if base.name == name_or_id]
    if len(named) == 1:
        return named[0]
    if named:
        ids = ", ".join(base.id for base in named)
        raise StackError(f"{len(named)} knowledge bases are named {name_or_id!r}.", f"Use an ID instead: {ids}")
    raise StackError(f"There's no knowledge base {name_or_id!r}.", "List them with: ./aes kb list")


def _create(client: Client, settings: dict[str, Any], paths: list[Path], json_output: bool) -> bool:
    """Creates and fills a knowledge base, and follows its ingestion. Returns whether everything succeeded."""
    console = Console(stderr=True, highlight=False)
    files, skipped = find_files(paths)
    if skipped:
        kinds = ", ".join(sorted({path.suffix or path.name for path in skipped})[:10])
        files_of = "file of an unsupported type" if len(skipped) == 1 else "files of unsupported types"
        note(f"Skipped {len(skipped)} {files_of} ({kinds}).")
    if not files:
        raise StackError("No supported files found.", "Specify files, or folders that contain documents.")
    # Check settings before uploading, so that mistakes show immediately.
    base = client.knowledge_bases.create(**settings, ingest=False)
    with _removed_unless_filled(client, base.id):
        uploaded = upload(client, files, console)
        if not uploaded.files:
            raise StackError("No files were accepted, so no knowledge base was created.")
        collection = _collection(client, base.name, uploaded.files)
        client.knowledge_bases.update(base.id, collection_ids=[collection.id])
        client.knowledge_bases.ingest(base.id)
    note(f"Knowledge base {base.id}")
    try:
        base = follow(client, base.id, console)
    except KeyboardInterrupt:
        note("\nThe ingestion continues. Check its progress with: ./aes kb list")
        raise
    if json_output:
        refused = [{"path": str(path), "reason": reason} for path, reason in uploaded.refused]
        skipped_paths = [str(path) for path in skipped]
        print_json(
            {"knowledge_base": base, "collection_id": collection.id, "refused": refused, "skipped": skipped_paths}
        )
    failed = len(base.failed_datasources) + len(uploaded.refused)
    outcome = f"{base.datasource_count} of {len(files)} documents are searchable"
    note(f"{outcome}; {failed} failed." if failed else f"{outcome}.")
    note(f'Try it: ./aes kb search {base.id} "your question"')
    return failed == 0 and base.status == "completed"


def _collection(client: Client, name: str, files: Sequence[File]) -> Collection:
    collection = client.collections.create(name=name)
    for start in range(0, len(files), _FILES_AT_ONCE):
        client.collections.add_files(collection.id, [file.id for file in files[start : start + _FILES_AT_ONCE]])
    return collection


@contextmanager
def _removed_unless_filled(client: Client, knowledge_base_id: str) -> Iterator[None]:
    from aes_client import AesError

    try:
        yield
    except BaseException:
        # The error itself is reported, not a failed clean-up after it.
        with suppress(AesError):
            client.knowledge_bases.delete(knowledge_base_id)
        raise


def _status(base: KnowledgeBase) -> str:
    return f"{base.status} {base.progress} %" if base.status == "running" else base.status


def _show_passages(passages: Sequence[Citation]) -> None:
    console = Console(highlight=False)
    if not passages:
        note("No passages found.")
    for number, passage in enumerate(passages, 1):
        text = shortened(" ".join(passage.passage.split()), _WIDEST_PASSAGE)
        location = location_in(passage)
        score = f"  {passage.score:.3f}" if passage.score is not None else ""
        heading = (f"{number}  ", "bold cyan"), (f"{passage.file_name or ''}{location}", "bold"), (score, "dim")
        console.print(Text.assemble(*heading))
        console.print(Padding(Text(text), (0, 0, 1, 3)))
