"""Which heads carry a model's provenance: found on planted prompts, kept as a small JSON.

For every planted prompt the attention of each head on each passage is set beside what happens
to the answer when the passage is left out. Counted are the rows that predict the answer and, as much
as a few answer tokens, the question's own rows: what the model looked up while it read the question
reaches a short answer by way of the question, not from the passage itself.
Both are centred within the prompt, so a head that likes a position gains nothing by it; the
k heads whose attention correlates best with the effect are kept, each divided by its
standard deviation. The same figures are then taken on prompts that were not used for this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from provenance.errors import ProvenanceError
from provenance.generation.writer import LocalWriter, Written
from provenance.methods.attention import block_scores, last_attention_layer
from provenance.methods.base import Case, Progress, silent
from provenance.methods.leave_one_out import effects
from provenance.methods.likelihood import Likelihood
from provenance.methods.planted import Planted, identical_prompts, planted_prompts
from provenance.methods.readout import Floats, Head, Readout, read_answer
from provenance.methods.thread import build_thread

if TYPE_CHECKING:
    from provenance.generation.models import LanguageModel

SHIPPED = Path(__file__).parent / "calibrated"
HEADS = 4
QUESTION_TOKENS = 8  # the question's rows count as this many answer tokens
FIT_SEED, CHECK_SEED = 1, 2
FIT_PROMPTS, CHECK_PROMPTS, SAME_PROMPTS = 24, 24, 4
POSITION_LIMIT = 5.0  # points of share
_PASSAGES = (4, 7)  # fewest and most in a prompt
_WRITTEN_TOKENS = 24
_CACHE_KEY = "calibration"


@dataclass(frozen=True, slots=True)
class Figures:
    """How the chosen heads do on planted prompts that were not used to choose them.

    `top1` is the share of prompts whose first source is a gold one, for the planted answer;
    `answered_top1` the same for the model's own answers, where they give the planted value and no other passage's.
    `last_layer_…` are the same figures of last-layer attention. `position_spread` is the largest
    less the smallest mean share, in points, that the same text gets at different places.
    """

    prompts: int
    top1: float
    last_layer_top1: float
    answered: int
    answered_top1: float | None
    last_layer_answered_top1: float | None
    correlation: float
    position_spread: float
    chance: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The heads of one model revision and their weights, which sum to 1.

    So a weighted sum of their attention is itself a share of attention, 0..1. The question's rows
    count as `question_tokens` answer tokens.
    """

    model: str
    revision: str
    heads: tuple[Head, ...]
    weights: tuple[float, ...]
    question_tokens: int
    target: str
    fit_prompts: int
    fit_seed: int
    check_seed: int
    figures: Figures

    @property
    def layers(self) -> frozenset[int]:
        """The layers that hold the heads."""
        return frozenset(layer for layer, _ in self.heads)

    @property
    def position_bound(self) -> bool:
        """Whether moving a passage among identical ones changes its share by 5 points or more."""
        return self.figures.position_spread >= POSITION_LIMIT

    @property
    def words(self) -> str:
        """What the check on other planted prompts found, in one sentence."""
        f = self.figures
        return (
            f"Last-layer attention finds a right passage in {f.last_layer_top1:.0%} of planted cases, "
            f"the calibrated heads in {f.top1:.0%} (n = {f.prompts}; by chance {f.chance:.0%})."
        ).replace("%", " %")

    def token_masses(self, readout: Readout) -> Floats:
        """Weighted attention on each source in the rows that predict each answer token: (answer_tokens, N)."""
        return np.asarray(
            np.tensordot(readout.per_token(self.heads, blocks=True), self._weights(), axes=(1, 0)), dtype=np.float32
        )

    def scores(self, readout: Readout, include_query: bool = False) -> npt.NDArray[np.float64]:
        """Weighted attention on each source, over the answer's rows and (as `question_tokens` more) the question's.

        Shape (N,), each 0..1. With `include_query` the question's rows count as much as all of that.
        """
        scores = self._weighted(readout, pooled_masses(readout, self.question_tokens))
        return (scores + self._weighted(readout, readout.question_block_heads)) / 2 if include_query else scores

    def _weighted(self, readout: Readout, masses: Floats) -> npt.NDArray[np.float64]:
        index = {layer: i for i, layer in enumerate(readout.layers)}
        chosen = np.stack([masses[index[layer], head] for layer, head in self.heads])
        return np.asarray(self._weights() @ chosen, dtype=np.float64)

    def _weights(self) -> npt.NDArray[np.float64]:
        return np.asarray(self.weights, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One planted prompt as measured: `masses` (layers, heads, N), `effects` (N,) in nats per answer token."""

    planted: Planted
    readout: Readout
    effects: npt.NDArray[np.float64]

    @property
    def masses(self) -> Floats:
        """Attention on each block, as the scores count it."""
        return pooled_masses(self.readout, QUESTION_TOKENS)


def pooled_masses(readout: Readout, question_tokens: int) -> Floats:
    """Mean attention on each block over the rows that predict the answer and the question's; (layers, heads, N).

    The question's rows weigh as `question_tokens` rows together, however many they are.
    """
    answer = readout.block_heads
    if not question_tokens or readout.layout.question.start == readout.layout.question.stop:
        return answer
    share = question_tokens / (question_tokens + readout.answer_tokens)
    return np.asarray((1 - share) * answer + share * readout.question_block_heads, dtype=np.float32)


def find_calibration(lm: LanguageModel, home: Path) -> Calibration | None:
    """The shipped calibration of this model revision, else the one made here before, else None.

    Read once and kept with the model. Raises ProvenanceError where a kept file is damaged.
    """
    kept = lm._cache.get(_CACHE_KEY)
    if isinstance(kept, Calibration):
        return kept
    for folder in (SHIPPED, home / "calibration"):
        path = folder / file_name(lm.name, lm.revision)
        if path.is_file():
            found = lm._cache[_CACHE_KEY] = read_calibration(path)
            return found
    return None


def live_layers(lm: LanguageModel, home: Path) -> frozenset[int] | None:
    """The layers whose attention the methods need of an answer being written: the calibrated ones and the last.

    None, which stands for all, for a model that was never calibrated or whose last attention layer is not known.
    """
    try:
        calibration = find_calibration(lm, home)
    except ProvenanceError:  # a damaged file; the method itself says so
        calibration = None
    last = last_attention_layer(lm.model.config.get_text_config())
    return None if calibration is None or last is None else calibration.layers | {last}


def ensure_calibration(lm: LanguageModel, home: Path, progress: Progress = silent) -> Calibration:
    """As `find_calibration`; where there is none it is made now and kept under `home`.

    Raises ProvenanceError where a kept file is damaged or the model's attention cannot be read.
    """
    calibration = find_calibration(lm, home)
    if calibration is None:
        calibration = calibrate(lm, progress=progress)
        write_calibration(calibration, home / "calibration" / file_name(lm.name, lm.revision))
        lm._cache[_CACHE_KEY] = calibration
    return calibration


def file_name(model: str, revision: str) -> str:
    """The name under which a model revision's calibration is kept."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", f"{model}-{revision}").strip("._") + ".json"


def read_calibration(path: Path) -> Calibration:
    """Raises ProvenanceError where the file is not a calibration."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        chosen = data.pop("heads_and_weights")
        return Calibration(
            heads=tuple((int(one["layer"]), int(one["head"])) for one in chosen),
            weights=tuple(float(one["weight"]) for one in chosen),
            figures=Figures(**data.pop("figures")),
            **data,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProvenanceError(f"{path.name} is not a calibration: {error}. Delete it to calibrate again.") from error


def write_calibration(calibration: Calibration, path: Path) -> None:
    """Write the JSON whole or not at all."""
    data: dict[str, Any] = asdict(calibration)
    heads, weights = data.pop("heads"), data.pop("weights")
    data["heads_and_weights"] = [
        {"layer": layer, "head": head, "weight": round(weight, 6)}
        for (layer, head), weight in zip(heads, weights, strict=True)
    ]
    data["figures"] = {k: round(v, 4) if isinstance(v, float) else v for k, v in data["figures"].items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".part")
    scratch.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    scratch.replace(path)


def calibrate(
    lm: LanguageModel,
    *,
    fit_prompts: int = FIT_PROMPTS,
    check_prompts: int = CHECK_PROMPTS,
    same_prompts: int = SAME_PROMPTS,
    heads: int = HEADS,
    progress: Progress = silent,
) -> Calibration:
    """Choose a model's heads on planted prompts and judge them on others. About a minute for a small model.

    Raises Unavailable where the model's attention cannot be read.
    """
    total = fit_prompts + check_prompts + same_prompts
    done = 0

    def step(message: str) -> None:
        nonlocal done
        done += 1
        progress(done / total, message)

    samples = []
    for planted in planted_prompts(fit_prompts, FIT_SEED, *_PASSAGES):
        samples.append(measure(lm, planted))
        step(f"Measured {done + 1} of {fit_prompts} planted prompts")
    chosen, weights = fit(samples, heads)
    draft = Calibration(
        model=lm.name,
        revision=lm.revision,
        heads=chosen,
        weights=weights,
        question_tokens=QUESTION_TOKENS,
        target="leave-one-out, exact" if lm.hybrid else "leave-one-out, fast",
        fit_prompts=fit_prompts,
        fit_seed=FIT_SEED,
        check_seed=CHECK_SEED,
        figures=Figures(0, 0.0, 0.0, 0, None, None, 0.0, 0.0, 0.0),
    )
    checks, written = [], []
    for planted in planted_prompts(check_prompts, CHECK_SEED, *_PASSAGES):
        own = _own_answer(lm, planted)
        written.append((own.answer.text, own.readout))
        checks.append(measure(lm, planted, own.cache))
        step("Checking the heads on other prompts")
    same = []
    for planted in identical_prompts(same_prompts, CHECK_SEED):
        same.append(read_planted(lm, planted))
        step("Checking the heads on identical passages")
    return judge(draft, checks, written, same)


def read_planted(lm: LanguageModel, planted: Planted) -> Readout:
    """One teacher-forced pass over a planted prompt and its planted answer."""
    thread = build_thread(_case(planted), lm)
    return read_answer(lm, thread.prompt, thread.answer_ids)


def measure(lm: LanguageModel, planted: Planted, cache: Any | None = None) -> Sample:
    """The attention on each passage and the effect of leaving it out.

    `cache` may be the key-value cache of the same prompt with another answer.
    """
    thread = build_thread(_case(planted), lm)
    likelihood = Likelihood(lm, thread.prompt, thread.answer_ids, cache)
    readout = read_answer(lm, thread.prompt, thread.answer_ids) if lm.hybrid else likelihood.read()
    effect = effects(likelihood, "exact" if lm.hybrid else "fast").mean(axis=1)
    return Sample(planted, readout, effect)


def fit(samples: Sequence[Sample], heads: int = HEADS) -> tuple[tuple[Head, ...], tuple[float, ...]]:
    """The heads that follow the effects best, best first, and their weights: 1 ÷ standard deviation, summing to 1."""
    masses = np.concatenate([s.masses - s.masses.mean(axis=-1, keepdims=True) for s in samples], axis=-1)
    effect = np.concatenate([_unit(s.effects - s.effects.mean()) for s in samples])
    size = np.sqrt((masses.astype(np.float64) ** 2).sum(axis=-1))
    # A head that never looks at a passage has no correlation; it must not win by rounding.
    useful = size > 1e-6 * max(float(size.max()), 1e-12)
    correlation = np.where(useful, masses @ effect / np.maximum(size, 1e-12) / np.linalg.norm(effect), -1.0)
    order = np.argsort(-correlation, axis=None, kind="stable")[:heads]
    layers = samples[0].readout.layers
    places = [tuple(int(i) for i in np.unravel_index(o, correlation.shape)) for o in order]
    inverse = np.array([np.sqrt(masses.shape[-1]) / max(size[place], 1e-12) for place in places])
    weights = inverse / inverse.sum()
    return tuple((layers[place[0]], place[1]) for place in places), tuple(float(w) for w in weights)


def _unit(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Of length 1, so that a prompt whose answer is unlikely does not outweigh all others."""
    size = float(np.linalg.norm(values))
    return values / size if size > 0 else values


def judge(
    draft: Calibration,
    samples: Sequence[Sample],
    written: Sequence[tuple[str, Readout | None]],
    same: Sequence[Readout],
) -> Calibration:
    """The calibration with its figures on samples that had no part in choosing its heads."""
    firsts, lasts, own, own_last, correlations = [], [], [], [], []
    for sample, (text, live) in zip(samples, written, strict=True):
        scores = draft.scores(sample.readout)
        firsts.append(_hit(scores, sample.planted))
        lasts.append(_hit(block_scores(sample.readout, False) or (), sample.planted))
        if np.ptp(scores) > 0 and np.ptp(sample.effects) > 0:
            correlations.append(float(np.corrcoef(scores, sample.effects)[0, 1]))
        if live is not None and sample.planted.answered_by(text):
            own.append(_hit(draft.scores(live), sample.planted))
            own_last.append(_hit(block_scores(live, False) or (), sample.planted))
    figures = Figures(
        prompts=len(samples),
        top1=_mean(firsts) or 0.0,
        last_layer_top1=_mean(lasts) or 0.0,
        answered=len(own),
        answered_top1=_mean(own),
        last_layer_answered_top1=_mean(own_last),
        correlation=_mean(correlations) or 0.0,
        position_spread=position_spread([draft.scores(readout) for readout in same]),
        chance=_mean([len(s.planted.gold) / len(s.planted.passages) for s in samples]) or 0.0,
    )
    return Calibration(**{**{k: getattr(draft, k) for k in draft.__slots__}, "figures": figures})


def position_spread(scores: Sequence[npt.NDArray[np.float64]]) -> float:
    """Largest less smallest mean share over the places, in points, for passages of one text."""
    shares = [100 * s / s.sum() for s in scores if s.sum() > 0]
    return float(np.ptp(np.mean(shares, axis=0))) if shares else 0.0


def _own_answer(lm: LanguageModel, planted: Planted) -> Written:
    """What the model itself answers, with the attention read while it wrote."""
    thread = build_thread(_case(planted), lm)
    stream = LocalWriter(lm).stream(thread.prompt, max_new_tokens=_WRITTEN_TOKENS)
    while True:
        try:
            next(stream)
        except StopIteration as end:
            written: Written = end.value
            return written


def _case(planted: Planted) -> Case:
    return Case(planted.question, planted.answer, planted.passages, planted.titles)


def _hit(scores: Sequence[float] | npt.NDArray[np.float64], planted: Planted) -> float:
    return float(len(scores) > 0 and int(np.argmax(scores)) in planted.gold)


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None
