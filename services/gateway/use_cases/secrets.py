"""Encrypts and stores users' secrets."""

import base64
from dataclasses import dataclass

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.messages import Received
from libs.contracts.resources.secrets import PutSecret, secret_context
from libs.secrets import SecretCipher
from services.gateway.domain.idempotency import Write
from services.gateway.use_cases.command_dispatcher import CommandDispatcher


class SecretsUnavailable(ServiceUnavailable):
    def __init__(self) -> None:
        super().__init__("Can't store secrets without an encryption key. Set AES_SECRETS_KEY.")


@dataclass(frozen=True, slots=True)
class Secrets:
    """Encrypts and stores secrets. Their values leave this process only encrypted."""

    commands: CommandDispatcher
    cipher: SecretCipher | None

    async def put(self, write: Write, name: str, value: str) -> Received:
        """Raises ``SecretsUnavailable`` without an encryption key, and ``Conflict`` if the company has too many
        secrets.
        """
        if self.cipher is None:
            raise SecretsUnavailable
        ciphertext = self.cipher.encrypt(value, context=secret_context(write.identity.company_id, name))
        return await self.commands.run(write, PutSecret(name=name, ciphertext=base64.b64encode(ciphertext).decode()))
