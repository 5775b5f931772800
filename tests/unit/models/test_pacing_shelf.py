"""The pacers of a run: the same one for the same key, and not more of them than are of use."""

from nighthawk_async.models.pacing_shelf import PacerShelf


def test_one_key_has_one_pacer_and_another_key_another() -> None:
    shelf = PacerShelf()
    with shelf.use("a") as first, shelf.use("a") as second, shelf.use("b") as other:
        assert first is second
        assert first is not other
        assert len(shelf) == 2


def test_what_a_pacer_learned_is_kept_when_nobody_uses_it() -> None:
    shelf = PacerShelf()
    with shelf.use("a") as first:
        pass
    with shelf.use("a") as again:
        assert first is again


def test_of_those_that_nobody_uses_so_many_are_kept_which_were_used_last() -> None:
    shelf = PacerShelf(most_idle=2)
    kept: dict[str, object] = {}
    for key in ("a", "b", "a", "c"):
        with shelf.use(key) as pacer:
            kept[key] = pacer
    assert len(shelf) == 2
    for key, is_kept in {"a": True, "c": True, "b": False}.items():
        with shelf.use(key) as pacer:
            assert (pacer is kept[key]) is is_kept


def test_a_pacer_that_somebody_uses_is_never_dropped() -> None:
    shelf = PacerShelf(most_idle=0)
    with shelf.use("a") as first:
        with shelf.use("a"):
            pass
        for key in range(10):
            with shelf.use(key):
                pass
        with shelf.use("a") as again:
            assert first is again
        assert len(shelf) == 1
    assert len(shelf) == 0


def test_a_request_that_fails_leaves_its_pacer_unused() -> None:
    shelf = PacerShelf(most_idle=0)
    try:
        with shelf.use("a"):
            raise ValueError
    except ValueError:
        pass
    assert len(shelf) == 0
