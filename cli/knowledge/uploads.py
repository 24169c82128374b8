"""Uploads files concurrently, with a progress bar."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from cli.knowledge.api import FileRefused, KnowledgeApi
from deploy.local.errors import StackError

_AT_ONCE = 4


@dataclass
class Uploads:
    """Results of an upload: records of files, and refused files with the reason."""

    files: list[dict[str, Any]] = field(default_factory=list)
    refused: list[tuple[Path, str]] = field(default_factory=list)


def upload(api: KnowledgeApi, paths: Sequence[Path], console: Console) -> Uploads:
    """Uploads all files; a refused one is reported at once and stops no other."""
    done = Uploads()
    columns = (
        TextColumn("uploading"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TextColumn("{task.fields[files]}"),
    )
    sizes = {path: path.stat().st_size for path in paths}
    with (
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        bar = progress.add_task("", total=sum(sizes.values()), files=f"0/{len(paths)} files")
        uploads = {pool.submit(_upload, api, path): path for path in paths}
        try:
            for count, future in enumerate(as_completed(uploads), start=1):
                path = uploads[future]
                try:
                    done.files.append(future.result())
                except (FileRefused, StackError, OSError) as problem:
                    reason = problem.problem if isinstance(problem, StackError) else str(problem)
                    done.refused.append((path, reason))
                    console.print(f"[red]✗[/] {escape(path.name)}  {escape(reason)}", soft_wrap=True)
                progress.update(bar, advance=sizes[path], files=f"{count}/{len(paths)} files")
        finally:
            pool.shutdown(cancel_futures=True)
    return done


def _upload(api: KnowledgeApi, path: Path) -> dict[str, Any]:
    with path.open("rb") as content:
        return api.upload(path.name, content)
