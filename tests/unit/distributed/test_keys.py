"""Keys of models stay in the program, for workers on other machines."""

import pytest
from pydantic import SecretStr

import nighthawk_async as nh
from nighthawk_async.distributed import CrossingError
from nighthawk_async.distributed.caller_scope import ScopeEncoder
from nighthawk_async.kernel.environment import find_environment

pytestmark = pytest.mark.anyio


def executor_with(**settings: object) -> nh.AgentStepExecutor:
    configuration = nh.StepExecutorConfiguration(model="openai-chat:any", model_settings=settings)
    return nh.AgentStepExecutor.from_configuration(configuration=configuration)


async def encoded_scope(executor: nh.AgentStepExecutor, *, carries_keys: bool) -> bytes:
    async with nh.run(executor):
        return ScopeEncoder(carries_keys=carries_keys).encode(find_environment(), None)
    raise AssertionError("unreachable")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"api_key": "sk-1"}, "the setting 'api_key' .* OPENAI_API_KEY"),
        ({"api_key": SecretStr("sk-1")}, "the setting 'api_key'"),
        ({"credentials": nh.credentials.bearer(lambda: "t")}, "the setting 'credentials'"),
        ({"extra_headers": {"Authorization": "Bearer sk-1"}}, "the setting 'extra_headers'"),
    ],
    ids=["key", "secret", "credentials", "header"],
)
async def test_a_key_in_the_settings_is_refused(
    settings: dict[str, object], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the environment's")
    with pytest.raises(CrossingError, match=named) as caught:
        await encoded_scope(executor_with(**settings), carries_keys=False)
    assert "sk-1" not in str(caught.value)


async def test_a_key_crosses_where_it_may() -> None:
    assert b"sk-1" in await encoded_scope(executor_with(api_key="sk-1"), carries_keys=True)


async def test_a_scope_without_keys_crosses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    body = await encoded_scope(executor_with(max_tokens=100), carries_keys=False)
    assert b"max_tokens" in body
    assert b"sk-1" not in body
