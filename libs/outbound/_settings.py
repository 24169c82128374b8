"""The setting that allows connections to private networks."""

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from libs.outbound._addresses import AddressCheck, parse_networks, public_or_within
from libs.outbound._resolver import GuardedResolver


class OutboundSettings(BaseSettings):
    """A mixin for the settings of services that call user-supplied addresses."""

    outbound_networks: str = Field(
        "",
        validation_alias="AES_OUTBOUND_NETWORKS",
        description="Private networks that user-supplied URLs can point to, such as `10.20.0.0/16,fd12::/16`.",
    )

    @field_validator("outbound_networks")
    @classmethod
    def _networks(cls, text: str) -> str:
        parse_networks(text)
        return text

    def allowed_addresses(self) -> AddressCheck:
        return public_or_within(parse_networks(self.outbound_networks))

    def guarded_resolver(self) -> GuardedResolver:
        return GuardedResolver(self.allowed_addresses())
