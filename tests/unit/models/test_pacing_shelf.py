"""The pacers of a run: the same one for the same key, and not more of them than are of use."""

from nighthawk_async.models.http_pool import PacerShelf


def test_one_key_has_one_pacer_and_another_key_another() -> None:
    shelf = PacerShelf()
    first, second, other = shelf.take("a"), shelf.take("a"), shelf.take("b")
    assert first is second
    assert first is not other
    assert len(shelf) == 2


def test_what_a_pacer_learned_is_kept_when_nobody_uses_it() -> None:
    shelf = PacerShelf()
    first = shelf.take("a")
    shelf.give_back("a")
    assert shelf.take("a") is first


def test_of_those_that_nobody_uses_so_many_are_kept_which_were_used_last() -> None:
    shelf = PacerShelf(most_idle=2)
    kept: dict[str, object] = {}
    for key in ("a", "b", "a", "c"):
        kept[key] = shelf.take(key)
        shelf.give_back(key)
    assert len(shelf) == 2
    for key, is_kept in {"a": True, "c": True, "b": False}.items():
        assert (shelf.take(key) is kept[key]) is is_kept
        shelf.give_back(key)


def test_a_pacer_that_somebody_uses_is_never_dropped() -> None:
    shelf = PacerShelf(most_idle=0)
    first = shelf.take("a")
    shelf.take("a")
    shelf.give_back("a")
    for key in range(10):
        shelf.take(key)
        shelf.give_back(key)
    assert shelf.take("a") is first
    shelf.give_back("a")
    assert len(shelf) == 1
    shelf.give_back("a")
    assert len(shelf) == 0
