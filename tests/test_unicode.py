from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from provenance.unicode import well_formed


@given(st.text(st.characters(codec=None)))
def test_every_text_becomes_one_that_utf_8_and_a_database_can_hold(text: str) -> None:
    found = well_formed(text)
    assert len(found) == len(text)
    assert "\0" not in found
    found.encode("utf-8")


@given(st.text())
def test_a_well_formed_text_stays(text: str) -> None:
    assert well_formed(text) == text.replace("\0", "\ufffd")
