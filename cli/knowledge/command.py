"""`aes kb`."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from cli.connection import ApiKey, BaseUrl, connect
from cli.knowledge.api import KnowledgeApi
from cli.knowledge.folder import find_files
from cli.knowledge.following import follow
from cli.knowledge.uploads import upload
from cli.terminal import Json, failures_explained, note, print_json, print_table
from deploy.local.errors import StackError

app = typer.Typer(help="Manage knowledge bases.", no_args_is_help=True, add_completion=False)
_WIDEST_PASSAGE = 400


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What the knowledge base is called.")],
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Files and folders to be taken up.")],
    description: Annotated[str, typer.Option("--description", help="What is in it.")] = "",
    strategy: Annotated[
        str, typer.Option("--strategy", help="recursive, fixed_size, sentence, paragraph, page, markdown or row.")
    ] = "recursive",
    chunk_size: Annotated[int, typer.Option("--chunk-size", min=1, help="Most units in a passage.")] = 512,
    chunk_overlap: Annotated[
        int | None,
        typer.Option(
            "--chunk-overlap",
            min=0,
            help="Units that a passage repeats of the one before.",
            show_default="an eighth of the size, 64 at most",
        ),
    ] = None,
    split_by: Annotated[
        str, typer.Option("--split-by", help="The unit: token, word, sentence, passage, page, line or character.")
    ] = "token",
    engine: Annotated[
        str | None, typer.Option("--engine", help="pgvector or weaviate.", show_default="the installation's")
    ] = None,
    embedding: Annotated[
        str | None,
        typer.Option(
            "--embedding", help="As provider:model, such as openai:text-embedding-3-small.", show_default="wordllama"
        ),
    ] = None,
    json_output: Json = False,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Upload files and folders, make a knowledge base of them, and follow its ingestion.

    Ends with exit code 1 when anything could not be taken up; the rest is searchable all the same.
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
    with failures_explained(json_output), _api(base_url, api_key) as api:
        complete = _create(api, settings, paths, json_output)
    if not complete:
        raise typer.Exit(1)


@app.command("list")
def list_all(json_output: Json = False, base_url: BaseUrl = None, api_key: ApiKey = None) -> None:
    """List the knowledge bases of the company."""
    with failures_explained(json_output), _api(base_url, api_key) as api:
        found = list(api.knowledge_bases())
    if json_output:
        print_json({"knowledge_bases": found})
        return
    _show_knowledge_bases(found)


@app.command()
def search(
    knowledge_base: Annotated[str, typer.Argument(help="Id or name of the knowledge base.")],
    query: Annotated[list[str], typer.Argument(metavar="QUERY…", help="What is looked for.")],
    mode: Annotated[str, typer.Option("--mode", help="hybrid, semantic or keyword.")] = "hybrid",
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, max=100, help="Most passages.")] = 5,
    json_output: Json = False,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Search a knowledge base as agents do."""
    with failures_explained(json_output), _api(base_url, api_key) as api:
        base = api.find(knowledge_base)
        reply = api.search(base["id"], {"query": " ".join(query), "mode": mode, "top_k": top_k})
    if json_output:
        print_json(reply)
        return
    _show_passages(reply["results"])


@contextmanager
def _api(base_url: str | None, api_key: str | None) -> Iterator[KnowledgeApi]:
    with connect(base_url, api_key).client() as client:
        yield KnowledgeApi(client)


def _create(api: KnowledgeApi, settings: dict[str, Any], paths: list[Path], json_output: bool) -> bool:
    """Uploads and ingests; returns whether everything succeeded."""
    console = Console(stderr=True, highlight=False)
    files, skipped = find_files(paths)
    if skipped:
        kinds = ", ".join(sorted({path.suffix or path.name for path in skipped})[:10])
        note(f"Left out, being of other kinds ({kinds}): {len(skipped)}.")
    if not files:
        raise StackError("There is no file to take up.", "Name files, or folders that hold documents.")
    # Settings are checked before files are uploaded, so that a mistake shows at once.
    base = api.create(settings)
    with _removed_unless_filled(api, base["id"]):
        uploaded = upload(api, files, console)
        if not uploaded.files:
            raise StackError("No file was accepted, and so there is no knowledge base.")
        collection = api.create_collection(settings["name"], [file["id"] for file in uploaded.files])
        api.fill(base["id"], collection["id"])
    note(f"knowledge base {base['id']}")
    try:
        base = follow(api, base["id"], console)
    except KeyboardInterrupt:
        note("\nThe ingestion goes on. See how far it is with: ./aes kb list")
        raise
    if json_output:
        refused = [{"path": str(path), "reason": reason} for path, reason in uploaded.refused]
        skipped_paths = [str(path) for path in skipped]
        print_json(
            {"knowledge_base": base, "collection_id": collection["id"], "refused": refused, "skipped": skipped_paths}
        )
    failed = len(base["failed_datasources"]) + len(uploaded.refused)
    outcome = f"{base['datasource_count']} of {len(files)} documents are searchable"
    note(f"{outcome}, {failed} are not." if failed else f"{outcome}.")
    note(f'Try it: ./aes kb search {base["id"]} "your question"')
    return failed == 0 and base["status"] == "completed"


@contextmanager
def _removed_unless_filled(api: KnowledgeApi, knowledge_base_id: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        # The error itself is reported; a failed clean-up after it is not.
        with suppress(StackError):
            api.delete(knowledge_base_id)
        raise


def _show_knowledge_bases(found: list[dict[str, Any]]) -> None:
    rows = []
    for base in found:
        status = f"{base['status']} {base['progress']} %" if base["status"] == "running" else base["status"]
        documents = f"{base['datasource_count']}/{base['total_datasources']}"
        rows.append((base["id"], base["name"], status, documents, base["processing_engine"]))
    print_table(("id", "name", "status", "files", "engine"), rows)


def _show_passages(passages: list[dict[str, Any]]) -> None:
    console = Console(highlight=False)
    if not passages:
        note("Nothing fits.")
    for number, passage in enumerate(passages, 1):
        text = " ".join(passage["passage"].split())
        if len(text) > _WIDEST_PASSAGE:
            text = text[:_WIDEST_PASSAGE] + "…"
        place = "".join(f", {kind} {passage[kind]}" for kind in ("page", "row") if passage.get(kind) is not None)
        score = f"  {passage['score']:.3f}" if passage.get("score") is not None else ""
        heading = (f"{number}  ", "bold cyan"), (f"{passage.get('file_name') or ''}{place}", "bold"), (score, "dim")
        console.print(Text.assemble(*heading))
        console.print(Padding(Text(text), (0, 0, 1, 3)))
