"""Programs as data: they can be printed, made smaller, changed between lives, and run in a killed process.

`generated_programs` draws them. `interpreter` runs them.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, TypeAlias, get_args

import msgspec
from hypothesis import strategies as st
from msgspec import Struct

CallKind: TypeAlias = Literal[
    "ask",  # a natural function
    "step",  # nh.step, with the data in its text
    "formatted",  # a block that is an f-string
    "dotted",  # a block that reads <order.customer>
    "of self",  # a natural method, whose block reads <self.customer>
    "thread",  # a synchronous natural function in a thread
    "look",  # nh.repeatable
    "pay",  # nh.once with reconcile
    "pay blindly",  # nh.once without
    "pay by method",  # nh.once on a method: all that differs is self
    "pay in thread",  # a synchronous function with nh.once, in a thread
    "pay with token",  # nh.once with a value of nh.journal.random
    "tool",  # a model that calls a tool with an effect
    "fail",  # a request that fails, which the program handles
    "pause",  # plain code that takes another time in each life
    "pay and change",  # nh.once that changes its argument in place
    "pay outside",  # nh.once in a thread that does not know of the run
    "crash",  # an error that ends the first life
    "pay decided",  # nh.once with what nh.journal.decide has kept, which differs in each life
    "pay after failure",  # nh.once with how a request has ended, which fails in the first life alone
    "pay with usage",  # nh.once with the requests that the run has counted
    "pay after deadline",  # nh.once with how a deadline has ended, which expires in the first life alone
    "pay forgiving",  # nh.once, and the program handles that it is not the recorded call
    "pay another way",  # nh.once for another one instead of one that fails before, for bob
    "pay for code",  # nh.once whose result is a function, which cannot be stored
    "ask in vain",  # a request that fails in the first life, which ends it
]
BranchKind: TypeAlias = Literal[
    "sequence",
    "map",
    "settle",
    "race",
    "vote",
    "stream",
    "gather",
    "tasks",
    "group",
    "asyncio",
    "nested",
    "stage",
    "retry",
    "natural",
    "deadline",
]
Form: TypeAlias = Literal[
    "mutex",
    "semaphore",
    "actor",
    "mailbox",
    "channel",
    "pool",
    "cell",
    "lock of anyio",
    "append",
    "first",
    "losers",
]
Spread: TypeAlias = Literal["map", "settle", "gather", "tasks", "group", "asyncio"]

WORDS = ("ann", "bob", "carl")
OF_CONTROLS = frozenset(
    {
        "pay and change",
        "pay outside",
        "crash",
        "pay decided",
        "pay after failure",
        "pay with usage",
        "pay after deadline",
        "pay forgiving",
        "pay another way",
        "pay for code",
        "ask in vain",
    }
)
"""Calls that end the first life already, or differ in each one; only controls make them."""
EFFECTS = frozenset(
    {
        "pay",
        "pay blindly",
        "pay by method",
        "pay in thread",
        "pay with token",
        "tool",
        "pay and change",
        "pay outside",
        "pay decided",
        "pay after failure",
        "pay with usage",
        "pay after deadline",
        "pay forgiving",
        "pay another way",
    }
)
FOREIGN = frozenset({"group", "asyncio"})
"""What starts tasks that the library does not know."""
UNSUPPORTED_FORMS = frozenset({"cell", "lock of anyio", "append", "first", "losers"})
"""Orders that only the program knows: a later life may raise, before anything new happens."""


ADDED = 9_999
"""The number of a call that a change has added."""


class Value(Struct, frozen=True):
    """An argument: its kind, which `values` makes an object of, and a word."""

    kind: str
    word: str


class Call(Struct, frozen=True, tag="call"):
    """One call that is recorded."""

    kind: CallKind
    value: Value
    number: int = 0


class Branch(Struct, frozen=True, tag="branch"):
    """Several parts, one after the other or side by side, at most `room` at a time."""

    kind: BranchKind
    parts: "tuple[Node, ...]"
    room: int | None = None
    number: int = 0


class Shared(Struct, frozen=True, tag="shared"):
    """Parts side by side that reach something shared: who comes first decides what each of them pays."""

    form: Form
    spread: Spread
    parts: "tuple[Node, ...]"
    number: int = 0


Node: TypeAlias = Call | Branch | Shared


class Program(Struct, frozen=True):
    """A program.

    Args:
        root: Its parts.
        seed: Latencies come from it, other ones in each life.
        delays: Latencies in milliseconds of calls, as `life:number`.
    """

    root: Node
    seed: int = 0
    delays: dict[str, int] = {}


def dumped(program: Program) -> str:
    """The program as JSON."""
    return msgspec.json.encode(program).decode()


def loaded(text: str) -> Program:
    """The program of a JSON text."""
    return msgspec.json.decode(text, type=Program)


def parts_of(node: Node) -> "tuple[Node, ...]":
    """The parts of a node."""
    return () if isinstance(node, Call) else node.parts


def iterate(node: Node) -> Iterator[Node]:
    """All nodes of a program, the first one included."""
    yield node
    for part in parts_of(node):
        yield from iterate(part)


def numbered(node: Node) -> Node:
    """The same with a number for each node."""
    return _numbered(node, iter(range(1, 10_000)))


def _numbered(node: Node, numbers: Iterator[int]) -> Node:
    number = next(numbers)
    if isinstance(node, Call):
        return msgspec.structs.replace(node, number=number)
    return msgspec.structs.replace(
        node, number=number, parts=tuple(_numbered(part, numbers) for part in node.parts)
    )


def is_supported(node: Node, *, is_foreign: bool = False) -> bool:
    """Whether a later life has to come to the same end, and may not raise."""
    match node:
        case Call():
            return not (is_foreign and node.kind == "pay with token")
        case Shared():
            in_threads = sum(any(each.kind in IN_THREADS for each in calls_of(part)) for part in node.parts)
            is_bad = node.form in UNSUPPORTED_FORMS or in_threads > 1  # threads run side by side
            is_foreign = is_foreign or node.spread in FOREIGN
        case Branch():
            is_bad = is_foreign and node.kind in ("tasks", "nested")
            is_foreign = is_foreign or node.kind in FOREIGN
    return not is_bad and all(is_supported(part, is_foreign=is_foreign) for part in parts_of(node))


def calls_of(node: Node) -> Iterator[Call]:
    """All calls of a program."""
    if isinstance(node, Call):
        yield node
    else:
        for part in parts_of(node):
            yield from calls_of(part)


def is_only_by_hand(node: Node, numbers: Collection[int], *, is_foreign: bool = False) -> bool:
    """Whether calls are all of tasks that the library does not know, and make no effect."""
    if isinstance(node, Call):
        return node.number not in numbers or (is_foreign and not node.kind.startswith("pay"))
    spread = node.spread if isinstance(node, Shared) else node.kind
    is_foreign = is_foreign or spread in FOREIGN
    return all(is_only_by_hand(part, numbers, is_foreign=is_foreign) for part in parts_of(node))


def is_added_by_hand(node: Node, *, is_foreign: bool = False) -> bool:
    """Whether the call that a change has added is in a task that the library does not know."""
    if isinstance(node, Call):
        return is_foreign and node.number == ADDED
    spread = node.spread if isinstance(node, Shared) else node.kind
    return any(is_added_by_hand(part, is_foreign=is_foreign or spread in FOREIGN) for part in parts_of(node))


IN_THREADS = ("thread", "pay in thread")
"""The kinds of calls that worker threads make."""


class Wanted(Struct):
    """The effects that a program makes.

    Args:
        items: How often each may be made.
        is_exact: Whether they are all made, so that fewer are lost ones.
    """

    items: Counter[str]
    is_exact: bool


def _steps_of(node: Node, part: Node) -> Sequence[Node]:
    """What a form runs of a part: losers note each step of theirs."""
    is_taken_apart = isinstance(node, Shared) and node.form == "losers" and isinstance(part, Branch)
    return parts_of(part) if is_taken_apart else (part,)


def wanted(node: Node) -> Wanted:
    """The effects of a program, without what order decides: what stands before `#`."""
    from .values import make_value, truth_of

    if isinstance(node, Call):
        is_effect = node.kind in EFFECTS
        return Wanted(Counter([truth_of(make_value(node.value))] if is_effect else []), True)
    steps = [each for part in node.parts for each in _steps_of(node, part)]
    found = [wanted(step) for step in steps]
    if isinstance(node, Branch) and node.kind == "vote":
        found = found[:1] * 3
    if isinstance(node, Branch) and node.kind == "retry":
        found = [*found, found[0]]
    items = sum((each.items for each in found), Counter[str]())
    is_exact = all(each.is_exact for each in found)
    if isinstance(node, Branch):
        return Wanted(items, is_exact and node.kind not in ("race", "vote"))
    if node.form in ("append", "mailbox", "channel", "first", "losers"):
        items[f"arrivals {node.number}"] += 1
    else:
        items.update(f"seat {node.number}.{index}" for index in range(len(node.parts)))
    return Wanted(items, is_exact and node.form not in ("first", "losers"))


_CALLS = [kind for kind in get_args(CallKind) if kind not in OF_CONTROLS]


def values(kinds: list[str]) -> st.SearchStrategy[Value]:
    """Arguments: few words, so that many look alike."""
    return st.builds(Value, st.sampled_from(kinds), st.sampled_from(WORDS))


def generated_programs(kinds: list[str], *, max_calls: int = 8) -> st.SearchStrategy[Program]:
    """Programs with all forms.

    Args:
        kinds: The kinds of values.
        max_calls: The greatest number of calls.
    """
    calls: st.SearchStrategy[Node] = st.builds(Call, st.sampled_from(_CALLS), values(kinds))
    several_times = st.builds(
        Branch, st.sampled_from(["vote", "retry"]), st.lists(calls, min_size=1, max_size=2).map(tuple)
    )
    nodes = st.recursive(
        calls | several_times,
        lambda inner: (
            st.builds(
                Branch,
                st.sampled_from([kind for kind in get_args(BranchKind) if kind not in ("vote", "retry")]),
                st.lists(inner, min_size=1, max_size=3).map(tuple),
                st.sampled_from([None, 1, 2]),
            )
            | st.builds(
                Shared,
                st.sampled_from(get_args(Form)),
                st.sampled_from(get_args(Spread)),
                st.lists(inner, min_size=2, max_size=3).map(tuple),
            )
        ),
        max_leaves=max_calls,
    )
    branches = nodes.filter(lambda node: not isinstance(node, Call))
    return st.builds(Program, branches.map(numbered), st.integers(0, 999))
