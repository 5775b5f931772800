"""`CallEncoder`: makes jobs of calls, with what they take along from their callers, as bytes."""

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from itertools import count

import anyio

from ..executions import find_execution
from ..kernel.environment import find_environment, find_journal
from ..parallel.task_current import enter_positions, find_place, find_positions
from ..parallel.task_node import Callee, Positions
from ..placements import PlacedCall
from ..tracing import find_trace_parent
from .caller_scope import ScopeEncoder
from .caller_task import note_caller_task
from .contents import HeldContents
from .crossing import encode_crossing, resolved
from .job import RemoteJob


class CallEncoder:
    """Makes jobs of the calls of a placement, which share equal contents.

    Args:
        carries_keys: Whether keys of models may cross to workers.
        withdraw: Asks the placement to cancel a job.
    """

    def __init__(self, *, carries_keys: bool, withdraw: Callable[[RemoteJob], None]) -> None:
        self._withdraw = withdraw
        self._numbers = count()
        self._contents = HeldContents()
        self._scopes = ScopeEncoder(carries_keys=carries_keys)

    def make_job(self, call: PlacedCall, place: str) -> RemoteJob:
        """Return the job of a call, which begins in the context of its caller: the current one.

        Args:
            call: The call.
            place: Its place.

        Raises:
            CrossingError: The function, an argument or a part of the caller's scope cannot cross to a worker.
            TypeError: The function does not take the arguments.
        """
        function, args, keywords = resolved(call.function, call.args, call.keywords)
        environment, execution, hold = find_environment(), find_execution(), self._contents.hold_value
        context = copy_context()
        context.run(note_caller_task)
        if place != find_positions().path:
            context.run(enter_positions, Positions(place))
        return RemoteJob(
            next(self._numbers),
            function,
            args=[hold(each, partial(function.encode, position, each)) for position, each in enumerate(args)],
            keywords={
                name: hold(each, partial(function.encode, name, each)) for name, each in keywords.items()
            },
            task_values={
                name: encode_crossing(value, None, f"the task-local value {name!r}")
                for name, value in find_place().values.items()
            },
            scope=self._contents.hold(self._scopes.encode(environment, execution and execution.id)),
            place=place,
            trace_parent=find_trace_parent(),
            environment=environment,
            context=context,
            deadline=anyio.current_effective_deadline(),
            withdraw=self._withdraw,
        )


def place_of(call: PlacedCall) -> str:
    """Return the place of a call: that of the caller, or one in it."""
    positions = find_positions()
    if find_journal() is None or (call.owns_place and positions.is_owned):
        return positions.path
    return positions.take("placed", (Callee(call.function), call.args, call.keywords))
