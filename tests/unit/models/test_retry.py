import pytest

from nighthawk_async.errors import ModelError, ModelStatusError
from nighthawk_async.models.retry import retry_delay

TRANSIENT = ModelError("x", is_transient=True)


def delay(
    error: ModelError = TRANSIENT, *, retries: int = 0, max_retries: int = 10, drawn: float = 0.0
) -> float | None:
    return retry_delay(error, retries=retries, max_retries=max_retries, draw=lambda: drawn)


def busy(retry_after_seconds: float | None) -> ModelStatusError:
    return ModelStatusError("x", status=429, is_transient=True, retry_after_seconds=retry_after_seconds)


def test_the_delay_doubles_up_to_eight_seconds() -> None:
    assert [delay(retries=number) for number in range(7)] == [0.5, 1, 2, 4, 8, 8, 8]
    assert delay(retries=5_000, max_retries=10_000) == 8


def test_the_delay_is_shortened_by_a_quarter_at_most() -> None:
    assert delay(drawn=1.0) == 0.375
    assert 0.375 <= (retry_delay(TRANSIENT, retries=0, max_retries=1) or 0) <= 0.5


def test_what_is_not_transient_is_not_tried_again() -> None:
    assert delay(ModelError("x")) is None


def test_there_are_so_many_retries_and_no_more() -> None:
    assert delay(retries=1, max_retries=2) is not None
    assert delay(retries=2, max_retries=2) is None
    assert delay(max_retries=0) is None


@pytest.mark.parametrize(("asked", "waited"), [(0.0, 0.0), (3.0, 3.0), (120.0, 120.0), (120.1, None)])
def test_the_servers_delay_is_kept_up_to_two_minutes(asked: float, waited: float | None) -> None:
    assert delay(busy(asked)) == waited


def test_a_server_that_asks_for_nothing_gets_the_usual_delay() -> None:
    assert delay(busy(None)) == 0.5
