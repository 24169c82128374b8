"""Base classes and field types that several resources share."""

import operator
from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class StrictModel(BaseModel):
    """The base class of request bodies. Unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class WireModel(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


Id = Annotated[str, Field(min_length=1, max_length=200)]
Name = Annotated[
    str, Field(min_length=1, max_length=200, json_schema_extra={"pattern": r"\S"}), AfterValidator(_not_blank)
]
JsonObject = dict[str, Any]
SearchMode = Literal["hybrid", "semantic", "keyword"]
is_none: Final = partial(operator.is_, None)
