"""``/models/`` and ``/tools/``: what agents can be built from."""

from typing import Final

from libs.contracts.identity import Scope
from services.gateway.entrypoints.http.forwarding import Forwarding
from services.gateway.entrypoints.http.messages import Reply, Request
from services.gateway.entrypoints.http.operations import Answer, Operation
from services.gateway.entrypoints.http.schemas import ModelPage, ToolPage

_TAG: Final = "Catalogues"


class Catalogues:
    def __init__(self, forward: Forwarding) -> None:
        self._forward = forward

    async def models(self, request: Request) -> Reply:
        return await self._forward.page(request, "runtime", "/internal/models")

    async def tools(self, request: Request) -> Reply:
        return await self._forward.page(request, "runtime", "/internal/tools")

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="GET",
                path="/models/",
                name="list_models",
                summary="List the models that agents can use",
                tag=_TAG,
                handler=self.models,
                scope=Scope.AGENTS_READ,
                paged=True,
                answers={200: Answer(description="Models of the providers that are configured.", model=ModelPage)},
                errors=(422,),
            ),
            Operation(
                method="GET",
                path="/tools/",
                name="list_tools",
                summary="List the tools that agents can use",
                tag=_TAG,
                handler=self.tools,
                scope=Scope.AGENTS_READ,
                paged=True,
                answers={200: Answer(description="Tools.", model=ToolPage)},
                errors=(422,),
            ),
        )
