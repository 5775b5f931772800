"""The tables of policies in the documentation say what the program says."""

import re
from pathlib import Path

import nighthawk_async as nh
from nighthawk_async.kernel.policy import Position

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"

IN_WORDS = {
    Position.RUN: "the end of a run ([`run.active()`](frameworks.md#one-of-several-runs))",
    Position.HOOKS: "hooks",
    Position.OWN: "your own",
    Position.OVERSIGHT: "oversight",
    Position.VERIFICATION: "checks (`verify=…`)",
    Position.PERMISSIONS: "permissions",
    Position.RESPONSES: "the response cache ([`cached`](resilience.md#cached))",
    Position.BUDGETS: "budgets",
    Position.ATTEMPTS: "the baseline (`resilience=…`)",
    Position.PEOPLE: "people (`human=…`)",
    Position.SKILLS: "skills (`skills=…`)",
    Position.VISIBLE_NAMES: "visible names",
    Position.CODE: "the level of code (`code=…`)",
    Position.SHARED_OBJECTS: "shared objects (`concurrent_mutation=…`)",
    Position.PASTS: "a past (`past=…`)",
    Position.READERS: ("readers of partial values ([`partial_values`](steps.md#values-while-they-arrive))"),
    Position.COMPACTION: "compaction ([long steps](steps.md#long-steps))",
    Position.MODEL: "recorders ([`cassette`](testing.md#recorded-exchanges))",
    Position.EGRESS: "egress (`egress=…`)",
}


def tables(heading: str) -> list[list[str]]:
    """The first columns of the tables below a heading, without their heads."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition(f"\n{heading}\n")
    found = re.findall(r"(?:^\|.*\n)+", section[: section.index("\n##")], re.MULTILINE)
    return [re.findall(r"^\| ?(.*?) ?\|", table, re.MULTILINE)[2:] for table in found]


def first_column(heading: str) -> list[str]:
    """The first column of the first table below a heading, without its head."""
    return tables(heading)[0]


def test_the_order_of_policies_is_that_of_the_page() -> None:
    assert first_column("### The order of policies") == [IN_WORDS[position] for position in sorted(Position)]


def test_the_page_lists_the_methods_that_a_policy_of_the_program_overrides() -> None:
    methods = [name for name, value in vars(nh.Policy).items() if callable(value) and name[0] != "_"]
    full, short = tables("## Policies of your own")
    documented = [re.findall(r"\w+", cell)[0] for cell in full]
    assert documented == methods
    assert {cell.strip("`") for cell in short if cell} <= set(documented)
