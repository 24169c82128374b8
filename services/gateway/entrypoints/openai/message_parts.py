"""Parts of messages that chat completions and responses share."""

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, model_validator

from libs.contracts.models import StrictModel
from libs.contracts.resources.messages import ImageDetail, ImageUrl
from libs.json_text import NotJson, read_json, write_json
from services.gateway.domain.inline_images import stands_for_image

_ON_THE_WEB: Final = re.compile(r"https?://.{0,3990}", re.IGNORECASE | re.DOTALL)


def _on_the_web(url: str) -> str:
    if not (_ON_THE_WEB.fullmatch(url) or stands_for_image(url)):
        raise ValueError("use a public http(s) URL of up to 4,000 characters, or a data: URL that contains the image")
    return url


ImageAddress = Annotated[str, AfterValidator(_on_the_web)]


def arguments_in(text: str) -> dict[str, Any] | None:
    """Parses a call's arguments. Returns None unless they're a JSON object."""
    try:
        arguments = read_json(text or "{}")
    except NotJson:
        return None
    return arguments if isinstance(arguments, dict) else None


def image_given(url: str, detail: ImageDetail | None) -> ImageUrl:
    """Returns an image for a turn, without the detail ``auto``, which some providers reject."""
    return ImageUrl(url=url, detail=None if detail == "auto" else detail)


def without_fence(text: str, output: Any) -> str:
    """Removes a code fence, which some models add, around structured output."""
    return write_json(output).decode() if output is not None and text.lstrip().startswith("```") else text


class EchoedPart(StrictModel):
    """The base class of parts that clients may send back. Ignores null fields, which client libraries add."""

    @model_validator(mode="before")
    @classmethod
    def _without_unknown_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None or name in cls.model_fields}
