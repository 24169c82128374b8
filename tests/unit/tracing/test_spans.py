"""Spans as a collector receives them: their trace, and no contents."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from libs import tracing
from tests.support.otlp_receiver import OtlpReceiver, SeenSpan

CALLER = f"00-{'1' * 32}-{'2' * 16}-01"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], dict[str, SeenSpan]]]:
    """Ends tracing; returns the spans by name."""
    with OtlpReceiver().serving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        assert tracing.start("gateway")

        def collect() -> dict[str, SeenSpan]:
            tracing.stop()
            return {span.name: span for spans in receiver.traces.values() for span in spans}

        yield collect
        tracing.stop()


def test_the_trace_follows_from_the_correlation_id_and_the_callers_trace_is_linked(
    sent: Callable[[], dict[str, SeenSpan]],
) -> None:
    with tracing.span("request", tracing.Kind.SERVER, {"a": 1, "b": None}, correlation_id="x", link=CALLER):
        assert tracing.current_traceparent() is not None
        with tracing.span("part"):
            pass
    with tracing.span("another request", correlation_id="x"):
        pass
    with tracing.span("of a foreign parent", correlation_id="x", parent=CALLER):
        pass
    spans = sent()
    assert {span.trace_id for span in spans.values()} == {tracing.trace_id_of("x")}
    assert spans["part"].parent_id == spans["request"].span_id
    assert (spans["request"].parent_id, spans["request"].linked) == ("", ("1" * 32,))
    assert spans["request"].attributes["a"] == 1
    assert "b" not in spans["request"].attributes
    assert spans["another request"].parent_id == ""
    assert (spans["of a foreign parent"].parent_id, spans["of a foreign parent"].linked) == ("", ("1" * 32,))
    assert spans["request"].service == "aes-gateway"


async def test_work_resumed_elsewhere_is_in_the_same_trace(sent: Callable[[], dict[str, SeenSpan]]) -> None:
    with tracing.span("taken in", correlation_id="x"):
        kept = tracing.current_traceparent()

    async def go_on(name: str, parent: str | None) -> None:
        tracing.resume(parent, "x")
        with tracing.span(name):
            pass

    with tracing.span("something else", correlation_id="y"):
        await asyncio.create_task(go_on("with its parent", kept))
        await asyncio.create_task(go_on("without one", None))
        await asyncio.create_task(go_on("with a caller's", CALLER))
    spans = sent()
    assert spans["with its parent"].parent_id == spans["taken in"].span_id
    for name in ("without one", "with a caller's"):
        assert (spans[name].trace_id, spans[name].parent_id) == (tracing.trace_id_of("x"), "")


def test_an_error_is_recorded_by_its_type_only(sent: Callable[[], dict[str, SeenSpan]]) -> None:
    with pytest.raises(ValueError, match="secret"), tracing.span("broken", correlation_id="x"):
        raise ValueError("secret")
    span = sent()["broken"]
    assert (span.attributes["error.type"], span.attributes["status"], span.attributes["message"]) == (
        "ValueError",
        2,
        "",
    )


@pytest.mark.parametrize("header", ["", "00-1-2-01", f"00-{'0' * 32}-{'2' * 16}-01", f"00-{'1' * 32}-{'0' * 16}-01"])
def test_a_malformed_traceparent_is_ignored(sent: Callable[[], dict[str, SeenSpan]], header: str) -> None:
    with tracing.span("work", correlation_id="x", parent=header, link=header):
        pass
    span = sent()["work"]
    assert (span.trace_id, span.parent_id, span.linked) == (tracing.trace_id_of("x"), "", ())


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_spans_record_nothing_while_tracing_is_off(environ: dict[str, str]) -> None:
    assert not tracing.start("gateway", environ)
    with tracing.span("work", correlation_id="x") as span:
        assert span is tracing.NOTHING
        assert tracing.current_traceparent() is None


def test_the_sdk_is_not_imported_while_tracing_is_off() -> None:
    program = (
        "import sys; from libs import tracing, service_defaults; tracing.start('x', {});"
        "assert not [name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
