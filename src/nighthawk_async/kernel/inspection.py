"""Policies around model requests that are active in a context, in runs and outside of them.

The policies of a run end with it, and a nested run has its own. These ones hold for all requests of a `with`
statement: in threads, in nested runs, and where there is no run. Of several at one position, the innermost
one counts.

The one that is nearest to the model is a `SourcePolicy`: what it gives has the place of the model's own
response, for the journal, for charges and for traces.
"""

from collections.abc import Iterable

from ..ports import Model
from ..types.model import ModelRequest
from .environment import Environment
from .features import Feature
from .fold import Events, ModelCall, OpenRequest, OpenResponse
from .policy import Policy, Position


class SourcePolicy(Policy):
    """Gives responses in place of every model, or asks the model and observes: a recorder, a replay.

    Its `around_request` raises `InterceptionError` where there is none.
    """

    position = Position.MODEL

    @property
    def is_offline(self) -> bool:
        """Whether it never asks a model, so that no endpoint, key or embedded model is needed."""
        return False


_active = Feature[tuple[Policy, ...]](())
_everywhere: list[SourcePolicy] = []


def begin_policy(policy: Policy) -> None:
    """Activate a policy around the requests of the caller until `end_policy`; in many tasks, if need be."""
    _active.set((*_active.get(), policy))


def end_policy(policy: Policy) -> None:
    """End the innermost activation of a policy; without effect where it is not active."""
    active = _active.get()
    for index in reversed(range(len(active))):
        if active[index] is policy:
            _active.set((*active[:index], *active[index + 1 :]))
            return


class using_policy:  # noqa: N801  (a context manager that reads as a function at its call)
    """Activate a policy around the requests of the `with` statement."""

    __slots__ = ("_policy",)

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def __enter__(self) -> None:
        begin_policy(self._policy)

    def __exit__(self, *exc_details: object) -> None:
        end_policy(self._policy)


class using_source_everywhere:  # noqa: N801
    """Activate a source for the whole program, wherever the context has none of its own.

    For test fixtures: a test may run in a context that was made before its fixtures ran.
    """

    __slots__ = ("_policy",)

    def __init__(self, policy: SourcePolicy) -> None:
        self._policy = policy

    def __enter__(self) -> None:
        _everywhere.append(self._policy)

    def __exit__(self, *exc_details: object) -> None:
        _everywhere.remove(self._policy)


def find_policies() -> tuple[Policy, ...]:
    """Return the active ones but the source, one for each position."""
    active = _active.get()
    if not active:
        return ()
    return tuple({each.position: each for each in active if not isinstance(each, SourcePolicy)}.values())


def find_source() -> SourcePolicy | None:
    """Return the active source; None where models give the responses."""
    for policy in reversed(_active.get()):
        if isinstance(policy, SourcePolicy):
            return policy
    return _everywhere[-1] if _everywhere else None


def needs_endpoint() -> bool:
    """Whether requests reach their model, so that it needs its key or its weights."""
    source = find_source()
    return source is None or not source.is_offline


def in_order(policies: Iterable[Policy]) -> tuple[Policy, ...]:
    """Return policies in the order of their positions."""
    return tuple(sorted(policies, key=_position_of))


def _position_of(policy: Policy) -> int:
    return policy.position


def ask_source(
    environment: Environment | None,
    model: Model,
    request: ModelRequest,
    place: str | None,
    answer: OpenResponse | None = None,
) -> Events:
    """Return the response of the journal, of a policy, of the active source or of the model.

    Args:
        environment: The environment of the caller; None outside every run.
        model: The model to ask.
        request: The request.
        place: Its place in a run with a journal; None without one.
        answer: Opens a response that a policy gives in place of the model's; None for none.

    Raises:
        InterceptionError: The source has no answer.
        ConfigurationError: The request asks for what the model lacks.
        ModelError: The request failed.
    """

    def ask(asked: Model = model) -> Events:
        if answer is not None and asked is model:
            return answer()
        source = find_source()
        return asked.stream(request) if source is None else _response_of(source, ModelCall(asked, request))

    if environment is None or environment.journal is None or place is None:
        return ask()
    return environment.journal.respond(place, model.name, ask)


def _response_of(source: SourcePolicy, call: ModelCall) -> Events:
    def send(answer: OpenResponse | None) -> Events:
        return call.model.stream(call.request) if answer is None else answer()

    return source.around_request(call, OpenRequest((), call, send, 0))
