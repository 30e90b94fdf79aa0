"""The database: documents, pages, passages, vectors, settings of the corpus, and the rows of the log."""

from provenance.store.lexical import Hit
from provenance.store.migrate import migrate
from provenance.store.store import Counts, EmbedderInUse, Store, open_store

__all__ = ["Counts", "EmbedderInUse", "Hit", "Store", "migrate", "open_store"]
