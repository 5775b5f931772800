"""How refusals and successes change the number of requests in flight."""

from nighthawk_async.models.pacing import Ramp


def limit_of(ramp: Ramp) -> int | None:
    """How many requests may be in flight; None when a thousand may."""
    return next((number for number in range(1_000) if ramp.is_full(number)), None)


def refused_ramp(*, in_flight: int) -> Ramp:
    ramp = Ramp()
    ramp.refused(in_flight)
    return ramp


def test_there_is_no_limit_before_the_first_refusal() -> None:
    ramp = Ramp()
    ramp.succeeded(10)
    assert limit_of(ramp) is None


def test_a_refusal_leaves_half_of_what_is_in_flight_and_one_at_least() -> None:
    assert [limit_of(refused_ramp(in_flight=number)) for number in (1, 2, 3, 9, 100)] == [1, 1, 1, 4, 50]


def test_a_later_refusal_never_lifts_the_limit() -> None:
    ramp = refused_ramp(in_flight=10)
    ramp.refused(30)
    assert limit_of(ramp) == 5
    ramp.refused(8)
    assert limit_of(ramp) == 4


def test_as_many_successes_as_there_is_room_make_room_for_one_more() -> None:
    ramp = refused_ramp(in_flight=20)
    seen: list[int | None] = []
    for _ in range(10 + 11):
        ramp.succeeded(10 if limit_of(ramp) == 10 else 11)
        seen.append(limit_of(ramp))
    assert seen == [10] * 9 + [11] * 11 + [12]


def test_a_refusal_in_between_makes_the_successes_begin_anew() -> None:
    ramp = refused_ramp(in_flight=8)
    for _ in range(3):
        ramp.succeeded(4)
    ramp.refused(8)
    for _ in range(3):
        ramp.succeeded(4)
    assert limit_of(ramp) == 4
    ramp.succeeded(4)
    assert limit_of(ramp) == 5


def test_a_success_that_left_room_unused_says_nothing_about_more() -> None:
    ramp = refused_ramp(in_flight=8)
    for _ in range(100):
        ramp.succeeded(3)
    assert limit_of(ramp) == 4


def test_the_limit_goes_once_as_many_were_in_flight_as_when_it_came() -> None:
    ramp = refused_ramp(in_flight=6)
    for room in (3, 4, 5):
        for _ in range(room):
            assert limit_of(ramp) == room
            ramp.succeeded(room)
    assert limit_of(ramp) is None
