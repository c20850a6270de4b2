"""The sandbox's system call filter, assembled as classic BPF (no libseccomp needed).

`RULES` says what is denied, `NUMBERS` what a call is called on each architecture; `program`
turns both into the bytes that the kernel (and bubblewrap's `--seccomp`) takes. What no rule
names is allowed, except calls newer than this table, which look unimplemented.

Numbers: Linux's asm/unistd_64.h (x86-64) and asm-generic/unistd.h (aarch64); the filter's
format: Documentation/userspace-api/seccomp_filter.rst.
"""

import errno
import platform
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from harness.errors import Refused


class Op(Enum):
    """What a condition asks of an argument's low 32 bits: all that the kernel reads here."""

    IN = "is one of"
    NOT_IN = "is none of"
    ANY_BITS = "has a bit of"


@dataclass(frozen=True)
class Condition:
    """One condition on a system call's argument (counted from 0)."""

    argument: int
    op: Op
    values: tuple[int, ...]


@dataclass(frozen=True)
class Rule:
    """Answer `error` to these calls when all conditions hold (none: always)."""

    calls: str
    error: int
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class Architecture:
    """How one processor's calls look to a filter."""

    audit: int
    column: int
    foreign_bit: int | None


ARCHITECTURES = {
    # The bit marks the x32 interface, which shares the x86-64 audit number.
    "x86_64": Architecture(audit=0xC000003E, column=0, foreign_bit=0x4000_0000),
    "aarch64": Architecture(audit=0xC00000B7, column=1, foreign_bit=None),
}
LAST_KNOWN = 469  # file_setattr; from 424 on, numbers are the same on all architectures

UNIX, INET, INET6, NETLINK, ROUTE = 1, 2, 10, 16, 0
TCP, UDP = 6, 17
# NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
NAMESPACES = 0x7E02_0000
SET_ID = 0o6000  # setuid and setgid
CREATING = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE: only then is there a mode
TIOCSTI, TIOCLINUX, TIOCSETD = 0x5412, 0x541C, 0x5423

RULES = (
    # Sockets: local, IP over TCP or UDP, and asking for addresses and routes. No vsock, packet,
    # crypto, bluetooth, ... and no netlink service but routing.
    Rule(
        "socket socketpair",
        errno.EAFNOSUPPORT,
        (Condition(0, Op.NOT_IN, (UNIX, INET, INET6, NETLINK)),),
    ),
    Rule(
        "socket",
        errno.EPROTONOSUPPORT,
        (Condition(0, Op.IN, (NETLINK,)), Condition(2, Op.NOT_IN, (ROUTE,))),
    ),
    Rule(
        "socket",
        errno.EPROTONOSUPPORT,
        (Condition(0, Op.IN, (INET, INET6)), Condition(2, Op.NOT_IN, (0, TCP, UDP))),
    ),
    # Namespaces and mounts. clone3 hides its flags from a filter: libc falls back to clone.
    Rule("clone", errno.EPERM, (Condition(0, Op.ANY_BITS, (NAMESPACES,)),)),
    Rule("clone3", errno.ENOSYS),
    Rule("unshare setns", errno.EPERM),
    Rule(
        "mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig"
        " fsmount fspick mount_setattr statmount listmount swapon swapoff quotactl quotactl_fd",
        errno.EPERM,
    ),
    # Other processes' memory, descriptors and secrets.
    Rule("ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp", errno.EPERM),
    Rule("keyctl add_key request_key", errno.EPERM),
    # A terminal's input queue, console and line discipline.
    Rule("ioctl", errno.EPERM, (Condition(1, Op.IN, (TIOCSTI, TIOCLINUX, TIOCSETD)),)),
    # A file with setuid in the output folder would be one on the host. openat2 hides its mode.
    Rule("chmod fchmod", errno.EPERM, (Condition(1, Op.ANY_BITS, (SET_ID,)),)),
    Rule("fchmodat fchmodat2", errno.EPERM, (Condition(2, Op.ANY_BITS, (SET_ID,)),)),
    Rule("creat mknod", errno.EPERM, (Condition(1, Op.ANY_BITS, (SET_ID,)),)),
    Rule("mknodat", errno.EPERM, (Condition(2, Op.ANY_BITS, (SET_ID,)),)),
    Rule(
        "open",
        errno.EPERM,
        (Condition(1, Op.ANY_BITS, (CREATING,)), Condition(2, Op.ANY_BITS, (SET_ID,))),
    ),
    Rule(
        "openat",
        errno.EPERM,
        (Condition(2, Op.ANY_BITS, (CREATING,)), Condition(3, Op.ANY_BITS, (SET_ID,))),
    ),
    Rule("openat2", errno.ENOSYS),
    # Large kernel interfaces that training needs none of.
    Rule("io_uring_setup io_uring_enter io_uring_register memfd_secret", errno.ENOSYS),
    Rule("bpf perf_event_open userfaultfd fanotify_init lookup_dcookie", errno.EPERM),
    Rule("open_by_handle_at name_to_handle_at", errno.EPERM),
    Rule("kexec_load kexec_file_load init_module finit_module delete_module", errno.EPERM),
    # The machine itself; capabilities stop these too.
    Rule("acct reboot settimeofday clock_settime clock_adjtime adjtimex syslog", errno.EPERM),
    Rule("sethostname setdomainname vhangup iopl ioperm modify_ldt uselib", errno.EPERM),
    Rule("personality", errno.EPERM, (Condition(0, Op.NOT_IN, (0, 0xFFFF_FFFF)),)),
)

# name: (x86-64, aarch64); None where the architecture has no such call.
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chmod": (90, None),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "creat": (85, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "listmount": (458, 458),
    "lookup_dcookie": (212, 18),
    "memfd_secret": (447, 447),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "open": (2, None),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "openat": (257, 56),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "statmount": (457, 457),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}

ALLOW, ERRNO, KILL_PROCESS = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
_LOAD, _JEQ, _JGT, _JGE, _JSET, _JA, _RET = 0x20, 0x15, 0x25, 0x35, 0x45, 0x05, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # struct seccomp_data, little-endian

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, k


def program(machine: str | None = None) -> bytes:
    """The filter for `machine` (platform.machine() by default), eight bytes an instruction.

    Raises Refused for an architecture that has no table here.
    """
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise Refused(f"seccomp: no filter for {machine!r}, only for {known}")
    architecture = ARCHITECTURES[machine]
    code: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_JEQ, 1, 0, architecture.audit),
        (_RET, 0, 0, KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if architecture.foreign_bit is not None:
        code += [(_JGE, 0, 1, architecture.foreign_bit), (_RET, 0, 0, KILL_PROCESS)]
    code += [(_JGT, 0, 1, LAST_KNOWN), (_RET, 0, 0, ERRNO | errno.ENOSYS)]
    for call, numbers in NUMBERS.items():
        number = numbers[architecture.column]
        if number is not None:
            block = _block([rule for rule in RULES if call in rule.calls.split()])
            code += [(_JEQ, 0, len(block), number), *block]
    code.append((_RET, 0, 0, ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def _block(rules: Sequence[Rule]) -> list[Instruction]:
    """The code for one call: the first rule whose conditions hold answers, else it is allowed."""
    code: list[Instruction] = []
    for rule in rules:
        body: list[Instruction] = [(_RET, 0, 0, ERRNO | rule.error)]
        for condition in reversed(rule.conditions):
            body = _condition(condition, len(body)) + body
        code += body
    return [*code, (_RET, 0, 0, ALLOW)]


def _condition(condition: Condition, rest: int) -> list[Instruction]:
    """Go on where the condition holds; else jump over the rule's `rest` instructions."""
    count = len(condition.values)
    load: Instruction = (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * condition.argument)
    after = [count - 1 - place for place in range(count)]
    if condition.op is Op.NOT_IN:
        return [
            load,
            *((_JEQ, n + rest, 0, v) for n, v in zip(after, condition.values, strict=True)),
        ]
    jump = _JEQ if condition.op is Op.IN else _JSET
    tries = [(jump, n + 1, 0, v) for n, v in zip(after, condition.values, strict=True)]
    return [load, *tries, (_JA, 0, 0, rest)]
