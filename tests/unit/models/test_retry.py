import pytest

from nighthawk_async.catalog.providers import PROVIDERS, RetryRules
from nighthawk_async.errors import ModelError, ModelStatusError
from nighthawk_async.models.http_retries import retry_delay, server_delay

TRANSIENT = ModelError("x", is_transient=True)
OPENAI = PROVIDERS["openai-responses"].retry_rules
ANTHROPIC = PROVIDERS["anthropic"].retry_rules
GOOGLE = PROVIDERS["google"].retry_rules


def delay(
    error: ModelError = TRANSIENT,
    rules: RetryRules = OPENAI,
    *,
    retries: int = 0,
    max_retries: int = 10,
    drawn: float = 0.0,
) -> float | None:
    return retry_delay(error, retries=retries, max_retries=max_retries, rules=rules, draw=lambda: drawn)


def busy(retry_after_seconds: float | None, status: int = 429) -> ModelStatusError:
    return ModelStatusError("x", status=status, is_transient=True, retry_after_seconds=retry_after_seconds)


def test_the_delay_doubles_up_to_eight_seconds() -> None:
    assert [delay(retries=number) for number in range(7)] == [0.5, 1, 2, 4, 8, 8, 8]
    assert delay(retries=5_000, max_retries=10_000) == 8


def test_the_delay_is_shortened_by_a_quarter_at_most() -> None:
    assert delay(drawn=1.0) == 0.375
    assert 0.375 <= (retry_delay(TRANSIENT, retries=0, max_retries=1, rules=OPENAI) or 0) <= 0.5


def test_what_is_not_transient_is_not_tried_again() -> None:
    assert delay(ModelError("x")) is None


def test_there_are_so_many_retries_and_no_more() -> None:
    assert delay(retries=1, max_retries=2) is not None
    assert delay(retries=2, max_retries=2) is None
    assert delay(max_retries=0) is None


@pytest.mark.parametrize(("asked", "waited"), [(0.001, 0.001), (3.0, 3.0), (120.0, 120.0), (120.1, None)])
@pytest.mark.parametrize("rules", [OPENAI, ANTHROPIC])
def test_the_servers_delay_is_kept_up_to_two_minutes(
    rules: RetryRules, asked: float, waited: float | None
) -> None:
    assert delay(busy(asked), rules) == waited


def test_the_servers_delay_is_never_shortened_and_lengthened_by_a_quarter_at_most() -> None:
    drawn = [retry_delay(busy(100.0), retries=0, max_retries=1, rules=OPENAI) for _ in range(100)]
    assert all(100 <= (seconds or 0) <= 125 for seconds in drawn)
    assert len(set(drawn)) > 1
    assert delay(busy(100.0), drawn=1.0) == 125


@pytest.mark.parametrize("rules", [OPENAI, ANTHROPIC, GOOGLE])
def test_a_server_that_asks_for_no_delay_at_all_gets_the_usual_one(rules: RetryRules) -> None:
    """Otherwise many retries would hammer it without a pause."""
    usual = [delay(busy(None), rules, retries=number) for number in range(5)]
    assert [delay(busy(0.0), rules, retries=number) for number in range(5)] == usual
    assert server_delay(busy(0.0), rules) is None


def test_a_server_that_asks_for_nothing_gets_the_usual_delay() -> None:
    assert delay(busy(None)) == 0.5


def test_with_google_a_delay_beyond_a_minute_is_replaced_by_the_usual_one() -> None:
    assert delay(busy(60.0), GOOGLE) == 60
    assert delay(busy(60.1), GOOGLE) == 1


def test_google_is_asked_again_after_one_second_doubled_up_to_sixty_and_up_to_a_second_more() -> None:
    assert [delay(TRANSIENT, GOOGLE, retries=number) for number in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert delay(TRANSIENT, GOOGLE, drawn=1.0) == 2
    assert delay(TRANSIENT, GOOGLE, retries=9, drawn=1.0) == 60


@pytest.mark.parametrize(
    ("status", "is_retried"),
    [(408, True), (409, False), (429, True), (500, True), (501, False), (529, False)],
)
def test_google_is_asked_again_after_some_statuses_only(status: int, is_retried: bool) -> None:
    assert (delay(busy(None, status), GOOGLE) is not None) is is_retried
    assert delay(busy(None, status), OPENAI) is not None
    assert delay(busy(None, status), ANTHROPIC) is not None


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (busy(7.0), 7.0),
        (busy(7.0, 503), 7.0),
        (busy(7.0, 529), 7.0),
        (busy(7.0, 500), None),
        (busy(None), None),
        (busy(120.1), None),
        (TRANSIENT, None),
    ],
)
def test_an_overloaded_server_that_names_a_short_delay_wants_nobody_meanwhile(
    error: ModelError, seconds: float | None
) -> None:
    assert server_delay(error, OPENAI, draw=lambda: 0.0) == seconds
