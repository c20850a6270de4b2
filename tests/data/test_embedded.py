"""The embedded corpora and tokenizers: pinned bytes, and text a model can learn from."""

import json
import math
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from harness.data import corpus, embedded, pins, tokenizer
from harness.data.places import Places
from harness.errors import HarnessError
from harness.project import Project

KNOWN = pins.load(Path(__file__).parents[2])


@pytest.fixture(scope="module", params=["sentences", "stories"])
def texts(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"train": [], "validation": []}
    for split, text in corpus.documents(request.param, 7, 3000):
        found[split].append(text)
    return found


def words(texts: list[str]) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", " ".join(texts).lower())


def test_no_document_is_in_both_splits(texts: dict[str, list[str]]) -> None:
    assert not set(texts["train"]) & set(texts["validation"])
    assert 0.04 < len(texts["validation"]) / 3000 < 0.13


def test_text_is_varied(texts: dict[str, list[str]]) -> None:
    assert len(set(texts["train"])) > 0.9 * len(texts["train"])
    assert len(set(words(texts["train"]))) > 300


def test_context_tells_much_of_the_next_word(texts: dict[str, list[str]]) -> None:
    """A bigram model, counted on training text, beats unigrams on validation by far."""
    train, held_out = words(texts["train"]), words(texts["validation"])
    single, pairs = Counter(train), Counter(pairwise(train))
    total, kinds = len(train), len(single)
    plain = [math.log((single[word] + 1) / (total + kinds)) for word in held_out[1:]]
    context = [
        math.log((pairs[a, b] + 0.1) / (single[a] + 0.1 * kinds)) for a, b in pairwise(held_out)
    ]
    unigram = math.exp(-sum(plain) / len(plain))
    bigram = math.exp(-sum(context) / len(context))
    assert bigram < unigram / 4


def test_subject_and_verb_agree_across_an_interruption() -> None:
    """Present-tense 'who' clauses: the verb after the second comma fits the head noun."""
    topics = json.loads((Path(corpus.__file__).parent / "lexicon.json").read_text())
    singular = {forms[1] for t in topics["topics"].values() for forms in t["verbs"]}
    plural = {forms[0] for t in topics["topics"].values() for forms in t["verbs"]}
    past = {forms[2] for t in topics["topics"].values() for forms in t["verbs"]}
    seen = 0
    for _, text in corpus.documents("sentences", 3, 4000):
        match = re.match(r"(A|An|Every|Some|Many) (?:\w+ )?\w+ , who (\w+) ", text)
        if match and match[2] in (singular ^ plural) - past:
            seen += 1
            assert (match[2] in plural) == (match[1] in ("Some", "Many")), text
    assert seen > 50


def test_a_story_ends_where_it_began() -> None:
    for _, text in corpus.documents("stories", 5, 100):
        first, last = text.split("\n\n")[0], text.split("\n\n")[-1]
        place = re.search(r"of the (\w+)\.", first)
        assert place and f"the {place[1]} with the" in last


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    one, again, other = (corpus.generate("sentences", seed, 50) for seed in (1, 1, 2))
    assert one == again != other


@pytest.mark.parametrize("key", ["smoke-lm1b", "smoke-owt"])
def test_everything_embedded_is_as_pinned(tmp_path: Path, key: str) -> None:
    places, dataset = Places(tmp_path), KNOWN.dataset(key)
    model = KNOWN.model(dataset.tokenizer)
    raw = embedded.write_corpus(places, dataset)
    folder = embedded.write_tokenizer(places, model, raw)
    assert {path.name for path in folder.iterdir()} == set(model.files)
    for split in dataset.splits:
        lines = (raw / split.files[0]).read_bytes().count(b"\n")
        assert lines == split.documents
    loaded = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert model.ids is not None
    assert loaded.get_vocab_size() == model.ids.vocabulary
    text = json.loads((raw / "train.jsonl").open().readline())["text"]
    ids = loaded.encode(text, add_special_tokens=False).ids
    assert max(ids) < model.ids.vocabulary
    assert 100 not in ids or key == "smoke-owt"
    assert (folder.parents[1] / "refs" / "main").read_text() == model.revision


@pytest.mark.parametrize("harm", ["spoil", "remove"])
def test_a_spoilt_file_is_made_anew(tmp_path: Path, harm: str) -> None:
    places, dataset = Places(tmp_path), KNOWN.dataset("smoke-owt")
    path = embedded.write_corpus(places, dataset) / "train.jsonl"
    good = path.read_bytes()
    path.write_bytes(good[1:]) if harm == "spoil" else path.unlink()
    embedded.write_corpus(places, dataset)
    assert path.read_bytes() == good


def test_other_bytes_than_pinned_are_refused_and_not_written(tmp_path: Path) -> None:
    dataset = KNOWN.dataset("smoke-lm1b")
    assert dataset.generator is not None
    other = replace(dataset, generator=replace(dataset.generator, documents=10))
    with pytest.raises(HarnessError, match="pinned is"):
        embedded.write_corpus(Places(tmp_path), other)
    newer = replace(dataset, generator=replace(dataset.generator, version=99))
    with pytest.raises(HarnessError, match="another generator version"):
        embedded.write_corpus(Places(tmp_path), newer)
    assert list(tmp_path.iterdir()) == []


def test_berts_special_tokens_have_berts_ids(smoke: Project) -> None:
    folder = next((smoke.data / "raw/huggingface/hub/models--smoke-bert/snapshots").iterdir())
    vocabulary = (folder / "vocab.txt").read_text().splitlines()
    for token, number in {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102}.items():
        assert vocabulary[number] == token
    assert vocabulary[103] == "[MASK]"
    assert len(set(vocabulary)) == len(vocabulary)


def test_gpt2_like_bytes_round_trip(tmp_path: Path) -> None:
    files = tokenizer.build("byte-pair", ["the word of the day"])
    (tmp_path / "tokenizer.json").write_bytes(files["tokenizer.json"])
    loaded = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = "Ünïcode, tabs\tand\n\nlines 😀"
    assert loaded.decode(loaded.encode(text, add_special_tokens=False).ids) == text
    assert loaded.token_to_id("<|endoftext|>") == loaded.get_vocab_size() - 1
