"""The active egress, as a policy. It checks the media that a request gives by their addresses."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar
from urllib.parse import urlsplit

from ...errors import EgressDeniedError, NighthawkError
from ...kernel.environment import find_environment, needs_endpoint
from ...kernel.fold import Events, ModelCall, OpenRequest
from ...kernel.policy import InnerScope, Policies, Policy, Position
from ...types.messages import AssistantMessage, FileUrl, Message, UserMessage
from ...types.model import ModelEvent, ModelRequest
from .egress import Egress, addresses_of

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ActiveEgress:
    """All of the active ones, which decide together.

    Args:
        sets: Those of parent runs and scopes first.
    """

    sets: tuple[Egress, ...]

    def check(self, host: str, port: int, addresses: Sequence[str] | None = None) -> None:
        """Refuse a host that may not be reached; see `Egress.check`."""
        for each in self.sets:
            each.check(host, port, addresses)

    async def addresses_of(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host, all of which may be reached.

        Raises:
            EgressDeniedError: It may not be reached.
            OSError: The name cannot be resolved.
        """
        self.check(host, port)
        addresses = await addresses_of(host, port)
        self.check(host, port, addresses)
        return addresses

    async def check_url(self, url: str) -> None:
        """Refuse a URL that may not be reached.

        Raises:
            EgressDeniedError: It may not, or it names no host.
            OSError: The name cannot be resolved.
        """
        host, port = host_of(url)
        await self.addresses_of(host, port)


def host_of(url: str) -> tuple[str, int]:
    """Return the host and the port of a URL.

    Raises:
        EgressDeniedError: It has none, so nobody can say where it leads.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        host, port = None, 0
    if not host:
        raise EgressDeniedError(f"{url[:200]!r} names no host, so the egress of this run or scope denies it")
    return host, port


@dataclass(frozen=True, slots=True, eq=False)
class EgressPolicy(Policy):
    """Holds the hosts that may be reached, and checks media before a request with them is sent.

    Args:
        active: All of the active ones.
    """

    active: ActiveEgress

    position: ClassVar[Position] = Position.EGRESS
    holds_in_inner_runs: ClassVar[bool] = True

    def around_request(self, call: ModelCall, open_request: OpenRequest) -> Events:
        """Check the addresses of media, which the provider gets by itself."""
        urls = list(dict.fromkeys(each.url for each in _urls_in(call.request)))
        return _CheckedRequest(self.active, urls, open_request) if urls else open_request()


class _CheckedRequest(AbstractAsyncContextManager[AsyncIterator[ModelEvent]]):
    """A request that is sent when the addresses of its media are checked."""

    def __init__(self, active: ActiveEgress, urls: Sequence[str], open_request: OpenRequest) -> None:
        self._active = active
        self._urls = urls
        self._open_request = open_request

    async def __aenter__(self) -> AsyncIterator[ModelEvent]:
        is_sent = needs_endpoint()
        for url in self._urls:
            await self._check(url, is_sent=is_sent)
        self._opened = self._open_request()
        return await self._opened.__aenter__()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._opened.__aexit__(exc_type, exc, traceback)

    async def _check(self, url: str, *, is_sent: bool) -> None:
        host, port = host_of(url)
        self._active.check(host, port)
        if not is_sent or urlsplit(url).scheme not in _PORTS:
            return  # a recorded answer, or the storage of a provider
        try:
            await self._active.addresses_of(host, port)
        except OSError as error:
            raise EgressDeniedError(
                f"{host} cannot be resolved, so the egress of this run or scope cannot allow it: {error}"
            ) from None


def _urls_in(request: ModelRequest) -> Iterator[FileUrl]:
    for message in request.messages:
        yield from (each for each in _contents(message) if isinstance(each, FileUrl))


def _contents(message: Message) -> Iterator[object]:
    if isinstance(message, UserMessage):
        yield from message.content
    elif isinstance(message, AssistantMessage):
        yield from message.media
    else:
        for result in message.results:
            yield from result.content


def find_egress() -> ActiveEgress | None:
    """Return what may be reached around the caller; None where there is no limit, and outside every run."""
    environment = find_environment()
    policy = None if environment is None else environment.policies.find(EgressPolicy)
    return None if policy is None else policy.active


def with_egress(policies: Policies, egress: object, inner: InnerScope) -> Policies:
    """Add the `egress` argument of `run` and `scope` to the policies.

    Args:
        policies: The policies before; their egress stays active.
        egress: The hosts that may be reached; None for no change.
        inner: The run or scope.

    Raises:
        NighthawkError: The argument is none.
    """
    if egress is None:
        return policies
    if not isinstance(egress, Egress):
        raise NighthawkError(f"egress must be one that nighthawk_async.egress makes, not {egress!r}")
    parent = policies.find(EgressPolicy)
    before = () if parent is None else parent.active.sets
    return policies.with_policy(EgressPolicy(ActiveEgress((*before, egress))))
