"""`StepContextLimits.visible_names="named"`: a block is shown, and can use, only what it names."""

import datetime as clock  # noqa: F401 - a block names it
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.hooks import PermissionDecided
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    evaluating,
    executing,
    returning,
    section,
)
from tests.specification.vault import NAMED

pytestmark = pytest.mark.anyio

RATE, OTHER_RATE = 3, 4


class LateError(Exception):
    """Somebody is late."""


class Size(Enum):
    SMALL = "small"


@dataclass
class Parcel:
    size: Size


@dataclass
class Unused:
    number: int = 0


async def weigh(parcel: object) -> int:
    """Weigh a parcel."""
    await checkpoint()
    return 7


def named(*turns: Any, **configuration: Any) -> ScriptedSteps:
    return ScriptedSteps(*turns, **NAMED, **configuration)


async def carried_out(function: Any, steps: ScriptedSteps, *arguments: Any, **scope: Any) -> Any:
    async with nh.run(steps.executor), nh.scope(**scope):
        return await function(*arguments)


def names_in(steps: ScriptedSteps, name: str) -> list[str]:
    return [line.partition(":")[0] for line in section(steps.user_prompt, name).splitlines()]


@nh.natural_function
async def pack(numbers: list[int], unnamed: str = "u") -> int:
    secret = "hidden"  # noqa: F841
    total = 0
    for number in numbers:
        total += number
    """natural
    Set <:total> from <numbers>, <RATE>, <weigh> and <secret.x>, with <len>.
    """
    return total


async def test_only_what_is_named_is_shown() -> None:
    steps = named(PASS)
    await carried_out(pack, steps, [1, 2])
    assert names_in(steps, "LOCALS") == ["numbers", "secret", "total"]
    assert names_in(steps, "GLOBALS") == ["RATE", "weigh"]


async def test_by_default_everything_is_shown_and_reachable() -> None:
    steps = ScriptedSteps(evaluating("[unnamed, OTHER_RATE, sum(numbers), weigh.__globals__ is None]"), PASS)
    await carried_out(pack, steps, [1, 2])
    assert names_in(steps, "LOCALS") == ["number", "numbers", "secret", "total", "unnamed"]
    assert steps.envelopes == [{"value": ["u", 4, 3, False], "error": None}]


async def test_what_is_named_and_what_the_code_binds_is_reachable() -> None:
    code = (
        "def double(number, *, by=RATE):\n  half = number / 2\n  return half * 4\n"
        "async def both():\n  return [double(await weigh(n)) for n in numbers]\n"
        "size = len(numbers)\nweights = await both()\n"
        "if size == 2 and True is not None: total = sum_ = size + RATE\n"
        "for each in weights:\n  total += each\ntry: 1 / 0\nexcept: failed = f'{size}{secret!r:>10}'"
    )
    steps = named(executing(code), evaluating("[size, failed, (lambda x: x + size)(1)]"), PASS)
    assert await carried_out(pack, steps, [1, 2]) == 5 + 14 + 14
    assert steps.envelopes[1]["value"] == [2, "2  'hidden'", 3]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "unnamed",
            "name 'unnamed' is not visible in this block; visible: RATE, len, numbers, secret, total",
        ),
        (
            "x = OTHER_RATE",
            "line 1 (x = OTHER_RATE): NameError: name 'OTHER_RATE' is not visible in this block",
        ),
        ("nothing_at_all", "name 'nothing_at_all' is not visible in this block; visible: RATE, len, numbers"),
        ("sum(numbers)", "name 'sum' is not visible in this block"),
        ("print()", "name 'print' is not visible in this block"),
        ("__name__ = 1\n__file__", "name '__file__' is not visible in this block"),
        ("import json", "NameError: nothing can be imported here: name '__import__' is not visible"),
        ("from json import dumps", "nothing can be imported here: name '__import__' is not visible"),
        ("class A: pass", "a class statement does not work here: name '__build_class__' is not visible"),
        ("numbers.__class__", "the attribute '__class__' leads to names that this block does not name"),
        ("match numbers:\n  case [weigh(1)]: pass", "a class pattern with positions may read attributes"),
    ],
)
async def test_the_model_is_told_what_is_not_visible(code: str, message: str) -> None:
    steps = named(executing(code), PASS)
    await carried_out(pack, steps, [1, 2])
    (error,) = [each["error"] for each in steps.envelopes]
    assert error["kind"] == "resolution"
    assert message in error["message"]
    assert error["guidance"]


async def test_a_long_list_of_visible_names_is_cut() -> None:
    steps = named(executing("\n".join(f"n{i:02} = 1" for i in range(50))), evaluating("other"), PASS)
    await carried_out(pack, steps, [1])
    assert steps.envelopes[1]["error"]["message"].endswith("n37 and 16 more")


async def test_the_prompt_says_which_builtins_there_are() -> None:
    steps = named(PASS)
    await carried_out(pack, steps, [1])
    system = str(steps.model.requests[0].system_prompt)
    assert "and of Python's builtins only len; import and class fail." in system
    steps = ScriptedSteps(PASS)
    await carried_out(pack, steps, [1])
    assert "builtins" not in str(steps.model.requests[0].system_prompt)


async def test_return_expressions_and_assignments_see_the_same_names() -> None:
    steps = named(
        assigning("total", "OTHER_RATE"),
        returning("unnamed"),
        (assigning("total", "await weigh(1) + RATE"), returning("total * len(numbers)")),
    )
    assert await carried_out(pack, steps, [1, 2]) == 20
    assert steps.envelopes[0]["error"]["kind"] == "resolution"
    assert "not visible in this block; visible: RATE" in str(steps.results[1].content)


async def test_expressions_for_what_is_raised_see_the_same_names() -> None:
    steps = named(
        tool_call("nh_outcome", kind="raise", raise_expression="LateError(OTHER_RATE)"),
        tool_call("nh_outcome", kind="raise", raise_expression="LateError(number)"),
    )
    with pytest.raises(LateError, match="5"):
        await carried_out(send, steps, 5)
    assert "is not visible in this block; visible: LateError, Parcel" in str(steps.results[0].content)


# ---- what counts as named


@nh.natural_function
async def send(number: int) -> Parcel:
    result: list[Literal[Size.SMALL]] = []
    """natural
    Set <:result> from <number>, or raise LateError or ValueError.
    """
    return Parcel(result[0])


async def test_exception_types_and_the_types_to_produce_are_visible() -> None:
    expression = "[Size.SMALL, Parcel(Size.SMALL).size, LateError('x').args, ValueError('y').args]"
    steps = named(
        evaluating(expression), evaluating("Unused"), (assigning("result", "[Size('small')]"), PASS)
    )
    assert await carried_out(send, steps, 1) == Parcel(Size.SMALL)
    assert steps.envelopes[0]["error"] is None
    assert steps.envelopes[1]["error"]["kind"] == "resolution"
    assert names_in(steps, "LOCALS") == ["number", "result"]
    assert names_in(steps, "GLOBALS") == ["LateError", "Parcel", "Size"]


async def test_the_prompt_tells_types_that_are_not_visible_as_data() -> None:
    @nh.natural_function
    async def address(number: int) -> Parcel:
        """natural
        Make a parcel of <number>.
        """

    steps = named(returning("{'size': 'small'}"))
    assert await carried_out(address, steps, 1) == Parcel(Size.SMALL)
    system = str(steps.model.requests[0].system_prompt)
    assert "class Parcel:\n    size: Size" in system
    assert "class Size(Enum):  # give as data" in system


async def test_a_local_class_to_produce_is_visible_and_its_annotation_may_be_a_builtin() -> None:
    class Inner:
        pass

    @nh.natural_function
    async def inside() -> object:
        made: Inner | None = None
        count: int = 0  # noqa: F841
        Inner.__name__  # noqa: B018 - so that it is a variable of the function
        """natural
        Set <:made> and <:count>.
        """
        return made

    steps = named(evaluating("int"), (assigning("made", "Inner()"), PASS))
    assert isinstance(await carried_out(inside, steps), Inner)
    assert "name 'int' is not visible" in steps.envelopes[0]["error"]["message"]


async def test_implicit_references_are_visible_and_hide_unnamed_locals() -> None:
    steps = named(evaluating("[unnamed, helper(1)]"), PASS)
    references = {"helper": lambda number: number + 1, "unnamed": "the scope's"}
    await carried_out(pack, steps, [1], implicit_references=references)
    assert steps.envelopes[0]["value"] == ["the scope's", 2]
    assert names_in(steps, "GLOBALS") == ["RATE", "helper", "unnamed", "weigh"]


async def test_a_local_variable_that_is_named_does_not_open_the_global_of_its_name() -> None:
    @nh.natural_function
    async def shadow() -> None:
        OTHER_RATE: int  # noqa: N806
        numbers = [1]
        """natural
        Set <:OTHER_RATE> from <numbers>.
        """
        del numbers, OTHER_RATE

    steps = named(
        evaluating("OTHER_RATE"), executing("del numbers\nnumbers"), (assigning("OTHER_RATE", "1"), PASS)
    )
    await carried_out(shadow, steps)
    assert "name 'OTHER_RATE' is not defined" in steps.envelopes[0]["error"]["message"]
    assert "name 'numbers' is not visible" in steps.envelopes[1]["error"]["message"]
    assert names_in(steps, "GLOBALS") == []


@nh.natural_function
async def interpolated(text: str) -> None:
    numbers = [1]
    f"""natural
    {text} Use <numbers>, <RATE.real> and <len>.
    """
    del numbers


async def test_in_an_f_string_only_what_its_author_wrote_is_named() -> None:
    steps = named(evaluating("OTHER_RATE"), evaluating("text"), evaluating("[len(numbers), RATE.real]"), PASS)
    await carried_out(interpolated, steps, "Use <OTHER_RATE>, <text> and <print>.")
    assert [each["error"] and each["error"]["kind"] for each in steps.envelopes] == [
        "resolution",
        "resolution",
        None,
    ]
    assert names_in(steps, "LOCALS") == ["numbers"]
    assert names_in(steps, "GLOBALS") == ["RATE"]


async def test_words_without_brackets_are_not_named() -> None:
    @nh.natural_function
    async def wordy(numbers: list[int]) -> None:
        """natural
        Call weigh(numbers) with RATE.
        """

    steps = named(evaluating("weigh"), evaluating("numbers"), evaluating("RATE"), PASS)
    await carried_out(wordy, steps, [1])
    assert {each["error"]["kind"] for each in steps.envelopes} == {"resolution"}
    assert "visible: none" in steps.envelopes[0]["error"]["message"]


# ---- together with other parts


async def test_a_step_that_is_called_from_a_step_inherits_only_what_that_one_sees() -> None:
    @nh.natural_function
    async def inner(number: int) -> int:
        """natural
        Return <number>.
        """
        return 0

    @nh.natural_function
    async def outer() -> object:
        shared, unnamed = 1, 2
        """natural
        Use <inner> and <shared>.
        """
        return shared, unnamed

    def prompts(steps: ScriptedSteps) -> list[Any]:
        texts = [str(each.messages[0].content[0]) for each in steps.model.requests]  # type: ignore[union-attr]
        return [
            sorted(line.partition(":")[0] for line in section(text, "LOCALS").splitlines()) for text in texts
        ]

    steps = named(evaluating("await inner(5)"), returning("number"), PASS)
    await carried_out(outer, steps)
    assert prompts(steps)[:2] == [["inner", "shared"], ["number"]]
    everything = nh.StepExecutorConfiguration()

    @nh.natural_function
    async def outer_of_all() -> object:
        shared, unnamed = 1, 2

        async def call() -> object:
            with nh.scope(step_executor_configuration=everything):
                return await inner(5)

        """natural
        Use <call> and <shared>.
        """
        return shared, unnamed, call

    code = "100 * mine + 10 * shared + number + ('unnamed' in locals())"
    steps = named(executing("mine = 3\nx = await call()"), returning(code), evaluating("x"), PASS)
    await carried_out(outer_of_all, steps)
    assert prompts(steps)[:2] == [["call", "shared"], ["number"]]
    assert steps.envelopes[-1]["value"] == 315


async def test_permissions_hold_as_well() -> None:
    told = list[str]()
    hooks = nh.Hooks()
    hooks.on(PermissionDecided, lambda event: told.append(event.name))
    steps = named(
        evaluating("await weigh(1)"), evaluating("weigh.__globals__"), evaluating("'{}'.format(1)"), PASS
    )
    async with nh.run(steps.executor, permissions=nh.permissions(deny=weigh, default="allow"), hooks=hooks):
        await pack([1])
    assert [each["error"]["kind"] for each in steps.envelopes] == ["oversight", "resolution", "oversight"]
    assert told == ["weigh", "str.format"]


async def test_what_people_are_asked_about_waits_in_a_step_that_sees_only_what_it_names() -> None:
    class Approver:
        async def approve(self, request: nh.human.ApprovalRequest) -> None:
            request.approve("ada", digest=request.digest)

        async def ask(self, question: nh.human.Question) -> object:
            raise nh.errors.NoHumanError("nobody")

    steps = named(executing("total = (await weigh(1)) + len(numbers)"), PASS)
    async with nh.run(
        steps.executor, permissions=nh.permissions(ask=weigh, default="allow"), human=Approver()
    ):
        assert await pack([1]) == 8


def test_synchronous_functions_see_only_what_they_name() -> None:
    @nh.natural_function
    def count(numbers: list[int]) -> int:
        hidden = 1
        """natural
        Count <numbers> with <len>.
        """
        return hidden

    steps = named(evaluating("hidden"), returning("len(numbers)"))
    with nh.run(steps.executor):
        assert count([1, 2]) == 2
    assert steps.envelopes[0]["error"]["kind"] == "resolution"


@pytest.mark.parametrize("transport", ["native", "direct"])
async def test_other_transports_show_only_what_is_named(transport: Any) -> None:
    answer = '{"result": {"kind": "pass", "bindings": {"total": 1}}}'
    model = ScriptedModel([model_response(text=answer)])
    configuration = nh.StepExecutorConfiguration(outcome_transport=transport, **NAMED)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
        await pack([1])
    prompt = str(model.requests[0].messages[0])
    assert "secret" in prompt
    assert "weigh" in prompt
    assert "unnamed" not in prompt


async def test_builtins_written_in_c_still_import_what_they_need() -> None:
    @nh.natural_function
    async def parse(text: str) -> object:
        """natural
        Parse <text> with <clock.datetime>.
        """

    steps = named(returning("clock.datetime.strptime(text, '%Y').year"))
    assert await carried_out(parse, steps, "2020") == 2020


async def test_a_class_can_be_defined_and_a_module_imported_where_the_block_says_so() -> None:
    @nh.natural_function
    async def free(number: int) -> object:
        """natural
        Use <number>, <__import__> and <__build_class__>.
        """

    code = (
        "import json\nclass Twice:\n  def of(self, number): return [number, number]\n"
        "x = json.dumps(Twice().of(number))"
    )
    steps = named(executing(code), returning("x"))
    assert await carried_out(free, steps, 3) == "[3, 3]"


async def test_a_scope_can_hide_what_the_run_shows() -> None:
    steps = ScriptedSteps(evaluating("unnamed"), PASS, evaluating("unnamed"), PASS)
    async with nh.run(steps.executor):
        with nh.scope(step_executor_configuration=nh.StepExecutorConfiguration(**NAMED)):
            await pack([1])
        await pack([1])
    assert len(steps.model.requests) == 4
    assert "not visible" in str(steps.model.requests[1].messages[-1])
    assert '"u"' in str(steps.model.requests[3].messages[-1])


async def test_an_executor_around_the_agents_must_say_that_names_are_hidden() -> None:
    class Around:
        def __init__(self, inner: nh.AgentStepExecutor) -> None:
            self.inner = inner

        async def run_step_async(self, **step: Any) -> Any:
            return await self.inner.run_step_async(**step)

    steps = named(PASS)
    around: Any = Around(steps.executor)
    async with nh.run(around):
        with pytest.raises(nh.ConfigurationError, match="give it the attribute `configuration`"):
            await pack([1])
        around.configuration = steps.executor.configuration
        await pack([1])
    assert names_in(steps, "LOCALS") == ["numbers", "secret", "total"]


async def test_functions_that_the_host_keeps_see_the_same_names_later() -> None:
    kept: list[Any] = []

    @nh.natural_function
    async def keep(numbers: list[int]) -> None:
        """natural
        Give <kept> a function of <numbers>.
        """

    steps = named(executing("kept.append(lambda: numbers)\nkept.append(lambda: RATE)"), PASS)
    await carried_out(keep, steps, [1])
    assert kept[0]() == [1]
    with pytest.raises(NameError, match="'RATE' is not visible in this block"):
        kept[1]()
