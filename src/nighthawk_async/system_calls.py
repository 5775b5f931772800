"""The filter of system calls that confined shells, and processes for code of models, run under. Pure.

Files that a shell leaves in the workspace must not run with the rights of their owner: no mount option and no
dropped capability keeps a user from setting the set-user-ID bit of an own file, so the calls that could are
refused. The calls that hide their arguments from a filter do not exist for the shell; programs then use the
older ones. The shell of root makes no user namespace, in which it would have capabilities again.

No namespace divides the keyrings of a user, nor sockets like those of a virtual machine to its host. So the
calls of keyrings do not exist for the shell, and it has only sockets that namespaces do divide.

A process for code of models starts no other processes, each of which would have its limits of memory anew.

Source: https://docs.kernel.org/userspace-api/seccomp_filter.html; `RestrictSUIDSGID=` of systemd.exec(5).
"""

import errno
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_BITS = 0o6000
_CREATES = 0o100 | 0o20000000
"""The flags O_CREAT and O_TMPFILE of `open`, without which there is no mode."""
_NEW_USER_NAMESPACE = 0x10000000
_CLONE_THREAD = 0x10000
_FAMILIES = (1, 2, 10, 16)
"""Of sockets: unix, inet, inet6, netlink."""
_OTHER_ABI = 0x40000000
"""The first number of the calls of the x32 ABI."""

_LOAD, _EQUALS, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | errno.EPERM
_NO_SUCH_CALL = 0x00050000 | errno.ENOSYS
_NO_SUCH_FAMILY = 0x00050000 | errno.EAFNOSUPPORT
_OFFSET_OF_ARCHITECTURE = 4


_HIDDEN = (437, 425)  # openat2, io_uring_setup


@dataclass(frozen=True, kw_only=True)
class _Calls:
    """The system calls of an architecture, by number.

    Args:
        architecture: The number of the architecture, AUDIT_ARCH.
        modes: The position of the mode, by call.
        opens: The positions of the flags and the mode, by call.
        keys: The calls of keyrings.
        namespaces: The calls whose first argument makes namespaces.
        socket: The call that makes a socket.
        forks: The calls that make processes, besides the first one of `namespaces`.
        hidden: The calls whose arguments cannot be seen.
        clone3: The call that makes namespaces and hides its arguments.
    """

    architecture: int
    modes: Mapping[int, int]
    opens: Mapping[int, tuple[int, int]]
    keys: tuple[int, int, int]
    namespaces: tuple[int, ...]
    socket: int
    forks: tuple[int, ...] = ()
    hidden: tuple[int, ...] = _HIDDEN
    clone3: int = 435


# In each: chmod, fchmod, fchmodat, fchmodat2, creat, mknod, mknodat; open, openat; add_key, request_key,
# keyctl; clone, unshare. The older way to make sockets, socketcall of i386, is hidden.
_X86_64 = _Calls(
    architecture=0xC000003E,
    modes={90: 1, 91: 1, 268: 2, 452: 2, 85: 1, 133: 1, 259: 2},
    opens={2: (1, 2), 257: (2, 3)},
    keys=(248, 249, 250),
    namespaces=(56, 272),
    socket=41,
    forks=(57, 58),
)
_I386 = _Calls(
    architecture=0x40000003,
    modes={15: 1, 94: 1, 306: 2, 452: 2, 8: 1, 14: 1, 297: 2},
    opens={5: (1, 2), 295: (2, 3)},
    keys=(286, 287, 288),
    namespaces=(120, 310),
    socket=359,
    forks=(2, 190),
    hidden=(*_HIDDEN, 102),
)
_ARM = _Calls(
    architecture=0x40000028,
    modes={15: 1, 94: 1, 333: 2, 452: 2, 8: 1, 14: 1, 324: 2},
    opens={5: (1, 2), 322: (2, 3)},
    keys=(309, 310, 311),
    namespaces=(120, 337),
    socket=281,
    forks=(2, 190),
)


def _generic(architecture: int) -> _Calls:
    return _Calls(
        architecture=architecture,
        modes={52: 1, 53: 2, 452: 2, 33: 2},
        opens={56: (2, 3)},
        keys=(217, 218, 219),
        namespaces=(220, 97),
        socket=198,
    )


_MACHINES: Mapping[str, tuple[_Calls, ...]] = {
    "x86_64": (_X86_64, _I386),
    "aarch64": (_generic(0xC00000B7), _ARM),
    "riscv64": (_generic(0xC00000F3),),
    "loongarch64": (_generic(0xC0000102),),
}
"""The architectures whose programs a machine runs."""


def system_call_filter(machine: str, *, is_root: bool, may_fork: bool = True) -> bytes | None:
    """Return the filter, as `bwrap --seccomp` reads it; None for a machine whose calls are not known here.

    Args:
        machine: The name of the machine, as `os.uname` returns it.
        is_root: Whether the shell belongs to root.
        may_fork: Whether it may start processes; otherwise it has threads alone.
    """
    architectures = _MACHINES.get(machine)
    if architectures is None:
        return None
    program: list[bytes] = []
    for calls in architectures:
        rules = list(_rules(calls, is_root=is_root, may_fork=may_fork))
        # They are few: a conditional jump skips 255 instructions at most.
        program += [
            _instruction(_LOAD, _OFFSET_OF_ARCHITECTURE),
            _instruction(_EQUALS, calls.architecture, 0, len(rules)),
            *rules,
        ]
    return b"".join([*program, _instruction(_RETURN, _NO_SUCH_CALL)])


def _rules(calls: _Calls, *, is_root: bool, may_fork: bool) -> Iterable[bytes]:
    yield _instruction(_LOAD, 0)
    if calls is _X86_64:
        yield _instruction(_AT_LEAST, _OTHER_ABI, 0, 1)
        yield _instruction(_RETURN, _NO_SUCH_CALL)
    for number in (*calls.hidden, *calls.keys, *((calls.clone3,) if is_root or not may_fork else ())):
        yield _instruction(_EQUALS, number, 0, 1)
        yield _instruction(_RETURN, _NO_SUCH_CALL)
    if not may_fork:
        yield from _threads_only(calls)
    for number, (flags, mode) in calls.opens.items():
        yield _instruction(_EQUALS, number, 0, 6)
        yield _instruction(_LOAD, _offset_of_argument(flags))
        yield _instruction(_HAS_BITS, _CREATES, 0, 3)
        yield from _refusal_of_bits(mode, _BITS)
    masks = {number: (mode, _BITS) for number, mode in calls.modes.items()}
    if is_root:
        masks |= dict.fromkeys(calls.namespaces, (0, _NEW_USER_NAMESPACE))
    for number, (argument, bits) in masks.items():
        yield _instruction(_EQUALS, number, 0, 4)
        yield from _refusal_of_bits(argument, bits)
    yield _instruction(_EQUALS, calls.socket, 0, len(_FAMILIES) + 2)
    yield _instruction(_LOAD, _offset_of_argument(0))
    for number, family in enumerate(_FAMILIES):
        yield _instruction(_EQUALS, family, len(_FAMILIES) - number, 0)
    yield _instruction(_RETURN, _NO_SUCH_FAMILY)
    yield _instruction(_RETURN, _ALLOW)


def _threads_only(calls: _Calls) -> Iterable[bytes]:
    for number in calls.forks:
        yield _instruction(_EQUALS, number, 0, 1)
        yield _instruction(_RETURN, _REFUSE)
    yield _instruction(_EQUALS, calls.namespaces[0], 0, 4)
    yield _instruction(_LOAD, _offset_of_argument(0))
    yield _instruction(_HAS_BITS, _CLONE_THREAD, 1, 0)
    yield _instruction(_RETURN, _REFUSE)
    yield _instruction(_RETURN, _ALLOW)


def _refusal_of_bits(argument: int, bits: int) -> list[bytes]:
    return [
        _instruction(_LOAD, _offset_of_argument(argument)),
        _instruction(_HAS_BITS, bits, 0, 1),
        _instruction(_RETURN, _REFUSE),
        _instruction(_RETURN, _ALLOW),
    ]


def _offset_of_argument(number: int) -> int:
    """The offset of the low half of an argument; all machines here are little-endian."""
    return 16 + 8 * number


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
