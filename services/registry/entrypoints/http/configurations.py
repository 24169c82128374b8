"""Validation over the internal API: a report for people, a normal form for new sessions."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends

from libs.contracts.api.agents import ValidationReport
from libs.contracts.identity import Identity
from libs.service_defaults import caller
from services.registry.use_cases.normalize_configuration import Normalization, NormalizedConfiguration
from services.registry.use_cases.validate_configuration import Validation

Caller = Annotated[Identity, Depends(caller)]
Document = Annotated[Any, Body()]


def configurations_router(validation: Validation, normalization: Normalization) -> APIRouter:
    router = APIRouter(prefix="/internal/agents")

    @router.post("/validate")
    async def validate(document: Document, who: Caller) -> ValidationReport:
        return await validation.report(document, who)

    @router.post("/normalize")
    async def normalize(document: Document, who: Caller) -> NormalizedConfiguration:
        return await normalization.normalize(document, who)

    return router
