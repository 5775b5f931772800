"""Section 7: an answer may repeat a date and time as it was shown, with the name of its zone."""

import datetime as dt
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import pydantic
import pytest

import nighthawk_async as nh
from nighthawk_async.models import ToolCall
from nighthawk_async.testing import tool_call
from tests.specification.scripted_steps import PASS, ScriptedSteps, assigning, executing, returning

pytestmark = pytest.mark.anyio

BERLIN = ZoneInfo("Europe/Berlin")
BEFORE = dt.datetime(2026, 3, 29, 1, 30, tzinfo=BERLIN)
"""Half an hour before clocks are put forward."""


class Meeting(pydantic.BaseModel):
    begins: dt.datetime


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    begins: dt.datetime


def ways(value: object) -> list[tuple[ToolCall, ...]]:
    return [
        (tool_call("nh_outcome", kind="pass", bindings={"found": value}),),
        (tool_call("nh_assign", target_path="found", value=value), PASS),
        (assigning("found", repr(value)), PASS),
        (executing(f"found = {value!r}"), PASS),
    ]


async def set_by(kind: Any, *calls: ToolCall) -> Any:
    @nh.natural_function
    async def shift(begins: dt.datetime) -> object:
        found: kind  # type: ignore[valid-type]
        """natural
        Set <:found> from <begins>.
        """
        return found

    steps = ScriptedSteps(calls, max_corrective_turns=0)
    async with nh.run(steps.executor):
        result = await shift(BEFORE)
    assert '"2026-03-29T01:30:00+01:00[Europe/Berlin]"' in steps.user_prompt
    return result


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (dt.datetime, "2026-03-29T01:30:00+01:00[Europe/Berlin]", BEFORE),
        (dt.datetime, "2026-03-29T03:30:00+02:00[Europe/Berlin]", BEFORE + dt.timedelta(hours=2)),
        (dt.datetime, "2026-03-29T03:30:00[Europe/Berlin]", BEFORE + dt.timedelta(hours=2)),
        (dt.datetime, "2026-03-29T00:30:00Z[Europe/Berlin]", BEFORE),
        (
            dt.datetime,
            "2026-10-25T02:30:00+01:00[Europe/Berlin]",
            BEFORE.replace(month=10, day=25, hour=2, fold=1),
        ),
        (dt.datetime, "2026-10-25T02:30:00+02:00[Europe/Berlin]", BEFORE.replace(month=10, day=25, hour=2)),
        (dt.datetime | None, "2026-03-29T01:30:00+01:00[Europe/Berlin]", BEFORE),
        (list[dt.datetime], ["2026-03-29T01:30:00+01:00[Europe/Berlin]"], [BEFORE]),
        (dict[dt.datetime, int], {"2026-03-29T01:30:00+01:00[Europe/Berlin]": 1}, {BEFORE: 1}),
        (pydantic.AwareDatetime, "2026-03-29T01:30:00+01:00[Europe/Berlin]", BEFORE),
        (pydantic.AwareDatetime, "2026-03-29T01:30:00[Europe/Berlin]", BEFORE),
        (
            Annotated[dt.datetime, pydantic.Field(le=BEFORE)],
            "2026-03-29T01:30:00+01:00[Europe/Berlin]",
            BEFORE,
        ),
        (Meeting, {"begins": "2026-03-29T01:30:00+01:00[Europe/Berlin]"}, Meeting(begins=BEFORE)),
        (dt.time, "03:30:00[Europe/Berlin]", dt.time(3, 30, tzinfo=BERLIN)),
    ],
)
async def test_7_the_form_that_is_shown_is_read_and_the_zone_is_kept(
    kind: Any, value: Any, expected: Any
) -> None:
    for calls in ways(value):
        found = await set_by(kind, *calls)
        assert found == expected
        assert repr(found) == repr(expected)


async def test_7_a_shown_form_is_data_for_strict_models_too() -> None:
    data = {"begins": "2026-03-29T01:30:00+01:00[Europe/Berlin]"}
    for calls in ways(data)[:2]:
        assert (await set_by(Strict, *calls)).begins.tzinfo is BERLIN


async def test_7_a_text_stays_a_text() -> None:
    for kind in (str, str | dt.datetime, object):
        for calls in ways("2026-03-29T01:30:00+01:00[Europe/Berlin]"):
            assert await set_by(kind, *calls) == "2026-03-29T01:30:00+01:00[Europe/Berlin]"


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        (dt.datetime, "2026-03-29T03:30:00+01:00[Europe/Berlin]", r"is at \+02:00 then, not at \+01:00"),
        (dt.datetime, "2026-03-29T01:30:00+01:00[Europe/Nowhere]", "'Europe/Nowhere' is no known time zone"),
        (dt.datetime, "2026-03-29T01:30:00+01:00[../../etc/passwd]", "is no known time zone"),
        (dt.datetime, "2026-03-29T01:30:00+01:00[]", "is no known time zone"),
        (dt.datetime, "soon[Europe/Berlin]", "should be a valid datetime"),
        (pydantic.NaiveDatetime, "2026-03-29T01:30:00+01:00[Europe/Berlin]", "should not have timezone info"),
        (dt.time, "03:30:00+01:00[Europe/Berlin]", "an offset or the zone Europe/Berlin, not both"),
        (dt.datetime | int, "soon[Europe/Berlin]", "datetime"),
    ],
)
async def test_7_what_contradicts_itself_is_refused(kind: Any, value: str, problem: str) -> None:
    with pytest.raises(nh.ExecutionError, match=problem):
        await set_by(kind, *ways(value)[0])


async def test_9_a_return_value_may_name_its_zone() -> None:
    @nh.natural_function
    async def shift(begins: dt.datetime) -> dt.datetime:
        """natural
        Return <begins> two hours later.
        """

    shown = "2026-03-29T03:30:00+02:00[Europe/Berlin]"
    for call in (tool_call("nh_outcome", kind="return", return_value=shown), returning(repr(shown))):
        async with nh.run(ScriptedSteps(call).executor):
            later = await shift(BEFORE)
        assert (later.isoformat(), later.tzinfo) == ("2026-03-29T03:30:00+02:00", BERLIN)
