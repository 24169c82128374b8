"""Rules for the messages of errors, of services and of the command line: two short sentences, in plain words.

A part in braces counts as one word. A message that a function passes on is found where that function is called.
"""

import ast
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = ("libs", "services", "cli", "deploy/local")
MOST_WORDS: Final = 20
SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+")
# A capital, a quote, a value, the name of a field, of an option or of an environment variable.
BEGINNING: Final = re.compile(
    r"[A-Z'\"`…]|--|\{\}|\w+[_.A-Z]\w|(?!this|it|there|that)[a-z]+ (must|can|cannot|requires|is|needs)\b"
)
# What no caller knows: names from inside, and words that the project uses for itself.
PRIVATE: Final = re.compile(
    r"\b(somebody|taken (in|up)|goes? on|passed over|made anew|begun anew|just being|besides|given up|under way"
    r"|of one's own|is for (visitors|pages)|mend|told)\b|Value error|Input should|Field required",
    re.IGNORECASE,
)
# Errors of this project, its command line and A2A's library, by the place of their message.
BASES: Final = {
    "ServiceError": 0,
    "Unparsable": 1,
    "DocumentUnreadable": 0,
    "EmbeddingRefused": 0,
    "A2AError": 0,
    "StackError": 0,
}
OF_LIBRARIES: Final = (
    *("InvalidRequestError", "InvalidParamsError", "UnsupportedOperationError", "ContentTypeNotSupportedError"),
    *("TaskNotFoundError", "PushNotificationNotSupportedError", "MethodNotFoundError"),
)
FINDINGS: Final = frozenset(
    {"ErrorDetail", "found", "error", "warning", "refused_parameter", "_invalid", "_block_error", "_refused", "_refuse"}
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Message:
    place: str
    text: str


@functools.cache
def trees() -> dict[str, ast.Module]:
    files = (file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py")))
    return {str(file.relative_to(ROOT)): ast.parse(file.read_text()) for file in files}


def name_of(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def errors_in(modules: Mapping[str, ast.Module]) -> dict[str, int]:
    """The place of the message in calls of each class of errors that takes one."""
    classes = [node for module in modules.values() for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    found = {**BASES, **dict.fromkeys(OF_LIBRARIES, 0)}
    while more := {
        node.name: found[name_of(base)]
        for node in classes
        for base in node.bases
        if name_of(base) in found and node.name not in found
    }:
        found |= more
    return found


def text_of(value: ast.expr) -> str | None:
    """The text with `{}` for each part that isn't known here; None for what is no text at all."""
    match value:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr():
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in value.values)
    return None


def texts_of(value: ast.expr, scopes: Sequence[ast.AST]) -> Iterator[str]:
    """A name stands for each text that the function or the module assigns to it."""
    if isinstance(value, ast.IfExp):
        yield from texts_of(value.body, scopes)
        yield from texts_of(value.orelse, scopes)
    elif isinstance(value, ast.Name):
        for node in (node for scope in scopes for node in ast.walk(scope)):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            assigned = getattr(node, "value", None) if isinstance(node, ast.Assign | ast.AnnAssign) else None
            named = any(isinstance(each, ast.Name) and each.id == value.id for each in targets)
            if assigned is not None and named and (text := text_of(assigned)) is not None:
                yield text
    elif (text := text_of(value)) is not None:
        yield text


def details() -> Iterator[Message]:
    """Texts of findings: what is wrong with a field, and what to do about it."""
    for path, module in trees().items():
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and name_of(node.func) in FINDINGS:
                values = [*node.args, *(each.value for each in node.keywords)]
                texts = (text for value in values for text in texts_of(value, [module]))
                yield from (Message(f"{path}:{node.lineno}", text) for text in texts if " " in text)


def given(call: ast.Call, place: int, keyword: str) -> ast.expr | None:
    named = (each.value for each in call.keywords if each.arg == keyword)
    return next(named, call.args[place] if len(call.args) > place else None)


def messages() -> Iterator[Message]:
    modules = trees()
    errors = errors_in(modules)
    functions_of = {path: functions_in(module) for path, module in modules.items()}
    public = {
        name: where
        for functions in functions_of.values()
        for name, where in passed_on(functions, errors)
        if not name.startswith("_")
    }
    for path, module in modules.items():
        functions = functions_of[path]
        inner = {id(node): function for function in functions for node in ast.walk(function)}
        passing = dict(passed_on(functions, errors))
        for node in ast.walk(module):
            if not isinstance(node, ast.Call):
                continue
            called = name_of(node.func)
            where = (public | errors | passing | {"ErrorInfo": 99}).get(called)
            if where is None and called == "__init__" and isinstance(node.func, ast.Attribute):
                where = 0 if of_error(module, node, errors) else None
            value = None if where is None else given(node, where, "message")
            if value is not None:
                function = inner.get(id(node))
                own = list(texts_of(value, [function])) if function is not None else []
                texts = own or list(texts_of(value, [module]))
                yield from (Message(f"{path}:{node.lineno}", text) for text in texts)


def functions_in(module: ast.Module) -> list[Function]:
    return [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def passed_on(functions: list[Function], errors: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Functions that raise or return an error with one of their own parameters as its whole message."""
    for function in functions:
        names = [each.arg for each in function.args.args if each.arg not in ("self", "cls")]
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and (where := errors.get(name_of(node.func))) is not None:
                value = given(node, where, "message")
                if isinstance(value, ast.Name) and value.id in names:
                    yield function.name, names.index(value.id)


def of_error(module: ast.Module, call: ast.Call, errors: Mapping[str, int]) -> bool:
    classes = (node for node in ast.walk(module) if isinstance(node, ast.ClassDef) and node.name in errors)
    return any(call is node for each in classes for node in ast.walk(each))


@functools.cache
def all_messages() -> list[Message]:
    return sorted({each.text: each for each in messages()}.values(), key=lambda each: each.place)


@functools.cache
def all_details() -> list[Message]:
    return sorted({each.text: each for each in details()}.values(), key=lambda each: each.place)


def test_the_messages_of_every_door_are_found() -> None:
    rooms = {each.place.rpartition("/")[0] for each in all_messages()}
    doors = {f"services/gateway/entrypoints/{door}" for door in ("a2a", "ag_ui", "door", "mcp", "openai", "rest")}
    assert doors <= rooms
    assert len(all_messages()) > 300
    assert len(all_details()) > 100


def test_a_message_is_two_short_sentences_at_most() -> None:
    def is_short(text: str) -> bool:
        sentences = SENTENCE_END.split(text)
        return len(sentences) <= 2 and max(len(sentence.split()) for sentence in sentences) <= MOST_WORDS

    assert [each for each in all_messages() if not is_short(each.text)] == []


def test_a_message_begins_and_ends_as_a_sentence() -> None:
    """It may begin with the name of a field, or with a value; a value at its end has its own full stop."""
    messages = all_messages()
    assert [each for each in messages if not BEGINNING.match(each.text)] == []
    assert [each for each in messages if not each.text.endswith((".", "{}"))] == []


def test_a_message_has_no_private_word() -> None:
    assert [each for each in (*all_messages(), *all_details()) if PRIVATE.search(each.text)] == []
