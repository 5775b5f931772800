"""Hooks as a service: those of the caller's scope are called in the program, for events on workers.

They see what is local to the program, and keep their state there. On the worker each has a proxy, so that it
is called in its order, and its answer takes effect there.
"""

import logging
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import msgspec
from msgspec import Struct

from ..kernel.commit import ask_early, shown, value_of, with_changes
from ..kernel.environment import Environment
from ..parallel import is_async_callable
from ..policies.hooks.calls import Registration, answering_hooks, call_alone
from ..policies.hooks.policy import HookPolicy
from ..policies.hooks.registry import Hooks
from ..policies.hooks.rules import EVENT_RULES, HookFunction
from ..policies.people.request import ApprovalRequest
from ..types.unset import UNSET
from ..values.error_text import callable_name, describe_error
from .crossing_approvals import CrossedApproval, crossed_approval, rebuilt_approval
from .crossing_errors import decode_error, encode_error
from .errors import CrossingError
from .messages import encode
from .scope_pickling import dump_part, load_part
from .services import CallChannel, ProgramPart, SendOrder

TOPIC = "hooks"

_EVENT_TYPES = {each.__name__: each for each in EVENT_RULES}

_logger = logging.getLogger("nighthawk")


class _Hook(Struct, frozen=True, array_like=True):
    """A hook: its event, its name, whether it is async, and which `Hooks` object holds it."""

    event: str
    name: str
    is_async: bool
    holder: int


class _Setup(Struct, frozen=True):
    """The hooks, and the places of the objects that hold them: module and name, empty for none."""

    hooks: list[_Hook]
    places: list[tuple[str, str]]


class _Call(Struct, frozen=True):
    """A call of a hook: its number, and the event, pickled.

    Args:
        number: The number of the hook.
        event: The event, without what follows.
        error: The error of the event.
        request: The request for approval of the event.
        is_late: Whether the event has no return value yet.
    """

    number: int
    event: bytes
    error: bytes | None
    request: CrossedApproval | None
    is_late: bool


class _Answer(Struct, frozen=True):
    """The answer of a hook, pickled; None if it wants the return value."""

    body: bytes | None


_decode_call = msgspec.msgpack.Decoder(_Call).decode


def begin(
    environment: Environment | None, worker: str, attempt: int, send_order: SendOrder
) -> "_HooksPart | None":
    """Begin to call the hooks of a scope; see `services.BeginService`."""
    policy = None if environment is None else environment.policies.find(HookPolicy)
    if policy is None:
        return None
    # Those that are being called here are not called for what they cause.
    hooks = tuple(each for each in policy.hooks if each not in answering_hooks())
    return _HooksPart(hooks) if hooks else None


class _HooksPart(ProgramPart):
    """The part in the program.

    Args:
        holders: The active hooks.
    """

    def __init__(self, holders: tuple[Hooks, ...]) -> None:
        self._places = [_place_of(hooks) for hooks in holders]
        self._registrations: list[Registration] = []
        self._described: list[_Hook] = []
        for number, hooks in enumerate(holders):
            for event_type in EVENT_RULES:
                for function in hooks.functions_for(event_type):
                    self._registrations.append((hooks, function))
                    name, is_async = callable_name(function), is_async_callable(function)
                    self._described.append(_Hook(event_type.__name__, name, is_async, number))

    def setup(self) -> bytes:
        """Return which hooks there are."""
        return encode(_Setup(self._described, self._places))

    async def answer(self, body: bytes) -> bytes:
        """Call a hook, and return its answer."""
        call = _decode_call(body)
        registration, event = self._registrations[call.number], _event_of(call)
        answer = await ask_early(event, lambda: call_alone(registration, event))
        if answer is UNSET:
            return encode(_Answer(None))
        return encode(_Answer(dump_part(answer, f"the answer of hook {callable_name(registration[1])}")))

    def note(self, body: bytes) -> None:
        """Call a hook that only observes. Its failure ends nothing: the worker has gone on."""
        call = _decode_call(body)
        _, function = registration = self._registrations[call.number]
        event = _event_of(call)
        try:
            observing = call_alone(registration, event)
            observing.send(None)  # a `def` function: there is nothing to wait for
        except StopIteration:
            return
        except Exception as error:
            name, what = callable_name(function), type(event).__name__
            _logger.error("hook %s failed at %s, for a worker: %s", name, what, describe_error(error))
            return
        observing.close()
        _logger.error(
            "hook %s gave an awaitable, but is not async: it was not awaited", callable_name(function)
        )


def _place_of(hooks: Hooks) -> tuple[str, str]:
    """Return the module and the name of an object with hooks, if the module of one of its hooks has it."""
    functions = {each for several in hooks.registered().values() for each in several}
    for module in {str(getattr(each, "__module__", None)) for each in functions}:
        variables = vars(sys.modules[module]) if module in sys.modules else {}
        for name, value in list(variables.items()):
            if value is hooks:
                return module, name
    return "", ""


@contextmanager
def enter(
    channel: CallChannel, setup: bytes, environment: Environment | None
) -> Generator[Environment | None, None, None]:
    """Have a call on a worker call the program's hooks; see `services.EnterService`."""
    assert environment is not None, "hooks belong to scopes"
    given = msgspec.msgpack.decode(setup, type=_Setup)
    holders = [_ProgramHooks(*place) for place in given.places]
    for number, hook in enumerate(given.hooks):
        event_type = _EVENT_TYPES[hook.event]
        holders[hook.holder].on(event_type, _proxy(channel, number, hook))
    if holders:
        environment = replace(
            environment, policies=environment.policies.with_policy(HookPolicy(tuple(holders)))
        )
    yield environment


class _ProgramHooks(Hooks):
    """Hooks of the program. They count as the object of the worker's module that has the same name.

    A scope on the worker that adds that object adds nothing, as in the program.

    Args:
        module: The module that has the object; empty for none.
        name: Its name there.
    """

    __slots__ = ("_own",)

    def __init__(self, module: str, name: str) -> None:
        super().__init__()
        own: object = getattr(sys.modules.get(module), name, None) if module else None
        self._own = own if isinstance(own, Hooks) else None

    def __eq__(self, other: object) -> bool:
        return other is self or (other is not None and other is self._own)

    def __hash__(self) -> int:
        return object.__hash__(self if self._own is None else self._own)


def _proxy(channel: CallChannel, number: int, hook: _Hook) -> HookFunction[Any]:
    """Return the function that stands for a hook on a worker.

    A `def` hook that only observes may be called where nothing can be awaited; so it is only reported to.
    """
    rule = EVENT_RULES[_EVENT_TYPES[hook.event]]
    proxy: Callable[[Any], Any]
    if hook.is_async or rule.action is not None or rule.checked_value is not None:

        async def ask(event: Any) -> Any:
            body = await channel.ask(TOPIC, _call_of(number, event))
            answer = msgspec.msgpack.decode(body, type=_Answer)
            return event.return_value if answer.body is None else load_part(answer.body, "answer")

        proxy = ask
    else:

        def tell(event: Any) -> None:
            try:
                body = _call_of(number, event)
            except CrossingError as error:
                _logger.warning("hook %s in the program is not called: %s", hook.name, error)
                return
            channel.tell(TOPIC, body)

        proxy = tell
    proxy.__name__ = proxy.__qualname__ = hook.name
    return proxy


def _call_of(number: int, event: Any) -> bytes:
    name, is_late = type(event).__name__, False
    error: BaseException | None = getattr(event, "error", None)
    request: object = getattr(event, "request", None)
    if isinstance(error, BaseException):
        event = replace(event, error=None)
    if isinstance(request, ApprovalRequest):
        event = replace(event, request=cast("Any", None))
    if _is_late(event):
        event, is_late = with_changes(event, return_value=None), True
    call = _Call(
        number=number,
        event=dump_part(event, f"the event {name} for a hook of the program"),
        error=encode_error(error, "a worker") if isinstance(error, BaseException) else None,
        request=crossed_approval(request) if isinstance(request, ApprovalRequest) else None,
        is_late=is_late,
    )
    return encode(call)


def _is_late(event: object) -> bool:
    return "return_value" in getattr(type(event), "__slots__", ()) and value_of(event) is UNSET


def _event_of(call: _Call) -> Any:
    event = load_part(call.event, "event")
    if call.error is not None:
        event = replace(event, error=decode_error(call.error))
    if call.request is not None:
        event = replace(event, request=rebuilt_approval(call.request))
    return shown(event, UNSET) if call.is_late else event
