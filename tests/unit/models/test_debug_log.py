import logging
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from nighthawk_async.errors import ConfigurationError
from nighthawk_async.models.debug_log import LOGGER, RequestLog, show_log
from nighthawk_async.models.endpoint import Endpoint, parse_base_url
from nighthawk_async.models.providers import create_model
from nighthawk_async.types.model import TextDelta

SECRET = "hunter2-hunter2"
PATH_TOKEN = "hunter4-hunter4"
ENDPOINT = Endpoint(
    model_id="p:m",
    base_url=parse_base_url(f"https://host/{PATH_TOKEN}/v1?token={SECRET}"),
    headers={"authorization": f"Bearer {SECRET}"},
)


@pytest.fixture(autouse=True)
def _logger_as_before() -> Iterator[None]:
    handlers, level, propagates = list(LOGGER.handlers), LOGGER.level, LOGGER.propagate
    yield
    LOGGER.handlers[:] = handlers
    LOGGER.setLevel(level)
    LOGGER.propagate = propagates


def forget_handlers() -> None:
    """Be a program that has not set up logging; pytest does, for each test anew."""
    LOGGER.handlers.clear()
    LOGGER.propagate = False


def test_nothing_is_shown_unless_the_environment_says_so() -> None:
    before = list(LOGGER.handlers)
    for environment in ({}, {"NIGHTHAWK_LOG": ""}, {"NIGHTHAWK_LOG": " "}):
        show_log(environment)
    assert LOGGER.handlers == before


def test_the_environment_shows_the_log_on_standard_error_once(capsys: pytest.CaptureFixture[str]) -> None:
    forget_handlers()
    for _ in range(2):
        show_log({"NIGHTHAWK_LOG": "Info"})
    LOGGER.info("shown")
    LOGGER.debug("too fine")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("nighthawk INFO shown") == 1
    assert "too fine" not in shown.err


def test_a_level_that_does_not_exist_is_refused_and_the_others_are_named() -> None:
    with pytest.raises(ConfigurationError, match="NIGHTHAWK_LOG must be one of debug, info"):
        show_log({"NIGHTHAWK_LOG": "loud"})


@pytest.mark.parametrize("is_first", [True, False])
def test_a_program_that_has_set_up_logging_shows_the_log_itself_and_once(
    is_first: bool, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    if not is_first:
        show_log({"NIGHTHAWK_LOG": "info"})
    own = logging.StreamHandler()
    LOGGER.addHandler(own)
    if is_first:
        show_log({"NIGHTHAWK_LOG": "info"})
    LOGGER.info("shown")
    assert capsys.readouterr().err == "shown\n"
    LOGGER.removeHandler(own)
    LOGGER.info("shown by the root logger")
    assert capsys.readouterr().err == ""
    assert caplog.messages == ["shown", "shown by the root logger"]


def test_a_handler_that_shows_nothing_does_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    forget_handlers()
    LOGGER.addHandler(logging.NullHandler())
    show_log({"NIGHTHAWK_LOG": "info"})
    LOGGER.info("shown")
    assert capsys.readouterr().err.count("shown") == 1


def test_making_a_model_shows_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    forget_handlers()
    environment = {"NIGHTHAWK_LOG": "debug", "OPENAI_API_KEY": SECRET}
    create_model("openai-chat:x", environment=environment)
    LOGGER.debug("fine")
    assert "nighthawk DEBUG fine" in capsys.readouterr().err


def test_nobody_listens_to_a_request_by_default() -> None:
    LOGGER.setLevel(logging.INFO)
    assert RequestLog.begin(ENDPOINT) is None


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    with caplog.at_level(logging.DEBUG, "nighthawk"):
        log = RequestLog.begin(ENDPOINT)
        assert log is not None
        url = urlsplit(f"https://host/{PATH_TOKEN}/v1/chat?api-version=7&token={SECRET}")
        log.sending(url, b'{"prompt":"moon"}', attempt=2)
        log.answered(200, {"x-request-id": f"req-{SECRET}", "set-cookie": "c", "retry-after-ms": "3"})
        log.events([TextDelta(text=f"sun {SECRET}")])
    texts = [record.getMessage() for record in caplog.records]
    assert not any(secret in text for text in texts for secret in (SECRET, PATH_TOKEN))
    return texts


def test_requests_responses_and_kinds_of_events_are_logged_without_bodies(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NIGHTHAWK_LOG_BODIES", raising=False)
    request, response, event = logged(caplog)
    assert "POST https://host/…/chat?api-version=7&token=[redacted], 17 bytes, attempt 2" in request
    assert response.endswith("HTTP 200; x-request-id: req-[redacted]; retry-after-ms: 3")
    assert event.endswith(": TextDelta")


def test_bodies_are_logged_when_the_environment_asks_for_them(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIGHTHAWK_LOG_BODIES", "1")
    texts = logged(caplog)
    assert any(text.endswith('body: {"prompt":"moon"}') for text in texts)
    assert any(text.endswith("TextDelta(text='sun [redacted]')") for text in texts)


def test_each_request_has_a_number(caplog: pytest.LogCaptureFixture) -> None:
    first, second = logged(caplog)[0], logged(caplog)[-1]
    assert first.split(":")[1] != second.split(":")[1]
