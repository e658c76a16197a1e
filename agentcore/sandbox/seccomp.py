"""The second layer: system calls that no command in the sandbox needs, refused by the kernel.

The first layer takes away what they could reach; this one holds where a bug of the kernel would give it back. Refused
are new namespaces and mounts (what most ways out of a sandbox begin with), the keyrings, which no namespace separates,
typing into a terminal, and what loads code into the kernel or looks over all processes. Debuggers are let be: they
reach the sandbox's own processes alone, and not the first of them, which is bubblewrap's. Pure.
"""

import errno
import platform
import struct
from collections.abc import Iterator, Mapping

# By name: numbers on x86-64 and on aarch64 (asm/unistd_64.h, asm-generic/unistd.h); None where there is no such call.
_REFUSED: Mapping[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
_CLONE, _IOCTL = (56, 220), (16, 29)
_PTRACE, _READS, _WRITES = (101, 117), (310, 270), (311, 271)  # process_vm_readv, process_vm_writev
_FIRST_PROCESS = 1  # bubblewrap's own, which ends all others with the server
_CLONE3 = 435  # its flags lie in memory, where no filter sees them; the C library goes on with clone
_NEW_NAMESPACES = 0x7E020080  # CLONE_NEWTIME, NS, CGROUP, UTS, IPC, USER, PID, NET
_TERMINAL = (0x5412, 0x541C)  # TIOCSTI types for the user, TIOCLINUX pastes for him
_MACHINES: Mapping[str, tuple[int, int]] = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""By name: the column above, and AUDIT_ARCH."""
_X32 = 0x40000000

_LOAD, _JUMP_EQUAL, _JUMP_FROM, _JUMP_ANY, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in struct seccomp_data; of arguments the low half
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000


def program(machine: str | None = None) -> bytes | None:
    """The filter as `struct sock_filter[]` for a kind of machine, this one unless named; None for one not known."""
    known = _MACHINES.get(machine or platform.machine())
    return None if known is None else b"".join(_instructions(*known))


def _instructions(column: int, arch: int) -> Iterator[bytes]:
    refuse = _step(_RETURN, _ERROR | errno.EPERM)
    yield _step(_LOAD, _ARCH)
    yield _step(_JUMP_EQUAL, arch, yes=1)
    yield refuse  # programs of another kind have other numbers
    yield _step(_LOAD, _NUMBER)
    yield _step(_JUMP_FROM, _X32, no=1)
    yield refuse
    for numbers in _REFUSED.values():
        number = numbers[column]
        if number is not None:
            yield _step(_JUMP_EQUAL, number, no=1)
            yield refuse
    yield _step(_JUMP_EQUAL, _CLONE3, no=1)
    yield _step(_RETURN, _ERROR | errno.ENOSYS)
    for traces, argument in ((_PTRACE, _SECOND), (_READS, _FIRST), (_WRITES, _FIRST)):
        yield _step(_JUMP_EQUAL, traces[column], no=4)
        yield _step(_LOAD, argument)
        yield _step(_JUMP_EQUAL, _FIRST_PROCESS, no=1)
        yield refuse
        yield _step(_RETURN, _ALLOW)
    yield _step(_JUMP_EQUAL, _CLONE[column], no=4)
    yield _step(_LOAD, _FIRST)
    yield _step(_JUMP_ANY, _NEW_NAMESPACES, no=1)
    yield refuse
    yield _step(_RETURN, _ALLOW)
    yield _step(_JUMP_EQUAL, _IOCTL[column], no=1 + 2 * len(_TERMINAL))
    yield _step(_LOAD, _SECOND)
    for request in _TERMINAL:
        yield _step(_JUMP_EQUAL, request, no=1)
        yield refuse
    yield _step(_RETURN, _ALLOW)


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """One instruction; `yes` and `no` are how many a comparison skips."""
    return struct.pack("=HBBI", code, yes, no, value)
