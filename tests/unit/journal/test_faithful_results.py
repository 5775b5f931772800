"""Results that come back as they were in every life, are refused before the call, or are known to be lost."""

import dataclasses
import enum
import re
import threading
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Protocol, TypeVar
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

import anyio
import attrs
import msgspec
import pydantic
import pydantic_core
import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    SecretStr,
    field_serializer,
    model_serializer,
)
from pydantic.alias_generators import to_camel

import nighthawk_async as nh
from nighthawk_async.journal import CallInDoubtError, JournalError, JournalValueError
from nighthawk_async.testing import model_response, tool_call

from .durable_runs import AnsweringModel, live, opened, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

KEYS = {"november": b"k" * 32}
Item = TypeVar("Item")


class ApiKey(BaseModel):
    """A model with a secret."""

    token: SecretStr


class Session(BaseModel):
    """A model with a private attribute, and fields that need not be given."""

    user: str
    language: str = "en"
    _cookie: str = PrivateAttr(default="")


class Receipt(BaseModel):
    """A model with an alias."""

    number: str = Field(alias="receiptNumber")


class Choices(BaseModel):
    """A model with aliases of other kinds."""

    model_config = ConfigDict(alias_generator=to_camel)

    first_name: str
    last: str = Field(validation_alias=AliasChoices("surname", AliasPath("names", 1)))
    city: str = Field(serialization_alias="town")


class Changed(BaseModel):
    """A model whose serializers change what it has."""

    number: int
    ratio: Annotated[float, PlainSerializer(round)] = 0.5
    hidden: str = Field(default="", exclude=True)

    @field_serializer("number")
    def _serialized(self, number: int) -> str:
        return f"<{number}>"


class Opaque(BaseModel):
    """A model that is written as a text."""

    number: int

    @model_serializer
    def _serialized(self) -> str:
        return "opaque"


class Size(enum.Enum):
    """An enumeration of tuples."""

    SMALL = (1, 2)


@dataclasses.dataclass
class Seeded:
    """A dataclass with a parameter that is no field."""

    number: int
    seed: dataclasses.InitVar[int] = 0
    total: int = dataclasses.field(init=False)

    def __post_init__(self, seed: int) -> None:
        self.total = self.number + seed


class Box(BaseModel, Generic[Item]):
    """A generic model."""

    item: Item


class Larger(Receipt):
    """A subclass of a declared model."""

    lines: int = 1


class Locked(BaseModel):
    """A model that no store can have."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    lock: threading.Event


class Part(msgspec.Struct, frozen=True):
    """A struct whose code must not run again, and with a field that is not set."""

    made: ClassVar[list[int]] = []

    number: int
    note: str | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        self.made.append(self.number)
        msgspec.structs.force_setattr(self, "number", self.number + 1)


@attrs.frozen(cache_hash=True)
class Hashed:
    """A class whose objects remember their hashes."""

    number: int


def hashed() -> Hashed:
    made = Hashed(1)
    hash(made)
    return made


class SlottedError(Exception):
    """An error whose attributes are in slots."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


def logged_in() -> Session:
    session = Session(user="ann")
    session._cookie = "c1"
    return session


def chosen() -> Choices:
    return Choices.model_validate({"firstName": "Ann", "names": ["x", "Lee"], "city": "Bonn"})


def twice() -> list[list[int]]:
    row = [1]
    return [row, row]


def marked() -> OrderedDict[str, int]:
    made = OrderedDict(a=1)
    made.mark = 1  # type: ignore[attr-defined]
    return made


def described(value: Any) -> object:
    """Everything that a value of these tests has, in plain words."""
    if isinstance(value, BaseModel):
        fields = {name: described(each) for name, each in vars(value).items()}
        return [type(value), fields, value.__pydantic_private__, sorted(value.model_fields_set)]
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, deque):
        return [list(value), value.maxlen]
    if isinstance(value, list):
        return [[value.index(each), value[0] is each] for each in value]
    return [type(value), repr(value)]


calls: list[str] = []
"""The calls of an effect; not in a variable around it, which no stage may change."""


async def two_lives(folder: Path, effect: Callable[[], Awaitable[Any]], **options: Any) -> list[Any]:
    """The results of a call in two lives."""
    results: list[Any] = []
    for _ in range(2):
        with opened(folder, **options) as store:
            results.append(await live(store, shouting(), effect))
    return results


@pytest.mark.parametrize("decorator", [nh.once, nh.repeatable, nh.journal.stage("part")])
@pytest.mark.parametrize(
    ("declared", "make"),
    [
        (Session, logged_in),
        (Receipt, lambda: Receipt(receiptNumber="7")),
        (Choices, chosen),
        (Changed, lambda: Changed(number=1, hidden="h")),
        (Opaque, lambda: Opaque(number=1)),
        (Size, lambda: Size.SMALL),
        (Seeded, lambda: Seeded(1, seed=2)),
        (Box[int], lambda: Box[int](item=1)),
        (Box, lambda: Box(item=1)),
        (re.Pattern[str], lambda: re.compile("a", re.IGNORECASE)),
        (deque[int], lambda: deque([1], maxlen=3)),
        (datetime, lambda: datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)),
        (list[list[int]], twice),
        (Part, lambda: Part(1)),
        (UUID, lambda: UUID(int=1, is_safe=SafeUUID.safe)),
        (Hashed, hashed),
    ],
)
async def test_a_result_is_the_same_in_the_next_life(
    tmp_path: Path, decorator: Any, declared: Any, make: Callable[[], Any]
) -> None:
    calls.clear()

    async def effect() -> Any:
        calls.append("called")
        return make()

    effect.__annotations__["return"] = declared
    first, second = map(described, await two_lives(tmp_path, decorator(effect)))
    assert first == second == described(make())
    assert calls == ["called"]


async def test_the_code_of_a_struct_runs_in_the_first_life_alone(tmp_path: Path) -> None:
    @nh.once
    async def make() -> Part:
        return Part(1)

    Part.made.clear()
    assert [part.number for part in await two_lives(tmp_path, make)] == [2, 2]
    assert Part.made == [1]
    assert Part.__subclasses__() == []


async def test_a_secret_is_stored_where_nobody_else_can_read_it(tmp_path: Path) -> None:
    @nh.once
    async def create_key() -> ApiKey:
        return ApiKey(token=SecretStr("sk-1234"))

    keys = await two_lives(tmp_path, create_key, keys=KEYS)
    assert [key.token.get_secret_value() for key in keys] == ["sk-1234"] * 2
    with opened(tmp_path, keys=KEYS) as store:
        lines = "\n".join(store.export("run-1"))
        assert "sk-1234" not in lines
        store.copy("run-1", tmp_path / "copy.db")
    assert b"sk-1234" not in (tmp_path / "copy.db").read_bytes()


@pytest.mark.parametrize("declared", [ApiKey, dict[str, list[ApiKey | None]], SecretStr])
async def test_a_secret_is_refused_before_the_call_without_encryption(tmp_path: Path, declared: Any) -> None:
    calls: list[str] = []

    async def create_key() -> Any:
        calls.append("called")

    create_key.__annotations__["return"] = declared
    with opened(tmp_path) as store, pytest.raises(JournalValueError, match="keys="):
        await live(store, shouting(), nh.once(create_key))
    assert calls == []


@pytest.mark.parametrize(
    "declared", [Locked, list[Locked], Callable[[], int], Iterator[int], threading.Event, type[int], type]
)
@pytest.mark.parametrize("decorator", [nh.once, nh.repeatable, nh.journal.stage("part")])
async def test_a_type_that_can_never_be_stored_is_refused_before_the_call(
    tmp_path: Path, decorator: Any, declared: Any
) -> None:
    calls: list[str] = []

    async def effect() -> Any:
        calls.append("called")

    effect.__annotations__["return"] = declared
    for _ in range(2):
        with opened(tmp_path) as store, pytest.raises(JournalValueError, match=r"run/.*, result"):
            await live(store, shouting(), decorator(effect))
    assert calls == []


@pytest.mark.parametrize(
    ("declared", "make"),
    [
        (None, lambda: Receipt(receiptNumber="7")),
        (Any, object),
        (Receipt, lambda: Larger(receiptNumber="7")),
        (Box, lambda: Box[int](item=1)),
        (threading.Event | None, threading.Event),
        (str, lambda: "\ud800"),
        (OrderedDict[str, int], marked),
        (bytes, lambda: bytes(2_000)),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_call_that_ended_with_an_unstorable_result_is_not_in_doubt(
    tmp_path: Path, is_async: bool, declared: Any, make: Callable[[], Any]
) -> None:
    calls: list[str] = []

    async def pay():  # type: ignore[no-untyped-def]
        calls.append("paid")
        return make()

    def pay_synchronously():  # type: ignore[no-untyped-def]
        calls.append("paid")
        return make()

    function = pay if is_async else pay_synchronously
    if declared is not None:
        function.__annotations__["return"] = declared
    effect = nh.once(function)

    async def program() -> Any:
        return await effect() if is_async else effect()

    with opened(tmp_path, max_value_bytes=1_000) as store, pytest.raises(JournalValueError):
        await live(store, shouting(), program)
    for _ in range(2):
        with opened(tmp_path, max_value_bytes=1_000) as store:
            with pytest.raises(JournalError, match="ended in an earlier life") as caught:
                await live(store, shouting(), program)
            assert not isinstance(caught.value, CallInDoubtError)
            assert "not_stored" in "\n".join(store.export("run-1"))
    assert calls == ["paid"]


async def test_a_result_that_was_lost_is_set_in_a_fork(tmp_path: Path) -> None:
    calls: list[str] = []

    async def pay() -> Any:
        calls.append("paid")
        return Receipt(receiptNumber="7")

    with opened(tmp_path) as store:
        with pytest.raises(JournalValueError):
            await live(store, shouting(), nh.once(pay))
        pay.__annotations__["return"] = Receipt
        fork = store.fork("run-1", at="run/pay()[0]", set={"result": {"receiptNumber": "7"}})
        assert await live(store, shouting(), nh.once(pay), fork) == Receipt(receiptNumber="7")
    assert calls == ["paid"]


async def test_a_call_that_may_be_repeated_is_after_a_result_that_could_not_be_stored(tmp_path: Path) -> None:
    results = iter([object(), "read"])

    @nh.repeatable
    async def read():  # type: ignore[no-untyped-def]
        return next(results)

    with opened(tmp_path) as store, pytest.raises(JournalValueError):
        await live(store, shouting(), read)
    with opened(tmp_path) as store:
        assert await live(store, shouting(), read) == "read"


async def test_an_unstorable_result_that_the_program_handled_is_raised_again(tmp_path: Path) -> None:
    calls: list[str] = []

    @nh.repeatable
    async def read():  # type: ignore[no-untyped-def]
        calls.append("read")
        return object()

    async def program() -> str:
        try:
            await read()
        except JournalValueError:
            await nh.journal.sleep(seconds=0)
            return "handled"
        return "read"

    assert await two_lives(tmp_path, program) == ["handled", "handled"]
    assert calls == ["read"]


class Countable(Protocol):
    """A protocol, whose values are of any class."""

    def count(self, value: object, /) -> int: ...


@pytest.mark.parametrize(
    "declared", [Countable, Sequence[int], Collection[int] | None, object, TypeVar("Row", bound=list[int])]
)
async def test_a_type_that_says_little_lets_the_value_decide(tmp_path: Path, declared: Any) -> None:
    async def count() -> Any:
        return [1, 2]

    count.__annotations__["return"] = declared
    assert await two_lives(tmp_path, nh.once(count)) == [[1, 2]] * 2


async def test_people_are_not_asked_for_what_cannot_be_stored(tmp_path: Path) -> None:
    asked: list[str] = []

    class Person:
        async def ask(self, question: Any) -> object:
            asked.append(question.prompt)
            return {"token": "sk-1"}

        async def approve(self, request: Any) -> None:
            raise AssertionError("nobody asks for an approval")

    async def program() -> str:
        key = await nh.ask_user("Which key?", schema=ApiKey)
        return key.token.get_secret_value()

    async def life(**options: Any) -> str:
        with opened(tmp_path, **options) as store:
            executor = nh.AgentStepExecutor.from_model(shouting())
            async with nh.run(executor, journal=store, run_id="run-1", human=Person()):
                return await program()

    with pytest.raises(JournalValueError, match="keys="):
        await life()
    assert asked == []
    assert [await life(keys=KEYS) for _ in range(2)] == ["sk-1", "sk-1"]
    assert asked == ["Which key?"]


async def test_an_error_that_no_life_can_raise_again_is_no_doubt(tmp_path: Path) -> None:
    class LocalError(Exception):
        pass

    @nh.once
    async def pay() -> None:
        raise LocalError

    for words in ("LocalError", "ended in an earlier life"):
        with opened(tmp_path) as store, pytest.raises(JournalValueError, match=words):
            await live(store, shouting(), pay)


@pytest.mark.parametrize("given", ["many", 2.5, ["x"], {"a": object()}])
async def test_an_error_of_pydantic_is_raised_again(tmp_path: Path, given: object) -> None:
    @nh.once
    async def fetch() -> int:
        return pydantic.TypeAdapter(int).validate_python(given)

    async def program() -> list[Any]:
        try:
            await fetch()
        except pydantic.ValidationError as error:
            return [error.args, str(error), error.error_count(), error.errors()[0]["type"]]
        return []

    first, second = await two_lives(tmp_path, program)
    assert first == second
    assert first[2] == 1


async def test_an_error_of_a_validator_is_raised_again(tmp_path: Path) -> None:
    class Checked(BaseModel):
        number: int

        @pydantic.field_validator("number")
        @classmethod
        def _check(cls, number: int) -> int:
            assert number != 1, "one"
            if number == 2:
                raise ValueError("two")
            raise pydantic_core.PydanticCustomError("mine", "the number {number}", {"number": number})

    @nh.once
    async def check(number: int) -> None:
        Checked(number=number)

    async def program() -> list[str]:
        texts: list[str] = []
        for number in (1, 2, 3):
            try:
                await check(number)
            except pydantic.ValidationError as error:
                texts.append(str(error))
        await nh.journal.sleep(seconds=0)
        return texts

    first, second = await two_lives(tmp_path, program)
    assert first == second
    assert len(first) == 3


async def test_an_error_with_slots_is_raised_again(tmp_path: Path) -> None:
    @nh.once
    async def pay() -> None:
        raise SlottedError(402)

    async def program() -> int:
        try:
            await pay()
        except SlottedError as error:
            await nh.journal.sleep(seconds=0)
            return error.code
        return 0

    assert await two_lives(tmp_path, program) == [402, 402]


def missing_name() -> None:
    eval("no_such_name")


def missing_module() -> None:
    raise ModuleNotFoundError("no module", name="mails", path="/mails")


def missing_attribute() -> None:
    object().mails  # type: ignore[attr-defined]  # noqa: B018


def damaged_file() -> None:
    error = OSError(5, "damaged", "a.txt", None, "b.txt")
    error.filename = "c.txt"
    raise error


def several() -> None:
    group = ExceptionGroup("several", [KeyError("a"), ExceptionGroup("more", [OSError(2, "missing")])])
    group.add_note("while it was made")
    group.code = 402  # type: ignore[attr-defined]
    raise group


def seen(error: BaseException) -> list[object]:
    names = ("name", "path", "filename", "filename2", "errno", "code", "__notes__")
    inner = [seen(each) for each in getattr(error, "exceptions", ())]
    return [type(error), str(error), *(getattr(error, name, None) for name in names), inner]


@pytest.mark.parametrize("fail", [missing_name, missing_module, missing_attribute, damaged_file, several])
async def test_an_error_of_python_keeps_what_its_class_holds(
    tmp_path: Path, fail: Callable[[], None]
) -> None:
    @nh.once
    async def pay() -> None:
        fail()

    async def program() -> list[object]:
        try:
            await pay()
        except Exception as error:
            await nh.journal.sleep(seconds=0)
            return seen(error)
        return []

    first, second = await two_lives(tmp_path, program)
    assert first == second
    assert first != []


async def test_a_tool_without_an_annotation_is_not_in_doubt(tmp_path: Path) -> None:
    calls: list[str] = []

    async def receipt():  # type: ignore[no-untyped-def]
        """Return the receipt."""
        calls.append("called")
        return Receipt(receiptNumber="7")

    def answer(prompt: str, turn: int) -> nh.testing.ModelResponse:
        if turn == 0:
            return model_response(tool_call("receipt"))
        return model_response(tool_call("nh_outcome", kind="pass", bindings={"found": "7"}))

    @nh.natural_function
    async def report(text: str) -> str:
        found: str = nh.unset
        """natural
        Set <:found> to the number of the receipt for <text>.
        """
        return found

    async def program() -> str:
        with nh.scope(tools=[receipt]):
            return await report("lamp")

    for words in ("Receipt", "ended in an earlier life"):
        with opened(tmp_path) as store, pytest.raises(JournalValueError, match=words):
            await live(store, AnsweringModel(answer), program)
    assert calls == ["called"]


def keep_key(key: ApiKey) -> ApiKey:
    """Return a key."""
    return key


def keep_session(session: Session) -> list[Session]:
    """Return a session, twice."""
    return [session, session]


def make_lock() -> threading.Event:
    """Return what cannot be stored."""
    return threading.Event()


async def worked(store: nh.journal.JournalStore, function: Callable[..., Any], *args: object) -> Any:
    """The result of a call from a queue."""
    worker = nh.journal.Worker(
        store,
        [function],
        run=lambda run_id: nh.run(nh.AgentStepExecutor.from_model(shouting()), journal=store, run_id=run_id),
    )
    run_id = await store.enqueue(function, *args)
    async with anyio.create_task_group() as group:
        await group.start(worker.serve)
        result = await store.result(run_id)
        worker.drain()
    return result


async def test_arguments_and_results_of_queues_are_the_same(tmp_path: Path) -> None:
    with opened(tmp_path, keys=KEYS) as store:
        result = await worked(store, keep_key, ApiKey(token=SecretStr("sk-1")))
        assert result.token.get_secret_value() == "sk-1"
        first, second = await worked(store, keep_session, logged_in())
    assert first is second
    assert (first._cookie, first.model_fields_set) == ("c1", {"user"})


async def test_what_a_queue_cannot_keep_is_refused_when_it_is_enqueued(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        with pytest.raises(JournalValueError, match="keys="):
            await store.enqueue(keep_key, ApiKey(token=SecretStr("sk-1")))
        with pytest.raises(JournalValueError, match="Event"):
            await store.enqueue(make_lock)
        with pytest.raises(JournalValueError, match="secret"):
            await store.send("run-1", "mails", SecretStr("sk-1"))
