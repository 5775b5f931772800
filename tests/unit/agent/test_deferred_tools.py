"""Deferred tools: looked for with `nh_find_tools`, and appended to the tools of later requests."""

import re
from collections.abc import Awaitable, Callable

import pytest

import nighthawk_async as nh
from nighthawk_async.agent.tool_search import ranked, words_of
from nighthawk_async.kernel.tools import GLOBAL_TOOLS
from nighthawk_async.runtime import ForeignTool, make_tool_function
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call
from tests.specification.scripted_steps import PASS, ScriptedSteps, evaluating

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("specification_profile")]

PROVIDED = ["nh_eval", "nh_assign", "nh_exec", "nh_find_tools", "nh_outcome"]


def foreign(name: str, description: str = "", *parameters: str) -> ForeignTool:
    schema = {"type": "object", "properties": {each: {"type": "string"} for each in parameters}}
    return ForeignTool(name=name, description=description, parameters=schema, function=dict)


def list_issues(repository: str, limit: int = 10) -> list[str]:
    """List the issues of a repository."""
    return [f"{repository}#{number}" for number in range(limit)]


def close_issue(number: int) -> str:
    """Close one issue."""
    return f"closed {number}"


def send_mail(recipient: str, text: str) -> None:
    """Send a mail to a customer."""


def look_at(path: str) -> None:
    """Look at a file."""


DEFERRED = nh.tool_set([list_issues, close_issue, send_mail], deferred=True)


@pytest.fixture(autouse=True)
def _no_tools_of_other_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GLOBAL_TOOLS, "_tools", {})


@nh.natural_function
async def work() -> object:
    """natural
    Work with the tools.
    """


def finding(query: str) -> nh.models.ToolCall:
    return tool_call("nh_find_tools", query=query)


def offered(steps: ScriptedSteps) -> list[list[str]]:
    return [[tool.name for tool in request.tools] for request in steps.model.requests]


def described(steps: ScriptedSteps, position: int = 0) -> str:
    (text,) = steps.results[position].content
    assert isinstance(text, str)
    return text


# ---- finding and calling


async def test_found_tools_are_appended_and_can_be_called_from_the_next_request_on() -> None:
    steps = ScriptedSteps(
        finding("close issues"),
        (finding("mail"), tool_call("close_issue", number=7)),
        tool_call("list_issues", repository="r", limit=1),
        PASS,
    )
    async with nh.run(steps.executor, tools=[DEFERRED]):
        await work()
    assert offered(steps) == [
        PROVIDED,
        [*PROVIDED, "close_issue", "list_issues"],
        [*PROVIDED, "close_issue", "list_issues", "send_mail"],
        [*PROVIDED, "close_issue", "list_issues", "send_mail"],
    ]
    assert "list_issues" in described(steps)
    assert "List the issues of a repository." in described(steps)
    assert "repository: string, limit?: integer" in described(steps)
    assert '"closed 7"' in described(steps, 2)
    assert "r#0" in described(steps, 3)
    assert steps.model.requests[-1].tools[-3:] == tuple(
        make_tool_function(each).definition for each in (close_issue, list_issues, send_mail)
    )


async def test_tools_found_again_keep_their_places() -> None:
    steps = ScriptedSteps((finding("mail"), finding("issues")), (finding("issues"), finding("mail")), PASS)
    async with nh.run(steps.executor, tools=[DEFERRED]):
        await work()
    assert offered(steps)[1] == offered(steps)[2] == [*PROVIDED, "send_mail", "close_issue", "list_issues"]


async def test_every_step_begins_without_found_tools() -> None:
    steps = ScriptedSteps(finding("mail"), PASS, PASS)
    async with nh.run(steps.executor, tools=[DEFERRED]):
        await work()
        await work()
    assert offered(steps) == [PROVIDED, [*PROVIDED, "send_mail"], PROVIDED]


async def test_deferred_tools_stand_behind_listed_ones() -> None:
    steps = ScriptedSteps(finding("issue"), PASS)
    async with nh.run(steps.executor, tools=[send_mail, nh.tool_set([list_issues], deferred=True)]):
        await work()
    assert offered(steps)[1] == [*PROVIDED[:-1], "send_mail", "nh_outcome", "list_issues"]


async def test_a_tool_that_is_offered_in_both_ways_is_listed() -> None:
    steps = ScriptedSteps(PASS)
    async with nh.run(steps.executor, tools=[DEFERRED]):
        with nh.scope(tools=[send_mail, list_issues, close_issue]):
            await work()
    assert offered(steps) == [["nh_eval", "nh_assign", "nh_exec", *DEFERRED_NAMES, "nh_outcome"]]


DEFERRED_NAMES = ["list_issues", "close_issue", "send_mail"]


async def test_prompts_are_the_same_with_deferred_tools() -> None:
    prompts: list[object] = []
    for tools in ([], [DEFERRED]):
        steps = ScriptedSteps(PASS)
        async with nh.run(steps.executor, tools=tools):
            await work()
        request = steps.model.requests[0]
        prompts.append((request.system_prompt, request.messages))
    assert prompts[0] == prompts[1]


# ---- refusals


async def test_a_tool_that_was_not_found_is_refused_and_the_model_is_sent_to_look_for_it() -> None:
    steps = ScriptedSteps(tool_call("close_issue", number=7), tool_call("close_it", number=7), PASS)
    async with nh.run(steps.executor, tools=[DEFERRED]):
        await work()
    first, second = (envelope["error"] for envelope in steps.envelopes)
    assert first == {
        "kind": "resolution",
        "message": "the tool 'close_issue' has to be found before it can be called",
        "guidance": "Look for it with nh_find_tools, and call it in your next response.",
    }
    assert second["guidance"] == "Tools: nh_eval, nh_assign, nh_exec, nh_find_tools."


@pytest.mark.parametrize("is_governed", [False, True])
async def test_a_tool_that_was_found_in_the_same_response_is_refused(is_governed: bool) -> None:
    steps = ScriptedSteps((finding("close"), tool_call("close_issue", number=7)), PASS)
    permissions = nh.permissions(default="allow") if is_governed else None
    async with nh.run(steps.executor, tools=[DEFERRED], permissions=permissions):
        await work()
    assert steps.envelopes[-1]["error"]["message"] == "the tool 'close_issue' was found only in this response"


@pytest.mark.parametrize("query", ["", " ... ", "of the"])
async def test_a_query_without_words_is_refused(query: str) -> None:
    steps = ScriptedSteps(finding(query), PASS)
    async with nh.run(steps.executor, tools=[DEFERRED]):
        await work()
    assert steps.envelopes[0]["error"]["kind"] == "invalid_input"


async def test_a_query_that_fits_nothing_finds_nothing() -> None:
    steps = ScriptedSteps(finding("weather"), PASS)
    async with nh.run(steps.executor, tools=[DEFERRED]):
        await work()
    assert steps.envelopes[0] == {"value": [], "error": None}
    assert offered(steps)[1] == PROVIDED


async def test_without_deferred_tools_there_is_no_search() -> None:
    steps = ScriptedSteps(finding("mail"), PASS)
    async with nh.run(steps.executor, tools=[send_mail, nh.tool_set([], deferred=True)]):
        await work()
    assert "nh_find_tools" not in offered(steps)[0]
    assert steps.envelopes[0]["error"]["message"] == "there is no tool named 'nh_find_tools'"


async def test_permissions_apply_to_the_search_and_to_found_tools() -> None:
    steps = ScriptedSteps(
        finding("issue"), (tool_call("close_issue", number=7), tool_call("list_issues", repository="r")), PASS
    )
    permissions = nh.permissions(allow=["list_*"], default="deny")
    async with nh.run(steps.executor, tools=[DEFERRED], permissions=permissions):
        await work()
    assert [result.is_error for result in steps.results] == [False, True, False]

    steps = ScriptedSteps(finding("issue"), PASS)
    async with nh.run(
        steps.executor, tools=[DEFERRED], permissions=nh.permissions(deny=["nh_find_tools"], default="allow")
    ):
        await work()
    assert steps.results[0].is_error
    assert offered(steps)[1] == PROVIDED


async def test_a_tool_without_a_schema_fails_the_step_that_finds_it() -> None:
    def odd(value: Callable[[], Awaitable[None]]) -> None:
        """Do something odd."""

    tools = [nh.tool_set([odd, send_mail], deferred=True)]
    async with nh.run(ScriptedSteps(PASS).executor, tools=tools):
        await work()
    async with nh.run(ScriptedSteps(finding("odd"), PASS).executor, tools=tools):
        with pytest.raises(nh.ToolRegistrationError, match="'odd' has no JSON Schema"):
            await work()


async def test_a_block_may_name_the_search_only_if_it_is_on_offer() -> None:
    with_tools = ScriptedSteps(PASS)
    async with nh.run(with_tools.executor, tools=[DEFERRED]):
        await nh.step("Look with nh_find_tools.")
    async with nh.run(ScriptedSteps(PASS).executor):
        with pytest.raises(nh.ConfigurationError, match="offer deferred tools"):
            await nh.step("Look with nh_find_tools.")


async def test_the_search_of_the_provider_is_never_replaced_silently() -> None:
    steps = ScriptedSteps(PASS)
    native = nh.tool_set([look_at], deferred=True, search="native")
    message = f"{steps.model.name}: search='native'.*'tool_search'"
    async with nh.run(steps.executor, tools=[DEFERRED, native]):
        with pytest.raises(nh.ConfigurationError, match=message):
            await work()
    assert steps.model.requests == []


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        ("openai-chat:gpt-5.4", "use openai-responses:gpt-5.4"),
        ("openai-responses:gpt-5.2", "capabilities={'tool_search': True}"),
        ("google:gemini-3.6-flash", "choose search='lexical'"),
    ],
)
async def test_models_without_a_search_are_refused_before_the_first_request(
    model: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "none")
    async with nh.run(model, tools=[NATIVE]):
        with pytest.raises(nh.ConfigurationError, match=re.escape(advice)):
            await work()


# ---- the search of the provider


NATIVE = nh.tool_set([list_issues, close_issue], deferred=True, search="native")
SEARCHING = nh.models.ModelCapabilities(tool_search=True)


async def test_a_provider_that_searches_gets_all_tools_and_marks() -> None:
    model = ScriptedModel(
        [model_response(tool_call("close_issue", number=7)), model_response(PASS)], capabilities=SEARCHING
    )
    async with nh.run(model, tools=[send_mail, NATIVE]):
        await work()
    first, second = model.requests
    assert {tool.name: tool.is_deferred for tool in first.tools} == {
        **dict.fromkeys(("nh_eval", "nh_assign", "nh_exec", "nh_outcome", "send_mail"), False),
        **dict.fromkeys(("list_issues", "close_issue"), True),
    }
    assert second.tools == first.tools
    assert '"closed 7"' in str(second.messages[-1])


async def test_a_response_that_the_provider_paused_is_sent_back_and_goes_on() -> None:
    content = nh.models.ProviderContent(protocol="tested", items=({"type": "server_tool_use"},))
    paused = ModelResponse(events=(nh.models.ResponseFinished(reason="pause", provider_content=content),))
    model = ScriptedModel([paused, model_response(PASS)], capabilities=SEARCHING)
    async with nh.run(model, tools=[NATIVE]):
        await work()
    assert len(model.requests) == 2
    (*_, last) = model.requests[1].messages
    assert isinstance(last, nh.models.AssistantMessage)
    assert last.provider_content == content


async def test_a_pause_without_end_meets_the_limit_of_turns() -> None:
    content = nh.models.ProviderContent(protocol="tested", items=({"type": "server_tool_use"},))
    paused = ModelResponse(events=(nh.models.ResponseFinished(reason="pause", provider_content=content),))
    model = ScriptedModel(lambda request: paused, capabilities=SEARCHING)
    configuration = nh.StepExecutorConfiguration(max_turns=3)
    executor = nh.AgentStepExecutor.from_model(model, configuration=configuration)
    async with nh.run(executor, tools=[NATIVE]):
        with pytest.raises(nh.errors.StepLimitError, match="after 3 model requests"):
            await work()


# ---- agents of the user's own


class Finding:
    """An agent that looks for a tool and calls it."""

    def __init__(self) -> None:
        self.found: list[list[str]] = []
        self.results: list[nh.models.ToolResult] = []

    async def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
        for call in (finding("close"), tool_call("close_issue", number=7)):
            await task.turn_boundary()
            self.found.append([tool.name for tool in task.found_tools()])
            self.results.append(await task.begin_tool_call(call)())
        return await task.take_answer({"kind": "pass"})


async def test_an_agent_gets_the_found_tools() -> None:
    agent = Finding()
    async with nh.run(nh.AgentStepExecutor.from_agent(agent=agent), tools=[DEFERRED]):
        await work()
    assert agent.found == [[], ["close_issue"]]
    assert '"closed 7"' in str(agent.results[1].content[0])


# ---- ranking


def names(query: str, *tools: ForeignTool) -> list[str]:
    return [tool.name for tool in ranked(query, tools)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("list_issues", ["list", "issu"]),
        ("listIssues", ["list", "issu"]),
        ("HTTPServer2", ["http", "server", "2"]),
        ("Closes the files, creating boxes", ["clos", "fil", "creat", "box"]),
        ("class and classes", ["class", "class"]),
        ("größe_der Datei", ["größ", "der", "datei"]),
    ],
)
def test_words_are_compared_without_case_and_endings(text: str, words: list[str]) -> None:
    assert [*words_of(text)] == words


def test_a_name_counts_more_than_a_description_or_a_parameter() -> None:
    tools = (foreign("a", "Send it."), foreign("b", "", "send"), foreign("send_c"))
    assert names("send", *tools) == ["send_c", "a", "b"]


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    tools = [foreign(f"get_{name}", "Get an item of the account.") for name in ("user", "invoice", "card")]
    assert names("get the invoice", *tools) == ["get_invoice", "get_card", "get_user"]


def test_ties_are_in_the_order_of_names_whatever_the_order_of_tools() -> None:
    tools = [foreign(f"tool_{letter}", "Send.") for letter in "dacb"]
    assert names("send", *tools) == names("send", *reversed(tools)) == [f"tool_{letter}" for letter in "abcd"]


async def test_a_search_finds_ten_tools_at_most() -> None:
    steps = ScriptedSteps(finding("send"), PASS)
    tools = nh.tool_set([foreign(f"send_{number:02}") for number in range(25)], deferred=True)
    async with nh.run(steps.executor, tools=[tools]):
        await work()
    assert offered(steps)[1] == [*PROVIDED, *(f"send_{number:02}" for number in range(10))]


async def test_a_step_with_deferred_tools_does_without_them() -> None:
    steps = ScriptedSteps(evaluating("1 + 1"), PASS)
    async with nh.run(steps.executor, tools=[DEFERRED]):
        await work()
    assert offered(steps) == [PROVIDED, PROVIDED]
