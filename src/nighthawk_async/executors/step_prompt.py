"""The prompts of one step (specification 8.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from ..configuration import StepContextLimits, StepExecutorConfiguration
from ..errors import ExecutionError
from ..prompt.met_types import note_described
from ..prompt.stubs import TypeNames, TypesSection, described_type, types_section
from ..prompt.summary import RenderedSection, render_section
from ..prompt.template import render_system_prompt, render_user_prompt
from ..prompt.tokens import TokenCounter
from ..runtime.annotations import resolve_annotation, return_type
from ..runtime.step_context import StepContext
from ..runtime.variadics import as_written
from ..types.content import UserContent

__all__ = ["StepPrompt"]


@dataclass(frozen=True, kw_only=True, eq=False)
class StepPrompt:
    """Renders what a step tells its model.

    Args:
        configuration: Templates, limits and fragments.
        counter: Counts tokens.
        context: The state of the step.
        program: The program text.
        tool_result_max_tokens: Tokens of one tool result's preview, at most.
        system_fragments: Texts the run's scopes append to the system prompt.
        user_fragments: Texts the run's scopes append to the user prompt.
    """

    configuration: StepExecutorConfiguration
    counter: TokenCounter
    context: StepContext
    program: str
    tool_result_max_tokens: int
    system_fragments: Sequence[str] = ()
    user_fragments: Sequence[str] = ()

    @cached_property
    def names(self) -> TypeNames:
        """The names by which the block writes types."""
        return TypeNames(self.context.step_locals, self.context.visible_globals)

    @cached_property
    def binding_types(self) -> Mapping[str, str]:
        """The type of each write binding, as the block would write it."""
        types = self.context.binding_types
        return {
            name: described_type(as_written(types.get(name, object)), self.names)
            for name in self.context.write_names
        }

    @cached_property
    def return_type(self) -> str:
        """The type of the return value, as the block would write it; `object` where it cannot be told."""
        try:
            return described_type(as_written(return_type(self.context)), self.names)
        except ExecutionError:
            return "object"  # whoever returns a value is told; a block that returns none has no need

    def system(self, *, tools: str, outcome: str) -> str:
        """The system prompt, suffix fragments included."""
        rendered = render_system_prompt(
            self.configuration.prompts.step_system_prompt_template,
            tools=tools,
            outcome=outcome,
            types=self._types,
            tool_result_max_tokens=self.tool_result_max_tokens,
        )
        return self.with_system_fragments(rendered.strip())

    def with_system_fragments(self, text: str) -> str:
        """A system prompt with the suffix fragments appended."""
        fragments = (*self.configuration.system_prompt_suffix_fragments, *self.system_fragments)
        return "\n\n".join((text, *fragments))

    def user(self) -> tuple[UserContent, ...]:
        """The user prompt, media in their places, suffix fragments included."""
        content = render_user_prompt(
            self.configuration.prompts.step_user_prompt_template,
            program=self.program,
            locals_section=self._sections[0],
            globals_section=self._sections[1],
            types=self._types,
            tool_result_max_tokens=self.tool_result_max_tokens,
        )
        return self.with_user_fragments(content)

    @property
    def needs_counting(self) -> bool:
        """Whether it takes the tokenizer to fit the types into their budget."""
        return self._types_section.needs_counting(self._limits.types_max_tokens, self.counter)

    @property
    def _limits(self) -> StepContextLimits:
        return self.configuration.context_limits

    @property
    def _types(self) -> str:
        return self._types_section.text(self._limits.types_max_tokens, self.counter)

    @cached_property
    def _types_section(self) -> TypesSection:
        _ = self._sections  # the names note what these mention
        return types_section(self.names)

    @cached_property
    def _sections(self) -> tuple[RenderedSection, RenderedSection]:
        _ = self.binding_types, self.return_type  # noted first, because they are what the block makes
        self._note_parameters()
        return self.section("locals"), self.section("globals")

    def _note_parameters(self) -> None:
        """Note the types of parameters, so that the types shown are the same whatever the arguments are."""
        for name, annotation in self.context.parameter_annotations.items():
            if name not in self.context.step_locals or annotation is object:
                continue
            try:
                resolved = resolve_annotation(annotation, self.context, subject=f"parameter '{name}'")
            except ExecutionError:
                continue  # it may exist for type checkers alone
            described_type(as_written(resolved), self.names)
            note_described(resolved, self.names)

    def with_feedback(self, feedback: str) -> "StepPrompt":
        """The same, and what a check said of the last answers at the end of the user prompt."""
        fragment = f"Your last answers were not accepted yet: {feedback}"
        return replace(self, user_fragments=(*self.user_fragments, fragment))

    def with_user_fragments(self, content: tuple[UserContent, ...]) -> tuple[UserContent, ...]:
        """A user prompt with the suffix fragments appended."""
        fragments = (*self.configuration.user_prompt_suffix_fragments, *self.user_fragments)
        if not fragments:
            return content
        suffix = "".join(f"\n\n{fragment}" for fragment in fragments)
        last = content[-1] if content else ""
        return (*content[:-1], last + suffix) if isinstance(last, str) else (*content, suffix)

    def section(
        self, name: Literal["locals", "globals"], only: Sequence[str] | None = None
    ) -> RenderedSection:
        """One section of the user prompt.

        Args:
            name: Which section.
            only: The names to show; None for all.
        """
        entries = self.context.step_locals if name == "locals" else self.context.referenced_globals
        return render_section(
            entries if only is None else {key: entries[key] for key in only if key in entries},
            section=name,
            limits=self._limits,
            references=self.context.mentions or self.context.references,
            style=self.configuration.json_renderer_style,
            show_secrets=self.configuration.show_secrets,
            counter=self.counter,
            names=self.names,
        )
