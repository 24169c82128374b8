"""Uploads files, with a progress bar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

if TYPE_CHECKING:
    from aes_client import Client
    from aes_client.models import File


@dataclass
class Uploads:
    """Results of an upload: records of files, and refused files with the reason."""

    files: list[File] = field(default_factory=list)
    refused: list[tuple[Path, str]] = field(default_factory=list)


def upload(client: Client, paths: Sequence[Path], console: Console) -> Uploads:
    """Uploads all files; a refused one is reported at once and stops no other."""
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
