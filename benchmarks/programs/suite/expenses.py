"""Claims are checked by a policy in words; the exceptions of a block sort them."""

from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel

import nighthawk_async as nh

from ...prompts.block import Answer, aborts, goes_on
from ..chat import Chat
from ..program import Input, Program

POLICY = """A meal may cost up to 25 euros a person, 40 with guests of another company. Trains are second
class; first class is paid for rides of over four hours. Everything above 10 euros needs a receipt. Alcohol is
never paid."""


class RefusedError(Exception):
    """A claim is against the policy."""


class ReceiptMissingError(Exception):
    """A claim would be paid if there was a receipt."""


@dataclass
class Claim:
    text: str
    euros: int
    has_receipt: bool = True


@dataclass
class Desk:
    paid: int = 0
    refused: list[Claim] = field(default_factory=list[Claim])
    returned: list[Claim] = field(default_factory=list[Claim])


@nh.natural_function
async def check(claim: Claim) -> None:
    """natural
    Does the policy <POLICY> allow <claim>? If it is against the policy, whether there is a receipt or not,
    raise RefusedError. If only its receipt is missing, raise ReceiptMissingError.
    """


async def settle(desk: Desk, claims: list[Claim]) -> None:
    for claim in claims:
        try:
            await check(claim)
        except RefusedError:
            desk.refused.append(claim)
        except ReceiptMissingError:
            desk.returned.append(claim)
        else:
            desk.paid += claim.euros


class Verdict(BaseModel):
    verdict: Literal["allowed", "against the policy", "only the receipt is missing"]


async def settle_by_hand(chat: Chat, desk: Desk, claims: list[Claim]) -> None:
    for claim in claims:
        answer = await chat.ask(
            f"A policy: {POLICY}\nA claim of {claim.euros} euros, "
            f"{'with' if claim.has_receipt else 'without'} a receipt: {claim.text}\nIs it allowed, against "
            "the policy (whether there is a receipt or not), or is only its receipt missing?",
            Verdict,
        )
        if answer.verdict == "against the policy":
            desk.refused.append(claim)
        elif answer.verdict == "only the receipt is missing":
            desk.returned.append(claim)
        else:
            desk.paid += claim.euros


def desk(*claims: Claim) -> dict[str, object]:
    return {"desk": Desk(), "claims": list(claims)}


def verdicts(*words: str) -> tuple[dict[str, str], ...]:
    return tuple({"verdict": word} for word in words)


PAID: Answer = goes_on()
REFUSED, RETURNED = (
    aborts("against the policy", "RefusedError"),
    aborts("receipt, please", "ReceiptMissingError"),
)
ALLOWED, AGAINST, MISSING = "allowed", "against the policy", "only the receipt is missing"

PROGRAM = Program(
    name="expenses",
    what="a block raises by a policy in words, and Python catches by type",
    features=("exceptions",),
    natural=settle,
    by_hand=settle_by_hand,
    held=lambda given: list(given["claims"]),
    checks={
        "what is paid is right": lambda ended: ended["desk"].paid == ended.expected[0],
        "the right claims are refused": lambda ended: (
            [ended.held.index(claim) for claim in ended["desk"].refused] == ended.expected[1]
        ),
        "the right claims are returned": lambda ended: (
            [ended.held.index(claim) for claim in ended["desk"].returned] == ended.expected[2]
        ),
        "the claims are untouched": lambda ended: ended["claims"] == ended.before["claims"],
    },
    inputs=(
        Input(
            name="meals",
            arguments=lambda: desk(
                Claim("Lunch for one, alone", 31),
                Claim("Dinner for one, with a buyer of another company, who paid for herself", 38),
                Claim("A beer after work", 6),
                Claim("Sandwich at noon", 9, has_receipt=False),
            ),
            expected=(47, [0, 2], []),
            answers=(REFUSED, PAID, REFUSED, PAID),
            replies=verdicts(AGAINST, ALLOWED, AGAINST, ALLOWED),
            wrong_answers=(
                (REFUSED, PAID, PAID, RETURNED),
                (REFUSED, PAID, REFUSED, goes_on(evaluations=["setattr(claim, 'has_receipt', True)"])),
            ),
            wrong_replies=(verdicts(AGAINST, ALLOWED, ALLOWED, MISSING),),
        ),
        Input(
            name="trains",
            arguments=lambda: desk(
                Claim("First class from Munich to Ulm, an hour and twenty minutes", 60),
                Claim("First class from Munich to Hamburg, a ride of six hours", 190),
                Claim("Second class from Ulm to Kempten", 24, has_receipt=False),
            ),
            expected=(190, [0], [2]),
            answers=(REFUSED, PAID, RETURNED),
            replies=verdicts(AGAINST, ALLOWED, MISSING),
            wrong_answers=((REFUSED, REFUSED, RETURNED), (PAID, PAID, REFUSED)),
            wrong_replies=(verdicts(AGAINST, AGAINST, MISSING), verdicts(ALLOWED, ALLOWED, AGAINST)),
        ),
        Input(
            name="both",
            arguments=lambda: desk(
                Claim("A bottle of wine for the guests from another company", 22, has_receipt=False),
                Claim("Lunch alone, soup of the day", 12, has_receipt=False),
            ),
            expected=(0, [0], [1]),
            answers=(REFUSED, RETURNED),
            replies=verdicts(AGAINST, MISSING),
            wrong_answers=((RETURNED, RETURNED),),
            wrong_replies=(verdicts(MISSING, MISSING),),
        ),
    ),
)
