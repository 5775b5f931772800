"""Arguments of natural functions that models call: valid ones arrive, others are refused in time."""

import functools
from typing import Annotated, Any, Unpack

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import nighthawk_async as nh
from tests.specification.scripted_steps import PASS, ScriptedSteps, evaluating, executing, returning

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:A synchronous function was called")]

SETS = {"free": None, "permissions": nh.permissions(default="allow")}
RECEIVED: list[Any] = []
"""The arguments of the calls that began; tests clear it."""


@pytest.fixture(autouse=True)
def _clean() -> None:
    RECEIVED.clear()


@pytest.fixture(params=SETS)
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of the run: the code of steps runs in another way under permissions."""
    return {} if SETS[request.param] is None else {"permissions": SETS[request.param]}


class Issue(BaseModel):
    title: str


class Labels(TypedDict, total=False):
    color: str


ISSUE = Issue(title="It is broken")
NUMBERS = [1, 2]


@nh.natural_function
async def triage(
    issue: Issue, count: int = 1, *rest: int, urgent: bool = False, limit: "Limit | None" = None, **names: str
) -> str:
    RECEIVED.append((issue, count, rest, urgent, limit, names))
    result: str = "done"
    """natural
    Set <:result> for <issue>.
    """
    return result


Limit = Annotated[int, Field(le=10)]


@nh.natural_function
def add_up(numbers: list[int], unknown: "NoSuchType" = None, /) -> int:  # type: ignore[name-defined]
    RECEIVED.append((numbers, unknown))
    total: int = 0
    """natural
    Set <:total>.
    """
    return total


@nh.natural_function
async def paint(**labels: Unpack[Labels]) -> None:
    RECEIVED.append(labels)
    """natural
    Paint.
    """


class Desk:
    @nh.natural_function
    async def handle(self, issue: Issue) -> None:
        RECEIVED.append(issue)
        """natural
        Handle <issue>.
        """

    @staticmethod
    @nh.natural_function
    async def file(issue: Issue) -> None:
        RECEIVED.append(issue)
        """natural
        File <issue>.
        """

    @classmethod
    @nh.natural_function
    async def count(cls, number: int) -> None:
        RECEIVED.append((cls, number))
        """natural
        Count <number>.
        """

    @nh.natural_function
    async def __call__(self, number: int) -> None:
        RECEIVED.append(number)
        """natural
        Work with <number>.
        """

    @nh.repeatable
    async def refund(self, amount: int, idempotency_key: str) -> None:
        RECEIVED.append(amount)


DESK = Desk()
held = functools.partial(triage, ISSUE)


@nh.scope(implicit_references={})
@nh.natural_function
async def scoped(number: int) -> None:
    RECEIVED.append(number)
    """natural
    Work with <number>.
    """


@nh.once
@nh.natural_function
async def pay(amount: int, *, idempotency_key: str) -> None:
    RECEIVED.append(amount)
    """natural
    Pay <amount>.
    """


def doubling(function: Any) -> Any:
    @functools.wraps(function)
    async def call(number: str) -> Any:
        return await function(int(number) * 2)

    return call


@doubling
@nh.natural_function
async def doubled(number: int) -> None:
    RECEIVED.append(number)
    """natural
    Work with <number>.
    """


def plain(number: int) -> int:
    RECEIVED.append(number)
    return number


@nh.natural_function
async def work() -> object:
    """natural
    Use <triage>, <add_up>, <paint>, <DESK>, <held>, <scoped>, <pay>, <doubled>, <plain>, <ISSUE>, <NUMBERS>.
    """


async def call(expression: str, **options: Any) -> str:
    """Let a model evaluate an expression; the answer is what the model sees."""
    steps = ScriptedSteps(evaluating(expression), *[PASS] * 4)
    async with nh.run(steps.executor, **options):
        await work()
    return "\n".join(
        str(message)
        for request in steps.model.requests
        for message in request.messages
        if "nh_eval" in str(message) and "ToolResult" in str(message)
    )


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("triage(3)", "argument 'issue' of triage() must be Issue"),
        ("await triage('a')", "argument 'issue' of triage() must be Issue"),
        ("triage({'name': 'a'})", "at title: Field required"),
        ("triage(ISSUE, 'many')", "argument 'count' of triage() must be int"),
        ("triage(ISSUE, 1, 2, 'x')", "argument 'rest' of triage() must be tuple[int, ...]: at 1"),
        ("triage(ISSUE, urgent='perhaps')", "argument 'urgent' of triage() must be bool"),
        ("triage(ISSUE, limit=11)", "argument 'limit' of triage() must be"),
        ("triage(ISSUE, owner=5)", "argument 'names' of triage() must be dict[str, str]: at owner"),
        ("triage()", "triage(): missing a required argument: 'issue'"),
        ("triage(ISSUE, issue=ISSUE)", "triage(): multiple values for argument 'issue'"),
        ("add_up('one')", "argument 'numbers' of add_up() must be list[int]"),
        ("add_up([1], 2, 3)", "add_up(): too many positional arguments"),
        ("add_up([1], other=3)", "add_up(): got an unexpected keyword argument 'other'"),
        ("paint(shape='round')", "at shape"),
        ("DESK.handle(5)", "argument 'issue' of Desk.handle() must be Issue"),
        ("DESK.file(5)", "argument 'issue' of Desk.file() must be Issue"),
        ("type(DESK).handle(DESK, 5)", "argument 'issue' of Desk.handle() must be Issue"),
        ("DESK.count('x')", "argument 'number' of Desk.count() must be int"),
        ("DESK('x')", "argument 'number' of Desk.__call__() must be int"),
        ("__import__('functools').partial(DESK, 'x')()", "argument 'number' of Desk.__call__() must be int"),
        ("DESK.__call__.__call__('x')", "argument 'number' of Desk.__call__() must be int"),
        ("held(count='many')", "argument 'count' of triage() must be int"),
        ("scoped('x')", "argument 'number' of scoped() must be int"),
        ("[await triage(each) for each in (5,)]", "argument 'issue' of triage() must be Issue"),
        ("(lambda give: give(5))(triage)", "argument 'issue' of triage() must be Issue"),
    ],
)
async def test_what_does_not_match_is_refused_before_anything_runs(
    expression: str, problem: str, options: dict[str, Any]
) -> None:
    seen = await call(expression, **options)
    assert '"kind": "invalid_input"' in seen
    assert problem.replace("'", "\\'") in seen
    assert RECEIVED == []


async def test_statements_and_return_expressions_are_checked_as_well(options: dict[str, Any]) -> None:
    steps = ScriptedSteps(
        executing("def ask(value):\n    return triage(value)\nanswer = await ask(5)"),
        returning("add_up('x')"),
        returning("add_up(NUMBERS)"),
        *[PASS] * 2,
    )
    async with nh.run(steps.executor, **options):
        assert await work() == 0
    shown = [str(request.messages[-1]) for request in steps.model.requests[1:3]]
    assert "argument \\'issue\\' of triage() must be Issue" in shown[0]
    assert "argument \\'numbers\\' of add_up() must be list[int]" in shown[1]
    assert all('"kind": "invalid_input"' in each for each in shown)
    assert RECEIVED == [(NUMBERS, None)]


async def test_valid_objects_arrive_as_they_are(options: dict[str, Any]) -> None:
    await call("await triage(ISSUE, 2, 3, urgent=True, limit=10, owner='ada')", **options)
    await call("add_up(NUMBERS, 5)", **options)
    await call("DESK.count(number=3)", **options)
    await call("DESK('4')", **options)
    await call("paint(color='red')", **options)
    assert RECEIVED[0] == (ISSUE, 2, (3,), True, 10, {"owner": "ada"})
    assert RECEIVED[0][0] is ISSUE
    assert RECEIVED[1] == (NUMBERS, 5)
    assert RECEIVED[1][0] is NUMBERS
    assert RECEIVED[2:] == [(Desk, 3), 4, {"color": "red"}]


async def test_data_is_converted_as_that_of_assignments_is(options: dict[str, Any]) -> None:
    await call("triage({'title': 'a'}, '7')", **options)
    assert [(Issue(title="a"), 7, (), False, None, {})] == RECEIVED


async def test_data_that_a_partial_holds_is_converted_too(options: dict[str, Any]) -> None:
    data = "{'title': 'a'}"
    await call(f"__import__('functools').partial(triage, {data}, count='3')(owner='ada')", **options)
    await call(f"__import__('functools').partial(triage, issue={data})(count='4')", **options)
    await call("held('5', '6')", **options)
    issue = Issue(title="a")
    assert [
        (issue, 3, (), False, None, {"owner": "ada"}),
        (issue, 4, (), False, None, {}),
        (ISSUE, 5, (6,), False, None, {}),
    ] == RECEIVED


async def test_permissions_see_the_call_of_a_method_as_before() -> None:
    options = {"permissions": nh.permissions(deny=["Desk.handle"], default="allow")}
    assert '"kind": "oversight"' in await call("DESK.handle(ISSUE)", **options)
    await call("DESK.count(2)", **options)
    assert [(Desk, 2)] == RECEIVED


async def test_defaults_are_not_checked(options: dict[str, Any]) -> None:
    await call("held()", **options)
    assert RECEIVED == [(ISSUE, 1, (), False, None, {})]


async def test_decorators_of_the_program_and_plain_functions_keep_their_own_arguments(
    options: dict[str, Any],
) -> None:
    await call("doubled('4')", **options)
    await call("plain('x')", **options)
    assert RECEIVED == [8, "x"]


async def test_a_key_that_the_library_adds_is_not_missing(options: dict[str, Any]) -> None:
    await call("pay(5)", **options)
    await call("DESK.refund(amount=6)", **options)
    assert RECEIVED == [5, 6]


async def test_code_of_the_step_can_handle_the_refusal(options: dict[str, Any]) -> None:
    statements = "try:\n    await triage(5)\nexcept Exception as error:\n    answer = type(error).__name__"
    steps = ScriptedSteps(executing(statements), returning("answer"), *[PASS] * 2)
    async with nh.run(steps.executor, **options):
        assert await work() == "ToolBoundaryError"
    assert RECEIVED == []


async def test_calls_of_the_program_are_not_validated() -> None:
    steps = ScriptedSteps(PASS)
    async with nh.run(steps.executor):
        await triage(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert RECEIVED[0][0] == 5


async def test_code_that_calls_keeps_its_meaning() -> None:
    statements = (
        "class Base:\n    def name(self):\n        return 'base'\n"
        "class Derived(Base):\n    def name(self):\n        return super().name() + '!'\n"
        "names = sorted(locals())\n"
        "answer = (Derived().name(), 'names' in names, max(NUMBERS), [len(str(each)) for each in NUMBERS])"
    )
    steps = ScriptedSteps(executing(statements), returning("answer"))
    async with nh.run(steps.executor):
        assert await work() == ("base!", False, 2, [1, 1])
