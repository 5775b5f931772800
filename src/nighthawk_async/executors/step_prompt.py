"""The prompts of one step (specification 8.2). Floor 4."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ..configuration import StepExecutorConfiguration
from ..errors import ExecutionError
from ..prompt.summary import RenderedSection, render_section
from ..prompt.template import render_system_prompt, render_user_prompt
from ..prompt.tokens import TokenCounter
from ..runtime.annotations import return_type
from ..runtime.step_context import StepContext
from ..runtime.validation import type_name
from ..types.content import UserContent

__all__ = ["StepPrompt", "binding_type_names", "return_type_name"]

_BLANK_LINES = re.compile(r"\n{3,}")


class StepPrompt(Struct, frozen=True, kw_only=True, eq=False):
    """Renders what a step tells its model.

    Args:
        configuration: Templates, limits and fragments.
        counter: Counts tokens.
        context: The state of the step.
        program: The program text.
        system_fragments: Texts the run's scopes append to the system prompt.
        user_fragments: Texts the run's scopes append to the user prompt.
    """

    configuration: StepExecutorConfiguration
    counter: TokenCounter
    context: StepContext
    program: str
    system_fragments: Sequence[str] = ()
    user_fragments: Sequence[str] = ()

    def system(self, *, tools: str, outcome: str) -> str:
        """The system prompt, suffix fragments included."""
        rendered = render_system_prompt(
            self.configuration.prompts.step_system_prompt_template, tools=tools, outcome=outcome
        )
        if not tools:
            rendered = _BLANK_LINES.sub("\n\n", rendered)
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
            locals_section=self.section("locals"),
            globals_section=self.section("globals"),
        )
        return self.with_user_fragments(content)

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
            limits=self.configuration.context_limits,
            references=self.context.mentions or self.context.references,
            style=self.configuration.json_renderer_style,
            show_secrets=self.configuration.show_secrets,
            counter=self.counter,
        )


def binding_type_names(context: StepContext) -> Mapping[str, str]:
    """The type of each write binding, as a person would write it."""
    return {name: type_name(context.binding_types.get(name, object)) for name in context.write_names}


def return_type_name(context: StepContext) -> str:
    """The type of the return value, as a person would write it; `object` where it cannot be told."""
    try:
        return type_name(return_type(context))
    except ExecutionError:
        return type_name(object)  # whoever returns a value is told; a block that returns none has no need
