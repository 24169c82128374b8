"""Options of one turn: kept with it, through the queue and the death of its worker."""

from typing import Any

from libs.contracts.resources.turns import TurnOptions
from services.runtime.domain.models import ModelRequest
from tests.support.runtime_nodes import Node, ObedientModel
from tests.support.waiting import until

OPTIONS = TurnOptions(instructions="Rhyme.", temperature=0.0, max_tokens=9, stop=["END"])


def asked(request: ModelRequest) -> tuple[str, dict[str, Any]]:
    return request.system, request.settings.given()


WITH = ("Be kind.\n\nRhyme.", {"temperature": 0.0, "max_tokens": 9, "stop": ["END"]})
WITHOUT = ("Be kind.", {"temperature": 0.5})


async def new_session(node: Node, **config: Any) -> str:
    settings = {"model": config.pop("model", "test:model"), "temperature": 0.5}
    return await node.create_session(system_prompt="Be kind.", llm_config=settings, **config)


async def test_options_are_those_of_one_turn(node: Node, model: ObedientModel) -> None:
    session = await new_session(node)
    turns = [
        await node.execute(session, "one", turn_options=OPTIONS),
        await node.execute(session, "two"),
        await node.execute(session, "three", turn_options=OPTIONS),
    ]
    await node.ended(*turns)
    assert [asked(request) for request in model.requests] == [WITH, WITHOUT, WITH]
    kept = {"options": OPTIONS.model_dump(exclude_defaults=True)}
    assert [(await node.turn(turn))["request"] for turn in turns] == [kept, {}, kept]


async def test_a_queued_turn_keeps_its_options_also_on_another_worker(start_node, model: ObedientModel) -> None:
    first, other = await start_node(), await start_node()
    session = await new_session(first)
    model.shut("work")
    running = await first.execute(session, "work")
    queued = await other.execute(session, "next", turn_options=OPTIONS)
    assert (await other.turn(queued))["status"] == "queued"
    model.open("work")
    await other.ended(running, queued)
    assert [asked(request) for request in model.requests] == [WITHOUT, WITH]


async def test_a_turn_that_is_taken_over_keeps_its_options(start_node, model: ObedientModel) -> None:
    dead, other = await start_node(), await start_node()
    session = await new_session(dead)
    model.shut("work")
    turn = await dead.execute(session, "work", turn_options=OPTIONS)
    await until(lambda: model.asked)
    await dead.crash()
    await until(lambda: turn in other.worker.engine.held)
    model.open("work")
    await other.ended(turn)
    assert [asked(request) for request in model.requests] == [WITH, WITH]


async def test_options_that_would_be_ignored_are_refused_by_name(node: Node, model: ObedientModel) -> None:
    plain = await new_session(node, model="plain:model")
    stop = await node.execute(plain, "stop", turn_options=OPTIONS)
    forced = await node.execute(await new_session(node), "call", turn_options=TurnOptions(tool_choice="required"))
    for turn, option in ((stop, "stop"), (forced, "tool_choice")):
        [(name, refused)] = await node.events(turn)
        assert (name, refused["error"]["type"]) == ("execute_turn.rejected", "validation_error")
        assert refused["error"]["details"][0]["loc"] == ["options", option]
        assert await node.turn(turn) == {}
    assert model.asked == []
