"""Turns with an output schema: the reply's output, answers that are refused, and what a crash leaves of them."""

import asyncio

from libs.contracts.resources.agents import ClientTool
from libs.contracts.resources.turns import OutputTextDelta, TurnOptions
from services.runtime.use_cases.agent.schemas import correction, read_output
from tests.support.agent_fakes import FakeTool, answering, calling
from tests.support.runtime_nodes import Node, ObedientModel, person
from tests.support.waiting import until

PRICE = {"type": "object", "properties": {"price": {"type": ["number", "null"]}}, "required": ["price"]}
GOOD, BAD = answering('{"price": null}'), answering("Four euros.")
# The model is told this after ``BAD``.
RETRY = correction(asyncio.run(read_output(PRICE, BAD.text)).problems).text
ALICE = person("alice", "company-1", "runtime:execute")
LOCATE = ClientTool(name="locate", description="Where the user is.", parameters={"type": "object"})


async def test_answers_that_are_refused_are_steps_with_events(node: Node, model: ObedientModel) -> None:
    session = await node.create_session()
    model.scripts = {"much?": [BAD], RETRY: [GOOD]}
    turn_id = await node.execute(session, "much?", turn_options=TurnOptions(output_schema=PRICE), stream=True)
    await node.ended(turn_id)
    events = await node.events(turn_id)
    assert [name for name, _ in events] == ["turn.started", "turn.output_invalid", "turn.completed"]
    refused = events[1][1]
    assert (refused["step"], refused["text_length"]) == (1, len(BAD.text))
    assert refused["problems"][0].startswith("the answer isn't JSON")
    assert sorted({event.step for _, event in node.deltas.sent if isinstance(event, OutputTextDelta)}) == [1, 2]
    watched = await node.rows(
        "SELECT number, payload -> 'problems' IS NOT NULL FROM steps WHERE turn_id = %s ORDER BY number", turn_id
    )
    assert watched == [(1, True)]
    assert await node.history(session) == [("user", "much?"), ("assistant", GOOD.text)]


async def test_after_a_crash_only_what_is_not_recorded_is_done_again(
    start_node, model: ObedientModel, tools: list[FakeTool]
) -> None:
    dead, other = await start_node(), await start_node()
    session = await dead.create_session(agent_type="react_agent", tools=["careful"], output_schema=PRICE)
    model.scripts = {"work": [calling(("careful", {"text": "x"})), BAD], RETRY: [GOOD]}
    model.shut(RETRY)
    turn_id = await dead.execute(session, "work")
    await until(lambda: RETRY in model.asked)
    await dead.crash()
    await until(lambda: turn_id in other.worker.engine.held)
    model.open(RETRY)
    [turn] = await other.ended(turn_id)
    assert (turn["status"], turn["attempt"], turn["usage"]["model_calls"]) == ("completed", 2, 3)
    assert len(tools[1].contexts) == 1
    assert model.asked == ["work", "work", RETRY, RETRY]
    names = [name for name, _ in await other.events(turn_id)]
    assert names == [
        "turn.started", "turn.tool_call.started", "turn.tool_call.completed", "turn.output_invalid", "turn.restarted",
        "turn.completed",
    ]  # fmt: skip
    assert (await other.events(turn_id))[4][1]["resumed_from_step"] == 2


async def test_client_tools_of_one_turn_make_an_llm_agent_wait_for_their_results(
    node: Node, model: ObedientModel
) -> None:
    session = await node.create_session(output_schema=PRICE)
    model.scripts["where?"] = [calling(("locate", {})), GOOD]
    options = TurnOptions(client_tools=[LOCATE], tool_choice="required", instructions="Use the tool.")
    turn_id = await node.execute(session, "where?", turn_options=options)
    await node.waiting(turn_id)
    turn = await node.reads.turn(session, turn_id, person())
    [action] = turn.required_actions
    assert (action.kind, action.tool_call.name) == ("tool_result", "locate")
    assert [tool.name for tool in model.requests[0].tools] == ["locate"]
    answer = await node.resolve(session, turn_id, action.action_id, ALICE, output="Skarholm")
    assert (await node.outcome(answer))[0] == "resolve_action.accepted"
    await node.ended(turn_id)
    assert model.requests[1].system == "Use the tool."
    assert (await node.events(turn_id))[-1][1]["response"]["output"] == {"price": None}
    assert [(request.settings.tool_choice, len(request.tools)) for request in model.requests] == [
        ("required", 1),
        (None, 1),
    ]
