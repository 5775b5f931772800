"""What Codex is started with, and what its threads may use."""

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from nighthawk_async.coding_agents.codex_host import (
    KEY_VARIABLE,
    codex_home,
    launch_of,
    thread_parameters,
    toml,
)
from nighthawk_async.coding_agents.settings import CodexSettings
from nighthawk_async.configuration import parse_model_id
from nighthawk_async.executors import CodingAgentError


def thread(model: str = "codex:default", **settings: Any) -> dict[str, Any]:
    return thread_parameters(
        parse_model_id(model),
        CodexSettings(**settings),
        directory="/repository",
        instructions="Do it.",
        tools=(),
        gate=None,
    )


def test_the_default_model_is_left_to_codex() -> None:
    assert "model" not in thread()
    assert thread("codex:gpt-5.5")["model"] == "gpt-5.5"


def test_everything_is_off_by_default() -> None:
    parameters = thread(sandbox="danger-full-access")
    configuration = parameters["config"]
    assert (parameters["sandbox"], parameters["approvalPolicy"]) == ("read-only", "never")
    assert configuration["web_search"] == "disabled"
    assert configuration["project_doc_max_bytes"] == 0
    assert configuration["skills"]["include_instructions"] is False
    on = [name for name, value in configuration["features"].items() if value is True]
    assert on == []


def test_what_is_asked_for_is_on() -> None:
    settings = {"native_tools": ["shell"], "sandbox": "workspace-write", "skills": True}
    parameters = thread(**settings, setting_sources=["project"], reasoning_effort="high")
    configuration = parameters["config"]
    assert parameters["sandbox"] == "workspace-write"
    assert configuration["features"]["shell_tool"] is True
    assert configuration["features"]["unified_exec_tty"] is False
    assert configuration["features"]["view_image"] is False
    assert configuration["model_reasoning_effort"] == "high"
    assert configuration["skills"]["include_instructions"] is True
    assert "project_doc_max_bytes" not in configuration


def test_a_key_is_no_argument() -> None:
    launch = launch_of(CodexSettings(base_url="http://127.0.0.1:1/v1", api_key="sk-hush"))  # pyright: ignore
    assert "sk-hush" not in " ".join(launch.arguments)
    assert dict(launch.variables) == {KEY_VARIABLE: "sk-hush"}
    assert launch.api_key is None
    assert launch_of(CodexSettings(api_key="sk-hush")).api_key == "sk-hush"  # pyright: ignore


def test_equal_settings_share_a_process() -> None:
    first, second = CodexSettings(native_tools=("shell",)), CodexSettings(working_directory="/")
    assert launch_of(first) == launch_of(second)
    assert launch_of(first) != launch_of(CodexSettings(environment={"A": "1"}))


@given(
    st.recursive(
        st.booleans()
        | st.integers(-(2**31), 2**31)
        | st.text(st.characters(codec="utf-8", exclude_characters="\x7f")),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text("ab c.=", min_size=1), inner, max_size=3)
        ),
        max_leaves=6,
    )
)
def test_values_are_toml(value: object) -> None:
    assert tomllib.loads(f"value = {toml(value)}") == {"value": value}


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home directory of the user's Codex."""
    home = tmp_path / "users"
    home.mkdir()
    for name in ("OPENAI_API_KEY", "CODEX_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CODEX_HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return home


@pytest.mark.anyio
async def test_only_the_login_of_the_user_is_in_the_home_directory(users: Path, tmp_path: Path) -> None:
    for name in ("auth.json", "config.toml", "AGENTS.md"):
        (users / name).write_text("{}")
    async with codex_home(launch_of(CodexSettings())) as home:
        own = home.environment["CODEX_HOME"]
        assert os.listdir(own) == ["auth.json"]
        assert os.readlink(os.path.join(own, "auth.json")) == str(users / "auth.json")
        assert os.stat(own).st_mode & 0o077 == 0
        assert home.api_key is None
    assert os.listdir(tmp_path / "caches/nighthawk_async/codex") == []
    assert (users / "auth.json").read_text() == "{}"


@pytest.mark.anyio
async def test_keys_of_the_environment_count_where_there_is_no_login(
    users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    async with codex_home(launch_of(CodexSettings())) as home:
        assert home.api_key == "sk-1"
    async with codex_home(launch_of(CodexSettings(environment={"OPENAI_API_KEY": "sk-2"}))) as home:
        assert home.api_key == "sk-2"
    async with codex_home(launch_of(CodexSettings(base_url="http://127.0.0.1:1/v1"))) as home:
        assert home.api_key is None
    (users / "auth.json").write_text("{}")
    async with codex_home(launch_of(CodexSettings())) as home:
        assert home.api_key is None


@pytest.mark.anyio
async def test_the_home_directory_of_the_user_is_used_when_asked_for(users: Path) -> None:
    async with codex_home(launch_of(CodexSettings(setting_sources=("user",)))) as home:
        assert home.environment["CODEX_HOME"] == str(users)
    assert os.listdir(users) == []


@pytest.mark.anyio
async def test_directories_of_killed_programs_are_removed_and_those_of_others_are_not(
    users: Path, tmp_path: Path
) -> None:
    caches = tmp_path / "caches/nighthawk_async/codex"
    killed, half_made = caches / "a", caches / "b"
    killed.mkdir(parents=True)
    (killed / "lock").touch()
    (killed / "auth.json").symlink_to(users / "auth.json")
    (users / "auth.json").write_text("{}")
    half_made.mkdir()
    launch = launch_of(CodexSettings())
    async with codex_home(launch) as first, codex_home(launch) as second:
        assert {*os.listdir(caches)} == {os.path.basename(each.directory) for each in (first, second)}
    assert os.listdir(caches) == []
    assert (users / "auth.json").read_text() == "{}"


@pytest.mark.anyio
async def test_a_cache_directory_that_cannot_be_written_is_named(users: Path, tmp_path: Path) -> None:
    (tmp_path / "caches").write_text("")
    with pytest.raises(CodingAgentError, match=r"caches.*XDG_CACHE_HOME"):
        async with codex_home(launch_of(CodexSettings())):
            pass


def test_keys_are_not_shown() -> None:
    launch = launch_of(CodexSettings(api_key="sk-hush", environment={"TOKEN": "hush"}))  # pyright: ignore
    assert "hush" not in repr(launch)
