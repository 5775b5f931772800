"""A game: the words of a player change the enemies and the hero."""

import json
from dataclasses import asdict, dataclass

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import goes_on
from ..chat import Chat
from ..program import Input, Program

RULES = """A fireball costs 5 mana, hits everyone of one kind and takes 6 health from each; trolls are immune
to fire. An arrow costs nothing, hits one enemy and takes 3 health. A potion gives the hero 4 mana. Who cannot
pay does nothing. Health never falls below 0."""


@dataclass
class Enemy:
    name: str
    kind: str
    health: int


@dataclass
class Hero:
    mana: int


@nh.natural_function
async def play(hero: Hero, enemies: list[Enemy], action: str) -> list[str]:
    """natural
    The player says <action>. Change <hero> and the health of <enemies> in place by the <RULES>. Leave the
    list itself as it is: Python buries the dead.
    """
    dead = [enemy.name for enemy in enemies if enemy.health == 0]
    enemies[:] = [enemy for enemy in enemies if enemy.health]
    return dead


class Health(BaseModel):
    name: str
    health: int


class Turn(BaseModel):
    mana: int
    hit: list[Health]


async def play_by_hand(chat: Chat, hero: Hero, enemies: list[Enemy], action: str) -> list[str]:
    turn = await chat.ask(
        f"Rules of a game:\n{RULES}\nThe hero has {hero.mana} mana. The enemies: "
        f"{json.dumps([asdict(enemy) for enemy in enemies])}\nThe player says: {action}\n"
        "Give the new mana of the hero, and the new health of each enemy that was hit.",
        Turn,
    )
    hero.mana = turn.mana
    by_name = {enemy.name: enemy for enemy in enemies}
    for hit in turn.hit:
        by_name[hit.name].health = hit.health
    dead = [enemy.name for enemy in enemies if enemy.health == 0]
    enemies[:] = [enemy for enemy in enemies if enemy.health]
    return dead


def camp(action: str, mana: int = 7) -> dict[str, object]:
    enemies = [Enemy("Grik", "goblin", 6), Enemy("Snag", "goblin", 9), Enemy("Olaf", "troll", 10)]
    return {"hero": Hero(mana), "enemies": enemies, "action": action}


PROGRAM = Program(
    name="battle",
    what="the words of a player change the objects of a game by its rules",
    features=("objects",),
    natural=play,
    by_hand=play_by_hand,
    held=lambda given: {enemy.name: enemy for enemy in given["enemies"]},
    checks={
        "the health is right": lambda ended: (
            {name: enemy.health for name, enemy in ended.held.items()} == ended.expected[0]
        ),
        "the survivors are the same objects": lambda ended: all(
            enemy is ended.held[enemy.name] for enemy in ended["enemies"]
        ),
        "the hero has paid": lambda ended: ended["hero"].mana == ended.expected[1],
        "the dead are buried": lambda ended: ended.result == ended.expected[2],
    },
    inputs=(
        Input(
            name="fire",
            arguments=lambda: camp("I throw a fireball at these goblins!"),
            expected=({"Grik": 0, "Snag": 3, "Olaf": 10}, 2, ["Grik"]),
            answers=(
                goes_on(
                    evaluations=[
                        "setattr(hero, 'mana', 2)",
                        "(setattr(enemies[0], 'health', 0), setattr(enemies[1], 'health', 3))",
                    ],
                ),
            ),
            replies=({"mana": 2, "hit": [{"name": "Grik", "health": 0}, {"name": "Snag", "health": 3}]},),
            wrong_answers=(
                (
                    goes_on(
                        evaluations=["setattr(enemies[0], 'health', 0)", "setattr(enemies[1], 'health', 3)"]
                    ),
                ),
                (
                    goes_on(
                        evaluations=[
                            "setattr(hero, 'mana', 2)",
                            "enemies.__setitem__(slice(None), [Enemy('Grik', 'goblin', 0), Enemy('Snag', "
                            "'goblin', 3), enemies[2]])",
                        ],
                    ),
                ),
                (
                    goes_on(
                        evaluations=[
                            "setattr(hero, 'mana', 2)",
                            "enemies.pop(0)",
                            "setattr(enemies[0], 'health', 3)",
                        ],
                    ),
                ),
            ),
            wrong_replies=(({"mana": 2, "hit": [{"name": "Grik", "health": 0}]},),),
        ),
        Input(
            name="immune",
            arguments=lambda: camp("A fireball at the troll! And then an arrow into Snag's knee."),
            expected=({"Grik": 6, "Snag": 6, "Olaf": 10}, 2, []),
            answers=(goes_on(evaluations=["setattr(hero, 'mana', 2)", "setattr(enemies[1], 'health', 6)"]),),
            replies=({"mana": 2, "hit": [{"name": "Snag", "health": 6}]},),
            wrong_answers=(
                (
                    goes_on(
                        evaluations=[
                            "setattr(hero, 'mana', 2)",
                            "(setattr(enemies[1], 'health', 6), setattr(enemies[2], 'health', 4))",
                        ],
                    ),
                ),
            ),
            wrong_replies=(
                ({"mana": 2, "hit": [{"name": "Snag", "health": 6}, {"name": "Olaf", "health": 4}]},),
            ),
        ),
        Input(
            name="no mana",
            arguments=lambda: camp("I hurl a ball of fire at the goblins.", mana=4),
            expected=({"Grik": 6, "Snag": 9, "Olaf": 10}, 4, []),
            answers=(goes_on(),),
            replies=({"mana": 4, "hit": []},),
            wrong_answers=((goes_on(evaluations=["setattr(hero, 'mana', -1)"]),),),
            wrong_replies=(({"mana": -1, "hit": []},),),
        ),
    ),
)
