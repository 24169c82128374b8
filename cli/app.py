"""The table of `aes` commands, whose modules are imported when they are called."""

import logging
from dataclasses import dataclass
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cli.commands import fail_unknown

_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Entry:
    """A command or a group of commands: the `typer.Typer` named `app` of a module, or the one named after a colon.

    ``help`` is what `aes --help` says, and what a group says of itself.
    """

    place: str
    help: str
    needs: str = "cli"
    """The folder of the project that the command works on. Images have no tests and no benchmarks."""

    @property
    def can_run(self) -> bool:
        return (_ROOT / self.needs).is_dir()

    def load(self) -> Any:
        module, _, name = self.place.partition(":")
        command = typer.main.get_command(getattr(import_module(module), name or "app"))
        command.help = command.help or self.help
        return _flowing(command)


COMMANDS = {
    "demo": Entry("cli.demo.command", "Run agents over documents for real, from nothing to the timeline."),
    "up": Entry("cli.up", "Start the embedded stack, or say that it runs."),
    "down": Entry("cli.down", "Stop the embedded stack."),
    "status": Entry("cli.status", "Show what runs, where, and whether it is ready."),
    "restart": Entry("cli.restart", "Restart services, one process after the other."),
    "logs": Entry("cli.logs", "Show the logs of the embedded stack."),
    "doctor": Entry("cli.doctor.command", "Examine the installation and say what to do."),
    "check": Entry("tools.check", "Run the linters, the type check and the import rules.", needs="tests"),
    "companies": Entry("cli.administration:companies", "Manage the companies that use the service."),
    "users": Entry("cli.administration:users", "Manage the users of a company."),
    "keys": Entry("cli.keys", "Manage API keys."),
    "secrets": Entry("cli.secrets", "Encrypt stored secrets under the newest key."),
    "kb": Entry("cli.kb", "Make knowledge bases of folders, list and search them."),
    "events": Entry("cli.events", "Follow the company's timeline."),
    "usage": Entry("cli.usage", "Show what turns took."),
    "budgets": Entry("cli.budgets", "Limit what turns may take."),
    "prices": Entry("cli.prices", "Manage the prices of models."),
    "actions": Entry("cli.actions", "See and answer what turns are waiting for."),
    "dlq": Entry("cli.dlq", "See and replay messages that could not be processed."),
    "bench": Entry(
        "benchmarks.command", "Measure turns, fairness, growth, rest, ingestion and search.", needs="benchmarks"
    ),
    "test": Entry("tools.test", "Run the tests; --all adds the slow ones.", needs="tests"),
    "backup": Entry("cli.backup", "Write all databases and objects into a folder, while everything runs."),
    "restore": Entry("cli.restore", "Put a backup into empty databases and object stores."),
    "topics": Entry("cli.topics", "Manage the topics on the bus."),
}


class LazyCommands(TyperGroup):
    """Lists the table without importing anything it names."""

    _listing = False

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [name for name, entry in COMMANDS.items() if entry.can_run]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        if self._listing:
            return typer.core.TyperCommand(cmd_name, help=entry.help)
        command = entry.load()
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in COMMANDS:
            fail_unknown(ctx, args[0], COMMANDS)
        if not (entry := COMMANDS[args[0]]).can_run:
            ctx.fail(
                f"'aes {args[0]}' is for development: it needs the folder {entry.needs}/, which only a clone of the "
                "repository has. Clone it and run ./aes there."
            )
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._listing = True
        super().format_help(ctx, formatter)


def _flowing(command: Any) -> Any:
    """Rewraps the help text of a command to the terminal's width."""
    if command.help:
        command.help = "\n\n".join(part.replace("\n", " ") for part in cleandoc(command.help).split("\n\n"))
    for inner in getattr(command, "commands", {}).values():
        _flowing(inner)
    return command


app = typer.Typer(
    name="aes",
    cls=LazyCommands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from libs.service_defaults import RELEASE

        typer.echo(f"aes {RELEASE}")
        raise typer.Exit


@app.callback()
def aes(
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """The Agent Execution Service: creates, validates and runs AI agents."""
    # Commands print their own failures, once and with a remedy.
    for client in ("aiokafka", "psycopg.pool"):
        logging.getLogger(client).setLevel(logging.CRITICAL)
