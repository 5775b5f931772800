"""Permissions and functions that a call hands over: to builtins, and inside of lists and dictionaries."""

import pytest

import nighthawk_async as nh
from tests.specification.permitted_steps import ALLOW, DENY, SENT, carried_out, send_mail
from tests.specification.scripted_steps import evaluating, executing

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _nothing_is_sent() -> None:
    SENT.clear()


WAYS = [
    "[list(each) for each in map(map, [send_mail], [['eve']])]",
    "[list(each) for each in map(map, (each for each in [send_mail]), [['eve']])]",
    "[list(each) for each in map(filter, (each for each in [send_mail]), [['eve']])]",
    "[list(each) for each in map(map.__call__, (each for each in [send_mail]), [['eve']])]",
    "list(map(type(send_mail).__call__, (each for each in [send_mail]), ['eve']))",
    "[list(each) for each in map(map.__new__, [map], (each for each in [send_mail]), [['eve']])]",
    "[next(each) for each in map(iter, (lambda: send_mail('eve') for each in 'x'), [None])]",
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("permissions", [DENY, nh.permissions(deny=send_mail, default="allow")])
async def test_builtins_that_call_their_arguments_are_not_handed_over(
    way: str, permissions: nh.policies.Permissions
) -> None:
    result = await carried_out(evaluating(way), permissions=permissions)
    assert result.error["kind"] == "oversight"
    assert "not permitted to be handed to something that calls it" in result.error["message"]
    assert SENT == []


@pytest.mark.parametrize(
    "data",
    [
        "[send_later]",
        "([send_later],)",
        "{'x': send_later}",
        "{send_later: 1}",
        "frozenset([send_later])",
        "{'x': send_later}.values()",
        "{'x': send_later}.items()",
        "{send_later: 1}.keys()",
        "[1, 'x', {'x': (2, [send_later])}]",
    ],
)
async def test_a_function_inside_of_data_is_handed_over_as_well(data: str) -> None:
    statements = f"data = {data}\nsend_hello(data)"
    rules = nh.permissions(allow=send_mail, default="deny")
    result = await carried_out(executing(statements), permissions=rules)
    assert "not permitted to be handed" in result.error["message"]
    assert SENT == []


async def test_data_without_functions_is_handed_over_even_when_it_holds_itself() -> None:
    statements = "data = [1, {'x': ['y', (2.5, None)]}]\ndata.append(data)\nsend_hello(data)"
    result = await carried_out(
        executing(statements), permissions=nh.permissions(allow=send_mail, default="deny")
    )
    assert result.envelopes[0]["error"] is None
    assert len(SENT) == 1


@pytest.mark.parametrize(
    "expression", ["[*map(len, ['x'])]", "[*map(sorted, ['x'])]", "[*map(max, [[1, 2]])]", "[len([len])]"]
)
async def test_what_only_computes_is_handed_over(expression: str) -> None:
    result = await carried_out(evaluating(expression), permissions=DENY)
    assert result.envelopes[0]["error"] is None


async def test_a_rule_can_allow_to_hand_over_what_calls_its_arguments() -> None:
    expression = "[list(each) for each in map(map, [len], [['eve']])]"
    assert (await carried_out(evaluating(expression), permissions=ALLOW)).error["kind"] == "oversight"
    allowing = nh.permissions(allow="builtins.map", default="deny")
    result = await carried_out(evaluating(expression), permissions=allowing)
    assert result.envelopes[0]["value"] == [[3]]


@pytest.mark.parametrize(
    "last", ["[send_mail]", "(send_mail,)", "[[send_mail]]", "[{'a': send_mail}]", "send_mail"]
)
async def test_a_function_is_found_in_the_last_row_of_a_table(last: str) -> None:
    code = f"list(map(str, [[1], [2], (3,), {last}]))"
    result = await carried_out(executing(code), permissions=nh.permissions(deny="send_mail", default="allow"))
    assert result.error["kind"] == "oversight"
