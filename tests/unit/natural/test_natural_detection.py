"""Which literals are blocks, and what is known of each at decoration."""

import sys

import pytest

from nighthawk_async.errors import NaturalParseError


def blocks_of(load, script, source, name="f"):
    load(source)
    return script.transformed[name].blocks


def block_lines(load, script, source, name="f"):
    return [block.line for block in blocks_of(load, script, source, name)]


def test_6_docstring_and_inline_literals_are_blocks(load, script):
    lines = block_lines(
        load,
        script,
        '''
        @natural
        def f():
            """natural
            first
            """
            'natural\\nsecond'
            f"natural\\nthird"
            (
                "natural\\n"
                "fourth"
            )
            r"""natural
            fifth"""
        ''',
    )
    assert lines == [4, 7, 8, 10, 13]


def test_6_near_misses_are_no_blocks(load, script):
    lines = block_lines(
        load,
        script,
        '''
        @natural
        def f(x="natural\\ndefault"):
            """An ordinary docstring."""
            b"natural\\nbytes"
            "Natural\\ncase"
            "natural"
            "natural \\nspace"
            "\\nnatural\\nblank"
            " natural\\nindent"
            y = "natural\\nassigned"
            print("natural\\nargument") if False else None
            "natural\\ntuple", 1
            -1
            f"{x}natural\\ninterpolated"
            f"{'natural'}\\nx"
            f""
            "natural\\nonly this" and None
            "natural\\n"
        ''',
    )
    assert lines == [19]


def test_6_an_f_string_that_comes_first_is_inline(load, script):
    (block,) = blocks_of(load, script, 'x = 1\n@natural\ndef f():\n    f"natural\\n{x} <:y>"\n')
    assert block.program is None
    assert block.write_names == ("y",)


def test_6_concatenated_literals_are_what_python_makes_of_them(load, script):
    blocks = blocks_of(
        load,
        script,
        '@natural\ndef f(x):\n    "nat" "ural\\n" "<a>"\n    "natural\\n" f"<b> {x}" "<c>" \'<d\' f">"\n',
    )
    assert blocks[0].program is not None
    assert blocks[0].read_names == ("a",)
    assert blocks[1].program is None
    assert blocks[1].read_names == ("b", "c", "d")


@pytest.mark.skipif(sys.version_info < (3, 14), reason="template strings are new in Python 3.14")
def test_6_template_strings_are_no_blocks(load, script):
    assert block_lines(load, script, '@natural\ndef f():\n    t"natural\\nx"\n    "natural\\ny"\n') == [4]


def test_6_literals_in_nested_functions_classes_and_lambdas_are_not_the_functions_own(load, script):
    lines = block_lines(
        load,
        script,
        """
        @natural
        def f():
            def g():
                "natural\\ng"
            class C:
                "natural\\nclass"
                def h(self):
                    "natural\\nh"
            k = lambda: "natural\\nlambda"
            "natural\\nmine"
        """,
    )
    assert lines == [11]


def test_11_bindings_of_an_f_string_come_from_its_literal_parts_only(load, script):
    (block,) = blocks_of(
        load,
        script,
        """
        name = "x"
        @natural
        def f():
            f"natural\\n{name}> {'<:y>'} <a> <:b> {name:<c>} {{<d>}} \\\\<e>"
        """,
    )
    assert block.read_names == ("a", "d")
    assert block.write_names == ("b",)


def test_block_knows_its_surroundings(load, script):
    module = load(
        """
        class C:
            @natural
            async def m(self, a, *b, c=1, **d):
                "natural\\n<a> <self.x> <:result>"
                for e in b: f = e
        """
    )
    (block,) = script.transformed["C.m"].blocks
    assert block.filename == module.__file__
    assert (block.line, block.module, block.function_name) == (5, module.__name__, "C.m")
    assert block.is_async
    assert block.read_names == ("a",)
    assert block.write_names == ("result",)
    assert block.program.references == ("a", "self.x", "result")
    assert block.local_names == {"self", "a", "b", "c", "d", "e", "f", "result"}
    assert block.free_names == frozenset()


def test_8_4_allowed_kinds_follow_the_loops_around_a_block(load, script):
    blocks = blocks_of(
        load,
        script,
        """
        @natural
        async def f(xs):
            "natural\\noutside"
            for x in xs:
                "natural\\nfor"
                if x:
                    with x:
                        try:
                            "natural\\ndeep"
                        except ValueError:
                            "natural\\nhandler"
                        else:
                            "natural\\nelse"
                        finally:
                            "natural\\nfinally"
                match x:
                    case 1:
                        "natural\\ncase"
            else:
                "natural\\nfor else"
            async for x in xs:
                "natural\\nasync for"
            while xs:
                "natural\\nwhile"
                for y in xs: pass
                else: "natural\\ninner else"
            else:
                "natural\\nwhile else"
        """,
    )
    outside, loop = ("pass", "return", "raise"), ("pass", "return", "break", "continue", "raise")
    assert [block.allowed_kinds for block in blocks] == [
        outside, loop, loop, loop, loop, loop, loop, outside, loop, loop, loop, outside
    ]  # fmt: skip


def test_8_4_an_except_star_handler_cannot_be_left_but_a_loop_inside_it_can_be_steered(load, script):
    blocks = blocks_of(
        load,
        script,
        """
        @natural
        def f():
            for x in [1]:
                try:
                    "natural\\nbody"
                except* ValueError:
                    "natural\\nhandler"
                    for y in [1]:
                        "natural\\nloop in handler"
                else:
                    "natural\\nelse"
                finally:
                    "natural\\nfinally"
        """,
    )
    loop = ("pass", "return", "break", "continue", "raise")
    assert [block.allowed_kinds for block in blocks] == [
        loop, ("pass", "raise"), ("pass", "break", "continue", "raise"), loop, loop
    ]  # fmt: skip


def test_7_annotations_of_write_bindings_are_compiled(load, script):
    module = load(
        """
        import decimal
        @natural
        def f(given: int):
            plain: list[int]
            "natural\\n<:plain> <:text> <:valued> <:given> <:bare> <:dotted> <read>"
            text: "dict[str, 'int']"
            if given:
                valued: float = 1.0
            valued: int
            dotted: decimal.Decimal
            unwritten: bytes
            bare = 3
        """
    )
    (block,) = script.transformed["f"].blocks
    values = {name: eval(code, vars(module)) for name, code in block.annotations.items()}
    assert values == {
        "plain": list[int], "text": dict[str, "int"], "valued": float, "dotted": module.decimal.Decimal
    }  # fmt: skip


def test_7_annotations_are_compiled_under_postponed_evaluation_too(load, script):
    module = load(
        """
        from __future__ import annotations
        @natural
        def f():
            "natural\\n<:x>"
            x: list[int] = []
        """
    )
    assert eval(script.transformed["f"].blocks[0].annotations["x"], vars(module)) == list[int]


def test_7_string_annotation_that_is_no_expression_is_refused(load):
    with pytest.raises(NaturalParseError, match=r":5: the annotation 'list\[' of the write binding <:x>"):
        load('@natural\ndef f():\n    "natural\\n<:x>"\n\n    x: "list["\n')


def test_mentioned_names_are_neither_local_nor_free_nor_declared_global(load, script):
    load(
        """
        def outer():
            enclosing = 1
            def inner(argument):
                global module_level
                "natural\\n<argument> <enclosing> <missing> <missing.x> <other.y> <module_level>"
                "natural\\n<:written> <len>"
                later = enclosing
                "natural\\n<later> <written> <item>"
                [item for item in later]
                written: Custom
            natural(inner)
        outer()
        """
    )
    transformed = script.transformed["outer.<locals>.inner"]
    assert transformed.mentioned_names == {"missing", "other", "len", "item", "Custom"}
    assert transformed.blocks[0].free_names == {"enclosing"}
    assert transformed.blocks[0].local_names == {"argument", "later", "written"}


def test_private_names_are_listed_as_python_mangles_them(load, script):
    load('class _C:\n    @natural\n    def f(self, __x):\n        "natural\\nx"\n        __y__ = __x\n')
    assert script.transformed["_C.f"].blocks[0].local_names == {"self", "_C__x", "__y__"}


@pytest.mark.parametrize(
    "literal", ['"natural\\n<:a.b>"', 'f"natural\\n{1} <:a.b>"', '"natural\\n---\\n---\\n"']
)
def test_8_4_malformed_block_is_refused_at_decoration_with_file_and_line(load, tmp_path, literal):
    with pytest.raises(NaturalParseError) as caught:
        load(f"@natural\ndef f():\n    x = 1\n    {literal}\n")
    assert caught.value.filename == str(tmp_path / "natural_example_0.py")
    assert caught.value.line == 4


def test_8_4_frontmatter_may_deny_everything_but_what_only_a_loop_allows(load, script):
    frontmatter = "natural\\n---\\ndeny: [pass, return, raise]\\n---\\nx"
    (block,) = blocks_of(load, script, f'@natural\ndef f():\n    while 1:\n        "{frontmatter}"\n')
    assert block.program.denied_kinds == {"pass", "return", "raise"}
    with pytest.raises(NaturalParseError, match=r":3: .*denies every outcome"):
        load(f'@natural\ndef f():\n    "{frontmatter}"\n')


def test_bindings_in_the_frontmatter_bind_nothing(load, script):
    (block,) = blocks_of(
        load, script, '@natural\ndef f():\n    "natural\\n---\\ndeny: [] # <:a.b> <c>\\n---\\n<d>"\n'
    )
    assert (block.read_names, block.write_names) == (("d",), ())
