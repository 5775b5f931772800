"""Filling the prompt templates (specification 8.2.1)."""

import pytest

from nighthawk_async.configuration import (
    DEFAULT_USER_PROMPT_TEMPLATE,
    SPECIFICATION_USER_PROMPT_TEMPLATE,
    StepPromptTemplates,
)
from nighthawk_async.prompt.sections import RenderedSection, render_system_prompt, render_user_prompt
from nighthawk_async.types.messages import ImageUrl

_EMPTY = RenderedSection(parts=())
_IMAGE = ImageUrl(url="https://example.com/a.png")


def _section(*parts: str | ImageUrl) -> RenderedSection:
    return RenderedSection(parts=parts)


def test_8_2_1_the_template_of_the_specification_delimits_three_sections() -> None:
    prompt = render_user_prompt(
        SPECIFICATION_USER_PROMPT_TEMPLATE,
        program="Do it.",
        locals_section=_section("a: int = 1"),
        globals_section=_section("f: ()"),
    )
    assert prompt == (
        "<<<NH:PROGRAM>>>\nDo it.\n<<<NH:END_PROGRAM>>>\n\n"
        "<<<NH:LOCALS>>>\na: int = 1\n<<<NH:END_LOCALS>>>\n\n"
        "<<<NH:GLOBALS>>>\nf: ()\n<<<NH:END_GLOBALS>>>\n",
    )


@pytest.mark.parametrize(
    ("locals_section", "globals_section", "text"),
    [
        ("a: int = 1", "f: ()", "Do it.\n\nLOCALS\na: int = 1\n\nGLOBALS\nf: ()\n"),
        ("a: int = 1", None, "Do it.\n\nLOCALS\na: int = 1\n\n"),
        (None, "f: ()", "Do it.\n\nGLOBALS\nf: ()\n"),
        (None, None, "Do it.\n\n"),
    ],
)
def test_the_default_template_has_headings_and_no_empty_section(
    locals_section: str | None, globals_section: str | None, text: str
) -> None:
    prompt = render_user_prompt(
        DEFAULT_USER_PROMPT_TEMPLATE,
        program="Do it.",
        locals_section=_EMPTY if locals_section is None else _section(locals_section),
        globals_section=_EMPTY if globals_section is None else _section(globals_section),
    )
    assert prompt == (text,)


def test_8_2_1_inserted_text_is_never_substituted_again() -> None:
    prompt = render_user_prompt(
        "$program|$locals",
        program="$locals $$ ${globals}",
        locals_section=_section("$program"),
        globals_section=_EMPTY,
    )
    assert prompt == ("$locals $$ ${globals}|$program",)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("${program}", "P"),
        ("$programs", "$programs"),
        ("$$program", "$program"),
        ("$5 and $ and $", "$5 and $ and $"),
        ("${unknown} ${program", "${unknown} ${program"),
        ("$program$program", "PP"),
        ("no placeholder", "no placeholder"),
    ],
)
def test_8_2_1_only_known_placeholders_are_substituted(template: str, text: str) -> None:
    assert render_user_prompt(template, program="P", locals_section=_EMPTY, globals_section=_EMPTY) == (text,)


def test_8_2_2_inline_content_splits_the_prompt_where_it_stands() -> None:
    prompt = render_user_prompt(
        "L:$locals G:$globals",
        program="",
        locals_section=_section("photo: ImageUrl =\n", _IMAGE, "\nz: int = 1"),
        globals_section=_section(_IMAGE),
    )
    assert prompt == ("L:photo: ImageUrl =\n", _IMAGE, "\nz: int = 1 G:", _IMAGE)


def test_8_2_2_prompt_may_begin_and_end_with_media() -> None:
    section = _section(_IMAGE)
    prompt = render_user_prompt(
        "$locals$globals", program="", locals_section=section, globals_section=section
    )
    assert prompt == (_IMAGE, _IMAGE)


def test_8_2_1_delimiters_in_the_program_are_left_alone() -> None:
    prompt = render_user_prompt(
        "$program", program="<<<NH:LOCALS>>>", locals_section=_EMPTY, globals_section=_EMPTY
    )
    assert prompt == ("<<<NH:LOCALS>>>",)


def test_system_prompt_gets_tools_and_outcome() -> None:
    assert (
        render_system_prompt("$tools/${outcome}/$program", tools="T $outcome", outcome="O")
        == "T $outcome/O/$program"
    )


def test_default_system_prompt_leaves_no_placeholder() -> None:
    template = StepPromptTemplates().step_system_prompt_template
    assert "$" not in render_system_prompt(template, tools="T", outcome="O")
