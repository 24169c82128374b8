"""Routes and command handlers of secrets."""

from fastapi import APIRouter, FastAPI

from libs.contracts.resources.secrets import DeleteSecret, PutSecret, Secret, SecretPage
from libs.eventing import CommandRouter
from libs.service_defaults import Caller, Cursor, Limit, Offset
from services.registry.adapters.postgres.secrets import PostgresSecretReader
from services.registry.use_cases.secrets import Secrets


def serve_secrets(commands: CommandRouter, http: FastAPI, reads: PostgresSecretReader) -> None:
    secrets = Secrets()
    commands.handle(PutSecret, secrets.put)
    commands.handle(DeleteSecret, secrets.delete)
    router = APIRouter(prefix="/internal/company/secrets")

    @router.get("")
    async def list_secrets(who: Caller, limit: Limit = 50, offset: Offset = 0, cursor: Cursor = None) -> SecretPage:
        page = await reads.page(who.company_id, limit=limit, offset=offset, cursor=cursor)
        return SecretPage(secrets=[secret.public() for secret in page.items], **page.facts)

    @router.get("/{name}")
    async def get_secret(name: str, who: Caller) -> Secret:
        return (await reads.get(who.company_id, name)).public()

    http.include_router(router)
