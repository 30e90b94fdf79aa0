"""The stylesheets: `receipt.css` for everything the app draws itself, `chrome.css` for Streamlit's own frame."""

from __future__ import annotations

from pathlib import Path

from components.palette import css_variables

_HERE = Path(__file__).parent

RECEIPT = f".rc{{{css_variables()}}}\n" + (_HERE / "receipt.css").read_text(encoding="utf-8")
"""Rules under `.rc`. They read their colours from the theme's `color-scheme`, so a theme switch needs no rerun."""

CHROME = (_HERE / "chrome.css").read_text(encoding="utf-8")
