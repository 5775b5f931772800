"""Small programs out of everything that has places, for hypothesis to build and a simple model to answer.

A program is data. Its result and its effects are the same in every schedule: what runs side by side handles
its own errors. Words are distinct, so that a record can be recognized by the word in it.
"""

import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import anyio
from hypothesis import strategies as st

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError
from nighthawk_async.journal import JournalError
from tests.unit.journal.durable_runs import ResponseEvents, assigning


@dataclass(frozen=True)
class Leaf:
    """One thing that is recorded, or an error of the program."""

    kind: Literal["say", "fail", "pay", "break", "look", "raise", "random"]
    word: str = ""


@dataclass(frozen=True)
class Branch:
    """Several parts, one after the other or side by side."""

    kind: Literal["sequence", "map", "settle", "race", "stream", "tasks", "group", "nested", "stage", "retry"]
    parts: tuple["Node", ...]
    word: str = ""


@dataclass(frozen=True)
class Handled:
    """A part whose errors are handled, and what follows then."""

    part: "Node"
    handler: "Node"


Node: TypeAlias = Leaf | Branch | Handled

_LEAVES = st.builds(Leaf, st.sampled_from(["say", "say", "fail", "pay", "break", "look", "raise", "random"]))
_KINDS = ["sequence", "map", "settle", "race", "stream", "tasks", "group", "nested", "stage", "retry"]


def programs() -> st.SearchStrategy[Node]:
    """Programs with distinct words."""
    nodes: st.SearchStrategy[Node] = st.recursive(
        _LEAVES,
        lambda inner: (
            st.builds(Branch, st.sampled_from(_KINDS), st.lists(inner, min_size=1, max_size=3).map(tuple))
            | st.builds(Handled, inner, inner)
        ),
        max_leaves=7,
    )
    return nodes.map(lambda node: _with_words(node, iter(range(1_000))))


def _with_words(node: Node, numbers: Any) -> Node:
    if isinstance(node, Leaf):
        return Leaf(node.kind, f"w{next(numbers)}w")
    if isinstance(node, Handled):
        return Handled(_with_words(node.part, numbers), _with_words(node.handler, numbers))
    word = f"w{next(numbers)}w"
    return Branch(node.kind, tuple(_with_words(part, numbers) for part in node.parts), word)


class World:
    """Everything outside of the programs: the model that answers, and the effects that were made."""

    name = "world:model"
    capabilities = nh.models.ModelCapabilities()

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.effects: list[tuple[str, str]] = []

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        """Answer with the word of the prompt, or fail."""
        fails, word = re.findall(r"(FAIL|SAY)-(w\d+w)", str(request.messages[0]))[0]
        self.asked.append(word)
        if fails == "FAIL":
            raise ModelStatusError(f"failed {word}", status=503, is_transient=True)
        yield ResponseEvents(assigning("result", f"'said {word}'"))


@nh.natural_function
async def ask(text: str) -> str:
    """Ask the model about a text."""
    result: str
    """natural
    Set <:result> by <text>.
    """
    return result


class Interpreter:
    """Runs programs in one world.

    Args:
        world: The world.
    """

    def __init__(self, world: World) -> None:
        self._world = world

        async def find(word: str, *, idempotency_key: str) -> str | None:
            return f"paid {word}" if (idempotency_key, word) in world.effects else None

        @nh.once(reconcile=find)
        async def pay(word: str, *, idempotency_key: str = "") -> str:
            world.effects.append((idempotency_key, word))
            return f"paid {word}"

        @nh.repeatable
        async def look(word: str) -> str:
            return f"seen {word}"

        @nh.repeatable
        async def break_off(word: str) -> str:
            raise ConnectionError(f"broken {word}")

        @nh.journal.stage("part")
        async def in_stage(node: Branch) -> list[str]:
            return [await self.run(part) for part in node.parts]

        self._pay, self._look, self._break_off, self._in_stage = pay, look, break_off, in_stage

    async def result_of(self, node: Node) -> str:
        """The result of a program, or its error as a text."""
        try:
            return await self.run(node)
        except JournalError:
            raise
        except Exception as error:
            if _is_of_journal(error):
                raise
            return f"ended by {_described(error)}"

    async def run(self, node: Node) -> str:
        """Run a part of a program."""
        if isinstance(node, Leaf):
            return await self._run_leaf(node)
        if isinstance(node, Handled):
            try:
                return await self.run(node.part)
            except JournalError:
                raise
            except Exception as error:
                if _is_of_journal(error):
                    raise
                return f"{_described(error)}, then {await self.run(node.handler)}"
        branch: Callable[[Branch], Awaitable[list[str]]] = getattr(self, f"_run_{node.kind}")
        return f"{node.kind} of {await branch(node)}"

    async def _run_leaf(self, leaf: Leaf) -> str:
        match leaf.kind:
            case "say":
                return await ask(f"SAY-{leaf.word}")
            case "fail":
                return await ask(f"FAIL-{leaf.word}")
            case "pay":
                return await self._pay(leaf.word)
            case "look":
                return await self._look(leaf.word)
            case "break":
                return await self._break_off(leaf.word)
            case "random":
                nh.journal.random()
                return "drawn"
            case "raise":
                raise ValueError(leaf.word)

    async def _run_sequence(self, node: Branch) -> list[str]:
        return [await self.run(part) for part in node.parts]

    async def _run_map(self, node: Branch) -> list[str]:
        return await nh.parallel.map(self.run, node.parts, max_concurrent=1)

    async def _run_settle(self, node: Branch) -> list[str]:
        settled = await nh.parallel.settle(self.run, node.parts)
        return [
            _described(each.error) if isinstance(each, nh.parallel.Failed) else each.value
            for each in settled.outcomes
        ]

    async def _run_race(self, node: Branch) -> list[str]:
        return [await nh.parallel.race(self.run, node.parts, max_concurrent=1)]

    async def _run_stream(self, node: Branch) -> list[str]:
        async with nh.parallel.stream(self.result_of, node.parts) as results:
            return sorted([result async for result in results])

    async def _run_tasks(self, node: Branch) -> list[str]:
        async with nh.open_tasks() as tasks:
            handles = [tasks.start(self.result_of, part) for part in node.parts]
            return [await handle for handle in handles]

    async def _run_group(self, node: Branch) -> list[str]:
        results: dict[int, str] = {}

        async def one(number: int, part: Node) -> None:
            results[number] = await self.result_of(part)

        async with anyio.create_task_group() as group:
            for number, part in enumerate(node.parts):
                group.start_soon(one, number, part)
        return [results[number] for number in range(len(node.parts))]

    async def _run_nested(self, node: Branch) -> list[str]:
        return await nested(self, node, f"SAY-{node.word}")

    async def _run_stage(self, node: Branch) -> list[str]:
        return await self._in_stage(node)

    async def _run_retry(self, node: Branch) -> list[str]:
        @nh.resilience.retrying(attempts=2, on=Exception, wait=0)
        async def attempt() -> list[str]:
            return [await self.run(part) for part in node.parts]

        return await attempt()


@nh.natural_function
async def nested(interpreter: Interpreter, node: Branch, text: str) -> list[str]:
    """A natural function that runs parts before its block."""
    parts = [await interpreter.run(part) for part in node.parts]
    result: str
    """natural
    Set <:result> by <text>.
    """
    return [*parts, result]


def _is_of_journal(error: BaseException) -> bool:
    if isinstance(error, ExceptionGroup):
        return any(_is_of_journal(each) for each in error.exceptions)
    return isinstance(error, JournalError)


def _described(error: BaseException) -> str:
    if isinstance(error, ExceptionGroup):
        return f"{sorted(_described(each) for each in error.exceptions)}"
    return f"{type(error).__name__}: {error}"


def words_in(records: list[nh.journal.Record]) -> Counter[str]:
    """The words of the recorded responses, with their numbers."""
    bodies = [record.body for record in records if record.kind == "response"]
    return Counter(word.decode() for body in bodies for word in re.findall(rb"said (w\d+w)", body))
