"""What stands under names of secrets is not shown to models, unless the program or a setting says so."""

from collections import namedtuple
from dataclasses import dataclass, field

import pytest
from pydantic import BaseModel, SecretStr

import nighthawk_async as nh
from nighthawk_async import observe
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

pytestmark = pytest.mark.anyio

SECRET = "hunter2-the-secret"
DONE = tool_call("nh_outcome", kind="pass")

Login = namedtuple("Login", ["user", "password"])


class Settings(BaseModel):
    host: str = "mail.example.com"
    api_key: str = SECRET
    masked: SecretStr = SecretStr(SECRET)


@dataclass
class Client:
    name: str = "mailer"
    password: str = SECRET
    token: str = SECRET
    secret: str = SECRET
    max_tokens: int = 4711
    settings: Settings = field(default_factory=Settings)

    def connect(self, password: str = SECRET) -> None:
        """Connect."""


class Slotted:
    __slots__ = ("auth_token", "name")

    def __init__(self) -> None:
        self.auth_token = SECRET
        self.name = "slots"


def logins() -> list[object]:
    return [
        {"user": "ada", "password": SECRET, "headers": {"Authorization": SECRET, "X-Name": "seen-header"}},
        Login("bob", SECRET),
        Client(),
        Slotted(),
    ]


access_token = SECRET


@nh.natural_function
async def send(
    client: Client, slotted: Slotted, accounts: list[object], api_key: str, key_points: str
) -> None:
    """natural
    Send a mail with <client>, <slotted> and <accounts>.
    """


@nh.natural_function
async def find(client: Client, slotted: Slotted, accounts: list[object], api_key: str) -> str:
    found = ""
    """natural
    Find a login of <client>, <slotted> or <accounts>, and set <:found>.
    """
    return found


@nh.natural_function
async def classify(token: str) -> None:
    """natural
    Say what part of speech <token> is.
    """


def prompt_of(model: ScriptedModel) -> str:
    return "".join(str(part) for message in model.requests[-1].messages for part in message.content)


async def ask(model: ScriptedModel, configuration: nh.StepExecutorConfiguration | None = None) -> str:
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
        await send(Client(), Slotted(), logins(), SECRET, "seen-points")
    return prompt_of(model)


async def test_a_prompt_shows_no_secret() -> None:
    prompt = await ask(ScriptedModel([model_response(DONE)]))
    assert SECRET not in prompt
    for line in (
        'client.password: str = "<hidden>"',
        'client.token: str = "<hidden>"',
        'client.secret: str = "<hidden>"',
        'slotted.auth_token: str = "<hidden>"',
        'api_key: str = "<hidden>"',
        "client.max_tokens: int = 4711",
        'key_points: str = "seen-points"',
    ):
        assert line in prompt
    assert '"api_key": "<hidden>"' in prompt
    assert '"Authorization": "<hidden>"' in prompt
    assert "password: str = <hidden>" in prompt  # the default of a parameter
    for shown in ("mail.example.com", "seen-header", "bob", "slots"):
        assert shown in prompt


async def test_a_setting_shows_them() -> None:
    configuration = nh.StepExecutorConfiguration(show_secrets=True)
    prompt = await ask(ScriptedModel([model_response(DONE)]), configuration)
    assert f'client.password: str = "{SECRET}"' in prompt
    assert f'api_key: str = "{SECRET}"' in prompt
    assert f'"Authorization": "{SECRET}"' in prompt


async def test_a_variable_that_the_program_names_is_shown() -> None:
    model = ScriptedModel([model_response(DONE)])
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        await classify("kettle")
    assert 'token: str = "kettle"' in prompt_of(model)


async def test_tool_results_show_no_secret() -> None:
    look = tool_call("nh_eval", expression="accounts")
    assert SECRET not in await ask(ScriptedModel([model_response(look), model_response(DONE)]))
    shown = ScriptedModel([model_response(look), model_response(DONE)])
    await ask(shown, nh.StepExecutorConfiguration(show_secrets=True))
    assert SECRET in str(shown.requests[-1].messages[-1].content)


async def test_the_tree_shows_no_secret() -> None:
    with observe.recording() as tree:
        await ask(ScriptedModel([model_response(DONE)]))
    assert SECRET not in repr(tree.snapshot())


@pytest.mark.parametrize(
    "expression",
    [
        "client.password",
        "api_key",
        "accounts[0]['password']",
        'accounts[0]["headers"]["Authorization"]',
        "slotted.auth_token ",
    ],
)
async def test_an_expression_that_only_reads_a_secret_shows_none(expression: str) -> None:
    for call in (
        tool_call("nh_eval", expression=expression),
        tool_call("nh_assign", target_path="found", expression=expression),
    ):
        model = ScriptedModel([model_response(call), model_response(DONE)])
        async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
            await find(Client(), Slotted(), logins(), SECRET)
        told = model.requests[-1].messages[-1]
        assert "<hidden>" in str(told.content)
        assert SECRET not in str(told.content)


async def test_what_is_hidden_can_be_used() -> None:
    model = ScriptedModel(
        [model_response(tool_call("nh_assign", target_path="found", expression="client.password"), DONE)]
    )
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await find(Client(), Slotted(), [], "") == SECRET


async def test_an_expression_that_reads_what_the_program_names_shows_it() -> None:
    model = ScriptedModel([model_response(tool_call("nh_eval", expression="token")), model_response(DONE)])
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        await classify("kettle")
    assert "kettle" in str(model.requests[-1].messages[-1].content)
