"""Declaring that steps may share an object."""

import gc

import pytest

import nighthawk_async as nh
from nighthawk_async.values.snapshots import is_shared


class Cache:
    pass


class Canary:
    """Says when it is gone; nobody can refer to it weakly."""

    __slots__ = ("gone",)

    def __init__(self, gone: list[int]) -> None:
        self.gone = gone

    def __del__(self) -> None:
        self.gone.append(1)


@pytest.mark.parametrize("value", [[1], {}, {1}, Cache()], ids=lambda value: type(value).__name__)
def test_the_object_itself_comes_back_declared(value: object) -> None:
    assert not is_shared(value)
    assert nh.shared(value) is value
    assert is_shared(value)


def test_an_equal_object_is_not_declared() -> None:
    value = nh.shared([1])
    assert not is_shared(value.copy())


def test_a_class_declares_its_instances_and_those_of_its_subclasses() -> None:
    @nh.shared
    class Registry:
        pass

    class Special(Registry):
        pass

    assert is_shared(Registry())
    assert is_shared(Special())
    assert not is_shared(Cache())


def test_an_object_that_is_gone_leaves_its_declaration_to_nobody() -> None:
    for _ in range(100):
        assert not is_shared(Cache())
        nh.shared(Cache())
    gc.collect()
    assert not any(is_shared(Cache()) for _ in range(100))


def test_declarations_of_what_nobody_holds_any_more_are_let_go() -> None:
    gone: list[int] = []
    kept = nh.shared(Canary(gone))
    for _ in range(1_000):
        nh.shared(Canary(gone))
    assert len(gone) > 800
    assert is_shared(kept)
