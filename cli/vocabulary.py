"""Checks names and sentences against the vocabulary: `docs/glossary.md` has the terms that replace retired words."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROOMS: Final = ("services", "libs", "cli", "deploy", "benchmarks", "examples", "tests")
RETIRED_NAMES: Final = {
    # reliability
    "outlast": "retry_until_available",
    "Patience": "RetryPolicy or CircuitBreaker",
    "OncePerPause": "LogThrottle",
    "_bury": "dead_letter",
    "bury": "dead_letter, or finalize_deletion",
    "_Passing": "Transient",
    "_PASSING": "Transient",
    "lanes": "per-key queues",
    "gather_seconds": "linger_seconds",
    "_replacements": "substitute_events",
    "OwnSubjects": "SequenceCache",
    "Origin": "MessageContext",
    "take_over": "handle_raw (of messages), reclaim (of leases)",
    # gateway
    "Leaving": "DisconnectWatcher",
    "leaving": "disconnect",
    "Incoming": "UploadStream",
    "Exchange": "ResponseWriter",
    "pass_on": "proxy",
    "Transfers": "TransferLimiter",
    "Shares": "limits",
    "one_of": "acquire",
    "strangers": "anonymous",
    "Recent": "TTLCache",
    "CarryOut": "CommandDispatcher",
    "carry_out": "dispatch",
    "Handover": "PendingCommand",
    "hand_over": "submit",
    "Dispatch": "IdempotencyRecord",
    "_first_word": "await_acceptance",
    "_Outermost": "PublicApiMiddleware",
    "Outside": "Dependencies",
    "Holder": "KeyOwner",
    "visitor": "public principal",
    "visitors": "public principals",
    "guest": "public principal",
    # runtime
    "TakeInTurn": "AcceptTurn",
    "take_in": "accept",
    "take_up": "accept",
    "Takeover": "LeaseReclaimer",
    "takeover": "lease reclaimer",
    "Stray": "OrphanedTurn",
    "Overview": "TurnReconciler",
    "WatchTurns": "TurnReconciler",
    "ClaimCommit": "ClaimFuture",
    "run_ahead": "speculative_start",
    "require_sight": "require_vision",
    "ModelCannotSee": "VisionNotSupported",
    "ShowArtifacts": "ContextBuilder",
    "FairPlaces": "FairSemaphore",
    "translated": "translate_outages",
    # ingestion
    "agenda": "work_queue",
    "graves": "index_deletion",
    "condemn": "mark_for_deletion",
    "leftovers": "garbage_collection",
    "upkeep": "maintenance",
    "untold": "pending",
    "Teller": "Publisher",
    "Phases": "ProgressThrottle",
    "reweighing": "recompute_weights",
    "growth": "bulk_append",
    "index_register": "index_catalog",
    # artifacts, registry
    "Errand": "OutboundCommand",
    "errand": "outbound command",
    "run_errands": "relay_commands",
    "BusErrands": "OutboundCommand",
    "IndexingNews": "IndexingEventHandler",
    "PlatformPlace": "CopyState",
    "meaning": "semantic_validation",
    "structure": "schema_validation",
    # command line, deploy
    "office": "gateway_database",
    "surroundings": "installation",
    "Surroundings": "Installation",
    "neighbours": "http_checks",
    "Letter": "DlqMessage",
    "Box": "DlqTopic",
    "replayed_letters": "replay_offsets",
    "farewell": "next_steps",
    "Places": "BackupTargets",
    "Keeper": "ProcessSupervisor",
    "stand_ins": "fallback_images",
}
# A docstring says what a thing is or does, subject first. These begin a clause that leaves the subject out.
_RETIRED_OPENINGS: Final = frozenset(
    {"How", "Of", "That", "Those", "What", "Whatever", "Where", "Which", "Who", "Whoever", "Whom", "Whose"}
)
_SENTENCE: Final = re.compile(r"\w+")


def findings(root: Path) -> Iterator[str]:
    """Yields a line for each retired name and each docstring that begins with a relative clause."""
    for room in _ROOMS:
        for file in sorted((root / room).rglob("*.py")):
            place = file.relative_to(root)
            source = file.read_text()
            if (term := RETIRED_NAMES.get(file.stem)) is not None:
                yield f"{place}: the file's name: {term}"
            if file != Path(__file__):
                yield from _names(place, source)
            yield from _openings(place, source)


def _names(place: Path, source: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and (term := RETIRED_NAMES.get(token.string)) is not None:
            yield f"{place}:{token.start[0]}: {token.string}: {term}"


def _openings(place: Path, source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
            continue
        text = node.value.value
        if isinstance(text, str) and (first := _SENTENCE.match(text.strip())) and first[0] in _RETIRED_OPENINGS:
            yield f"{place}:{node.lineno}: the docstring begins with a relative clause: {text.strip()[:60]}…"


def main() -> int:
    found = list(findings(Path(__file__).parents[1]))
    print("\n".join(found) if found else "Names and sentences keep to the vocabulary.")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
