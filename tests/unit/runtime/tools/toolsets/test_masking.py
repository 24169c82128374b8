"""Secrets that a target echoes when its tools are discovered."""

import base64

from libs.contracts.resources.secrets import secret_place
from libs.contracts.resources.toolsets import ConnectedTool, DiscoveredTools, LeftOutTool
from libs.secrets import SecretCipher
from services.runtime.adapters.tools.toolsets.masking import MaskedConnector
from services.runtime.adapters.tools.toolsets.secrets import ToolsetSecrets
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolContext, ToolOutput
from services.runtime.domain.toolsets import Toolset
from tests.support.agent_fakes import CALLER

CIPHER = SecretCipher([bytes(32)])


class Listing:
    """A ToolsetConnector whose target lists one tool that can be used."""

    def __init__(self, tool: ConnectedTool, *left_out: LeftOutTool) -> None:
        self.tool = tool
        self.left_out = list(left_out)

    async def discover(self, _toolset: Toolset, /) -> DiscoveredTools:
        return DiscoveredTools(tools=[self.tool], left_out=self.left_out)

    async def call(
        self, _toolset: Toolset, _tool: ConnectedTool, _arguments: JsonObject, _context: ToolContext, /
    ) -> ToolOutput:
        raise NotImplementedError


def _toolset(secret: str) -> Toolset:
    ciphertext = CIPHER.encrypt(secret, place=secret_place(CALLER.company_id, "KEY"))
    return Toolset(CALLER.company_id, "desk", 1, "mcp", {}, (), {"KEY": base64.b64encode(ciphertext).decode()})


async def _discovered(secret: str, tool: ConnectedTool) -> ConnectedTool:
    [found] = (await MaskedConnector(Listing(tool), ToolsetSecrets(CIPHER)).discover(_toolset(secret))).tools
    return found


async def test_a_secret_is_in_no_word_about_a_tool_that_was_left_out() -> None:
    named = LeftOutTool(name="find swordfish", reason="its schema has swordfish")
    listing = Listing(ConnectedTool(name="find"), named)

    [found] = (await MaskedConnector(listing, ToolsetSecrets(CIPHER)).discover(_toolset("swordfish"))).left_out

    assert (found.name, found.reason) == ("find [secret]", "its schema has [secret]")


async def test_a_secret_is_in_no_description_of_a_tool_or_its_parameters() -> None:
    by_key = {"type": "string", "title": "swordfish", "default": "Bearer swordfish", "examples": [["swordfish"]]}
    parameters = {"type": "object", "$defs": {"key": by_key}, "properties": {"key": {"$ref": "#/$defs/key"}}}
    tool = ConnectedTool(name="find", description="Finds for swordfish.", parameters=parameters)

    found = await _discovered("swordfish", tool)

    assert "swordfish" not in found.model_dump_json()
    assert found.description == "Finds for [secret]."
    assert found.parameters["$defs"]["key"] == {
        "type": "string",
        "title": "[secret]",
        "default": "Bearer [secret]",
        "examples": [["[secret]"]],
    }


async def test_words_that_calls_are_checked_by_stay() -> None:
    parameters = {"type": "object", "properties": {"object": {"type": "string"}}, "required": ["object"]}

    found = await _discovered("object", ConnectedTool(name="object", description="", parameters=parameters))

    assert (found.name, found.parameters) == ("object", parameters)


async def test_a_secret_is_masked_in_either_case() -> None:
    mask = ToolsetSecrets(CIPHER).mask(_toolset("FerryDeskKey42"))
    assert mask.hide("content of type application/ferrydeskkey42") == "content of type application/[secret]"
    assert mask.hide("HOST FERRYDESKKEY42.example") == "HOST [secret].example"
