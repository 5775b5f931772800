"""The case `prompts`: facts found or missed, its tables, the peer, and blocks on a model that errs."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from benchmarks.__main__ import main
from benchmarks.prompts import command
from benchmarks.prompts.block import Block, returns
from benchmarks.prompts.blocks import BLOCKS
from benchmarks.prompts.data.writing import Query
from benchmarks.prompts.facts import Fact, Shown, fields, members, said, signature
from benchmarks.prompts.measuring import measure_block, measure_blocks
from benchmarks.prompts.peer_tokens import digest_of_sources, read_peer_tokens
from benchmarks.prompts.trial import try_block
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, tool_call

STUBS = """
class Priority(Enum): LOW = "low"; HIGH = 'high'
class Order:
    number: int
    lines: list[shop.models.Line] | None = None
find: (text: str, *, limit: int = 3) -> shop.models.Order
"""
SCHEMA = '{"properties":{"number":{"type":"integer"},"kind":{"enum":["low","high"]}}}'


@nh.natural_function
async def mood_of(text: str) -> str:
    """natural
    The mood of <text>.
    """


def test_a_query_is_judged_by_what_it_finds() -> None:
    (block,) = [each for each in BLOCKS if each.name == "sql"]
    tables = "customer c JOIN purchase p ON p.customer_id = c.id JOIN purchase_line l ON l.purchase_id = p.id"
    paid = f"FROM {tables} WHERE p.state = 'paid' AND p.made_at LIKE '2025%' AND c.country = :of"
    parameters: dict[str, str | int] = {"of": "NO"}
    total = "sum(l.unit_cents * l.quantity)"
    for right in (f"count(DISTINCT c.id), {total}", f"{total} AS paid, count(DISTINCT c.name)"):
        assert block.is_right(Query(sql=f"SELECT {right} {paid}", parameters=parameters))
    for wrong in (f"count(c.id), {total}", total, "c.name, c.email", "nothing"):
        assert not block.is_right(Query(sql=f"SELECT {wrong} {paid}", parameters=parameters))
    assert not block.is_right(
        Query(sql=f"SELECT {total}, 2 {paid.replace('paid', 'open')}", parameters=parameters)
    )


def block_of(*facts: Fact, is_right: bool = True) -> Block:
    """A block with the given facts."""
    return Block(
        name="made-up",
        what="nothing",
        call=partial(mood_of, "What a day!"),
        is_right=lambda mood: is_right and mood == "glad",
        facts=facts,
        answers=(returns("glad"),),
    )


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        (fields("Order", number="int", lines="list[Line]"), STUBS),
        (fields("Order", number="int"), SCHEMA),
        (members("Priority", "low", "high"), STUBS),
        (members("Priority", "low", "high"), SCHEMA),
        (signature("find", "text: str", "limit: int", result="Order"), STUBS),
        (said('a "quoted"\nline'), r'"a \"quoted\"\nline"'),
        (said("für alle"), r"f\u00fcr alle"),
        (said("one line"), "one\nline"),
    ],
)
def test_a_fact_is_found_however_it_is_written(fact: Fact, text: str) -> None:
    assert fact.is_in(Shown(text))


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        (fields("Order", number="int", total="Decimal"), STUBS),
        (fields("Order", number="str"), STUBS),
        (members("Priority", "low", "medium"), STUBS),
        (members("Priority", "low"), "the low one"),
        (signature("find", "text: str", "offset: int", result="Order"), STUBS),
        (said("all of it", "and this"), "all of it"),
    ],
)
def test_a_fact_of_which_something_is_missing_is_missed(fact: Fact, text: str) -> None:
    assert not fact.is_in(Shown(text))


@pytest.mark.anyio
@pytest.mark.parametrize(("fact", "round_trips"), [(said("What a day!"), 1), (said("What a night!"), 2)])
async def test_a_missing_fact_costs_a_round_trip(fact: Fact, round_trips: int) -> None:
    measured = await measure_block(block_of(fact))
    assert measured.failure is None
    assert (len(measured.missing), measured.round_trips) == (round_trips - 1, round_trips)
    assert measured.responses == measured.steps == 1


@pytest.mark.anyio
async def test_every_request_until_the_answer_counts_with_the_history_it_repeats() -> None:
    (block,) = (each for each in BLOCKS if each.name == "read-result")
    measured = await measure_block(block)
    assert measured.responses == 2
    assert measured.until_answered > 2 * measured.tokens
    at_once = await measure_block(block_of())
    assert at_once.until_answered == at_once.tokens


@pytest.mark.anyio
async def test_an_answer_that_is_not_right_is_said() -> None:
    measured = await measure_block(block_of(is_right=False))
    assert measured.failure == "not right: 'glad'"


@pytest.mark.anyio
async def test_the_perfect_reader_gets_every_block_right() -> None:
    """At the default level of code, which no block changes."""
    measured = await measure_blocks(BLOCKS)
    assert {each.name: each.failure for each in measured if each.failure} == {}
    assert all(each.responses == each.steps + each.own_round_trips - 1 for each in measured)


def test_there_are_enough_blocks_and_each_has_facts_and_a_name_of_its_own() -> None:
    assert len({block.name for block in BLOCKS}) == len(BLOCKS) >= 40
    assert all(block.facts for block in BLOCKS)


def test_the_peer_was_captured_for_these_blocks_and_inputs() -> None:
    peer = read_peer_tokens()
    again = 'make bench ARGS="prompts --peers"'
    assert set(peer.tokens) == {block.name for block in BLOCKS}, again
    assert peer.sources == digest_of_sources(), again
    assert set(peer.until_answered) == set(peer.requests) == set(peer.tokens)
    for name, requests in peer.requests.items():
        assert (peer.until_answered[name] > peer.tokens[name] * requests) is (requests > 1), name


def test_the_command_prints_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompts", "picture", "named-tuple"]) == 0
    told = capsys.readouterr().out
    assert all(word in told for word in ("named-tuple", "pydantic-ai", "system", "every fact is shown"))


def test_the_command_shows_a_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompts", "named-tuple", "--show"]) == 0
    assert "two nights in Porto" in capsys.readouterr().out


def test_an_unknown_block_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompts", "anvil"]) == 2
    assert "no block is called anvil" in capsys.readouterr().err


def test_the_tables_go_between_their_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    table = tmp_path / "blocks.md"
    for file in (page, table):
        file.write_text(f"before\n{command.BEGIN}old\n{command.END}after\n", encoding="utf-8")
    monkeypatch.setattr(command, "PAGE", page)
    monkeypatch.setattr(command, "EACH", table)
    assert main(["prompts", "picture", "--docs"]) == 0
    assert "| picture |" in table.read_text(encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{command.BEGIN}\n| goal |")
    assert text.endswith(f"{command.END}after\n")
    assert "old" not in text


def answer(request: RecordedRequest) -> ModelReply:
    """Knows colors and nothing else."""
    return ModelReply(tool_calls=(tool_call("nh_outcome", kind="return", return_expression="'red'"),))


def test_blocks_on_a_model_are_counted_right_or_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer.in_thread(answer) as server:
        model = ["--model", "openai-chat:gpt-5.4-nano", "--base-url", server.base_url]
        assert main(["prompts", "picture", "summarize", *model]) == 0
    told = capsys.readouterr().out
    assert "picture: right (1 responses" in told
    assert "summarize: not right: 'red'" in told
    assert "1 right" in told


def test_corrections_are_counted_by_their_cause(capsys: pytest.CaptureFixture[str]) -> None:
    def wrong_at_first(request: RecordedRequest) -> ModelReply:
        expression = "'red'" if len(request.body["messages"]) > 2 else "'pink'"
        return ModelReply(tool_calls=(tool_call("nh_outcome", kind="return", return_expression=expression),))

    with ModelServer.in_thread(wrong_at_first) as server:
        model = ["--model", "openai-chat:gpt-5.4-nano", "--base-url", server.base_url]
        assert main(["prompts", "picture", *model]) == 0
    told = capsys.readouterr().out
    assert "picture: right (2 responses" in told
    assert "return_value" in told


@pytest.mark.anyio
async def test_a_block_is_given_up_at_its_time_limit() -> None:
    async def reply(request: RecordedRequest) -> Any:
        raise AssertionError("nobody waits for this")

    async with ModelServer(reply) as server:
        configuration = nh.StepExecutorConfiguration(
            model="openai-chat:gpt-5.4-nano", model_settings={"base_url": server.base_url, "api_key": "none"}
        )
        executor = nh.AgentStepExecutor.from_configuration(configuration=configuration)
        tried = await try_block(block_of(), executor, limit_seconds=0)
    assert (tried.is_right, tried.failure) == (False, "given up after 0 s")
