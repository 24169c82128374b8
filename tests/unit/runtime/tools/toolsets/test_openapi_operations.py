"""Operations of OpenAPI documents as tools: names, arguments, requests, and what is refused."""

from itertools import product
from typing import Any
from urllib.parse import parse_qsl, urlencode

import jsonschema_rs
import pytest

from libs.confined import JobRefused
from libs.contracts.resources.toolsets import ConnectedTool
from services.runtime.adapters.tools.toolsets.openapi.document import Target, parse_document
from services.runtime.adapters.tools.toolsets.openapi.operations import compile_operations
from services.runtime.adapters.tools.toolsets.openapi.rendering import OperationBinding, render
from services.runtime.domain.tools import ToolFailed
from services.runtime.domain.toolsets import RESERVED_HEADERS

STRING = {"type": "string"}


def document(paths: dict[str, Any], version: str = "3.1.0", **more: Any) -> dict[str, Any]:
    info, servers = {"title": "Tickets", "version": "1"}, [{"url": "https://tickets.example/api/"}]
    return {"openapi": version, "info": info, "servers": servers, "paths": paths, **more}


def compiled(
    contents: Any,
    *chosen: str,
    base_url: str | None = None,
    document_url: str | None = None,
    headers: tuple[str, ...] = (),
) -> list[ConnectedTool]:
    return compile_operations(contents, Target(base_url, document_url, frozenset(headers)), chosen or None).tools


def only(
    operation: dict[str, Any], path: str = "/x", method: str = "get", version: str = "3.1.0", **more: Any
) -> ConnectedTool:
    [tool] = compiled(document({path: {method: operation}}, version, **more))
    return tool


def request(tool: ConnectedTool, **arguments: Any) -> tuple[str, dict[str, str], bytes | None]:
    assert list(jsonschema_rs.validator_for(tool.parameters).iter_errors(arguments)) == []
    return render(OperationBinding.model_validate(tool.binding), arguments)


def query(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", **more}


def refusal(contents: Any, *chosen: str) -> str:
    with pytest.raises(JobRefused) as refused:
        compiled(contents, *chosen)
    assert len(str(refused.value)) < 700
    return str(refused.value)


def test_an_operation_that_cannot_be_a_tool_is_left_out_and_named() -> None:
    contents = document(
        {
            "/a": {"get": {"operationId": "a"}},
            "/b": {"post": {**body({}, kind="multipart/form-data"), "operationId": "upload"}},
            "/c": {"get": {"parameters": [query("a", schema={"type": "text"})]}},
            "/d": {"get": {"parameters": [query("a", schema={"$ref": "other.yaml"})]}},
        }
    )
    found = compile_operations(contents, Target(), None)

    assert [tool.name for tool in found.tools] == ["a"]
    assert [tool.name for tool in found.left_out] == ["upload", "GET /c", "GET /d"]
    reasons = [tool.reason for tool in found.left_out]
    for reason, part in zip(reasons, ["must include JSON or a form", "arguments", "outside the document"], strict=True):
        assert part in reason
    assert compile_operations(contents, Target(), ["a"]).left_out == []
    assert "must include JSON or a form" in refusal(contents, "a", "upload")


def test_an_operation_is_a_tool() -> None:
    found = only(
        {
            "operationId": "tickets.find one",
            "summary": "Finds tickets.",
            "description": "Newest first.",
            "parameters": [
                query("status", description="only these", schema={"enum": ["open", "closed"]}),
                {"name": "ticket", "in": "path", "required": True, "schema": STRING},
                {"name": "X-Trace", "in": "header", "schema": {"type": "integer"}},
            ],
        },
        "/tickets/{ticket}",
    )

    assert found.name == "tickets_find_one"
    assert found.description == "Finds tickets.\n\nNewest first."
    assert found.safe_to_repeat
    assert found.parameters == {
        "type": "object",
        "properties": {
            "ticket": STRING,
            "status": {"enum": ["open", "closed"], "description": "only these"},
            "X-Trace": {"type": "integer"},
        },
        "required": ["ticket"],
        "additionalProperties": False,
    }
    url, headers, body = request(found, ticket="a/b c?", status="open", **{"X-Trace": 7})
    assert url == "https://tickets.example/api/tickets/a%2Fb%20c%3F?status=open"
    assert (headers, body) == ({"X-Trace": "7"}, None)
    assert request(found, ticket="1")[0] == "https://tickets.example/api/tickets/1"


def test_names_are_unique_and_fit_providers_and_without_an_id_are_method_and_path() -> None:
    tools = compiled(document({f"/{n}": {"get": {"operationId": "é" * 3 + "a" * 100}} for n in range(3)}))
    assert [tool.name for tool in tools] == ["a" * 60, "a" * 60 + "_2", "a" * 60 + "_3"]
    tools = compiled(document({"/a/{id}": {"parameters": [{"name": "id", "in": "path", "required": True}], "put": {}}}))
    assert [(tool.name, tool.safe_to_repeat) for tool in tools] == [("put_a_id", False)]


def test_operations_are_chosen_by_id_or_by_method_and_path() -> None:
    contents = document({"/tickets": {"get": {"operationId": "listTickets"}, "post": {}}})
    for named in ("listTickets", "GET /tickets", "get /tickets"):
        assert [tool.name for tool in compiled(contents, named)] == ["listTickets"]
    del contents["paths"]["/tickets"]["post"]
    missing = "the document doesn't have an operation 'listTicket'; did you mean 'listTickets'?"
    assert refusal(contents, "listTicket") == missing


LIST, OBJECT = {"schema": {"type": "array"}}, {"schema": {"type": "object"}}


@pytest.mark.parametrize(
    ("described", "value", "expected"),
    [
        (LIST, [1, 2], "ids=1&ids=2"),
        ({**LIST, "explode": False}, ["a", "b"], "ids=a%2Cb"),
        ({**LIST, "style": "spaceDelimited"}, ["a", "b"], "ids=a%20b"),
        ({**LIST, "style": "pipeDelimited", "explode": False}, ["a", "b"], "ids=a%7Cb"),
        (OBJECT, {"a": 1, "b": [True, None]}, "a=1&b=true&b="),
        ({**OBJECT, "explode": False}, {"a": 1, "b": "c"}, "ids=a%2C1%2Cb%2Cc"),
        ({**OBJECT, "style": "deepObject"}, {"a": 1}, "ids%5Ba%5D=1"),
        ({**OBJECT, "style": "deepObject"}, {"a": {"b": 1}}, "ids%5Ba%5D%5Bb%5D=1"),
        ({"content": {"application/json": OBJECT}}, {"a": 1}, "ids=%7B%22a%22%3A%201%7D"),
        ({"schema": {"type": "boolean"}}, True, "ids=true"),
        ({"schema": {}}, "\ud800 &", "ids=%3F%20%26"),
    ],
)
def test_styles_of_query_parameters(described: dict[str, Any], value: Any, expected: str) -> None:
    url, _, _ = request(only({"parameters": [query("ids", **described)]}), ids=value)

    assert url == "https://tickets.example/api/x?" + expected


def test_no_argument_leads_to_another_path() -> None:
    found = only({"parameters": [{"name": "id", "in": "path", "required": True, "schema": STRING}]}, "/a/{id}/b")

    for value in ("", ".", ".."):
        with pytest.raises(ToolFailed, match="allowed in a URL's path"):
            request(found, id=value)
    assert request(found, id="{id}../%2e")[0] == "https://tickets.example/api/a/%7Bid%7D..%2F%252e/b"


def test_no_argument_ends_a_header() -> None:
    found = only({"parameters": [{"name": "X-A", "in": "header", "schema": STRING}]})

    for value in ("a\r\nHost: b", "ü"):
        with pytest.raises(ToolFailed, match="printable ASCII"):
            request(found, **{"X-A": value})
    with pytest.raises(ToolFailed, match="must not reference a secret"):
        request(found, **{"X-A": "a ${secret:KEY}"})


def test_parameters_of_the_same_name_carry_their_place() -> None:
    described = {"name": "id", "schema": STRING}
    parameters = [
        {**described, "in": location, "required": location == "path"} for location in ("header", "query", "path")
    ]
    found = only({"parameters": parameters}, "/{id}")

    assert list(found.parameters["properties"]) == ["id", "query_id", "header_id"]
    url, headers, _ = request(found, id="p", query_id="q", header_id="h")
    assert (url, headers) == ("https://tickets.example/api/p?id=q", {"id": "h"})


def test_odd_names_of_parameters_become_arguments_that_providers_accept() -> None:
    found = only({"parameters": [query("filter[name]", schema=STRING), query("$top", schema=STRING)]})

    assert list(found.parameters["properties"]) == ["filter_name", "top"]
    assert request(found, filter_name="a", top="1")[0].endswith("?filter%5Bname%5D=a&%24top=1")


def test_a_parameter_of_the_operation_replaces_that_of_its_path() -> None:
    item = {"parameters": [query("a", schema=STRING)], "get": {"parameters": [query("a", schema={"type": "integer"})]}}
    [found] = compiled(document({"/x": item}))

    assert found.parameters["properties"] == {"a": {"type": "integer"}}


def test_headers_of_the_toolset_and_of_http_are_no_arguments() -> None:
    names = ["Authorization", "Accept", "X-Key", "X-Free", *(name.title() for name in RESERVED_HEADERS)]
    contents = document({"/x": {"get": {"parameters": [{"name": n, "in": "header", "schema": STRING} for n in names]}}})

    [found] = compiled(contents, headers=("x-key",))
    assert list(found.parameters["properties"]) == ["X-Free"]


def test_cookies_are_refused_by_name_when_they_are_needed() -> None:
    def with_cookie(required: bool) -> dict[str, Any]:
        return document({"/x": {"get": {"parameters": [{"name": "sid", "in": "cookie", "required": required}]}}})

    assert "tools can't set the cookie 'sid'" in refusal(with_cookie(True))
    assert compiled(with_cookie(False))[0].parameters["properties"] == {}


def body(schema: Any, *, kind: str = "application/json", required: bool = True) -> dict[str, Any]:
    return {"requestBody": {"required": required, "content": {kind: {"schema": schema}}}}


TICKET = {"type": "object", "required": ["title"], "properties": {"title": STRING, "seats": {"type": "integer"}}}


def test_fields_of_a_body_are_arguments() -> None:
    found = only(body({"$ref": "#/components/schemas/T"}), method="post", components={"schemas": {"T": TICKET}})

    assert found.parameters["properties"] == {"title": STRING, "seats": {"type": "integer"}}
    assert found.parameters["required"] == ["title"]
    assert not found.safe_to_repeat
    _, headers, sent = request(found, title="a", seats=2)
    assert (headers, sent) == ({"Content-Type": "application/json"}, b'{"title": "a", "seats": 2}')


def test_other_bodies_are_one_argument() -> None:
    for schema in (
        {"type": "array", "items": STRING},
        {"allOf": [TICKET]},
        {**TICKET, "additionalProperties": STRING},
        {**TICKET, "properties": {**TICKET["properties"], "größe": STRING}},
        {"type": "object"},
        {**TICKET, "properties": {**TICKET["properties"], "id": STRING}},
    ):
        found = only({**body(schema), "parameters": [query("id", schema=STRING)]}, method="post")
        assert list(found.parameters["properties"]) == ["id", "body"], schema
        assert found.parameters["required"] == ["body"]

    found = only(body({"type": "array", "items": STRING}), method="put")
    assert request(found, body=["a", "ü"])[2] == '["a", "ü"]'.encode()
    optional = only(body(TICKET, required=False), method="post")
    assert "required" not in optional.parameters
    assert request(optional)[1:] == ({}, None)
    named = only({**body({"type": "array"}), "parameters": [query("body", schema=STRING)]}, method="post")
    assert list(named.parameters["properties"]) == ["body", "request_body"]


FORM = "application/x-www-form-urlencoded"


def test_forms_are_sent_as_forms() -> None:
    _, headers, sent = request(only(body(TICKET, kind=FORM), method="post"), title="a b&c", seats=2)
    assert headers == {"Content-Type": FORM}
    assert sent == b"title=a+b%26c&seats=2"


@pytest.mark.parametrize(
    ("encoding", "value", "sent"),
    [
        ({}, ["a b", "c"], "x=a+b&x=c"),
        ({"style": "form"}, ["a", "c"], "x=a&x=c"),
        ({"style": "deepObject"}, {"order": 6735}, "x[order]=6735"),
        ({"style": "deepObject", "explode": True}, {"order": "a&b", "paid": True}, "x[order]=a%26b&x[paid]=true"),
        ({"style": "deepObject"}, {"a": {"b": [1, {"c": None}]}}, "x[a][b][0]=1&x[a][b][1][c]="),
        ({"style": "deepObject"}, [{"price": "p1"}, {"price": "p2"}], "x[0][price]=p1&x[1][price]=p2"),
        ({"explode": False}, ["a", "c"], "x=a,c"),
        ({"style": "form", "explode": False}, {"a": 1, "b": 2}, "x=a,1,b,2"),
        ({"style": "pipeDelimited"}, ["a", "c"], "x=a|c"),
        ({"style": "spaceDelimited", "explode": False}, ["a", "c"], "x=a+c"),
        ({"style": "pipeDelimited", "explode": True}, ["a", "c"], "x=a&x=c"),
        ({"contentType": "application/json"}, [1, {"a": 2}], 'x=[1,+{"a":+2}]'),
        ({"contentType": "text/plain"}, ["a", "c"], "x=a&x=c"),
    ],
)
def test_fields_of_a_form_have_their_encoding(encoding: dict[str, Any], value: Any, sent: str) -> None:
    form = {"x": value, "y": "1,2"}
    fields = {"type": "object", "properties": {"x": {}, "y": STRING}}
    for version, (schema, arguments) in product(
        ("3.0.3", "3.1.0"), ((fields, form), ({"type": "object"}, {"body": form}))
    ):
        content = {FORM: {"schema": schema, "encoding": {"x": encoding, "unused": {"style": "deepObject"}}}}
        found = only({"requestBody": {"content": content}}, method="post", version=version)
        made = request(found, **arguments)[2]
        assert made == urlencode(parse_qsl(f"{sent}&y=1,2", keep_blank_values=True)).encode()


def test_an_encoding_that_cannot_be_followed_is_refused() -> None:
    for encoding, reason in (
        ({"x": {"style": "matrix"}}, "encoding.x: style 'matrix' isn't supported in a form"),
        ({"x": {"explode": "perhaps"}}, "encoding.x: explode"),
        ({"x": 3}, "encoding.x isn't an object"),
        ([], "`encoding` isn't an object"),
    ):
        content = {FORM: {"schema": {"type": "object", "properties": {"x": {}}}, "encoding": encoding}}
        assert reason in refusal(document({"/x": {"post": {"requestBody": {"content": content}}}}))


def test_json_is_chosen_before_a_form_and_what_is_neither_is_refused() -> None:
    both = {"requestBody": {"content": {FORM: {}, "application/vnd.a+json": {}}}}
    assert only(both, method="post").binding["body"]["content_type"] == "application/vnd.a+json"  # type: ignore[index]

    upload = document({"/x": {"post": body({}, kind="multipart/form-data")}})
    assert "must include JSON or a form" in refusal(upload)
    optional = document({"/x": {"post": body({}, kind="multipart/form-data", required=False)}})
    assert compiled(optional)[0].parameters["properties"] == {}


def test_recursive_schemas_are_definitions() -> None:
    nodes = {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}
    node = {"type": "object", "properties": {"children": nodes}}
    found = only(body(nodes), method="post", components={"schemas": {"Node": node}})

    assert found.parameters["properties"]["body"] == {"type": "array", "items": {"$ref": "#/$defs/Node"}}
    check = jsonschema_rs.validator_for(found.parameters)
    assert check.is_valid({"body": [{"children": [{"children": []}]}]})
    assert not check.is_valid({"body": [{"children": [{"children": 3}]}]})


def test_definitions_with_the_same_end_of_their_reference_are_told_apart() -> None:
    references = {"a": "#/components/schemas/T", "b": "#/x-own/T"}
    parameters = [query(name, schema={"$ref": reference}) for name, reference in references.items()]
    elsewhere = {"x-own": {"T": {"type": "integer"}}}
    found = only({"parameters": parameters}, components={"schemas": {"T": STRING}}, **elsewhere)

    assert jsonschema_rs.validator_for(found.parameters).is_valid({"a": "1", "b": 1})
    assert set(found.parameters["$defs"]) == {"T", "T_2"}


def test_openapi_3_0_is_translated() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "nullable": True, "example": 2},
            "b": {"$ref": "#/components/schemas/E", "description": "3.0 ignores what stands beside"},
            "c": {"allOf": [{"$ref": "#/components/schemas/E"}], "nullable": True, "description": "or none"},
            "id": {"type": "string", "readOnly": True},
        },
        "required": ["a", "id"],
    }
    schemas = {"E": {"type": "string", "enum": ["x"], "nullable": True}}
    found = only(body(schema), method="post", version="3.0.3", components={"schemas": schemas})

    assert found.parameters["properties"] == {
        "a": {"type": ["integer", "null"], "exclusiveMinimum": 1},
        "b": {"$ref": "#/$defs/E"},
        "c": {"anyOf": [{"allOf": [{"$ref": "#/$defs/E"}]}, {"type": "null"}], "description": "or none"},
    }
    assert found.parameters["$defs"] == {"E": {"type": ["string", "null"], "enum": ["x", None]}}
    assert found.parameters["required"] == ["a"]


def test_where_operations_are_called() -> None:
    region = {"url": "https://{region}.tickets.example", "variables": {"region": {"default": "eu"}}}
    described = "https://a.example/docs/openapi.json"
    for server, more, expected in (
        (region, {"base_url": "http://other.example/v2/"}, "http://other.example/v2/x"),
        (region, {"document_url": described}, "https://eu.tickets.example/x"),
        ({"url": "/v1"}, {"document_url": described}, "https://a.example/v1/x"),
    ):
        [found] = compiled(document({"/x": {"get": {}}}, servers=[server]), **more)  # type: ignore[arg-type]
        assert request(found)[0] == expected
    assert "set `base_url`" in refusal(document({"/x": {"get": {}}}, servers=[{"url": "/v1"}]))


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        (3, "must be an object"),
        ({"swagger": "2.0", "paths": {}}, "Swagger 2.0"),
        ({"openapi": "4.0.0", "paths": {}}, "use version 3.0 or 3.1"),
        ({"openapi": "3.1.0"}, "`paths` is missing"),
        (document({}), "doesn't contain any operations"),
        (document({"/x": 3}), "paths./x isn't an object"),
        (document({"/x": {"get": 3}}), "GET /x isn't an object"),
        (document({"/x": {"get": {"summary": 3}}}), "GET /x: summary"),
        (document({"/x": {"get": {"parameters": {}}}}), "`parameters` isn't a list"),
        (document({"/x": {"get": {"parameters": [{"name": "a"}]}}}), "parameters.0: in"),
        (document({"/x": {"get": {"parameters": [query("a", style="matrix")]}}}), "style 'matrix'"),
        (document({"/{id}": {"get": {}}}), "`parameters` doesn't describe id"),
        (document({"/x": {"get": {"parameters": [query("a", schema={"type": "text"})]}}}), "arguments"),
        (document({"/x": {"get": {"parameters": [query("a", schema={"properties": 3})]}}}), "`properties` in a schema"),
        (document({"/x": {"get": {"parameters": [query("a", schema=3)]}}}), "must be an object, not int"),
        (document({"/x": {"post": {"requestBody": {"required": True}}}}), "must include JSON or a form"),
            (document({"/x": {"get": {"parameters": [query("a", schema={"default": {1, 2}})]}}}), "doesn't support"),
        (document({"/x": {"get": {"parameters": [{"$ref": "#/nowhere"}]}}}), "doesn't exist"),
        (document({"/x": {"get": {"parameters": [query("a", schema={"$ref": "#/nowhere"})]}}}), "doesn't exist"),
        (document({"/x": {"get": {"parameters": [{"$ref": "http://inside/x"}]}}}), "outside the document"),
        (document({"/x": {"get": {"parameters": [query("a", schema={"$ref": "file:///etc/passwd"})]}}}), "outside the"),
        (document({"/x": {"get": {"parameters": [query("a", schema={"$ref": 3})]}}}), "outside the document"),
        (document({"/x": {"$ref": "#/paths/~1x"}}), "has more than 20 links"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(contents: Any, said: str) -> None:
    assert said in refusal(contents)


def test_bombs_of_references_and_of_depth_are_refused() -> None:
    schemas: dict[str, Any] = {
        f"S{n}": {"allOf": [{"$ref": f"#/components/schemas/S{n + 1}"}] * 50} for n in range(200)
    }
    schemas["S200"] = deep = STRING
    for _ in range(500):
        deep = {"type": "array", "items": deep}
    for schema, said in (({"$ref": "#/components/schemas/S0"}, "too large for a model"), (deep, "nested too deeply")):
        paths = {"/x": {"get": {"parameters": [query("a", schema=schema)]}}}
        assert said in refusal(document(paths, components={"schemas": schemas}))


def test_yaml_is_read_as_json_would_be() -> None:
    text = "openapi: 3.1.0\npaths:\n  /x:\n    get:\n      summary: 2026-01-01\n      responses: {200: {}}\n"

    assert parse_document(text)["paths"]["/x"]["get"] == {"summary": "2026-01-01", "responses": {200: {}}}


@pytest.mark.parametrize("keyword", ["anyOf", "default"])
def test_aliases_that_multiply_are_refused(keyword: str) -> None:
    lines = ["openapi: 3.1.0", "servers: [{url: 'https://a.example'}]", "l0: &l0 {type: string}"]
    lines += [f"l{n}: &l{n} {{{keyword}: [{', '.join([f'*l{n - 1}'] * 9)}]}}" for n in range(1, 30)]
    lines += ["paths: {/x: {get: {parameters: [{name: a, in: query, schema: *l29}]}}}"]

    assert "too large" in refusal(parse_document("\n".join(lines)))
    lines[-1] = "paths: {/x: {get: [*l29]}}"
    assert "GET /x isn't an object" in refusal(parse_document("\n".join(lines)))


def test_a_byte_order_mark_is_no_part_of_a_document_and_half_pairs_in_it_are_replaced() -> None:
    for text in ('{"openapi": "3.1.0"}', "openapi: 3.1.0"):
        assert parse_document("\ufeff" + text) == {"openapi": "3.1.0"}
    for text in (r'{"info": "\ud83d\ude00\ud83d"}', r'info: "\ud83d\ude00\ud83d"'):
        assert parse_document(text) == {"info": "😀�"}


def test_what_is_no_document_is_said() -> None:
    deep = "[" * 5000
    for text in ("{", '{"a": 1', "a: [", "a: *b", "!!python/object:os.system {}", "\x00", deep, '{"paths": ' + deep):
        with pytest.raises(JobRefused, match=r"the document is"):
            parse_document(text)
