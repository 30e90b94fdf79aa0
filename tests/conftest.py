"""What every test needs: no model hub, and a real Postgres for those that ask for one."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from tests.postgres import postgres_url, store_url  # noqa: F401
