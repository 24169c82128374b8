"""Checks that the chosen model can be used: a known provider with its key configured."""

import os

from aes_client import Client

from deploy.local.errors import StackError


def check_caller(model: str | None, *, will_start: bool) -> None:
    """Checks before anything starts. Raises StackError for an unusable name or a missing key."""
    if model is None:
        return
    name = _provider(model)
    if will_start and not _configured_here(name):
        variables = _variables(name)
        raise StackError(
            f"{model} needs {' or '.join(variables)} in your environment, and it is not set.",
            f"export {variables[0]}=…   and then: ./aes demo --model {model}",
        )


def check_service(client: Client, base_url: str, model: str | None, *, ours: bool) -> None:
    """Raises StackError when the running service does not have the provider's key."""
    if model is None:
        return
    name = _provider(model)
    known = {provider["provider"]: provider for provider in client.request("GET", "/models/")["providers"]}
    if name in known and known[name]["configured"]:
        return
    variable = _variables(name)[0] if _variables(name) else "its key"
    if not ours:
        raise StackError(
            f"The service at {base_url} has no key for {name}.", f"Its operator sets {variable} for the runtime."
        )
    again = f"./aes down && ./aes demo --model {model}"
    if _configured_here(name):
        raise StackError(
            f"The stack was started without {variable}, so its runtime cannot use {model}.",
            f"Restart it from this shell, which has the key; sessions are kept: {again}",
        )
    raise StackError(
        f"{model} needs {variable}, and neither your environment nor the running stack has it.",
        f"export {variable}=…   and then: {again}",
    )


def _provider(model: str) -> str:
    name, colon, rest = model.partition(":")
    known = {"builtin", *_providers()}
    if not colon or not rest or name not in known:
        raise StackError(
            f"{model!r} is not a model of a known provider.",
            f"Name it as provider:name, such as openai:gpt-4o-mini. Providers: {', '.join(sorted(known))}",
        )
    return name


def _configured_here(name: str) -> bool:
    return name == "builtin" or any(os.environ.get(variable) for variable in _variables(name))


def _variables(name: str) -> tuple[str, ...]:
    return _providers().get(name, ())


def _providers() -> dict[str, tuple[str, ...]]:
    """The variables that configure each provider, the usual one first."""
    from services.runtime.adapters.models.known_providers import COMPATIBLE, OTHERS

    compatible = {
        known.name: (known.key_variable, known.address_variable) if known.address else (known.address_variable,)
        for known in COMPATIBLE
    }
    return compatible | {other.name: other.variables for other in OTHERS}
