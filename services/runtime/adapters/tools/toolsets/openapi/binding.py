"""The request of an operation, as far as it is known before its arguments."""

from typing import Literal

from pydantic import BaseModel

ParameterPlace = Literal["path", "query", "header"]
Style = Literal["simple", "form", "spaceDelimited", "pipeDelimited", "deepObject", "json"]


class ParameterBinding(BaseModel):
    """The parameter that an argument goes into. Style `json`: the value's JSON text."""

    argument: str
    name: str
    place: ParameterPlace
    style: Style
    explode: bool


class BodyBinding(BaseModel):
    """The body: one argument as a whole, or an object of the arguments that `fields` names."""

    content_type: str
    form: bool = False
    argument: str | None = None
    fields: list[str] = []


class OperationBinding(BaseModel):
    """`url` has the placeholders of the path, such as `{id}`."""

    method: str
    url: str
    parameters: list[ParameterBinding] = []
    body: BodyBinding | None = None
