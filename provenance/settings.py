"""Settings from the environment or a `.env` file, checked once at the start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import platformdirs
from dotenv import dotenv_values

from provenance.errors import SettingsError

METHOD_NAMES = (
    "attention",
    "attention-heads",
    "leave-one-out",
    "shapley",
    "rerank",
    "similarity",
    "llm",
)
"""Every provenance method, in the order the switcher lists them."""

DEFAULT_LLM_PROMPT = """Question: {query}
Answer: {answer}
Passage: {context}
How much of the answer comes from the passage? 0 is nothing, 5 is everything.
Reply with one whole number from 0 to 5."""

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}
_SEARCHES = ("exact", "hnsw")


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set from outside. `None` for a model means the packaged default."""

    provenance_method: str = "attention-heads"  # a name of METHOD_NAMES, or "off"
    provenance_include_query: bool = False
    provenance_llm_prompt: str = DEFAULT_LLM_PROMPT
    provenance_similarity_llm: str | None = None  # embedder: hub id or local folder
    provenance_model: str | None = None  # writer: hub id or local folder
    provenance_home: Path = Path(platformdirs.user_data_dir("receipts"))
    provenance_endpoint: str | None = None  # OpenAI-compatible base address; then the writer is remote
    provenance_endpoint_model: str | None = None
    provenance_endpoint_key: str | None = None
    provenance_model_citations: bool = True  # count the source numbers the model wrote
    provenance_evidence_citations: bool = True  # where it wrote none, cite what supports each sentence
    provenance_top_k: int = 5
    provenance_candidates: int = 20
    provenance_max_new_tokens: int = 160
    provenance_context_tokens: int = 3000  # of all passages together, at most
    provenance_search: str = "exact"  # or "hnsw" (Postgres only)
    provenance_ef_search: int = 100
    provenance_contextual: bool = True  # index and rerank a passage below its title and heading
    rerank: bool = True
    rerank_model: str | None = None  # a FlashRank model name; None is the packaged reranker
    database_url: str | None = None  # None is SQLite under provenance_home

    @property
    def url(self) -> str:
        """The SQLAlchemy address of the store."""
        return self.database_url or f"sqlite:///{self.provenance_home / 'receipts.sqlite3'}"


def load_settings(environ: Mapping[str, str] | None = None, env_file: Path | None = Path(".env")) -> Settings:
    """Read the settings; the environment wins over the `.env` file.

    Names are matched without regard to case. Raises SettingsError with a sentence
    that names the setting where a value cannot be used.
    """
    values: dict[str, str] = {}
    if env_file is not None and env_file.is_file():
        values.update({k.lower(): v for k, v in dotenv_values(env_file).items() if v is not None})
    values.update({k.lower(): v for k, v in (os.environ if environ is None else environ).items()})
    _join_alias(values)
    known = {f.name: f for f in fields(Settings)}
    chosen: dict[str, object] = {}
    for name, field in known.items():
        raw = values.get(name, "").strip()
        if raw:
            chosen[name] = _convert(name, str(field.type), raw)
    settings = Settings(**chosen)  # type: ignore[arg-type]
    _check(settings)
    return settings


def _join_alias(values: dict[str, str]) -> None:
    alias, name = values.pop("attribute_include_query", "").strip(), "provenance_include_query"
    if not alias:
        return
    if values.get(name, "").strip() and _boolean(name, values[name]) != _boolean("attribute_include_query", alias):
        raise SettingsError(
            f"{name} and attribute_include_query are the same setting but contradict each other: "
            f"{values[name].strip()!r} against {alias!r}. Set one of them."
        )
    values[name] = alias


def _convert(name: str, kind: str, raw: str) -> object:
    if kind == "bool":
        return _boolean(name, raw)
    if kind == "int":
        try:
            return int(raw)
        except ValueError:
            raise SettingsError(f"{name} must be a whole number, not {raw!r}.") from None
    if kind == "Path":
        return Path(raw).expanduser()
    return raw


def _boolean(name: str, raw: str) -> bool:
    word = raw.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise SettingsError(f"{name} must be true or false, not {raw!r}.")


def _check(settings: Settings) -> None:
    if settings.provenance_method not in (*METHOD_NAMES, "off"):
        raise SettingsError(
            f"provenance_method {settings.provenance_method!r} is not a method; "
            f"choose one of {', '.join(METHOD_NAMES)} or off."
        )
    if settings.provenance_search not in _SEARCHES:
        raise SettingsError(f"provenance_search must be exact or hnsw, not {settings.provenance_search!r}.")
    for name, low, high in (
        ("provenance_top_k", 1, 20),
        ("provenance_candidates", 1, 200),
        ("provenance_max_new_tokens", 1, 4096),
        ("provenance_context_tokens", 100, 1_000_000),
        ("provenance_ef_search", 1, 1000),
    ):
        value = getattr(settings, name)
        if not low <= value <= high:
            raise SettingsError(f"{name} must be between {low} and {high}, not {value}.")
    if settings.provenance_top_k > settings.provenance_candidates:
        raise SettingsError("provenance_top_k cannot be larger than provenance_candidates.")
    if settings.database_url and not settings.database_url.startswith(("sqlite", "postgresql", "postgres:")):
        raise SettingsError("DATABASE_URL must start with postgresql:// or sqlite:///.")
    if "{context}" not in settings.provenance_llm_prompt or "{answer}" not in settings.provenance_llm_prompt:
        raise SettingsError("provenance_llm_prompt must contain {answer} and {context} (and may contain {query}).")
