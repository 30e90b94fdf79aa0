from __future__ import annotations

from pathlib import Path

import pytest

from provenance.errors import SettingsError
from provenance.methods import METHODS
from provenance.settings import METHOD_NAMES, Settings, load_settings


def test_an_empty_environment_gives_the_defaults() -> None:
    assert load_settings({}, None) == Settings()


def test_names_are_matched_without_regard_to_case() -> None:
    found = load_settings({"PROVENANCE_METHOD": "similarity", "Database_Url": "sqlite:///x.db"}, None)
    assert (found.provenance_method, found.url) == ("similarity", "sqlite:///x.db")


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("provenance_method=llm\nrerank=false\n", encoding="utf-8")
    found = load_settings({"provenance_method": "attention"}, file)
    assert (found.provenance_method, found.rerank) == ("attention", False)


@pytest.mark.parametrize("word", ["true", "1", "YES", "on"])
def test_the_alias_sets_include_query(word: str) -> None:
    assert load_settings({"attribute_include_query": word}, None).provenance_include_query


def test_an_alias_that_contradicts_is_an_error_that_names_both() -> None:
    with pytest.raises(SettingsError, match="provenance_include_query and attribute_include_query"):
        load_settings({"provenance_include_query": "true", "attribute_include_query": "false"}, None)


def test_an_alias_that_agrees_in_other_words_is_none() -> None:
    both = {"provenance_include_query": "yes", "attribute_include_query": "1"}
    assert load_settings(both, None).provenance_include_query


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("provenance_method", "magic"),
        ("provenance_include_query", "maybe"),
        ("rerank", "2"),
        ("provenance_top_k", "five"),
        ("provenance_top_k", "0"),
        ("provenance_candidates", "-1"),
        ("provenance_search", "fast"),
        ("provenance_llm_prompt", "Score it."),
        ("DATABASE_URL", "mysql://x"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_setting(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"(?i){name}"):
        load_settings({name: value}, None)


def test_the_settings_and_the_registry_list_the_same_methods() -> None:
    assert tuple(METHODS) == METHOD_NAMES
