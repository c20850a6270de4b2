"""The filter, run by a small interpreter of classic BPF, and really enforced in a sandbox."""

import errno
import json
import struct
from pathlib import Path

import pytest
import sandbox_base
from hypothesis import given
from hypothesis import strategies as st

from harness import sandbox, seccomp
from harness.errors import Refused
from harness.seccomp import ARCHITECTURES, LAST_KNOWN, NUMBERS, RULES

ALLOWED, KILLED = "allowed", "killed"
MACHINES = sorted(ARCHITECTURES)
X86, ARM, I386 = ARCHITECTURES["x86_64"].audit, ARCHITECTURES["aarch64"].audit, 0x4000_0003
words = st.integers(0, 2**64 - 1)


def answer(machine: str, number: int, *arguments: int, audit: int | None = None) -> str | int:
    """What the filter for `machine` answers to a call: allowed, killed, or an errno."""
    audit = ARCHITECTURES[machine].audit if audit is None else audit
    padded = [argument & (2**64 - 1) for argument in arguments] + [0] * (6 - len(arguments))
    data = struct.pack("<IIQ6Q", number, audit, 0, *padded)
    program = list(struct.iter_unpack("<HBBI", seccomp.program(machine)))
    compare = {
        0x15: lambda a, k: a == k,
        0x25: lambda a, k: a > k,
        0x35: lambda a, k: a >= k,
        0x45: lambda a, k: bool(a & k),
    }
    accumulator = place = 0
    while True:
        code, if_true, if_false, k = program[place]
        place += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, k)
        elif code == 0x05:
            place += k
        elif code == 0x06:
            return {0x7FFF_0000: ALLOWED, 0x8000_0000: KILLED}.get(k, k & 0xFFFF)
        else:
            place += if_true if compare[code](accumulator, k) else if_false


def call(machine: str, name: str, *arguments: int) -> str | int:
    """The answer to a call by its name."""
    number = NUMBERS[name][ARCHITECTURES[machine].column]
    assert number is not None
    return answer(machine, number, *arguments)


def test_every_rule_names_known_calls_and_every_number_has_a_rule() -> None:
    named = {name for rule in RULES for name in rule.calls.split()}
    assert named == set(NUMBERS)


@pytest.mark.parametrize("column", [0, 1])
def test_no_number_stands_twice(column: int) -> None:
    numbers = [pair[column] for pair in NUMBERS.values() if pair[column] is not None]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("machine", MACHINES)
def test_program_fits_the_kernels_limit(machine: str) -> None:
    assert len(seccomp.program(machine)) % 8 == 0
    assert len(seccomp.program(machine)) // 8 <= 4096


def test_unknown_machine_is_refused() -> None:
    with pytest.raises(Refused, match="no filter for 'riscv64'"):
        seccomp.program("riscv64")


@pytest.mark.parametrize("machine", MACHINES)
@given(number=st.integers(0, 2**32 - 1), arguments=st.lists(words, min_size=6, max_size=6))
def test_unnamed_calls_are_allowed_and_unknown_ones_look_unimplemented(
    machine: str, number: int, arguments: list[int]
) -> None:
    column = ARCHITECTURES[machine].column
    named = {pair[column] for pair in NUMBERS.values()}
    if number <= LAST_KNOWN and number not in named:
        assert answer(machine, number, *arguments) == ALLOWED
    elif number > LAST_KNOWN:
        foreign = machine == "x86_64" and number >= 0x4000_0000
        assert answer(machine, number, *arguments) == (KILLED if foreign else errno.ENOSYS)


@pytest.mark.parametrize("machine", MACHINES)
@given(number=st.integers(0, LAST_KNOWN), arguments=st.lists(words, min_size=6, max_size=6))
def test_the_filter_is_its_table(machine: str, number: int, arguments: list[int]) -> None:
    """Against a direct reading of the rules, for every call."""
    column = ARCHITECTURES[machine].column
    names = [name for name, pair in NUMBERS.items() if pair[column] == number]
    holds = {
        seccomp.Op.IN: lambda value, values: value in values,
        seccomp.Op.NOT_IN: lambda value, values: value not in values,
        seccomp.Op.ANY_BITS: lambda value, values: any(value & bits for bits in values),
    }
    expected = next(
        (
            rule.error
            for rule in RULES
            if names
            and names[0] in rule.calls.split()
            and all(
                holds[condition.op](arguments[condition.argument] % 2**32, condition.values)
                for condition in rule.conditions
            )
        ),
        ALLOWED,
    )
    assert answer(machine, number, *arguments) == expected


@pytest.mark.parametrize("machine", MACHINES)
@given(number=st.integers(0, 2**32 - 1), audit=st.sampled_from([X86, ARM, I386, 0x4000_0028]))
def test_foreign_architectures_are_killed(machine: str, number: int, audit: int) -> None:
    if audit != ARCHITECTURES[machine].audit:
        assert answer(machine, number, audit=audit) == KILLED


@pytest.mark.parametrize("machine", MACHINES)
@given(family=st.integers(0, 2**32 - 1), kind=words, protocol=st.integers(0, 2**32 - 1))
def test_socket_families(machine: str, family: int, kind: int, protocol: int) -> None:
    allowed = {1: True, 2: protocol in (0, 6, 17), 10: protocol in (0, 6, 17), 16: protocol == 0}
    expected = errno.EAFNOSUPPORT
    if family in allowed:
        expected = ALLOWED if allowed[family] else errno.EPROTONOSUPPORT
    assert call(machine, "socket", family, kind, protocol) == expected


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("family", range(46))
def test_each_socket_family(machine: str, family: int) -> None:
    expected = ALLOWED if family in (1, 2, 10, 16) else errno.EAFNOSUPPORT
    assert call(machine, "socket", family, 1, 0) == expected


@pytest.mark.parametrize("machine", MACHINES)
@given(high=st.integers(0, 2**32 - 1), request=st.sampled_from([0x5412, 0x541C, 0x5423]))
def test_high_bits_hide_no_terminal_request(machine: str, high: int, request: int) -> None:
    """The kernel ignores them, so the filter must."""
    assert call(machine, "ioctl", 0, high << 32 | request) == errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("bit", [17, 25, 26, 27, 28, 29, 30])
def test_clone_makes_no_namespace(machine: str, bit: int) -> None:
    threads = 0x3D0F00  # what pthread_create passes
    assert call(machine, "clone", threads) == ALLOWED
    assert call(machine, "clone", 17) == ALLOWED
    assert call(machine, "clone", threads | 1 << bit) == errno.EPERM
    assert call(machine, "clone3", 0, 88) == errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("bits", [0o4000, 0o2000])
def test_no_setuid_file_is_made(machine: str, bits: int) -> None:
    creating = 0o101
    assert call(machine, "fchmod", 3, 0o755) == ALLOWED
    assert call(machine, "fchmod", 3, 0o755 | bits) == errno.EPERM
    assert call(machine, "openat", 3, 0, creating, 0o644) == ALLOWED
    assert call(machine, "openat", 3, 0, creating, 0o644 | bits) == errno.EPERM
    assert call(machine, "openat", 3, 0, 0o20200002, bits) == errno.EPERM
    assert call(machine, "openat", 3, 0, 0, 0o7777) == ALLOWED  # no file is made: no mode


ENFORCED = """
import ctypes, json, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.argtypes = [ctypes.c_long] * 7
answers = {}
for name, number in json.load(sys.stdin).items():
    ctypes.set_errno(0)
    # Arguments that no call takes: pointers to nothing, and a bit of each refused kind.
    result = libc.syscall(number, -1, -1, -1, -1, -1, -1)
    answers[name] = ctypes.get_errno() if result == -1 else 0
print(json.dumps(answers))
"""


@pytest.mark.e2e
def test_every_unconditional_rule_is_enforced(base: Path) -> None:

    column = ARCHITECTURES["x86_64"].column
    expected = {
        name: rule.error
        for rule in RULES
        for name in rule.calls.split()
        if not rule.conditions and NUMBERS[name][column] is not None
    }
    numbers = {name: NUMBERS[name][column] for name in expected}
    done = sandbox.run(
        sandbox_base.box(base),
        [sandbox_base.PYTHON, "-c", ENFORCED],
        input=json.dumps(numbers).encode(),
    )
    assert json.loads(done.stdout) == expected


@pytest.mark.e2e
def test_a_foreign_call_kills(base: Path) -> None:
    """An x32 call (x86-64's with the bit set) ends the process with SIGSYS."""
    code = "import ctypes; ctypes.CDLL(None).syscall(0x40000000 | 39); print('alive')"
    done = sandbox.run(sandbox_base.box(base), [sandbox_base.PYTHON, "-c", code])
    assert (done.returncode, done.stdout) == (128 + 31, b"")
