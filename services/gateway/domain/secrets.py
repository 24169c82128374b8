"""Secrets of users, which the gateway encrypts before anything else sees them."""

from libs.contracts.errors import ServiceUnavailable


class SecretsUnavailable(ServiceUnavailable):
    def __init__(self) -> None:
        super().__init__("Secrets are kept encrypted, with a key that this installation lacks: AES_SECRETS_KEY.")
