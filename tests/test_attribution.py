from __future__ import annotations

from typing import Any

import pytest

import provenance
from provenance.attribution import attribute, attribute_case, read_case
from provenance.errors import ProvenanceError
from provenance.methods import METHODS
from provenance.parts import Parts

DOCUMENTS = ["Tea in the café costs £2.", ("Notice", "The last evening sailing leaves Port Ellary at 21:40.")]
QUESTION, ANSWER = "When does the last sailing leave?", "It leaves at 21:40."


@pytest.mark.parametrize("name", list(METHODS))
@pytest.mark.parametrize("include_query", [False, True])
def test_every_method_scores_every_document_or_says_why_not(parts: Parts, name: str, include_query: bool) -> None:
    (scored,) = attribute(QUESTION, ANSWER, DOCUMENTS, [name], include_query=include_query, resources=parts)
    assert (scored.method, scored.include_query, len(scored.scores)) == (name, include_query, 2)
    if METHODS[name].unavailable(parts) is None:
        first, second = scored.scores
        assert first is not None
        assert second is not None
        assert name in ("attention", "llm") or second > first
    else:
        assert scored.scores == (None, None)
        assert scored.reason


def test_one_call_computes_several_methods_in_the_order_asked(parts: Parts) -> None:
    scored = attribute(QUESTION, ANSWER, DOCUMENTS, ["leave-one-out", "similarity"], resources=parts)
    assert [item.method for item in scored] == ["leave-one-out", "similarity"]


def test_an_unknown_method_is_an_error_that_lists_the_known_ones(parts: Parts) -> None:
    with pytest.raises(ProvenanceError, match=r"'magic' is not a provenance method.*similarity"):
        attribute(QUESTION, ANSWER, DOCUMENTS, ["magic"], resources=parts)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "JSON object"),
        ({"answer": "a", "documents": []}, "'question'"),
        ({"question": "q", "answer": 3, "documents": []}, "'answer'"),
        ({"question": "q", "answer": "a"}, "'documents'"),
        ({"question": "q", "answer": "a", "documents": ["text"]}, "Document 1"),
        ({"question": "q", "answer": "a", "documents": [{"text": "x"}, {"title": "y"}]}, "Document 2"),
    ],
)
def test_a_malformed_case_is_an_error_that_names_the_fault(value: Any, said: str) -> None:
    with pytest.raises(ProvenanceError, match=said):
        read_case(value)


def test_a_case_may_lack_id_and_titles(parts: Parts) -> None:
    case = read_case({"question": QUESTION, "answer": ANSWER, "documents": [{"text": "Tea."}, {"text": "21:40."}]})
    assert case.id is None
    (scored,) = attribute_case(case, ["similarity"], parts)
    assert all(isinstance(score, float) for score in scored.scores)


def test_the_public_names_can_be_reached_from_the_package() -> None:
    for name in provenance.__all__:
        assert getattr(provenance, name)
    assert provenance.length_shares([9588, 4845, 1741]) == [59.28, 29.96, 10.76]
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = provenance.nothing_of_the_kind
