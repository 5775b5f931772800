"""Permissions and the objects whose methods are called."""

import functools
import sqlite3
from dataclasses import dataclass
from typing import Any

import pytest

import nighthawk_async as nh
from tests.specification.permitted_steps import SENT, send_mail  # noqa: F401  (blocks read it)
from tests.specification.scripted_steps import ScriptedSteps, evaluating, executing, returning
from tests.unit.policies.human_handlers import approving, deciding

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _nothing_is_sent() -> None:
    SENT.clear()


class Account:
    def __init__(self, name: str) -> None:
        self.name = name

    def withdraw(self, amount: int) -> None:
        SENT.append(f"{amount} from {self.name}")

    take = withdraw


@dataclass
class Purse:
    owner: str

    def spend(self, amount: int) -> None:
        SENT.append(f"{amount} of {self.owner}")


class Sender:
    def __call__(self, to: str) -> None:
        SENT.append(to)


class Broken:
    def __repr__(self) -> str:
        raise ValueError("broken")

    def act(self) -> None:
        SENT.append("acted")


TEST, REAL = Account("test"), Account("real")
PURSES = {"ada": Purse("ada"), "bob": Purse("bob")}
SENDER = Sender()
BROKEN = [Broken()]


@nh.natural_function
async def work() -> None:
    """natural
    Use <TEST>, <REAL>, <PURSES>, <SENDER>, <BROKEN> and <send_mail>.
    """


class Hidden(Account):
    def __init__(self, name: str) -> None:
        self._name = name

    def close(self) -> None:
        SENT.append(f"closed {self._name}")


class Slotted:
    __slots__ = ("name", "unset")

    def __init__(self, name: str) -> None:
        self.name = name

    def withdraw(self, amount: int) -> None:
        SENT.append(f"{amount} from {self.name}")


class Wordy(Account):
    def __repr__(self) -> str:
        return f"Wordy({'x' * 300}{self.name})"


@nh.natural_function
async def work_with(account: object) -> None:
    """natural
    Use <account>.
    """


async def request_for(account: object) -> nh.human.ApprovalRequest:
    handler = approving(["ada"])
    call = "account.spend(5)" if isinstance(account, Purse) else "account.withdraw(5)"
    steps = ScriptedSteps((evaluating(call),), returning("None"))
    async with nh.run(steps.executor, permissions=nh.permissions(default="ask"), human=handler):
        await work_with(account)
    (request,) = handler.requests
    return request


@pytest.mark.parametrize(
    ("kind", "action", "arguments"),
    [
        (Purse, "Purse.spend of account: Purse(owner='ada')", {"amount": 5}),
        (Account, "Account.withdraw of account", {"amount": 5, "self": {"name": "ada"}}),
        (Slotted, "Slotted.withdraw of account", {"amount": 5, "self": {"name": "ada"}}),
    ],
)
async def test_approvals_for_two_objects_are_told_apart(kind: Any, action: str, arguments: Any) -> None:
    requests = [await request_for(kind(name)) for name in ("ada", "bob", "ada")]
    assert (requests[0].action, requests[0].arguments) == (action, arguments)
    assert requests[0].digest == requests[2].digest != requests[1].digest


class Teller:
    """Is called itself."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, amount: int) -> None:
        SENT.append(f"{amount} from {self.name}")


class Ledger:
    @classmethod
    def wipe(cls) -> None:
        SENT.append(f"wiped {cls.__name__}")


class TestLedger(Ledger):
    __test__ = False


class RealLedger(Ledger): ...


async def action_of(call: str, account: object) -> tuple[str, Any]:
    handler = approving(["ada"])
    steps = ScriptedSteps((evaluating(call),), returning("None"))
    async with nh.run(steps.executor, permissions=nh.permissions(default="ask"), human=handler):
        await work_with(account)
    (request,) = handler.requests
    return request.action, request.arguments


@pytest.mark.parametrize("call", ["account(5)", "account.__call__(5)"])
async def test_objects_that_are_called_themselves_are_told_apart(call: str) -> None:
    action = "Teller.__call__ of account" if "__call__" in call else "Teller of account"
    assert await action_of(call, Teller("ada")) == (action, {"amount": 5, "self": {"name": "ada"}})
    partial = functools.partial(Teller("bob"), 5)
    assert (await action_of("account()", partial))[1] == {"amount": 5, "self": {"name": "bob"}}


async def test_classes_that_inherit_a_method_of_the_class_are_told_apart() -> None:
    assert [(await action_of("account.wipe()", each))[0] for each in (TestLedger, RealLedger, Ledger)] == [
        f"Ledger.wipe of {__name__}.TestLedger",
        f"Ledger.wipe of {__name__}.RealLedger",
        "Ledger.wipe",
    ]
    assert SENT == ["wiped TestLedger", "wiped RealLedger", "wiped Ledger"]


async def test_objects_whose_methods_are_written_in_c_are_told_apart(tmp_path: Any) -> None:
    with (tmp_path / "x.txt").open("w") as file:
        action, _ = await action_of("account.write('x')", file)
    assert action.startswith("TextIOWrapper.write of account: <_io.TextIOWrapper name=")


async def test_a_method_written_in_c_of_an_object_that_nothing_tells_from_others_is_not_asked_about() -> None:
    handler = approving(["ada"])
    steps = ScriptedSteps((evaluating("account.execute('select 1')"),), returning("None"))
    connection = sqlite3.connect(":memory:")
    try:
        async with nh.run(steps.executor, permissions=nh.permissions(default="ask"), human=handler):
            await work_with(connection)
    finally:
        connection.close()
    assert "which Connection it is" in steps.envelopes[0]["error"]["message"]
    assert handler.requests == []


async def test_functions_of_modules_are_of_no_object() -> None:
    action, _ = await action_of("account('x')", __import__("os").fsencode)
    assert action == "fsencode"
    action, _ = await action_of("account(2.0)", __import__("math").sqrt)
    assert action == "sqrt"


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (Account, lambda each: setattr(each, "name", "eve")),
        (Purse, lambda each: setattr(each, "owner", "eve")),
    ],
)
async def test_an_object_that_changes_while_people_think_needs_another_approval(
    kind: Any, change: Any
) -> None:
    account = kind("ada")

    def approve(request: nh.human.ApprovalRequest) -> None:
        change(account)
        request.approve("ada", digest=request.digest)

    call = "account.spend(5)" if kind is Purse else "account.withdraw(5)"
    steps = ScriptedSteps((evaluating(call),), returning("None"))
    async with nh.run(steps.executor, permissions=nh.permissions(default="ask"), human=deciding(approve)):
        await work_with(account)
    assert steps.envelopes[0]["error"]["kind"] == "oversight"
    assert "what was approved" in steps.envelopes[0]["error"]["message"]
    assert SENT == []


async def test_objects_that_are_globals_are_told_apart_as_parameters_too() -> None:
    requests = [await request_for(each) for each in (TEST, REAL)]
    assert [(each.action, each.arguments) for each in requests] == [
        ("Account.withdraw of TEST", {"amount": 5}),
        ("Account.withdraw of REAL", {"amount": 5}),
    ]


async def test_objects_that_differ_at_the_end_of_a_long_text_are_told_apart() -> None:
    requests = [await request_for(Wordy(name)) for name in ("ada", "bob", "ada")]
    assert requests[0].digest == requests[2].digest != requests[1].digest


async def test_a_method_of_an_object_that_nothing_tells_from_others_is_not_asked_about() -> None:
    handler = approving(["ada"])
    steps = ScriptedSteps((evaluating("account.close()"),), returning("None"))
    async with nh.run(steps.executor, permissions=nh.permissions(default="ask"), human=handler):
        await work_with(Hidden("ada"))
    assert "which Hidden it is" in steps.envelopes[0]["error"]["message"]
    assert handler.requests == []
    assert SENT == []


async def envelopes_of(*calls: nh.models.ToolCall, **options: Any) -> list[Any]:
    steps = ScriptedSteps(calls, returning("None"))
    async with nh.run(steps.executor, **options):
        await work()
    return list(steps.envelopes)


async def test_people_are_told_of_which_object_a_method_is_called() -> None:
    handler = approving(["ada"])
    statements = (
        "TEST.withdraw(5)\nother = REAL\nother.withdraw(5)\n"
        "[each.spend(1) for each in PURSES.values()]\nBROKEN[0].act()"
    )
    await envelopes_of(executing(statements), permissions=nh.permissions(default="ask"), human=handler)
    assert [request.action for request in handler.requests] == [
        "Account.withdraw of TEST",
        "Account.withdraw of REAL",
        "Purse.spend of Purse(owner='ada')",
        "Purse.spend of Purse(owner='bob')",
        "Broken.act",
    ]
    assert len({request.digest for request in handler.requests}) == 5
    assert SENT == ["5 from test", "5 from real", "1 of ada", "1 of bob", "acted"]


@pytest.mark.parametrize("code", ["REAL.withdraw(5)", "a = REAL\na.withdraw(5)", "REAL.take(5)"])
async def test_a_rule_names_the_method_of_one_object_by_the_variable_of_the_program(code: str) -> None:
    denying = nh.permissions(deny="REAL.withdraw", default="allow")
    (real,) = await envelopes_of(executing(code), permissions=denying)
    (test,) = await envelopes_of(executing(code.replace("REAL", "TEST")), permissions=denying)
    assert real["error"]["kind"] == "oversight"
    assert test["error"] is None
    assert SENT == ["5 from test"]


@pytest.mark.parametrize("target", [SENDER, "Sender"])
@pytest.mark.parametrize("call", ["SENDER('eve')", "SENDER.__call__('eve')"])
async def test_an_object_that_is_denied_is_not_called_by_its_method_either(target: Any, call: str) -> None:
    denying = nh.permissions(deny=target, default="allow")
    (envelope,) = await envelopes_of(evaluating(call), permissions=denying)
    assert envelope["error"]["kind"] == "oversight"
    assert SENT == []


async def test_an_object_that_a_function_is_bound_to_is_its_argument() -> None:
    call = evaluating("send_mail.__get__('eve')()")
    for permissions in (
        nh.permissions(deny=nh.policies.rule("send_mail", to="eve"), default="allow"),
        nh.permissions(allow=nh.policies.rule("send_mail", to="ada"), default="deny"),
    ):
        (envelope,) = await envelopes_of(call, permissions=permissions)
        assert envelope["error"]["kind"] == "oversight"
    handler = approving(["ada"])
    await envelopes_of(call, permissions=nh.permissions(default="ask"), human=handler)
    assert [(each.action, each.arguments) for each in handler.requests] == [("send_mail", {"to": "eve"})]
    assert SENT == ["eve"]
