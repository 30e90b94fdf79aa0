"""From an address to an engine with the schema in place."""

from __future__ import annotations

import re
import sqlite3
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import StaticPool

from provenance.errors import SettingsError

HEAD = "0002"
"""The newest migration."""

BUSY_SECONDS = 60
_MIGRATION_LOCK = 0x52454346


def make_engine(url: str) -> sa.Engine:
    """An engine for `sqlite:///…` or `postgresql://…` (also `postgres://`); psycopg is the driver.

    A SQLite file's folder is created. Raises SettingsError for any other address, and where the folder cannot be made.
    """
    if url.startswith(("postgres://", "postgresql:")):
        url = re.sub(r"^postgres(ql)?:", "postgresql+psycopg:", url)
    try:
        parsed = make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise SettingsError("DATABASE_URL must start with postgresql:// or sqlite:///.") from None
    if parsed.get_backend_name() == "postgresql":
        return sa.create_engine(parsed, pool_pre_ping=True)
    if parsed.get_backend_name() == "sqlite":
        try:
            return _sqlite(parsed)
        except OSError as error:
            raise SettingsError(f"DATABASE_URL: the folder of {parsed.database} cannot be made: {error}") from error
    raise SettingsError("DATABASE_URL must start with postgresql:// or sqlite:///.")


def migrate_schema(engine: sa.Engine) -> None:
    """Bring the database to the newest schema. Safe when several processes do it at once.

    Raises SettingsError where the database cannot be opened, and where a newer program has changed the schema.
    """
    try:
        _migrate(engine)
    except sa.exc.DBAPIError as error:
        place = engine.url.render_as_string(hide_password=True)
        raise SettingsError(f"DATABASE_URL: {place} cannot be used: {str(error.orig).strip()}") from error


def _migrate(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        if _revision(connection) == HEAD:
            return
    with engine.execution_options(write=True).begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
        if _revision(connection) != HEAD:
            _run_migrations(connection)


def _run_migrations(connection: sa.Connection) -> None:
    # Imported here because a store that is up to date never needs it.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError:
        found = _revision(connection)
        raise SettingsError(
            f"DATABASE_URL names a database of another version of this program (schema {found}; this one reads "
            f"{HEAD}). Use the version that wrote it, or a newer one."
        ) from None


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return found


def _sqlite(url: URL) -> sa.Engine:
    memory = url.database in (None, "", ":memory:")
    if not memory:
        Path(str(url.database)).expanduser().parent.mkdir(parents=True, exist_ok=True)
        url = url.set(database=str(Path(str(url.database)).expanduser()))
    engine = (
        sa.create_engine(url, poolclass=StaticPool, connect_args={"check_same_thread": False})
        if memory
        else sa.create_engine(url, connect_args={"timeout": BUSY_SECONDS})
    )
    sa.event.listen(engine, "connect", _prepare)
    sa.event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not begin transactions of its own
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    _write_ahead(cursor)
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _write_ahead(cursor: Any) -> None:
    # The switch to WAL does not honour the busy timeout while another process makes it too.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _begin(connection: sa.Connection) -> None:
    # A transaction that reads first and writes later fails under other writers: take the lock at once.
    write = connection.get_execution_options().get("write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
