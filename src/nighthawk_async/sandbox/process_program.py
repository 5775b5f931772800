"""The program in the process of a sandbox: it runs code, and asks the program outside for everything else.

It is given to Python as a text and imports nothing of the library. Messages are lines of JSON: `run` comes
in, `end` goes out; between them go calls and readings of attributes, and their replies come in. See
`process_wire` for the values.

What this file does protects nothing: the code can change all of it. Bubblewrap, the limits of the system and
the program outside do.
"""

# It is a program of its own, whose functions are used nowhere else. It has asyncio in place of AnyIO, because
# nothing but the standard library is sure to be there.
# ruff: noqa: D102, D103
# mypy: ignore-errors
# pyright: basic, reportArgumentType=false, reportCallIssue=false

import ast
import asyncio
import base64
import builtins
import collections
import contextlib
import datetime
import decimal
import inspect
import io
import json
import os
import pathlib
import resource
import signal
import sys
import traceback

MOST_DEPTH = 100
MOST_PRINTED = 10_000_000
MOST_TEXT = 500


class HostObject:
    """An object of the program outside."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return CHANNEL.ask({"op": "attribute", "key": vars(self)["_nh_key"], "name": name})

    def __repr__(self):
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if name[0] != "_")
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other):
        if not isinstance(other, HostObject):
            return NotImplemented
        mine, others = public_fields(self), public_fields(other)
        return vars(self)["_nh_key"] == vars(other)["_nh_key"] or (bool(mine) and mine == others)

    def __hash__(self):
        return hash(vars(self)["_nh_key"])


class HostClass(type):
    """A class of the program outside: calling it makes the object there."""

    def __call__(cls, *args, **kwargs):
        if "_nh_key" not in vars(cls):
            raise TypeError(f"{cls.__name__}: classes of the program cannot be derived from")
        return CHANNEL.call(vars(cls)["_nh_key"], args, kwargs, False)

    def __getattr__(cls, name):
        if name.startswith("_") or "_nh_key" not in vars(cls):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        return CHANNEL.ask({"op": "attribute", "key": vars(cls)["_nh_key"], "name": name})


class HostFunction:
    """A function of the program outside."""

    def __init__(self, key, name, is_async):
        self._nh_key, self.__name__, self._is_async = key, name, is_async

    def __call__(self, *args, **kwargs):
        return CHANNEL.call(self._nh_key, args, kwargs, self._is_async)

    def __repr__(self):
        return f"<function {self.__name__}>"


def public_fields(value):
    return {name: each for name, each in vars(value).items() if not name.startswith("_")}


class Channel:
    """The messages to and from the program outside."""

    def __init__(self):
        self.inward, self.outward = os.dup(0), os.dup(1)
        with open(os.devnull, "r+b") as nothing:
            os.dup2(nothing.fileno(), 0)
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        self.buffer = b""
        self.number = 0
        self.waiting = {}
        self.arrived = {}
        self.objects = {}

    def send(self, message):
        data = memoryview(json.dumps(message).encode() + b"\n")
        while data:
            data = data[os.write(self.outward, data) :]

    def read_some(self):
        data = os.read(self.inward, 1 << 16)
        if not data:
            os._exit(0)
        self.buffer += data

    def next(self):
        while b"\n" not in self.buffer:
            self.read_some()
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def on_readable(self):
        self.read_some()
        while b"\n" in self.buffer:
            self.take(self.next())

    def take(self, reply):
        future = self.waiting.pop(reply["id"], None)
        if future is None:
            self.arrived[reply["id"]] = reply
        elif not future.done():
            try:
                future.set_result(self.result(reply))
            except Exception as error:
                future.set_exception(error)

    def result(self, reply):
        if "error" not in reply:
            return decode(reply["value"])
        name, message = reply["error"]
        raise getattr(builtins, name, RuntimeError)(message)

    def ask(self, message):
        """Send a message, and wait for its reply."""
        self.number += 1
        number = self.number
        pause_clock()
        try:
            self.send({**message, "id": number})
            while number not in self.arrived:
                self.take(self.next())
        finally:
            resume_clock()
        return self.result(self.arrived.pop(number))

    def call(self, key, args, kwargs, is_async):
        message = {
            "op": "call",
            "key": key,
            "args": [encode_argument(each) for each in args],
            "kwargs": {name: encode_argument(each) for name, each in kwargs.items()},
        }
        if not is_async:
            return self.ask(message)
        self.number += 1
        future = self.waiting[self.number] = asyncio.get_running_loop().create_future()
        self.send({**message, "id": self.number})
        return future


CHANNEL: Channel


def encode_argument(value):
    encoded = encode(value, 0)
    if has_inside(encoded):
        raise TypeError(f"{value!r:.200} cannot leave the sandbox: pass data")
    return encoded


def has_inside(encoded):
    if isinstance(encoded, list):
        return any(map(has_inside, encoded))
    if isinstance(encoded, dict):
        return encoded["t"] == "i" or has_inside(encoded["v"])
    return False


def tagged(tag, value):
    return {"t": tag, "v": value}


def inside(value):
    try:
        text = repr(value)[:MOST_TEXT]
    except Exception as error:
        text = f"no repr: {error!r:.100}"
    return tagged("i", [type(value).__name__, text])


def encode(value, depth):
    """Encode a value; see `process_wire`."""
    if value is None or value is True or value is False:
        return value
    kind = type(value)
    if kind is str:
        return value
    if kind is int:
        return value if -(2**53) < value < 2**53 else tagged("I", hex(value))
    if kind is float:
        return tagged("f", repr(value))
    if depth > MOST_DEPTH:
        return inside("nested too deeply")
    simple = SIMPLE.get(kind)
    if simple is not None:
        return simple(value)
    if isinstance(value, HostObject):
        fields = {name: encode(each, depth + 1) for name, each in public_fields(value).items()}
        return tagged("r", [vars(value)["_nh_key"], list(map(list, fields.items()))])
    if isinstance(value, HostFunction) or (isinstance(value, HostClass) and "_nh_key" in vars(value)):
        return tagged("r", [vars(value)["_nh_key"], None])
    if isinstance(value, dict):
        pairs = [[encode(k, depth + 1), encode(each, depth + 1)] for k, each in dict.items(value)]
        return tagged("d", pairs)
    for base, tag in ((list, "l"), (tuple, "T"), (set, "S"), (frozenset, "Z"), (collections.deque, "l")):
        if isinstance(value, base):
            return tagged(tag, [encode(each, depth + 1) for each in base.__iter__(value)])
    if isinstance(value, pathlib.PurePath):
        return tagged("p", value.as_posix())
    if isinstance(value, BaseException) and kind.__module__ == "builtins":
        return tagged("x", [kind.__name__, str(value)])
    if isinstance(value, type) and value.__module__ in ("builtins", "datetime", "decimal"):
        return tagged("y", value.__name__)
    for base in (int, float, str):  # such as the numbers of numpy that are floats
        if isinstance(value, base) and not kind.__module__.startswith("enum"):
            return encode(base(value), depth)
    return inside(value)


SIMPLE = {
    bytes: lambda value: tagged("b", base64.b64encode(value).decode()),
    bytearray: lambda value: tagged("b", base64.b64encode(value).decode()),
    complex: lambda value: tagged("c", [repr(value.real), repr(value.imag)]),
    datetime.datetime: lambda value: tagged("M", value.isoformat()),
    datetime.date: lambda value: tagged("D", value.isoformat()),
    datetime.time: lambda value: tagged("H", value.isoformat()),
    datetime.timedelta: lambda value: tagged("L", [value.days, value.seconds, value.microseconds]),
    decimal.Decimal: lambda value: tagged("N", str(value)),
    type(...): lambda value: tagged("e", None),
}


def decode(value):
    """Decode a value; see `process_wire`."""
    if not isinstance(value, dict):
        return value
    tag, content = value["t"], value["v"]
    if tag == "d":
        return {decode(key): decode(each) for key, each in content}
    if tag in CONTAINERS:
        return CONTAINERS[tag](map(decode, content))
    if tag == "r":
        return host_object(*content)
    return DECODERS[tag](content)


CONTAINERS = {"l": list, "T": tuple, "S": set, "Z": frozenset}
TYPES = {
    each.__name__: each
    for each in (datetime.date, datetime.datetime, datetime.time, datetime.timedelta, decimal.Decimal)
}


def builtin(name):
    return TYPES.get(name) or getattr(builtins, name, type(None))


DECODERS = {
    "I": lambda content: int(content, 16),
    "f": float,
    "b": base64.b64decode,
    "c": lambda content: complex(float(content[0]), float(content[1])),
    "M": datetime.datetime.fromisoformat,
    "D": datetime.date.fromisoformat,
    "H": datetime.time.fromisoformat,
    "L": lambda content: datetime.timedelta(*content),
    "N": decimal.Decimal,
    "e": lambda content: ...,
    "p": pathlib.PurePosixPath,
    "x": lambda content: builtin(content[0])(content[1]),
    "y": builtin,
}


def host_object(key, kind, name, fields, class_key, is_async):
    found = CHANNEL.objects.get(key)
    if found is not None:
        return found
    if kind == "function":
        found = HostFunction(key, name, is_async)
    elif kind == "class":
        found = HostClass(name, (HostObject,), {"_nh_key": key})
    else:
        cls = host_object(class_key, "class", name, None, 0, False) if class_key else HostObject
        found = object.__new__(cls)
        vars(found)["_nh_key"] = key
        vars(found).update({each: decode(value) for each, value in fields or ()})
    CHANNEL.objects[key] = found
    return found


LEFT = 0.0


def pause_clock():
    global LEFT
    LEFT = signal.setitimer(signal.ITIMER_REAL, 0)[0]


def resume_clock():
    signal.setitimer(signal.ITIMER_REAL, max(LEFT, 0.001))


def on_alarm(*_):
    raise TimeoutError("nighthawk: out of time")


def waiting_in(value, depth=0):
    """Whether there are calls in a value that nobody has awaited."""
    if inspect.isawaitable(value):
        return True
    if isinstance(value, (list, tuple, set, frozenset)) and depth < MOST_DEPTH:
        return any(waiting_in(each, depth + 1) for each in value)
    if isinstance(value, dict) and depth < MOST_DEPTH:
        return any(waiting_in(each, depth + 1) for each in value.values())
    return False


async def awaited(value):
    """The value with the results of the calls in it."""
    if inspect.isawaitable(value):
        return await awaited(await value)
    if not waiting_in(value):
        return value
    if isinstance(value, dict):
        results = await asyncio.gather(*map(awaited, value.values()))
        return dict(zip(value, results, strict=True))
    return type(value)(await asyncio.gather(*map(awaited, value)))


async def run_cell(message, names):
    asyncio.get_running_loop().add_reader(CHANNEL.inward, CHANNEL.on_readable)
    value = []
    try:
        text = message["text"]
        tree = ast.parse(text.strip() if message["is_expression"] else text, "<cell>")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        for part, mode in ((tree, "exec"), (last, "eval")):
            if part is None:
                continue
            part = ast.Expression(part.value) if mode == "eval" else part
            code = compile(part, "<cell>", mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, names)
            if code.co_flags & inspect.CO_COROUTINE:
                result = await result
            if mode == "eval":
                value.append(result)
        value = [await awaited(each) for each in value]
        for name in message["binds"]:
            if name in names and waiting_in(names[name]):
                names[name] = await awaited(names[name])
        while CHANNEL.waiting:
            await asyncio.gather(*CHANNEL.waiting.values())
        return value
    finally:
        CHANNEL.waiting.clear()
        asyncio.get_running_loop().remove_reader(CHANNEL.inward)


def failure_of(error):
    frames = traceback.extract_tb(error.__traceback__)
    line = next((each.lineno for each in reversed(frames) if each.filename == "<cell>"), 0)
    message = str(error)
    if isinstance(error, SyntaxError):
        line, message = error.lineno or 0, error.msg
    return [type(error).__name__, message[:20_000], line or 0]


def serve(names, runner, message):
    """Run one cell, and send its end."""
    output = io.StringIO()
    end = {"op": "end", "values": {}}
    try:
        for name, module in message["modules"].items():
            with contextlib.suppress(ImportError):
                names[name] = __import__(module, fromlist=["_"])
        names.update({name: decode(value) for name, value in message["inputs"].items()})
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            signal.signal(signal.SIGALRM, on_alarm)
            signal.setitimer(signal.ITIMER_REAL, message["seconds"])
            try:
                value = runner.run(run_cell(message, names))
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        if value:
            end["value"] = encode(value[0], 0)
    except BaseException as error:
        end["failure"] = failure_of(error)
    for name in message["reads"]:
        if name in names:
            end["values"][name] = encode(names[name], 0)
    end["printed"] = output.getvalue()[:MOST_PRINTED]
    CHANNEL.send(end)


def main():
    global CHANNEL
    memory, recursion = int(sys.argv[1]), int(sys.argv[2])
    CHANNEL = Channel()
    sys.setrecursionlimit(recursion)
    resource.setrlimit(resource.RLIMIT_DATA, (memory + 2**26, memory + 2**26))
    resource.setrlimit(resource.RLIMIT_AS, (memory + 2**30, memory + 2**30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        os.nice(10)
    names = {"__name__": "__main__", "__builtins__": __builtins__}
    with asyncio.Runner() as runner:
        runner.get_loop()
        while True:
            serve(names, runner, CHANNEL.next())


if __name__ == "__main__":
    main()
