from __future__ import annotations

import pytest

from provenance.methods.support import support
from provenance.parts import Parts

REPORT = "The ferries carried 214,600 passengers in the year, more than ever before on the three lines."


@pytest.mark.parametrize("meaning", [True, False])
@pytest.mark.parametrize(
    ("sentence", "supported"),
    [
        ("The ferries carried 214,600 passengers in the year.", True),
        ("The ferries carried 6,000 passengers in the year.", False),
        ("The ferries carried more passengers than ever before on the three lines.", True),
        ("The lighthouse was painted red.", False),
    ],
)
def test_the_same_words_with_another_number_are_no_support(
    parts: Parts, sentence: str, supported: bool, meaning: bool
) -> None:
    found = support([sentence], [REPORT, "Tea costs £2."], "How many?", parts.embedder() if meaning else None)
    assert (found.probability[0, 0] >= found.least) == supported
    assert found.probability[0, 1] < found.least
