"""Types that the text of a block gives to variables."""

from collections.abc import Mapping

import pytest

from nighthawk_async.natural.named_types import types_beside


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("Classify <text>, save it as <:answer> as a <Category>.", {"answer": "Category"}),
        ("Set <:x> to a <Tag> for <y>", {"x": "Tag"}),
        ("Set <:x> to an instance of <Tag>", {"x": "Tag"}),
        ("Set <:x> to be a <Tag>; if unknown, leave <:x>.", {"x": "Tag"}),
        ("- <:x>: <Tag>\n- <:y> (a <Tag>)\n", {"x": "Tag", "y": "Tag"}),
        ("Save a new <Tag> as <:x>", {"x": "Tag"}),
        ("Make an <Order> in <:x>.", {"x": "Order"}),
        ("set <:x> as a\n    <Tag>\n  for it", {"x": "Tag"}),
        ("<:x> as a <Tag> and <:y> as a <B>.", {"x": "Tag", "y": "B"}),
        ("<:x> as a <Tag>. Then <:x> as a <Tag>.", {"x": "Tag"}),
        ("Set <:x> to a <Tag>; otherwise leave <:x> as it is.", {"x": "Tag"}),
        ("1. <:x>: <Tag>\n2. <:y>: <B>", {"x": "Tag", "y": "B"}),
        ("Save it as <:x>\nas an instance of <Tag>.\n\nThen stop.", {"x": "Tag"}),
        ("Set <:x> to a <Tag> and <:y> to a <B>.", {"x": "Tag", "y": "B"}),
        # what a variable holds already, or another form of a value
        ("Find an <Order> in <:x>.", {}),
        ("Put an <Item> into <:x>", {}),
        ("Add <:x> to a <Tag>", {}),
        ("Is there a <Tag> in <:x>?", {}),
        ("Delete a <Tag> called <:x>.", {}),
        ("The number of rows with a <Tag> as <:x>.", {}),
        ("Translate an <Email> into <:x>.", {}),
        ("Summarize a <Report> as <:x>.", {}),
        ("Rate it in <:x> as a <Reviewer> of <y>.", {}),
        ("Set <:ok> to True if <:x> is a <Tag>.", {}),
        ("In <:x>, a <Word> that occurs twice counts twice.", {}),
        ("Sum up in <:x>: <Report> for 2024.", {}),
        ("Name it <:x> (<Config> of the app).", {}),
        ("Set <:x> to a <Tag> in JSON", {}),
        ("Set <:x> to a <Tag>, written as text", {}),
        ("Set <:x> to a <Tag>: its name only", {}),
        ("Set <:x> to a <Tag> and its score", {}),
        # no value, several, or another
        ("Do not set <:x> to a <Tag>.", {}),
        ("Don't save <:x> as a <Tag>.", {}),
        ("For each line, save <:x> as a <Tag>.", {}),
        ("Set <:x> to a <Tag> for every line", {}),
        ("Set <:x> to a <Tag> for <y>, else to its name.", {}),
        ('Set <:x> to a <Tag>; "unknown" otherwise.', {}),
        ('Set <:x> to a <Tag>. If there is none, "unknown".', {}),
        ("Set <:x> to a <Tag>. If there is none, use <default>.", {}),
        ('Set <:x> to a <Tag>. If there is none, set <:x> to "unknown".', {}),
        # other readings
        ("Set <:x> to <Tag>", {}),
        ("Set <:x> to the <Tag> of <y>", {}),
        ("Set <:x> to a <Tag> name", {}),
        ("Set <:x> as a <Tag>'s name", {}),
        ("<:answer> as a <Tag>.VALUE", {}),
        ("<:x> as a <models.Tag>.", {}),
        ("set <:x> as a <Tag> or None", {}),
        ("set <:x> as a <Tag>, or None", {}),
        ("set <:x> as a <Tag> or a <B>", {}),
        ("set <:x> as a <Tag>, <B> or <C>", {}),
        ("set <:x> as a <Tag> and a <B>", {}),
        ("the <A> or a <B> as <:x>", {}),
        ("a list of a <Tag> as <:x>", {}),
        ("<:x> as a list of <Tag>", {}),
        ("<:x> as a <Tag>. Then <:x> as a <B>.", {}),
        (r"\<:x> as a <Tag>", {}),
        (r"<:x> as a \<Tag>", {}),
    ],
)
def test_a_type_is_taken_from_a_text_that_has_no_other_reading(text: str, types: Mapping[str, str]) -> None:
    assert types_beside([text]) == types


def test_no_type_extends_from_one_part_of_an_f_string_into_the_next() -> None:
    assert types_beside(["Set <:x> as a ", "<Tag>."]) == {}
