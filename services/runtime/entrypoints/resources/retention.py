"""Commands and reads of retention."""

from fastapi import FastAPI

from libs.contracts.resources.retention import Retention, SetRetention
from libs.eventing import CommandRouter
from libs.service_defaults import Caller
from services.runtime.use_cases.retention import SessionRetention


def serve_retention(commands: CommandRouter, http: FastAPI, retention: SessionRetention) -> None:
    commands.handle(SetRetention, retention.set)

    @http.get("/internal/retention")
    async def get_retention(who: Caller) -> Retention:
        return await retention.read(who.company_id)
