"""Rules: which calls they are about, by name, by identity, by arguments and by predicate."""

import functools
import inspect
import re
from collections.abc import Callable
from enum import Enum
from pathlib import PurePosixPath
from typing import Any, cast

import pytest

import nighthawk_async as nh
from nighthawk_async.policies.permissions.call import PermissionCall, arguments_of, describe_call
from nighthawk_async.policies.permissions.rules import PermissionRule, checked_rules, rule


class Folder(Enum):
    INBOX = "inbox"


class Disguised(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "ada@example.com"


def send_mail(to: object, body: str = "hello", *copies: str, **headers: str) -> None: ...


class Mailer:
    def send(self, to: str) -> None: ...


def call_of(function: Callable[..., object], *args: object, **kwargs: object) -> PermissionCall:
    return describe_call(function, arguments_of(function, args, kwargs), other_names=("mailer.send", "m"))


def is_about(target: PermissionRule, call: PermissionCall) -> tuple[bool, bool]:
    """Whether it matches when it allows, and when it asks or denies."""
    return target.matches(call, is_strict=False), target.matches(call, is_strict=True)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("send", (True, True)),
        ("Mailer.send", (True, True)),
        ("Mailer.*", (True, True)),
        ("*.test_permission_rules.Mailer.s?nd", (True, True)),
        ("mailer.send", (False, True)),
        ("m", (False, True)),
        ("Send", (False, False)),
        ("Mailer", (False, False)),
        (Mailer.send, (True, True)),
        (Mailer, (False, False)),
        (send_mail, (False, False)),
    ],
)
def test_a_target_is_a_pattern_of_names_or_what_is_called(target: Any, expected: tuple[bool, bool]) -> None:
    """A name that the code may have chosen grants nothing."""
    assert is_about(rule(target), call_of(Mailer().send, "ada")) == expected


def test_a_bound_method_is_the_one_of_that_object() -> None:
    mailer, other = Mailer(), Mailer()
    assert is_about(rule(mailer.send), call_of(mailer.send, "ada")) == (True, True)
    assert is_about(rule(mailer.send), call_of(other.send, "ada")) == (False, False)


def test_wrappers_are_seen_through() -> None:
    def wrapped(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> None:
            function(*args, **kwargs)

        return wrapper

    wrapper = wrapped(send_mail)
    for function in (
        functools.partial(send_mail),
        wrapper,
        nh.blocking(send_mail),
        functools.cache(send_mail),
    ):
        assert is_about(rule(send_mail), call_of(function, "ada", body="x")) == (True, True)


def test_a_wrapper_that_only_claims_to_call_a_function_is_not_allowed_as_it() -> None:
    class Claiming:
        def __call__(self, *args: Any) -> None: ...

    def other(*args: Any) -> None: ...

    for function in (other, Claiming()):
        functools.update_wrapper(cast("Any", function), send_mail, assigned=())
        assert is_about(rule(send_mail), call_of(function, "ada")) == (False, True)
        assert is_about(rule(f"{__name__}.send_mail"), call_of(function, "ada")) == (False, True)


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("ada@example.com", (True, True)),
        ("ada@elsewhere.com", (False, False)),
        ("ada@example.com\n", (False, False)),
        (["ada@example.com", "bob@example.com"], (True, True)),
        (("ada@example.com", "eve@elsewhere.com"), (False, True)),
        ({"eve@elsewhere.com"}, (False, False)),
        ([], (True, False)),
        (None, (False, False)),
        (Disguised("eve@elsewhere.com"), (False, False)),
        (PurePosixPath("a@example.com"), (True, True)),
        ({"ada@example.com": 1}, (False, True)),
        (object(), (False, True)),
    ],
)
def test_a_text_is_a_pattern_for_an_argument_and_in_doubt_the_strict_side_wins(
    to: object, expected: tuple[bool, bool]
) -> None:
    assert is_about(rule("send_mail", to="*@example.com"), call_of(send_mail, to)) == expected


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ({"body": "hel*"}, True),
        ({"body": "hello", "to": "5"}, True),
        ({"to": 5}, True),
        ({"to": 6}, False),
        ({"to": lambda to: to < 6}, True),
        ({"to": lambda to: to < 5}, False),
        ({"copies": "c*"}, True),
        ({"copies": "d*"}, False),
        ({"priority": "high"}, True),
        ({"priority": "low"}, False),
        ({"headers": "*"}, False),
        ({"missing": "*"}, False),
    ],
)
def test_arguments_are_known_by_the_names_of_their_parameters(
    patterns: dict[str, object], expected: bool
) -> None:
    call = call_of(send_mail, 5, "hello", "cy", priority="high")
    assert is_about(rule("send_mail", **patterns), call) == (expected, expected)


def test_defaults_are_arguments_too_but_they_are_not_given() -> None:
    call = call_of(send_mail, Folder.INBOX)
    assert is_about(rule("send_mail", body="hello", to="inbox"), call) == (True, True)
    assert call.given == {"to"}


def test_what_a_partial_fixes_are_arguments() -> None:
    call = call_of(functools.partial(functools.partial(send_mail, "ada"), body="x"), priority="high")
    assert dict(call.arguments) == {"to": "ada", "body": "x", "priority": "high"}


def test_without_names_of_arguments_the_strict_side_wins() -> None:
    call = call_of(getattr, "x", "upper")
    assert dict(call.arguments) == {"0": "x", "1": "upper"}
    assert is_about(rule("getattr", name="up*"), call) == (False, True)
    assert is_about(rule("getattr", **{"1": "up*"}), call) == (True, True)


def test_arguments_that_cannot_be_given_are_refused_as_python_does() -> None:
    with pytest.raises(TypeError, match="missing a required argument: 'to'"):
        arguments_of(Mailer().send, (), {})


def test_a_predicate_sees_the_call() -> None:
    cheap = rule("send_*", to="ada", when=lambda call: len(call.arguments["body"]) < 10)
    assert is_about(cheap, call_of(send_mail, "ada")) == (True, True)
    assert is_about(cheap, call_of(send_mail, "ada", "x" * 10)) == (False, False)
    assert is_about(cheap, call_of(send_mail, "bob")) == (False, False)


def test_a_predicate_that_raises_is_named() -> None:
    def is_small(call: PermissionCall) -> bool:
        return call.arguments["amount"] < 5

    with pytest.raises(
        nh.errors.HookError,
        match=r"permission rule send_mail\(when=\S*is_small\) failed for send_mail: KeyError",
    ) as caught:
        rule("send_mail", when=is_small).matches(call_of(send_mail, "ada"), is_strict=False)
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_async_predicate_is_refused_rather_than_taken_for_true() -> None:
    async def is_small(call: PermissionCall) -> bool:
        return False

    for bad in (rule("send_mail", when=is_small), rule("send_mail", to=is_small)):
        with pytest.raises(nh.errors.HookError, match="async predicate"):
            bad.matches(call_of(send_mail, "ada"), is_strict=False)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (rule("send_*"), "send_*"),
        (rule(Mailer.send), "Mailer.send"),
        (rule("send_mail", to="*@example.com", size=5), "send_mail(to='*@example.com', size=5)"),
        (rule("send_mail", when=callable), "send_mail(when=callable)"),
    ],
)
def test_a_rule_shows_what_it_is_about(given: PermissionRule, shown: str) -> None:
    assert str(given) == shown


@pytest.mark.parametrize("target", ["", 5, None, lambda: None])
def test_what_nothing_is_called_is_no_target(target: Any) -> None:
    with pytest.raises(nh.NighthawkError, match="A rule is"):
        rule(target)
    with pytest.raises(nh.NighthawkError, match="A rule is"):
        checked_rules("deny", [target])


def test_a_predicate_has_to_be_a_function() -> None:
    with pytest.raises(nh.NighthawkError, match="when must be a function"):
        rule("send_mail", when="amount < 5")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("one", ["send_mail", send_mail, rule("send_mail")])
def test_one_rule_needs_no_list(one: Any) -> None:
    (made,) = checked_rules("allow", one)
    assert made.is_about(call_of(send_mail, "ada"), is_strict=False)


@pytest.mark.parametrize("rules", [5, {"send_mail": True}])
def test_rules_are_a_list(rules: Any) -> None:
    with pytest.raises(nh.NighthawkError, match=re.escape(f"allow must be a list of rules, not {rules!r}")):
        checked_rules("allow", rules)


def post(to: str, /, body: str = "hello", *copies: str, **headers: str) -> None: ...


def test_no_further_keyword_argument_hides_another_argument() -> None:
    further = {"to": "ada", "copies": "cy", "**to": "bob"}
    call = call_of(post, "eve", "x", **further)
    assert call.arguments == {"to": "eve", "body": "x", "****to": "ada", "**copies": "cy", "**to": "bob"}
    assert call.given == set(call.arguments)
    assert is_about(rule("*.post", to="ada"), call) == (False, False)
    assert is_about(rule("*.post", to="eve"), call) == (True, True)
    without_a_name = call_of(dir, "x", **{"0": "y"})
    assert dict(without_a_name.arguments) == {"0": "x", "**0": "y"}


def with_client(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        function("client", *args, **kwargs)

    return wrapper


class Desk:
    @with_client
    def send(self, client: str, to: str) -> None: ...

    @functools.cache  # noqa: B019  (it is never called)
    def send_once(self, to: str) -> None: ...


class Caller:
    def __init__(self, function: Callable[..., None]) -> None:
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> None: ...


class Parcel:
    @with_client
    def __init__(self, client: str, to: str) -> None: ...


@pytest.mark.parametrize("function", [with_client(post), Desk().send, Caller(post), Parcel])
def test_the_arguments_of_a_wrapper_that_takes_any_have_no_names(function: Callable[..., object]) -> None:
    """It may hand on others, so in doubt the strict side wins."""
    call = call_of(function, "eve", to="ada")
    assert call.arguments == {"0": "eve", "to": "ada"}
    rows: list[dict[str, Any]] = [{"to": "ada"}, {"to": "eve"}, {"client": "*"}]
    for patterns in rows:
        assert is_about(rule("*", **patterns), call) == (False, True)
    first: dict[str, Any] = {"0": "eve"}
    assert is_about(rule("*", **first), call) == (True, True)
    assert is_about(rule("*", to="ada"), call_of(function, to="ada")) == (True, True)
    assert is_about(rule("*", to="eve"), call_of(function, to="ada")) == (False, False)
    assert is_about(rule("*", body="*"), call_of(function, to="ada")) == (False, True)


def test_a_wrapper_that_takes_any_arguments_hides_no_signature_behind_a_declared_one() -> None:
    def wrapped(to: str) -> None: ...

    vars(wrapped)["__signature__"] = inspect.signature(wrapped)
    assert call_of(with_client(wrapped), "eve").arguments == {"0": "eve"}


@pytest.mark.parametrize("function", [functools.cache(post), nh.blocking(post), Desk().send_once])
def test_what_hands_its_arguments_on_unchanged_has_the_names_of_what_it_wraps(function: Any) -> None:
    assert call_of(function, "eve").arguments["to"] == "eve"


def test_a_wrapper_with_parameters_of_its_own_has_their_names() -> None:
    @functools.wraps(post)
    def wrapper(client: str, to: str) -> None: ...

    assert call_of(wrapper, "c", "eve").arguments == {"client": "c", "to": "eve"}


def _mail(to: str, body: str = "hi") -> None: ...


class _ByStaticMethod:
    __call__ = staticmethod(_mail)


class _ByMethodOfItsClass:
    @classmethod
    def __call__(cls, to: str, body: str = "hi") -> None: ...


class _ByOwnMethod:
    def __call__(self, to: str, body: str = "hi") -> None: ...


class _BySomethingElse:
    __call__ = functools.partial(_mail)


class _Text(str):
    __call__ = _mail


class _Bindable(_ByStaticMethod):
    def __get__(self, owner: object, kind: type) -> object:
        return self


@pytest.mark.parametrize(
    "function",
    [
        *(_ByStaticMethod(), _ByMethodOfItsClass(), _ByOwnMethod(), _Bindable()),
        *(_ByOwnMethod().__call__, _mail.__call__, _ByMethodOfItsClass().__call__),
    ],
)
def test_the_arguments_of_an_object_are_those_of_what_it_declares_to_be_called_by(
    function: Callable[..., object],
) -> None:
    arguments = arguments_of(function, ("eve",), {})
    assert dict(arguments.values) == {"to": "eve", "body": "hi"}
    assert arguments.given == {"to"}
    assert arguments.are_named


def test_an_object_is_an_argument_of_a_function_that_is_not_of_its_class() -> None:
    assert dict(arguments_of(_Text("eve"), ("bye",), {}).values) == {"to": "eve", "body": "bye"}


def test_the_arguments_of_an_object_have_no_names_when_it_declares_no_function() -> None:
    arguments = arguments_of(_BySomethingElse(), ("eve",), {})
    assert dict(arguments.values) == {"0": "eve"}
    assert not arguments.are_named


def test_the_class_itself_takes_what_the_function_takes_and_refuses_what_it_refuses() -> None:
    held = nh.policies.Permissions(deny=["nh_assign"], default="allow")  # type: ignore[arg-type]
    assert [str(rule) for rule in held.deny] == [
        str(rule) for rule in nh.permissions(deny="nh_assign", default="allow").deny
    ]
    with pytest.raises(
        nh.NighthawkError, match="A rule is about a name, or something that can be called, not 3"
    ):
        nh.policies.Permissions(deny=[3], default="allow")  # type: ignore[arg-type]
    with pytest.raises(nh.NighthawkError, match="default must be one of"):
        nh.policies.Permissions(default="maybe")  # type: ignore[arg-type]


class Workshop:
    async def shell(self, command: str, *, cwd: str = ".") -> None: ...


@pytest.mark.parametrize(
    ("risk", "command", "expected"),
    [
        ("destructive", "rm  -r -f x", (True, True)),
        ("destructive", "'r'm x", (True, True)),
        ("destructive", "ls", (False, False)),
        ("destructive", "$X x", (False, True)),
        ("network", "rm x", (False, False)),
        (["network", "destructive"], "rm x", (True, True)),
        ("destructive", "curl a.example && rm x", (False, True)),
        ("none", "ls", (True, True)),
        ("none", "rm x", (False, False)),
        ("unknown", "$X x", (True, True)),
        ("destructive", 5, (False, True)),
    ],
)
def test_a_rule_is_about_the_risks_of_a_command(
    risk: Any, command: object, expected: tuple[bool, bool]
) -> None:
    call = call_of(Workshop().shell, command)
    assert is_about(rule("*.shell", risk=risk), call) == expected
    assert is_about(rule(Workshop.shell, risk=risk), call) == expected
    assert is_about(rule("*.other", risk=risk), call) == (False, False)
    for name in ("ClaudeCode.Bash", "Codex.shell"):
        native = PermissionCall(
            name=name, kind="tool", arguments={"command": command}, callable=None, names=(name,)
        )
        assert is_about(rule(name, risk=risk), native) == expected


def test_a_call_without_a_command_has_every_risk_for_rules_that_ask_or_deny() -> None:
    assert is_about(rule("send", risk="destructive"), call_of(Mailer().send, "ada")) == (False, True)
    assert str(rule("*.shell", risk=("network", "destructive"))) == "*.shell(risk=destructive|network)"
    assert not rule("*.shell", risk="network").is_unconditional


@pytest.mark.parametrize("risk", ["deadly", [], ["network", "x"], 5, [["network"]]])
def test_a_risk_that_does_not_exist_is_refused(risk: Any) -> None:
    with pytest.raises(nh.NighthawkError, match="A risk of a command is one of destructive"):
        rule("*.shell", risk=risk)
