"""Places of a run as paths of frames: what a frame is, and which places run one after the other."""

from collections.abc import Callable
from functools import lru_cache


def is_within(place: str, other: str) -> bool:
    """Whether a place is another one, or is in it."""
    return place == other or place.startswith(f"{other}/")


def failure_place(place: str, life: str) -> str:
    """The place of an error that a life met in a place; each life may meet another one."""
    return f"{place}/failed[{life}]"


def is_failure(place: str) -> bool:
    """Whether a place is that of an error; see `failure_place`."""
    return place.rpartition("/")[2].startswith("failed[")


def counted_place(place: str, life: str) -> str:
    """The place of the record that the time of a limit counts in a life."""
    return f"{place}/counted[{life}]"


def lost_place(place: str) -> str:
    """The place of the record that the workers of a call were lost, in a run with a journal.

    Args:
        place: The place of the call.
    """
    return f"{place}/lost[0]"


def intent_place(place: str, life: str) -> str:
    """The place of the record that a call begins in a life, after an earlier one had withdrawn it."""
    return f"{place}/begun[{life}]"


def withdrawn_place(intent: str) -> str:
    """The place of the record that a call was not made after all."""
    return f"{intent}/withdrawn[0]"


def effect_of_intent(place: str) -> str:
    """The place of the call whose beginning is recorded at a place."""
    parent, _, frame = place.rpartition("/")
    return parent if frame.startswith("begun[") else place


def function_place(place: str) -> str | None:
    """The place of the innermost call of a function that a place is at or in; None for none."""
    end = len(place)
    while (start := place.rfind("()[", 0, end)) >= 0:
        last = place.find("/", start)
        function = place if last < 0 else place[:last]
        _, slash, frame = function.rpartition("/")
        if slash and frame.rpartition("[")[0].endswith("()"):
            return function
        end = start
    return None


def is_stage(place: str) -> bool:
    """Whether a place is that of a stage or of an attempt at one, which goes on from its records."""
    parent, _, frame = place.rpartition("/")
    if frame.startswith("attempt["):
        frame = parent.rpartition("/")[2]
    return frame.startswith("stage:")


def is_limit(frame: str) -> bool:
    """Whether a frame is that of a time limit, which holds nothing but its own records."""
    return frame.rpartition("[")[0] in ("deadline", "timeout", "step_timeout", "budget_time")


def is_item(frame: str) -> bool:
    """Whether a frame in the place of a combinator, or of a block of tasks, is that of an item or a task."""
    name = frame.rpartition("[")[0]
    return not (
        is_awaited(frame) or is_limit(frame) or "~" in frame or name in ("taken", "failed", "counted")
    )


def is_sequential(frame: str) -> bool:
    """Whether a frame is one of those that a task takes one after the other: functions, blocks, requests."""
    name = frame.rpartition("[")[0]
    return "~" not in name and (name.endswith("()") or "#" in name or name in ("turn", "attempt"))


def is_awaited_before(frame: str, later: str) -> bool:
    """Whether a task waits for the end of a frame before it takes another one, later in the same place."""
    if frame.startswith("call["):
        return later.startswith("turn[")  # the next request has the results of all calls
    return frame != later and (is_awaited(frame) or is_limit(frame)) and is_awaited(later)


def are_concurrent(place: str, other: str) -> bool:
    """Whether two places are in tasks, or in items of a combinator, that run at the same time."""
    for frame, other_frame in zip(place.split("/"), other.split("/"), strict=False):
        if frame != other_frame:
            return not is_awaited(frame) and not is_awaited(other_frame)
    return False


def are_in_one_task(place: str, other: str) -> bool:
    """Whether one of two places is reached only after the other one has ended."""
    for frame, other_frame in zip(place.split("/"), other.split("/"), strict=False):
        if frame != other_frame:
            return is_awaited(frame) and is_awaited(other_frame)
    return False


def comes_after(place: str, other: str, is_closed: Callable[[str], bool]) -> bool:
    """Whether a place is reached only after another one has ended, or after what that one is in was left."""
    parent = ""
    for frame, other_frame in zip(place.split("/"), other.split("/"), strict=False):
        if frame != other_frame:
            has_ended = is_awaited(other_frame) or is_closed(f"{parent}{other_frame}")
            return is_awaited(frame) and has_ended
        parent += f"{frame}/"
    return False


_COMBINATORS = frozenset({"ensemble", "gather", "map", "race", "settle", "vote"})


@lru_cache(maxsize=1024)  # asked of every frame of every record, and again in each turn
def is_awaited(frame: str) -> bool:
    """Whether a task waits for the end of a frame before it takes the next one."""
    return is_sequential(frame) or frame.rpartition("[")[0] in _COMBINATORS


def is_combinator(frame: str) -> bool:
    """Whether a frame is that of a group of calls whose results count in an order that is kept."""
    return frame.rpartition("[")[0].partition("~")[0] in (*_COMBINATORS, "stream")
