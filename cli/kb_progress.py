"""Shows the progress of uploads and ingestion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

if TYPE_CHECKING:
    from aes_client import Client
    from aes_client.models import DatasourceError, File, KnowledgeBase


@dataclass
class Uploads:
    """The stored files, and the rejected files with the reasons."""

    files: list[File] = field(default_factory=list)
    refused: list[tuple[Path, str]] = field(default_factory=list)


def upload(client: Client, paths: Sequence[Path], console: Console) -> Uploads:
    """Uploads all files. A rejected file is reported immediately and doesn't stop the others."""
    done = Uploads()
    columns = (
        TextColumn("uploading"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TextColumn("{task.fields[files]}"),
    )
    sizes = [path.stat().st_size for path in paths]
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=sum(sizes), files=f"0/{len(paths)} files")
        for path, size, each in zip(paths, sizes, client.files.upload_many(paths), strict=True):
            if each.file is not None:
                done.files.append(each.file)
            else:
                reason = str(each.error)
                done.refused.append((path, reason))
                console.print(f"[red]✗[/] {escape(path.name)}  {escape(reason)}", soft_wrap=True)
            progress.update(bar, advance=size, files=f"{each.done}/{each.total} files")
    return done


def follow(client: Client, knowledge_base_id: str, console: Console) -> KnowledgeBase:
    """Shows an ingestion live. Returns the knowledge base when the ingestion ends."""
    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("documents  {task.fields[detail]}"),
        TimeElapsedColumn(),
    )
    printed: set[str] = set()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("queued", total=None, detail="")

        def tell(base: KnowledgeBase) -> None:
            _show(progress, bar, base)
            for datasource_id, error in base.datasource_errors.items():
                if datasource_id not in printed:
                    printed.add(datasource_id)
                    console.print(_failure_line(base, datasource_id, error), soft_wrap=True)

        return client.knowledge_bases.wait(knowledge_base_id, timeout=None, on_progress=tell)


def _failure_line(base: KnowledgeBase, datasource_id: str, error: DatasourceError) -> str:
    snapshot = base.datasource_snapshots.get(datasource_id)
    name = datasource_id if snapshot is None else snapshot.name
    return f"[red]✗[/] {escape(name)}  {escape(error.message)} [dim]({escape(f'{error.phase}, {error.code}')})[/]"


def _show(progress: Progress, bar: Any, base: KnowledgeBase) -> None:
    chunks = base.processing_metadata.get("processed_chunks")
    progress.update(
        bar,
        description=base.processing_metadata.get("phase") or base.status,
        completed=base.datasource_count + len(base.failed_datasources),
        total=base.total_datasources or None,
        detail=f"{chunks:,} chunks" if chunks else "",
    )
