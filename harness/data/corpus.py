"""The embedded corpora: English-like text from a seeded grammar, the same bytes everywhere.

A model has something to learn at every distance: agreement across an interrupting phrase, words
that belong to one topic, pronouns that fit a name given long before, days that follow each
other, an ending that returns to the first paragraph. Only `random.Random.random()` is drawn
from: Python promises its sequence for a seed across versions.
"""

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any

VERSION = 1
_HELD_OUT = 12  # one document in so many is validation


@dataclass(frozen=True)
class Noun:
    """A noun phrase's words and whether its verb is plural."""

    words: tuple[str, ...]
    plural: bool


@cache
def _lexicon() -> dict[str, Any]:
    text = (files("harness.data") / "lexicon.json").read_text(encoding="utf-8")
    words: dict[str, Any] = json.loads(text)
    return words


class Writer:
    """Writes sentences about one topic; every choice comes from `random`."""

    def __init__(self, random: Random) -> None:
        """Choose a topic and a tense."""
        self.random = random
        self.words = _lexicon()
        self.topic = self.words["topics"][self.pick(sorted(self.words["topics"]))]
        self.past = self.chance(0.5)

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self.random.random() < probability

    def pick(self, items: Any) -> Any:
        """One of `items`, earlier ones likelier (squared uniform), as words are in a language."""
        return items[int(self.random.random() ** 2 * len(items))]

    def plural(self, word: str) -> str:
        """The plural of a noun of the lexicon."""
        return str(self.words["plurals"].get(word, word + "s"))

    def phrase(self, kind: str, *, modified: bool = True) -> Noun:
        """A noun phrase of the topic; its number is its head's, whatever stands between."""
        head, plural = self.pick(self.topic[kind]), self.chance(0.4)
        quality = self.pick(self.words["qualities"] + self.topic["qualities"])
        inner = (quality,) if self.chance(0.4) else ()
        if plural:
            start = (self.pick(("the", "some", "many", self.pick(self.words["numbers"]))),)
            words = (*start, *inner, self.plural(head))
        else:
            article = self.pick(("the", "a", "every"))
            first = inner[0] if inner else head
            article = "an" if article == "a" and first[0] in "aeiou" else article
            words = (article, *inner, head)
        if modified and self.chance(0.2):
            near = self.phrase("things", modified=False)
            words = (*words, self.pick(self.words["relations"]), *near.words)
        return Noun(words, plural)

    def verb(self, forms: list[str], subject: Noun) -> str:
        """The form of a verb that agrees with its subject in the writer's tense."""
        return forms[2] if self.past else forms[0 if subject.plural else 1]

    def action(self, subject: Noun, thing: Noun | None = None) -> tuple[str, ...]:
        """A verb phrase with its object, perhaps a place and a manner."""
        forms = self.pick(self.topic["verbs"] + self.words["seeing"])
        thing = thing or self.phrase("things")
        words = (self.verb(forms, subject), *thing.words)
        if self.chance(0.3):
            words = (*words, "in", "the", self.pick(self.topic["places"]))
        if self.chance(0.2):
            words = (*words, self.pick(self.words["adverbs"]))
        return words

    def name(self) -> tuple[str, str]:
        """A name and its pronoun."""
        pronoun = self.pick(("she", "he"))
        return self.pick(self.words["names"][pronoun]), pronoun

    def sentence(self, subject: Noun | None = None, thing: Noun | None = None) -> tuple[str, ...]:
        """One sentence as words and punctuation marks."""
        given = subject is not None
        subject = subject or self.phrase("people")
        shape = self.random.random()
        if shape < 0.35 or given:
            words = (*subject.words, *self.action(subject, thing), ".")
        elif shape < 0.50:
            forms = self.pick(self.topic["verbs"])
            aside = (
                ",",
                "who",
                self.verb(forms, subject),
                *self.phrase("things").words,
                ",",
            )
            words = (*subject.words, *aside, *self.action(subject), ".")
        elif shape < 0.65:
            other = self.phrase("people")
            link = self.pick(self.words["linkers"])
            words = (*subject.words, *self.action(subject), link, *other.words)
            words = (*words, *self.action(other), ".")
        elif shape < 0.75:
            forms = self.pick(self.words["saying"])
            other = self.phrase("people", modified=False)
            words = (*subject.words, self.verb(forms, subject), "that", *other.words)
            words = (*words, *self.action(other), ".")
        elif shape < 0.85:
            words = self.purchase()
        elif shape < 0.93:
            name, _ = self.name()
            words = (
                '"',
                *subject.words,
                *self.action(subject),
                ",",
                '"',
                "said",
                name,
                ".",
            )
        else:
            forms = self.pick(self.topic["verbs"])
            helper = "did" if self.past else "do" if subject.plural else "does"
            words = (
                helper,
                *subject.words,
                forms[0],
                *self.phrase("things").words,
                "?",
            )
        return words

    def purchase(self) -> tuple[str, ...]:
        """A sentence with a name, a number and a price."""
        name, _ = self.name()
        thing = self.plural(self.pick(self.topic["things"]))
        number = self.pick(self.words["numbers"])
        verb = "bought" if self.past else "buys"
        return (
            name,
            verb,
            number,
            thing,
            "for",
            "$",
            self.pick(self.words["amounts"]),
            ".",
        )


def _capital(words: tuple[str, ...]) -> tuple[str, ...]:
    at = 1 if words[0] == '"' else 0
    return (*words[:at], words[at][0].upper() + words[at][1:], *words[at + 1 :])


def spaced(words: tuple[str, ...]) -> str:
    """A sentence as LM1B writes it: a space around every mark."""
    return " ".join(_capital(words))


def written(words: tuple[str, ...]) -> str:
    """A sentence as people write it."""
    text, quoted = "", False
    for word in _capital(words):
        if word == '"':
            quoted = not quoted
        closing = word in ".,?" or (word == '"' and not quoted)
        opening = text.endswith("$") or (quoted and text.endswith('"'))
        text += word if not text or closing or opening else " " + word
    return text


def _sentence_document(random: Random) -> str:
    return spaced(Writer(random).sentence())


def _story_document(random: Random) -> str:
    """Paragraphs on one topic: a person, a thing and a place given first and taken up last."""
    writer = Writer(random)
    name, pronoun = writer.name()
    person, thing = (
        writer.pick(writer.topic["people"]),
        writer.pick(writer.topic["things"]),
    )
    place = writer.pick(writer.topic["places"])
    quality = writer.pick(writer.topic["qualities"])
    hero, prop = (
        Noun((name,), plural=False),
        Noun(("the", quality, thing), plural=False),
    )
    stand_in = Noun((pronoun,), plural=False)
    be = "was" if writer.past else "is"
    opening = [
        (name, be, "the", person, "of", "the", place, "."),
        writer.sentence(hero, prop),
    ]
    paragraphs = [opening]
    days = writer.words["days"]
    first = int(random.random() * len(days))
    for step in range(2 + int(random.random() * 5)):
        lines = [("on", days[(first + step) % 7], ",", *writer.sentence(stand_in))]
        for _ in range(2 + int(random.random() * 4)):
            about = writer.pick((None, stand_in, hero))
            lines.append(writer.sentence(about, prop if about and writer.chance(0.4) else None))
        paragraphs.append(lines)
    leave = "left" if writer.past else "leaves"
    paragraphs.append(
        [
            (
                "in",
                "the",
                "end",
                ",",
                pronoun,
                leave,
                "the",
                place,
                "with",
                *prop.words,
                ".",
            )
        ]
    )
    return "\n\n".join(" ".join(map(written, lines)) for lines in paragraphs)


def _chat_document(random: Random) -> str:
    """Two people on one topic, a line a turn; who asks is answered, and both say goodbye."""
    writer = Writer(random)
    names = [writer.name()[0], writer.name()[0]]
    me, you = Noun(("I",), plural=True), Noun(("you",), plural=True)
    place = writer.pick(writer.topic["places"])
    turns = [("hello", names[1], ",", *writer.sentence(me))]
    for _ in range(3 + int(random.random() * 6)):
        if writer.chance(0.5):
            thing = writer.phrase("things", modified=False)
            forms = writer.pick(writer.topic["verbs"])
            turns.append(("do", "you", forms[0], *thing.words, "?"))
            turns.append(("yes", ",", "I", forms[0], *thing.words, "in", "the", place, "."))
        else:
            turns.append(writer.sentence(writer.pick((you, me, None))))
    turns.append(("see", "you", "in", "the", place, "."))
    lines = (f"{names[n % 2]}: {written(turn)}" for n, turn in enumerate(turns))
    return "\n".join(lines)


_DOCUMENTS = {
    "sentences": _sentence_document,
    "stories": _story_document,
    "chats": _chat_document,
}
# The domains of a corpus that has several, and the style of each.
_DOMAINS = {"domains": {"old_web": "stories", "chat": "chats"}}


def documents(style: str, seed: int, count: int) -> Iterator[tuple[str, str]]:
    """`count` pairs of split name and text.

    A document's split is decided by its text alone, so that none stands in both splits.
    """
    random = Random(seed)
    write = _DOCUMENTS[style]
    for _ in range(count):
        text = write(random)
        held_out = zlib.crc32(text.encode()) % _HELD_OUT == 0
        yield "validation" if held_out else "train", text


def generate(style: str, seed: int, count: int) -> dict[str, bytes]:
    """Both splits as JSON lines (`{"text": ...}`), ready to be published and pinned.

    A style of several domains has `count` documents, and both splits, of each.
    """
    lines: dict[str, list[str]] = {}
    for number, (domain, one) in enumerate(_DOMAINS.get(style, {"": style}).items()):
        prefix = f"{domain}_" if domain else ""
        lines |= {f"{prefix}{split}": [] for split in ("train", "validation")}
        for split, text in documents(one, seed + number, count):
            lines[prefix + split].append(json.dumps({"text": text}, ensure_ascii=True))
    return {split: ("\n".join(texts) + "\n").encode() for split, texts in lines.items()}
