"""Retention of a company, in the form of the public API."""

from fastapi import APIRouter

from libs.contracts.api.retention import Retention
from libs.service_defaults import Caller
from services.runtime.use_cases.set_retention import ReadRetention


def retention_router(read: ReadRetention) -> APIRouter:
    router = APIRouter(prefix="/internal/retention")

    @router.get("")
    async def get_retention(who: Caller) -> Retention:
        return await read(who.company_id)

    return router
