"""The table of `aes` commands. A command's module is imported only when the command is called."""

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
    """A command or group. ``import_path`` is a module, followed by `:NAME` if its `typer.Typer` isn't named `app`."""

    import_path: str
    help: str
    needs: str = "cli"
    """The repository folder that the command needs. Images don't contain the tests and benchmarks."""

    @property
    def can_run(self) -> bool:
        return (_ROOT / self.needs).is_dir()

    def load(self) -> Any:
        module, _, name = self.import_path.partition(":")
        command = typer.main.get_command(getattr(import_module(module), name or "app"))
        command.help = command.help or self.help
        return _readable(command)


COMMANDS = {
    "demo": Entry("cli.demo.command", "Try agents on sample documents, from setup to timeline."),
    "up": Entry("cli.up", "Start the embedded stack."),
    "down": Entry("cli.down", "Stop the embedded stack."),
    "status": Entry("cli.status", "Show the embedded stack's processes and their state."),
    "restart": Entry("cli.restart", "Restart services, one process at a time."),
    "logs": Entry("cli.logs", "Show the embedded stack's logs."),
    "doctor": Entry("cli.doctor.command", "Diagnose the installation."),
    "check": Entry("tools.check", "Run the linters and the type checker, and check imports.", needs="tests"),
    "companies": Entry("cli.administration:companies", "Manage the companies that use the service."),
    "users": Entry("cli.administration:users", "Manage a company's users."),
    "keys": Entry("cli.keys", "Manage API keys."),
    "secrets": Entry("cli.secrets", "Re-encrypt stored secrets."),
    "kb": Entry("cli.kb", "Create, list and search knowledge bases."),
    "events": Entry("cli.events", "Follow the company's timeline."),
    "usage": Entry("cli.usage", "Show turn usage."),
    "budgets": Entry("cli.budgets", "Manage budgets."),
    "prices": Entry("cli.prices", "Manage model prices."),
    "actions": Entry("cli.actions", "List and resolve the actions that turns wait for."),
    "dlq": Entry("cli.dlq", "Inspect and replay dead-lettered messages."),
    "bench": Entry("benchmarks.command", "Run benchmarks.", needs="benchmarks"),
    "test": Entry("tools.test", "Run the tests; --all adds the slow ones.", needs="tests"),
    "backup": Entry("cli.backup", "Back up databases and objects while the service runs."),
    "restore": Entry("cli.restore", "Restore a backup into empty databases and object stores."),
    "topics": Entry("cli.topics", "Manage Kafka topics."),
}


class LazyCommands(TyperGroup):
    """A command group that lists its commands without importing their modules."""

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
                f"'aes {args[0]}' is a development command. It needs the repository's folder {entry.needs}/. "
                "Clone the repository and run ./aes there."
            )
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._listing = True
        super().format_help(ctx, formatter)


def _readable(command: Any) -> Any:
    """Makes help texts wrap at the terminal's width, and names arguments as in the reference: `KEY-ID`."""
    if command.help:
        command.help = "\n\n".join(part.replace("\n", " ") for part in cleandoc(command.help).split("\n\n"))
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameter.metavar = parameter.metavar or parameter.name.upper().replace("_", "-")
    for inner in getattr(command, "commands", {}).values():
        _readable(inner)
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
    """The Agent Execution Service: create, validate and run AI agents."""
    # Commands print their own errors.
    for client in ("aiokafka", "psycopg.pool"):
        logging.getLogger(client).setLevel(logging.CRITICAL)
