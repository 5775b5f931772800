"""Which names stand in the sections (specification 8.2.2 and 8.2.3)."""

from nighthawk_async.prompt.selection import select_globals, select_locals


def test_8_2_2_locals_are_ordered_lexicographically_without_dunder_names() -> None:
    selected = select_locals({"b": 1, "_private": 2, "a": 3, "__secret": 4, "__name__": 5, "B": 6})
    assert list(selected.items()) == [("B", 6), ("_private", 2), ("a", 3), ("b", 1)]


def test_8_2_2_names_that_no_expression_can_use_are_left_out() -> None:
    assert select_locals({".0": iter(()), "x": 1}) == {"x": 1}


def test_8_2_3_globals_are_the_referenced_names_that_are_not_local() -> None:
    selected = select_globals(
        step_globals={"f": 1, "g": 2, "shadowed": 3, "unused": 4},
        step_locals={"shadowed": 0},
        references=["g.field", "f", "shadowed", "missing", "missing.path"],
    )
    assert list(selected.items()) == [("f", 1), ("g", 2)]
