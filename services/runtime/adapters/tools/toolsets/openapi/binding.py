"""The request of an operation, as far as it is known before its arguments."""

from typing import Literal

from pydantic import BaseModel

ParameterPlace = Literal["path", "query", "header"]
Style = Literal["simple", "form", "spaceDelimited", "pipeDelimited", "deepObject", "json"]


class StyledValue(BaseModel):
    """A named value and the style that it is written in. Style `json`: its JSON text."""

    name: str
    style: Style
    explode: bool


class ParameterBinding(StyledValue):
    """The parameter that an argument goes into."""

    argument: str
    place: ParameterPlace


class BodyBinding(BaseModel):
    """The body: one argument as a whole, or an object of the arguments that `fields` names.

    `encoding`: the fields of a form that are not written as `form` with `explode`.
    """

    content_type: str
    form: bool = False
    argument: str | None = None
    fields: list[str] = []
    encoding: list[StyledValue] = []


class OperationBinding(BaseModel):
    """`url` has the placeholders of the path, such as `{id}`."""

    method: str
    url: str
    parameters: list[ParameterBinding] = []
    body: BodyBinding | None = None
