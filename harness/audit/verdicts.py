"""What an audit says: claims, each with a verdict, and what follows for the whole run."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from harness.identity import at, differences
from harness.text import line, printable, short

SCHEMA_VERSION = 1


class Verdict(Enum):
    """What a check found of a claim."""

    HOLDS = "holds"
    DIFFERS = "differs"
    UNCHECKED = "cannot be checked here"


@dataclass(frozen=True)
class Claim:
    """One claim of a run and what was found of it; all texts are safe to print.

    `expected` and `found` are short forms of the two values compared, `why` a reason in words.
    """

    name: str
    verdict: Verdict
    expected: str = ""
    found: str = ""
    why: str = ""

    def record(self) -> dict[str, str]:
        """The claim as JSON."""
        return {
            "name": self.name,
            "verdict": self.verdict.value,
            "expected": self.expected,
            "found": self.found,
            "why": self.why,
        }

    def below(self, prefix: str) -> "Claim":
        """The same claim, made of a part of the run (its teacher, say)."""
        return replace(self, name=line(f"{prefix}{self.name}"))


@dataclass(frozen=True)
class Audit:
    """All claims of one run."""

    run: Path
    claims: tuple[Claim, ...]

    @property
    def exit_code(self) -> int:
        """0: all hold. 1: something differs. 2: nothing differs, but not all could be checked."""
        return exit_code(claim.verdict for claim in self.claims)

    def record(self) -> dict[str, object]:
        """The audit as JSON; its schema is `audit`."""
        return {
            "schema_version": SCHEMA_VERSION,
            "run": printable(self.run.name),
            "exit_code": self.exit_code,
            "claims": [claim.record() for claim in self.claims],
        }


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """The exit status that a set of verdicts comes to."""
    seen = set(verdicts)
    if Verdict.DIFFERS in seen:
        return 1
    return 2 if Verdict.UNCHECKED in seen else 0


def holds(name: str, found: object = "") -> Claim:
    """A claim that was checked and is true."""
    return Claim(line(name), Verdict.HOLDS, found=short(found))


def differs(name: str, why: str, expected: object = "", found: object = "") -> Claim:
    """A claim that was checked and is false."""
    return Claim(line(name), Verdict.DIFFERS, short(expected), short(found), line(why))


def unchecked(name: str, why: str) -> Claim:
    """A claim that could not be checked on this machine."""
    return Claim(line(name), Verdict.UNCHECKED, why=line(why))


def equal(name: str, expected: object, found: object, where: str = "") -> Claim:
    """The claim that two JSON values are one; `where` names the file the second was found in."""
    fields = differences(expected, found)
    if not fields and type(expected) is type(found):
        return holds(name, found)
    parts = [where] if where else []
    named = [field for field in fields if field]
    if named:
        rest = f" and {len(named) - 4} more" if len(named) > 4 else ""
        parts.append(f"differs in {', '.join(named[:4])}{rest}")
        expected, found = at(expected, named[0]), at(found, named[0])
    return differs(name, ": ".join(parts), expected, found)


def all_of(name: str, faults: Iterable[str], found: object = "") -> Claim:
    """The claim that a list of faults is empty."""
    lines = list(faults)
    if not lines:
        return holds(name, found)
    rest = f"; and {len(lines) - 8} more" if len(lines) > 8 else ""
    return differs(name, "; ".join(lines[:8]) + rest)
