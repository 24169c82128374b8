"""Stores and deletes secrets, which arrive encrypted."""

import base64
import binascii
from datetime import UTC, datetime

from libs.contracts.errors import InvalidRequest
from libs.contracts.messages import CommandContext
from libs.contracts.resources.secrets import DeleteSecret, PutSecret, SecretDeleted, SecretStored
from libs.eventing import Transaction
from services.registry.adapters.postgres.secrets import PostgresSecretWriter


class Secrets:
    async def put(self, transaction: Transaction, command: PutSecret, context: CommandContext) -> None:
        """Stores a secret. Raises ``InvalidRequest``, or ``Conflict`` if the company has too many secrets."""
        try:
            ciphertext = base64.b64decode(command.ciphertext, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidRequest("The ciphertext isn't valid Base64.") from None
        secrets, company_id = PostgresSecretWriter(transaction), context.identity.company_id
        secret = await secrets.put(context.command_id, company_id, command.name, ciphertext, datetime.now(UTC))
        transaction.emit(SecretStored(secret=secret.public()), subject=secret.id)

    async def delete(self, transaction: Transaction, command: DeleteSecret, context: CommandContext) -> None:
        """Deletes a secret. Calls to tools that need the secret will fail. Raises ``SecretNotFound``."""
        secrets, company_id = PostgresSecretWriter(transaction), context.identity.company_id
        secret = await secrets.delete(company_id, command.name, datetime.now(UTC))
        transaction.emit(SecretDeleted(name=secret.name), subject=secret.id)
