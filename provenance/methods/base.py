"""What every provenance method is: a name, a kind, a scale, and one way to be called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from provenance.records import Attribution, MethodKind, Prompt

if TYPE_CHECKING:
    from provenance.generation.models import LanguageModel
    from provenance.methods.readout import Readout
    from provenance.retrieval.embedder import Embedder
    from provenance.retrieval.reranker import Reranker

Progress = Callable[[float, str], None]
"""Called with a fraction in 0..1 and a short sentence."""


def silent(fraction: float, message: str) -> None:
    """The progress callback that reports nothing."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How a method's raw score reads. `share` says whether a share among the sources is a fair view of it."""

    unit: str  # "nats per answer token", "cosine", "× the average block", …
    share: bool
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One answer to attribute. `passages` are the texts as sent, in source order.

    `prompt` and `answer_ids` are there when the loaded writer wrote the answer;
    for a pasted answer they are None, and a model-based method builds them with
    `provenance.generation.prompt.build_prompt`. `readout` holds the attention that was
    read while the answer was decoded. `scratch` is shared by the methods of one case (prefix caches).
    """

    question: str
    answer: str
    passages: tuple[str, ...]
    titles: tuple[str, ...]
    prompt: Prompt | None = None
    answer_ids: tuple[int, ...] | None = None
    readout: Readout | None = None
    scratch: dict[str, Any] | None = None


class Resources(Protocol):
    """The loaded parts a method may ask for. Each raises `Unavailable` with a reason where it cannot be had."""

    def language_model(self) -> LanguageModel: ...

    def embedder(self) -> Embedder: ...

    def reranker(self) -> Reranker: ...

    def llm_prompt(self) -> str: ...


class Method(ABC):
    """One way to score how much each source contributed to an answer."""

    name: ClassVar[str]
    label: ClassVar[str]
    kind: ClassVar[MethodKind]
    meaning: ClassVar[str]  # one line for the switcher
    cost: ClassVar[str]  # "no extra pass", "about 1 s", …
    scale: ClassVar[Scale]

    def unavailable(self, resources: Resources) -> str | None:
        """Why the method cannot run here and how to enable it, or None. Must be cheap: no model is loaded."""
        return None

    @abstractmethod
    def score(
        self, case: Case, resources: Resources, *, include_query: bool = False, progress: Progress = silent
    ) -> Attribution:
        """Score every passage of the case, in source order.

        Returns an Attribution with one finite float or None per passage; where a
        score is None, `reason` says why. Never raises for a case that cannot be
        measured: that is a None with a reason.
        """
