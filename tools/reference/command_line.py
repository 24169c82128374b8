"""Generates docs/reference/command-line.md from the commands of `aes`."""

import re
from collections.abc import Iterator
from typing import Any, Final

import typer

from cli.app import COMMANDS, app
from tools.reference.markdown import MARK, names, table

_VARIABLE: Final = re.compile(r"(?<!`)\bAES_[A-Z_<>…]+")
_HEAD: Final = """# Command line

Run `./aes` in a clone of the repository. Its first run installs its packages.
[Configuration](configuration.md#the-aes-command-and-the-embedded-stack) lists the environment variables of `aes`.

With `--json`, a command prints JSON for programs. Commands exit with 0 on success, 1 on failure and 2 on a usage error.
Every command has `--help`.
"""


def page() -> str:
    listed = (
        (f"[`{name}`](#aes-{name})", entry.help + (" Only works in a clone." if entry.needs != "cli" else ""))
        for name, entry in COMMANDS.items()
    )
    sections = [_section(words, command) for words, command in commands()]
    return "\n".join([MARK, _HEAD, table(("command", "description"), listed), *sections])


def commands() -> Iterator[tuple[str, Any]]:
    """Yields every command and group, with the words of its command line."""
    group: Any = typer.main.get_command(app)
    for name in COMMANDS:
        yield from _with_inner(f"aes {name}", group.get_command(None, name))


def _with_inner(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _with_inner(f"{words} {name}", inner)


def _section(words: str, command: Any) -> str:
    level = "##" if words.count(" ") == 1 else "###"
    lines = [f"{level} {words}\n", f"{_marked(command.help)}\n"]
    if not hasattr(command, "commands"):
        lines.append(f"```text\n{_usage(words, command.params)}\n```\n")
    if rows := [_row(each) for each in command.params if not each.hidden and each.name != "help"]:
        lines.append(table(("argument or option", "default", "meaning"), rows))
    return "\n".join(lines)


def _usage(words: str, parameters: list[Any]) -> str:
    parts = [f"{each.opts[0]} {_value(each)}" for each in parameters if _is_option(each) and each.required]
    if any(_is_option(each) and not each.required for each in parameters):
        parts.append("[OPTIONS]")
    arguments = [each for each in parameters if not _is_option(each)]
    parts += [_value(each) if each.required else f"[{_value(each)}]" for each in arguments]
    return " ".join([words, *parts])


def _is_option(parameter: Any) -> bool:
    return str(parameter.opts[0]).startswith("-")


def _value(parameter: Any) -> str:
    word = str(parameter.metavar or parameter.name.upper().split("_")[-1])
    return word if parameter.nargs == 1 else f"{word}…"


def _row(parameter: Any) -> tuple[str, str, str]:
    if not _is_option(parameter):
        name = f"`{_value(parameter)}`"
    elif parameter.is_flag:
        name = names([*parameter.opts, *parameter.secondary_opts])
    else:
        name = names(f"{option} {_value(parameter)}" for option in parameter.opts)
    return name, _default(parameter), _marked(parameter.help or "")


def _marked(text: str) -> str:
    """Formats variables as code. Otherwise, Markdown would interpret `<SERVICE>` as an HTML tag."""
    return _VARIABLE.sub(r"`\g<0>`", text)


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    variable = f"`{parameter.envvar}`" if parameter.envvar else ""
    if _is_option(parameter) and parameter.is_flag:
        return "off"
    return ", else ".join(filter(None, (variable, shown_default(parameter)))) or "none"


def shown_default(parameter: Any) -> str:
    """Returns the default without the variable, or an empty string if there's none."""
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    if parameter.default in (None, "") or parameter.show_default is False or callable(parameter.default):
        return ""
    return f"`{parameter.default}`"
