"""From a question and its passages to one rendered, tokenized prompt with exact spans.

The chat template is rendered once and tokenized once. The place of every passage
and of the question is known in characters while the text is put together, and is
mapped to tokens by the tokenizer's offsets; nothing is ever searched for by token ids.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from provenance.errors import SpanNotFound, Unavailable
from provenance.generation.models import DEFAULT_NAME, LanguageModel
from provenance.records import Passage, Prompt, Source, Span

_BRACKETED = re.compile(r"\[(?=[\s\d,;\-–—]*\d[\s\d,;\-–—]*\])([^\]]*)\]|【([\s\d,;\-–—]*)】")


@dataclass(frozen=True, slots=True)
class Wording:
    """The words around the passages. `after` holds `{question}`; `system` None leaves the template's own.

    `header` stands above each passage and may hold `{n}` and `{title}`.
    """

    system: str | None
    before: str
    after: str
    header: str = "[{n}] {title}\n"


@dataclass(frozen=True, slots=True)
class Exchange:
    """An earlier question and its answer, shown to the model before a follow-up."""

    question: str
    answer: str


NUMBERED = Wording(
    system=None,
    before="",
    after="Question: {question}\nAnswer in one or two short sentences, using only the passages above. "
    "After each sentence cite the passages it uses by their numbers, like [1].",
)
"""For models that can cite."""

UNNUMBERED = Wording(
    system=None,
    before="",
    after="Question: {question}\nAnswer in one short sentence, using only the passages above.",
    header="{title}\n",
)
"""For the packaged writer: asked for numbers it picks them by chance, and numbers above the passages
end up in its answers ("The answer is: 2"). `benchmarks/prompt.py` compares the wordings."""


def wording_for(lm: LanguageModel) -> Wording:
    """The wording that works best for a model."""
    return UNNUMBERED if lm.name == DEFAULT_NAME else NUMBERED


def neutralise(text: str, special_tokens: Sequence[str] = ()) -> str:
    """Untrusted text made safe to stand in a prompt, of the same length.

    Bracketed numbers become parenthesised (`[1]` → `(1)`), so that a footnote mark in a
    document is never read as a source number; a chat control token spelled out in a
    document loses its first character. Offsets into the result are offsets into `text`.
    """
    text = _BRACKETED.sub(lambda m: f"({m.group(1) if m.group(1) is not None else m.group(2)})", text)
    for token in special_tokens:
        text = text.replace(token, "‹" + token[1:])
    return text


def pasted_passages(documents: Sequence[tuple[str | None, str]]) -> tuple[Passage, ...]:
    """Passages for (title, text) pairs that come from outside the store."""
    made = []
    for index, (title, text) in enumerate(documents, start=1):
        digest = hashlib.sha256(f"{title}\0{text}".encode("utf-8", "replace")).hexdigest()
        made.append(Passage(f"{digest[:16]}:{index}:0", digest, title or f"Passage {index}", 1, 0, len(text), text))
    return tuple(made)


def build_prompt(
    lm: LanguageModel,
    question: str,
    passages: Sequence[Passage],
    *,
    numbers: Sequence[int] | None = None,
    history: Sequence[Exchange] = (),
    wording: Wording | None = None,
) -> Prompt:
    """Render and tokenize the prompt that asks `question` over `passages`.

    `numbers` are the source numbers shown (default 1, 2, …); leave-one-out keeps the
    numbers of the others. `wording` is by default the model's own. Raises SpanNotFound where
    the chat template changed the text so that a passage or the question is no longer there whole.
    """
    wording = wording or wording_for(lm)
    special = _special_tokens(lm.tokenizer)
    shown = tuple(numbers) if numbers is not None else tuple(range(1, len(passages) + 1))
    sources = tuple(
        Source(n, passage, neutralise(passage.text, special)) for n, passage in zip(shown, passages, strict=True)
    )
    content, blocks, texts, asked = _content(question, sources, wording, special)
    rendered = _render(lm.tokenizer, content, history, wording.system, special)
    base, content_start = _locate(rendered, content)
    ids, offsets = _tokenize(lm.tokenizer, rendered)
    shift = base - content_start

    def tokens(span: Span, floor: int = 0) -> Span:
        return _token_span(offsets, span.start + shift, span.stop + shift, floor)

    block_tokens: list[Span] = []
    for block in blocks:
        block_tokens.append(tokens(block, block_tokens[-1].stop if block_tokens else 0))
    return Prompt(
        text=rendered,
        token_ids=ids,
        sources=sources,
        passage_tokens=tuple(tokens(span) for span in texts),
        block_tokens=tuple(block_tokens),
        question=question,
        question_tokens=tokens(asked),
        system=wording.system,
        instruction=_instruction(wording),
    )


def plain_prompt(
    question: str,
    passages: Sequence[Passage],
    *,
    history: Sequence[Exchange] = (),
    wording: Wording = NUMBERED,
) -> Prompt:
    """The same message for a writer that tokenizes by itself: no token ids and no token spans."""
    sources = tuple(Source(n, passage, neutralise(passage.text)) for n, passage in enumerate(passages, start=1))
    content = _content(question, sources, wording, ())[0]
    earlier = "".join(f"Question: {e.question}\nAnswer: {e.answer}\n\n" for e in history)
    lead = f"{wording.system}\n\n" if wording.system else ""
    return Prompt(
        text=lead + earlier + content,
        token_ids=(),
        sources=sources,
        passage_tokens=(),
        block_tokens=(),
        question=question,
        question_tokens=Span(0, 0),
        system=wording.system,
        instruction=_instruction(wording),
    )


def _instruction(wording: Wording) -> str:
    return f"{wording.before}\n{wording.after}".strip()


def _content(
    question: str, sources: Sequence[Source], wording: Wording, special: Sequence[str]
) -> tuple[str, list[Span], list[Span], Span]:
    """The user message, with the spans of each block, each passage text and the question in it."""
    text = wording.before
    blocks: list[Span] = []
    texts: list[Span] = []
    for source in sources:
        start = len(text)
        title = neutralise(source.passage.title, special)
        text += wording.header.replace("{n}", str(source.n)).replace("{title}", title)
        texts.append(Span(len(text), len(text) + len(source.text)))
        text += f"{source.text}\n\n"
        blocks.append(Span(start, len(text)))
    lead, tail = wording.after.split("{question}")
    safe = neutralise(question, special)
    asked = Span(len(text) + len(lead), len(text) + len(lead) + len(safe))
    return text + lead + safe + tail, blocks, texts, asked


def _render(
    tokenizer: Any, content: str, history: Sequence[Exchange], system: str | None, special: Sequence[str]
) -> str:
    messages = [{"role": "system", "content": system}] if system else []
    for exchange in history:
        messages.append({"role": "user", "content": neutralise(exchange.question, special)})
        messages.append({"role": "assistant", "content": neutralise(exchange.answer, special)})
    messages.append({"role": "user", "content": content})
    if getattr(tokenizer, "chat_template", None):
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    return (tokenizer.bos_token or "") + "\n\n".join(m["content"] for m in messages) + "\nAnswer:"


def _locate(rendered: str, content: str) -> tuple[int, int]:
    """Where the message stands in the rendered text, and how many of its leading characters were trimmed."""
    for text in (content, content.rstrip(), content.strip()):
        place = rendered.rfind(text)
        if place >= 0 and text:
            return place, content.index(text)
    raise SpanNotFound(
        "The chat template of this model changes the text of its messages, so the passages cannot be located in it."
    )


def _tokenize(tokenizer: Any, text: str) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
    if not getattr(tokenizer, "is_fast", False):
        raise Unavailable("This model's tokenizer gives no character offsets, so spans cannot be located.")
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    return tuple(encoded["input_ids"]), [(int(s), int(e)) for s, e in encoded["offset_mapping"]]


def _token_span(offsets: Sequence[tuple[int, int]], start: int, stop: int, floor: int = 0) -> Span:
    """The tokens that overlap `[start, stop)`, none before `floor`. An empty stretch gives an empty span."""
    inside = [i for i, (s, e) in enumerate(offsets) if i >= floor and s < e and s < stop and e > start]
    if not inside:
        return Span(floor, floor)
    return Span(inside[0], inside[-1] + 1)


def _special_tokens(tokenizer: Any) -> tuple[str, ...]:
    added = getattr(tokenizer, "added_tokens_decoder", {}) or {}
    words = {str(token) for token in added.values()} | {str(token) for token in tokenizer.all_special_tokens}
    return tuple(sorted((word for word in words if len(word) > 1 and not word.isspace()), key=len, reverse=True))
