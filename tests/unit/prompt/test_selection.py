"""Which of the step's locals stand in a prompt (specification 8.2.2)."""

from nighthawk_async.prompt.sections import select_locals


def test_8_2_2_locals_are_ordered_lexicographically_without_dunder_names() -> None:
    selected = select_locals({"b": 1, "_private": 2, "a": 3, "__secret": 4, "__name__": 5, "B": 6})
    assert list(selected.items()) == [("B", 6), ("_private", 2), ("a", 3), ("b", 1)]


def test_8_2_2_names_that_no_expression_can_use_are_left_out() -> None:
    assert select_locals({".0": iter(()), "x": 1}) == {"x": 1}
