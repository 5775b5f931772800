"""Commands of a shell, read without running them: words, quotes, substitutions, operators. Pure.

A small part of the grammar of POSIX shells and bash, enough to know which programs a text runs. What is only
known when it runs, such as the value of a variable, is marked as unknown and never guessed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .pickling import PicklableError

UNKNOWN = "\0"
"""Stands in a word for a part that is known only when it runs."""

INSTALLERS: dict[str, str] = {
    **dict.fromkeys(
        ("pip", "pip3", "pipx", "conda", "mamba", "micromamba"),
        "install uninstall remove run update upgrade inject create",
    ),
    **dict.fromkeys(
        (
            "apt",
            "apt-get",
            "aptitude",
            "yum",
            "dnf",
            "zypper",
            "brew",
            "snap",
            "flatpak",
            "pkg",
            "port",
            "microdnf",
        ),
        "install remove purge upgrade dist-upgrade full-upgrade reinstall autoremove erase update",
    ),
    **dict.fromkeys(
        ("npm", "pnpm", "yarn", "bun"),
        "install i ci add remove uninstall update upgrade exec dlx create global link",
    ),
    "apk": "add del upgrade",
    "uv": "add remove sync pip tool run",
    "poetry": "add remove install update self",
    "pdm": "add remove install update sync",
    "cargo": "install add update uninstall",
    "go": "install get",
    "gem": "install uninstall update",
    "bundle": "install add update",
    "composer": "install require update global",
    "dotnet": "add tool",
    "cpan": "",
    "cpanm": "",
    "npx": "",
    "uvx": "",
    "bunx": "",
    "easy_install": "",
    "dpkg": "-i --install -r --remove -P --purge",
    "rpm": "-i -U -e --install --upgrade --erase -ivh -Uvh",
    "pacman": "-S -U -R -Syu -Sy -Rns -Rs -Syyu",
}
"""Programs that install packages, with the arguments that do so; none for those that always do."""
_MAX_CHARACTERS = 20_000
_BLANK = " \t\r"
_OPERATORS = ("&&", "||", ";;&", ";;", ";&", "|&", "&", "|", ";", "\n", "(", ")")
_REDIRECTION = re.compile(r"(?:[0-9]*|&|\{\w+\})(<<<|<<-?|<>|<&|>&|>>|>\||<|>)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?\+?=(.*)", re.DOTALL)
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "v": "\v",
}
_CODE = re.compile(r"x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})")


class UnreadableCommandError(PicklableError, ValueError):
    """The text is no command that is understood here."""


@dataclass(slots=True, eq=False)
class SimpleCommand:
    """One command: a program with its arguments.

    Args:
        words: The words, with `UNKNOWN` in place of what is not known.
        redirections: The operators and targets.
        here_documents: The texts that it reads as its input.
        nested: The texts of substitutions in it, which run as well.
        assignments: The variables that it sets.
        is_piped: Whether it reads the output of the command before it.
        is_uncertain: Whether the first word may become another one, by wildcards, braces or a variable.
    """

    words: list[str] = field(default_factory=list[str])
    redirections: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    here_documents: list[str] = field(default_factory=list[str])
    nested: list[str] = field(default_factory=list[str])
    assignments: dict[str, str] = field(default_factory=dict[str, str])
    is_piped: bool = False
    is_uncertain: bool = False


def read_commands(text: str, variables: Mapping[str, str] | None = None) -> list[SimpleCommand]:
    """Return the commands of a text, in order, those in substitutions left as texts.

    Args:
        text: The text.
        variables: The variables whose values are known.

    Raises:
        UnreadableCommandError: A quote or parenthesis does not end, or it is too long.
    """
    if len(text) > _MAX_CHARACTERS:
        raise UnreadableCommandError("it is too long")
    return _Reader(text, {"IFS": " ", **(variables or {})}).read()


class _Reader:
    """Reads a text from its beginning to its end.

    Args:
        text: The text.
        variables: The variables whose values are known.
    """

    def __init__(self, text: str, variables: dict[str, str]) -> None:
        self._text = text.replace("\\\n", "")
        self._at = 0
        self._variables = variables
        self._commands: list[SimpleCommand] = []
        self._command = SimpleCommand()
        self._waiting: list[tuple[SimpleCommand, str, bool, bool]] = []

    def read(self) -> list[SimpleCommand]:
        while self._at < len(self._text):
            character = self._text[self._at]
            if character in _BLANK:
                self._at += 1
            elif character == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif (match := _REDIRECTION.match(self._text, self._at)) and not self._is_substitution(match[1]):
                self._at = match.end()
                self._read_redirection(match[1])
            elif (operator := self._operator()) is not None:
                self._take_operator(operator)
            else:
                self._take_word()
        self._end_command(is_pipe=False)
        return self._commands

    def _is_substitution(self, operator: str) -> bool:
        """Whether what looks like a redirection begins `<(…)` or `>(…)`."""
        return operator in ("<", ">") and self._text[self._at : self._at + 2] in ("<(", ">(")

    def _operator(self) -> str | None:
        return next((each for each in _OPERATORS if self._text.startswith(each, self._at)), None)

    def _take_operator(self, operator: str) -> None:
        self._at += len(operator)
        self._end_command(is_pipe=operator in ("|", "|&"))
        if operator == "\n":
            for command, delimiter, is_plain, is_indented in self._waiting:
                self._read_here_document(command, delimiter, is_plain=is_plain, is_indented=is_indented)
            self._waiting.clear()

    def _end_command(self, *, is_pipe: bool) -> None:
        command = self._command
        if command.words or command.redirections or command.nested or command.assignments:
            self._commands.append(command)
            if not command.words:
                self._variables.update(command.assignments)
        self._command = SimpleCommand(is_piped=is_pipe)

    def _take_word(self) -> None:
        begin, first = self._at, not self._command.words
        fields, is_uncertain = self._read_word()
        raw = self._text[begin : self._at]
        for word in fields:
            match = _ASSIGNMENT.fullmatch(word) if first and _ASSIGNMENT.match(raw) else None
            if match is not None:
                self._command.assignments[match[1]] = match[2]
                continue
            if not self._command.words:
                self._command.is_uncertain = is_uncertain
            self._command.words.append(word)

    def _read_redirection(self, operator: str) -> None:
        while self._at < len(self._text) and self._text[self._at] in _BLANK:
            self._at += 1
        begin = self._at
        fields, _ = self._read_word()
        target = " ".join(fields)
        if operator in ("<<", "<<-"):
            raw = self._text[begin : self._at]
            is_plain = any(quote in raw for quote in "'\"\\")
            self._waiting.append((self._command, target, is_plain, operator == "<<-"))
        elif operator == "<<<":
            self._command.here_documents.append(target)
        else:
            self._command.redirections.append((operator, target))

    def _read_here_document(
        self, command: SimpleCommand, delimiter: str, *, is_plain: bool, is_indented: bool
    ) -> None:
        lines: list[str] = []
        while self._at < len(self._text):
            end = self._text.find("\n", self._at)
            end = len(self._text) if end < 0 else end
            line = self._text[self._at : end]
            self._at = min(len(self._text), end + 1)
            if (line.lstrip("\t") if is_indented else line) == delimiter:
                break
            lines.append(line)
        body = "\n".join(lines)
        command.here_documents.append(body)
        if not is_plain:
            command.nested += _substitutions_of(body)

    # ---- words

    def _read_word(self) -> tuple[list[str], bool]:
        """Read a word; the words that it becomes, and whether it may become others."""
        fields = [""]
        is_empty, is_uncertain = True, False
        while self._at < len(self._text):
            character = self._text[self._at]
            if character in _BLANK or (self._operator() is not None):
                break
            if character in "<>" and self._text[self._at + 1 : self._at + 2] != "(":
                break
            is_empty = False
            if character == "'":
                fields[-1] += self._single_quoted(self._at + 1)
            elif character == '"':
                begin = self._at
                self._at += 1
                fields[-1] += self._double_quoted()
                is_uncertain |= "$" in self._text[begin : self._at]
            elif character == "\\":
                fields[-1] += self._text[self._at + 1 : self._at + 2]
                self._at += 2
            elif character in "$`":
                is_uncertain |= not self._text.startswith(("$'", '$"'), self._at)
                self._add_expansion(fields)
            elif character in "<>":
                self._at += 1
                self._command.nested.append(self._parenthesized())
                fields[-1] += UNKNOWN
            else:
                is_uncertain |= character in "*?[{" and self._text[self._at : self._at + 2].strip() not in (
                    "[",
                    "{",
                    "[[",
                )
                fields[-1] += character
                self._at += 1
        return ([] if is_empty else fields), is_uncertain

    def _single_quoted(self, begin: int) -> str:
        end = self._text.find("'", begin)
        if end < 0:
            raise UnreadableCommandError("a quote does not end")
        self._at = end + 1
        return self._text[begin:end]

    def _double_quoted(self) -> str:
        content = ""
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == '"':
                self._at += 1
                return content
            if character == "\\" and self._text[self._at + 1 : self._at + 2] in ("$", "`", '"', "\\"):
                content += self._text[self._at + 1]
                self._at += 2
            elif character in "$`":
                content += self._expansion(is_quoted=True)
            else:
                content += character
                self._at += 1
        raise UnreadableCommandError("a quote does not end")

    def _add_expansion(self, fields: list[str]) -> None:
        """Add an expansion outside of quotes, which blanks divide into several words."""
        is_text = self._text.startswith(("$'", '$"'), self._at)
        value = self._expansion(is_quoted=False)
        if is_text or not value.strip():
            fields[-1] += value if is_text else ""
            if not is_text and value and fields[-1]:
                fields.append("")
            return
        parts = value.split()
        fields[-1] += parts[0]
        fields += parts[1:]

    def _expansion(self, *, is_quoted: bool) -> str:
        """Read what begins with a dollar sign or a backtick; its value, or `UNKNOWN`."""
        if self._text[self._at] == "`":
            return self._backticks()
        following = self._text[self._at + 1 : self._at + 2]
        if not is_quoted and following == "'":
            return self._escaped()
        if not is_quoted and following == '"':
            self._at += 2
            return self._double_quoted()
        if self._text.startswith("$((", self._at):
            return self._skipped_parentheses()
        if following == "(":
            self._at += 1
            self._command.nested.append(self._parenthesized())
            return UNKNOWN
        if following == "{":
            return self._braced()
        if (match := _NAME.match(self._text, self._at + 1)) is not None:
            self._at = match.end()
            return self._variables.get(match[0], UNKNOWN)
        self._at += 2 if following and following in "@*#?$!-0123456789" else 1
        return UNKNOWN if following and following in "@*#?$!-0123456789" else "$"

    def _backticks(self) -> str:
        at = self._at + 1
        while at < len(self._text) and self._text[at] != "`":
            at += 2 if self._text[at] == "\\" else 1
        if at >= len(self._text):
            raise UnreadableCommandError("a backtick does not end")
        self._command.nested.append(re.sub(r"\\([`$\\])", r"\1", self._text[self._at + 1 : at]))
        self._at = at + 1
        return UNKNOWN

    def _escaped(self) -> str:
        """Read `$'…'`, with the escapes of C."""
        content, at = "", self._at + 2
        while at < len(self._text) and self._text[at] != "'":
            if self._text[at] != "\\":
                content += self._text[at]
                at += 1
            elif (match := _CODE.match(self._text, at + 1)) is not None:
                digits = next(filter(None, match.groups()))
                number = int(digits, 8 if match[4] else 16)
                content += chr(number) if 0 < number < 0x110000 else UNKNOWN
                at = match.end()
            else:
                content += _ESCAPES.get(self._text[at + 1 : at + 2], self._text[at + 1 : at + 2])
                at += 2
        if at >= len(self._text):
            raise UnreadableCommandError("a quote does not end")
        self._at = at + 1
        return content

    def _skipped_parentheses(self) -> str:
        """Read `$((…))`, whose value is a number."""
        self._at += 1
        self._command.nested += _substitutions_of(self._parenthesized())
        return UNKNOWN

    def _braced(self) -> str:
        """Read `${…}`: a known variable as a whole, or something unknown."""
        end = self._matching(self._at + 2, "{", "}")
        inside = self._text[self._at + 2 : end]
        self._at = end + 1
        if _NAME.fullmatch(inside):
            return self._variables.get(inside, UNKNOWN)
        self._command.nested += _substitutions_of(inside)
        return UNKNOWN

    def _parenthesized(self) -> str:
        """Read what is in parentheses, which begin here."""
        end = self._matching(self._at + 1, "(", ")")
        inside = self._text[self._at + 1 : end]
        self._at = end + 1
        return inside

    def _matching(self, at: int, opening: str, closing: str) -> int:
        """The place of the closing parenthesis or brace of the one that opened before."""
        depth, quote = 1, ""
        while at < len(self._text):
            character = self._text[at]
            if character == "\\" and quote != "'":
                at += 1
            elif quote:
                quote = "" if character == quote else quote
            elif character in "'\"`":
                quote = character
            elif character in (opening, closing):
                depth += 1 if character == opening else -1
                if depth == 0:
                    return at
            at += 1
        raise UnreadableCommandError(f"there is no {closing!r}")


def _substitutions_of(text: str) -> Sequence[str]:
    """The substitutions within an expression that is no command."""
    if "$(" not in text and "`" not in text:
        return ()
    found = read_commands('"' + text.replace('"', "") + '"')
    return [nested for command in found for nested in command.nested]
