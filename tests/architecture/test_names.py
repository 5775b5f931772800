"""One name for one thing: what users write, in calls and on the command line."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.executors.choice import FunctionExecutor
from nighthawk_async.testing import ScriptedExecutor

from .test_exports import MODULES, PACKAGE, PUBLIC_MODULES, declared_exports

typer_main = pytest.importorskip("typer.main")


@dataclass(frozen=True)
class Row:
    """A thing that has one name.

    Args:
        thing: The thing.
        forbidden: What it is not called.
        reason: The name that it has, and why.
        kept: Where a forbidden name is right, with the reason.
    """

    thing: str
    forbidden: re.Pattern[str]
    reason: str
    kept: dict[str, str] = field(default_factory=dict[str, str])

    def refuses(self, place: str, name: str) -> bool:
        return bool(self.forbidden.fullmatch(name)) and f"{place}({name})" not in self.kept


_ALIAS = "the specification promises the name (section 10)"

ROWS = (
    Row(
        "a model",
        re.compile("executors?|step_executor|step_executor_configuration|llm|model_id"),
        "model=: a name, a configuration, a Model or an executor",
        {
            "nighthawk_async.run(step_executor)": _ALIAS,
            "nighthawk_async.start_run(step_executor)": _ALIAS,
            "nighthawk_async.start_run_sync(step_executor)": _ALIAS,
            "nighthawk_async.scope(step_executor)": _ALIAS,
            "nighthawk_async.scope(step_executor_configuration)": _ALIAS,
        },
    ),
    Row(
        "a budget",
        re.compile("limits|run_budget|total_budget|max_cost|max_tokens_total"),
        "budget= is what it stands on; request_budget= and step_budget= are of each request or step",
    ),
    Row(
        "a relative time",
        re.compile("(.*_)?timeout_(seconds|s|ms)|expires|expires_in|ttl|time_limit.*|start_seconds"),
        "timeout=, in seconds from now",
    ),
    Row(
        "the time of a scope",
        re.compile("deadline"),
        "deadline= is of all calls of a combinator together; timeout= is of one call",
        {
            f"nighthawk_async.parallel.{each}(deadline)": "of all its calls together"
            for each in ("map", "settle", "race", "stream")
        },
    ),
    Row(
        "how many at once",
        re.compile(
            "concurrency|max|most|parallelism|max_parallel|max_in_flight|.*_per_worker(?<!concurrent_per_worker)"
        ),
        "max_concurrent=, with what in its place",
        {"nighthawk_async.resilience.ExponentialWait(most)": "the longest wait, in seconds"},
    ),
    Row("an evaluation", re.compile("evaluator|eval_.*"), "evaluate is the verb, Evaluation the noun"),
)

COMMAND_OPTIONS = {
    "--max": "--max-concurrent",
    "--concurrency": "--max-concurrent",
    "--deadline": "--timeout",
    "--expires": "--timeout",
    "--executor": "--model",
    "--limits": "--budget-usd",
    "--store": "--journal",
}
"""What an option is not called, and what it is called."""

ONE_PLACE = {
    "once": PACKAGE,
    "repeatable": PACKAGE,
    "deadline": PACKAGE,
    "open_tasks": PACKAGE,
    "ask_user": PACKAGE,
    "request_approval": PACKAGE,
    "Sandbox": PACKAGE,
    "Policy": f"{PACKAGE}.policies",
    "current_task": f"{PACKAGE}.parallel",
    "rule": f"{PACKAGE}.policies",
    "WebSearch": f"{PACKAGE}.models",
    "CodexSettings": f"{PACKAGE}.executors",
    "Usage": f"{PACKAGE}.models",
    "PartialValues": f"{PACKAGE}.hooks",
}
"""The one room that lists a name."""

NOWHERE = {
    *("timeout", "evaluation", "PlacedCall", "PlacedJob", "call_placed", "call_any", "install_task_hooks"),
    *("TaskHooks", "open_task_root", "controlled_by", "Parking", "ParkingState"),
}
"""Names that no room lists: doubles, and what only the library needs."""


def public_names() -> Iterator[tuple[str, object]]:
    """What users can import from a public room, listed or not, with its place."""
    for room in PUBLIC_MODULES:
        loaded = importlib.import_module(room)
        tree = MODULES[room].deferred or MODULES[room].tree
        imported = {
            alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if alias.asname == alias.name
        }
        for name in sorted({*(declared_exports(MODULES[room]) or ()), *imported}):
            found = getattr(loaded, name)
            if not inspect.ismodule(found):
                yield f"{room}.{name}", found


def written_names() -> Iterator[tuple[str, str]]:
    """The parameters and fields that users write, each with its place."""
    for place, found in public_names():
        yield from _names_of(place, found)
        if inspect.isclass(found):
            for name, member in vars(found).items():
                plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                if not name.startswith("_") and inspect.isfunction(plain):
                    yield from _names_of(f"{place}.{name}", plain)


def _names_of(place: str, found: object) -> Iterator[tuple[str, str]]:
    if callable(found):
        with suppress(TypeError, ValueError):  # built-in classes have no signature
            for name, parameter in inspect.signature(found).parameters.items():
                if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                    yield place, name
    if inspect.isclass(found) and hasattr(found, "__total__"):  # a `TypedDict`, whose keys are arguments
        for name in found.__annotations__:
            yield place, name


def test_one_thing_has_one_name() -> None:
    wrong = [
        f"{place}({name}=): {row.thing} is {row.reason}"
        for place, name in written_names()
        for row in ROWS
        if row.refuses(place, name)
    ]
    assert wrong == []


def test_every_exception_of_the_table_is_there() -> None:
    written = {f"{place}({name})" for place, name in written_names()}
    kept = {each for row in ROWS for each in row.kept}
    assert kept <= written


def test_options_of_commands_have_the_same_names() -> None:
    from nighthawk_async.cli.application import application

    wrong: list[str] = []
    commands = [(("nighthawk-async",), typer_main.get_command(application))]
    while commands:
        path, command = commands.pop()
        commands += [((*path, name), each) for name, each in getattr(command, "commands", {}).items()]
        for option in (name for parameter in command.params for name in parameter.opts):
            if option in COMMAND_OPTIONS:
                wrong.append(f"{' '.join(path)} {option}: {COMMAND_OPTIONS[option]}")
    assert wrong == []


def test_a_name_is_listed_in_one_room() -> None:
    listed = {room: set(declared_exports(MODULES[room]) or ()) for room in PUBLIC_MODULES}
    for name, room in ONE_PLACE.items():
        assert {each for each, names in listed.items() if name in names} == {room}, name
    for name in NOWHERE:
        assert {each for each, names in listed.items() if name in names} == set(), name


def test_what_left_the_root_says_where_it_is() -> None:
    for name, room in {"rule": "policies", "WebSearch": "models", "CodexSettings": "executors"}.items():
        with pytest.raises(AttributeError, match=f"It is nighthawk_async.{room}.{name}"):
            getattr(nh, name)
    for name in ("get_step_executor", "get_execution_ref", "get_current_step_context", "StepPromptTemplates"):
        assert name not in dir(nh)
        assert getattr(nh, name) is not None  # as the specification has it


@pytest.mark.parametrize(
    ("place", "parameter"),
    [
        (nh.run, "journal"),
        (nh.asgi.NighthawkMiddleware, "journal"),
        (nh.asgi.Dashboard, "journal"),
        (nh.journal.open, "location"),
        (nh.journal.replay, "store"),
        (nh.journal.Worker, "store"),
        (nh.evals.cases_from_journal, "store"),
    ],
)
def test_a_journal_is_a_path_an_address_or_a_store(place: object, parameter: str) -> None:
    assert callable(place)
    annotation = str(inspect.signature(place).parameters[parameter].annotation)
    assert "StoreLocation" in annotation or ("str" in annotation and "PathLike" in annotation)


EXECUTOR = ScriptedExecutor([])


def test_a_run_takes_its_model_by_either_name_and_not_by_both() -> None:
    for entered in (nh.run(EXECUTOR), nh.run(model=EXECUTOR), nh.run(step_executor=EXECUTOR)):
        with entered:
            assert nh.get_step_executor() is EXECUTOR
    with pytest.raises(nh.NighthawkError, match=r"both model=… and step_executor=…; give model=… alone"):
        nh.run(EXECUTOR, step_executor=EXECUTOR)
    with pytest.raises(nh.NighthawkError, match="needs a model"):
        nh.run()


def test_a_scope_takes_its_model_by_either_name_and_not_by_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    configuration = nh.StepExecutorConfiguration(model="openai-chat:gpt-5.4-nano")
    other = nh.AgentStepExecutor.from_configuration(configuration)
    wider = nh.StepExecutorConfiguration(model="openai-chat:gpt-5.4-nano", max_turns=7)
    with nh.run(EXECUTOR):
        for inner in (nh.scope(model=other), nh.scope(step_executor=other)):
            with inner as executor:
                assert executor is other
        both = nh.scope(step_executor=other, step_executor_configuration=wider)
        for inner in (both, nh.scope(model=other.with_configuration(wider))):
            with inner as executor:
                assert isinstance(executor, nh.AgentStepExecutor)
                assert executor.configuration.max_turns == 7
        with nh.scope(model=other), nh.scope(model=wider) as executor:
            assert isinstance(executor, nh.AgentStepExecutor)
            assert executor.configuration.max_turns == 7
        with pytest.raises(nh.NighthawkError, match=r"both model=… and step_executor=…"):
            nh.scope(model=other, step_executor=other)
        with pytest.raises(nh.NighthawkError, match=r"both model=… and step_executor_configuration=…"):
            nh.scope(model=other, step_executor_configuration=wider)
    assert FunctionExecutor(other).inside(EXECUTOR) is other


def test_the_pages_know_no_old_names() -> None:
    """What was renamed before the first release is not in the documentation, but for its history."""
    old = re.compile(
        r"\b(timeout_seconds|calls_per_worker|run_budget|\w+_timeout_seconds|nh\.rule|journal\.once)\b|expires="
        r"|--concurrency\b|--max(?![-\w])|@evaluation\b"
    )
    project = Path(__file__).parents[2]
    pages = [project / "README.md", *project.glob("docs/**/*.md"), *project.glob("examples/**/*.py")]
    wrong = [
        f"{page.relative_to(project)}: {found.group()}"
        for page in pages
        if page.parent.name != "history"
        for found in old.finditer(page.read_text(encoding="utf-8"))
    ]
    assert wrong == []
