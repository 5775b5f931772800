"""Whatever a model does turn by turn, the loop guard tells of loops alone, and of every long one."""

from dataclasses import dataclass, field

from hypothesis import given, strategies as st

import nighthawk_async as nh
from nighthawk_async.agent.refusals import RepeatedCalls

GUARD = nh.executors.LoopGuard(warn_after=2, refuse_after=4, fail_after=6)

calls = st.tuples(st.sampled_from("abc"), st.sampled_from("xy"))
"""A call, by the name of its tool, and its result."""
turns = st.lists(st.lists(calls, min_size=1, max_size=3), max_size=25)


@dataclass
class History:
    """In which turns a call was made, and which turns brought something new."""

    made: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    results: dict[str, str] = field(default_factory=dict[str, str])
    new: set[int] = field(default_factory=set[int])

    def make(self, name: str, turn: int) -> None:
        made = self.made.setdefault(name, [])
        if made[-1:] != [turn]:
            made.append(turn)

    def finish(self, name: str, result: str, turn: int) -> None:
        if self.results.get(name) != result:
            self.results[name] = result
            self.new.add(turn)


@given(turns=turns)
def test_a_count_is_of_turns_without_anything_new_in_between(turns: list[list[tuple[str, str]]]) -> None:
    repeated, history = RepeatedCalls(GUARD), History()
    for turn, wanted in enumerate(turns, 1):
        for name, result in wanted:
            history.make(name, turn)
            repetition = repeated.begin(nh.models.ToolCall(id="", name=name, arguments=""), turn)
            assert repetition.count <= len(history.made[name])
            first = history.made[name][-repetition.count]
            assert not history.new & set(range(first + 1, turn))
            if repetition.action == "proceed":
                assert repetition.count < GUARD.refuse_after
                is_warned = repeated.finish(repetition, (result,))
                assert is_warned <= (repetition.count >= GUARD.warn_after)
                history.finish(name, result, turn)


@given(before=turns, cycle=st.lists(st.sampled_from("abc"), min_size=1, max_size=3))
def test_every_cycle_ends(before: list[list[tuple[str, str]]], cycle: list[str]) -> None:
    repeated = RepeatedCalls(GUARD)
    steps = [*before, *[[(name, "same")] for name in cycle * (GUARD.fail_after + 2)]]
    actions = list[str]()
    for turn, wanted in enumerate(steps, 1):
        for name, result in wanted:
            repetition = repeated.begin(nh.models.ToolCall(id="", name=name, arguments=""), turn)
            actions.append(repetition.action)
            if repetition.action == "proceed":
                repeated.finish(repetition, (result,))
    assert actions[-1] == "fail"
