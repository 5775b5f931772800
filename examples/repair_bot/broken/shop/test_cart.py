"""What the shop promises."""

from .cart import Cart


def test_a_cart_adds_up() -> None:
    cart = Cart()
    cart.add("lamp", 2_500)
    cart.add("shade", 1_200, quantity=2)
    assert cart.total() == 4_900


def test_more_of_the_same_is_added() -> None:
    cart = Cart()
    cart.add("lamp", 2_500)
    cart.add("lamp", 2_500, quantity=2)
    assert cart.total() == 7_500


def test_a_tenth_is_free_from_100_on() -> None:
    cart = Cart()
    cart.add("lamp", 2_500, quantity=4)
    assert cart.total() == 9_000
