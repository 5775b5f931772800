"""People and rules judge what a function gets, whatever a value shows of itself."""

import re

import pytest

import nighthawk_async as nh
from nighthawk_async.policies.people.request import ApprovalRequest
from tests.cases import every
from tests.specification import permitted_shop as shop
from tests.specification.permitted_shop import DONE, tried
from tests.unit.policies.human_handlers import approving, deciding

pytestmark = pytest.mark.anyio

ASKING = nh.permissions(ask=shop.transfer, default="allow")
CHEAP, CHEAP_WHEN = (
    nh.permissions(allow=["*.I", "*.Money", each], default="deny")
    for each in (
        nh.policies.rule("transfer", amount=lambda amount: amount < 100),
        nh.policies.rule("transfer", when=lambda call: call.arguments["amount"] < 100),
    )
)
DEAR = nh.permissions(deny=nh.policies.rule("transfer", amount=lambda amount: amount >= 100), default="allow")


@pytest.fixture(autouse=True)
def _nothing_was_done() -> None:
    DONE.clear()


FORMAT = "  def __format__(self, spec): return 'EVE'\n"
LYING = {
    "a text": f"class S(str):\n{FORMAT}x = S('bob')",
    "a text that says so": (
        "class S(str):\n  def __str__(self): return 'EVE'\n  __format__ = __str__\nx = S('bob')"
    ),
    "a text with a borrowed method": "class S(str):\n  __format__ = str.upper\nx = S('bob')",
    "a text of a class made by type": "x = type('S', (str,), {'__format__': lambda s, f: 'EVE'})('bob')",
    "a text with a mixin": f"class M:\n{FORMAT}class S(M, str): pass\nx = S('bob')",
    "a text inside a list": f"class S(str):\n{FORMAT}x = [S('bob')]\nx = x[0]",
    "a text that changes": (
        "class S(str):\n  n = 0\n  def __str__(self):\n    S.n += 1\n    return 'bob' if S.n < 4 else 'EVE'\n"
        "  __format__ = lambda self, spec: str(self)\nx = S('bob')"
    ),
    "a number": f"class S(int):\n{FORMAT}x = S(5)",
    "a float": f"class S(float):\n{FORMAT}x = S(5)",
    "bytes": f"class S(bytes):\n{FORMAT}x = S(b'bob')",
    "a bytearray": f"class S(bytearray):\n{FORMAT}x = S(b'bob')",
    "a list": "class S(list):\n  def __format__(self, spec): return 'EVE'\nx = S(['bob'])",
    "a list that is iterated otherwise": (
        "class S(list):\n  def __iter__(self): return iter(['bob'])\nx = S(['EVE'])"
    ),
    "a tuple": f"class S(tuple):\n{FORMAT}x = S(['bob'])",
    "a dictionary": f"class S(dict):\n{FORMAT}x = S(a='bob')",
    "a dictionary with other items": (
        "class S(dict):\n  def items(self): return [('a', 'bob')]\n  def __iter__(self): return iter('a')\n"
        "  def __getitem__(self, name): return 'bob'\nx = S(a='EVE')"
    ),
    "a key of a dictionary": f"class S(str):\n{FORMAT}x = {{S('bob'): 1}}\nx = [*x][0]",
    "a set": f"class S(set):\n{FORMAT}x = S(['bob'])",
    "a frozenset": f"class S(frozenset):\n{FORMAT}x = S(['bob'])",
    "a decimal": f"from decimal import Decimal\nclass S(Decimal):\n{FORMAT}x = S(5)",
    "a date": f"from datetime import date\nclass S(date):\n{FORMAT}x = S(2026, 1, 1)",
    "a time": f"from datetime import datetime\nclass S(datetime):\n{FORMAT}x = S(2026, 1, 1)",
    "a duration": (
        "from datetime import timedelta\nclass S(timedelta):\n  __str__ = lambda self: 'EVE'\nx = S(1)"
    ),
    "a time zone": (
        "from datetime import datetime, timedelta, tzinfo\nclass Z(tzinfo):\n  n = 0\n"
        "  def utcoffset(self, when):\n    Z.n += 1\n    return timedelta(hours=Z.n)\n"
        "x = datetime(2026, 1, 1, tzinfo=Z())"
    ),
    "a path": (
        "from pathlib import PurePosixPath\nclass S(PurePosixPath):\n  def __str__(self): return 'EVE'\n"
        "x = S('bob')"
    ),
    "an enumeration": f"from enum import Enum\nclass S(str, Enum):\n  A = 'bob'\n{FORMAT}x = S.A",
    "an enumeration with another value": (
        "from enum import Enum\nclass S(Enum):\n  A = 'EVE'\n  @property\n  def value(self): return 'bob'\n"
        "x = S.A"
    ),
    "a uuid": "from uuid import UUID\nclass S(UUID):\n  def __str__(self): return 'EVE'\nx = S(int=5)",
    "a dataclass": (
        f"import dataclasses\n@dataclasses.dataclass\nclass S:\n  name: str = 'bob'\n{FORMAT}x = S()"
    ),
    "a dataclass with a property": (
        "import dataclasses\n@dataclasses.dataclass\nclass S:\n  name: str = 'bob'\n"
        "S.name = property(lambda self: 'EVE')\nx = object.__new__(S)"
    ),
    "a model": f"import pydantic\nclass S(pydantic.BaseModel):\n  name: str = 'bob'\n{FORMAT}x = S()",
    "a mapping": (
        "from collections.abc import Mapping\nclass S(Mapping):\n  n = 0\n  def __len__(self): return 1\n"
        "  def __iter__(self): return iter('a')\n  def __getitem__(self, name):\n    S.n += 1\n"
        "    return S.n\nx = S()"
    ),
    "a view of a mapping": (
        "import types\nclass S(dict):\n  n = 0\n  def __getitem__(self, name):\n    S.n += 1\n"
        "    return S.n\nx = types.MappingProxyType(S(a=1))"
    ),
    "a generator": "x = (each for each in ['EVE'])",
    "an iterator": "x = iter(['EVE'])",
    "a map": "x = map(str, ['EVE'])",
    "an object": f"class S:\n{FORMAT}x = S()",
}


@every("code", LYING.values())
@every("place", ["transfer(5, x)", "transfer(5, [x])", "transfer(5, {'to': x})"])
async def test_people_do_not_approve_what_the_function_does_not_get(code: str, place: str) -> None:
    DONE.clear()
    handler = approving(["ada"])
    result = await tried(f"{code}\n{place}", ASKING, handler)
    if DONE:  # what people saw is then all that was used
        (shown,) = [str(each.arguments["to"]) for each in handler.requests]
        assert set(re.findall(r"\w+", DONE[0].partition(" to ")[2])) <= set(re.findall(r"\w+", shown))
    else:
        assert result.error["kind"] == "oversight"


NUMBERS = [
    "class I(int):\n  def __lt__(self, other): return True\n  def __ge__(self, other): return False\n"
    "x = I(5000)",
    "class I(int):\n  __lt__ = lambda self, other: True\n  __ge__ = lambda self, other: False\nx = I(5000)",
    "class I(int):\n  def __format__(self, spec): return '5000'\nx = I(5)",
    "class I(float):\n  def __lt__(self, other): return True\n  def __ge__(self, other): return False\n"
    "x = I(5000)",
    "from decimal import Decimal\nclass I(Decimal):\n  def __lt__(self, other): return True\n"
    "  def __ge__(self, other): return False\nx = I(5000)",
    "class I:\n  def __lt__(self, other): return True\n  def __ge__(self, other): return False\nx = I()",
    "x = type('I', (int,), {'__module__': 'm', '__lt__': lambda s, o: 1, '__ge__': lambda s, o: 0})(5000)",
    "class M:\n  def __lt__(self, other): return True\n  def __ge__(self, other): return False\n"
    "class I(M, int): pass\nx = I(5000)",
]


@pytest.mark.parametrize("code", NUMBERS)
@pytest.mark.parametrize("rules", [CHEAP, CHEAP_WHEN, DEAR], ids=["argument", "call", "denied"])
async def test_a_number_that_compares_itself_otherwise_fits_no_rule(
    code: str, rules: nh.policies.Permissions
) -> None:
    assert "transfer is not permitted" in (await tried(f"{code}\ntransfer(x)", rules)).error["message"]
    assert DONE == []


@pytest.mark.parametrize("code", ["x = 5", "class I(int): pass\nx = I(5)", "x = True", "x = 5.0"])
async def test_a_number_that_is_what_it_shows_fits(code: str) -> None:
    for rules in (CHEAP, CHEAP_WHEN, DEAR):
        assert (await tried(f"{code}\ntransfer(x)", rules)).error is None
    assert len(DONE) == 3


async def test_a_text_that_equals_everything_fits_no_rule() -> None:
    code = "class S(str):\n  def __eq__(self, other): return True\n  __hash__ = None\ntransfer(5, S('EVE'))"
    allowing = nh.permissions(allow=["*.S", nh.policies.rule("transfer", to="bob")], default="deny")
    assert "transfer is not permitted" in (await tried(code, allowing)).error["message"]
    inside = code.replace("S('EVE')", "[S('EVE')]")
    equal = nh.permissions(allow=["*.S", nh.policies.rule("transfer", to=["bob"])], default="deny")
    assert "transfer is not permitted" in (await tried(inside, equal)).error["message"]


async def test_a_text_of_the_program_is_shown_as_text_and_one_that_shows_otherwise_with_its_type() -> None:
    handler = approving(["ada"])
    await tried("transfer(Money('5'), Email('bob'))", ASKING, handler)
    assert handler.requests[0].arguments == {
        "amount": {
            "type": f"{shop.__name__}.Money",
            "data": "5",
            "shows": ["EUR 5", "Decimal('5')"],
        },
        "to": "bob",
    }
    assert DONE == ["EUR 5 to bob"]


async def test_money_that_shows_itself_otherwise_is_no_plain_number_for_rules() -> None:
    result = await tried("transfer(Money('5'))", CHEAP)
    assert "transfer is not permitted" in result.error["message"]
    assert (await tried("transfer(Money('5'))", DEAR)).error is None
    assert (await tried("transfer(Money('500'))", DEAR)).error["kind"] == "oversight"


async def test_an_object_of_a_class_that_no_module_exports_can_be_approved_and_fits_rules() -> None:
    code = "import dataclasses\n@dataclasses.dataclass\nclass D:\n  name: str\ntransfer(5, D('bob'))"
    handler = approving(["ada"])
    assert (await tried(code, ASKING, handler)).error is None
    assert handler.requests[0].arguments["to"] == {"name": "bob"}
    allowing = nh.permissions(
        allow=["dataclasses.dataclass", "*.D", nh.policies.rule("transfer", to=lambda to: to.name == "bob")],
        default="deny",
    )
    assert (await tried(code, allowing)).error is None
    assert len(DONE) == 2


async def test_an_argument_that_changes_after_the_approval_is_not_used() -> None:
    def decide(request: ApprovalRequest) -> None:
        shop.KEPT.append("eve")
        request.approve("ada", digest=request.digest)

    result = await tried("KEPT[:] = ['bob']\ntransfer(5, KEPT)", ASKING, deciding(decide))
    assert "not what was approved" in result.error["message"]
    assert DONE == []


COMPUTING = [
    "from collections import defaultdict\nx = defaultdict(lambda: 'EVE', a=1)",
    "from collections import defaultdict\nx = defaultdict(['EVE'].pop, a=1)",
    "from collections import defaultdict\nclass S: pass\nx = defaultdict(None)\n"
    "x.default_factory = lambda: 'EVE'",
]


@pytest.mark.parametrize("code", COMPUTING)
async def test_a_mapping_that_makes_what_it_does_not_hold_is_not_approved(code: str) -> None:
    result = await tried(f"{code}\ntransfer(5, x)", ASKING, approving(["ada"]))
    assert result.error["kind"] == "oversight"
    allowing = nh.permissions(allow=nh.policies.rule("transfer", to=lambda to: True), default="deny")
    assert (await tried(f"{code}\ntransfer(5, x)", allowing)).error["kind"] == "oversight"
    assert DONE == []


async def test_a_mapping_that_makes_empty_lists_is_approved() -> None:
    code = "from collections import defaultdict\ntransfer(5, defaultdict(list, a=[1]))"
    assert (await tried(code, ASKING, approving(["ada"]))).error is None


@pytest.mark.parametrize(
    "code",
    [
        "x = type('S', (str,), {'__int__': (500).__int__})('5')",
        "x = type('S', (int,), {'__bytes__': (500).__float__})(5)",
        "x = type('S', (dict,), {'__missing__': {'to': 'EVE'}.__getitem__})(a=1)",
    ],
)
async def test_a_value_that_becomes_other_data_is_shown_with_its_type(code: str) -> None:
    handler = approving(["ada"])
    assert (await tried(f"{code}\ntransfer(x)", ASKING, handler)).error is None
    shown = handler.requests[0].arguments["amount"]
    assert isinstance(shown, dict)
    assert shown["type"] == "S"


async def test_what_a_function_is_called_with_by_default_is_not_assigned() -> None:
    result = await tried("transfer.__defaults__ = ('EVE',)\ntransfer(5)", ASKING, approving(["ada"]))
    assert result.error["kind"] == "oversight"
    assert DONE == []
