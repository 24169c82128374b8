"""Schemas of strangers: what is refused, and that neither the net nor a pattern can be abused."""

from typing import Any

import pytest

from libs.json_schema import MAX_BYTES, MAX_DEPTH, SchemaInvalid, compile_schema

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


def test_problems_name_their_places() -> None:
    schema = compile_schema(PERSON)
    assert schema.problems({"name": "Ada", "age": 36}) == []
    assert schema.problems({"age": "old"}, name="output") == [
        'age: "old" is not of type "integer"',
        'output: "name" is a required property',
    ]
    assert len(compile_schema({"items": {"type": "string"}}).problems(list(range(50)))) == 5


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "objct"}, ("type",)),
        ({"properties": {"a": {"minimum": "x"}}}, ("properties", "a", "minimum")),
        ({"pattern": "("}, ("pattern",)),
        ({"$ref": "#/$defs/missing"}, ()),
        ({"$schema": "https://example.com/own"}, ()),
    ],
)
def test_what_is_no_schema_is_refused_with_its_place(schema: dict[str, Any], path: tuple[str, ...]) -> None:
    with pytest.raises(SchemaInvalid) as refusal:
        compile_schema(schema)
    assert refusal.value.path == path


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/x.json", "https://example.com/x", "file:///etc/passwd"])
def test_no_reference_is_fetched(address: str) -> None:
    with pytest.raises(SchemaInvalid, match="Retrieval is disabled"):
        compile_schema({"properties": {"a": {"$ref": address}}})


def test_references_into_the_schema_may_be_recursive() -> None:
    tree = compile_schema({"type": "object", "properties": {"child": {"$ref": "#"}}})
    assert tree.problems({"child": {"child": {}}}) == []
    assert tree.problems({"child": {"child": 1}}) == ['child.child: 1 is not of type "object"']


def test_size_and_depth_are_bounded() -> None:
    nested: dict[str, Any] = {}
    for _ in range(MAX_DEPTH):
        nested = {"not": nested}
    with pytest.raises(SchemaInvalid, match="deeper"):
        compile_schema(nested)
    compile_schema(nested["not"])
    with pytest.raises(SchemaInvalid, match="larger"):
        compile_schema({"description": "x" * MAX_BYTES})


@pytest.mark.parametrize("pattern", ["^(a+)+$", r"^(?=a)(a|aa)+(?!b)\1$"])
def test_a_pattern_that_backtracks_for_ever_comes_to_an_end(pattern: str) -> None:
    assert compile_schema({"pattern": pattern}).problems("a" * 5000 + "b")


@pytest.mark.parametrize("value", [10**40, -(2**63) - 1, "\ud800"])
def test_a_schema_that_cannot_be_kept_as_json_is_refused(value: object) -> None:
    with pytest.raises(SchemaInvalid, match="cannot be kept as JSON"):
        compile_schema({"type": "object", "properties": {"n": {"const": value}}})


def bomb(levels: int, width: int = 10) -> dict[str, Any]:
    """A property whose value is held against ``width`` to the power of ``levels`` schemas."""
    definitions: dict[str, Any] = {
        f"l{level}": {"anyOf": [{"$ref": f"#/$defs/l{level + 1}"}] * width} for level in range(levels)
    }
    return {"properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": {**definitions, f"l{levels}": {"type": "string"}}}


def test_references_to_references_cannot_keep_a_process_busy() -> None:
    with pytest.raises(SchemaInvalid, match="alternatives for one value"):
        compile_schema(bomb(12))
    with pytest.raises(SchemaInvalid, match="alternatives for one value"):
        compile_schema(
            {"oneOf": [{"properties": {"a": {"items": {"allOf": [bomb(3)["properties"]["a"]]}}}}], **bomb(3)}
        )
    assert compile_schema(bomb(2)).problems({"a": "text"}) == []


def test_schemas_that_refer_to_themselves_are_no_more_than_their_alternatives() -> None:
    tree = {
        "$defs": {
            "expression": {
                "oneOf": [
                    {"type": "number"},
                    {
                        "type": "object",
                        "properties": {side: {"$ref": "#/$defs/expression"} for side in ("left", "right")},
                    },
                ]
            }
        },
        "$ref": "#/$defs/expression",
    }
    assert compile_schema(tree).problems({"left": 1, "right": {"left": 2, "right": 3}}) == []
    assert compile_schema({"type": "array", "items": {"$ref": "#"}}).problems([[], [[]]]) == []
    many = {"oneOf": [{"const": number} for number in range(900)]}
    assert compile_schema(many).problems(7) == []
