"""Permissions and classes of the model that declare to be called by functions of the program."""

from typing import Any

import pytest

import nighthawk_async as nh
from tests.specification.permitted_steps import ASK, SENT, carried_out, send_mail
from tests.specification.scripted_steps import executing
from tests.unit.policies.human_handlers import approving

pytestmark = pytest.mark.anyio

CODES = [
    "class X(str):\n  __call__ = send_mail\nX('eve')()",
    "class X(str):\n  __call__ = send_mail\nlist(map(lambda each: each(), [X('eve')]))",
    "class X(str):\n  __call__ = send_mail\nlist(map(X.__call__, [X('eve')]))",
    "class X:\n  __call__ = staticmethod(send_mail)\nX()('eve')",
    "class X:\n  __call__ = classmethod(send_mail)\nX()()",
    "class Y:\n  __call__ = staticmethod(send_mail)\nclass X:\n  __call__ = Y()\nX()('eve')",
    "class X(str):\n  __init__ = send_mail\nX('eve')",
    "class X(str):\n  __new__ = send_mail\nX('eve')",
    "class X(str):\n  __module__ = 'builtins'\n  __init__ = send_mail\nX('eve')",
    "class X(Exception):\n  __init__ = send_mail\nX('eve')",
    "class X(str):\n  __init__ = send_mail\nlist(map(X, ['eve']))",
    "class M(type):\n  __call__ = send_mail\nclass X(metaclass=M): pass\nX()",
]


@pytest.fixture(autouse=True)
def _nothing_is_sent() -> None:
    SENT.clear()


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("target", [send_mail, "send_mail", "*.send_mail"])
async def test_a_function_that_is_denied_is_not_reached_by_a_class_of_the_model(
    code: str, target: Any
) -> None:
    result = await carried_out(executing(code), permissions=nh.permissions(deny=target, default="allow"))
    assert result.error["kind"] == "oversight"
    assert SENT == []


@pytest.mark.parametrize("code", [CODES[0], CODES[6]])
async def test_people_are_asked_about_the_function_that_a_class_of_the_model_stands_for(code: str) -> None:
    handler = approving(["ada"])
    asking = nh.permissions(ask=send_mail, default="allow")
    await carried_out(executing(code), permissions=asking, human=handler)
    assert handler.requests[0].action == "X (send_mail)"
    assert "eve" in handler.requests[0].arguments.values()


async def test_a_function_that_is_allowed_allows_no_class_of_the_model() -> None:
    allowing = nh.permissions(allow=[send_mail, "send_mail", "nh_exec"], default="deny")
    result = await carried_out(executing(CODES[0]), permissions=allowing)
    assert result.error["kind"] == "oversight"
    assert SENT == []


@pytest.mark.parametrize("code", CODES)
async def test_a_pattern_that_allows_a_module_allows_no_function_of_another_one_in_its_classes(
    code: str,
) -> None:
    allowing = nh.permissions(allow=["*.X", "*.Y", "X", "type"], default="deny")
    result = await carried_out(executing(code), permissions=allowing)
    assert result.error is not None
    assert SENT == []


async def test_a_class_that_is_called_by_its_own_method_is_allowed_by_its_name() -> None:
    code = "ANSWERING('eve')"
    allowing = nh.permissions(allow="*.Answering", default="deny")
    assert (await carried_out(executing(code), permissions=allowing)).error is None
    assert SENT == ["eve"]
    denying = nh.permissions(deny="Answering.answer", default="allow")
    assert (await carried_out(executing(code), permissions=denying)).error["kind"] == "oversight"
    assert SENT == ["eve"]


async def test_an_object_that_declares_to_be_called_by_itself_is_looked_at_once() -> None:
    code = "class X:\n  pass\nx = X()\nX.__call__ = x\ncallable(x)\nlist(map(str, [x]))"
    result = await carried_out(executing(code), permissions=nh.permissions(deny="other", default="allow"))
    assert result.error is None


async def test_values_and_exceptions_of_python_are_still_made() -> None:
    code = "import collections\nx = [int('1'), dict(a=1), ValueError('no'), collections.Counter('a')]"
    assert (await carried_out(executing(code), permissions=ASK)).error is None
