"""What the system prompt says about tools and outcomes. Floor 4."""

from collections.abc import Sequence

from ..types.model import OutcomeTransport
from ..types.outcomes import OutcomeKind

__all__ = ["direct_instructions", "outcome_instructions", "tool_instructions"]

_KINDS: dict[OutcomeKind, str] = {
    "pass": '{"kind": "pass"}: the block is done, the program goes on after it.',
    "return": '{"kind": "return", "return_expression": "…"}: the surrounding function returns the value '
    "of that Python expression.",
    "break": '{"kind": "break"}: leave the surrounding loop.',
    "continue": '{"kind": "continue"}: go on with the next iteration of the surrounding loop.',
    "raise": '{"kind": "raise", "raise_message": "…"}: fail with an exception of that message.',
}


def tool_instructions(provided_tools: Sequence[str], tool_result_max_tokens: int) -> str:
    """How to use the tools."""
    lines: list[str] = []
    if "nh_eval" in provided_tools:
        lines.append(
            "Call the functions shown under LOCALS and GLOBALS inside Python expressions given to nh_eval."
        )
    if "nh_assign" in provided_tools:
        lines.append("Set every <:name> with nh_assign before you end, unless PROGRAM leaves it as it is.")
    lines.append(
        f"Tool results are previews of at most {tool_result_max_tokens} tokens and may leave things out. Put "
        "calls that do not need each other's results into one response."
    )
    return "\n".join(lines)


def outcome_instructions(
    transport: OutcomeTransport, allowed_kinds: Sequence[OutcomeKind], raise_error_types: Sequence[str]
) -> str:
    """How to end the block, and with which outcomes."""
    if transport == "tool":
        first = (
            "End the block by calling nh_outcome once, as the last call; when nothing remains to be seen, in "
            "the same response as the other calls. Its arguments are one of:"
        )
    else:
        first = 'End the block by answering with JSON only, {"result": OUTCOME}, where OUTCOME is one of:'
    lines = [first, *(f"- {_KINDS[kind]}" for kind in allowed_kinds)]
    if "raise" in allowed_kinds and raise_error_types:
        lines.append(f"With 'raise', raise_error_type may be one of: {', '.join(raise_error_types)}.")
    return "\n".join(lines)


def direct_instructions(allowed_kinds: Sequence[OutcomeKind], write_names: Sequence[str]) -> str:
    """How to answer a block with one JSON object."""
    names = ", ".join(write_names) or "none"
    return (
        'You have no tools. Answer with one JSON object: "bindings" holds the values of the variables to set '
        f'({names}), "outcome" says how the block ends: kind {", ".join(allowed_kinds)}.'
    )
