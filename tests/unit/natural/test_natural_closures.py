"""A block reads variables of enclosing functions that its function's Python code never mentions."""

import inspect

import pytest


def test_7_nested_natural_function_reads_variables_of_the_natural_function_around_it(load, script):
    module = load(
        """
        @natural
        def outer(argument):
            "natural\\nx"
            @natural
            def inner():
                "natural\\n<argument> <later> <holder.field>"
            later = 1
            holder = object
            inner()
            later = 2
            inner()
        """
    )
    module.outer(5)
    assert [call.names for call in script.calls] == [
        {"argument": 5},
        {"argument": 5, "later": 1, "holder": object},
        {"argument": 5, "later": 2, "holder": object},
    ]
    (block,) = script.transformed["outer.<locals>.inner"].blocks
    assert block.free_names == {"argument", "later", "holder"}
    assert script.transformed["outer.<locals>.inner"].mentioned_names == frozenset()


def test_7_cells_are_made_at_any_depth_and_through_classes(load, script):
    module = load(
        """
        @natural
        def outer(a):
            "natural\\nx"
            class C:
                a = "class"
                def plain(self):
                    async def deeper():
                        if True:
                            @natural
                            def inner():
                                f"natural\\n<a> {1}"
                            return inner
                    return deeper
            return C().plain()
        """
    )
    with pytest.raises(StopIteration) as caught:
        module.outer(7)().send(None)
    inner = caught.value.value
    inner()
    assert script.calls[-1].names == {"a": 7}
    assert inner.__qualname__ == "outer.<locals>.C.plain.<locals>.deeper.<locals>.inner"


def test_7_chain_of_natural_functions_shares_cells(load, script):
    module = load(
        """
        @natural
        def first(x):
            "natural\\n<:x>"
            @natural
            def second():
                "natural\\nx"
                @natural
                def third():
                    "natural\\n<x> <:written> <first>"
                    nonlocal_probe = written
                    return nonlocal_probe
                return third
            return second
        """
    )
    third = module.first(1)()
    script.will(written=3)
    assert third() == 3
    assert script.calls[-1].names == {"x": 1}
    assert script.transformed["first.<locals>.second.<locals>.third"].mentioned_names == {"first"}


def test_7_variable_of_a_plain_enclosing_function_is_mentioned_but_has_no_cell(load, script):
    module = load(
        """
        def outer(x, y):
            @natural
            def inner():
                "natural\\n<x> <y>"
                return y
            return inner()
        """
    )
    assert module.outer(1, 2) == 2
    assert script.calls[0].names == {"y": 2}
    assert script.transformed["outer.<locals>.inner"].mentioned_names == {"x"}


def test_nested_block_that_mentions_the_function_around_it_gets_no_cell_python_did_not_make(load, script):
    module = load(
        """
        def outer():
            @natural
            def middle():
                "natural\\nx"
                @natural
                def inner():
                    "natural\\n<middle> <outer> <local>"
                local = 1
                inner()
            middle()
        """
    )
    module.outer()
    assert script.calls[-1].names == {"local": 1}
    assert script.transformed["outer.<locals>.middle.<locals>.inner"].mentioned_names == {"middle", "outer"}


def test_types_in_annotations_of_nested_write_bindings_get_cells(load, script):
    module = load(
        """
        from __future__ import annotations
        @natural
        def outer():
            "natural\\nx"
            class Local: pass
            @natural
            def inner():
                "natural\\n<:result>"
                result: list[Local]
            inner()
            @natural
            def other():
                "natural\\n<:result>"
                result: "dict[str, Local]"
            other()
        """
    )
    module.outer()
    assert [set(call.names) for call in script.calls] == [set(), {"Local"}, {"Local"}]
    assert script.transformed["outer.<locals>.inner"].mentioned_names == {"list"}


def test_write_binding_makes_a_free_variable_local_as_an_assignment_does(load, script):
    module = load(
        """
        def outer(x):
            @natural
            def inner():
                "natural\\n<:x>"
                return x
            return inner(), x
        """
    )
    script.will(x=2)
    assert module.outer(1) == (2, 1)
    assert script.calls[0].names == {}
    assert "x" in script.calls[0].block.local_names


def test_each_closure_of_one_definition_has_its_own_cells_and_shares_its_compilation(load, script):
    module = load(
        """
        def outer(x):
            @natural
            def inner():
                "natural\\nx"
                return x
            return inner
        """
    )
    first, second = module.outer(1), module.outer(2)
    assert (first(), second()) == (1, 2)
    assert first.__code__ is second.__code__


def test_unbound_variable_of_the_enclosing_function_is_absent(load, script):
    module = load(
        """
        def outer():
            @natural
            def inner():
                "natural\\n<x>"
                return lambda: x
            inner()
            x = 1
        """
    )
    module.outer()
    assert script.calls[0].names == {}
    assert script.calls[0].block.free_names == {"x"}


def test_nested_functions_keep_their_generator_kind_and_qualified_names(load):
    module = load(
        """
        @natural
        def outer(a):
            "natural\\nx"
            def gen():
                yield a
                "natural\\n<a>"
            async def agen():
                "natural\\n<a>"
                yield a
            return gen, agen, (lambda: a)
        """
    )
    generator, async_generator, function = module.outer(1)
    assert inspect.isgeneratorfunction(generator)
    assert inspect.isasyncgenfunction(async_generator)
    assert [item.__qualname__ for item in (generator, async_generator, function)] == [
        "outer.<locals>.gen", "outer.<locals>.agen", "outer.<locals>.<lambda>"
    ]  # fmt: skip
    assert list(generator()) == [1]


def test_malformed_block_of_a_nested_function_is_its_own_decorators_affair(load):
    module = load(
        """
        @natural
        def outer():
            "natural\\nx"
            def inner():
                "natural\\n<:a.b> <é> <class> <:x>"
                x: "not an expression"
            return inner
        """
    )
    assert module.outer()() is None
