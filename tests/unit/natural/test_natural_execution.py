"""Transformed functions run like the functions they were, with their blocks carried out."""

import inspect
import sys
import traceback

import anyio
import pytest

from nighthawk_async.errors import NaturalParseError


def test_9_docstring_block_runs_first_and_commits_its_write_bindings(load, script):
    module = load(
        '''
        @natural
        def average(numbers):
            """natural
            Average <numbers> into <:result>.
            """
            return result
        '''
    )
    script.will(result=2.5)
    assert module.average([1, 4]) == 2.5
    (call,) = script.calls
    assert call.names == {"numbers": [1, 4]}
    assert call.text is None
    assert call.block.program.text == "Average <numbers> into <:result>.\n"


def test_a_write_binding_that_was_not_written_keeps_its_variable(load, script):
    module = load('@natural\ndef f():\n    x, y = 1, 2\n    "natural\\n<:x> <:y>"\n    return x, y\n')
    script.will(y=None, z=9)
    assert module.f() == (1, None)


def test_a_variable_that_nothing_wrote_is_unbound_as_in_python(load):
    module = load('@natural\ndef f():\n    "natural\\n<:x>"\n    return x\n')
    with pytest.raises(UnboundLocalError, match="x"):
        module.f()


def test_11_f_string_is_rendered_where_it_stands(load, script):
    module = load(
        """
        @natural
        def f(items):
            for i, item in enumerate(items):
                f"natural\\n{i}: {item!r:>4} {{}} {sum(x for x in range(i + 1))} {(lambda: i)()}"
        """
    )
    module.f(["a", "b"])
    assert [call.text for call in script.calls] == ["natural\n0:  'a' {} 0 0", "natural\n1:  'b' {} 1 1"]


def test_11_error_inside_an_f_string_is_the_users_error(load, script):
    module = load('@natural\ndef f():\n    f"natural\\n{1 / 0}"\n')
    with pytest.raises(ZeroDivisionError):
        module.f()
    assert script.calls == []


def test_8_4_return_outcome_returns_at_once(load, script):
    module = load('@natural\ndef f():\n    "natural\\nx"\n    return "end"\n')
    script.will_return("early")
    assert module.f() == "early"
    assert module.f() == "end"


def test_8_4_loop_outcomes_steer_the_innermost_loop(load, script):
    module = load(
        """
        @natural
        def f(xs):
            seen = []
            for x in xs:
                for y in [0]:
                    pass
                else:
                    "natural\\n<x>"
                seen.append(x)
            else:
                seen.append("else")
            return seen
        """
    )
    for kind in ("pass", "continue", "pass", "break"):
        script.will(kind)
    assert module.f("abcde") == ["a", "c"]
    assert module.f("a") == ["a", "else"]


def test_8_4_bindings_are_committed_before_the_outcome_is_carried_out(load, script):
    module = load(
        """
        @natural
        def f():
            x = 0
            while True:
                "natural\\n<:x>"
                if x == 1: raise AssertionError
            try:
                "natural\\n<:x>"
            except LookupError:
                return x
        """
    )
    script.will("continue", x=5)
    script.will("break", x=6)
    script.will_raise(KeyError("k"), x=7)
    assert module.f() == 7
    assert [call.names for call in script.calls] == [{"x": 0}, {"x": 5}, {"x": 6}]


def test_8_4_raise_outcome_raises_the_bare_exception_without_a_stray_context(load, script):
    module = load('@natural\ndef f():\n    "natural\\nx"\n')
    error = ValueError("no")
    script.will_raise(error)
    with pytest.raises(ValueError, match="no") as caught:
        module.f()
    assert caught.value is error
    assert error.__context__ is None
    assert error.__cause__ is None


def test_raise_outcome_in_a_handler_has_the_handled_exception_as_context(load, script):
    module = load(
        """
        @natural
        def f():
            try:
                1 / 0
            except ZeroDivisionError:
                "natural\\nx"
        """
    )
    script.will_raise(ValueError("no"))
    with pytest.raises(ValueError, match="no") as caught:
        module.f()
    assert isinstance(caught.value.__context__, ZeroDivisionError)


def test_traceback_shows_the_users_file_and_the_line_of_the_literal(load, script):
    module = load(
        '''
        @natural
        def f():
            x = 1
            """natural
            several
            lines
            """
        '''
    )
    script.will_raise(ValueError("no"))
    with pytest.raises(ValueError, match="no") as caught:
        module.f()
    frame = traceback.extract_tb(caught.tb)[-1]
    assert (frame.filename, frame.lineno, frame.name) == (module.__file__, 5, "f")
    assert frame.line.startswith('"""natural')


def test_traceback_of_python_code_after_a_block_is_unchanged(load):
    module = load('@natural\ndef f():\n    """natural\n    x\n    """\n    y = 0\n    return 1 / y\n')
    with pytest.raises(ZeroDivisionError) as caught:
        module.f()
    assert [frame.lineno for frame in traceback.extract_tb(caught.tb)][1:] == [7]


def test_no_temporary_variable_stays_behind(load, script):
    module = load(
        """
        @natural
        def f():
            for i in [1, 2]:
                try:
                    "natural\\nx"
                except ValueError:
                    pass
            yield sorted(name for name in locals() if not name.startswith("__nighthawk_"))
            yield "__nighthawk_step__" in locals()
        """
    )
    script.will("continue")
    script.will_raise(ValueError())
    assert list(module.f()) == [["i"], False]


def test_each_call_is_entered_once_and_always_left(load, script):
    module = load(
        """
        @natural
        def f(x):
            "natural\\n1"
            if x: raise KeyError(x)
            "natural\\n2"
            return 5
        """
    )
    assert module.f(0) == 5
    with pytest.raises(KeyError):
        module.f(1)
    script.will_return(8)
    assert module.f(0) == 8
    assert (script.entered, script.exited) == (3, 3)


def test_generators_stay_generators_and_their_extent_lasts_to_their_end(load, script):
    module = load(
        """
        @natural
        def f(xs):
            for x in xs:
                y = x
                "natural\\n<:y>"
                got = yield y
                "natural\\n<got>"
            return "end"
        """
    )
    assert inspect.isgeneratorfunction(module.f)
    script.will(y=10)
    generator = module.f([1, 2])
    assert script.calls == []
    assert next(generator) == 10
    script.will("break")
    with pytest.raises(StopIteration) as caught:
        generator.send("sent")
    assert caught.value.value == "end"
    assert script.calls[-1].names["got"] == "sent"
    script.will_return("early")
    with pytest.raises(StopIteration) as caught:
        next(module.f([1]))
    assert caught.value.value == "early"
    assert (script.entered, script.exited) == (2, 2)
    assert script.returned_values == ["end", "early"]


@pytest.mark.parametrize(("depth", "is_possible"), [(18, True), (19, False)])
def test_statements_around_a_block_nest_as_deep_as_python_has_room_for(load, depth, is_possible):
    loops = "".join(f"{' ' * (level + 1)}for x in [1]:\n" for level in range(depth))
    indentation = " " * (depth + 1)
    block = f"{indentation}'natural\\n1'\n{indentation}yield x\n"
    source = f"@natural\ndef f():\n{loops}{block}"
    if is_possible:
        assert list(load(source).f()) == [1]
    else:
        with pytest.raises(NaturalParseError, match=r"f\(\): too many statically nested blocks; of the 20"):
            load(source)


@pytest.mark.anyio
async def test_8_5_async_functions_await_their_steps(load, script):
    module = load(
        """
        import anyio, contextlib
        @natural
        async def f(x):
            async with contextlib.AsyncExitStack() as stack:
                "natural\\n<:x>"
            f"natural\\n{await g(x)} {[await g(i) async for i in h()]}"
            return x
        async def g(x):
            await anyio.lowlevel.checkpoint()
            return x + 1
        async def h():
            yield 1
        """
    )
    assert inspect.iscoroutinefunction(module.f)
    script.will(x=41)
    assert await module.f(1) == 41
    assert script.calls[1].text == "natural\n42 [2]"
    assert (script.entered, script.exited) == (1, 1)
    script.will_return(9)
    assert await module.f(1) == 9


@pytest.mark.anyio
async def test_concurrent_calls_of_one_function_do_not_share_their_variables(load, script):
    module = load(
        """
        @natural
        async def f(x):
            "natural\\n<x> <:y>"
            "natural\\n<x> <y>"
            return x
        """
    )
    results = {}

    async def call(x):
        results[x] = await module.f(x)

    async with anyio.create_task_group() as tasks:
        for x in range(10):
            tasks.start_soon(call, x)
    assert results == {x: x for x in range(10)}
    assert sorted(call.names["x"] for call in script.calls) == sorted([*range(10), *range(10)])
    assert (script.entered, script.exited) == (10, 10)


@pytest.mark.anyio
async def test_cancelling_a_call_in_its_step_leaves_the_call_scope(load):
    script_module = load(
        """
        import anyio, contextlib
        from nighthawk_async.natural.transform import transform_function
        events = []
        class Entry:
            is_watched = False
            around = None
            def returned(self, value):
                return value
            @contextlib.contextmanager
            def __call__(self, arguments):
                try:
                    yield self
                finally:
                    events.append("left")
        async def run_step(index, names, text):
            events.append("running")
            await anyio.sleep_forever()
        async def f():
            "natural\\n1"
            events.append("not reached")
        f = transform_function(f).bind(f, run_step=run_step, call_entry=Entry())
        """
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(script_module.f)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert script_module.events == ["running", "left"]


@pytest.mark.anyio
async def test_8_5_async_generators_stay_async_generators_and_return_ends_them(load, script):
    module = load(
        """
        @natural
        async def f(xs):
            async for x in xs:
                "natural\\n<:x>"
                yield x
            yield "end"
        """
    )

    async def numbers():
        for number in range(4):
            yield number

    assert inspect.isasyncgenfunction(module.f)
    script.will(x="a")
    script.will("continue")
    script.will("break")
    assert [x async for x in module.f(numbers())] == ["a", "end"]
    script.will()
    script.will_return("ignored")
    assert [x async for x in module.f(numbers())] == [0]
    assert (script.entered, script.exited) == (2, 2)


def test_global_and_nonlocal_write_bindings_reach_their_variable(load, script):
    module = load(
        """
        counter = 0
        def outer():
            total = 0
            @natural
            def inner():
                "natural\\n<:counter> <:total>"
                if True:
                    global counter
                    nonlocal total
                counter += 1
            inner()
            return total
        """
    )
    script.will(counter=5, total=7)
    assert module.outer() == 7
    assert module.counter == 6
    assert script.calls[0].names == {"total": 0}


def test_module_globals_are_live(load):
    module = load('@natural\ndef f():\n    "natural\\nx"\n    return value\nvalue = 1\n')
    assert module.f() == 1
    module.value = 2
    assert module.f() == 2
    assert module.f.__globals__ is vars(module)


def test_recursion_and_the_functions_own_name(load, script):
    module = load(
        """
        @natural
        def count(n):
            "natural\\n<n>"
            return n and 1 + count(n - 1)
        def outer():
            @natural
            def count(n):
                "natural\\n<n>"
                return n and 2 + count(n - 1)
            return count
        class C:
            @natural
            def count(self, n):
                "natural\\n<n>"
                return n and 3 + C().count(n - 1)
        """
    )
    assert (module.count(2), module.outer()(2), module.C().count(2)) == (2, 4, 6)
    assert module.outer().__code__.co_freevars.count("count") == 1


def test_methods_find_super_private_names_and_their_class(load, script):
    module = load(
        """
        class Base:
            def __init__(self): self.__secret = "base"
            def greet(self): return "base"
            @classmethod
            def make(cls): return cls()
        class _Child(Base):
            kind = "leaks"
            def __init__(self):
                super().__init__()
                self.__secret = "child"
            @natural
            def greet(self, kind="default"):
                "natural\\n<:word>"
                class Local:
                    def method(self): pass
                return super().greet(), self.__secret, __class__, _Child, kind, Local.method.__qualname__
            @classmethod
            @natural
            def make(cls):
                "natural\\nx"
                return super().make()
            @staticmethod
            @natural
            def double(x):
                "natural\\n<:x>"
                return x
        """
    )
    child = module._Child.make()
    assert child.greet() == (
        "base", "child", module._Child, module._Child, "default", "_Child.greet.<locals>.Local.method"
    )  # fmt: skip
    script.will(x=8)
    assert module._Child.double(4) == 8
    assert set(script.calls[1].names) == {"self", "kind", "__class__"}


def test_nested_class_in_a_function_keeps_scopes_apart(load):
    module = load(
        """
        def outer(tag):
            class C:
                tag = "class"
                class D:
                    @natural
                    def m(self):
                        "natural\\n<tag>"
                        return tag, C, self.__x, m_is_global()
                    __x = 3
            return C
        def m_is_global():
            return 4
        """
    )
    cls = module.outer("argument")
    assert cls.D().m() == ("argument", cls, 3, 4)
    assert cls.D.m.__code__.co_qualname == "outer.<locals>.C.D.m"


def test_definition_that_a_global_statement_takes_out_of_its_function(load):
    module = load(
        """
        def define():
            global escaped, Escaped
            hidden = 5
            @natural
            def escaped(n):
                "natural\\nx"
                return n and hidden + escaped(n - 1)
            class Escaped:
                __x = 1
                @natural
                def m(self):
                    "natural\\nx"
                    return self.__x, Escaped
        define()
        """
    )
    assert module.escaped(2) == 10
    assert module.Escaped().m() == (1, module.Escaped)
    assert module.escaped.__qualname__ == module.escaped.__code__.co_qualname == "escaped"


def test_parameters_of_every_kind_and_defaults_are_kept(load, script):
    module = load(
        """
        @natural
        def f(a, b=2, /, c=3, *d, e, g=[], **h):
            "natural\\nx"
            return a, b, c, d, e, g, h
        """
    )
    assert module.f(1, e=5) == (1, 2, 3, (), 5, [], {})
    assert module.f(1, 9, 8, 7, 6, e=5, z=0) == (1, 9, 8, (7, 6), 5, [], {"z": 0})
    assert module.f.__kwdefaults__["g"] is module.f.__wrapped__.__kwdefaults__["g"]
    with pytest.raises(TypeError, match=r"^f\(\) missing 1 required keyword-only argument: 'e'"):
        module.f(1)
    assert str(inspect.signature(module.f)) == "(a, b=2, /, c=3, *d, e, g=[], **h)"


def test_attributes_of_the_original_are_kept(load):
    module = load(
        '''
        def mark(function):
            function.marked = True
            return function
        def wrap(function):
            def wrapper(*arguments): return "wrapped", function(*arguments)
            return wrapper
        @wrap
        @natural
        @mark
        @(lambda function:
            function)
        def f(x: int, *, y: "str" = "a") -> list[int]:
            """natural
            Doc.
            """
            return x
        inner = f.__closure__[0].cell_contents
        '''
    )
    original = module.inner.__wrapped__
    assert module.f(1) == ("wrapped", 1)
    assert module.inner.marked
    assert module.inner.__doc__ is original.__doc__
    assert module.inner.__annotations__ == {"x": int, "y": "str", "return": list[int]}
    for name in ("__name__", "__qualname__", "__module__", "__defaults__", "__kwdefaults__"):
        assert getattr(module.inner, name) == getattr(original, name)
    assert module.inner.__code__.co_firstlineno == original.__code__.co_firstlineno


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters are new in Python 3.12")
def test_type_parameters_are_kept(load, script):
    module = load(
        """
        class Box[K]:
            @natural
            def get[T: int](self, value: T) -> list[T]:
                "natural\\n<value>"
                type Alias = list[T]
                class Local[U](list[U]): pass
                return T, K, Alias.__value__
        @natural
        def f[T](x: T = None):
            "natural\\n<T>"
        """
    )
    (type_parameter,) = module.Box.get.__type_params__
    (class_parameter,) = module.Box.__type_params__
    assert module.Box().get(1) == (type_parameter, class_parameter, list[type_parameter])
    assert script.transformed["Box.get"].blocks[0].local_names == {"self", "value", "Alias", "Local"}
    module.f()


def test_python_constructs_around_written_names(load, script):
    module = load(
        """
        @natural
        def f(locals):
            "natural\\n<:xs> <:gone>"
            gone = 1
            del gone
            if (n := len(xs)) > 1:
                total = sum(x * n for x in xs)
            return [x + n for x in xs], total, {y: n for y in xs}, locals
        """
    )
    script.will(xs=[1, 2])
    assert module.f("mine") == ([3, 4], 6, {1: 2, 2: 2}, "mine")


def test_blocks_in_every_compound_statement(load, script):
    module = load(
        """
        import contextlib
        @natural
        def f(x):
            if x: "natural\\n1"
            else: pass
            while True:
                "natural\\n2"
                break
            try:
                "natural\\n3"
                raise KeyError
            except KeyError as error:
                "natural\\n4"
            else:
                raise AssertionError
            finally:
                "natural\\n5"
            with contextlib.nullcontext(1) as y:
                "natural\\n6"
            match x:
                case 2: pass
                case captured if captured == 1: "natural\\n7"
            try: pass
            except* ValueError: pass
            else: "natural\\n8"
            try: raise ExceptionGroup("g", [ValueError()])
            except* ValueError as group: "natural\\n9"
            return "end"
        """
    )
    assert module.f(1) == "end"
    assert [call.block.program.text for call in script.calls] == list("123456789")
    assert "error" in script.calls[3].names
    assert script.calls[5].names["y"] == 1
    assert isinstance(script.calls[8].names["group"], ExceptionGroup)


def test_outcomes_inside_finally_override_as_in_python(load, script):
    module = load(
        """
        @natural
        def f():
            for i in [1, 2]:
                try:
                    1 / 0
                finally:
                    "natural\\nx"
            return "end"
        """
    )
    script.will("continue")
    script.will("break")
    assert module.f() == "end"
    script.will_return("early")
    assert module.f() == "early"
    with pytest.raises(ZeroDivisionError):
        module.f()


def test_plain_docstring_stays_a_docstring(load):
    module = load(
        '@natural\ndef f():\n    """Plain."""\n    "natural\\nx"\n@natural\ndef g():\n    f"natural\\nx"\n'
    )
    assert module.f.__doc__ == "Plain."
    assert module.f.__code__.co_consts[0] == "Plain."
    assert module.g.__doc__ is None


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated late since Python 3.14")
def test_late_annotations_are_not_evaluated_by_decorating(load):
    module = load('@natural\ndef f(x: Later) -> Later:\n    "natural\\n1"\nclass Later: pass\n')
    assert module.f.__annotations__ == {"x": module.Later, "return": module.Later}


def test_function_whose_qualified_name_says_nothing_of_its_nesting_is_compiled_by_its_variables(load, script):
    module = load(
        """
        def outer(total):
            class C:
                def f(self, n):
                    "natural\\nx"
                    return n and total + self.__one + f(self, n - 1)
                _C__one = 1
            f = C.f
            f.__code__ = f.__code__.replace(co_qualname="elsewhere")
            return natural(f), C()
        def own(n):
            def own(n):
                "natural\\nx"
                return n and own(n - 1) + 2
            own.__code__ = own.__code__.replace(co_qualname="elsewhere")
            return natural(own)(n)
        """
    )
    function, instance = module.outer(10)
    assert function(instance, 2) == 22
    assert function.__code__.co_qualname == "elsewhere"
    assert module.own(3) == 6


def test_private_names_in_the_code_of_a_class_named_with_underscores_only(load):
    module = load(
        """
        class __:
            __x = 5
            @natural
            def f(self, __y):
                "natural\\n1"
                return self.__x, __y
        """
    )
    assert module.__().f(1) == (5, 1)


def test_names_bound_by_every_kind_of_statement_are_local(load, script):
    load(
        """
        @natural
        def f(a, *, b=(walrus_in_default := 1)):
            "natural\\n<:written>"
            import os.path, sys as system
            from os import sep as separator
            for one, (two, *three) in []: pass
            with open(a) as handle: pass
            try: pass
            except ValueError as error: pass
            match a:
                case {"k": captured, **rest}: pass
                case [first, *others] as whole: pass
                case _: pass
            def inner(p=(default_walrus := 1)): not_mine = 1
            class Inner(base := object): also_not_mine = 1
            lambda q=(lambda_walrus := 1): (hidden := q)
            [(walrus := item) for item in []]
            declared: int
            (undeclared): int
            (valued): int = 1
            del deleted
            a.attribute = a["item"] = 1
            augmented += 1
        """
    )
    names = """
        a b written os system separator one two three handle error captured rest first others whole inner
        default_walrus Inner base lambda_walrus walrus declared valued deleted augmented
    """
    assert script.transformed["f"].blocks[0].local_names == set(names.split())


@pytest.mark.parametrize("is_watched", [False, True])
def test_arguments_and_returned_values_go_through_the_door_of_a_watched_call(load, script, is_watched):
    script.is_watched = is_watched
    module = load(
        """
        def f(a, /, b, *rest, c=3, **more):
            "natural\\n1"
            inner = lambda: 4
            def g():
                return 5
            if a:
                return inner() + g()
            "natural\\n2"
            if b:
                return
        """
    )
    f = script.natural(module.f)
    assert f(1, 2, 7, c=8, d=9) == 9
    assert f(0, 2) is None
    assert f(0, 0) is None
    script.will()
    script.will_return("early")
    assert f(0, 0) == "early"
    assert script.returned_values == [9, None, "early"]
    given = [
        {"a": 1, "b": 2, "rest": (7,), "c": 8, "more": {"d": 9}},
        {"a": 0, "b": 2, "rest": (), "c": 3, "more": {}},
    ]
    assert script.arguments[:2] == (given if is_watched else [])
