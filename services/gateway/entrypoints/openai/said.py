"""Parts of messages and items that both doors share: null fields of the client's library, addresses of images."""

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, model_validator

from libs.contracts.api.agents import StrictModel

_ON_THE_WEB: Final = re.compile(r"https?://.{0,3990}", re.IGNORECASE | re.DOTALL)


def _on_the_web(url: str) -> str:
    if not _ON_THE_WEB.fullmatch(url):
        kind = "data: URLs aren't supported" if url[:5].lower() == "data:" else "this isn't a public http(s) URL"
        raise ValueError(f"{kind}: upload the image to the session, or give its public URL of up to 4,000 characters")
    return url


ImageAddress = Annotated[str, AfterValidator(_on_the_web)]


class SaidAgain(StrictModel):
    """Fields that a client's library adds and leaves null say nothing; others are refused by name."""

    @model_validator(mode="before")
    @classmethod
    def _without_unknown_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None or name in cls.model_fields}
