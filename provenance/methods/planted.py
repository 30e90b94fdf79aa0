"""Prompts with a planted fact: the program knows which passage holds the answer.

Every passage describes one invented thing by several invented facts; the question asks
for one of them. The other passages describe other things, often of the same kind with a
fact of the same sort, so that finding the passage takes more than matching a word. The place
of the passage that holds the answer goes round all places evenly.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

Shape = Literal["short", "sentence", "long", "two sources", "two hops"]
SHAPES: tuple[Shape, ...] = ("short", "sentence", "short", "long", "sentence", "two sources", "short", "two hops")
"""The mix of answers, in the order they are dealt."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A made-up prompt. `gold` are the places of the passages the answer rests on, the one with `value` first.

    `others` are the values that only the other passages hold.
    """

    question: str
    answer: str
    value: str
    titles: tuple[str, ...]
    passages: tuple[str, ...]
    gold: tuple[int, ...]
    others: tuple[str, ...]
    shape: Shape

    def answered_by(self, text: str) -> bool:
        """Whether a text gives the planted value and no value of another passage, as whole words in any case.

        A text that lists what every passage says has not answered, even where the right value is among it.
        """
        return _says(text, self.value) and not any(_says(text, other) for other in self.others)


def _says(text: str, value: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE) is not None


@dataclass(frozen=True, slots=True)
class _Fact:
    """One kind of fact: `tells` is for the passage, `replies` for an answer; `{x}` is the thing, `{v}` the value."""

    asks: str
    tells: str
    replies: str
    make: Callable[[random.Random], str]


@dataclass(frozen=True, slots=True)
class _Thing:
    name: str
    kind: str
    values: tuple[str, ...]  # one per fact of the kind


def _words(text: str) -> list[str]:
    return text.split()


_ONSETS = _words("b br c d dr f fl g gr h k l m n p pr r s st t tr v w z")
_VOWELS = _words("a e i o u ai ea or en al")
_CODAS = _words("n r l s th ck m nd x t")
_GIVEN = _words(
    "Marta Jonas Ines Tobias Leila Viktor Hanna Paulo Greta Samir Nadia Oskar Clara Emeka Yuki Dario Freya Anton "
    "Selma Rafael Edith Bruno Amira Kasper Lotte Hugo Mina Felix Zara Ivo"
)
_COLOURS = _words("red green blue yellow white black grey orange violet brown silver copper")
_GOODS = _words(
    "honey glass salt rope paper tea ceramics bicycles candles bells violins wool cider lamps bricks maps soap clocks"
)
_MONTHS = _words("January February March April May June July August September October November December")
_FILLER = (
    "Visitors are advised to check the notice board before they travel.",
    "The archive keeps several letters on the subject, most of them undated.",
    "A short account was printed in the local newspaper some years later.",
    "Opinions about it differ among those who know the region well.",
    "Little is known about the earliest period.",
    "The weather in the area is mild for most of the year.",
    "Repairs were carried out more than once, usually in the dry season.",
    "Further details can be found in the appendix of the yearly report.",
)


def _word(rng: random.Random) -> str:
    parts = rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS)
    if rng.random() < 0.6:
        parts += rng.choice(_VOWELS) + rng.choice(_CODAS)
    return parts.capitalize()


def _person(rng: random.Random) -> str:
    return f"{rng.choice(_GIVEN)} {_word(rng)}"


def _year(rng: random.Random) -> str:
    return str(rng.randrange(1790, 2024))


def _date(rng: random.Random) -> str:
    return f"{rng.randrange(1, 29)} {rng.choice(_MONTHS)}"


def _number(low: int, high: int, unit: str) -> Callable[[random.Random], str]:
    return lambda rng: f"{rng.randrange(low, high)} {unit}"


def _one_of(words: list[str]) -> Callable[[random.Random], str]:
    return lambda rng: rng.choice(words)


_FACTS: dict[str, tuple[_Fact, ...]] = {
    "{w} Bridge": (
        _Fact("In which year was {x} opened?", "It was opened in {v}.", "{x} was opened in {v}.", _year),
        _Fact("Who designed {x}?", "The engineer {v} designed it.", "{x} was designed by {v}.", _person),
        _Fact("How long is {x}?", "From bank to bank it measures {v}.", "{x} is {v} long.", _number(90, 900, "metres")),
        _Fact("What colour is {x} painted?", "Its arches are painted {v}.", "{x} is painted {v}.", _one_of(_COLOURS)),
    ),
    "{w} Institute": (
        _Fact("Who leads {x}?", "Its director is {v}.", "{x} is led by {v}.", _person),
        _Fact("When was {x} founded?", "It was founded in {v}.", "{x} was founded in {v}.", _year),
        _Fact("How many people work at {x}?", "The staff counts {v}.", "{v} work at {x}.", _number(20, 900, "people")),
        _Fact("When is the open day of {x}?", "The open day falls on {v}.", "The open day of {x} is {v}.", _date),
    ),
    "{w} Trading": (
        _Fact("What does {x} make?", "The company is known for its {v}.", "{x} makes {v}.", _one_of(_GOODS)),
        _Fact("Who owns {x}?", "The present owner is {v}.", "{x} belongs to {v}.", _person),
        _Fact("Where does {x} have its office?", "Its office is in {v}.", "The office of {x} is in {v}.", _word),
        _Fact(
            "How much did {x} earn last year?", "Last year it earned {v}.", "{x} earned {v}.", _number(2, 99, "million")
        ),
    ),
    "Lake {w}": (
        _Fact(
            "How deep is {x}?", "At its deepest point it reaches {v}.", "{x} is {v} deep.", _number(9, 400, "metres")
        ),
        _Fact("Who first mapped {x}?", "It was first mapped by {v}.", "{v} first mapped {x}.", _person),
        _Fact("Which river feeds {x}?", "It is fed by the river {v}.", "The river {v} feeds {x}.", _word),
        _Fact("In which year was {x} declared a reserve?", "It became a reserve in {v}.", "It was in {v}.", _year),
    ),
    "the {w} Rule": (
        _Fact("Who wrote {x}?", "The text was drafted by {v}.", "{v} wrote {x}.", _person),
        _Fact("From which day does {x} apply?", "It applies from {v}.", "{x} applies from {v}.", _date),
        _Fact("How high is the fine under {x}?", "A breach costs {v}.", "The fine is {v}.", _number(50, 990, "euros")),
        _Fact("Which office enforces {x}?", "The {v} office enforces it.", "The {v} office enforces {x}.", _word),
    ),
}
_TOWN = "{w}"
_TOWN_FACTS = (
    _Fact("Who is the mayor of {x}?", "The mayor is {v}.", "The mayor of {x} is {v}.", _person),
    _Fact("When was {x} founded?", "The town was founded in {v}.", "{x} was founded in {v}.", _year),
    _Fact("What is {x} known for?", "People come here for its {v}.", "{x} is known for its {v}.", _one_of(_GOODS)),
    _Fact("How many people live in {x}?", "It has {v}.", "{x} has {v}.", _number(900, 9000, "inhabitants")),
)


def planted_prompts(count: int, seed: int = 0, low: int = 5, high: int = 10) -> list[Planted]:
    """`count` prompts of `low` to `high` passages. The same seed gives the same prompts."""
    rng = random.Random(seed)
    sizes = range(low, high + 1)
    turns = dict.fromkeys(sizes, 0)
    made = []
    for i in range(count):
        size = sizes[i % len(sizes)]
        made.append(_plant(rng, SHAPES[(i // len(sizes) + i) % len(SHAPES)], size, turns[size] % size))
        turns[size] += 1
    return made


def _plant(rng: random.Random, shape: Shape, size: int, place: int) -> Planted:
    kinds = list(_FACTS)
    kind = rng.choice(kinds)
    town = shape == "two hops"
    same = rng.random() < 0.6  # whether the distractors are of the same kind
    things: list[_Thing] = []
    for i in range(size):
        if i == place and town:
            things.append(_thing(rng, _TOWN, things))
        elif i == place or same:
            things.append(_thing(rng, kind, things))
        else:
            things.append(_thing(rng, rng.choice(kinds), things))
    other = rng.choice([i for i in range(size) if i != place])
    texts = [_describe(rng, thing) for thing in things]
    if town:  # the second passage says in which town its thing is, and the question names only that thing
        texts[other] += f" It can be found in the town of {things[place].name}."
    question, answer, value = _ask(rng, shape, things[place], things[other])
    gold = (place, other) if shape in ("two sources", "two hops") else (place,)
    others = tuple(v for i, t in enumerate(things) if i not in gold for v in t.values)
    named = rng.random() < 0.7
    titles = [_capital(t.name) if named else f"Note {rng.randrange(10, 99)}" for t in things]
    return Planted(question, answer, value, tuple(titles), tuple(texts), gold, others, shape)


def _facts(kind: str) -> tuple[_Fact, ...]:
    return _TOWN_FACTS if kind == _TOWN else _FACTS[kind]


def _thing(rng: random.Random, kind: str, others: list[_Thing]) -> _Thing:
    """A thing whose name and values no other thing of the prompt has."""
    values = {v for t in others for v in t.values}
    taken = values | {t.name for t in others} | {word for t in others for word in t.name.split()}

    def fresh(make: Callable[[random.Random], str]) -> str:
        for _ in range(50):
            word = make(rng)
            if word not in taken and values.isdisjoint(word.split()):
                break
        return word

    name = fresh(lambda r: kind.replace("{w}", _word(r)))
    return _Thing(name, kind, tuple(fresh(fact.make) for fact in _facts(kind)))


def _describe(rng: random.Random, thing: _Thing) -> str:
    sentences = [fact.tells.replace("{v}", value) for fact, value in zip(_facts(thing.kind), thing.values, strict=True)]
    sentences += rng.sample(_FILLER, rng.randrange(0, 4))
    rng.shuffle(sentences)
    lead = rng.choice(("This note concerns {x}.", "{x} is described here.", "What follows is about {x}."))
    return " ".join([_capital(lead.replace("{x}", thing.name)), *sentences])


def _ask(rng: random.Random, shape: Shape, thing: _Thing, other: _Thing) -> tuple[str, str, str]:
    """Question, answer and the planted value."""
    facts = _facts(thing.kind)
    first, second = rng.sample(range(len(facts)), 2)

    def reply(which: _Thing, index: int) -> str:
        fact = _facts(which.kind)[index]
        return _capital(fact.replies.replace("{x}", which.name).replace("{v}", which.values[index]))

    asked = facts[first].asks.replace("{x}", thing.name)
    value = thing.values[first]
    if shape == "short":
        return asked, value, value
    if shape == "sentence":
        return asked, reply(thing, first), value
    if shape == "long":
        return f"What is known about {thing.name}?", f"{reply(thing, first)} {reply(thing, second)}", value
    if shape == "two sources":
        question = f"What is known about {thing.name} and {other.name}?"
        return question, f"{reply(thing, first)} {reply(other, rng.randrange(len(_facts(other.kind))))}", value
    return facts[first].asks.replace("{x}", f"the town where {other.name} can be found"), value, value


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def identical_prompts(count: int, seed: int = 0, size: int = 5) -> list[Planted]:
    """Prompts whose passages all have the same text and title: only the place tells them apart."""
    made = []
    for planted in planted_prompts(count, seed, size, size):
        text, title = planted.passages[planted.gold[0]], planted.titles[planted.gold[0]]
        everywhere = tuple(range(size))
        made.append(replace(planted, passages=(text,) * size, titles=(title,) * size, gold=everywhere, others=()))
    return made
