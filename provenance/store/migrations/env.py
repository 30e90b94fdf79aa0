"""Runs the migrations on the connection that `open_store` hands over."""

from __future__ import annotations

from alembic import context

from provenance.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
