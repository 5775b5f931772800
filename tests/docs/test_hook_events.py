"""The table of events in the documentation says what the table in the program says."""

import re
from pathlib import Path

from nighthawk_async.policies.hooks.rules import EVENT_RULES, EventRule

PAGE = Path(__file__).parents[2] / "docs" / "oversight.md"


def rows() -> dict[str, str]:
    """What a hook may do, by the name of the event."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^\| (`[A-Z].*`) \| .* \| (.*) \|$", text[text.index("### Events") :], re.MULTILINE)
    return {name: allowed for names, allowed in found for name in re.findall(r"`(\w+)`", names)}


def in_words(rule: EventRule) -> str:
    """What a hook may answer, as the page says it."""
    words = ["veto"] if rule.action is not None else []
    words += [f"modify `{rule.modified_field}`"] if rule.modified_field else []
    return (", or ".join(words) or "observe") + ", `def` only" * rule.is_synchronous


def test_every_event_is_in_the_table_with_what_a_hook_may_do() -> None:
    assert rows() == {event.__name__: in_words(rule) for event, rule in EVENT_RULES.items()}
