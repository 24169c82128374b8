"""Calls OpenAI-compatible servers over HTTP. No SDK is used, since this is the hot path."""

from collections.abc import AsyncIterator
from typing import Any, Final

import aiohttp
from yarl import URL

from libs.contracts.resources.turns import NamedTool
from libs.json_text import write_json
from libs.retry import RetryPolicy
from services.runtime.adapters.models.failures import (
    ANSWER_SECONDS,
    ErrorInBody,
    ProviderCalls,
    Retryable,
    error_text,
    retry_after_seconds,
)
from services.runtime.adapters.models.known_providers import CompatibleProvider
from services.runtime.adapters.models.openai_answers import NotAnAnswer, StreamedAnswer, decode_answer
from services.runtime.domain.conversation import (
    AssistantMessage,
    JsonObject,
    Message,
    ModelAnswer,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from services.runtime.domain.conversation_json import part_to_json
from services.runtime.domain.models import ModelFailed, ModelRequest, OnText
from services.runtime.domain.tools import ToolDefinition

_STRICT_KEYWORDS: Final = frozenset(
    ("type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "title", "description")
)
_LARGEST_ERROR_BYTES: Final = 64 * 1024
_LARGEST_ANSWER_BYTES: Final = 8 * 1024 * 1024
_CONNECT_SECONDS: Final = 10.0


def encode_request(request: ModelRequest, name: str, *, stream: bool, native_output: bool = False) -> bytes:
    """Encodes the request as JSON. With `native_output`, the schema is the response format, not part of the prompt."""
    system = request.instructions(native_output=native_output)
    messages: list[JsonObject] = [{"role": "system", "content": system}] if system else []
    messages.extend(_message(message) for message in request.messages)
    body: JsonObject = {"model": name, "messages": messages}
    if native_output:
        schema = request.settings.output_schema or {}
        output = {"name": "output", "schema": schema, "strict": _is_strict(schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": output}
    if request.callable_tools:
        body["tools"] = [_tool(tool) for tool in request.callable_tools]
        body |= _calling(request)
    if request.settings.stop:
        body["stop"] = request.settings.stop
    body |= request.sampling()
    if stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    return write_json(body)


def _is_strict(schema: Any) -> bool:
    """Returns whether a server can guarantee that its output matches the schema."""
    if not isinstance(schema, dict) or not schema.keys() <= _STRICT_KEYWORDS:
        return False
    properties = schema.get("properties", {})
    if schema.get("type") == "object" and (
        schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties)
    ):
        return False
    below = [*properties.values(), *schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    return all(_is_strict(each) for each in below)


def _message(message: Message) -> JsonObject:
    match message:
        case UserMessage((TextPart(text),)):
            return {"role": "user", "content": text}
        case UserMessage(parts):
            return {"role": "user", "content": [part_to_json(part) for part in parts]}
        case AssistantMessage():
            data = message.provider_data or {}
            if not message.tool_calls:
                return {"role": "assistant", "content": message.text, **data}
            calls = [_call(call) for call in message.tool_calls]
            return {"role": "assistant", "content": message.text or None, "tool_calls": calls, **data}
        case ToolMessage(result):
            return {"role": "tool", "tool_call_id": result.call_id, "content": result.output}


def _call(call: ToolCall) -> JsonObject:
    arguments = write_json(call.arguments).decode()
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function, **(call.provider_data or {})}


def _tool(tool: ToolDefinition) -> JsonObject:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _calling(request: ModelRequest) -> JsonObject:
    """Returns the tool call settings, which servers only accept together with tools."""
    settings: JsonObject = {}
    match request.settings.forced_call:
        case NamedTool(name=name):
            settings["tool_choice"] = {"type": "function", "function": {"name": name}}
        case "required":
            settings["tool_choice"] = "required"
    if request.settings.parallel_tool_calls is not None:
        settings["parallel_tool_calls"] = request.settings.parallel_tool_calls
    return settings


class OpenAICompatible:
    """Implements ChatModel for one server. `base_url` excludes `/chat/completions`.

    `timeout`, in seconds, limits a whole answer, or the gap between two chunks of a streamed answer.
    """

    def __init__(
        self,
        provider: CompatibleProvider,
        base_url: str,
        api_key: str | None,
        session: aiohttp.ClientSession,
        retry: RetryPolicy | None = None,
        *,
        timeout: float = ANSWER_SECONDS,
        largest_answer_bytes: int = _LARGEST_ANSWER_BYTES,
    ) -> None:
        self._native_output = provider.native_output
        self._session = session
        self._calls = ProviderCalls(provider.name, retry, api_key)
        self._largest_answer_bytes = largest_answer_bytes
        self._url = URL(base_url.rstrip("/") + "/chat/completions")
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_SECONDS)
        self._stream_timeout = aiohttp.ClientTimeout(sock_read=timeout, sock_connect=_CONNECT_SECONDS)

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        name, stream = request.model.partition(":")[2], on_text is not None
        if self._takes_schema(request):
            try:
                return await self._send(encode_request(request, name, stream=stream, native_output=True), on_text)
            except ModelFailed as failure:
                if not _is_about_format(failure):
                    raise
                # Not every model and schema can have a response format. Retry with the schema in the prompt.
        return await self._send(encode_request(request, name, stream=stream), on_text)

    async def _send(self, body: bytes, on_text: OnText | None) -> ModelAnswer:
        return await self._calls.run(lambda emit: self._attempt(body, emit), on_text)

    def _takes_schema(self, request: ModelRequest) -> bool:
        if request.output_object is None or self._native_output == "never":
            return False
        return self._native_output == "always" or not request.callable_tools

    async def _attempt(self, body: bytes, on_text: OnText | None) -> ModelAnswer:
        timeout = self._timeout if on_text is None else self._stream_timeout
        try:
            # Following a redirect would send the conversation to a host that isn't configured.
            async with self._session.post(
                self._url, data=body, headers=self._headers, timeout=timeout, allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise await self._error_from(response)
                # Some servers respond to a streaming request with a complete answer.
                if on_text is None or response.content_type == "application/json":
                    return await self._whole(response, on_text)
                return await self._streamed(response, on_text)
        except ErrorInBody as error:
            raise self._calls.refused(str(error), error.code) from error
        except NotAnAnswer as error:
            raise Retryable(self._calls.failed(str(error))) from error
        except TimeoutError as error:
            raise self._calls.timed_out() from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._calls.unreachable(str(self._url), error) from error

    async def _error_from(self, response: aiohttp.ClientResponse) -> Exception:
        payload = await response.content.read(_LARGEST_ERROR_BYTES)
        message = error_text(payload, response.content_type) or f"the server returned status {response.status}"
        return self._calls.refused(message, response.status, retry_after_seconds(response.headers))

    async def _whole(self, response: aiohttp.ClientResponse, on_text: OnText | None) -> ModelAnswer:
        # The announced length doesn't limit the size, because it's the length of the compressed content.
        answer = decode_answer(b"".join([piece async for piece in self._pieces(response)]))
        if on_text is not None and answer.text:
            on_text(answer.text)
        return answer

    async def _streamed(self, response: aiohttp.ClientResponse, on_text: OnText) -> ModelAnswer:
        gathered = StreamedAnswer()
        async for line in self._lines(response):
            if line.startswith(b"data:") and (text := gathered.take(line[5:].strip())):
                on_text(text)
        if text := gathered.finish():
            on_text(text)
        if not gathered.complete:
            raise NotAnAnswer("the response was cut off")
        return gathered.answer()

    async def _lines(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        # A line of several megabytes arrives in thousands of pieces, so they're joined only once.
        begun: list[bytes] = []
        async for piece in self._pieces(response):
            *lines, rest = piece.split(b"\n")
            for line in lines:
                yield b"".join([*begun, line])
                begun.clear()
            begun.append(rest)
        yield b"".join(begun)

    async def _pieces(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        size = 0
        async for piece in response.content.iter_any():
            size += len(piece)
            if size > self._largest_answer_bytes:
                raise self._calls.failed("the response exceeds the maximum size")
            yield piece


def _is_about_format(failure: ModelFailed) -> bool:
    return failure.status in (400, 422) and any(word in failure.message for word in ("response_format", "schema"))
