"""Schemas of strangers: what is refused, and that neither the net nor a pattern can be abused."""

import asyncio
from math import inf
from typing import Any

import pytest

from libs.json_schema import MAX_BYTES, MAX_DEPTH, SchemaInvalid, compile_schema
from tests.support.waiting import until

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


async def test_problems_name_their_places() -> None:
    schema = compile_schema(PERSON)
    assert await schema.problems({"name": "Ada", "age": 36}) == []
    assert await schema.problems({"age": "old"}, name="output") == [
        'age: "old" is not of type "integer"',
        'output: "name" is a required property',
    ]
    assert len(await compile_schema({"items": {"type": "string"}}).problems(list(range(50)))) == 5


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


async def test_references_into_the_schema_may_be_recursive() -> None:
    tree = compile_schema({"type": "object", "properties": {"child": {"$ref": "#"}}})
    assert await tree.problems({"child": {"child": {}}}) == []
    assert await tree.problems({"child": {"child": 1}}) == ['child.child: 1 is not of type "object"']


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
async def test_a_pattern_that_backtracks_for_ever_comes_to_an_end(pattern: str) -> None:
    assert await compile_schema({"pattern": pattern}).problems("a" * 5000 + "b")


@pytest.mark.parametrize("value", [10**40, -(2**63) - 1, "\ud800"])
def test_a_schema_that_cannot_be_kept_as_json_is_refused(value: object) -> None:
    with pytest.raises(SchemaInvalid, match="can't be stored as JSON"):
        compile_schema({"type": "object", "properties": {"n": {"const": value}}})


def bomb(levels: int, width: int = 10) -> dict[str, Any]:
    """A property whose value is held against ``width`` to the power of ``levels`` schemas."""
    definitions: dict[str, Any] = {
        f"l{level}": {"anyOf": [{"$ref": f"#/$defs/l{level + 1}"}] * width} for level in range(levels)
    }
    return {"properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": {**definitions, f"l{levels}": {"type": "string"}}}


async def test_references_to_references_cannot_keep_a_process_busy() -> None:
    with pytest.raises(SchemaInvalid, match="alternatives for one value"):
        compile_schema(bomb(12))
    with pytest.raises(SchemaInvalid, match="alternatives for one value"):
        compile_schema(
            {"oneOf": [{"properties": {"a": {"items": {"allOf": [bomb(3)["properties"]["a"]]}}}}], **bomb(3)}
        )
    assert await compile_schema(bomb(2)).problems({"a": "text"}) == []


async def test_schemas_that_refer_to_themselves_are_no_more_than_their_alternatives() -> None:
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
    assert await compile_schema(tree).problems({"left": 1, "right": {"left": 2, "right": 3}}) == []
    assert await compile_schema({"type": "array", "items": {"$ref": "#"}}).problems([[], [[]]]) == []
    many = {"oneOf": [{"const": number} for number in range(900)]}
    assert await compile_schema(many).problems(7) == []


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


_TWICE = {"anyOf": [{"properties": {"a": {"$ref": "#/$defs/node"}}, "required": ["z"]}] * 2}
SLOW_SCHEMAS = {
    "itself": {"$ref": "#/$defs/node", "$defs": {"node": _TWICE}},
    "anchor": {
        "$ref": "#node",
        "$defs": {
            "node": {"$anchor": "node", "anyOf": [{"properties": {"a": {"$ref": "#node"}}, "required": ["z"]}] * 2}
        },
    },
    "one after the other": {
        "$ref": "#/$defs/n0",
        "$defs": {
            f"n{level}": {"anyOf": [{"properties": {"a": {"$ref": f"#/$defs/n{level + 1}"}}, "required": ["z"]}] * 2}
            for level in range(30)
        }
        | {"n30": {"required": ["z"]}},
    },
    "patterns": {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "patternProperties": {"a": {"$ref": "#/$defs/node"}, "^a": {"$ref": "#/$defs/node"}},
                "required": ["z"],
            }
        },
    },
}


@pytest.mark.slow(covered_by="test_a_pattern_that_backtracks_for_ever_comes_to_an_end")
@pytest.mark.parametrize("schema", SLOW_SCHEMAS.values(), ids=SLOW_SCHEMAS)
async def test_alternatives_within_alternatives_do_not_hold_up_the_process(schema: dict[str, Any]) -> None:
    """The loop goes on, and the check comes to an end."""
    compiled = compile_schema(schema)
    check = asyncio.create_task(compiled.problems(nested(24), name="arguments"))
    turns_of_the_loop = 0

    def ended() -> bool:
        nonlocal turns_of_the_loop
        turns_of_the_loop += 1
        return check.done()

    # Without a pause: however fast the machine is, starting a process takes more turns than that.
    await until(ended, pause=0)
    assert turns_of_the_loop > 10
    assert check.result() == ["arguments: validation against the schema takes too much time or memory"]


def anchored_bomb(levels: int) -> dict[str, Any]:
    definitions = {
        f"l{level}": {"$anchor": f"l{level}", "anyOf": [{"$ref": f"#l{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$ref": "#l0", "$defs": {**definitions, f"l{levels}": {"$anchor": f"l{levels}", "type": "object"}}}


def long_bomb(levels: int, references: int = 45) -> dict[str, Any]:
    """Alternatives of alternatives, with a chain of references between two of them."""
    last = levels * references
    definitions: dict[str, Any] = {
        f"r{number}": {"anyOf": [{"$ref": f"#/$defs/r{number + 1}"}] * 2}
        if number % references == 0
        else {"$ref": f"#/$defs/r{number + 1}"}
        for number in reversed(range(last))
    }
    return {"$ref": "#/$defs/r0", "$defs": {f"r{last}": {"type": "object"}, **definitions}}


@pytest.mark.parametrize("schema", [anchored_bomb(40), long_bomb(40)], ids=["anchors", "a long chain"])
@pytest.mark.parametrize("value", ["text", {}, []])
def test_a_schema_of_unknown_cost_is_applied_in_a_process_of_its_own_to_any_value(
    schema: dict[str, Any], value: object
) -> None:
    compiled = compile_schema(schema)
    assert compiled.effort.alternatives < 1000
    assert compiled.effort.of(value) == inf


async def test_a_check_in_a_process_of_its_own_finds_the_same() -> None:
    compiled = compile_schema(SLOW_SCHEMAS["itself"])
    assert compiled.effort.of(nested(8)) < 50_000 < compiled.effort.of(nested(11))
    here, apart = await compiled.problems(nested(8)), await compiled.problems(nested(11))
    assert [text[-30:] for text in here] == [text[-30:] for text in apart]
    assert await compiled.problems({"z": 1, "a": {"z": nested(9)}}) == []


@pytest.mark.parametrize(
    ("schema", "branching"),
    [
        (PERSON, 1),
        ({"type": "array", "items": {"$ref": "#"}}, 1),
        ({"anyOf": [PERSON, {"type": "null"}]}, 1),
        ({"oneOf": [PERSON, PERSON, PERSON]}, 3),
        ({"allOf": [{"$ref": "#/$defs/a"}], "properties": {}, "$defs": {"a": PERSON}}, 2),
        ({"contains": {"minimum": 1}, "items": {"type": "integer"}}, 2),
        ({"properties": {"a": {}}, "unevaluatedProperties": False}, 2),
        ({"$dynamicRef": "#node", "$defs": {"a": {"$dynamicAnchor": "node"}}}, inf),
        ({"properties": {"a": {"$id": "urn:b", "type": "string"}}}, inf),
    ],
)
def test_branching_counts_the_schemas_for_one_member(schema: dict[str, Any], branching: float) -> None:
    assert compile_schema(schema).effort.branching == branching
