"""Shows the stack's processes while they start and stop."""

import sys
import time

from rich.console import Console
from rich.live import Live
from rich.table import Table

from deploy.local.state import ProcessState, StackState

SIGNS = {
    "waiting": ("·", "dim"),
    "preparing": ("…", "cyan"),
    "starting": ("…", "cyan"),
    "ready": ("✓", "green"),
    "not ready": ("✗", "yellow"),
    "restarting": ("↻", "yellow"),
    "failing": ("✗", "red"),
    "stopping": ("…", "cyan"),
    "stopped": ("·", "dim"),
}
# Downloads don't log a line per file.
_DETAIL_SECONDS = 2.0
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Progress:
    """Prints a live table on a terminal, and a line per change elsewhere."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._shown: dict[str, tuple[tuple[str, str], float]] = {}

    def __enter__(self) -> "Progress":
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, state: StackState) -> None:
        if self._live is not None:
            self._live.update(_table(state), refresh=True)
        else:
            self._print_changes(state)

    def _print_changes(self, state: StackState) -> None:
        rows: dict[str, tuple[str, str]] = {"stack": (state.phase, state.detail)}
        # While the stack stops, a process that's still ready hasn't been asked to stop. That's not a change.
        stops = state.phase in ("stopping", "stopped")
        moved = {name: part for name, part in state.parts.items() if not (stops and part.state == "ready")}
        rows |= {name: (part.state, _detail(part)) for name, part in moved.items()}
        now = time.monotonic()
        for name, row in rows.items():
            known, printed = self._shown.get(name, (("waiting", ""), 0.0))
            only_detail = known[0] == row[0] and now - printed < _DETAIL_SECONDS
            if known != row and not only_detail:
                print(f"{name:<17} {row[0]:<10} {row[1]}".rstrip(), file=sys.stderr, flush=True)
                self._shown[name] = (row, now)


def _table(state: StackState) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1))
    for width in (1, 17, 10):
        table.add_column(min_width=width, no_wrap=True)
    table.add_column(overflow="fold")
    if state.detail:
        table.add_row(_spinner(), f"[bold]{state.detail}[/]")
    for name, part in state.parts.items():
        sign, style = SIGNS[part.state]
        moving = part.state in ("preparing", "starting", "stopping")
        table.add_row(
            f"[{style}]{_spinner() if moving else sign}[/]",
            name,
            f"[{style}]{part.state}[/]",
            f"[dim]{_detail(part)}[/]",
        )
    return table


def _detail(part: ProcessState) -> str:
    if part.state == "ready" and part.seconds is not None:
        return f"{part.seconds:.1f} s"
    return part.detail


def _spinner() -> str:
    return _SPINNER[int(time.monotonic() * 10) % len(_SPINNER)]
