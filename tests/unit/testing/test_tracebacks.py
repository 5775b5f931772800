"""What pytest shows of a test that fails in a block: the frames of the program, not those of the library."""

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedExecutor

pytest_plugins = ["pytester"]

IMPORTED = (ScriptedExecutor, nh.run, nh.natural_function)  # not anew by the tests inside, which is slow

TESTS = """
import logging
import nighthawk_async as nh
from nighthawk_async.testing import ScriptedExecutor, cassette, return_response


@nh.natural_function
def act(number: int) -> int:
    '''natural
    Check <number> with <check>.
    '''


def check(number):
    raise ValueError("bad number")


def run(expression):
    with nh.run(ScriptedExecutor([return_response(expression)])):
        act(2)


def test_wrong_type():
    run("'x'")


def test_failing_function():
    run("check(number)")


def test_cassette():
    configuration = nh.StepExecutorConfiguration(model="openai-chat:any", model_settings={"api_key": "k"})
    with cassette("none.yaml", mode="none"), nh.run(configuration):
        act(2)


def test_debugging(caplog):
    caplog.set_level(logging.DEBUG, logger="nighthawk")
    run("'x'")
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_it=TESTS)
    return pytester


def shown_by(project: pytest.Pytester, *options: str) -> str:
    # In a process of its own: the marks on modules stay.
    result = project.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:trio", *options)
    return result.stdout.str()


def test_frames_of_the_library_are_left_out(project: pytest.Pytester) -> None:
    shown = shown_by(project, "-k", "not debugging")
    for text in ("act(2)", "'''natural", "bad number", "No recording is left"):
        assert text in shown
    assert "test_it.py:14: ValueError" in shown
    assert "nighthawk_async/kernel/run_step.py" not in shown


@pytest.mark.parametrize("options", [("-k", "debugging"), ("-k", "wrong_type", "--full-trace")])
def test_frames_of_the_library_are_shown(project: pytest.Pytester, options: tuple[str, ...]) -> None:
    assert "nighthawk_async/kernel/run_step.py" in shown_by(project, *options)
