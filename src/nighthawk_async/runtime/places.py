"""Places: paths of what happens in a run with a journal, the same in every life of the run.

A place is made of frames, each with a number that counts equal frames in the enclosing place:

    run/handle()[0]/map[0]/item[2]/remind()[0]/remind#1[0]/turn[1]

- `name()`: a call of a natural function, or of a function that is an effect;
- `name#1`: a block of it, and `attempt[2]` where a policy tries again;
- `turn`: a request to a model; `call`: a call in a response, by its position there;
- what `parallel` names: combinators and their items, tasks.

A task that was started by hand takes its frames by their arguments: `remind~5f1d0c2a9b3e7f60()[0]`. Without a
journal there are no places, and all of this costs one look at the environment.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from ..journal_ports import RunJournal
from ..natural.blocks import NaturalBlock
from ..parallel.decided_limits import note_end
from ..parallel.task_current import find_positions, using_positions
from ..parallel.task_node import Positions
from ..ports import Model
from ..types.model import ModelRequest
from .environment import find_journal
from .mutable_state import held_attributes
from .stable_digest import VERSION
from .step_inputs import step_inputs, unnamed_digests

Result = TypeVar("Result")


def take_place(frame: str, arguments: object = None) -> str:
    """Take the next place of a frame in the current place.

    Args:
        frame: The frame.
        arguments: The arguments that identify it in tasks that were started by hand.
    """
    return find_positions().take(frame, arguments)


def below_place(place: str) -> using_positions:
    """Let the `with` statement take its places below another one."""
    return using_positions(Positions(place), is_own=True)


def identity_version() -> int:
    """The version of the digests in the places of the active run; the latest one without a journal."""
    journal = find_journal()
    return VERSION if journal is None else journal.identity_version


def placed_owner(owner: object) -> object:
    """The object of a method in the arguments of a place; its class, if it has no state of its own."""
    return owner if held_attributes(owner) != {} else type(owner)


def new_arguments(arguments: object) -> object:
    """The arguments that identify what did not count by them in places of version 1."""
    return None if identity_version() == 1 else arguments


def take_step_place(block: NaturalBlock, python_locals: Mapping[str, object], literal: str | None) -> str:
    """Take the place of a step.

    Args:
        block: The block.
        python_locals: The `locals()` at the block.
        literal: The rendered text of an f-string block; None for a plain literal.
    """
    name = block.function_name.rpartition(".")[2]
    frame = f"{name}#{block.number}"
    positions = find_positions()
    if positions.is_owned:
        return positions.take_owned(frame)
    if identity_version() == 1:
        read = {name: python_locals[name] for name in block.read_names if name in python_locals}
        return take_place(frame, read)
    inputs = step_inputs(block, python_locals, python_locals, literal, references=block.references)
    return take_place(frame, (inputs.named, inputs.text, unnamed_digests(inputs.unnamed)))


class using_function_place:  # noqa: N801  (a context manager that reads as a statement)
    """Give a call a place of its own during the `with` statement; nothing without a journal.

    A call that ends regularly has left nothing behind that was recorded in it.

    Args:
        name: The name of the function.
        arguments: Returns its arguments.
        checks_end: Whether the check at its end is made.
    """

    __slots__ = ("_arguments", "_checks_end", "_journal", "_name", "_place", "_positions")

    def __init__(self, name: str, arguments: Callable[[], object], *, checks_end: bool = True) -> None:
        self._name = name
        self._checks_end = checks_end
        self._arguments = arguments
        self._place = ""
        self._journal: RunJournal | None = None
        self._positions: using_positions | None = None

    def __enter__(self) -> str:
        self._journal = find_journal()
        if self._journal is not None:
            self._place = take_place(f"{self._name}()", self._arguments())
            self._positions = below_place(self._place)
            self._positions.__enter__()
            self._journal.enter(self._place)
        return self._place

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        if self._positions is not None:
            self._positions.__exit__()
        if self._journal is None:
            return
        self._journal.exit(self._place)
        if exc is None or isinstance(exc, Exception):
            note_end()
        elif not isinstance(exc, KeyboardInterrupt | SystemExit | GeneratorExit):
            self._journal.note_cancelled(self._place)
        if exc is not None:
            self._journal.raised(self._place)
        elif self._checks_end:
            self._journal.leave(self._place)


def take_turn_place(model: Model, request: ModelRequest) -> str:
    """Take the place of a request to a model.

    Args:
        model: The model.
        request: The request.
    """
    return take_place("turn", (model.name, request.messages))


def skips_waits() -> bool:
    """Whether an earlier life came further in the place of the caller, so that waits there are skipped."""
    journal = find_journal()
    if journal is None:
        return False
    positions = find_positions()
    return positions.is_owned and journal.was_passed(positions.path)


def current_place() -> str:
    """The place that the caller is in."""
    return find_positions().path


def in_call_place(begin: Callable[[], Callable[[], Awaitable[Result]]]) -> Callable[[], Awaitable[Result]]:
    """Begin a call of a response in a place of its own, and finish it there.

    Args:
        begin: Begins the call, and returns what waits for its result.
    """
    positions = Positions(take_place("call"))
    with using_positions(positions, is_own=True):
        finish = begin()

    async def finish_in_place() -> Result:
        with using_positions(positions):
            return await finish()

    return finish_in_place
