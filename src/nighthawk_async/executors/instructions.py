"""What the system prompt says about tools and outcomes. Floor 4."""

from collections.abc import Collection, Mapping, Sequence

from ..types.model import OutcomeTransport
from ..types.outcomes import OutcomeKind

__all__ = [
    "direct_instructions",
    "outcome_instructions",
    "tool_instructions",
    "variable_instructions",
    "visibility_instructions",
]

_ANY_TYPE = "object"

_KINDS: dict[OutcomeKind, str] = {
    "pass": '{"kind": "pass"}: the block is done, the program goes on after it.',
    "return": '{"kind": "return", "return_expression": "…"}: the surrounding function returns the value '
    "of that Python expression.",
    "break": '{"kind": "break"}: leave the surrounding loop.',
    "continue": '{"kind": "continue"}: go on with the next iteration of the surrounding loop.',
    "raise": '{"kind": "raise", "raise_message": "…"}: fail with an exception of that message.',
}

_DIRECT_KINDS: dict[OutcomeKind, str] = {
    "return": '{"kind": "return", "return_value": …}: the surrounding function returns that value.'
}


def tool_instructions(provided_tools: Sequence[str], tool_result_max_tokens: int) -> str:
    """How to use the tools."""
    lines: list[str] = []
    if "nh_eval" in provided_tools:
        lines.append(
            "Call the functions shown under LOCALS and GLOBALS inside Python expressions given to nh_eval. "
            "A preview may be shortened; evaluate an expression to see more."
        )
    if "nh_assign" in provided_tools:
        lines.append("Set every <:name> with nh_assign before you end, unless PROGRAM leaves it as it is.")
    lines.append(
        f"Tool results are previews of at most {tool_result_max_tokens} tokens and may leave things out. Put "
        "calls that do not need each other's results into one response."
    )
    return "\n".join(lines)


def visibility_instructions(visible_builtins: Collection[str] | None) -> str:
    """Which names there are, where only those that the block names are visible."""
    if visible_builtins is None:
        return ""
    listed = ", ".join(sorted(visible_builtins))
    builtins = f"of Python's builtins only {listed}" if listed else "none of Python's builtins"
    fails = "" if {"__build_class__", "__import__"} & set(visible_builtins) else "; import and class fail"
    return (
        "Your expressions and statements see the names under LOCALS and GLOBALS, what they bind themselves, and "
        f"{builtins}{fails}."
    )


def variable_instructions(types: Mapping[str, str]) -> str:
    """Which variables the block sets, with the types that their values must have."""
    if not types:
        return ""
    return "\n".join(["Variables to set, and the types of their values:", *_typed_names(types)])


def outcome_instructions(
    transport: OutcomeTransport,
    allowed_kinds: Sequence[OutcomeKind],
    raise_error_types: Sequence[str],
    return_type: str,
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
    if "return" in allowed_kinds and return_type != _ANY_TYPE:
        lines.append(f"With 'return', the value must be {return_type}.")
    if "raise" in allowed_kinds and raise_error_types:
        lines.append(f"With 'raise', raise_error_type may be one of: {', '.join(raise_error_types)}.")
    return "\n".join(lines)


def direct_instructions(
    allowed_kinds: Sequence[OutcomeKind], raise_error_types: Sequence[str], types: Mapping[str, str]
) -> str:
    """How to answer a block with one JSON object."""
    kinds = [_DIRECT_KINDS.get(kind, _KINDS[kind]) for kind in allowed_kinds]
    lines = [
        'You have no tools. Answer with JSON only, one object {"bindings": {…}, "outcome": OUTCOME}.',
        "In bindings, give each variable to set its value:" if types else "Leave bindings empty: {}.",
        *_typed_names(types),
        "OUTCOME is one of:",
        *(f"- {kind}" for kind in kinds),
    ]
    if "raise" in allowed_kinds and raise_error_types:
        lines.append(f"With 'raise', raise_error_type may be one of: {', '.join(raise_error_types)}.")
    return "\n".join(lines)


def _typed_names(types: Mapping[str, str]) -> list[str]:
    return [f"- {name}" if type_ == _ANY_TYPE else f"- {name}: {type_}" for name, type_ in types.items()]
