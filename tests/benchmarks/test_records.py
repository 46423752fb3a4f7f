"""The pages of the benchmarks' records."""

from __future__ import annotations

import json

from tests.benchmarks.onnx_models import PAGE, RECORD, page


def test_the_page_of_whole_models_has_what_its_record_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(json.loads(RECORD.read_text(encoding="utf-8")))
