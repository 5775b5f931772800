"""The order in which calls of Codex begin: that in which the model asked for them."""

from hypothesis import given, strategies as st

from nighthawk_async.coding_agents.codex_calls import CallOrder


def test_a_call_waits_for_the_earlier_ones() -> None:
    order = CallOrder[str]()
    assert order.announced("a") == []
    assert order.announced("b") == []
    assert order.requested("b", "B") == []
    assert order.announced("c") == []
    assert order.requested("a", "A") == ["A", "B"]
    assert not order.is_settled
    assert order.response_completed() == []
    assert order.requested("c", "C") == ["C"]
    assert order.is_settled


def test_a_call_that_codex_answers_by_itself_holds_nobody_up() -> None:
    order = CallOrder[str]()
    for name in "ab":
        order.announced(name)
    order.response_completed()
    assert order.requested("b", "B") == []
    assert order.answered("a") == ["B"]
    assert order.answered("b") == []
    assert order.is_settled


def test_calls_that_are_not_requested_are_given_up() -> None:
    order = CallOrder[str]()
    for name in "abc":
        order.announced(name)
    order.requested("b", "B")
    assert not order.is_waiting
    assert order.response_completed() == []
    assert order.is_waiting
    assert order.give_up() == ["B"]
    assert order.is_settled
    assert order.requested("c", "C") == ["C"]


def test_a_call_of_a_script_waits_only_for_the_end_of_the_response() -> None:
    order = CallOrder[str]()
    assert order.requested("exec-1", "X") == []
    assert order.response_completed() == ["X"]
    assert order.requested("exec-2", "Y") == ["Y"]
    order.announced("a")
    assert order.requested("exec-3", "Z") == []
    assert order.response_completed() == ["Z"]
    assert order.requested("a", "A") == ["A"]


def test_ids_that_come_twice_are_two_calls() -> None:
    order = CallOrder[str]()
    order.announced("a")
    order.announced("a")
    assert order.requested("a", "first") == ["first"]
    assert order.requested("a", "second") == ["second"]


@given(st.integers(1, 8), st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)), st.data())
def test_calls_begin_in_order_each_once_whatever_the_interleaving(
    count: int, refused: set[int], scripted: set[int], data: st.DataObject
) -> None:
    order, begun = CallOrder[str](), list[str]()
    announced = [str(number) for number in range(count)]
    requests = [name for name in announced if int(name) not in refused]
    requests += [f"script {number}" for number in scripted]
    answers = [name for name in announced if int(name) in refused]
    to_announce, is_complete = [*announced], False
    while to_announce or requests or answers or not is_complete:
        steps = ["announce"] * bool(to_announce) + ["complete"] * (not to_announce and not is_complete)
        steps += ["request"] * bool(requests) + ["answer"] * bool(answers and is_complete)
        match data.draw(st.sampled_from(steps)):
            case "announce":
                begun += order.announced(to_announce.pop(0))
            case "complete":
                is_complete = True
                begun += order.response_completed()
            case "request":
                possible = [each for each in requests if each not in to_announce]
                if not possible:
                    begun += order.announced(to_announce.pop(0))
                    continue
                name = data.draw(st.sampled_from(possible))
                requests.remove(name)
                begun += order.requested(name, name)
            case _:
                begun += order.answered(answers.pop(0))
    ours = [name for name in begun if not name.startswith("script")]
    assert ours == [name for name in announced if int(name) not in refused]
    assert len(begun) == len(ours) + len(scripted)
    assert order.is_settled
