"""Text from files nobody trusts, made safe to print."""

import json

LONGEST = 200
LONGEST_LINE = 1000


def printable(text: str) -> str:
    r"""`text` with every character a terminal could act on written as an escape (`\x1b`).

    Covers control and format characters, line ends, and bytes of a file name that are no UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def line(text: str) -> str:
    """One printable line, cut in its middle where it is long: what is wrong stands at its end."""
    if len(text) <= LONGEST_LINE and len(whole := printable(text)) <= LONGEST_LINE:
        return whole
    half = LONGEST_LINE // 2
    return f"{printable(text[:half])[: half - 3]}...{printable(text[-half:])[-half:]}"


def lines(text: str) -> str:
    """`text` made printable, its line ends and tabs kept."""
    return "".join(c if c in "\n\t" else printable(c) for c in text)


def short(value: object, longest: int = LONGEST) -> str:
    """One printable line for a JSON value, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    text = printable(text[: longest + 1])
    return text if len(text) <= longest else text[: longest - 3] + "..."
