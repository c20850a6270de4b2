"""Nothing printed acts on a terminal, and different names stay different."""

from hypothesis import given
from hypothesis import strategies as st

from harness.text import LONGEST, LONGEST_LINE, line, lines, printable, short

TEXTS = st.text() | st.binary().map(lambda data: data.decode(errors="surrogateescape"))


@given(TEXTS)
def test_all_is_printable(text: str) -> None:
    assert printable(text).isprintable()
    printable(text).encode()


def test_what_it_becomes() -> None:
    assert printable("a\x1b[1m\n\u202e\udcff é") == r"a\x1b[1m\n\u202e\udcff é"


@given(TEXTS | st.lists(TEXTS) | st.integers() | st.none())
def test_a_short_form_is_one_line(value: object) -> None:
    assert short(value).isprintable()
    assert len(short(value)) <= LONGEST


@given(TEXTS, st.sampled_from([1, 400, 5000]))
def test_a_line_is_cut_in_its_middle(text: str, times: int) -> None:
    told = line(f"at:{text * times}:end")
    assert told.isprintable()
    assert len(told) <= LONGEST_LINE
    assert told.startswith("at:")
    assert told.endswith(":end")


@given(TEXTS)
def test_lines_keep_their_ends_and_tabs(text: str) -> None:
    told = lines(f"a\n\t{text}")
    assert told.startswith("a\n\t")
    assert all(c.isprintable() or c in "\n\t" for c in told)
