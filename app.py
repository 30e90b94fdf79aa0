"""Ask: a question, its answer, and which sources the answer really used."""

from __future__ import annotations

import streamlit as st

from components import ask, session
from components.shell import shell

shell("Ask", first=ask.welcome)
body = st.container()
with st.container(key="ask"):  # in the flow of the page: at the foot of the window it would scroll the answer away
    ask.asked()
with body:
    stored = st.query_params.get("turn")
    if stored is not None:
        ask.stored_turn(stored)
    elif "job" in st.session_state:
        ask.work()
    elif (turn := session.current()) is not None:
        ask.result(turn)
    else:
        ask.empty()
