"""A graph of roads is changed by notes about traffic, and Python finds the shortest way."""

import heapq

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import goes_on
from ..chat import Chat
from ..program import Input, Program


def shortest(roads: dict[str, dict[str, int]], start: str, end: str) -> int | None:
    queue = [(0, start)]
    seen: set[str] = set()
    while queue:
        minutes, place = heapq.heappop(queue)
        if place == end:
            return minutes
        if place not in seen:
            seen.add(place)
            for neighbour, more in roads[place].items():
                heapq.heappush(queue, (minutes + more, neighbour))
    return None


@nh.natural_function
async def minutes_after(roads: dict[str, dict[str, int]], note: str, start: str, end: str) -> int | None:
    """natural
    <roads> has the minutes from each place to its neighbours; every road stands there in both directions.
    Change it in place as <note> says, in both directions unless the note says otherwise. A closed road is
    removed. Do not look for a way: Python does that afterwards.
    """
    return shortest(roads, start, end)


class Road(BaseModel):
    start: str
    end: str
    minutes: int | None
    is_both_ways: bool


class Roads(BaseModel):
    changed: list[Road]


async def minutes_after_by_hand(
    chat: Chat, roads: dict[str, dict[str, int]], note: str, start: str, end: str
) -> int | None:
    answer = await chat.ask(
        f"Minutes from each place to its neighbours: {roads}\nNote about the traffic: {note}\nGive the "
        "roads that are new or change, with their new minutes, null for a closed one, and whether the "
        "change holds for both directions, as it does unless the note says otherwise.",
        Roads,
    )
    for road in answer.changed:
        for one, other in ((road.start, road.end), (road.end, road.start))[: 2 if road.is_both_ways else 1]:
            if road.minutes is None:
                roads[one].pop(other, None)
            else:
                roads[one][other] = road.minutes
    return shortest(roads, start, end)


def map_with(note: str, start: str = "Ulm", end: str = "Lindau") -> dict[str, object]:
    roads = {
        "Ulm": {"Kempten": 50, "Ravensburg": 60},
        "Kempten": {"Ulm": 50, "Lindau": 45},
        "Ravensburg": {"Ulm": 60, "Lindau": 40},
        "Lindau": {"Kempten": 45, "Ravensburg": 40},
    }
    return {"roads": roads, "note": note, "start": start, "end": end}


def road(start: str, end: str, minutes: int | None, *, is_both_ways: bool = True) -> dict[str, object]:
    return {"start": start, "end": end, "minutes": minutes, "is_both_ways": is_both_ways}


PROGRAM = Program(
    name="roads",
    what="notes about traffic change a graph, and Python finds the shortest way in it",
    features=("objects",),
    natural=minutes_after,
    by_hand=minutes_after_by_hand,
    held=lambda given: dict(given["roads"]),
    checks={
        "the graph has changed": lambda ended: ended["roads"] == ended.expected[0],
        "each place is the same object": lambda ended: all(
            ended["roads"][place] is neighbours for place, neighbours in ended.held.items()
        ),
        "the shortest way is right": lambda ended: ended.result == ended.expected[1],
    },
    inputs=(
        Input(
            name="closed",
            arguments=lambda: map_with(
                "The road between Ulm and Ravensburg is closed, and from Kempten to Lindau it "
                "takes ten minutes longer, in that direction only."
            ),
            expected=(
                {
                    "Ulm": {"Kempten": 50},
                    "Kempten": {"Ulm": 50, "Lindau": 55},
                    "Ravensburg": {"Lindau": 40},
                    "Lindau": {"Kempten": 45, "Ravensburg": 40},
                },
                105,
            ),
            answers=(
                goes_on(
                    evaluations=[
                        "(roads['Ulm'].pop('Ravensburg'), roads['Ravensburg'].pop('Ulm'))",
                        "roads['Kempten'].update(Lindau=55)",
                    ],
                ),
            ),
            replies=(
                {
                    "changed": [
                        road("Ulm", "Ravensburg", None),
                        road("Kempten", "Lindau", 55, is_both_ways=False),
                    ]
                },
            ),
            wrong_answers=(
                (
                    goes_on(
                        evaluations=["roads['Ulm'].pop('Ravensburg')", "roads['Kempten'].update(Lindau=55)"]
                    ),
                ),
                (
                    goes_on(
                        evaluations=[
                            "roads.update(Ulm={'Kempten': 50}, Ravensburg={'Lindau': 40})",
                            "roads['Kempten'].update(Lindau=55)",
                        ],
                    ),
                ),
            ),
            wrong_replies=(({"changed": [road("Ulm", "Ravensburg", None), road("Kempten", "Lindau", 55)]},),),
        ),
        Input(
            name="faster",
            arguments=lambda: map_with(
                "A new bypass: between Ravensburg and Lindau it now takes half the time."
            ),
            expected=(
                {
                    "Ulm": {"Kempten": 50, "Ravensburg": 60},
                    "Kempten": {"Ulm": 50, "Lindau": 45},
                    "Ravensburg": {"Ulm": 60, "Lindau": 20},
                    "Lindau": {"Kempten": 45, "Ravensburg": 20},
                },
                80,
            ),
            answers=(
                goes_on(
                    evaluations=[
                        "roads['Ravensburg'].update(Lindau=20)",
                        "roads['Lindau'].update(Ravensburg=20)",
                    ]
                ),
            ),
            replies=({"changed": [road("Ravensburg", "Lindau", 20)]},),
            wrong_answers=((goes_on(evaluations=["roads['Lindau'].update(Ravensburg=20)"]),),),
            wrong_replies=(({"changed": [road("Lindau", "Ravensburg", 20, is_both_ways=False)]},),),
        ),
        Input(
            name="cut off",
            arguments=lambda: map_with("Snow: every road that leads to Lindau is closed in both directions."),
            expected=(
                {
                    "Ulm": {"Kempten": 50, "Ravensburg": 60},
                    "Kempten": {"Ulm": 50},
                    "Ravensburg": {"Ulm": 60},
                    "Lindau": {},
                },
                None,
            ),
            answers=(
                goes_on(
                    evaluations=[
                        "[roads[place].pop('Lindau', None) for place in roads]",
                        "roads['Lindau'].clear()",
                    ],
                ),
            ),
            replies=({"changed": [road("Kempten", "Lindau", None), road("Ravensburg", "Lindau", None)]},),
        ),
    ),
)
