"""Where functions come from, and the functions that cannot be natural."""

import doctest
import functools
import importlib
import linecache
import os
import subprocess
import sys
import types
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from nighthawk_async.errors import NaturalParseError
from nighthawk_async.natural import source as source_module, transform as transform_module
from nighthawk_async.natural.transform import transform_function


def test_5_1_source_with_tabs_carriage_returns_form_feeds_and_an_encoding(load, script):
    source = (
        "# -*- coding: latin-1 -*-\r\n"
        "\f\r\n"
        "@natural\r\n"
        "def f(é):\r\n"
        "\tif é:\r\n"
        '\t\t"""natural\r\n'
        "Größe\r\n"
        '\t\t<:x>"""\r\n'
        "\f\r\n"
        "@natural\r\n"
        "def g():\r\n"
        '\t"natural\\n1"\r\n'
    )
    load(source.encode("latin-1"))
    (block,) = script.transformed["f"].blocks
    assert block.line == 6
    assert block.program.text == "Größe\n\t\t<:x>"
    assert script.transformed["g"].blocks[0].line == 12


def test_literals_with_less_indentation_than_the_code(load, script):
    load(
        'class C:\n    @natural\n    def f(self):\n        if 1:\n            """natural\nflush\n  two\n"""\n'
    )
    assert script.transformed["C.f"].blocks[0].program.text == "flush\n  two\n"


def test_functions_on_one_line_and_definitions_under_conditions(load):
    module = load(
        """
        @natural
        def one(x): "natural\\n<x>"; return x
        if True:
            @natural
            def chosen(): "natural\\n1"; return 1
        else:
            @natural
            def chosen(): "natural\\n2"; return 2
        try:
            raise KeyError
        except KeyError:
            for _ in range(1):
                with open(__file__):
                    match 1:
                        case 1:
                            @natural
                            async def deep(): "natural\\n1"
        """
    )
    assert (module.one(3), module.chosen(), module.deep.__name__) == (3, 1, "deep")


def test_functions_of_one_name_in_one_file_are_told_apart(load, script):
    module = load(
        """
        @natural
        def f():
            "natural\\nfirst"
        first = f
        @natural
        def f():
            "natural\\nsecond"
        def make():
            @natural
            def f():
                "natural\\nthird"
            return f
        """
    )
    module.first(), module.f(), module.make()()
    assert [call.block.program.text for call in script.calls] == ["first", "second", "third"]


def test_decorators_over_several_lines(load):
    module = load(
        """
        def tag(**tags):
            return lambda function: function
        @tag(
            a=1,
        )
        @natural
        @tag(
            b=2
        )
        def f():
            "natural\\nx"
            return 1
        async def later():
            @tag(c=await nothing())
            @natural
            def g():
                "natural\\nx"
                return 2
            return g
        async def nothing(): pass
        """
    )
    assert module.f() == 1
    assert module.f.__code__.co_firstlineno == 4
    with pytest.raises(StopIteration) as caught:
        module.later().send(None)
    assert caught.value.value() == 2


def test_5_1_zip_imports_work(tmp_path, monkeypatch, script):
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("natural_packed.py", 'def f():\n    "natural\\n<x>"\n')
    monkeypatch.syspath_prepend(str(archive))
    monkeypatch.delitem(sys.modules, "natural_packed", raising=False)
    module = importlib.import_module("natural_packed")
    script.natural(module.f)()
    assert script.calls[0].block.line == 2
    monkeypatch.delitem(sys.modules, "natural_packed")


def test_5_1_doctests_work(script):
    text = '>>> @natural\n... def f():\n...     """natural\n...     1\n...     """\n>>> f()\n'
    test = doctest.DocTestParser().get_doctest(text, {"natural": script.natural}, "natural_doctest", None, 0)
    assert doctest.DocTestRunner().run(test).failed == 0
    assert script.calls[0].block.program.text == "1\n"


def test_5_1_notebook_cells_work(script, monkeypatch):
    text = 'def f():\n    "natural\\ncell"\n'
    filename = "<ipython-input-1-0123456789ab>"
    monkeypatch.setitem(
        linecache.cache, filename, (len(text), None, text.splitlines(keepends=True), filename)
    )
    namespace = {}
    exec(compile(text, filename, "exec"), namespace)
    script.natural(namespace["f"])()
    assert script.calls[0].block.filename == filename


@pytest.mark.skipif(
    not hasattr(linecache, "_register_code"), reason="Python remembers interactive code since 3.13"
)
def test_5_1_functions_of_the_interactive_interpreter_work(script, monkeypatch):
    text = 'def f():\n    "natural\\nprompt"\n'
    code = compile(text, "<python-input-0>", "exec")
    by_code = hasattr(linecache, "_getlines_from_code")  # since Python 3.13.1
    linecache._register_code(code if by_code else "<python-input-0>", text, "<python-input-0>")
    namespace = {"__name__": "__main__"}
    exec(code, namespace)
    script.natural(namespace["f"])()
    assert script.calls[0].block.program.text == "prompt"


def test_5_1_function_without_source_is_refused_with_its_place():
    namespace = {}
    exec(compile('\ndef f():\n    "natural\\nx"\n', "<generated>", "exec"), namespace)
    with pytest.raises(
        NaturalParseError, match=r"^<generated>:2: the source of f\(\) is not available"
    ) as caught:
        transform_function(namespace["f"])
    assert (caught.value.filename, caught.value.line) == ("<generated>", 2)


def test_lambda_is_refused():
    with pytest.raises(NaturalParseError, match="a lambda cannot be a natural function"):
        transform_function(lambda: "natural\nx")


@pytest.mark.parametrize("item", [len, functools.partial(len), staticmethod(len), object(), type])
def test_what_is_no_plain_function_is_refused_by_type(item):
    with pytest.raises(NaturalParseError, match=f"not {type(item).__name__}$"):
        transform_function(item)


def test_function_without_a_block_is_refused_and_told_where_the_decorator_goes(load):
    with pytest.raises(NaturalParseError, match=r":2: f\(\) has no natural block.*nearest to the function"):
        load('@natural\ndef f():\n    """natural """\n'.replace("@natural", "\n@natural"))
    with pytest.raises(NaturalParseError, match=r"The text at line 3 is none: there is a line break before"):
        load('@natural\ndef f():\n    """\n    natural\n    Say it.\n    """\n')
    with pytest.raises(NaturalParseError, match=r"wrapper\(\) has no natural block"):
        load(
            """
            def wrap(function):
                def wrapper(): return function()
                return wrapper
            @natural
            @wrap
            def f():
                "natural\\nx"
            """
        )


def test_function_that_is_natural_already_is_refused(load):
    with pytest.raises(NaturalParseError, match=r"f\(\) is a natural function already"):
        load('@natural\n@natural\ndef f():\n    "natural\\nx"\n')


def later(module, path, new_source):
    """Decorate a function of a module whose file has changed since its import."""
    path.write_text(new_source)
    linecache.checkcache(str(path))
    return transform_function(module.f)


@pytest.mark.parametrize(
    "new_source",
    [
        "",
        "# one more line\ndef f(x):\n    'natural\\nx'\n",
        "def g(x):\n    'natural\\nx'\n",
        "def f(x, y):\n    'natural\\nx'\n",
        "def f(*x):\n    'natural\\nx'\n",
        "async def f(x):\n    'natural\\nx'\n",
        "def f(x):\n    'natural\\nx'\n    yield\n",
        "def f(x):\n    'natural\\nx'\n    global x\n",
        "def f(x):\n    'natural\\nx'\n    nonlocal y\n",
        "def f(x:\n",
        "def f(x):\n    'natural\\n\0x'\n",
        "class A:\n  def f(x): pass\n",
    ],
)
def test_5_1_source_that_has_changed_is_refused(load, tmp_path, new_source):
    module = load("def f(x):\n    'natural\\nx'\n")
    with pytest.raises(NaturalParseError, match=r"natural_example_0\.py"):
        later(module, tmp_path / "natural_example_0.py", new_source)


def test_changed_text_is_seen_after_a_reload(load, script, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "natural_reloaded.py"
    path.write_text("def f():\n    pass\n    'natural\\nfirst'\n")
    module = importlib.import_module("natural_reloaded")
    assert transform_function(module.f).blocks[0].program.text == "first"
    path.write_text("def f():\n    pass\n    'natural\\nsecond one'\n")
    importlib.reload(module)
    assert transform_function(module.f).blocks[0].program.text == "second one"
    monkeypatch.delitem(sys.modules, "natural_reloaded")


def test_transformation_is_done_once_per_code_object(load):
    module = load("def f():\n    'natural\\nx'\n")
    assert transform_function(module.f) is transform_function(module.f)
    other = types.FunctionType(module.f.__code__, vars(module), "f")
    other.__qualname__ = "Renamed.f"
    assert transform_function(other).blocks[0].function_name == "Renamed.f"


@pytest.mark.skipif(sys.platform == "emscripten", reason="needs threads")
def test_5_1_functions_are_decorated_in_many_threads_at_once(load, script):
    module = load("".join(f"def f{i}():\n    'natural\\n{i}'\n    return {i}\n" for i in range(40)))
    names = [f"f{i}" for i in range(40)] * 4
    with ThreadPoolExecutor(8) as pool:
        functions = list(pool.map(lambda name: script.natural(getattr(module, name)), names))
    assert [function() for function in functions] == list(range(40)) * 4
    assert [call.block.program.text for call in script.calls] == [str(i) for i in range(40)] * 4


@pytest.mark.skipif(sys.platform == "emscripten", reason="needs processes")
def test_5_1_docstring_blocks_run_when_python_strips_docstrings(tmp_path):
    path = tmp_path / "natural_stripped.py"
    path.write_text(
        "from nighthawk_async.natural.transform import transform_function\n"
        'def f():\n    """natural\n    <x>\n    """\n'
        "print(f.__doc__, transform_function(f).blocks[0].program.text)\n"
    )
    command = [sys.executable, "-OO", str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert process.stdout == "None <x>\n\n"


def test_memory_of_functions_and_files_is_bounded(load, monkeypatch):
    monkeypatch.setattr(transform_module, "_MAXIMUM_FUNCTIONS", 2)
    monkeypatch.setattr(source_module, "_MAXIMUM_FILES", 2)
    monkeypatch.setattr(
        transform_module, "_transformed_functions", type(transform_module._transformed_functions)()
    )
    monkeypatch.setattr(source_module, "_parsed_files", type(source_module._parsed_files)())
    for _ in range(4):
        transform_function(load("def f():\n    'natural\\nx'\n").f)
    assert len(transform_module._transformed_functions) == 2
    assert len(source_module._parsed_files) == 2


def test_a_file_is_parsed_once(load, monkeypatch):
    parsed = []
    original = source_module._parse
    monkeypatch.setattr(
        source_module, "_parse", lambda *arguments: parsed.append(arguments) or original(*arguments)
    )
    load('@natural\ndef f():\n    "natural\\n1"\n@natural\ndef g():\n    "natural\\n2"\n')
    assert len(parsed) == 1


def test_warnings_about_the_users_source_are_not_repeated(load):
    source = (
        'def f(x):\n    "natural\\n<x> \\d"\n    while x:\n        try: pass\n        finally:\n'
        '            "natural\\nx"\n            break\n    return x is 1\n'
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = load(source)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        transform_function(module.f)
    assert caught == []


def test_future_statements_of_the_module_stay_in_force(load):
    module = load(
        """
        from __future__ import annotations
        @natural
        def f():
            "natural\\nx"
            def g(x: undefined): pass
            return g.__annotations__
        """
    )
    assert module.f() == {"x": "undefined"}


def test_future_statements_of_the_library_are_not_imposed(load):
    module = load(
        """
        @natural
        def f():
            "natural\\nx"
            def g(x: int): pass
            return g.__annotations__
        """
    )
    assert module.f() == {"x": int}
