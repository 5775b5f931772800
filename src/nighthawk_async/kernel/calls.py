"""Calls of natural functions: their scope, place, node, inputs of their steps, and tracebacks.

What the author names in angle brackets counts, the values in the text of an f-string, and the arguments of
the function. Other local variables, the text itself, models, tools and skills do not count: they may be
changed while a run is in progress.

A place is made of frames, each with a number that counts equal frames in the enclosing place:

    run/handle()[0]/map[0]/item[2]/remind()[0]/remind#1[0]/turn[1]

- `name()`: a call of a natural function, or of a function that is an effect;
- `name#1`: a block of it, and `attempt[2]` where a policy tries again;
- `turn`: a request to a model; `call`: a call in a response, by its position there;
- what `parallel` names: combinators and their items, tasks.

A task that was started by hand takes its frames by their arguments: `remind~5f1d0c2a9b3e7f60()[0]`. Without a
journal there are no places, and all of this costs one look at the environment.

An error that leaves a natural function, a step or a run keeps the frames of the program, in order: natural
functions, binding functions, tools. Of the frames of the library it keeps the last one, and what that called,
when no code of the program was called there: the error is the library's own.

Debugging is the level `DEBUG` of the logger `nighthawk` (`NIGHTHAWK_LOG=debug`), or the development mode of
Python.
"""

import logging
import re
import sys
import types
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from contextvars import Token
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, TypeVar, cast

from ..journal_ports import RunJournal, StepInputs
from ..lazy_exports import LazyModule
from ..natural.blocks import NaturalBlock, RenderedText
from ..natural.program import root_name
from ..natural.transform import parameter_names
from ..observation import NodeWriter, find_node_writer, observed, using_node_writer
from ..parallel.decided_limits import note_end
from ..parallel.outcomes import state_after
from ..parallel.task_current import find_positions, using_positions
from ..parallel.task_node import Positions
from ..ports import Model
from ..prompt.objects import readable_fields
from ..types.model import ModelRequest
from ..types.unset import UNSET, unset
from ..values.snapshots import held_attributes
from ..values.validation import Declared, Origin
from .assignment import ArgumentCheck
from .context import StepContext
from .declared_types import ReturnCheck, promised_type, static_attribute
from .environment import ENVIRONMENT, OPEN_RUNS, Environment, OpenRun, find_journal
from .policy import Policy

if TYPE_CHECKING:
    from ..values import canonical_containers, canonical_writing, stable_digest
    from .around_calls import AroundCall, MakeAround
else:  # runs without a journal digest nothing
    canonical_containers = LazyModule("nighthawk_async.values.canonical_containers")
    canonical_writing = LazyModule("nighthawk_async.values.canonical_writing")
    stable_digest = LazyModule("nighthawk_async.values.stable_digest")

_CHOSEN = 0
"""The number of the blocks that are chosen at run time."""


def step_inputs(
    block: NaturalBlock,
    values: Mapping[str, object],
    python_locals: Mapping[str, object],
    literal: str | None,
    *,
    references: Iterable[str],
) -> StepInputs:
    """Return the inputs of a step.

    Args:
        block: The block.
        values: The variables that it can read.
        python_locals: The `locals()` at the block; of a block that is chosen at run time, what it is given.
        literal: The rendered text of an f-string block; None for a plain literal.
        references: The names and paths in angle brackets.
    """
    written = set(block.write_names).difference(block.read_names)
    paths = [path for path in references if root_name(path) in values and path not in written]
    whole = {path for path in paths if "." not in path}
    named = {path: _value_at(path, values) for path in paths if path in whole or root_name(path) not in whole}
    roots = set(map(root_name, named))
    arguments = python_locals if block.number == _CHOSEN else block.parameters
    others = {name: python_locals[name] for name in arguments if name in python_locals}
    others |= {name: values[name] for name in block.write_names if name in values}
    return StepInputs(
        named=named,
        read_names=tuple(name for name in block.read_names if name in named),
        unnamed={name: value for name, value in others.items() if name not in roots},
        text=_text_of(block, literal),
    )


def inputs_of(
    context: StepContext, block: NaturalBlock, python_locals: Mapping[str, object], literal: str | None
) -> StepInputs:
    """Return the inputs of a step that is prepared; see `step_inputs`."""
    values = {**context.referenced_globals, **context.initial_values, **context.step_locals}
    return step_inputs(block, values, python_locals, literal, references=context.references)


def unnamed_digests(values: Mapping[str, object]) -> dict[str, str]:
    """The digests of values that nobody names; see `coarse_digest`."""
    coarse_digest = stable_digest.coarse_digest
    return {name: coarse_digest(value) for name, value in values.items()}


def _text_of(block: NaturalBlock, literal: str | None) -> dict[str, object]:
    """The values in the text of a block, by the interpolations as written."""
    if block.number == _CHOSEN and block.program is not None:
        return {"": (_without_addresses(block.program.text), block.program.denied_kinds)}
    if literal is None:
        return {}
    if not isinstance(literal, RenderedText):
        return {"": _without_addresses(literal)}
    texts: dict[str, object] = {}
    for written, value in zip(block.interpolations, literal.interpolated, strict=True):
        name = written if written not in texts else f"{written} #{len(texts) + 1}"
        texts[name] = _without_addresses(value)
    return texts


_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+(?=[>, )]|$)")


def _without_addresses(text: str) -> str:
    """A text without the addresses in memory that `repr` writes: each life has others."""
    if not _ADDRESS.search(text):
        return text
    return canonical_containers.AddressedText(_ADDRESS.sub(" at 0x", text))


def _value_at(path: str, values: Mapping[str, object]) -> object:
    """The value at a dotted path, as the prompt reads it; the last object on the way where it sees none."""
    root, *segments = path.split(".")
    value = values[root]
    for segment in segments:
        found = _field(value, segment)
        if found is None:
            break
        (value,) = found
    return value


def _field(value: object, name: str) -> tuple[object] | None:
    """A field of an object, alone in a tuple; None where reading it would run code of the user's."""
    if isinstance(value, types.ModuleType):
        content = vars(value)
        return (content[name],) if name in content else None
    if issubclass(type(value), type):
        found = canonical_writing.class_attribute(cast("type", value), name)
        return (found,) if type(found) in canonical_writing.LEAVES and found is not None else None
    fields = readable_fields(value)
    return (fields[name],) if name in fields else None


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
    return stable_digest.VERSION if journal is None else journal.identity_version


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
            positions = find_positions().take_below(f"{self._name}()", self._arguments())
            self._place = positions.path
            self._positions = using_positions(positions, is_own=True)
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
            if isinstance(exc, Exception) and self._checks_end:
                self._journal.failed(self._place, exc)
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
    positions = find_positions().take_below("call")
    with using_positions(positions, is_own=True):
        finish = begin()

    async def finish_in_place() -> Result:
        with using_positions(positions):
            return await finish()

    return finish_in_place


_PACKAGE = __name__.partition(".")[0]
_CARRIERS = frozenset({"anyio", "asyncio", "concurrent", "contextlib", "outcome", "threading", "trio"})
"""Packages through which the library calls its own code, and the program's."""

_FOREIGN = sys.stdlib_module_names | _CARRIERS | {"h11", "httpx", "msgspec", "pydantic", "pydantic_settings"}
"""Packages whose errors may come from a mistake of the library, so that its last frame is kept."""

_logger = logging.getLogger("nighthawk")

_modules_seen = 0
"""How many modules there were when frames were hidden last: thousands, and a step may fail often."""


def fold_frames(error: BaseException | None) -> None:
    """Drop the frames of the library from an error that reaches the program, except when debugging.

    The errors in its groups and those that it was raised from are included. New traceback objects are made:
    the old ones, which others may hold, are not changed. Cancellations keep their frames, because nobody
    sees them. In pytest all errors do, which has its own way: see `hide_frames_from_pytest`.

    It is called in an `__exit__`, or in an `except` clause that ends in a bare `raise`: neither adds the
    frame that it runs in again.

    Args:
        error: The error; None for none.
    """
    if error is None or not _is_shown(error) or "_pytest" in sys.modules or _is_debugging():
        return
    waiting, seen = [error], {id(error)}
    while waiting:
        each = waiting.pop()
        folded = _folded(each.__traceback__)
        if folded is not each.__traceback__:
            each.__traceback__ = folded
        for linked in _linked(each):
            if id(linked) not in seen:
                seen.add(id(linked))
                waiting.append(linked)


class folding_frames:  # noqa: N801 - used like a function
    """Context manager that drops the frames of the library from errors that leave it; see `fold_frames`."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        fold_frames(exc)


def hide_frames_from_pytest() -> None:
    """Hide the frames of the library in pytest's tracebacks, except when debugging.

    Called when a step has failed, because all modules in its traceback are loaded then. pytest's
    `--full-trace` still shows them.
    """
    global _modules_seen
    if "_pytest" not in sys.modules or len(sys.modules) == _modules_seen or _is_debugging():
        return
    _modules_seen = len(sys.modules)
    for name, module in tuple(sys.modules.items()):
        if name.partition(".")[0] == _PACKAGE:
            vars(module).setdefault("__tracebackhide__", True)


def _is_debugging() -> bool:
    return sys.flags.dev_mode or _logger.isEnabledFor(logging.DEBUG)


def _is_shown(error: BaseException) -> bool:
    return isinstance(error, Exception | BaseExceptionGroup | KeyboardInterrupt)


def _linked(error: BaseException) -> list[BaseException]:
    """The errors that are printed with an error."""
    linked = [each for each in (error.__cause__, error.__context__) if each is not None]
    if isinstance(error, BaseExceptionGroup):
        linked += cast("BaseExceptionGroup[BaseException]", error).exceptions
    return linked


def _folded(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of the library; the same object if it has none to drop."""
    entries: list[TracebackType] = []
    entry = traceback
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    roots = [_root_module(each) for each in entries]
    if _PACKAGE not in roots:
        return traceback
    end = last = len(roots) - 1 - roots[::-1].index(_PACKAGE)
    if not _FOREIGN.issuperset(roots[last + 1 :]):  # the library had called the program
        end = len(entries)
    kept: list[TracebackType] = []
    is_inside = False
    for each, root in zip(entries[:end], roots, strict=False):
        is_inside = root == _PACKAGE or (is_inside and root in _CARRIERS)
        if not is_inside:
            kept.append(each)
    folded = entries[last] if end == last else None
    if len(kept) == end:
        return traceback
    for each in reversed(kept):
        folded = TracebackType(folded, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return folded


def _root_module(entry: TracebackType) -> str:
    """Return the package that the code of a frame belongs to; empty for code that a model wrote."""
    return str(entry.tb_frame.f_globals.get("__name__", "")).partition(".")[0]


_OWNERS = ("self", "cls")
"""Parameters that callers of a method do not pass."""


class CallEntry:
    """Makes the scopes of the calls of one function; see `natural.transform.CallEntry`.

    Args:
        function: The function.
        is_generator: Whether it is a generator or an async generator. Their calls are no scopes for tools: a
            scope would stay open while the generator is suspended.
        return_check: Validates the returned value; None for no check.
        argument_check: Validates the arguments of calls by models.

    Attributes:
        make_around: Makes the way of a call through the policies around it; set once the function is there.
    """

    __slots__ = (
        "_is_generator",
        "_parameters",
        "_return_check",
        "_unobserved_generator",
        "argument_check",
        "make_around",
        "name",
        "source",
    )

    def __init__(
        self,
        function: FunctionType,
        *,
        is_generator: bool,
        return_check: ReturnCheck | None,
        argument_check: ArgumentCheck,
    ) -> None:
        self.argument_check = argument_check
        self.make_around: MakeAround | None = None
        code = function.__code__
        self._parameters = parameter_names(code)
        self._is_generator = is_generator
        self._return_check = return_check
        self._unobserved_generator = GeneratorScope(None, return_check)
        self.name = function.__qualname__
        self.source = f"{function.__module__}:{code.co_firstlineno}"

    @property
    def return_type(self) -> object:
        """The type of what the function returns; UNSET if it returns anything."""
        annotation = UNSET if self._return_check is None else self._return_check.annotation
        return UNSET if self._is_generator or annotation is object else annotation

    @property
    def is_watched(self) -> bool:
        """Whether observers, a journal or policies want the arguments."""
        environment = ENVIRONMENT.get()
        if environment is None and OPEN_RUNS.everywhere is not None:
            return True  # what is called in that run may be watched there
        has_journal = environment is not None and environment.journal is not None
        return has_journal or find_node_writer() is not None or bool(_policies_around(environment))

    def __call__(
        self, arguments: Mapping[str, object] | None
    ) -> "_CallScope | GeneratorScope | _CallElsewhere":
        """Make the scope of one call.

        Args:
            arguments: The local variables at the beginning of the function; None if nobody wants them.
        """
        if self._is_generator:
            return self._unobserved_generator if arguments is None else self._observed_generator(arguments)
        check = self._return_check
        if arguments is None:
            return _CallScope(check)
        elsewhere = OPEN_RUNS.find_elsewhere()
        if elsewhere is None:
            return _ObservedCall(self, arguments, check)
        return _CallElsewhere(elsewhere, lambda: _ObservedCall(self, arguments, check))

    def inputs(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments of a call, by name.

        Args:
            arguments: The local variables at the beginning of the function.
        """
        return {name: each for name, each in self._given(arguments).items() if name not in _OWNERS}

    def place_inputs(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments that identify a call in a task that was started by hand: also the object of a method.

        Args:
            arguments: The local variables at the beginning of the function.
        """
        if identity_version() == 1:
            return self.inputs(arguments)
        given = self._given(arguments)
        return {name: placed_owner(each) if name in _OWNERS else each for name, each in given.items()}

    def around(self, scope: "_ObservedCall", arguments: Mapping[str, object]) -> "AroundCall | None":
        """The way of a call through the policies around it; None for none.

        Args:
            scope: The scope of the call.
            arguments: The local variables at the beginning of the function.
        """
        policies = _policies_around(ENVIRONMENT.get())
        if not policies:
            return None
        assert self.make_around is not None  # the function is running
        return self.make_around(policies, scope, self._given(arguments))

    def _given(self, arguments: Mapping[str, object]) -> dict[str, object]:
        return {name: arguments[name] for name in self._parameters if name in arguments}

    def _observed_generator(self, arguments: Mapping[str, object]) -> "GeneratorScope":
        parent = find_node_writer()
        if parent is None:  # other threads may stop observing at any time
            return self._unobserved_generator
        inputs = self.inputs(arguments)
        node = parent.begin_child("function", self.name, source=self.source, inputs=inputs)
        return GeneratorScope(node, self._return_check)


def _policies_around(environment: Environment | None) -> Sequence[Policy]:
    """The policies that are around calls of functions."""
    return () if environment is None else environment.policies.overriding["around_function"]


class _Returning:
    """Validates the value that a call returns.

    Args:
        return_check: The check; None for none.
    """

    __slots__ = ("_return_check",)

    around: "AroundCall | None" = None

    def __init__(self, return_check: ReturnCheck | None) -> None:
        self._return_check = return_check

    def returned(
        self, value: object, is_declared: bool = False, owner: object = None, attribute: str = ""
    ) -> object:
        """Return the validated value of a `return` statement; see `natural.transform.CallScope`.

        Raises:
            UnboundLocalError: The value is `nighthawk_async.unset`: no block has set the variable.
        """
        if value is unset:
            raise UnboundLocalError(
                "the function returns nighthawk_async.unset: no block has set it (it belongs above the block)"
            )
        check = self._return_check
        if check is None:
            return self.concluded(value)
        origin: Origin = "declared" if is_declared else "new"
        if owner is not None:
            function = static_attribute(owner, attribute) if attribute else owner
            origin = Declared(promised_type(function), is_converted=True).origin(check.annotation, value)
        return self.concluded(check.returned(value, origin))

    def fell_off(self) -> object:
        """Return the validated None of a function that reaches its end."""
        check = self._return_check
        return None if check is None else self.concluded(check.fell_off())

    def concluded(self, value: Result) -> Result:
        """Record the returned value, which is validated already, and return it."""
        return value


class _CallScope(_Returning):
    """The scope of one call, for tools that the function's own code registers."""

    __slots__ = ("_token",)

    def __init__(self, return_check: ReturnCheck | None) -> None:
        super().__init__(return_check)
        self._token: Token[Environment | None] | None = None

    def __enter__(self) -> "_CallScope":
        environment = ENVIRONMENT.get()
        if environment is not None:
            self._token = ENVIRONMENT.set(environment.of_call())
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        self._leave_scope()
        fold_frames(exc)

    def _leave_scope(self) -> None:
        if self._token is not None:
            ENVIRONMENT.reset(self._token)


class _ObservedCall(_CallScope):
    """The scope of a call that is reported to observers.

    Args:
        entry: The entry of the call.
        arguments: Its arguments, among other variables.
        return_check: Validates the returned value; None for no check.
    """

    __slots__ = ("_node", "_observed", "_outputs", "_place", "around")

    def __init__(
        self, entry: CallEntry, arguments: Mapping[str, object], return_check: ReturnCheck | None
    ) -> None:
        super().__init__(return_check)
        self._outputs: Mapping[str, object] | None = None
        self.around = entry.around(self, arguments)
        name, source = entry.name, entry.source
        self._observed = observed("function", name, source=source, inputs=lambda: entry.inputs(arguments))
        self._place = using_function_place(name.rpartition(".")[2], lambda: entry.place_inputs(arguments))

    def __enter__(self) -> "_ObservedCall":
        self._node = self._observed.__enter__()
        super().__enter__()
        self._place.__enter__()
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        try:
            self._place.__exit__(exc_type, exc, traceback)
        finally:
            self._leave_scope()
            self.around = None  # it refers to this object
            _report_end(self._node, self._outputs, exc)
            self._observed.__exit__(exc_type, exc, traceback)
            fold_frames(exc)  # at last: a context manager restores the traceback that it was given

    def concluded(self, value: Result) -> Result:
        self._outputs = {"return": value}
        return value


class _CallElsewhere:
    """The scope of a call without a run of its own, in the run that is everywhere.

    Args:
        run: The run.
        make: Makes the scope of the call, in the run.
    """

    __slots__ = ("_active", "_make", "_scope")

    def __init__(self, run: OpenRun, make: Callable[[], _ObservedCall]) -> None:
        self._active = run.active()
        self._make = make

    def __enter__(self) -> _ObservedCall:
        with ExitStack() as stack:
            stack.enter_context(self._active)
            self._scope = self._make()
            self._scope.__enter__()
            stack.pop_all()
        return self._scope

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._scope.__exit__(exc_type, exc, traceback)
        finally:
            self._active.__exit__(exc_type, exc, traceback)


class InnerCall(_Returning):
    """The body of one call that policies are around: both its entry and its scope."""

    __slots__ = ()

    is_watched: bool = False

    def __call__(self, arguments: Mapping[str, object] | None) -> "InnerCall":
        """Return it: there is one for each call."""
        return self

    def __enter__(self) -> "InnerCall":
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        fold_frames(exc)


class GeneratorScope(_Returning):
    """One generator, from its first value to its end.

    Its caller runs between its values, so nothing may stay active then: its node is active only during its
    blocks.

    Args:
        node: Its node; None if nobody observes.
        return_check: Validates the returned value; None for no check.
    """

    __slots__ = ("_node", "_outputs")

    def __init__(self, node: NodeWriter | None, return_check: ReturnCheck | None) -> None:
        super().__init__(return_check)
        self._node = node
        self._outputs: Mapping[str, object] | None = None

    def __enter__(self) -> "GeneratorScope":
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        has_been_closed = isinstance(exc, GeneratorExit)  # the caller wants no more values
        _report_end(self._node, self._outputs, None if has_been_closed else exc)
        fold_frames(exc)

    def concluded(self, value: Result) -> Result:
        """Record the value that it is about to return, and return it."""
        if self._node is not None:
            self._outputs = {"return": value}
        return value

    def active(self) -> AbstractContextManager[object]:
        """Make its node the parent of what happens in the `with` statement."""
        return nullcontext() if self._node is None else using_node_writer(self._node)


def _report_end(
    node: NodeWriter | None, outputs: Mapping[str, object] | None, leaving: BaseException | None
) -> None:
    if node is not None:
        node.end(state_after(leaving), outputs=None if leaving is not None else outputs, error=leaving)
