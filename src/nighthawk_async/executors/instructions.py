"""Sentences of the system prompt about tools and answers, the same for every outcome transport."""

from collections.abc import Collection, Iterator, Mapping

from ..types.model import OutcomeTransport
from ..types.outcomes import OutcomeKind
from .answer_form import AnswerForm

__all__ = ["answer_instructions", "tool_instructions", "visibility_instructions"]

_ANY_TYPE = "object"

_KINDS: Mapping[OutcomeKind, str] = {
    "pass": "go on after the block.",
    "break": "leave the surrounding loop.",
    "continue": "go on with the loop's next iteration.",
}

_FIRST: Mapping[OutcomeTransport, str] = {
    "tool": "End with one call of nh_outcome: alone if nothing has to be called, else last, beside calls "
    "whose results you need not see. Its kind:",
    "native": 'End the block by answering with JSON alone, {"result": {"kind": KIND, …}}. KIND is one of:',
    "direct": 'You have no tools. Answer with JSON alone, {"result": {"kind": KIND, …}}. KIND is one of:',
}

_ALONE = "Answer with one call of nh_outcome. Its kind:"


def tool_instructions(tool_result_max_tokens: int) -> str:
    """Advice on using the tools, beside what their definitions say.

    Args:
        tool_result_max_tokens: The bound of one result.
    """
    return (
        "Put independent calls into one response; results are previews of at most "
        f"{tool_result_max_tokens} tokens."
    )


def visibility_instructions(visible_builtins: Collection[str] | None) -> str:
    """Return the instructions on visible names, where only those that the block names are."""
    if visible_builtins is None:
        return ""
    listed = ", ".join(sorted(visible_builtins))
    builtins = f"of Python's builtins only {listed}" if listed else "none of Python's builtins"
    fails = "" if {"__build_class__", "__import__"} & set(visible_builtins) else "; import and class fail"
    return (
        "Your expressions and statements see the names under LOCALS and GLOBALS, what they bind themselves, "
        f"and {builtins}{fails}."
    )


def answer_instructions(
    transport: OutcomeTransport,
    form: AnswerForm,
    *,
    binding_types: Mapping[str, str],
    return_type: str,
    provided_tools: Collection[str] = (),
    has_tools: bool = True,
) -> str:
    """Ways to end the block: with which outcomes, and with which values of its variables.

    Args:
        transport: The transport of the answer.
        form: What it may be.
        binding_types: The types of the write bindings, as the model writes them.
        return_type: That of the return value.
        provided_tools: The names of the provided tools on offer.
        has_tools: Whether any tool is on offer beside `nh_outcome`.
    """
    first = _FIRST[transport] if has_tools or transport != "tool" else _ALONE
    kinds = [f"- {kind}: {_effect_of(kind, form, return_type)}" for kind in form.allowed_kinds]
    return "\n".join([first, *kinds, *_variables(form, binding_types, provided_tools)])


def _effect_of(kind: OutcomeKind, form: AnswerForm, return_type: str) -> str:
    match kind:
        case "return":
            return f"{_returned(form, return_type)}."
        case "raise":
            return f"fail with {_raised(form)}."
        case _:
            return _KINDS[kind]


def _returned(form: AnswerForm, return_type: str) -> str:
    typed = "" if return_type == _ANY_TYPE else f" ({return_type})"
    by_expression = "the Python expression return_expression"
    if form.return_value is None:
        return f"{by_expression}{typed}"
    return f"return_value{typed} or {by_expression}" if form.takes_expressions else f"return_value{typed}"


def _raised(form: AnswerForm) -> str:
    parts = ["raise_message"]
    if form.raise_error_types:
        parts.append(f"of raise_error_type {' or '.join(form.raise_error_types)}")
    if form.raises_objects:
        parts.append("or with the exception of raise_expression")
    return " ".join(parts)


def _variables(form: AnswerForm, types: Mapping[str, str], provided_tools: Collection[str]) -> Iterator[str]:
    """The variables to set, with their types, and how each is set."""
    if form.bindings:
        left_out = "null" if form.is_strict else "left out"
        kept = f"; what is {left_out} stays as it is" if form.takes_expressions else ""
        yield f"Set in bindings, as JSON{kept}:"
        yield from (_typed(name, types) for name in form.bindings)
    if form.expressions:
        tools = " or ".join(name for name in ("nh_assign", "nh_exec") if name in provided_tools)
        yield f"Set these by expressions, with {tools}:" if tools else "These stay as they are:"
        yield from (_typed(name, types) for name in form.expressions)


def _typed(name: str, types: Mapping[str, str]) -> str:
    type_ = types.get(name, _ANY_TYPE)
    return f"- {name}" if type_ == _ANY_TYPE else f"- {name}: {type_}"
