"""The case `programs`: each program is solvable in both versions, and its checks catch mistakes."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import repeat, takewhile
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

import nighthawk_async as nh
from benchmarks import programs
from benchmarks.cases.programs import run_programs
from benchmarks.programs import PROGRAMS, by_hand, cases, evaluation, natural
from benchmarks.programs.chat import Chat
from benchmarks.programs.lines import lines_of
from benchmarks.programs.program import RIGHT_END, VERSIONS, Ended, Input, Program, Version
from benchmarks.programs.scripted import solving
from benchmarks.programs.scripts import right_script, run_scripted, wrong_models
from nighthawk_async.cli.application import run_command_line
from nighthawk_async.evals import Evaluation, load_report
from nighthawk_async.models import ModelRequest, TextDelta, ToolCallCompleted, ToolDefinition
from nighthawk_async.testing import (
    CallbackExecutor,
    ModelReply,
    ModelResponse,
    ModelServer,
    RecordedRequest,
    ScriptedModel,
    model_response,
    pass_response,
    tool_call,
)


@pytest.mark.anyio
@pytest.mark.parametrize("version", VERSIONS)
async def test_every_program_is_solvable(version: Version) -> None:
    report = await solving(version).run()
    assert [(each.case, each.status, each.error) for each in report.trials if not each.has_passed] == []
    assert len(report.cases) == len(cases) >= 75
    assert report.mean_score("checks") == 1
    assert all(each.scores["blocks"].value >= 1 for each in report.trials)
    assert report.mean_score("responses_per_block") < 1.1


@pytest.mark.anyio
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
async def test_every_mistake_is_caught_and_every_check_can_fail(program: Program) -> None:
    failed: set[str] = set()
    for version in VERSIONS:
        mistakes = 0
        for given in program.inputs:
            for model in wrong_models(given, version):
                mistakes += 1
                try:
                    ended = await run_scripted(program, given, version, model)
                except Exception:  # a mistake may make the program raise, which no trial passes
                    continue
                wrong = {name for name, verdict in program.verdicts(given, ended).items() if not verdict}
                assert wrong, f"{given.name}, {version}, mistake {mistakes}"
                failed |= wrong
        assert mistakes, version
    assert set(program.checks) <= failed


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_arguments_are_fresh_at_each_call_and_equal_but_for_those_compared_by_identity(
    program: Program,
) -> None:
    for given in program.inputs:
        first, second = given.arguments(), given.arguments()
        assert first.keys() == second.keys()
        shared = {name for name, value in first.items() if value is second[name]}
        assert all(isinstance(first[name], str | int | tuple) or name == "today" for name in shared)


def test_there_are_twenty_five_programs_of_different_names_and_all_features() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS) == 25
    used = {feature for program in PROGRAMS for feature in program.features}
    assert used == {"objects", "methods", "loop", "exceptions", "closure", "iterator", "class"}
    assert all(len(program.inputs) >= 3 for program in PROGRAMS)
    assert any(given.raises is not None for program in PROGRAMS for given in program.inputs)


def test_the_readme_lists_every_program() -> None:
    page = Path(programs.__file__).with_name("README.md").read_text(encoding="utf-8")
    for program in PROGRAMS:
        row = (
            f"| [{program.name}](suite/{program.name}.py) | {', '.join(program.features)} | {program.what} |"
        )
        assert row in page


def test_the_module_has_both_versions_as_evaluations_on_the_same_cases() -> None:
    titles = ["benchmarks.programs:natural", "benchmarks.programs:by_hand"]
    assert [each.title for each in evaluation] == titles
    assert evaluation == [natural, by_hand]
    assert natural.cases == by_hand.cases == tuple(cases)
    assert len({case.name for case in cases}) == len(cases)


@pytest.mark.anyio
@pytest.mark.parametrize("version", evaluation, ids=VERSIONS)
async def test_a_model_that_does_nothing_right_is_scored(version: Evaluation) -> None:
    def answer(request: ModelRequest) -> ModelResponse:
        if request.tools:
            return model_response(tool_call("nh_outcome", kind="pass", bindings={"unavailable": []}))
        return model_response(text='{"new_counts": [], "unavailable": []}')

    report = await replace(version, cases=cases[:1], model=ScriptedModel(answer)).run()
    (trial,) = report.trials
    assert trial.status == "failed"
    assert trial.scores["checks"].reason == "the basket itself has changed"
    assert trial.scores["checks"].value == 0.75
    assert trial.scores["blocks"].value == trial.usage.requests == 1


def test_a_check_that_raises_does_not_hold() -> None:
    program = PROGRAMS[0]
    given = program.inputs[0]
    arguments = given.arguments()
    ended = Ended(
        arguments=arguments,
        before=arguments,
        held=None,
        expected=None,
        result=7,
        error=None,
        blocks=1,
        version="natural",
    )
    verdicts = program.verdicts(given, ended)
    assert verdicts == {
        RIGHT_END: True,
        "the basket itself has changed": False,
        "what is not sold is named": False,
        "the prices are untouched": True,
    }


def test_lines_count_what_a_version_uses_without_empty_lines_and_docstrings() -> None:
    assert lines_of(sample) == 10


LEAST = 3


class Sample(BaseModel):
    """Not counted."""

    number: int


@nh.natural_function
async def sample(text: str) -> int:
    number = LEAST

    # Not counted.
    """natural
    Set <:number> to that of <text>, as a Sample has it.
    """
    return number


class Verdict(BaseModel):
    verdict: bool


@pytest.mark.anyio
async def test_a_chat_call_is_one_request_whose_usage_counts() -> None:
    model = ScriptedModel(
        [model_response(text='```json\n{"verdict": true}\n```'), model_response(text="Yes.")]
    )
    async with nh.run(model) as run:
        chat = Chat.of_run()
        assert (await chat.ask("Is it?", Verdict)).verdict
        with pytest.raises(ValidationError):
            await chat.ask("Is it?", Verdict)
        assert (chat.calls, run.usage_meter.usage.requests) == (2, 2)
    (message,) = model.requests[0].messages
    assert isinstance(message, nh.models.UserMessage)
    assert "JSON Schema" in str(message.content[0])
    assert model.requests[0].response_format is None


@pytest.mark.anyio
async def test_a_chat_call_needs_a_model() -> None:
    async with nh.run(CallbackExecutor(lambda call: pass_response())):
        with pytest.raises(nh.ConfigurationError, match="a chat call needs a run with a model"):
            Chat.of_run()


def figures_of(shown: str) -> dict[tuple[str, str], str]:
    """The trials that passed, by group of cases and evaluation."""
    rows = shown[shown.index("\ncases ") :].splitlines()[2:]
    found: dict[tuple[str, str], str] = {}
    group = ""
    for cells in takewhile(lambda cells: cells[1] != "compared", map(str.split, rows)):
        if cells[0] not in ("natural", "by_hand"):
            group = cells.pop(0)
        found[group, cells[0]] = cells[1]
    return found


def test_both_versions_are_evaluated_side_by_side_on_scripted_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "programs.md"
    arguments = ["--case", "rota", "--case", "matrix", "--markdown", str(page)]
    assert run_command_line(["eval", "benchmarks.programs.scripted", *arguments]) == 0
    shown = capsys.readouterr().out
    figures = figures_of(shown)
    assert set(figures.values()) == {"3/3", "6/6"}
    groups = {"objects", "iterator", "loop", "rota", "matrix", "all"} & {group for group, _ in figures}
    assert {"rota", "matrix", "all"} < groups
    assert figures["all", "natural"] == figures["all", "by_hand"] == "6/6"
    assert "natural compared with by_hand: inconclusive" in shown
    assert "| responses per block | lines of code |" in page.read_text(encoding="utf-8")


def replying(programs: Sequence[Program]) -> Callable[[RecordedRequest], ModelReply]:
    """Right answers over HTTP, in the order of evaluations with one trial in flight."""
    inputs = [given for program in programs for given in program.inputs]
    scripts = (
        script
        for version in VERSIONS
        for given in inputs
        for script in repeat(right_script(given, version), responses_to(given, version))
    )

    def reply(request: RecordedRequest) -> ModelReply:
        tools = (each["function"] for each in request.body.get("tools", ()))
        events = next(scripts)(
            ModelRequest(
                messages=(),
                tools=tuple(
                    ToolDefinition(name=each["name"], description="", parameters=each["parameters"])
                    for each in tools
                ),
            )
        ).events
        return ModelReply(
            text="".join(each.text for each in events if isinstance(each, TextDelta)),
            tool_calls=tuple(each.call for each in events if isinstance(each, ToolCallCompleted)),
        )

    return reply


def responses_to(given: Input, version: Version) -> int:
    if version == "natural":
        return sum(answer.responses for answer in given.answers)
    return len(given.replies)


CHOSEN = ("basket", "guessing", "discount", "payments", "rota")


def test_both_versions_are_evaluated_on_a_model_over_http(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    programs = [program for program in PROGRAMS if program.name in CHOSEN]
    names = [f"--case={program.name}/" for program in programs]
    with ModelServer.in_thread(replying(programs)) as server:
        model = ["--model", "openai-chat:gpt-5.4-nano", "--base-url", server.base_url]
        options = ["--max-concurrent", "1", "--budget-usd", "1", "--report", str(tmp_path / "kept")]
        command = ["eval", "benchmarks.programs", *model, *options, *names]
        assert run_command_line(command) == 0
        first = len(server.requests)
        assert run_command_line(command) == 0
        assert len(server.requests) == first
    figures = figures_of(capsys.readouterr().out)
    number = sum(len(program.inputs) for program in programs)
    assert figures["all", "natural"] == figures["all", "by_hand"] == f"{number}/{number}"
    report = load_report(tmp_path / "kept" / "benchmarks.programs.natural.jsonl")
    assert report.model == "openai-chat:gpt-5.4-nano"
    assert 1 < report.mean_score("responses_per_block") < 1.3
    assert report.usage.cost > 0


def test_the_benchmark_counts_no_error() -> None:
    figures = run_programs(1)
    assert figures["errors"] == 0
    assert 1 <= figures["round_trips"] < 1.1


@pytest.mark.parametrize("page", ["benchmarks/programs/README.md", "docs/performance.md"])
def test_the_pages_have_the_lines_of_code_of_all_programs(page: str) -> None:
    text = Path(programs.__file__).parents[2].joinpath(page).read_text(encoding="utf-8")
    for version in VERSIONS:
        lines = sum(lines_of(program.version(version)) for program in PROGRAMS)
        assert re.search(rf"^\| {version.replace('-', '.')} \| 77 of 77 \|.* {lines} \|$", text, re.MULTILINE)
