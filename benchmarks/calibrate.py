"""Calibrates the packaged default model and writes the weights that are shipped: `python -m benchmarks.calibrate`.

On more prompts than any other model gets at its first use, since the model answers few of them itself.
"""

from __future__ import annotations

import sys

from provenance.generation.models import load_language_model
from provenance.methods.calibration import SHIPPED, calibrate, file_name, write_calibration
from provenance.settings import load_settings

FIT_PROMPTS, CHECK_PROMPTS, SAME_PROMPTS = 72, 240, 8


def main() -> None:
    lm = load_language_model(load_settings())

    def report(fraction: float, message: str) -> None:
        print(f"{fraction:4.0%}  {message}", file=sys.stderr, flush=True)

    calibration = calibrate(
        lm, fit_prompts=FIT_PROMPTS, check_prompts=CHECK_PROMPTS, same_prompts=SAME_PROMPTS, progress=report
    )
    path = SHIPPED / file_name(lm.name, lm.revision)
    write_calibration(calibration, path)
    print(path.read_text("utf-8"))


if __name__ == "__main__":
    main()
