"""Decisions of the pacer, without an event loop: time is a number."""

import math
from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nighthawk_async.models.pacing import Demand, PacingLimits, PacingState, Ticket
from nighthawk_async.wire.rate_limits import RateLimit

MODEL = "m"


def demand(tokens: int = 0, lane: str = MODEL, **limits: int) -> Demand:
    return Demand(lane=lane, input_tokens=tokens, limits=PacingLimits(**limits))


def told(remaining: int, *, reset: float | None, limit: int | None = 10, kind: Any = "requests") -> RateLimit:
    return RateLimit(kind=kind, remaining=remaining, limit=limit, reset_seconds=reset)


def send(state: PacingState, now: float, given: Demand) -> Ticket:
    """A request that must be admitted at once."""
    ticket = state.join(given)
    assert state.decide(now).admitted == [ticket]
    return ticket


def test_without_limits_everybody_goes_at_once_in_order() -> None:
    state = PacingState()
    tickets = [state.join(demand()) for _ in range(5)]
    assert state.decide(0).admitted == tickets
    assert (state.statistics().in_flight, state.statistics().waiting) == (5, 0)


def test_so_many_are_in_flight_and_the_next_goes_when_one_ends() -> None:
    state = PacingState()
    first, second, third = (state.join(demand(max_concurrent_requests=2)) for _ in range(3))
    decision = state.decide(0)
    assert decision.admitted == [first, second]
    assert decision.first is third
    assert decision.wake_at == math.inf
    state.end(second, 1)
    state.end(second, 1)
    assert state.decide(1).admitted == [third]
    assert state.statistics().in_flight == 2


def test_so_many_begin_within_a_minute() -> None:
    state = PacingState()
    limited = demand(requests_per_minute=2)
    state.end(send(state, 0, limited), 1)
    state.end(send(state, 10, limited), 11)
    third = state.join(limited)
    assert state.decide(20).wake_at == 60
    assert state.decide(59.9).admitted == []
    assert state.decide(60).admitted == [third]
    fourth = state.join(limited)
    assert state.decide(61).wake_at == 70
    assert state.decide(70).admitted == [fourth]


def test_tokens_within_a_minute_are_bounded_and_no_small_request_overtakes() -> None:
    state = PacingState()
    send(state, 0, demand(60, tokens_per_minute=100))
    large = state.join(demand(50, tokens_per_minute=100))
    small = state.join(demand(1, tokens_per_minute=100))
    decision = state.decide(1)
    assert decision.admitted == []
    assert decision.wake_at == 60
    assert state.decide(60).admitted == [large, small]


def test_the_later_of_two_limits_holds() -> None:
    state = PacingState()
    limits = {"requests_per_minute": 2, "tokens_per_minute": 100}
    send(state, 0, demand(10, **limits))
    send(state, 5, demand(90, **limits))
    state.join(demand(50, **limits))
    assert state.decide(6).wake_at == 65


def test_a_request_with_more_tokens_than_a_minute_has_goes_alone() -> None:
    state = PacingState()
    send(state, 0, demand(1, tokens_per_minute=100))
    giant = state.join(demand(1_000, tokens_per_minute=100))
    assert state.decide(1).wake_at == 60
    assert state.decide(60).admitted == [giant]


def test_what_a_request_really_took_replaces_the_estimate() -> None:
    state = PacingState()
    first = send(state, 0, demand(90, tokens_per_minute=100))
    second = state.join(demand(50, tokens_per_minute=100))
    assert state.decide(1).admitted == []
    state.correct(first, 20)
    assert state.decide(1).admitted == [second]
    state.correct(second, 80)
    state.join(demand(1, tokens_per_minute=100))
    assert state.decide(2).wake_at == 60


def test_a_correction_after_the_minute_changes_nothing() -> None:
    state = PacingState()
    first = send(state, 0, demand(90, tokens_per_minute=100))
    send(state, 61, demand(100, tokens_per_minute=100))
    state.correct(first, 1_000_000)
    assert state.join(demand(1, tokens_per_minute=100)) not in state.decide(120.9).admitted
    assert len(state.decide(121).admitted) == 1


def test_a_correction_after_the_minute_takes_nothing_from_the_next_one() -> None:
    state = PacingState()
    first = send(state, 0, demand(90, tokens_per_minute=100))
    send(state, 61, demand(50, tokens_per_minute=100))
    state.correct(first, 1_000_000)
    send(state, 62, demand(50, tokens_per_minute=100))


def test_when_the_provider_has_nothing_left_requests_wait_for_the_reset() -> None:
    state = PacingState()
    state.answered(send(state, 0, demand()), [told(0, reset=7.0)], 1)
    waiting = [state.join(demand()) for _ in range(11)]
    decision = state.decide(2)
    assert decision.admitted == []
    assert decision.wake_at == 8
    # After the reset there are ten; the eleventh waits for a response that tells more.
    assert state.decide(8).admitted == waiting[:10]
    assert state.decide(9).wake_at == math.inf
    state.answered(waiting[0], [told(9, reset=7.0)], 10)
    assert state.decide(10).admitted == []
    for each in waiting[1:9]:
        state.answered(each, [], 10)
    state.answered(waiting[9], [told(3, reset=7.0)], 10)
    assert state.decide(10).admitted == waiting[10:]


def test_those_whose_response_has_not_begun_count_against_what_is_left() -> None:
    state = PacingState()
    state.answered(send(state, 0, demand()), [told(2, reset=7.0)], 1)
    tickets = [state.join(demand()) for _ in range(3)]
    assert state.decide(1).admitted == tickets[:2]


def test_tokens_that_are_left_must_be_enough_for_the_request() -> None:
    state = PacingState()
    state.answered(send(state, 0, demand()), [told(100, reset=7.0, limit=1_000, kind="input-tokens")], 0)
    assert state.join(demand(101)) not in state.decide(1).admitted
    assert len(state.decide(7).admitted) == 1


def test_a_request_that_needs_more_than_the_provider_ever_gives_is_sent_after_the_reset() -> None:
    state = PacingState()
    state.answered(send(state, 0, demand()), [told(50, reset=7.0, limit=100, kind="tokens")], 0)
    giant = state.join(demand(1_000))
    assert state.decide(1).wake_at == 7
    assert state.decide(7).admitted == [giant]


def test_a_limit_for_the_day_holds_nobody_up() -> None:
    state = PacingState()
    state.answered(send(state, 0, demand()), [told(0, reset=60_000.0)], 0)
    send(state, 1, demand())


def test_a_remainder_without_a_reset_holds_up_only_while_others_are_unanswered() -> None:
    state = PacingState()
    state.answered(send(state, 0, demand()), [told(0, reset=None, limit=None)], 0)
    first = send(state, 1, demand())
    second = state.join(demand())
    assert state.decide(2).admitted == []
    state.end(first, 3)
    assert state.decide(3).admitted == [second]


def test_one_models_limits_do_not_hold_up_another() -> None:
    state = PacingState()
    state.answered(send(state, 0, demand()), [told(0, reset=7.0)], 0)
    state.join(demand())
    other = state.join(demand(lane="other"))
    assert state.decide(1).admitted == [other]


def test_a_request_that_waits_for_its_own_limit_holds_up_no_model_without_one() -> None:
    state = PacingState()
    send(state, 0, demand(max_concurrent_requests=1))
    waiting = state.join(demand(max_concurrent_requests=1))
    other = state.join(demand(lane="other"))
    decision = state.decide(1)
    assert decision.admitted == [other]
    assert decision.first is waiting


def test_requests_without_a_limit_do_not_count_against_that_of_others() -> None:
    state = PacingState()
    for _ in range(3):
        send(state, 0, demand(100, lane="other"))
    send(state, 1, demand(100, max_concurrent_requests=1, requests_per_minute=1, tokens_per_minute=100))


def test_the_end_of_a_request_without_a_limit_makes_no_room_for_those_with_one() -> None:
    state = PacingState()
    state.end(send(state, 0, demand()), 1)
    tickets = [state.join(demand(max_concurrent_requests=1)) for _ in range(2)]
    assert state.decide(1).admitted == tickets[:1]


def test_nobody_overtakes_at_another_model_a_request_that_waits_for_the_same_limit() -> None:
    state = PacingState()
    send(state, 0, demand(60, tokens_per_minute=100))
    large = state.join(demand(50, tokens_per_minute=100))
    small = state.join(demand(1, lane="other", tokens_per_minute=100))
    free = state.join(demand(1, lane="third", requests_per_minute=1))
    decision = state.decide(1)
    assert decision.admitted == [free]
    assert decision.wake_at == 60
    assert state.decide(60).admitted == [large, small]


def test_what_requests_took_whose_answer_says_nothing_is_missing_from_what_was_left() -> None:
    state = PacingState()
    state.answered(send(state, 0, demand()), [told(2, reset=7.0)], 0)
    for _ in range(2):
        state.answered(send(state, 1, demand()), [], 1)
    third = state.join(demand())
    decision = state.decide(2)
    assert (decision.admitted, decision.wake_at) == ([], 7)
    assert state.decide(7).admitted == [third]


def test_what_a_request_took_that_never_had_an_answer_is_missing_too() -> None:
    state = PacingState()
    state.answered(send(state, 0, demand()), [told(30, reset=7.0, kind="tokens")], 0)
    state.end(send(state, 1, demand(30)), 2)
    state.join(demand(1))
    assert state.decide(2).wake_at == 7


def refuse(state: PacingState, tickets: list[Ticket], *, until: float) -> None:
    """The server refuses requests, one after the other."""
    for ticket in tickets:
        state.refused(ticket, until)
        state.end(ticket, until)


def finish(state: PacingState, ticket: Ticket, now: float) -> list[Ticket]:
    """A request succeeds; gives those whose turn comes thereby."""
    state.accepted(ticket)
    state.end(ticket, now)
    return state.decide(now).admitted


def test_after_a_refusal_half_of_what_is_in_flight_may_be_and_a_round_of_successes_makes_room_for_one() -> (
    None
):
    state = PacingState()
    crowd = [state.join(demand()) for _ in range(9)]
    assert state.decide(0).admitted == crowd
    refuse(state, crowd[8:], until=1)  # four of nine are left
    refuse(state, crowd[7:8], until=1)
    waiting = [state.join(demand()) for _ in range(20)]
    assert finish(state, crowd[0], 1) == []  # six in flight
    assert finish(state, crowd[1], 1) == []
    assert finish(state, crowd[2], 1) == []  # four: those three and this one were successes with a full house
    assert finish(state, crowd[3], 1) == waiting[:2], "the fourth makes room for one more"
    assert finish(state, waiting[0], 1) == waiting[2:3]


def test_a_request_that_fails_makes_no_room() -> None:
    state = PacingState()
    first, second = send(state, 0, demand()), send(state, 0, demand())
    refuse(state, [first], until=1)
    third, fourth = state.join(demand()), state.join(demand())
    assert state.decide(1).admitted == []
    state.end(second, 1)
    assert state.decide(1).admitted == [third]
    state.end(third, 2)
    assert state.decide(2).admitted == [fourth]


def test_however_many_are_refused_one_may_go() -> None:
    state = PacingState()
    crowd = [state.join(demand()) for _ in range(5)]
    state.decide(0)
    refuse(state, crowd, until=1)
    first, second = state.join(demand()), state.join(demand())
    assert state.decide(1).admitted == [first]
    assert finish(state, first, 1) == [second]


def test_a_refusal_at_one_model_leaves_no_limit_at_another() -> None:
    state = PacingState()
    refuse(state, [send(state, 0, demand())], until=1)
    tickets = [state.join(demand(lane="other")) for _ in range(5)]
    assert state.decide(1).admitted == tickets


def test_once_as_many_are_in_flight_as_before_the_refusal_there_is_no_limit() -> None:
    state = PacingState()
    first, second = send(state, 0, demand()), send(state, 0, demand())
    refuse(state, [second], until=1)
    assert finish(state, first, 1) == []
    crowd = [state.join(demand()) for _ in range(50)]
    assert state.decide(2).admitted == crowd


def test_a_delay_that_the_server_asked_for_holds_everybody() -> None:
    state = PacingState()
    first, second = send(state, 0, demand()), send(state, 0, demand())
    state.refused(first, 5)
    state.refused(second, 3)
    for each in (first, second):
        state.end(each, 1)
    tickets = [state.join(demand()), state.join(demand(lane="other"))]
    decision = state.decide(1)
    assert (decision.admitted, decision.first, decision.wake_at) == ([], tickets[0], 5)
    assert state.decide(5).admitted == tickets


def test_a_request_that_is_sent_again_keeps_its_turn() -> None:
    state = PacingState()
    limited = demand(max_concurrent_requests=1)
    first = send(state, 0, limited)
    second = state.join(limited)
    state.end(first, 1)
    assert state.decide(1).admitted == [second]
    third = state.join(limited)
    again = state.join(limited, turn=first.turn)
    state.end(second, 2)
    assert state.decide(2).admitted == [again]
    state.end(again, 3)
    assert state.decide(3).admitted == [third]


def test_whoever_withdraws_is_passed_over() -> None:
    state = PacingState()
    first = send(state, 0, demand(max_concurrent_requests=1))
    second, third = (state.join(demand(max_concurrent_requests=1)) for _ in range(2))
    state.withdraw(second)
    state.withdraw(second)
    assert state.statistics().waiting == 1
    state.end(first, 1)
    assert state.decide(1).admitted == [third]


class Pacing(RuleBasedStateMachine):
    """Requests come, go, fail and give up in any order, while the provider says what it likes."""

    @initialize(most=st.integers(1, 3), rpm=st.none() | st.integers(1, 4), tpm=st.none() | st.integers(1, 50))
    def begin(self, most: int, rpm: int | None, tpm: int | None) -> None:
        self.now = 0.0
        self.state = PacingState()
        self.limits = PacingLimits(
            max_concurrent_requests=most, requests_per_minute=rpm, tokens_per_minute=tpm
        )
        self.waiting: list[Ticket] = []
        self.in_flight: list[Ticket] = []
        self.begun: list[float] = []

    @rule(tokens=st.integers(0, 80))
    def join(self, tokens: int) -> None:
        given = Demand(lane=MODEL, input_tokens=tokens, limits=self.limits)
        self.waiting.append(self.state.join(given))
        self.settle()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(ticket)
        self.state.withdraw(ticket)
        self.settle()

    @precondition(lambda self: self.in_flight)
    @rule(
        data=st.data(),
        remaining=st.integers(0, 5),
        reset=st.none() | st.floats(0, 200),
        kind=st.sampled_from(["requests", "tokens", "input-tokens", "output-tokens"]),
    )
    def answer(self, data: st.DataObject, remaining: int, reset: float | None, kind: Any) -> None:
        ticket = data.draw(st.sampled_from(self.in_flight))
        self.state.answered(ticket, [told(remaining, reset=reset, limit=5, kind=kind)], self.now)
        self.settle()

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), tokens=st.none() | st.integers(0, 100))
    def end(self, data: st.DataObject, tokens: int | None) -> None:
        ticket = data.draw(st.sampled_from(self.in_flight))
        if tokens is not None:
            self.state.correct(ticket, tokens)
        self.in_flight.remove(ticket)
        self.state.end(ticket, self.now)
        self.settle()

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), seconds=st.floats(0, 30))
    def refuse(self, data: st.DataObject, seconds: float) -> None:
        self.state.refused(data.draw(st.sampled_from(self.in_flight)), self.now + seconds)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def accept(self, data: st.DataObject) -> None:
        self.state.accepted(data.draw(st.sampled_from(self.in_flight)))

    @rule(seconds=st.floats(0, 70))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.settle()

    def settle(self) -> float:
        decision = self.state.decide(self.now)
        assert decision.admitted == self.waiting[: len(decision.admitted)], "the order was not kept"
        for ticket in decision.admitted:
            self.waiting.remove(ticket)
            self.in_flight.append(ticket)
            self.begun.append(self.now)
        assert decision.first is (self.waiting[0] if self.waiting else None)
        assert not self.waiting or decision.wake_at > self.now, "a wait that wakes at once would spin"
        return decision.wake_at

    @invariant()
    def limits_hold(self) -> None:
        if not hasattr(self, "state"):
            return
        statistics = self.state.statistics()
        assert (statistics.in_flight, statistics.waiting) == (len(self.in_flight), len(self.waiting))
        assert len(self.in_flight) <= (self.limits.max_concurrent_requests or 0)
        most = self.limits.requests_per_minute
        if most is not None:
            for first, last in zip(self.begun, self.begun[most:], strict=False):
                assert last >= first + 60

    def teardown(self) -> None:
        """Nobody waits forever: with responses that end and time that passes, everybody has a turn."""
        if not hasattr(self, "state"):
            return
        for _ in range(10 * len(self.waiting) + 10):
            if not self.waiting:
                break
            for ticket in self.in_flight:
                self.state.end(ticket, self.now)
            self.in_flight.clear()
            wake_at = self.settle()
            if not self.in_flight and self.waiting:
                assert wake_at < math.inf, "somebody waits, nobody is in flight, and nobody will wake anybody"
                self.now = wake_at
        assert self.waiting == []


TestPacing = Pacing.TestCase
TestPacing.settings = settings(max_examples=60, stateful_step_count=30)
