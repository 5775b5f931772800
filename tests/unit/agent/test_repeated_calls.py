"""The loop guard's counting: which calls are repetitions, and when they are refused."""

import pytest
from pydantic import ValidationError

import nighthawk_async as nh
from nighthawk_async.agent.refusals import RepeatedCalls

GUARD = nh.executors.LoopGuard(warn_after=3, refuse_after=4, fail_after=6)


def call(name: str = "look", arguments: str = "{}") -> nh.models.ToolCall:
    return nh.models.ToolCall(id="", name=name, arguments=arguments)


class Turns:
    """Makes calls turn by turn, and tells what the guard said of each."""

    def __init__(self, guard: nh.executors.LoopGuard = GUARD) -> None:
        self.repeated = RepeatedCalls(guard)
        self.turn = 0

    def take(self, *calls: tuple[nh.models.ToolCall, str]) -> list[str]:
        self.turn += 1
        return [self._make(made, result, self.turn) for made, result in calls]

    def without_turns(self, made: nh.models.ToolCall, result: str) -> str:
        return self._make(made, result, 0)

    def _make(self, made: nh.models.ToolCall, result: str, turn: int) -> str:
        repetition = self.repeated.begin(made, turn)
        if repetition.action != "proceed":
            return repetition.action
        return "warned" if self.repeated.finish(repetition, (result,)) else ""


def test_a_call_with_the_same_result_is_warned_of_then_refused_then_fails() -> None:
    turns = Turns()
    assert [turns.take((call(), "same"))[0] for _ in range(6)] == [
        "",
        "",
        "warned",
        "refuse",
        "refuse",
        "fail",
    ]


def test_a_changed_result_resets() -> None:
    turns = Turns()
    results = ["a", "a", "b", "b", "a", "a", "a"]
    assert [turns.take((call(), result))[0] for result in results] == [""] * 6 + ["warned"]


def test_polling_whose_result_changes_is_no_loop() -> None:
    turns = Turns()
    assert {turns.take((call(), f"{number} %"))[0] for number in range(50)} == {""}


def test_other_arguments_make_another_call() -> None:
    turns = Turns()
    for number in range(50):
        assert turns.take((call(arguments=f'{{"page": {number}}}'), "nothing")) == [""]


@pytest.mark.parametrize("other", ['{"b": [1, 2], "a": 1}', '{ "a":1,"b":[1,2] }'])
def test_the_way_in_which_arguments_are_written_does_not_count(other: str) -> None:
    turns = Turns()
    turns.take((call(arguments='{"a": 1, "b": [1, 2]}'), "same"))
    turns.take((call(arguments=other), "same"))
    assert turns.take((call(arguments=other), "same")) == ["warned"]


@pytest.mark.parametrize("arguments", ["{", '{"a": "\\ud800"}', "[" * 100_000])
def test_arguments_that_are_no_json_are_counted_too(arguments: str) -> None:
    turns = Turns()
    assert [turns.take((call(arguments=arguments), "error"))[0] for _ in range(3)] == ["", "", "warned"]


def test_identical_calls_of_one_turn_count_once() -> None:
    turns = Turns()
    assert turns.take(*[(call(), "done")] * 10) == [""] * 10
    assert turns.take(*[(call(), "done")] * 10) == [""] * 10
    assert turns.take(*[(call(), "done")] * 2) == ["warned"] * 2
    assert turns.take(*[(call(), "done")] * 2) == ["refuse"] * 2


def test_two_calls_in_turn_are_a_loop_as_well() -> None:
    turns = Turns()
    said = [turns.take((call(name), "same"))[0] for name in ["a", "b"] * 6]
    assert "warned" in said
    assert said[-1] == "fail"


def test_a_call_repeated_beside_something_new_each_turn_is_no_loop() -> None:
    turns = Turns()
    for number in range(50):
        assert turns.take((call("policy"), "be kind"), (call("read"), f"letter {number}")) == ["", ""]


@pytest.mark.parametrize("is_new_first", [True, False])
def test_a_call_repeated_between_new_things_is_no_loop(is_new_first: bool) -> None:
    turns = Turns()
    for number in range(50):
        pair = [(call("policy"), "be kind"), (call("read"), f"letter {number}")]
        for each in reversed(pair) if is_new_first else pair:
            assert turns.take(each) == [""]


def test_a_refused_call_is_carried_out_again_once_something_is_new() -> None:
    turns = Turns()
    for _ in range(5):
        last = turns.take((call(), "same"))
    assert last == ["refuse"]
    turns.take((call("other"), "new"))
    assert turns.take((call(), "same")) == [""]


def test_the_order_in_which_results_arrive_does_not_count() -> None:
    said: list[object] = []
    for is_reversed in (False, True):
        repeated = RepeatedCalls(GUARD)
        actions: list[object] = []
        for turn in range(1, 7):
            begun = [
                (repeated.begin(call("a"), turn), "same"),
                (repeated.begin(call("b"), turn), str(turn // 3)),
            ]
            finished = [
                (repetition.key, repeated.finish(repetition, (result,)))
                for repetition, result in (reversed(begun) if is_reversed else begun)
            ]
            actions.append(sorted(finished))
        said.append(actions)
    assert said[0] == said[1]


def test_without_turns_each_call_counts() -> None:
    turns = Turns()
    said = [turns.without_turns(call(), "same") for _ in range(6)]
    assert said == ["", "", "warned", "refuse", "refuse", "fail"]


@pytest.mark.parametrize(
    "values",
    [{"warn_after": 1}, {"warn_after": 6, "refuse_after": 5}, {"fail_after": 4}, {"retry_after": 3}],
)
def test_a_guard_that_makes_no_sense_is_refused(values: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        nh.executors.LoopGuard(**values)  # type: ignore[arg-type]
