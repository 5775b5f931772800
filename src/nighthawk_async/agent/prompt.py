"""The prompts of one step, with the sentences about tools and answers (specification 8.2)."""

import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal, cast, get_args, get_origin

from msgspec.structs import replace as structs_replace

from ..configuration import StepContextLimits, StepExecutorConfiguration, StepPromptTemplates
from ..errors import ConfigurationError, ExecutionError
from ..kernel.context import StepContext
from ..kernel.declared_types import resolve_annotation, return_type
from ..kernel.tools import FIND_TOOL_NAME, PROGRESS_TOOL_NAME, PROVIDED_TOOL_NAMES, SKILL_TOOL_NAME
from ..prompt.plain_text import class_of
from ..prompt.scalars import PLAIN_TYPES, SCALARS, find_scalar_text
from ..prompt.sections import (
    RenderedSection,
    render_section,
    render_system_prompt,
    render_user_prompt,
)
from ..prompt.stubs import TypeNames, TypesSection, described_type, types_section
from ..prompt.tokens import TokenCounter
from ..prompt.types import note_described, note_exception
from ..prompt.value_sizes import take_long
from ..secret_names import HIDDEN
from ..types.messages import UserContent
from ..types.model import OutcomeTransport
from ..types.outcomes import OutcomeKind
from ..values.validation import as_written
from .answer_form import RETURN_VALUE, AnswerForm, answer_form_of
from .schemas import Endpoint

_ANYTHING = frozenset({id(object), id(Any)})
_CONTAINERS = frozenset(map(id, (list, dict, set, frozenset, tuple, deque)))
"""The types by identity, because any object may be an annotation."""


def plain_names(context: StepContext) -> frozenset[str]:
    """The write bindings in which JSON stays JSON though the block may mean objects.

    These are the ones without a type, and the ones of lists and dicts of anything if the program names a
    class: there a model may write the text of a member of an enumeration, for example, and it stays a text.

    Args:
        context: The state of the step.
    """
    types = {name: context.binding_types.get(name, object) for name in context.write_names}
    untyped = {name for name, annotation in types.items() if id(annotation) in _ANYTHING}
    plain = {name for name, annotation in types.items() if _stays_json(annotation)}
    return frozenset(plain if plain != untyped and _names_class(context) else untyped)


def _stays_json(annotation: object) -> bool:
    if id(annotation) in PLAIN_TYPES:
        return False
    if id(annotation) in _ANYTHING or id(annotation) in _CONTAINERS:
        return True
    arguments: tuple[object, ...] = get_args(annotation)
    if get_origin(annotation) is Literal:
        return False
    return any(map(_stays_json, arguments[:1] if get_origin(annotation) is Annotated else arguments))


def _names_class(context: StepContext) -> bool:
    """Whether the program names a class that is no exception."""
    for reference in context.references:
        value = context.step_locals.get(reference, context.referenced_globals.get(reference))
        # Not isinstance, which reads `__class__` of the value.
        if issubclass(type(value), type) and not issubclass(value, BaseException):  # pyright: ignore[reportArgumentType]
            return True
    return False


def known_return_type(context: StepContext) -> object:
    """The type of the return value; `object` if it is unknown.

    Args:
        context: The state of the step.
    """
    if id(context.return_annotation) in PLAIN_TYPES and not context.is_generator:
        return context.return_annotation
    try:
        return return_type(context)
    except ExecutionError:
        return object  # a block that returns a value raises elsewhere; others do not need the type


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

_CELL = (
    "nh_exec is a Python notebook cell: await works, calls in a list are awaited together, assignment sets "
    "<:x>, prints and the last value come back."
)

_LAST = "in the same response, unless you must see a result first"

_HIDDEN_NOTE = f"{HIDDEN} is a secret value, which code can use by its name."

_HIDDEN_DATA_NOTE = f"{HIDDEN} is a secret value."

_RESULTS = "Results of tools have names: a name in results or return_result stands for the result itself."

_TOKENS_OF_LINE = 80
"""The usual upper bound of a prompt line's length, its value not included."""

_PROVIDED_TOOL = re.compile(rf"(?<![\w.])(?:{'|'.join(PROVIDED_TOOL_NAMES)})(?!\w)")
_CALLED_TOOL = re.compile(r"(?<![\w.])nh_\w+(?=\()|(?<=\btool )nh_\w+|(?<![\w.])nh_\w+(?= tool\b)")


def check_mentioned_tools(
    program: str, *, step_id: str, offered: Sequence[str], known: Mapping[str, object]
) -> None:
    """Check that a program names no tool that the step does not offer.

    Args:
        program: The program text as its author wrote it. One without `nh_` names no tool.
        step_id: The step.
        offered: The names of the tools on offer, the outcome tool included.
        known: The Python names that the block can use.

    Raises:
        ConfigurationError: It names a provided tool, or writes a call of a tool, that is not on offer.
    """
    mentioned = dict.fromkeys((*_PROVIDED_TOOL.findall(program), *_CALLED_TOOL.findall(program)))
    for name in mentioned:
        if name in offered or name in known:
            continue
        remedy = "leave it out of the text"
        if name == FIND_TOOL_NAME:
            remedy = f"offer deferred tools (nighthawk_async.tool_set), or {remedy}"
        elif name == SKILL_TOOL_NAME:
            remedy = f"offer skills (nighthawk_async.scope(skills=…)), or {remedy}"
        elif name in PROVIDED_TOOL_NAMES and name != "nh_outcome":
            remedy = f"add it to provided_tools of the StepExecutorConfiguration, or {remedy}"
        tools = ", ".join(offered) or "none"
        raise ConfigurationError(
            f"step {step_id}: the program names the tool {name!r}, which this step does not offer; {remedy}. "
            f"Tools on offer: {tools}."
        )


@lru_cache(maxsize=256)
def tool_instructions(
    tool_result_max_tokens: int, visible_builtins: frozenset[str] | None = None, *, has_tools: bool = True
) -> str:
    """Advice on using the tools, in addition to their definitions, and on the names that code sees.

    Args:
        tool_result_max_tokens: The bound of one result.
        visible_builtins: The builtins that the step's code can use, if it sees no globals besides those that
            the block names; None for all.
        has_tools: Whether any tool is on offer beside `nh_outcome`.
    """
    use = (
        "Put independent calls into one response; results are previews of at most "
        f"{tool_result_max_tokens} tokens."
    )
    parts = (use if has_tools else "", _visibility(visible_builtins))
    return "\n".join(part for part in parts if part)


@lru_cache(maxsize=1024)
def concise_instructions(form: AnswerForm, *, plain: frozenset[str] = frozenset(), has_tools: bool) -> str:
    """Ways to end the block with `nh_outcome`, in few words: its schema says the rest.

    Args:
        form: The form of the answer.
        plain: The write bindings in which JSON stays JSON; see `plain_names`.
        has_tools: Whether any tool is on offer beside `nh_outcome`.
    """
    returns = "return" in form.allowed_kinds
    parts = [f"Call nh_outcome {_LAST}."] if has_tools else []
    if "pass" in form.allowed_kinds:
        parts.append("pass goes on" + ", return ends the whole function" * returns + ".")
    if form.expressible:
        data = "Bindings are JSON, expressions Python" if form.bindings else "Expressions are Python"
        parts.append(f"{data}; those left out stay as they are.")
    if form.media:
        parts.append("Images and sounds that you make are taken from your answer.")
    if form.takes_results:
        parts.append(_RESULTS)
    if untyped := [name for name in form.bindings if name in plain]:
        parts.append(f"JSON stays JSON in {', '.join(untyped)}.")
    return " ".join(parts)


def _visibility(visible_builtins: frozenset[str] | None) -> str:
    if visible_builtins is None:
        return ""
    listed = ", ".join(sorted(visible_builtins))
    builtins = f"of Python's builtins only {listed}" if listed else "none of Python's builtins"
    fails = "" if {"__build_class__", "__import__"} & visible_builtins else "; import and class fail"
    return (
        "Your expressions and statements see the names under LOCALS and GLOBALS, what they bind themselves, "
        f"and {builtins}{fails}."
    )


@lru_cache(maxsize=1024)
def answer_instructions(
    transport: OutcomeTransport,
    form: AnswerForm,
    *,
    binding_types: tuple[tuple[str, str], ...],
    return_type: str,
    plain: frozenset[str] = frozenset(),
    provided_tools: tuple[str, ...] = (),
    has_tools: bool = True,
) -> str:
    """Ways to end the block: with which outcomes, and with which values of its variables.

    Args:
        transport: The transport of the answer.
        form: The form of the answer.
        binding_types: The names of the write bindings with their types, as the model writes them.
        return_type: That of the return value.
        plain: The write bindings in which JSON stays JSON; see `plain_names`.
        provided_tools: The names of the provided tools on offer.
        has_tools: Whether any tool is on offer beside `nh_outcome`.
    """
    first = _FIRST[transport] if has_tools or transport != "tool" else _ALONE
    kinds = [f"- {kind}: {_effect_of(kind, form, return_type)}" for kind in form.allowed_kinds]
    variables = _variables(form, dict(binding_types), plain, provided_tools)
    results = [_RESULTS] if form.takes_results else []
    return "\n".join([first, *kinds, *variables, *results])


def _effect_of(kind: OutcomeKind, form: AnswerForm, return_type: str) -> str:
    match kind:
        case "return":
            return f"end the whole function with {_returned(form, return_type)}."
        case "raise":
            return f"fail with {_raised(form)}."
        case _:
            return _KINDS[kind]


def _returned(form: AnswerForm, return_type: str) -> str:
    typed = "" if return_type == _ANY_TYPE else f" ({return_type})"
    by_expression = "the Python expression return_expression"
    if RETURN_VALUE in form.media:
        return "the image or sound that you make" + f", or {by_expression}{typed}" * form.takes_expressions
    if not typed and form.return_value is not None and form.takes_expressions:
        return f"return_value, which stays JSON, or {by_expression}"
    if form.return_value is None and not form.takes_expressions:
        return f"return_result{typed}"
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


def _variables(
    form: AnswerForm, types: Mapping[str, str], plain: Collection[str], provided_tools: Collection[str]
) -> Iterator[str]:
    """The variables to set, with their types, and how each is set."""
    tools = " or ".join(name for name in ("nh_assign", "nh_exec") if name in provided_tools)
    if form.bindings:
        left_out = "null" if form.is_strict else "left out"
        kept = f"; what is {left_out} stays as it is" if form.takes_expressions else ""
        kept += ", and so does what a call set, if null" if form.nullable and tools and kept else ""
        yield f"Set in bindings, as JSON{kept}:"
        objects = f"; set objects with {tools}" if tools and form.takes_expressions else ""
        note = f" (stays JSON{objects})"
        yield from (_typed(name, types) + note * (name in plain) for name in form.bindings)
    if made := [name for name in form.media if name != RETURN_VALUE]:
        also = ", or set them by expressions" if form.takes_expressions else ""
        yield f"Make these as images or sounds, which are taken from your answer{also}:"
        yield from (_typed(name, types) for name in made)
    if expressed := [name for name in form.expressions if name not in form.media]:
        by = f"by expressions, with {tools}" if tools else "in results" if form.takes_results else ""
        yield f"Set these {by}:" if by else "These stay as they are:"
        yield from (_typed(name, types) for name in expressed)


def _typed(name: str, types: Mapping[str, str]) -> str:
    type_ = types.get(name, _ANY_TYPE)
    return f"- {name}" if type_ == _ANY_TYPE else f"- {name}: {type_}"


@dataclass(frozen=True, kw_only=True, eq=False)
class StepPrompt:
    """Renders the prompts of a step.

    Args:
        configuration: Limits and fragments.
        templates: The templates of its profile.
        counter: Counts tokens.
        context: The state of the step.
        program: The program text.
        tool_result_max_tokens: Tokens of one tool result's preview, at most.
        system_fragments: Texts the run's scopes append to the system prompt.
        user_fragments: Texts the run's scopes append to the user prompt.
        offered: What policies offer to the model, for the system prompt; empty for none.
        evaluates: Whether anything that the model writes is evaluated.
        takes_results: Whether values may be given by the names of results of tools.
        code_note: What the level of code says to the model; empty for nothing.
    """

    configuration: StepExecutorConfiguration
    templates: StepPromptTemplates
    counter: TokenCounter
    context: StepContext
    program: str
    tool_result_max_tokens: int
    system_fragments: Sequence[str] = ()
    user_fragments: Sequence[str] = ()
    offered: str = ""
    evaluates: bool = True
    takes_results: bool = False
    code_note: str = ""

    @cached_property
    def names(self) -> TypeNames:
        """The names by which the block writes types."""
        return TypeNames(self.context.step_locals, self.context.visible_globals)

    @cached_property
    def binding_types(self) -> tuple[tuple[str, str], ...]:
        """The name of each write binding with its type, as the block would write it."""
        types = self.context.binding_types
        return tuple([(name, self._written(types.get(name, object))) for name in self.context.write_names])

    @cached_property
    def returned(self) -> object:
        """The type of the return value; `object` if it is unknown."""
        return known_return_type(self.context)

    @cached_property
    def return_type(self) -> str:
        """The type of the return value, as the block would write it."""
        return self._written(self.returned)

    def _written(self, annotation: object) -> str:
        return PLAIN_TYPES.get(id(annotation)) or described_type(as_written(annotation), self.names)

    def is_concise(self, transport: OutcomeTransport) -> bool:
        """Whether the request is in few words: with tools whose schemas say what there is to say."""
        return transport == "tool" and self.configuration.profile == "concise"

    def answer_form(self, transport: OutcomeTransport, endpoint: Endpoint) -> AnswerForm:
        """The ways to answer the block; see `answer_form.answer_form_of`."""
        is_concise = self.is_concise(transport)
        if is_concise and self.configuration.model_settings.get("strict_tools") is not True:
            endpoint = structs_replace(
                endpoint, enforces_strict_schemas=False
            )  # it wants a null for all else
        return answer_form_of(
            self.context,
            transport,
            endpoint,
            returned=self.returned,
            is_concise=is_concise,
            evaluates=self.evaluates,
            takes_results=self.takes_results and transport != "direct",
        )

    def offered_tools(self, transport: OutcomeTransport) -> tuple[str, ...]:
        """The names of the provided tools on offer, but for `nh_outcome`."""
        chosen = self.configuration.provided_tools
        if not self.evaluates:
            return tuple(each for each in chosen if each == PROGRESS_TOOL_NAME) if chosen != "auto" else ()
        if chosen != "auto":
            return chosen
        if self.configuration.profile == "specification":
            return ("nh_eval", "nh_assign")
        named = [name for name in ("nh_eval", "nh_assign") if name in self.program]
        return (*named, "nh_exec") if "nh_exec" in self.program or self._needs_code(transport) else (*named,)

    def _needs_code(self, transport: OutcomeTransport) -> bool:
        """Whether code can help: something can be called, is not shown whole, or is there to be changed."""
        if any(each.shows_callables or each.is_incomplete or each.hides_values for each in self._sections):
            return True
        context = self.context
        returns = "return" in context.allowed_kinds and self.returned not in (None, type(None))
        is_for_data = bool(context.write_names) or returns
        mentioned = [context.step_locals[each] for each in context.read_names if each in context.step_locals]
        return any(_is_to_be_filled(each) or not (is_for_data or _is_constant(each)) for each in mentioned)

    def tool_instructions(self, *, has_tools: bool) -> str:
        """The instructions on the tools and on visible names; see `tool_instructions`."""
        visible = self.context.visible_builtins if self.evaluates else None
        text = tool_instructions(self.tool_result_max_tokens, visible, has_tools=has_tools)
        return "\n".join(filter(None, (text, self.code_note)))

    def cell_instructions(self, offered: Collection[str]) -> str:
        """The sentence on `nh_exec`, and that on visible names."""
        parts = (
            _CELL if "nh_exec" in offered else "",
            _visibility(self.context.visible_builtins) if self.evaluates else "",
            self.code_note,
        )
        return "\n".join(filter(None, parts))

    def concise_instructions(self, form: AnswerForm, *, has_tools: bool) -> str:
        """The instructions on the ways to end the block, in few words; see `concise_instructions`."""
        return concise_instructions(form, plain=plain_names(self.context), has_tools=has_tools)

    def answer_instructions(
        self, transport: OutcomeTransport, form: AnswerForm, *, has_tools: bool, offered: Sequence[str] = ()
    ) -> str:
        """The instructions on the ways to end the block; see `answer_instructions`."""
        return answer_instructions(
            transport,
            form,
            binding_types=self.binding_types,
            return_type=self.return_type,
            plain=plain_names(self.context),
            provided_tools=tuple(offered),
            has_tools=has_tools,
        )

    def system(self, *, tools: str, outcome: str, types: str) -> str:
        """The system prompt, suffix fragments included.

        Args:
            tools: The instructions on tools.
            outcome: The instructions on the outcome.
            types: The stubs of types; see `types`.
        """
        rendered = render_system_prompt(
            self.templates.step_system_prompt_template,
            tools=tools,
            outcome=outcome,
            types=types,
            tool_result_max_tokens=self.tool_result_max_tokens,
        )
        text = rendered.strip()
        return self.with_system_fragments(f"{text}\n\n{self.offered}" if self.offered else text)

    def with_system_fragments(self, text: str) -> str:
        """A system prompt with the suffix fragments appended."""
        fragments = (*self.configuration.system_prompt_suffix_fragments, *self.system_fragments)
        return "\n\n".join((text, *fragments))

    def user(self, *, types: str) -> tuple[UserContent, ...]:
        """The user prompt, media in their places, suffix fragments included; `types` as for `system`."""
        is_concise = self.configuration.profile == "concise"
        content = render_user_prompt(
            self.templates.step_user_prompt_template,
            program=self.program.rstrip("\n") if is_concise else self.program,
            locals_section=self._sections[0],
            globals_section=self._sections[1],
            types=types,
            tool_result_max_tokens=self.tool_result_max_tokens,
        )
        if is_concise and content and isinstance(content[-1], str):
            content = (*content[:-1], content[-1].rstrip("\n"))
        if is_concise and any(each.hides_values for each in self._sections):
            content = with_suffix(content, [_HIDDEN_NOTE if self.evaluates else _HIDDEN_DATA_NOTE])
        return self.with_user_fragments(content)

    @property
    def needs_counting(self) -> bool:
        """Whether fitting types and values into their budgets may need the tokenizer."""
        limits, context = self.configuration.context_limits, self.context
        return self._types_section.needs_counting(limits.types_max_tokens, self.counter) or not (
            _surely_fit(context.shown_locals, limits.locals_max_tokens, limits)
            and _surely_fit(context.referenced_globals, limits.globals_max_tokens, limits)
        )

    @property
    def takes_long(self) -> bool:
        """Whether the values are so large that writing them would hold the event loop."""
        values = (*self.context.shown_locals.values(), *self.context.referenced_globals.values())
        composed = [value for value in values if id(class_of(value)) not in SCALARS]
        return bool(composed) and take_long(composed)

    def write_values(self) -> None:
        """Write the values now, in any thread; the prompts are made of what is written."""
        self.counter.load()
        _ = self._sections

    def types(self, form: AnswerForm) -> str:
        """The stubs of types, without those of which the schemas of a concise form say everything."""
        max_tokens = self.configuration.context_limits.types_max_tokens
        return self._types_section.text(
            max_tokens, self.counter, said=form.definitions if form.is_concise else None
        )

    @cached_property
    def _types_section(self) -> TypesSection:
        _ = self._sections  # the names note what these mention
        section = types_section(self.names)
        self.context.shown_types = section.types
        return section

    @cached_property
    def _sections(self) -> tuple[RenderedSection, RenderedSection]:
        _ = self.binding_types, self.return_type  # noted first, because the block produces them
        self._note_parameters()
        for error_type in self.context.raise_error_types.values():
            note_exception(error_type, self.names)
        return self.section("locals"), self.section("globals")

    def _note_parameters(self) -> None:
        """Note the types of parameters, so that the types shown are the same whatever the arguments are."""
        for name, annotation in self.context.parameter_annotations.items():
            is_plain = annotation is object or id(annotation) in PLAIN_TYPES
            if is_plain or name not in self.context.step_locals:
                continue
            try:
                resolved = resolve_annotation(annotation, self.context, subject=f"parameter '{name}'")
            except ExecutionError:
                continue  # it may exist for type checkers alone
            self.names.declared[name] = described_type(as_written(resolved), self.names)
            note_described(resolved, self.names)

    def with_feedback(self, feedback: str) -> "StepPrompt":
        """The same, with the feedback of a check on the last answers at the end of the user prompt."""
        fragment = f"Your last answers were not accepted yet: {feedback}"
        return replace(self, user_fragments=(*self.user_fragments, fragment))

    def with_user_fragments(self, content: tuple[UserContent, ...]) -> tuple[UserContent, ...]:
        """A user prompt with the suffix fragments appended."""
        return with_suffix(content, (*self.configuration.user_prompt_suffix_fragments, *self.user_fragments))

    def section(
        self, name: Literal["locals", "globals"], only: Sequence[str] | None = None
    ) -> RenderedSection:
        """One section of the user prompt.

        Args:
            name: The section.
            only: The names to show; None for all.
        """
        entries = self.context.shown_locals if name == "locals" else self.context.referenced_globals
        return render_section(
            entries if only is None else {key: entries[key] for key in only if key in entries},
            section=name,
            limits=self.configuration.context_limits,
            references=self.context.mentions or self.context.references,
            style=self.configuration.json_renderer_style,
            show_secrets=self.configuration.show_secrets,
            counter=self.counter,
            names=self.names,
            as_specified=self.configuration.profile == "specification",
        )


def with_suffix(content: tuple[UserContent, ...], fragments: Sequence[str]) -> tuple[UserContent, ...]:
    """Content with paragraphs at its end."""
    if not fragments:
        return content
    suffix = "".join(f"\n\n{fragment}" for fragment in fragments)
    last = content[-1] if content else ""
    return (*content[:-1], last + suffix) if isinstance(last, str) else (*content, suffix)


def _is_constant(value: object) -> bool:
    """Whether nothing in a value can be changed in place."""
    left, seen = [value], set[int]()
    while left:
        each: Any = left.pop()
        kind = class_of(each)
        if kind is tuple or kind is frozenset:
            # Tuples may share parts at any depth (`test_concise_requests.test_deep_and_shared_tuples`).
            if id(each) not in seen:
                seen.add(id(each))
                left += each
        elif id(kind) not in PLAIN_TYPES and find_scalar_text(kind) is None:
            return False
    return True


def _is_to_be_filled(value: object) -> bool:
    """Whether a value is an empty container that can be changed: there is nothing in it to be read."""
    return type(value) in (list, dict, set, bytearray, deque) and not value


def _surely_fit(values: Mapping[str, object], max_tokens: int, limits: StepContextLimits) -> bool:
    """Whether a section surely fits its budget, and its values their limit: n bytes have at most n tokens."""
    room = max_tokens
    for value in values.values():
        most = _most_tokens(value)
        if most is None or most > (limits.value_max_tokens or max_tokens):
            return False
        room -= most + _TOKENS_OF_LINE
    return room >= 0


def _most_tokens(value: object) -> int | None:
    kind = type(value)
    if kind in (str, bytes):
        return 8 * len(cast("str", value))  # bytes per character, escapes and quotes included
    return 0 if kind in (int, float, bool, type(None)) or callable(value) else None
