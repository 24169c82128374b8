"""The use cases that only REST needs."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Request

from services.gateway.domain.tokens import JwtTokens
from services.gateway.use_cases.budgets import Budgets
from services.gateway.use_cases.connections import Connections
from services.gateway.use_cases.dead_letters import VisibleDeadLetters
from services.gateway.use_cases.health import Health
from services.gateway.use_cases.keys import Keys
from services.gateway.use_cases.limits import Limits
from services.gateway.use_cases.secrets import Secrets
from services.gateway.use_cases.webhooks import Webhooks


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    keys: Keys
    tokens: JwtTokens
    connections: Connections
    webhooks: Webhooks
    secrets: Secrets
    budgets: Budgets
    limits: Limits
    health: Health
    dead_letters: VisibleDeadLetters
    now: Callable[[], datetime]


async def _resources(request: Request) -> Resources:
    found: Resources = request.app.state.resources
    return found


ResourcesDep = Annotated[Resources, Depends(_resources)]
