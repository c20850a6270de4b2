"""Undoing LM1B's spacing around punctuation, rule for rule as the MDLM code base does.

Facts: the rules and their order are those of `lm1b_detokenizer` in kuleshov-group/mdlm at the
pinned commit; the packed ids differ where a rule or its place differs.
"""

import re
from collections.abc import Callable

_Rule = Callable[[str], str]


def _literal(old: str, new: str) -> _Rule:
    return lambda text: text.replace(old, new)


def _pattern(pattern: str, new: str) -> _Rule:
    compiled = re.compile(pattern)
    return lambda text: compiled.sub(new, text)


_LM1B: tuple[_Rule, ...] = (
    _literal("http : / / ", "http://"),
    _literal("https : / / ", "https://"),
    _pattern(r" '(\w+)", r"'\1"),
    _pattern(r" (\w+) \. ", r" \1. "),
    _pattern(r" (\w+) \.$", r" \1."),
    _literal(" ? ", "? "),
    _pattern(r" \?$", "?"),
    _literal(" ! ", "! "),
    _pattern(r" !$", "!"),
    _literal(" , ", ", "),
    _literal(" : ", ": "),
    _literal(" ; ", "; "),
    _literal(" / ", "/"),
    _pattern(r'" ([^"]+) "', r'"\1"'),
    _pattern(r"' ([^']+) '", r"'\1'"),
    _pattern(r"\( ([^()]+) \)", r"(\1)"),
    _pattern(r"\[ ([^\[\]]+) \]", r"[\1]"),
    _literal("$ ", "$"),
    _literal("£ ", "£"),
)


def lm1b(text: str) -> str:
    """One LM1B document as it would be written."""
    for rule in _LM1B:
        text = rule(text)
    return text


RULES: dict[str, Callable[[str], str]] = {"lm1b": lm1b}
