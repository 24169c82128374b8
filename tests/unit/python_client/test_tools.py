"""Functions as tools: what the model is told about them."""

from typing import Annotated, Literal

import pytest
from aes_client import tool
from pydantic import BaseModel, Field


class Passenger(BaseModel):
    name: str
    age: int | None = None


@tool
def book(
    crossing: int,
    seat: Literal["deck", "saloon"] = "deck",
    *,
    passengers: list[Passenger],
    note: Annotated[str, Field(description="Anything else.", max_length=20)] = "",
) -> str:
    """Books seats on a crossing.

    They are kept for a day.

    Args:
        crossing: The number of the crossing.
        seat (str): Where.

    Returns:
        The booking's number.
    """
    return f"{crossing} {seat} {len(passengers)} {note}"


def test_a_function_describes_itself() -> None:
    definition = book.definition
    assert definition["name"] == "book"
    assert definition["description"] == "Books seats on a crossing.\n\nThey are kept for a day."
    parameters = definition["parameters"]
    assert parameters["required"] == ["crossing", "passengers"]
    assert parameters["additionalProperties"] is False
    assert parameters["properties"]["crossing"] == {"type": "integer", "description": "The number of the crossing."}
    assert parameters["properties"]["seat"]["enum"] == ["deck", "saloon"]
    assert parameters["properties"]["seat"]["description"] == "Where."
    assert parameters["properties"]["note"]["description"] == "Anything else."
    assert "title" not in parameters


def test_it_is_still_the_function() -> None:
    assert book(7, passengers=[Passenger(name="A")]) == "7 deck 1 "
    assert book.__name__ == "book"


def test_name_and_description_may_be_given() -> None:
    @tool(name="seats", description="Free seats.")
    def count() -> int:
        return 1

    assert count.definition == {
        "name": "seats",
        "description": "Free seats.",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    }
    assert count() == 1


def test_parameters_without_names_are_refused() -> None:
    with pytest.raises(TypeError, match="numbers can't be passed by name"):

        @tool
        def add(*numbers: int) -> int:
            return sum(numbers)
