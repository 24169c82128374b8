"""`aes demo`."""

from typing import Annotated, Any

import typer

from cli.connection import ApiKey, BaseUrl
from cli.demo import (
    conversation,
    files,
    knowledge,
    materials,
    next_steps,
    provider,
    start,
    timeline,
    validation,
    waiting,
)
from cli.demo.screen import Screen
from cli.terminal import Json, failures_explained, print_json
from libs.contracts.identifiers import new_id

app = typer.Typer(add_completion=False)
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="A real model as provider:name, such as openai:gpt-4o-mini; its key comes from your environment.",
        show_default="builtin:extractive, which needs no network",
    ),
]


@app.command()
def demo(model: Model = None, json_output: Json = False, base_url: BaseUrl = None, api_key: ApiKey = None) -> None:
    """Run agents over documents for real: validate, ingest, talk, call tools, make files, wait for a person,
    look at what was recorded.

    Starts the embedded stack if it does not run. It stays up afterwards; `./aes down` stops it.
    """
    with failures_explained(json_output):
        result = _run(Screen(quiet=json_output), model, base_url, api_key)
    if json_output:
        print_json(result)


def _run(screen: Screen, model: str | None, base_url: str | None, api_key: str | None) -> dict[str, Any]:
    library = materials.load(model)
    correlation_id = f"demo-{new_id()[-12:]}"
    provider.check_caller(model, will_start=base_url is None and not start.is_running())
    stack = start.ensure(screen, base_url, api_key)
    with stack.connection.client(headers={"X-Correlation-ID": correlation_id}) as client:
        provider.check_service(client, stack.connection.base_url, model, ours=base_url is None)
        verdicts = validation.show(screen, client, library)
        base = knowledge.build(screen, client, library)
        talks = [
            conversation.hold(screen, client, agent, base, step=step, letter=letter)
            for step, letter, agent in zip((3, 4), "AB", library.agents, strict=True)
        ]
        clerk, saved = files.hold(screen, client, library, step=5, letter="C", place=start.downloads())
        talks.append(clerk)
        talks.append(waiting.hold(screen, client, library.cashier, step=6, letter="D", restart=start.restarter(stack)))
        messages = timeline.show_history(screen, talks)
        events = timeline.show(screen, client, stack, correlation_id, base, talks)
    next_steps.show(screen, stack, talks[0])
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
