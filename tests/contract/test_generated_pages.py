import json

from jsonschema import Draft202012Validator

from libs.contracts.messages import Command
from libs.contracts.registry import published_messages
from tests.contract.public_api.documents import served
from tools.reference import events
from tools.reference.markdown import MARK
from tools.reference.pages import DOCS, pages
from tools.reference.routes import response_examples


def test_generating_the_pages_again_changes_nothing() -> None:
    generated = pages()
    written = {page: page.read_text() for page in DOCS.rglob("*.md")}
    outdated = [page.name for page, text in generated.items() if written.get(page) != text]
    left_over = [page.name for page, text in written.items() if text.startswith(MARK) and page not in generated]

    assert (outdated, left_over) == ([], []), "run: python -m tools.reference"


def test_the_pages_on_events_name_every_event() -> None:
    text = "".join(events.pages().values())
    published = [name for name, (model, _) in published_messages().items() if not issubclass(model, Command)]

    assert [name for name in published if f"`{name}`" not in text] == []


async def test_examples_of_responses_satisfy_their_schemas() -> None:
    document = json.loads((await served())["openapi.json"])
    examples = list(response_examples(document))

    assert len(examples) > 70
    for path, schema, example in examples:
        validator = Draft202012Validator({**schema, "components": document["components"]})
        assert [error.message for error in validator.iter_errors(example)] == [], path
