"""A recorded answer is given only to the same call; where nobody knows, the first life says so."""

import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalDivergenceError, JournalIdentityError, JournalIdentityWarning
from nighthawk_async.journal.run_journal import StepRecord
from nighthawk_async.testing import ModelResponse, model_response, tool_call
from nighthawk_async.values.canonical_forms import _functions, forget_identities

from .durable_runs import AnsweringModel, live, opened, places

pytestmark = pytest.mark.anyio


@dataclass
class Order:
    """An order."""

    customer: str
    number: int = 1


class Row:
    """An object of an ordinary class."""

    def __init__(self, name: str) -> None:
        self.name = name


class Session:
    """An object of which nobody knows what it is."""

    def __init__(self, name: str) -> None:
        self._name = name


class Account:
    """An object with methods."""

    def __init__(self, name: str) -> None:
        self.name = name

    @nh.once
    async def charge(self, cents: int) -> str:
        """An effect."""
        return f"charged {self.name}"

    @nh.journal.stage("check")
    async def check(self) -> str:
        """A stage."""
        return f"checked {self.name}"

    @nh.natural_function
    async def describe(self) -> str:
        """Describe the account."""
        text: str = nh.unset
        """natural
        Set <:text> to a description.
        """
        return text


CITY = "Berlin"


@nh.natural_function
async def greet(order: Order, tone: str = "warm") -> str:
    """Greet a customer."""
    text: str = nh.unset
    """natural
    Set <:text> to a greeting of <order.customer>.
    """
    return text


@nh.natural_function
async def about(topic: Any) -> str:
    """Write about a topic."""
    text: str = nh.unset
    f"""natural
    Set <:text> to a text about {topic:>8} in {CITY}.
    """
    return text


@nh.natural_function
async def show(row: Any) -> str:
    """Write an object into a text."""
    text: str = nh.unset
    f"""natural
    Set <:text> to a text about {row}.
    """
    return text


@nh.natural_function
async def rate(row: Any) -> str:
    """Rate something."""
    text: str = nh.unset
    """natural
    Set <:text> to a rating of <row>.
    """
    return text


@nh.natural_function
async def extend(text: str, unnamed: Any = None) -> str:
    """Write to a variable that has a value."""
    """natural
    Extend <:text>.
    """
    return text


@nh.once
async def mail(row: Any) -> str:
    """An effect with an argument."""
    return "mailed"


async def ask(topic: str, **values: Any) -> str:
    """Run a block that is chosen at run time."""
    reply = await nh.step(f"Set <:text> to a text about {topic}.", values, outputs={"text": str})
    return reply.text


def answer(prompt: str, turn: int) -> ModelResponse:
    """Answer each block with one text."""
    return model_response(tool_call("nh_outcome", kind="pass", bindings={"text": "ok"}))


class Till:
    """An object with a tool."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.calls = 0

    async def take(self, cents: int) -> str:
        """Take money."""
        self.calls += 1
        return f"taken by {self.owner}"

    async def look(self) -> str:
        """Change nothing."""
        return f"till of {self.owner}"


def taking(owner: str) -> Callable[..., Any]:
    """A tool that was made in a function."""

    async def take(cents: int) -> str:
        """Take money."""
        return f"taken by {owner}"

    return take


def taking_once(owner: str) -> Callable[..., Any]:
    """An effect that was made in a function."""

    @nh.once
    async def take() -> str:
        return f"taken by {owner}"

    return take


def taking_by_default(owner: str) -> Callable[..., Any]:
    """An effect with a default that was made in a function."""

    @nh.once
    async def take(by: str = owner) -> str:
        return f"taken by {by}"

    return take


def check_once(owner: str) -> Callable[..., Any]:
    """A stage that was made in a function."""

    @nh.journal.stage("checked")
    async def check() -> str:
        return f"checked by {owner}"

    return check


async def raw_take(owner: str, cents: int = 1) -> str:
    """What is made an effect later."""
    return f"taken by {owner}"


async def use_tool(tool: Callable[..., Any]) -> str:
    """Run a block whose model calls a tool twice."""
    reply = await nh.step("Set <:text> with the tool.", {}, outputs={"text": str}, tools=[tool])
    return reply.text


def take_twice(prompt: str, turn: int) -> ModelResponse:
    """Call the tool, and end the block in the third turn."""
    if turn < 2:
        return model_response(tool_call("take", cents=turn))
    return answer(prompt, turn)


async def take(cents: int = 1) -> str:
    """Take money."""
    return "taken"


def hidden(make: Callable[[str], Callable[..., Any]], owner: str) -> Callable[..., Any]:
    """What looks like `take` and is not."""
    return update_wrapper(make(owner), take)


def around(value: Any) -> Callable[..., Any]:
    """A function with a value around it."""

    async def take(cents: int = 1) -> str:
        """Take money."""
        return f"taken by {value}"

    return take


def by_default(owner: str) -> Callable[..., Any]:
    """A function with an object as its default."""

    async def take(cents: int = 1, by: Order = Order(owner)) -> str:  # noqa: B008
        """Take money."""
        return f"taken by {by.customer}"

    return take


class Calling:
    """An object that is called."""

    def __init__(self, owner: str) -> None:
        self.owner = owner

    async def __call__(self, cents: int = 1) -> str:
        """Take money."""
        return f"taken by {self.owner}"


CARRYING: dict[str, Callable[[str], Callable[..., Any]]] = {
    "a partial": lambda owner: hidden(lambda name: partial(raw_take, name), owner),
    "an object that is called": lambda owner: hidden(Calling, owner),
    "a closure": lambda owner: hidden(around, owner),
    "an object": lambda owner: around(Row(owner)),
    "an object without a form": lambda owner: around(Account(owner)),
    "a list": lambda owner: around([owner]),
    "a dict": lambda owner: around({"owner": owner}),
    "a set": lambda owner: around({owner}),
    "a tuple": lambda owner: around((Row(owner),)),
    "a bound method": lambda owner: around(Till(owner).look),
    "another partial": lambda owner: around(partial(raw_take, owner)),
    "another closure": lambda owner: around(around(Row(owner))),
    "a default": by_default,
}
"""Functions that carry an owner, by what they carry it in."""


CHANGES: dict[str, tuple[Callable[[], Awaitable[str]], Callable[[], Awaitable[str]], str]] = {
    "a dotted path": (lambda: greet(Order("ann")), lambda: greet(Order("bob")), "<order.customer>"),
    "an unnamed argument": (lambda: greet(Order("a")), lambda: greet(Order("a"), "cold"), "argument 'tone'"),
    "an interpolation": (lambda: about("tea"), lambda: about("war"), "value of {topic:>8} in its text"),
    "the text of a step": (lambda: ask("tea"), lambda: ask("war"), "text of the step"),
    "a value of a step": (lambda: ask("tea", a=1), lambda: ask("tea", a=2), "argument 'a'"),
    "an ordinary object": (lambda: rate(Row("a")), lambda: rate(Row("b")), "<row>"),
    "its class": (lambda: rate(Row("a")), lambda: rate(Account("a")), "<row>"),
    "a type": (lambda: rate((1, 2)), lambda: rate([1, 2]), "<row>"),
    "a variable that is written": (lambda: extend("a"), lambda: extend("b"), "argument 'text'"),
    "an argument of an effect": (lambda: mail(Row("a")), lambda: mail(Row("b")), "<row>"),
    "the object of an effect": (lambda: Account("a").charge(5), lambda: Account("b").charge(5), "<self>"),
    "a variable around an effect": (
        lambda: taking_once("a")(),
        lambda: taking_once("b")(),
        "<variable owner>",
    ),
    "a default of an effect": (
        lambda: taking_by_default("a")(),
        lambda: taking_by_default("b")(),
        "<default by>",
    ),
    "a variable around a stage": (
        lambda: check_once("a")(),
        lambda: check_once("b")(),
        "<variable owner>",
    ),
    "a partial": (
        lambda: nh.once(partial(raw_take, "a"))(),
        lambda: nh.once(partial(raw_take, "b"))(),
        "<its arguments>",
    ),
    "a bound method": (
        lambda: nh.once(Till("a").look)(),
        lambda: nh.once(Till("b").look)(),
        "<its object>",
    ),
    "the object of a stage": (lambda: Account("a").check(), lambda: Account("b").check(), "<self>"),
    "the object of a block": (lambda: Account("a").describe(), lambda: Account("b").describe(), "'self'"),
}
"""For each input two programs that differ in it alone, and what the error says."""


@pytest.mark.parametrize("what", CHANGES)
async def test_another_call_does_not_get_the_recorded_answer(tmp_path: Path, what: str) -> None:
    first, second, said = CHANGES[what]
    model = AnsweringModel(answer)
    with opened(tmp_path) as store:
        given = [await live(store, model, first) for _ in range(2)]
        assert given[0] == given[1]
        requests = len(model.prompts)
        with pytest.raises(JournalDivergenceError) as caught:
            await live(store, model, second)
        assert said in str(caught.value)
        assert len(model.prompts) == requests <= 1


@pytest.mark.parametrize("make", [lambda owner: Till(owner).take, taking], ids=["a method", "a closure"])
async def test_the_result_of_a_tool_is_not_that_of_another_one(tmp_path: Path, make: Any) -> None:
    model = AnsweringModel(take_twice)
    with opened(tmp_path) as store:
        for _ in range(2):
            await live(store, model, lambda: use_tool(make("a")))  # it counts its calls, which a replay skips
        with pytest.raises(JournalDivergenceError, match=r"<its object>|<variable owner>"):
            await live(store, model, lambda: use_tool(make("b")))
        assert len(model.prompts) == 3


@pytest.mark.parametrize("made", [nh.once, nh.journal.stage("take"), None], ids=["once", "stage", "tool"])
@pytest.mark.parametrize("carrying", CARRYING)
async def test_whatever_a_function_carries_tells_it_apart(tmp_path: Path, carrying: str, made: Any) -> None:
    make, model = CARRYING[carrying], AnsweringModel(take_twice)

    async def program(owner: str) -> None:
        await (use_tool(make(owner)) if made is None else made(make(owner))())

    with opened(tmp_path) as store:
        for _ in range(2):
            await live(store, model, lambda: program("a"))
        with pytest.raises(JournalDivergenceError, match=r"<(its|variable|default) "):
            await live(store, model, lambda: program("b"))


async def test_what_a_function_carries_counts_as_it_was_first_seen(tmp_path: Path) -> None:
    async def program() -> list[int]:
        till, numbers = Till("a"), {"first": 1}

        def make(cents: int) -> Callable[..., Any]:
            @nh.once
            async def pay() -> int:
                await till.take(cents)  # it counts its calls, which a later life skips
                return cents + numbers["first"]

            return pay

        paid = [await make(cents)() for cents in (1, 2, 3)]
        numbers["second"] = 2
        return [*paid, await make(4)()]

    with opened(tmp_path) as store:
        for _ in range(2):
            assert await live(store, AnsweringModel(answer), program) == [2, 3, 4, 5]


async def test_an_object_that_runs_share_counts_as_the_process_has_first_seen_it(tmp_path: Path) -> None:
    till, prices = Till("a"), {"tea": 1}

    async def program() -> int:
        @nh.once
        async def pay() -> int:
            await till.take(1)
            return prices["tea"]

        return await pay()

    with opened(tmp_path) as store:
        for run_id in ("run-1", "run-1", "run-2"):
            assert await live(store, AnsweringModel(answer), program, run_id) == 1
            prices["sugar"] = 2
        assert till.calls == 2


async def test_an_address_in_a_text_is_no_difference_and_is_said(tmp_path: Path) -> None:
    model = AnsweringModel(answer)
    with opened(tmp_path) as store:
        with pytest.warns(JournalIdentityWarning, match="addresses in memory"):
            await live(store, model, lambda: show(Row("a")))
        await live(store, model, lambda: show(Row("a")))
        with pytest.raises(JournalDivergenceError, match="'row'"):
            await live(store, model, lambda: show(Row("b")))


async def test_of_an_unnamed_object_that_holds_a_lock_the_rest_counts(tmp_path: Path) -> None:
    def locked(name: str) -> Account:
        account = Account(name)
        account.lock = threading.Lock()  # type: ignore[attr-defined]
        return account

    with opened(tmp_path) as store:
        model = AnsweringModel(answer)
        for _ in range(2):
            await live(store, model, lambda: locked("a").describe())
        with pytest.raises(JournalDivergenceError, match="'self'"):
            await live(store, model, lambda: locked("b").describe())


async def test_a_part_of_an_argument_that_no_path_names_does_not_count(tmp_path: Path) -> None:
    model = AnsweringModel(answer)
    with opened(tmp_path) as store:
        await live(store, model, lambda: greet(Order("ann", 1)))
        await live(store, model, lambda: greet(Order("ann", 2)))


async def test_an_unnamed_argument_without_a_form_counts_by_its_type(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        model = AnsweringModel(answer)
        await live(store, model, lambda: extend("a", Session("a")))
        await live(store, model, lambda: extend("a", Session("b")))
        with pytest.raises(JournalDivergenceError, match="'unnamed'"):
            await live(store, model, lambda: extend("a", Row("b")))


@pytest.mark.parametrize("text", ["text about {topic}", "word on {topic.strip()}"])
async def test_the_literal_text_of_a_block_may_be_edited(tmp_path: Path, text: str) -> None:
    source = (
        "import nighthawk_async as nh\n\n\n@nh.natural_function\n"
        "async def about(topic):\n    text = nh.unset\n"
        '    f"""natural\n    Set <:text> to a text about {topic}.\n    """\n    return text\n'
    )
    model = AnsweringModel(answer)
    with opened(tmp_path) as store:
        for number, code in enumerate((source, source.replace("text about {topic}", text))):
            file = tmp_path / f"edited_{number}.py"
            file.write_text(code)
            names: dict[str, Any] = {"__name__": "edited"}
            exec(compile(code, file, "exec"), names)
            await live(store, model, lambda names=names: names["about"]("tea"))
    assert len(model.prompts) == 1


async def test_steps_in_tasks_started_by_hand_have_places_by_their_text(tmp_path: Path) -> None:
    found: dict[str, str] = {}

    async def put(topic: str) -> None:
        found[topic] = await ask(topic)

    async def program(*topics: str) -> None:
        async with anyio.create_task_group() as tasks:
            for topic in topics:
                tasks.start_soon(put, topic)

    def answer_about(prompt: str, turn: int) -> ModelResponse:
        topic = next(each for each in ("tea", "war", "art") if f"about {each}" in prompt)
        return model_response(tool_call("nh_outcome", kind="pass", bindings={"text": topic}))

    model = AnsweringModel(answer_about)
    with opened(tmp_path) as store:
        for topics in (("tea", "war", "art"), ("art", "tea", "war")):
            found.clear()
            await live(store, model, lambda topics=topics: program(*topics))
            assert found == {topic: topic for topic in topics}
    assert len(model.prompts) == 3


async def test_methods_in_tasks_started_by_hand_have_places_by_their_objects(tmp_path: Path) -> None:
    found: list[str] = []

    async def charge(name: str) -> None:
        found.append(await Account(name).charge(5))

    async def program(*names: str) -> None:
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(charge, name)

    with opened(tmp_path) as store:
        for names in (("a", "b"), ("b", "a")):
            found.clear()
            await live(store, AnsweringModel(answer), lambda names=names: program(*names))
            assert sorted(found) == ["charged a", "charged b"]
        assert len(places(store, "intent")) == 2


async def test_the_same_object_may_be_called_again_and_again_by_hand(tmp_path: Path) -> None:
    class Service:
        def __init__(self) -> None:
            self._connection = object()

        @nh.natural_function
        async def ping(self) -> None:
            """natural
            Say nothing.
            """

    def silent(prompt: str, turn: int) -> ModelResponse:
        return model_response(tool_call("nh_outcome", kind="pass"))

    async def program(*services: Service) -> None:
        async with anyio.create_task_group() as tasks:
            for service in services:
                tasks.start_soon(service.ping)

    service = Service()
    with opened(tmp_path) as store:
        for _ in range(2):
            await live(store, AnsweringModel(silent), lambda: program(service, service, service))
        with pytest.raises(ExceptionGroup) as caught:
            await live(store, AnsweringModel(silent), lambda: program(Service(), Service()), "run-2")
        assert caught.group_contains(nh.parallel.AmbiguousPlaceError)


async def test_the_first_life_warns_once_of_an_object_that_nobody_knows(tmp_path: Path) -> None:
    async def program() -> None:
        for name in ("a", "b"):
            await mail(Session(name))

    with opened(tmp_path) as store:
        with pytest.warns(JournalIdentityWarning, match=r"<row> of the call.*Session.*identity=") as caught:
            await live(store, AnsweringModel(answer), program)
        assert len(caught) == 1
        await live(store, AnsweringModel(answer), program)  # nothing is new


@pytest.mark.parametrize("begin", [mail, rate])
async def test_a_strict_store_refuses_it_before_anything_begins(tmp_path: Path, begin: Any) -> None:
    model = AnsweringModel(answer)
    with opened(tmp_path, strict=True) as store:
        with pytest.raises(JournalIdentityError, match="Session") as caught:
            await live(store, model, lambda: begin(Session("a")))
        assert begin.__name__ in caught.value.place
        assert places(store, "intent", "step") == []
        assert await live(store, model, lambda: begin(Row("a")), "run-2")
    assert len(model.prompts) <= 1


async def test_a_registered_identity_makes_an_object_known(tmp_path: Path) -> None:
    nh.journal.register(Session, identity=lambda session: session._name)
    try:
        with opened(tmp_path, strict=True) as store:
            await live(store, AnsweringModel(answer), lambda: mail(Session("a")))
            with pytest.raises(JournalDivergenceError, match="<row>"):
                await live(store, AnsweringModel(answer), lambda: mail(Session("b")))
    finally:
        _functions.pop(Session)
        forget_identities()


async def test_records_and_runs_have_the_version_of_their_digests(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await live(store, AnsweringModel(answer), lambda: greet(Order("a")))
        life, step = store.records("run-1")[:2]
        assert life.body == b" identity=2"
        assert msgspec.msgpack.decode(step.body, type=StepRecord).version == 2
        await live(store, AnsweringModel(answer), lambda: mail(Order("a")), "run-2")
        (intent,) = (each for each in store.records("run-2") if each.kind == "intent")
        assert msgspec.msgpack.decode(intent.body)[0] == 2
