"""The pages without a browser, over the session's models and a store of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st

from components import session
from provenance.engine import Engine
from provenance.parts import Parts

ROOT = Path(__file__).parents[2]


@pytest.fixture
def engine(own_parts: Parts, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The engine that the pages get: the session's models over a store that only this test uses."""
    st.cache_resource.clear()
    made = Engine(own_parts.settings)
    made.parts = own_parts
    monkeypatch.setattr(session, "engine", lambda: made)
    monkeypatch.chdir(ROOT)
    yield made
    st.cache_resource.clear()
