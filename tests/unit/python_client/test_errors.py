from aes_client import ValidationError
from aes_client.models import ErrorDetail


def detail(message: str, *loc: str) -> ErrorDetail:
    return ErrorDetail(loc=list(loc), type="x", message=message)


def test_a_problem_that_the_message_names_is_not_said_twice() -> None:
    message = "Invalid body: name: must not be blank (and 1 more)."
    error = ValidationError(message, details=[detail("must not be blank", "name"), detail("add this field", "model")])
    assert str(error) == f"{message}\n  model: add this field"
