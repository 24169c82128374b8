"""The reference: complete, true to what is routed, and free of anything from elsewhere."""

import re

import pytest

from tests.support.gateway import Gateway


@pytest.mark.parametrize("path", ["/docs/", "/openapi.json", "/asyncapi.json", "/docs/assets/swagger-ui-bundle.js"])
async def test_the_reference_is_public(public: Gateway, path: str) -> None:
    public.client.headers.pop("x-api-key")
    assert (await public.client.get(path)).status_code == 200


async def test_the_page_loads_only_what_the_gateway_serves(public: Gateway) -> None:
    page = await public.client.get("/docs/")
    assets = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert assets
    for asset in assets:
        loaded = await public.client.get(f"/docs/{asset}")
        assert (loaded.status_code, asset.startswith("assets/")) == (200, True)
    assert "'self'" in page.headers["content-security-policy"]
    assert "http" not in page.headers["content-security-policy"]


async def test_every_operation_is_described_with_what_can_come_back(public: Gateway) -> None:
    document = (await public.client.get("/openapi.json")).json()
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    assert len(operations) == 103
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    for operation in operations:
        assert {"400", "401", "429", "503"} <= set(operation["responses"])
        for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
            assert media_type == "multipart/form-data" or content["examples"], (operation["operationId"], media_type)


async def test_every_reference_in_the_document_leads_somewhere(public: Gateway) -> None:
    response = await public.client.get("/openapi.json")
    document = response.json()
    for pointer in set(re.findall(r'"\$ref":"#/([^"]+)"', response.text)):
        place = document
        for part in pointer.split("/"):
            place = place[part]
