"""The pytest plugin gives each test a cassette of its own, whatever kind of test it is."""

from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import cassette_tests, pytest_plugin

pytest_plugins = ["pytester"]

# A test session inside this one imports anew what was not imported before it, which is slow, and which the
# compiled part of PyYAML does not survive.
IMPORTED = (pytest_plugin, cassette_tests, nh.AgentStepExecutor, nh.run)
CONFTEST = f"pytest_plugins = [{pytest_plugin.__name__!r}]"

INI = """
[pytest]
addopts = --strict-markers -p no:cacheprovider -p no:trio
filterwarnings = error
"""

PREAMBLE = """
import pytest
import nighthawk_async as nh
from nighthawk_async.agent.model_call import open_stream
from nighthawk_async.testing import CassetteMissError, ScriptedModel, model_response
from nighthawk_async.types.messages import UserMessage
from nighthawk_async.types.model import ModelRequest, TextDelta


async def ask(text, answers=("answer",)):
    model = ScriptedModel([model_response(text=answer) for answer in answers])
    request = ModelRequest(messages=(UserMessage(content=(text,)),))
    async with open_stream(model, request) as events:
        return "".join([event.text async for event in events if isinstance(event, TextDelta)])
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project whose tests use the plugin, which pytest loads by itself."""
    pytester.makeini(
        "[pytest]\naddopts = --strict-markers -p no:cacheprovider -p no:trio\nanyio_mode = strict"
    )
    return pytester


def write_tests(project: pytest.Pytester, body: str) -> None:
    project.makepyfile(test_it=PREAMBLE + body)


def outcomes(project: pytest.Pytester, *options: str) -> dict[str, int]:
    return project.runpytest_inprocess(*options).parseoutcomes()


def files(project: pytest.Pytester) -> list[str]:
    folder = project.path / "cassettes"
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_by_default_nothing_is_asked_and_a_miss_fails(project: pytest.Pytester) -> None:
    write_tests(
        project,
        """
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_one(model_cassette):
    await ask("Hello")
""",
    )
    result = project.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*CassetteMissError: *test_one*no such file*", "*--record=new*"])
    assert not (project.path / "cassettes").exists()


def test_once_records_a_file_per_test_and_then_replays(project: pytest.Pytester) -> None:
    body = """
@pytest.mark.anyio
async def test_async(model_cassette):
    assert await ask("Hello", ANSWERS) == "answer"

@pytest.mark.parametrize("word", ["a", "A", "x/y", "x:y", "n" * 200])
def test_sync(model_cassette, word):
    import anyio
    assert anyio.run(ask, word, ANSWERS) == "answer"

class TestGroup:
    def test_sync(self, model_cassette):
        import anyio
        assert anyio.run(ask, "b", ANSWERS) == "answer"

def test_without_questions(model_cassette):
    assert model_cassette.recorded == 0
"""
    write_tests(project, body.replace("ANSWERS", "('answer',)"))
    assert outcomes(project, "--record=once") == {"passed": 9}
    names = files(project)
    assert len({name.lower() for name in names}) == 7
    expected = {"test_it/test_async.yaml", "test_it/test_sync[a].yaml", "test_it/TestGroup.test_sync.yaml"}
    assert expected < set(names)
    assert all(len(name) < 130 for name in names)
    write_tests(project, body.replace("ANSWERS", "()"))
    assert outcomes(project) == {"passed": 9}


def test_a_test_that_fails_writes_nothing_and_is_reported_once(project: pytest.Pytester) -> None:
    write_tests(
        project,
        """
import anyio

def test_fails(model_cassette):
    assert anyio.run(ask, "Hello") == "other"

def test_skips(model_cassette):
    anyio.run(ask, "Hello")
    pytest.skip("enough")
""",
    )
    assert outcomes(project, "--record=all") == {"failed": 1, "skipped": 1}
    assert not (project.path / "cassettes").exists()
    assert outcomes(project) == {"failed": 2}


def test_a_miss_that_a_test_swallowed_is_an_error_at_its_end(project: pytest.Pytester) -> None:
    write_tests(
        project,
        """
import anyio

def test_swallows(model_cassette):
    try:
        anyio.run(ask, "Hello")
    except nh.NighthawkError:
        pass
""",
    )
    assert outcomes(project) == {"passed": 1, "errors": 1}


def test_all_and_new_do_what_they_say(project: pytest.Pytester) -> None:
    body = "\nimport anyio\n\ndef test_it(model_cassette):\n    anyio.run(ask, WORD)\n"
    for word, mode in (("'one'", "once"), ("'two'", "new"), ("'three'", "all")):
        write_tests(project, body.replace("WORD", word))
        assert outcomes(project, f"--record={mode}") == {"passed": 1}
        text = Path(project.path, "cassettes", "test_it", "test_it.yaml").read_text(encoding="utf-8")
        assert ("user: one" in text) is (mode != "all")
        assert f"user: {word.strip(chr(39))}" in text


def test_a_marker_names_another_file_and_a_fixture_more_to_redact(project: pytest.Pytester) -> None:
    write_tests(
        project,
        """
import anyio

@pytest.fixture
def cassette_redactions():
    return ["Ada"]

@pytest.mark.cassette("shared/hello.yaml")
def test_it(model_cassette):
    anyio.run(ask, "Hello Ada")
""",
    )
    assert outcomes(project, "--record=once") == {"passed": 1}
    assert files(project) == ["shared/hello.yaml"]
    text = (project.path / "cassettes" / "shared" / "hello.yaml").read_text(encoding="utf-8")
    assert "user: Hello [redacted]" in text
    assert outcomes(project) == {"passed": 1}


def test_a_marker_without_a_file_is_refused(project: pytest.Pytester) -> None:
    write_tests(project, "\n@pytest.mark.cassette\ndef test_it(model_cassette):\n    pass\n")
    assert outcomes(project) == {"errors": 1}


def test_it_holds_in_contexts_that_were_made_before_it(project: pytest.Pytester) -> None:
    """An async fixture of a module keeps AnyIO's test runner, and with it an older context, alive."""
    write_tests(
        project,
        """
@pytest.fixture(scope="module")
async def early(anyio_backend):
    yield

@pytest.mark.anyio
async def test_it(early, model_cassette):
    assert await ask("Hello", ANSWERS) == "answer"
""".replace("ANSWERS", "('answer',)"),
    )
    assert outcomes(project, "--record=once") == {"passed": 2}
    assert files(project) == ["test_it/test_it.yaml"]


def test_it_holds_in_tests_of_pytest_trio(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider")
    body = (
        "\n@pytest.mark.trio\nasync def test_it(model_cassette):\n    assert await ask('Hello') == 'answer'\n"
    )
    write_tests(pytester, body)
    assert outcomes(pytester, "--record=once") == {"passed": 1}
    write_tests(pytester, body.replace("'Hello'", "'Hello', ()"))
    assert outcomes(pytester) == {"passed": 1}


def test_no_key_is_needed_to_replay_with_an_executor_made_in_a_fixture(project: pytest.Pytester) -> None:
    write_tests(
        project,
        """
@pytest.fixture
def executor(model_cassette, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return nh.AgentStepExecutor.from_configuration(
        configuration=nh.StepExecutorConfiguration(model="openai-chat:gpt-5-nano")
    )

def test_it(executor):
    assert executor.model.name == "openai-chat:gpt-5-nano"
""",
    )
    assert outcomes(project) == {"passed": 1}
    assert outcomes(project, "--record=new") == {"errors": 1}


def test_natural_functions_are_checked_on_request(project: pytest.Pytester) -> None:
    body = "@nh.natural_function\ndef act():\n    '''natural\n    Use <{}>.\n    '''\n"
    project.makepyfile(bad="import nighthawk_async as nh\n" + body.format("nowhere"))
    project.makepyfile(good="import nighthawk_async as nh\n" + body.format("print"))
    result = project.runpytest_inprocess("--natural-check=bad.py", "--natural-check=good.py")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*bad.py:4:5: NH002 the block uses <nowhere>*"])
    assert project.runpytest_inprocess("--natural-check=none.py").parseoutcomes() == {"failed": 1}


def test_one_recording_serves_all_event_loops_of_a_test(project: pytest.Pytester) -> None:
    body = """
import itertools
COUNT = itertools.count()

@pytest.mark.anyio
@pytest.mark.parametrize("word", ["a", "trio-asyncio"])
async def test_words(model_cassette, word):
    assert await ask(word, [f"answer {next(COUNT)}"]) == f"answer {['a', 'trio-asyncio'].index(word)}"

@pytest.mark.anyio
@pytest.mark.parametrize(
    "anyio_backend",
    [pytest.param(("asyncio", {"debug": True}), id="debugging"), pytest.param("trio", id="trio")],
)
@pytest.mark.parametrize("word", ["a"])
async def test_options(model_cassette, word):
    assert await ask(word) == "answer"

@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_own(model_cassette, backend):
    import anyio
    assert anyio.run(ask, "own", backend=backend) == "answer"

@pytest.mark.parametrize("backend", ["local", "remote"])
def test_no_loop(model_cassette, backend):
    import anyio
    assert anyio.run(ask, backend) == "answer"
"""
    write_tests(project, body)
    expected = [
        *("test_no_loop[local].yaml", "test_no_loop[remote].yaml", "test_options[a].yaml", "test_own.yaml"),
        *("test_words[a].yaml", "test_words[trio-asyncio].yaml"),
    ]
    for mode in ("once", "all"):
        assert outcomes(project, f"--record={mode}") == {"passed": 10}
        assert files(project) == [f"test_it/{name}" for name in expected]
    assert outcomes(project) == {"passed": 10}


def test_a_recording_of_one_event_loop_is_still_read(project: pytest.Pytester) -> None:
    write_tests(project, "\n@pytest.mark.anyio\nasync def test_it(model_cassette):\n    await ask('Hello')\n")
    assert outcomes(project, "--record=once") == {"passed": 2}
    folder = project.path / "cassettes" / "test_it"
    text = (folder / "test_it.yaml").read_text(encoding="utf-8")
    for name in ("test_it[asyncio].yaml", "test_it[trio].yaml"):
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "test_it.yaml").unlink()
    assert outcomes(project) == {"passed": 2}
    assert outcomes(project, "--record=once") == {"passed": 2}
    assert files(project) == ["test_it/test_it[asyncio].yaml", "test_it/test_it[trio].yaml"]


def test_the_plugin_may_be_named_in_a_conftest_or_turned_off(project: pytest.Pytester) -> None:
    write_tests(project, "\ndef test_it(model_cassette):\n    pass\n")
    assert outcomes(project) == {"passed": 1}
    for name in ("nighthawk_async", pytest_plugin.__name__):
        assert outcomes(project, "-p", f"no:{name}") == {"errors": 1}
        assert outcomes(project, "-p", name) == {"passed": 1}
    project.makeconftest(CONFTEST)
    assert outcomes(project) == {"passed": 1}
    assert outcomes(project, "-p", "no:nighthawk_async") == {"passed": 1}


def test_options_of_the_project_keep_their_names(project: pytest.Pytester) -> None:
    project.makeconftest(
        "def pytest_addoption(parser):\n"
        "    parser.addoption('--record', action='store_true')\n"
        "    parser.addoption('--baseline', default='none')\n"
    )
    write_tests(
        project,
        """
def test_it(request, model_cassette):
    assert request.config.getoption("--record") is True
    assert request.config.getoption("baseline") == "none"
    assert model_cassette.mode == "new"
""",
    )
    assert outcomes(project, "--record", "--nighthawk-record=new") == {"passed": 1}


def test_tests_that_use_none_of_it_load_none_of_it(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_it="""
import sys

def test_it():
    loaded = {name for name in sys.modules if name.startswith("nighthawk_async.")}
    rooms = ("evals.marks", "lazy_exports", "testing", "tracing", "evals")
    expected = {f"nighthawk_async.{room}" for room in rooms}
    assert {name for name in loaded if not name.startswith("nighthawk_async.testing.pytest_")} == expected
    import nighthawk_async.errors
    assert "Rewriting" not in type(nighthawk_async.errors.__loader__).__name__
"""
    )
    project.makeini("")
    result = project.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "no:asyncio")
    result.assert_outcomes(passed=1)
