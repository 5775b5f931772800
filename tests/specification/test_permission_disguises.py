"""Permissions and what makes a function look like another one."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

import nighthawk_async as nh
from tests.specification.permitted_steps import (
    ANSWERING,
    DENY,
    SENT,
    Mailer,
    Postman,
    carried_out,
    pay,
    send_mail,
    send_slowly,
)
from tests.specification.scripted_steps import executing

pytestmark = pytest.mark.anyio

DENYING = nh.permissions(deny=[send_mail, "Postman.*", "os.getpid"], default="allow")

CALLS_OF_CALLS = "f = send_mail\nfor _ in range(40):\n  f = f.__call__\n"
OBJECTS_IN_OBJECTS = (
    "class X(str):\n  __call__ = send_mail\nx = X('eve')\n"
    "for _ in range(40):\n  class Y:\n    __call__ = x\n  x = Y()\nx()"
)
CODES = [
    CALLS_OF_CALLS + "f('eve')",
    CALLS_OF_CALLS + "list(map(f, ['eve']))",
    "class E(Exception):\n  __init__ = Postman.__call__\nE('eve')",
    "send_mail.__globals__['__name__'] = 'builtins'\nsend_mail('eve')",
    "import os, sys\nsys.modules[os.getpid.__module__].__name__ = 'builtins'\nSENT.append(str(os.getpid()))",
]


@pytest.fixture(autouse=True)
def _nothing_is_sent_or_renamed() -> Iterator[None]:
    SENT.clear()
    names = {name: sys.modules[name] for name in (send_mail.__module__, "posix", "nt") if name in sys.modules}
    yield
    for name, module in names.items():
        module.__name__ = name


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("permissions", [DENY, DENYING])
async def test_a_function_stays_denied_however_it_is_disguised(
    code: str, permissions: nh.policies.Permissions
) -> None:
    result = await carried_out(executing(code), permissions=permissions)
    assert result.error["kind"] == "oversight"
    assert SENT == []


async def test_a_function_that_is_denied_is_not_reached_by_an_object_in_many_others() -> None:
    result = await carried_out(executing(OBJECTS_IN_OBJECTS), permissions=DENYING)
    assert result.error["kind"] == "oversight"
    assert SENT == []


async def test_exceptions_of_the_step_and_of_libraries_are_still_made() -> None:
    code = (
        "import json, urllib.error\nclass E(ValueError):\n  def __init__(self, text):\n"
        "    super().__init__(text)\nclass F(E): pass\nmade = [F('x'), json.JSONDecodeError('x', 'y', 0), "
        "urllib.error.URLError('x')]"
    )
    rules = nh.permissions(allow="E.__init__", default="deny")
    assert (await carried_out(executing(code), permissions=rules)).error is None


@pytest.mark.parametrize(
    "code",
    [
        "vars(send_mail)['__wrapped__'] = pay\nsend_mail('eve')",
        "send_mail.__dict__.update(__wrapped__=pay)\nlist(map(send_mail, ['eve']))",
        "vars(Mailer.send)['__wrapped__'] = pay\nMAILER.send('eve')",
        "vars(ANSWERING)['__wrapped__'] = pay\nANSWERING('eve')",
        "vars(ANSWERING).update(__module__='shop', __qualname__='pay', __name__='pay')\nANSWERING('eve')",
        "Postman.__module__ = 'shop'\nPostman()('eve')",
        "setattr(Postman, '__module__', 'shop')\nPostman()('eve')",
    ],
)
@pytest.mark.parametrize("allowed", [pay, f"{pay.__module__}.pay", "shop.*"])
async def test_a_function_is_not_allowed_as_another_one_that_it_claims_to_be(
    code: str, allowed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Postman, "__module__", Postman.__module__)  # and back
    try:
        result = await carried_out(
            executing(code), permissions=nh.permissions(allow=[allowed], default="deny")
        )
    finally:
        for each in (send_mail, Mailer.send, ANSWERING):
            vars(each).clear()
    assert result.error["kind"] == "oversight"
    assert SENT == []


@pytest.mark.parametrize(
    "change",
    [
        "vars(send_slowly)['__wrapped__'] = lambda x, y=0: 1",
        "vars(send_slowly)['__signature__'] = __import__('inspect').signature(lambda body='': 1)",
    ],
)
async def test_a_wrapper_of_the_library_cannot_be_given_other_parameters(change: str) -> None:
    denying = nh.permissions(deny=[nh.policies.rule("send_slowly", to="eve")], default="allow")
    attributes = dict(vars(send_slowly))
    try:
        result = await carried_out(executing(f"{change}\nawait send_slowly('eve')"), permissions=denying)
    finally:
        vars(send_slowly).clear()
        vars(send_slowly).update(attributes)
    assert result.error["kind"] in ("oversight", "execution")
    assert SENT == []


@nh.once
async def charge(order: str, *, idempotency_key: str) -> None:
    SENT.append(order)


async def test_a_key_that_the_library_adds_is_no_argument_of_a_rule() -> None:
    allowing = nh.permissions(allow=[nh.policies.rule(charge, order="tea")], default="deny")
    for order, kind in (("tea", None), ("gold", "oversight")):
        code = f"from {__name__} import charge\nawait charge(order={order!r})"
        result = await carried_out(executing(code), permissions=allowing)
        assert (result.envelopes[0]["error"] or {}).get("kind") == kind
    assert SENT == ["tea"]
