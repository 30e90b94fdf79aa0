#!/bin/sh
# Prepares the model and the sample documents (quick when they are there) and serves the app.
set -eu
"$PYTHON" -m provenance prepare --samples
exec "$PYTHON" -m streamlit run app.py --server.port "$PORT" --server.headless true \
    --browser.gatherUsageStats false --server.fileWatcherType none
