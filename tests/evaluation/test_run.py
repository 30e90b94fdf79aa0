from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from provenance.errors import ProvenanceError
from provenance.evaluation.dataset import Item, read_item
from provenance.evaluation.run import COST_ITEMS, evaluate, evaluate_file
from provenance.parts import Parts
from provenance.settings import Settings, load_settings

pytestmark = pytest.mark.model

DOCUMENTS = (
    ("Bridge", "The old bridge over the Vell was opened in 1931 and is painted green."),
    ("Mill", "The mill stands by the river. Its owner is Ines Brandt, who bought it in 1974."),
    ("Lake", "Lake Oram is 52 metres deep and frozen from December to March."),
)
ASKED = (
    ("Who owns the mill?", "Ines Brandt owns the mill.", 1),
    ("What colour is the old bridge painted?", "The old bridge over the Vell is painted green.", 0),
    ("How deep is Lake Oram?", "Lake Oram is 52 metres deep.", 2),
    ("When was the old bridge opened?", "The old bridge over the Vell was opened in 1931.", 0),
)


def values() -> list[dict[str, Any]]:
    documents = [{"title": title, "text": text} for title, text in DOCUMENTS]
    return [
        {"question": question, "answer": answer, "documents": documents, "supporting": [place]}
        for question, answer, place in ASKED
    ]


def items() -> list[Item]:
    return [read_item(value, f"line {n}") for n, value in enumerate(values(), start=1)]


@cache
def parts() -> Parts:
    return Parts(load_settings({"provenance_home": str(load_settings().provenance_home)}))


def test_every_method_gets_its_label_figures_with_interval_and_count(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text("\n".join(json.dumps(value) for value in values()))
    found = evaluate_file(path, ["leave-one-out", "similarity"], parts())
    json.dumps(found, allow_nan=False)
    assert (found["file"], found["items"], found["passages"]) == ("items.jsonl", 4, 12)
    assert "removal" not in found
    for name in ("leave-one-out", "similarity"):
        method = found["methods"][name]
        assert method["n"] == 4
        assert method["auc"] == {"value": 1.0, "interval": [1.0, 1.0], "n": 4}
        assert method["top_1"]["value"] == method["mrr"]["value"] == 1.0
        assert method["unscored"] == {"passages": 0, "reasons": {}}
        assert "lds" not in method
    cost = {name: method["cost"] for name, method in found["methods"].items()}
    assert cost["leave-one-out"]["items"] == COST_ITEMS
    assert cost["similarity"]["tokens_per_prefill"] == 0.0
    # The passages are read once, and question and answer once per passage and once for all.
    assert 1.0 < cost["leave-one-out"]["tokens_per_prefill"] < 4.0
    assert found["evidence_citations"]["n"] == 4
    assert found["evidence_citations"]["precision"]["value"] == 1.0
    assert found["evidence_citations"]["recall"]["value"] == 1.0


def test_exact_removal_judges_the_scores_of_every_method() -> None:
    found = evaluate(items(), ["leave-one-out", "similarity"], parts(), limit=1)
    json.dumps(found, allow_nan=False)
    assert found["items"] == 1
    method, removal = found["methods"]["leave-one-out"], found["removal"]
    assert method["leave_one_out_same_winner"]["value"] == 1.0
    assert method["leave_one_out_pearson"]["value"] > 0.8
    assert method["lds"]["value"] > 0.5
    assert removal["best_1_drop"]["value"] == pytest.approx(method["top_1_drop"]["value"], abs=1e-3)
    assert removal["random_1_drop"]["value"] < removal["best_1_drop"]["value"]
    assert removal["random_2_drop"]["value"] <= removal["best_2_drop"]["value"]
    assert method["top_2_drop"]["value"] <= removal["best_2_drop"]["value"] + 1e-4


def test_what_cannot_be_scored_is_counted_with_its_reason() -> None:
    remote = Parts(Settings(provenance_home=parts().settings.provenance_home, provenance_endpoint="http://127.0.0.1:9"))
    found = evaluate(items(), ["attention", "similarity"], remote)
    method = found["methods"]["attention"]
    assert method["n"] == 0
    assert method["auc"] == {"value": None, "interval": None, "n": 0}
    assert method["unscored"]["passages"] == 12
    assert list(method["unscored"]["reasons"].values()) == [12]
    assert method["cost"]["tokens_per_prefill"] is None
    assert found["methods"]["similarity"]["auc"]["value"] == 1.0
    assert "remote endpoint" in found["reason"]
    assert found["model"] is None
    assert found["evidence_citations"]["recall"]["value"] == 1.0


def test_an_unknown_method_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(ProvenanceError, match="'guess' is not a provenance method"):
        evaluate(items(), ["guess"], parts())
