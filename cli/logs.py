"""The `aes logs` command."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from cli.terminal import Json, failures_explained, print_json
from deploy.local.errors import StackError
from deploy.local.files import tail
from deploy.local.home import Home

app = typer.Typer(add_completion=False)
_POLL_SECONDS = 0.3


@app.command()
def logs(
    service: Annotated[
        str | None,
        typer.Argument(help="Show only this process, such as runtime, kafka or postgres.", show_default="all"),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines as they arrive.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of lines to print.")] = 50,
    json_output: Json = False,
) -> None:
    """Show the embedded stack's logs."""
    directory = Home.from_environment().logs
    with failures_explained(json_output):
        files = {path.stem: path for path in sorted(directory.glob("*.log"))}
        if not files:
            raise StackError("There are no logs yet.", "Start the stack with: ./aes up")
        if service is not None:
            # Each process of a service has its own log.
            files = {name: path for name, path in files.items() if name == service or name.startswith(f"{service}-")}
        if not files:
            known = ", ".join(sorted(path.stem for path in directory.glob("*.log")))
            raise StackError(f"There's no log of {service!r}.", f"Use one of: {known}")
        width = max(map(len, files)) if len(files) > 1 else 0
        offsets = {name: path.stat().st_size for name, path in files.items()}
        for name, path in files.items():
            for line in tail(path, lines):
                _print(name, line, width, json_output)
        while follow:
            for name, path in files.items():
                for line in _news(path, name, offsets):
                    _print(name, line, width, json_output)
            time.sleep(_POLL_SECONDS)


def _news(path: Path, name: str, offsets: dict[str, int]) -> Iterator[str]:
    """Yields the complete lines written since the last call, or all lines if the file has become shorter."""
    size = path.stat().st_size
    if size < offsets[name]:
        offsets[name] = 0
    if size > offsets[name]:
        with path.open("rb") as file:
            file.seek(offsets[name])
            fresh = file.read()
        complete = fresh[: fresh.rfind(b"\n") + 1]
        offsets[name] += len(complete)
        yield from complete.decode(errors="replace").splitlines()


def _print(name: str, line: str, width: int, as_json: bool) -> None:
    if as_json:
        print_json({"service": name, "line": line})
    else:
        print(f"{name:<{width}} | {line}" if width else line, flush=True)
