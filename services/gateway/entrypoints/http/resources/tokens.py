"""``/auth/token/``: short-lived credentials for browsers and links."""

from typing import Final

from services.gateway.entrypoints.http import examples
from services.gateway.entrypoints.http.messages import Reply, Request
from services.gateway.entrypoints.http.operations import Answer, Body, Operation
from services.gateway.entrypoints.http.schemas import TokenBody, TokenReply
from services.gateway.use_cases.issue_token import IssueToken

_DESCRIPTION: Final = (
    "A bearer token for the artifact endpoints, valid for an hour at most. It ends when its key does: at once when"
    " that is revoked. Tokens are not kept; a repeat of the request makes another one."
)


class Tokens:
    def __init__(self, issue: IssueToken) -> None:
        self._issue = issue

    async def create(self, request: Request) -> Reply:
        body: TokenBody = request.body
        scopes = None if body.scopes is None else frozenset(body.scopes)
        issued = self._issue(request.principal, scopes, body.expires_in)
        reply = TokenReply.model_validate(
            {
                "access_token": issued.text,
                "expires_in": issued.seconds,
                "expires_at": issued.grant.expires_at,
                "scopes": sorted(issued.grant.scopes),
            }
        )
        return Reply(200, reply.model_dump_json().encode(), [(b"cache-control", b"no-store")])

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation(
                method="POST",
                path="/auth/token/",
                name="create_token",
                summary="Make a bearer token",
                description=_DESCRIPTION,
                tag="Access",
                handler=self.create,
                body=Body(model=TokenBody, examples=examples.TOKENS, required=False),
                answers={200: Answer(description="The token.", model=TokenReply)},
                errors=(403,),
            ),
        )
