"""What models are told when something is refused: one scenario for each row of `docs/refusals.md`.

`python -m tests.docs.refusals` writes the page's rows anew.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.hooks import BeforeToolCall, Veto
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call

from .refusing_policies import (
    Answering,
    approve_other_items,
    approve_other_purse,
    asking,
    deny,
    leave_open,
    overseen,
    shop,
    shop_after_another,
    shop_beside_another,
)

__all__ = ["PAGE", "SCENARIOS", "Scenario", "Told", "told", "with_rows"]

PAGE = Path(__file__).parents[2] / "docs" / "refusals.md"

Transport: TypeAlias = Literal["tool", "native", "direct", "text", "piecemeal"]
ANSWERS: tuple[Transport, ...] = ("tool", "native", "direct")
CAPABILITIES: Mapping[Transport, nh.models.ModelCapabilities] = {
    "tool": nh.models.ModelCapabilities(),
    "native": nh.models.ModelCapabilities(default_transport="native", structured_output_with_tools=True),
    "direct": nh.models.ModelCapabilities(default_transport="direct", tools=False),
    "text": nh.models.ModelCapabilities(default_transport="direct", tools=False),
    "piecemeal": nh.models.ModelCapabilities(is_small=True, default_transport="direct", tools=False),
}
STARTS: Mapping[Transport, str] = {
    "native": "That outcome was refused: ",
    "direct": "That answer was refused: ",
    "text": "That outcome was refused: ",
    "piecemeal": "That answer was refused: ",
}


class Line(BaseModel):
    product: str
    quantity: int


class Invoice(BaseModel):
    number: str
    lines: list[Line]


class Account:
    @property
    def balance(self) -> int:
        return 0


class UnreadableError(Exception):
    """Nothing can be read."""


@nh.natural_function
async def read_invoice(text: str) -> Invoice | None:
    invoice: Invoice
    """natural
    Read <text> into <:invoice>. Raise <UnreadableError> when it is none.
    """
    return invoice


class Parser:
    """Made by code alone."""


@nh.natural_function
async def make_parser(text: str) -> Parser:
    parser: Parser
    """natural
    Set <:parser> to one for <text>.
    """
    return parser


@nh.natural_function
async def give_parser(text: str) -> Parser:
    """natural
    ---
    deny: [pass]
    ---
    Return one for <text>.
    """
    raise AssertionError("the block returns")


@nh.natural_function
async def count_words(text: str) -> int:
    """natural
    ---
    deny: [pass]
    ---
    Return how many words <text> has.
    """
    raise AssertionError("the block returns")


def lookup(name: str) -> str:
    raise KeyError(name)


def post(line: Line) -> str:
    return line.product


def with_deferred_tools() -> dict[str, object]:
    return {"tools": [nh.tool_set([post], deferred=True)]}


def with_skills() -> dict[str, object]:
    return {"skills": nh.skills.load(Path(__file__).parent / "skills")}


def overloaded() -> None:
    raise nh.ModelError("the server is busy", is_transient=True)


def closed() -> None:
    raise nh.errors.ToolBoundaryError(
        kind="execution", message="the shop is closed", guidance="Tell that it opens at nine."
    )


@nh.natural_function
async def look_up(text: str, account: Account) -> str:
    found: str
    """natural
    Set <:found> to what <lookup>, <overloaded> and <closed> give for <text> and <account>.
    """
    return found


Call: TypeAlias = Callable[[], Any]
READ: Call = lambda: read_invoice("two pears")  # noqa: E731
COUNT: Call = lambda: count_words("two pears")  # noqa: E731
MAKE: Call = lambda: make_parser("two pears")  # noqa: E731
GIVE: Call = lambda: give_parser("two pears")  # noqa: E731
LOOK_UP: Call = lambda: look_up("pears", Account())  # noqa: E731


def answer(**fields: object) -> "Given":
    """An answer, as each transport carries it."""
    return Given(fields=fields)


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a model gives: fields of an answer, a text or calls; and the message that arrives meanwhile."""

    fields: Mapping[str, object] | None = None
    text: str = ""
    calls: tuple[nh.models.ToolCall, ...] = ()
    is_cut: bool = False
    message: str = ""

    def response(self, transport: Transport) -> ModelResponse:
        if self.message:
            nh.get_current_step_actor().steer(self.message)
        reason: Any = "length" if self.is_cut else "stop"
        if transport == "tool":
            calls = self.calls
            if self.fields is not None:
                calls = (*calls, tool_call("nh_outcome", **self.fields))
            elif self.text.startswith("{"):
                calls = (nh.models.ToolCall(id="call", name="nh_outcome", arguments=self.text),)
            text = "" if calls else self.text
            return model_response(*calls, text=text, finish_reason="length" if self.is_cut else None)
        text = self.text if self.fields is None else json.dumps({"result": dict(self.fields)})
        return model_response(*self.calls, text=text, finish_reason=reason)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A refusal.

    Args:
        group: The heading in the page.
        when: What the model did.
        cause: By which word it is counted; None for what is no correction.
        given: What the model gave, turn by turn.
        call: What is called.
        transports: Where the same text is told.
        start: What comes before the text as a message, where that is not the usual.
        run: Arguments of the run.
        configuration: Settings of the executor.
        tools: Tools of the user's.
    """

    group: str
    when: str
    cause: str | None
    given: Sequence[Given]
    call: Call = READ
    transports: tuple[Transport, ...] = ANSWERS
    start: str | None = None
    run: Callable[[], Mapping[str, Any]] = dict
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tools: tuple[Callable[..., object], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the model was told, in the words of all transports and in its own, and how that was counted."""

    text: str
    message: str
    corrections: Mapping[str, int]


async def told(scenario: Scenario, transport: Transport) -> Told:
    """Provoke a refusal."""
    end = Given(fields={"kind": "raise", "raise_message": "enough"})
    last_given = Given(text="{}") if transport == "piecemeal" else end
    left = iter((*scenario.given, last_given))
    model = ScriptedModel(lambda _: next(left).response(transport), capabilities=CAPABILITIES[transport])
    configuration = nh.StepExecutorConfiguration(**scenario.configuration)
    executor = nh.AgentStepExecutor.from_model(model=model, configuration=configuration)
    async with nh.run(executor, **scenario.run()) as run:
        for function in scenario.tools:
            nh.tool(function)
        with suppress(Exception):  # how it ends does not matter
            await scenario.call()
    messages = model.requests[len(scenario.given)].messages
    after = max(at for at, each in enumerate(messages) if isinstance(each, nh.models.AssistantMessage)) + 1
    last = messages[after]
    text = _with_plain_steps(_text(last, transport, scenario))
    message = str(last.content[0]) if isinstance(last, nh.models.UserMessage) else text
    return Told(text=text, message=message, corrections=run.usage_meter.corrections)


def _text(message: nh.models.Message, transport: Transport, scenario: Scenario) -> str:
    if isinstance(message, nh.models.ToolResultsMessage):
        failed = [each for each in message.results if each.is_error]
        result = next((each for each in failed if each.name == "nh_outcome"), failed[0] if failed else None)
        if result is None:
            return str(message.results[0].content[-1])
        if scenario.group == CALLS:
            result = failed[-1]
        error = json.loads(str(result.content[0]))["error"]
        return "\n".join(filter(None, (f"{error['kind']}: {error['message']}", error["guidance"])))
    assert isinstance(message, nh.models.UserMessage)
    text = str(message.content[0])
    start = STARTS[transport] if scenario.start is None else scenario.start
    assert text.startswith(start), text
    again = "Answer again with JSON only."
    if not text.endswith(again):
        return text
    assert scenario.cause == "oversight" or text.startswith(STARTS[transport]), text
    text = text.removeprefix(start).removesuffix(again).rstrip().removesuffix(".")
    return f"invalid_input: {text}\nEnd the block again."


def _with_plain_steps(text: str) -> str:
    """The text with ids of steps that do not depend on the lines of these files."""
    found = dict.fromkeys(re.findall(r"[\w.]*refusing_policies:\d+", text))
    for number, each in enumerate(found, start=1):
        text = text.replace(each, f"shop:{number}0")
    return text


def read_skill(**arguments: object) -> Given:
    return Given(calls=(tool_call("nh_skill", **arguments),))


def evaluate(expression: str) -> Given:
    return Given(calls=(tool_call("nh_eval", expression=expression),))


def assign(**arguments: object) -> Given:
    return Given(calls=(tool_call("nh_assign", **arguments),))


def execute(statements: str) -> Given:
    return Given(calls=(tool_call("nh_exec", statements=statements),))


def hooked() -> Mapping[str, Any]:
    hooks = nh.Hooks()

    @hooks.on(BeforeToolCall)
    def veto(event: BeforeToolCall) -> Veto:
        return Veto("no lookups today", guidance="Use what the text says.")

    return {"hooks": hooks}


def too_rude(proposal: nh.oversight.Proposal) -> nh.oversight.Continue:
    return nh.oversight.Continue("the number is missing")


ANSWER = "Answers"
CALLS = "Tool calls"
POLICY = "Policies"
IN_TEXT = "Calls as text"
SMALL = "Small models"
RIGHT = {"number": "7", "lines": []}
WRONG = {"number": "7", "lines": [{"product": "pear", "quantity": 1}, {"product": "fig", "quantity": "two"}]}


def of_answer(
    when: str, cause: str | None, given: Given, transports: tuple[Transport, ...] = ANSWERS, **others: Any
) -> Scenario:
    others = {"group": ANSWER, **others}
    return Scenario(when=when, cause=cause, given=(given,), transports=transports, **others)


def of_call(when: str, cause: str | None, *given: Given, **others: Any) -> Scenario:
    others = {"group": CALLS, "call": LOOK_UP, **others}
    return Scenario(when=when, cause=cause, given=given, transports=("tool",), **others)


def of_text(when: str, text: str) -> Scenario:
    given = Given(text=text)
    return of_answer(when, "call_form", given, ("text",), group=IN_TEXT, call=LOOK_UP)


def of_shop(when: str, cause: str | None, *given: Given, **others: Any) -> Scenario:
    return of_call(when, cause, *given, **{"group": POLICY, "call": shop, **others})


TWO: tuple[Transport, ...] = ("tool", "native")
NAMED = {"context_limits": nh.StepContextLimits(visible_names="named"), "code": "python"}

SCENARIOS: tuple[Scenario, ...] = (
    of_text("Other text stands beside it", 'Let me see. {"result": {"kind": "call", "calls": []}}'),
    of_text("It is no JSON", '{"result": {"kind": "call", "calls": [}}'),
    of_text("It has other fields, or no calls", '{"result": {"kind": "call"}}'),
    of_text("There are no calls in it", '{"result": {"kind": "call", "calls": []}}'),
    of_text("A call has other fields", '{"result": {"kind": "call", "calls": [{"name": "lookup"}]}}'),
    of_text("The arguments are no object", '{"kind": "call", "calls": [{"name": "lookup", "arguments": 1}]}'),
    of_answer("A text that is no name of a result stands for one", "binding_value",
              Given(text='{"result": {"kind": "pass", "results": {"found": "lookup(1)"}}}'), ("text",),
              group=IN_TEXT, call=LOOK_UP),
    of_answer("It is no JSON", "not_json", Given(text="{kind: pass}")),
    of_answer("It is JSON, but no object", "not_json", Given(text="[1]"), ("native", "direct")),
    of_answer("It was cut off", "cut_off", Given(text='{"kind": "pa', is_cut=True)),
    *(of_answer("It is too long", "too_long", answer(kind="raise", raise_message="a" * 90), (transport,),
                configuration={"max_tool_argument_bytes": 80}) for transport in TWO),
    of_answer("It is text, where a call of `nh_outcome` ends the block", "no_outcome",
              Given(text="I am done."), ("tool",), start="That outcome was refused: "),
    of_answer("The kind is not allowed", "outcome_kind", answer(kind="break")),
    of_answer("A field is not one of the kind", "outcome_fields", answer(kind="pass", raise_message="done")),
    of_answer("A field is missing", "outcome_fields", answer(kind="return"), TWO),
    of_answer("A field is missing", "outcome_fields", answer(kind="return"), ("direct",)),
    of_answer("It gives a value and an expression", "outcome_fields",
              answer(kind="return", return_value=2, return_expression="2"), TWO, call=COUNT),
    of_answer("It gives an expression where there are none", "outcome_fields",
              answer(kind="return", return_expression="2"), ("direct",), call=COUNT),
    of_answer("It gives a message and an expression", "outcome_fields",
              answer(kind="raise", raise_message="no", raise_expression="UnreadableError()"), TWO),
    of_answer("The field `bindings` holds no object", "outcome_fields", answer(kind="pass", bindings=[])),
    of_answer("A field that holds text holds something else", "outcome_fields",
              answer(kind="raise", raise_message=1)),
    of_answer("A variable has a type that data cannot give", "binding_name",
              answer(kind="pass", bindings={"parser": {}}), TWO, call=MAKE),
    of_answer("A variable is not one of the block", "binding_name",
              answer(kind="pass", bindings={"bill": RIGHT})),
    of_answer("A value does not match its type", "binding_value",
              answer(kind="pass", bindings={"invoice": WRONG})),
    of_answer("A variable was left out", "binding_missing", answer(kind="pass")),
    of_answer("The return value does not match", "return_value",
              answer(kind="return", return_value="two"), call=COUNT),
    of_answer("The return value has a type that data cannot give", "return_value",
              answer(kind="return", return_value={}), TWO, call=GIVE),
    of_answer("A block that sets variables returns data", "return_value",
              answer(kind="return", return_value=RIGHT), TWO),
    of_answer("The expression of the return value fails", "return_expression",
              answer(kind="return", return_expression="len(txt)"), TWO, call=COUNT),
    of_answer("The value of that expression does not match", "return_value",
              answer(kind="return", return_expression="text"), TWO, call=COUNT),
    of_answer("An exception is not one that the block may raise", "raise_type",
              answer(kind="raise", raise_message="no", raise_error_type="KeyError")),
    of_answer("An expression gives no such exception", "raise_expression",
              answer(kind="raise", raise_expression="ValueError('no')"), TWO),
    of_answer("Calls before `nh_outcome` failed", "calls_failed",
              Given(calls=(tool_call("nh_eval", expression="txt"),), fields={"kind": "pass"}), ("tool",)),
    of_answer("Calls came after `nh_outcome`", "calls_after_outcome",
              Given(calls=(tool_call("nh_outcome", kind="pass"), tool_call("nh_eval", expression="1"))),
              ("tool",)),
    *(of_answer("A check does not accept it", "oversight",
                answer(kind="pass", bindings={"invoice": RIGHT}), (transport,), start=start,
                run=lambda: {"verify": too_rude})
      for transport, start in zip(ANSWERS, (None, "That outcome was ", "That answer was "), strict=True)),
    *(of_answer("A message for the model arrived while it answered", None,
                Given(fields={"kind": "pass", "bindings": {"invoice": RIGHT}}, message="Mind page two."),
                (transport,), start=start)
      for transport, start in zip(TWO, (None, "That outcome was "), strict=True)),
    of_call("The code is no Python", "invalid_input", evaluate("text +")),
    of_call("The expression is statements, and answers are strict", "invalid_input",
            evaluate("found = text.find('a')"), configuration={"answers": "strict"}),
    of_call("A name does not exist", "resolution", evaluate("txt")),
    of_call("What it calls raises", "execution", evaluate("lookup('fig')")),
    of_call("What it calls may succeed later", "transient", evaluate("overloaded()")),
    of_call("What it calls raises `ToolBoundaryError`", "execution", evaluate("closed()")),
    of_call("Statements are no Python", "invalid_input", execute("found =")),
    of_call("The value of `nh_assign` does not match", "invalid_input",
            assign(target_path="invoice", value=WRONG), call=READ),
    of_call("`nh_assign` has a value and an expression", "invalid_input",
            assign(target_path="found", value=1, expression="1")),
    of_call("Its path is no path", "invalid_input", assign(target_path="found[0]", value=1)),
    of_call("Its path is reserved", "invalid_input", assign(target_path="account.__class__", value=1)),
    of_call("The object of its path is no local name", "resolution",
            assign(target_path="accounts.balance", value=1)),
    of_call("The object of its path has no such field", "resolution",
            assign(target_path="account.owner.name", value="Ada")),
    of_call("The object refuses the value", "execution", assign(target_path="account.balance", value=1)),
    of_call("The arguments do not fit the tool", "invalid_input",
            Given(calls=(tool_call("nh_eval", code="1"),))),
    of_call("The arguments do not fit a tool of yours", "invalid_input",
            Given(calls=(tool_call("post", line={"product": "fig"}),)), tools=(post,)),
    of_call("The arguments do not fit a natural function", "invalid_input",
            evaluate("buy('figs')"), call=shop),
    of_call("The arguments are too long", "invalid_input", evaluate("'" + "a" * 90 + "'"),
            configuration={"max_tool_argument_bytes": 80}),
    of_call("There is no such tool", "resolution", Given(calls=(tool_call("search", query="fig"),))),
    of_call("The tool is deferred, and was not found yet", "resolution",
            Given(calls=(tool_call("post", line={"product": "fig"}),)), run=with_deferred_tools),
    of_call("It was found in the same response", "resolution",
            Given(calls=(tool_call("nh_find_tools", query="post"), tool_call("post", line={}))),
            run=with_deferred_tools),
    of_call("The query of `nh_find_tools` has no words", "invalid_input",
            Given(calls=(tool_call("nh_find_tools", query=""),)), run=with_deferred_tools),
    of_call("There is no such skill", "resolution", read_skill(name="ship"), run=with_skills),
    of_call("The skill has no such file", "resolution", read_skill(name="tidy-up", file="../x"),
            run=with_skills),
    of_call("The text of the skill ends before the offset", "invalid_input",
            read_skill(name="tidy-up", file="notes.md", offset=9), run=with_skills),
    of_call("The file of the skill is neither a text nor an image", "execution",
            read_skill(name="tidy-up", file="table.bin"), run=with_skills),
    of_call("The file of the skill is an image, and the model takes none", "invalid_input",
            read_skill(name="tidy-up", file="plan.png"), run=with_skills),
    of_call("The call has been made like this, with the same result", "invalid_input",
            *(evaluate("len(text)"),) * 3,
            configuration={"loop_guard": nh.executors.LoopGuard(warn_after=2, refuse_after=3, fail_after=5)}),
    of_call("It came after `nh_outcome`", "calls_after_outcome",
            Given(calls=(tool_call("nh_outcome", kind="pass"), tool_call("nh_eval", expression="1")))),
    of_call("It calls a natural function, and that many steps may not be within each other", "execution",
            evaluate("buy(basket)"), call=shop, run=lambda: {"max_depth": 1}),
    of_call("It changes what another step has bound, in a run with `concurrent_mutation=\"error\"`",
            "execution", evaluate("basket.append('pear')"), call=shop_beside_another,
            run=lambda: {"concurrent_mutation": "error"}),
    of_call("It uses what another step has changed meanwhile, in a run with `concurrent_mutation=\"first\"`",
            "execution", evaluate("basket.append('pear')"), call=shop_after_another,
            run=lambda: {"concurrent_mutation": "first"}),
    of_call("It calls what asks people, and one says no", "oversight", evaluate("confirm(basket)"),
            call=shop, run=lambda: {"human": Answering(deny)}),
    of_call("It calls what asks people, and nobody answers in time", "execution",
            evaluate("confirm_soon(basket)"), call=shop, run=lambda: {"human": Answering(leave_open)}),
    of_answer("A hook vetoes a value of an answer", "oversight",
              answer(kind="pass", bindings={"invoice": RIGHT}), group=POLICY, run=hooked),
    of_call("Permissions want people asked, and nobody is there", "oversight", evaluate("lookup('fig')"),
            group=POLICY,
            run=lambda: {"permissions": nh.permissions(ask=nh.policies.rule("lookup"), default="allow")}),
    of_call("Code reads a private attribute", "resolution", evaluate("account._rows"), group=POLICY),
    of_call("Code sets an attribute of a class, a function or a module", "resolution",
            execute("lookup.limit = 0"), group=POLICY),
    of_call("Code reads an internal attribute, with `visible_names=\"named\"`", "resolution",
            evaluate("account.__class__"),
            group=POLICY,
            configuration=NAMED),
    of_call("Code uses a name that the block does not name, with `visible_names=\"named\"`", "resolution",
            evaluate("post('fig')"), group=POLICY,
            configuration=NAMED),
    of_call("Code imports a module, with `visible_names=\"named\"`",
            "resolution", execute("import os"),
            group=POLICY, configuration=NAMED),
    of_call("A class pattern has positions, with `visible_names=\"named\"`", "resolution",
            execute("match account:\n    case Account(0): found = 'none'"), group=POLICY,
            configuration=NAMED),
    of_call("The arguments are no JSON, where policies look at them", "invalid_input",
            Given(calls=(nh.models.ToolCall(id="call", name="nh_eval", arguments="{expression}"),)),
            group=POLICY, run=hooked),
    of_call("A hook vetoes the call", "oversight", evaluate("lookup('fig')"), group=POLICY, run=hooked),
    of_call("Permissions deny it", "oversight", evaluate("lookup('fig')"), group=POLICY,
            run=lambda: {"permissions": nh.permissions(deny=nh.policies.rule("lookup"), default="allow")}),
    of_call("A skill that is active does not allow it", "oversight",
            Given(calls=(tool_call("nh_skill", name="ask-first"),
                         tool_call("nh_eval", expression="lookup('fig')"))), group=POLICY, run=with_skills),
    of_shop("Permissions want people asked, and one says no", "oversight", evaluate("order(basket)"),
            run=lambda: asking("order", deny)),
    of_shop("What a call is given has changed when the approval comes", "oversight",
            evaluate("order(basket)"), run=lambda: asking("order", approve_other_items)),
    of_shop("The object itself has changed when the approval comes", "oversight",
            evaluate("purse.pay(3)"), run=lambda: asking("Purse.pay", approve_other_purse)),
    of_shop("Permissions want people asked where code cannot wait", "oversight",
            evaluate("(lambda: order(basket))()"), run=lambda: asking("order")),
    of_shop("Permissions want people asked, and the function is handed over", "oversight",
            evaluate("list(map(order, [basket]))"), run=lambda: asking("order")),
    of_shop("Permissions deny a function that is handed over", "oversight",
            evaluate("list(map(order, [basket]))"),
            run=lambda: {"permissions": nh.permissions(deny="order", default="allow")}),
    of_shop("Code changes by what permissions know a function", "oversight",
            execute("order.__name__ = 'lookup'"),
            run=lambda: {"code": "python", "permissions": nh.permissions(deny="order", default="allow")}),
    of_call("Oversight rejects the call", "oversight", evaluate("lookup('fig')"), group=POLICY,
            call=overseen(LOOK_UP, "call")),
    of_answer("Oversight rejects what an answer would bind", "oversight",
              answer(kind="pass", bindings={"invoice": RIGHT}), group=POLICY,
              call=overseen(READ, "call")),
    of_answer("Oversight rejects the commit", "oversight", answer(kind="pass", bindings={"invoice": RIGHT}),
              ("tool",), group=POLICY, call=overseen(READ, "commit")),
    of_call("A budget has no room for the call, and wants the step concluded", "execution",
            evaluate("len(text)"), evaluate("len(text) + 1"), group=POLICY,
            run=lambda: {"step_budget": nh.budget(tool_calls=1, on_exceeded="conclude")}),
    Scenario(group=SMALL, when="A value does not match its type", cause="binding_value",
             given=(Given(text=json.dumps({"invoice": WRONG})),), transports=("piecemeal",)),
    Scenario(group=SMALL, when="A variable was left out", cause="binding_missing",
             given=(Given(text="{}"),), transports=("piecemeal",)),
)  # fmt: skip


def with_rows(page: str, texts: Mapping[int, str]) -> str:
    """The page with its rows written anew: the texts by the numbers of the scenarios."""
    for group in dict.fromkeys(each.group for each in SCENARIOS):
        rows = "\n".join(
            _row(each, texts[number]) for number, each in enumerate(SCENARIOS) if each.group == group
        )
        start, end = f"<!-- refusals: {group} -->", "<!-- end of refusals -->"
        pattern = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
        assert pattern.search(page), start
        page = pattern.sub(lambda _, new=f"{start}\n{rows}\n{end}": new, page)
    return page


def _row(scenario: Scenario, text: str) -> str:
    where = f" ({', '.join(scenario.transports)})" if scenario.group == ANSWER else ""
    cause = f" `{scenario.cause}`" if scenario.cause else " no correction"
    return f"\n{scenario.when}{where}:{cause}\n\n```text\n{text}\n```"


async def _texts() -> dict[int, str]:
    return {number: (await told(each, each.transports[0])).message for number, each in enumerate(SCENARIOS)}


if __name__ == "__main__":
    PAGE.write_text(with_rows(PAGE.read_text(encoding="utf-8"), anyio.run(_texts)), encoding="utf-8")
