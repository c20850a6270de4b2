"""Undoing LM1B's spacing around punctuation, rule for rule as the MDLM code base does.

Facts: the rules and their order are those of `lm1b_detokenizer` in kuleshov-group/mdlm at the
pinned commit; the packed ids differ where a rule or its place differs.
"""

import re
from collections.abc import Callable

_Rule = tuple[str, Callable[[str], str]]


def _literal(old: str, new: str) -> _Rule:
    return old, lambda text: text.replace(old, new)


def _pattern(needle: str, pattern: str, new: str) -> _Rule:
    """A regular expression, and what every text it changes must contain."""
    compiled = re.compile(pattern)
    return needle, lambda text: compiled.sub(new, text)


_FULL_STOP = re.compile(r" (\w+) \.$")


def _full_stop(text: str) -> str:
    """Join the last full stop to its word."""
    start = text.rfind(" ", 0, -2)
    if start >= 0 and text.endswith(" .") and text[start + 1 : -2].isalnum():
        return text[:-2] + "."  # the rule's commonest case, without its cost
    return _FULL_STOP.sub(r" \1.", text)


_LM1B: tuple[_Rule, ...] = (
    _literal("http : / / ", "http://"),
    _literal("https : / / ", "https://"),
    _pattern(" '", r" '(\w+)", r"'\1"),
    _pattern(" . ", r" (\w+) \. ", r" \1. "),
    (" .", _full_stop),
    _literal(" ? ", "? "),
    _pattern(" ?", r" \?$", "?"),
    _literal(" ! ", "! "),
    _pattern(" !", r" !$", "!"),
    _literal(" , ", ", "),
    _literal(" : ", ": "),
    _literal(" ; ", "; "),
    _literal(" / ", "/"),
    _pattern('" ', r'" ([^"]+) "', r'"\1"'),
    _pattern("' ", r"' ([^']+) '", r"'\1'"),
    _pattern("( ", r"\( ([^()]+) \)", r"(\1)"),
    _pattern("[ ", r"\[ ([^\[\]]+) \]", r"[\1]"),
    _literal("$ ", "$"),
    _literal("£ ", "£"),
)


def lm1b(text: str) -> str:
    """One LM1B document as it would be written."""
    for needle, change in _LM1B:
        if needle in text:  # most rules concern no given text, and this is the cheap way to know
            text = change(text)
    return text


RULES: dict[str, Callable[[str], str]] = {"lm1b": lm1b}
