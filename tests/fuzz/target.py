"""A target: a parser, files that it takes, and how it is given other bytes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HarnessError
from harness.inside.refusal import Refusal

SOURCE = Path(__file__).parents[2]
SAMPLES = SOURCE / "tests/data/samples"
EXPECTED = (HarnessError, OSError, Refusal)


@dataclass(frozen=True)
class Target:
    """A parser: files to begin with, whether they are JSON, and how to have it read other bytes.

    It takes those files, unless they are ones that it is to have `refused`.
    """

    name: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[bytes, Path], object]
    json: bool = True
    refused: bool = False

    def try_(self, data: bytes, scratch: Path) -> str | None:
        """Read `data`; what the parser refuses it with, None where it takes it.

        Raises what no parser may raise.
        """
        try:
            self.read(data, scratch)
        except EXPECTED as error:
            text = str(error)
            assert text.strip(), "a refusal that says nothing"
            assert len(text) < 5000, "a refusal that is no line"
            return text
        return None


def one_file(name: str) -> Callable[[], list[bytes]]:
    return lambda: [(SOURCE / name).read_bytes()]


def placed(name: str, read: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    """Put the bytes at `name` below the scratch folder, and read with that folder."""

    def reading(data: bytes, scratch: Path) -> object:
        path = scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return read(scratch)

    return reading
