"""Calibrates the packaged default model and writes the weights that are shipped: `python -m benchmarks.calibrate`."""

from __future__ import annotations

import sys

from provenance.generation.models import load_language_model
from provenance.methods.calibration import SHIPPED, calibrate, file_name, write_calibration
from provenance.settings import load_settings


def main() -> None:
    lm = load_language_model(load_settings())

    def report(fraction: float, message: str) -> None:
        print(f"{fraction:4.0%}  {message}", file=sys.stderr, flush=True)

    calibration = calibrate(lm, progress=report)
    path = SHIPPED / file_name(lm.name, lm.revision)
    write_calibration(calibration, path)
    print(path.read_text("utf-8"))


if __name__ == "__main__":
    main()
