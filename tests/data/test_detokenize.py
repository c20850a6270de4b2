"""LM1B's spacing undone: each rule by an example whose result was taken from the MDLM code."""

import pytest

from harness.data.detokenize import lm1b


@pytest.mark.parametrize(
    ("raw", "written"),
    [
        ("http : / / x", "http://x"),
        ("https : / / x", "https://x"),
        ("it 's here", "it's here"),
        ("and one . Two", "and one. Two"),
        ("one . Two", "one . Two"),
        ("the end .", "the end."),
        ("a.b .", "a.b ."),
        ("who ? me", "who? me"),
        ("who ?", "who?"),
        ("go ! now", "go! now"),
        ("go !", "go!"),
        ("a , b : c ; d / e", "a, b: c; d/e"),
        ('he said " no " .', 'he said "no" .'),
        ("the ' old ' one", "the 'old' one"),
        ("see ( this ) now", "see (this) now"),
        ("see [ this ] now", "see [this] now"),
        ("$ 40 and £ 3", "$40 and £3"),
        ("the end_ .", "the end_."),
        ("the end .\n", "the end.\n"),
        ("  .", "  ."),
        (".", "."),
        (" .", " ."),
        ("", ""),
    ],
)
def test_rule(raw: str, written: str) -> None:
    assert lm1b(raw) == written
