from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provenance.errors import ProvenanceError
from provenance.evaluation.dataset import cut, read_item, read_items

SHARED = Path(__file__).parents[2] / "../shared/data/attribution"
ITEM: dict[str, Any] = {
    "id": "q1",
    "question": "Who owns the mill?",
    "answer": "Ines Brandt owns the mill.",
    "documents": [{"title": t, "text": f"About the {t}."} for t in ("bridge", "mill", "lake", "tower", "inn")],
    "supporting": [3, 1],
}


def test_an_item_keeps_its_passages_in_order_and_its_supporting_places_sorted() -> None:
    item = read_item(ITEM, "line 1")
    assert item.supporting == (1, 3)
    assert item.case().titles == ("bridge", "mill", "lake", "tower", "inn")
    assert item.case().scratch is not item.case().scratch


def test_an_item_without_an_id_is_called_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text("\n" + json.dumps({k: v for k, v in ITEM.items() if k != "id"}) + "\n")
    assert [item.id for item in read_items(path)] == ["line 2"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"supporting": None}, "Line 1 of .* needs 'supporting'"),
        ({"supporting": [5]}, "names document 5, but there are 5"),
        ({"supporting": [-1]}, "names document -1"),
        ({"supporting": [True]}, "names document True"),
        ({"answer": 3}, "Line 1 of .* needs 'answer'"),
    ],
)
def test_a_faulty_item_is_named_with_file_line_and_fault(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text(json.dumps(ITEM | change))
    with pytest.raises(ProvenanceError, match=message):
        read_items(path)


def test_a_missing_an_empty_and_a_broken_file_are_named_errors(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    with pytest.raises(ProvenanceError, match="cannot be read"):
        read_items(path)
    path.write_text("\n")
    with pytest.raises(ProvenanceError, match="holds no items"):
        read_items(path)
    path.write_text(json.dumps(ITEM) + "\n{")
    with pytest.raises(ProvenanceError, match=r"Line 2 of .* is not JSON"):
        read_items(path)


def test_a_cut_keeps_every_supporting_passage_and_the_order() -> None:
    item = cut(read_item(ITEM, "q1"), 3)
    assert item.case().titles == ("bridge", "mill", "tower")
    assert item.supporting == (1, 2)
    assert cut(item, 1).case().titles == ("mill", "tower")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the measured data sets do not lie beside the repository")
@pytest.mark.parametrize(("name", "items"), [("hotpotqa", 50), ("musique", 50), ("quotesum_padded", 45)])
def test_the_measured_data_sets_are_read_whole(name: str, items: int) -> None:
    read = read_items(SHARED / f"{name}.jsonl")
    assert len(read) == items
    assert all(item.supporting for item in read)
