from __future__ import annotations

import os
import sys

import pytest

from benchmarks.child import AddedMemory, MeasurementFailed, in_child


def identity(number: int) -> dict[str, int]:
    return {"number": number, "process": os.getpid()}


def test_a_measurement_runs_in_a_process_of_its_own() -> None:
    found = in_child("tests.benchmarks.test_child:identity", number=3)
    assert found["number"] == 3
    assert found["process"] != os.getpid()


def test_a_failed_measurement_says_what_went_wrong() -> None:
    with pytest.raises(MeasurementFailed, match="unexpected keyword argument"):
        in_child("tests.benchmarks.test_child:identity", other=3)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux can reset the peak of a process")
def test_added_memory_is_the_peak_of_the_block_and_not_an_earlier_one() -> None:
    earlier = bytearray(200_000_000)
    del earlier
    with AddedMemory() as taken:
        block = bytearray(50_000_000)
        del block
    assert 45_000_000 < taken.bytes < 100_000_000
