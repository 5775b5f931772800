"""The handle of an actor: the only way to it.

A method is passed as a function, `reviewer.ask(Reviewer.review, "text")`, because this is the one form whose
arguments and result a type checker can check: Python cannot say "the same methods, but asked".
"""

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from .actor_core import ActorCore, ActorStatistics, ActorStatus
from .actor_messages import ActorMessage, Ask

__all__ = ["ActorHandle"]

Actor_co = TypeVar("Actor_co", covariant=True)
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")


class ActorHandle(Generic[Actor_co]):
    """An actor, for those who talk to it. `open_actor` and `Supervisor.start_actor` give it.

    A message is a function and its arguments: a method of the actor's class, as overridden in the class of
    the actor at hand, or any other function that takes the actor first. It is called in the actor's own task,
    one message at a time, in the order of sending. A function that is not async is called in a worker thread,
    because it may block. It cannot be cancelled there: whatever cancels the actor waits until it returns, and
    the asker gets the reply.

    The handle of a supervised actor stays the same when the actor is restarted.
    """

    __slots__ = ("_core",)

    def __init__(self, core: ActorCore) -> None:
        self._core = core

    def __repr__(self) -> str:
        return f"<actor {self.name!r}, {self.status}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and self._core is cast("ActorHandle[Any]", other)._core

    def __hash__(self) -> int:
        return hash(self._core)

    @property
    def name(self) -> str:
        """The name of the actor."""
        return self._core.name

    @property
    def status(self) -> ActorStatus:
        """`running`, `waiting` to be started or restarted, or `ended` for good."""
        return self._core.status

    @overload
    async def ask(
        self,
        function: Callable[Concatenate[Actor_co, Parameters], Awaitable[Result]],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result: ...
    @overload
    async def ask(
        self,
        function: Callable[Concatenate[Actor_co, Parameters], Result],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result: ...
    async def ask(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Have a function called with the actor, and wait for what it gives.

        Waits for room in the mailbox too. Who is cancelled while waiting abandons the message: when the actor
        has not taken it yet, it is never handled; when it has, it is handled to its end.

        Args:
            function: What to call.
            *args: Its arguments after the actor.
            **kwargs: Its keyword arguments.

        Raises:
            ActorDeadlockError: The caller is a handler of this actor, or one for which this actor waits.
            ActorEndedError: The actor has ended, or ended before it took the message.
            ActorInterruptedError: The actor was stopped while it handled the message.
            TypeError: What was given is no function.
            Exception: Whatever the function raised. The actor has ended then, or is restarted by its
                supervisor, unless its class says that the exception is an answer only.
        """
        return await self._core.ask(Ask(function, args, kwargs))

    async def tell(
        self,
        function: Callable[Concatenate[Actor_co, Parameters], object],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> None:
        """Have a function called with the actor, without waiting for that.

        Waits for room in the mailbox. A cancelled wait has sent nothing.

        Args:
            function: What to call.
            *args: Its arguments after the actor.
            **kwargs: Its keyword arguments.

        Raises:
            ActorDeadlockError: There is no room, and the caller is a handler of this actor, or one for which
                this actor waits.
            ActorEndedError: The actor has ended, or did while the caller waited for room.
            TypeError: What was given is no function.
        """
        await self._core.tell(ActorMessage(function, args, kwargs))

    def tell_nowait(
        self,
        function: Callable[Concatenate[Actor_co, Parameters], object],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> None:
        """Have a function called with the actor, without any waiting.

        Raises:
            ActorEndedError: The actor has ended.
            MailboxFullError: There is no room in the mailbox.
            TypeError: What was given is no function.
        """
        self._core.tell_nowait(ActorMessage(function, args, kwargs))

    def close(self) -> None:
        """Send nothing more: the actor handles what was sent before and ends. Handlers may do so too."""
        self._core.close()

    async def stop(self) -> None:
        """Close, and wait until the actor has handled what was sent before and ended.

        Raises:
            ActorDeadlockError: The caller is a handler of this actor, or one for which this actor waits.
        """
        await self._core.stop()

    def stop_now(self) -> None:
        """Cancel what the actor is handling, and refuse what waits. A supervisor does not restart it.

        A function in a worker thread is not cancelled: the actor ends when it returns.
        """
        self._core.stop_now()

    async def wait_ended(self) -> None:
        """Wait until the actor has ended for good.

        Raises:
            ActorDeadlockError: The caller is a handler of this actor, or one for which this actor waits.
        """
        await self._core.wait_ended()

    def statistics(self) -> ActorStatistics:
        """Figures at this moment."""
        return self._core.statistics()
