"""Suites as users have them: a class in a project, without any configuration."""

import subprocess
import sys

import pytest

from nighthawk_async.testing import contracts

pytest_plugins = ["pytester"]

IMPORTED = [getattr(contracts, name) for name in contracts.__all__]
"""A test session inside this one would import anew what was not imported before it."""

MODULE = """
import nighthawk_async as nh
from nighthawk_async.testing import ModelContract, ScriptedModel, model_response, tool_call


def answer(request):
    return model_response(tool_call("add", a=19, b=23)) if request.tools else model_response(text="Hello.")


class TestMyModel(ModelContract):
    exempt = {"test_a_missing_capability_is_refused": "It takes everything."}

    def make_model(self) -> nh.models.Model:
        return ScriptedModel(answer)
"""


INI = "[pytest]\naddopts = -p no:cacheprovider -p no:trio -p no:asyncio\nfilterwarnings = error"


def test_a_class_of_five_lines_has_the_tests_of_its_suite(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(test_it=MODULE)
    result = pytester.runpytest_inprocess("-v", "-rs")
    on_both = len([name for name in vars(contracts.ModelContract) if name.startswith("test_")]) - 2
    result.assert_outcomes(passed=2 * on_both + 2 - 6, skipped=6)
    result.stdout.fnmatch_lines(["*test_a_tool_call_is_whole*trio*PASSED*", "*SKIPPED*It takes everything."])


def test_a_failure_names_the_promise_and_what_the_object_did(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(test_it=MODULE.replace('text="Hello."', 'text=""'))
    result = pytester.runpytest_inprocess("-k", "answered_with_text", "--tb=short")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "E*AssertionError: A request without tools is answered with text, and its reason is *",
            "*Instead: it gave [[]UsageReported(*",
        ]
    )


def test_an_exemption_of_no_test_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(test_it=MODULE.replace("test_a_missing", "test_missing"))
    result = pytester.runpytest_inprocess("-k", "is_a_model")
    result.stdout.fnmatch_lines(["*TestMyModel.exempt names no test: test_missing_capability_is_refused"])


def test_the_other_tools_need_no_pytest() -> None:
    program = (
        "import sys\nsys.modules['pytest'] = None\n"
        "from nighthawk_async.testing import ScriptedModel, ModelServer, cassette\n"
        "import nighthawk_async.testing.contracts\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=240)
