"""The `aes demo` command."""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from aes_client import Client

from cli.connection import ApiKey, BaseUrl, Connection, connect
from cli.demo import steps
from cli.demo.view import Screen
from cli.installation import BusAddress, embedded_bus, named_bus
from cli.progress import Progress
from cli.terminal import Json, failures_explained, print_json
from deploy.local.control import bring_up, development_key, parts_of, restart
from deploy.local.errors import StackError
from deploy.local.home import Home
from deploy.local.state import StackState
from libs.contracts.identifiers import new_id

app = typer.Typer(add_completion=False)
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="Model, such as openai:gpt-4o-mini. The provider's API key must be in your environment.",
        show_default="builtin:extractive, which needs no network",
    ),
]


@app.command()
def demo(model: Model = None, json_output: Json = False, base_url: BaseUrl = None, api_key: ApiKey = None) -> None:
    """Try agents on sample documents: validate, ingest, chat, call tools, create files, request an approval.

    Starts the embedded stack if it isn't running. The stack keeps running until you stop it with `./aes down`.
    """
    with failures_explained(json_output):
        result = _run(Screen(quiet=json_output), model, base_url, api_key)
    if json_output:
        print_json(result)


@dataclass(frozen=True)
class Running:
    """A running service. `bus` is None for a remote service if no Kafka broker is configured."""

    connection: Connection
    bus: BusAddress | None
    key_file: Path | None
    """The file that contains the key. None if the caller passed the key."""
    home: Home | None = None
    """The embedded stack's state directory. None for a remote service."""


def _run(screen: Screen, model: str | None, base_url: str | None, api_key: str | None) -> dict[str, Any]:
    agents = [steps.Agent.load(part, model) for part in (steps.ASSISTANT, steps.ANALYST)]
    clerk, cashier = (steps.Agent.load(part, model) for part in (steps.CLERK, steps.CASHIER))
    correlation_id = f"demo-{new_id()[-12:]}"
    home = Home.from_environment()
    check_caller(model, will_start=base_url is None and not _is_running(home))
    stack = _ensure(screen, home, base_url, api_key)
    with stack.connection.client(headers={"X-Correlation-ID": correlation_id}) as client:
        check_service(client, stack.connection.base_url, model, ours=base_url is None)
        verdicts = steps.validate(screen, client, agents)
        base = steps.build_knowledge_base(screen, client)
        talks = [
            steps.talk_about(screen, client, step, letter, agent, base)
            for step, letter, agent in zip((3, 4), "AB", agents, strict=True)
        ]
        talk, saved = steps.exchange_files(screen, client, clerk, home.root / "demo")
        restart_runtime = partial(_restart_runtime, stack.home) if stack.home else None
        talks += [talk, steps.answer_actions(screen, client, cashier, restart_runtime)]
        messages = steps.show_history(screen, talks)
        events = steps.show_timeline(screen, client, correlation_id, base, talks)
    if stack.bus is not None:
        screen.line("The same events from Kafka:", "dim")
        password_file = stack.home.kafka_password_file if stack.home else None
        screen.command(steps.consumer_command(stack.bus, password_file, correlation_id))
    show_next_steps(screen, stack, talks[0])
    return {
        "base_url": stack.connection.base_url,
        "correlation_id": correlation_id,
        "validation": verdicts,
        "knowledge_base": base,
        "sessions": [talk.as_json() for talk in talks],
        "saved": [str(path) for path in saved],
        "history": messages,
        "timeline": events,
    }


def _restart_runtime(home: Home) -> None:
    """Restarts the embedded stack's runtime, and waits until it's ready."""
    for part in parts_of(home, ["runtime"]):
        restart(home, part)


def _is_running(home: Home) -> bool:
    state = StackState.read(home.state_file)
    return state.is_supervised() and state.phase == "running"


def _ensure(screen: Screen, home: Home, base_url: str | None, api_key: str | None) -> Running:
    """Returns the given service, or the embedded stack, which is started unless it's running."""
    if base_url is not None:
        running = Running(connect(base_url, api_key), named_bus(), None)
    else:
        if _is_running(home):
            state, _ = bring_up(home, lambda _: None)
        else:
            with Progress() as progress:
                state, _ = bring_up(home, progress.show)
        bus = embedded_bus(home, state.parts["kafka"].port or 0, os.environ.get("AES_TOPIC_PREFIX", ""))
        connection = Connection(state.base_url, api_key or development_key(home))
        running = Running(connection, bus, home.development_key_file if api_key is None else None, home)
    screen.title(
        "Agent Execution Service",
        f"Gateway {running.connection.base_url}. The demo makes real API calls.",
    )
    return running


def check_caller(model: str | None, *, will_start: bool) -> None:
    """Checks the model's name and the provider's key before anything starts. Raises StackError."""
    if model is None:
        return
    name = _provider(model)
    if will_start and not _configured_here(name):
        variables = _variables(name)
        raise StackError(
            f"{model} needs {' or '.join(variables)} in your environment.",
            f"Run: export {variables[0]}=… && ./aes demo --model {model}",
        )


def check_service(client: Client, base_url: str, model: str | None, *, ours: bool) -> None:
    """Raises StackError if the running service doesn't have the provider's key."""
    if model is None:
        return
    name = _provider(model)
    known = {provider["provider"]: provider for provider in client.request("GET", "/models/")["providers"]}
    if name in known and known[name]["configured"]:
        return
    variable = _variables(name)[0] if _variables(name) else "its key"
    if not ours:
        raise StackError(
            f"The service at {base_url} has no API key for {name}.",
            f"Ask its operator to set {variable} for the runtime.",
        )
    again = f"./aes down && ./aes demo --model {model}"
    if _configured_here(name):
        raise StackError(
            f"The stack was started without {variable}, so its runtime can't use {model}.",
            f"This shell has the key. To restart the stack with the key and keep the sessions, run: {again}",
        )
    raise StackError(
        f"{model} needs {variable}, which neither your environment nor the running stack has.",
        f"Run: export {variable}=… && {again}",
    )


def _provider(model: str) -> str:
    name, colon, rest = model.partition(":")
    known = {"builtin", *_providers()}
    if not colon or not rest or name not in known:
        raise StackError(
            f"Unknown model provider in {model!r}.",
            f"Use provider:name, such as openai:gpt-4o-mini. Providers: {', '.join(sorted(known))}",
        )
    return name


def _configured_here(name: str) -> bool:
    return name == "builtin" or any(os.environ.get(variable) for variable in _variables(name))


def _variables(name: str) -> tuple[str, ...]:
    return _providers().get(name, ())


def _providers() -> dict[str, tuple[str, ...]]:
    """Returns the environment variables that configure each provider, the usual one first."""
    from services.runtime.adapters.models.known_providers import COMPATIBLE, OTHERS

    compatible = {
        known.name: (known.key_variable, known.address_variable) if known.address else (known.address_variable,)
        for known in COMPATIBLE
    }
    return compatible | {other.name: other.variables for other in OTHERS}


_COMMANDS = """\
AES={base_url}/api/v1
KEY="x-api-key: {key}"

# Continue the first session; -N prints the stream as it arrives.
curl -N -H "$KEY" -H "content-type: application/json" \\
     -H "accept: text/event-stream" \\
     -d '{{"content": "{question}"}}' \\
     $AES/runtime/{session_id}/execute/

# Read its history; create a session from a YAML file.
curl -H "$KEY" "$AES/runtime/{session_id}/messages/"
curl -H "$KEY" -H "content-type: application/yaml" \\
     --data-binary @{agent} $AES/sessions/
"""


def show_next_steps(screen: Screen, stack: Running, talk: steps.Talk) -> None:
    screen.heading(9, "Try it yourself")
    # In a container, the demo's address may be unreachable from outside.
    base_url = os.environ.get("AES_PUBLIC_URL") or stack.connection.base_url
    commands = _COMMANDS.format(
        base_url=base_url,
        # A shell expression reads the key, so it doesn't appear on the screen.
        key="$AES_API_KEY" if stack.key_file is None else f"$(cat {steps.near(stack.key_file)})",
        session_id=talk.session.session_id,
        question=talk.agent.part.questions[-1].replace("'", "").replace('"', ""),
        agent=steps.near(Path(talk.agent.part.agent)),
    )
    screen.console.print()
    screen.command(commands)
    screen.line(f"Reference   {base_url}/api/v1/docs/", "dim")
    screen.line("Studio      in a browser; this link works once and expires in an hour:", "dim")
    screen.command(stack.connection.studio_link(base_url))
    if stack.key_file is not None:
        screen.line("The stack keeps running: ./aes status, ./aes logs -f, ./aes down", "dim")
