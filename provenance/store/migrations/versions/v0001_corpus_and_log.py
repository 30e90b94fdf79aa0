"""The corpus, its full-text indexes, and the append-only log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from provenance.store.schema import Embedding

revision = "0001"
down_revision = None

SQLITE = (
    "CREATE VIRTUAL TABLE passages_fts USING fts5(index_text, content='passages', content_rowid='key', "
    "tokenize='porter unicode61')",
    "CREATE VIRTUAL TABLE phrases_fts USING fts5(phrase_text, content='passages', content_rowid='key', "
    "tokenize='unicode61 remove_diacritics 0')",
    """CREATE TRIGGER passages_indexed AFTER INSERT ON passages BEGIN
        INSERT INTO passages_fts(rowid, index_text) VALUES (new.key, new.index_text);
        INSERT INTO phrases_fts(rowid, phrase_text) VALUES (new.key, new.phrase_text);
    END""",
    """CREATE TRIGGER passages_unindexed AFTER DELETE ON passages BEGIN
        INSERT INTO passages_fts(passages_fts, rowid, index_text) VALUES ('delete', old.key, old.index_text);
        INSERT INTO phrases_fts(phrases_fts, rowid, phrase_text) VALUES ('delete', old.key, old.phrase_text);
    END""",
    "CREATE TRIGGER log_no_update BEFORE UPDATE ON log BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END",
    "CREATE TRIGGER log_no_delete BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END",
    # INSERT OR REPLACE would delete a row without firing the trigger above.
    """CREATE TRIGGER log_no_replace BEFORE INSERT ON log
        WHEN EXISTS (SELECT 1 FROM log WHERE seq = new.seq OR previous = new.previous OR hash = new.hash)
        BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END""",
)

POSTGRES = (
    "CREATE TEXT SEARCH DICTIONARY receipts_stem (TEMPLATE = snowball, LANGUAGE = english)",
    "CREATE TEXT SEARCH CONFIGURATION receipts (COPY = simple)",
    "ALTER TEXT SEARCH CONFIGURATION receipts ALTER MAPPING FOR asciiword, word WITH receipts_stem",
    "ALTER TABLE passages ADD COLUMN index_words tsvector "
    "GENERATED ALWAYS AS (to_tsvector('receipts', index_text)) STORED",
    "ALTER TABLE passages ADD COLUMN phrase_words tsvector "
    "GENERATED ALWAYS AS (to_tsvector('simple', phrase_text)) STORED",
    "CREATE INDEX passages_index_words ON passages USING gin (index_words)",
    "CREATE INDEX passages_phrase_words ON passages USING gin (phrase_words)",
    """CREATE FUNCTION log_append_only() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'the log is append-only'; END $$""",
    "CREATE TRIGGER log_no_change BEFORE UPDATE OR DELETE ON log FOR EACH ROW EXECUTE FUNCTION log_append_only()",
    "CREATE TRIGGER log_no_truncate BEFORE TRUNCATE ON log FOR EACH STATEMENT EXECUTE FUNCTION log_append_only()",
)


def upgrade() -> None:
    dialect = op.get_bind().dialect.name
    if dialect == "postgresql":
        op.execute("CREATE EXTENSION IF NOT EXISTS vector")
    _tables()
    for statement in POSTGRES if dialect == "postgresql" else SQLITE:
        op.execute(sa.text(statement))


def _tables() -> None:
    big = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    text, whole = sa.Text, sa.Integer

    def of_document() -> sa.ForeignKey:
        return sa.ForeignKey("documents.id", ondelete="CASCADE")

    op.create_table(
        "documents",
        sa.Column("id", text, primary_key=True),
        *(sa.Column(name, text, nullable=False) for name in ("title", "filename", "kind")),
        *(sa.Column(name, whole, nullable=False) for name in ("pages", "pages_with_text", "characters", "passages")),
        *(sa.Column(name, text, nullable=False) for name in ("added_at", "embedder")),
        sa.Column("contextual", sa.Boolean, nullable=False),
    )
    op.create_table(
        "originals",
        sa.Column("document_id", text, of_document(), primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "pages",
        sa.Column("document_id", text, of_document(), primary_key=True),
        sa.Column("number", whole, primary_key=True),
        sa.Column("text", text, nullable=False),
        sa.Column("removed", whole, nullable=False),
        sa.Column("reason", text),
    )
    op.create_table(
        "passages",
        sa.Column("key", big, primary_key=True),
        sa.Column("id", text, nullable=False, unique=True),
        sa.Column("document_id", text, of_document(), nullable=False, index=True),
        *(sa.Column(name, whole, nullable=False) for name in ("page", "start", "end")),
        sa.Column("text", text, nullable=False),
        sa.Column("heading", text),
        *(sa.Column(name, text, nullable=False) for name in ("index_text", "phrase_text")),
        sa.Column("length", whole, nullable=False),
    )
    op.create_table(
        "vectors",
        sa.Column("passage_key", big, sa.ForeignKey("passages.key", ondelete="CASCADE"), primary_key=True),
        sa.Column("embedder", text, nullable=False),
        sa.Column("dimension", whole, nullable=False),
        sa.Column("embedding", Embedding, nullable=False),
    )
    op.create_table("meta", sa.Column("name", text, primary_key=True), sa.Column("value", text, nullable=False))
    op.create_table(
        "log",
        sa.Column("seq", big, primary_key=True, autoincrement=False),
        sa.Column("turn_id", big, index=True),
        *(sa.Column(name, text, nullable=False) for name in ("event", "at", "payload")),
        *(sa.Column(name, text, nullable=False, unique=True) for name in ("previous", "hash")),
    )
