"""`RayLink`: the connection with a worker that is an actor of Ray."""

import re
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import anyio

from ..threads import call_in_thread
from .crossing import LARGE_BYTES, digest_of
from .link import KilledFromOutside
from .ray_cluster import outcome_of
from .ray_library import ray

_END_SECONDS = 5.0
"""The seconds within which an actor ends, and Ray notices it."""

_PAUSE_SECONDS = 0.005

_MOST_SHARED_BYTES = 512 * 1024 * 1024
_REASON = re.compile(r"The actor is dead because (?P<reason>.*?)(?: Some common causes|$)", re.DOTALL)
_EXIT_KIND = re.compile(r"\. Worker exit type: \w+ Worker exit detail: ")


class SharedMessages:
    """Large messages in the object store of Ray, each once for all workers of a placement.

    Those that were not sent for the longest time are removed when all together are too large.
    """

    def __init__(self) -> None:
        self._references: OrderedDict[bytes, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._putting = anyio.Lock()

    async def reference(self, message: bytes) -> Any:
        """Return a reference to a message; it is put into the store, unless it is there.

        Raises:
            ray.exceptions.RayError: The store does not take it.
        """
        digest = await call_in_thread(digest_of, message)
        async with self._putting:  # several workers may need it at the same time
            if digest not in self._references:
                self._references[digest] = (await call_in_thread(ray.put, message), len(message))
                self._bytes += len(message)
        self._references.move_to_end(digest)
        found, _ = self._references[digest]
        while self._bytes > _MOST_SHARED_BYTES and len(self._references) > 1:
            _, (_, size) = self._references.popitem(last=False)
            self._bytes -= size
        return found


class RayLink:
    """A worker that is an actor. Messages go to it by calls of its methods, and come from it by a long poll.

    Args:
        actor: The handle of the actor.
        shared: The large messages of the placement.
    """

    def __init__(self, actor: Any, shared: SharedMessages) -> None:
        self._actor = actor
        self._shared = shared
        self._received: deque[bytes] = deque()
        self._reason = ""

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send messages, in order.

        Raises:
            BrokenResourceError: The actor has ended.
        """
        try:
            for part in _parts(messages):
                if isinstance(part, bytes):
                    reference = await self._shared.reference(part)
                    await outcome_of(self._actor.take_large.remote(reference).future())
                else:
                    await outcome_of(self._actor.take.remote(part).future())
        except ray.exceptions.RayError as error:
            self._note_end(error)
            raise anyio.BrokenResourceError from error

    async def receive(self) -> bytes:
        """Wait for the next message.

        Raises:
            EndOfStream: The actor has ended.
        """
        while not self._received:
            try:
                messages: list[bytes] = await outcome_of(self._actor.give.remote().future())
            except ray.exceptions.RayError as error:
                self._note_end(error)
                raise anyio.EndOfStream from error
            if not messages:
                raise anyio.EndOfStream
            self._received.extend(messages)
        return self._received.popleft()

    def is_suspended(self) -> None:
        """None: the process of an actor may be on another machine."""

    def kill(self) -> None:
        """End the actor at once; `receive` raises soon."""
        # Not here: it asks the head of the cluster, and waits for the answer.
        threading.Thread(target=kill_actor, args=(self._actor,), daemon=True).start()

    async def close(self) -> str:
        """End the actor, wait until it has ended, and return how."""
        if not self._reason:  # it ends by itself, so that its functions of `atexit` are called
            self._actor.__ray_terminate__.remote()
            if await self._wait_ended():
                return self._reason
        await call_in_thread(kill_actor, self._actor)
        await self._wait_ended()
        return self._reason or "it has not ended"

    async def _wait_ended(self) -> bool:
        """Wait for a short time until the actor has ended, and return whether it has."""
        with anyio.move_on_after(_END_SECONDS):
            try:
                while True:
                    await outcome_of(self._actor.describe.remote().future())
                    await anyio.sleep(_PAUSE_SECONDS)
            except ray.exceptions.RayError as error:
                self._note_end(error)
                return True
        return False

    def _note_end(self, error: Exception) -> None:
        reason = reason_of(error)
        self._reason = self._reason or (KilledFromOutside(reason) if was_killed(error) else reason)


def kill_actor(actor: Any) -> None:
    """End an actor at once. It blocks for the time of a question to the head of the cluster."""
    with suppress(Exception):  # the connection was closed meanwhile
        ray.kill(actor, no_restart=True)


def was_killed(error: Exception) -> bool:
    """Whether an actor has ended without a word: nothing in it has raised an error or asked it to end.

    Args:
        error: The error of a call of it.
    """
    text = str(error)
    return any(kind in text for kind in ("Worker exit type: SYSTEM_ERROR", "Worker exit type: NODE_"))


def reason_of(error: Exception) -> str:
    """Return in one line how an actor has ended.

    Args:
        error: The error of a call of it.
    """
    text = str(error).strip()
    found = _REASON.search(text)
    lines = (text if found is None else found["reason"]).strip().splitlines()
    reason = lines[0] if found is not None else lines[-1] if lines else type(error).__name__
    return _EXIT_KIND.sub(": ", reason).rstrip(".")


def _parts(messages: Sequence[bytes]) -> Iterator[list[bytes] | bytes]:
    """Divide messages into lists of small ones and single large ones, in order."""
    small: list[bytes] = []
    for each in messages:
        if len(each) < LARGE_BYTES:
            small.append(each)
            continue
        if small:
            yield small
            small = []
        yield each
    if small:
        yield small
