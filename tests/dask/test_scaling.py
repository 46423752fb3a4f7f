"""The measurement of scaling writes a record from which the table is made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("distributed")
from dmlpy.dask import scaling


def test_the_table_has_what_the_record_says() -> None:
    record = json.loads(scaling.RECORD.read_text("utf-8"))
    record["workers"]["1"]["strong"] |= {"chunks": 10, "utterances_per_second": 2000.0, "bytes_between_workers": 0}
    record["workers"]["2"]["strong"] |= {"chunks": 10, "utterances_per_second": 3000.0, "bytes_between_workers": 5000}
    text = scaling.markdown(record)
    assert "| strong scaling: 10 chunks, utterances per second | 2,000 | 3,000 | 1.50 |" in text
    assert "| bytes between workers for a chunk | 0 | 500 |  |" in text


def test_constants_are_sent_separately_from_the_tasks() -> None:
    sent, weights = scaling.sent_bytes(), scaling.constants()
    assert sent["constants"] > sum(array.nbytes for array in weights.values())
    assert sent["task"] < 2000


@pytest.mark.slow
def test_a_short_measurement(tmp_path: Path) -> None:
    record = scaling.measured(chunks=2, rounds=2, device="numpy")
    assert record["workers"]["2"]["weak"]["chunks"] == 4
    assert all(item[kind]["seconds"] > record["chunk_seconds_alone"] for item in record["workers"].values() for kind in ("weak", "strong"))
    assert scaling.markdown(record)
