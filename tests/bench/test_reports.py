"""What `dmlpy bench` measures, and what is made of its records: tables, pictures and the README's figures."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import dmlpy as dml
from dmlpy.bench import picture, predictions, readme, shapes, tables
from dmlpy.bench.records import Record
from dmlpy.bench.shapes import SHAPES, LayerShape, Recurrent
from dmlpy.devices.cuda.emulation.runtime import H100
from dmlpy.devices.cuda.performance.gpu_model import Arithmetic, GpuModel
from dmlpy.devices.cuda.recurrent import model
from dmlpy.inspection.operator_records import CASES
from tests.support.folders import DATA
from tests.support.tables import table

# shapes.py

KEYS = """
lstm-64-b1-t100 lstm-128-b1-t100 lstm-256-b16-t100 lstm-256-b64-t100 lstm-512-b64-t50 lstm-1024-b32-t50 lstm-1024-b1-t50
gru-64-b1-t100 gru-128-b1-t100 gru-256-b16-t100 gru-256-b64-t100 gru-512-b64-t50 gru-1024-b32-t50 gru-1024-b1-t50
lstm-40-64-b1-t1 lstm-40-128-b1-t1 bilstm-100-200-b32-t40-ragged lstm-96-256-b32-t64
gru-reset-before-256-b16-t100 lstm-128-b1-t1 lstm-128-b1-t512 bilstm-60-128x2-b32-t293 lstm-40-256x3-b64-t160
gru-256-b128-t128-resets lstm-256-b128-t128-resets rnn-64-b1-t96 lstm-256-b16-t150 lstm-256-b64-t150 lstm-768-b16-t1024
lstm-384x5-b64-t1600 lstm-384-b64-t1600 alternating-lstm-1024x5-b96-t1666 bilstm-lstm-1024x2-b128-t50 bilstm-512-256-b48-t150
lstm-768-1024-b48-t1 lstm-1536-1024-b48-t1 lstm-400-1150-1150-400-b80-t70 bilstm-1024-b64-t400-ragged batchnorm-25600x1024x1x1-nhwc
rnn-1760-b16-t50 gru-2816-b32-t375 gru-1024-b64-t1500 lstm-640-2048-p640-b16-t200 lstm-240-1024x2-b32-t200
lstm-2048-1024x3-b32-t100 lstm-512x2-b32-t100 gru-512-b32-t1375 gru-512-b8-t11000
batchnorm-32x64x56x56-nchw batchnorm-32x64x56x56-nhwc batchnorm-64x256x56x56-nchw batchnorm-64x256x56x56-nhwc
batchnorm-32x64x112x112-nchw batchnorm-32x64x112x112-nhwc batchnorm-32x512x28x28-nchw batchnorm-32x512x28x28-nhwc
batchnorm-32x1024x14x14-nchw batchnorm-32x1024x14x14-nhwc batchnorm-32x2048x7x7-nchw batchnorm-32x2048x7x7-nhwc
batchnorm-4096x1024x1x1-nhwc
"""
"""Records refer to them: a key that is gone makes its records unreadable."""


def test_keys_are_these_and_unique() -> None:
    made = [shape.key for part in (shapes._cpu_suite, shapes._small_models, shapes._large_models, shapes._batch_norms) for shape in part()]
    assert made == list(SHAPES) == KEYS.split()


def test_all_sixteen_models_are_there() -> None:
    models = [shape for shape in SHAPES.values() if shape.suite == "models"]
    assert {shape.number for shape in models} == set(range(1, 17))
    assert all(shape.source for shape in models)
    assert all(shape.number is None for shape in SHAPES.values() if shape.suite != "models")


@table("key", SHAPES)
def test_descs_are_valid(key: str) -> None:
    shape = SHAPES[key]
    for dtype in shape.dtypes:
        for which in shape.passes:
            descs = shape.descs(which, dtype)
            assert [dml.check(desc) for desc in descs] == [[]] * len(descs)
            layers = len(shape.layers) if isinstance(shape, Recurrent) else 1
            assert len(descs) == layers * (2 if which == "training" else 1)


@pytest.mark.parametrize(
    ("key", "which", "flops"),
    [
        # 2 flops an element of W and R, a sample and step.
        ("lstm-256-b16-t100", "forward", 2 * 1024 * 512 * 16 * 100),
        ("lstm-256-b16-t100", "training", 3 * 2 * 1024 * 512 * 16 * 100),
        ("gru-64-b1-t100", "forward", 2 * 192 * 128 * 100),
        ("rnn-1760-b16-t50", "forward", 2 * 1760 * 3520 * 16 * 50),
        # R has P columns, and the projection is P by H.
        ("lstm-640-2048-p640-b16-t200", "forward", 2 * (8192 * 1280 + 640 * 2048) * 16 * 200),
        # Both directions, the second layer reads both.
        ("bilstm-60-128x2-b32-t293", "forward", 2 * 2 * 512 * (60 + 128 + 256 + 128) * 32 * 293),
        ("bilstm-lstm-1024x2-b128-t50", "forward", 2 * (2 * 4096 * 2048 + 4096 * 3072) * 128 * 50),
        ("lstm-400-1150-1150-400-b80-t70", "forward", 2 * (4600 * 1550 + 4600 * 2300 + 1600 * 1550) * 80 * 70),
        # 64 samples of 400 down to 200 steps, 300 on average.
        ("bilstm-1024-b64-t400-ragged", "forward", 2 * 2 * 4096 * 2048 * 64 * 300),
        ("batchnorm-32x64x56x56-nchw", "training", 0),
    ],
)
def test_products_are_counted(key: str, which: shapes.Pass, flops: int) -> None:
    assert SHAPES[key].flops(which) == flops


@pytest.mark.parametrize(
    ("key", "which", "dtype", "size"),
    [
        # W, R and two biases; x and y.
        ("lstm-64-b1-t100", "forward", "FLOAT32", 4 * (256 * (64 + 64 + 2) + 100 * 128)),
        ("lstm-768-b16-t1024", "training", "FLOAT16", 3 * 2 * (3072 * (768 + 768 + 2) + 16 * 1024 * 1536)),
        ("lstm-640-2048-p640-b16-t200", "forward", "FLOAT16", 2 * (8192 * 1282 + 640 * 2048 + 16 * 200 * 1280)),
        ("batchnorm-32x64x112x112-nhwc", "forward", "FLOAT16", 2 * 51_380_224),
        ("batchnorm-32x64x112x112-nhwc", "training", "FLOAT32", 5 * 102_760_448),
    ],
)
def test_bytes_are_counted(key: str, which: shapes.Pass, dtype: shapes.DataType, size: int) -> None:
    assert SHAPES[key].bytes(which, dtype) == size


def test_bytes_take_their_time() -> None:
    assert SHAPES["batchnorm-32x64x56x56-nchw"].memory_us("forward", "FLOAT32", gb_per_s=10) == pytest.approx(5138.0224)


def test_lengths_fall_from_all_steps() -> None:
    ragged = SHAPES["bilstm-1024-b64-t400-ragged"]
    assert isinstance(ragged, Recurrent)
    lengths = ragged.sequence_lengths()
    assert (len(lengths), lengths[0], lengths[-1]) == (64, 400, 200)
    resets = SHAPES["lstm-256-b128-t128-resets"]
    assert isinstance(resets, Recurrent)
    episodes = resets.sequence_lengths()
    assert (len(episodes), episodes[0], episodes[-1]) == (128, 128, 1)
    # The mean of an episode that ends with 3% at each step and at 128 steps at the latest.
    assert sum(episodes) / 128 == pytest.approx((1 - 0.97**128) / 0.03, rel=0.01)
    for found in (lengths, episodes):
        assert found == sorted(found, reverse=True)


def test_layers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="a layer reads 8 features, the one before it writes 16"):
        Recurrent(title="x", suite="cpu", batch=1, steps=1, layers=(LayerShape("GRU", 4, 8, "BIDIRECTIONAL"), LayerShape("GRU", 8, 8)))


def test_shapes_are_selected() -> None:
    assert {shape.suite for shape in shapes.select([], "cpu")} == {"cpu", "batch_norm"}
    assert {shape.suite for shape in shapes.select([], "cuda")} == {"models", "batch_norm_gpu"}
    assert [shape.key for shape in shapes.select(["rnn-*", "lstm-64-b1-t100"], "cpu")] == [
        "lstm-64-b1-t100",
        "rnn-64-b1-t96",
        "rnn-1760-b16-t50",
    ]
    with pytest.raises(ValueError, match=r"no shape's key matches 'lstm-64-b1-t10'; did you mean 'lstm-64-b1-t100'"):
        shapes.select(["rnn-*", "lstm-64-b1-t10"], "cpu")
    with pytest.raises(ValueError, match="dmlpy bench --list shows all"):
        shapes.select(["zzz*"], "cpu")


# tables.py


@pytest.fixture(scope="module")
def record() -> Record:
    """Written by hand: times, a wrong result, what a library lacks, a failure, and one that is not installed."""
    return Record.load(DATA / "bench_record.json")


def test_markdown_shows_dmlpys_medians_ratios_and_reasons(record: Record) -> None:
    assert tables.markdown(record).splitlines() == [
        "| shape | pass | dmlpy 0.1.0 | ONNX Runtime 1.31.1 | PyTorch 2.13.0+cpu | dmlpy over floor |",
        "| --- | --- | --- | --- | --- | --- |",
        "| lstm-64-b1-t100 | forward | 1.20 ms | **0.25×** | 1.50× | 15.0× |",
        "| lstm-512-b64-t50 | forward | 150 ms | wrong [1] | **0.93×** | 1.4× |",
        "| lstm-512-b64-t50 | training | 450 ms | absent [2] | 3.20× | 1.4× |",
        "| gru-reset-before-256-b16-t100 | forward | 10.0 ms | 1.20× | absent [3] | 1.1× |",
        "| batchnorm-32x64x56x56-nchw | forward | failed [4] | absent [2] | 7.65 ms |  |",
        "",
        "- [1] ONNX Runtime: y is 0.3 off, 0.0001 allowed",
        r"- [2] ONNX Runtime: has no gradients \| here",
        "- [3] PyTorch: nn.GRU resets after the product",
        "- [4] dmlpy: over its limit of 60 s",
        "- onednn is absent: pip install onednn brings it",
    ]


def test_predictions_of_the_model_are_shown_with_measured_times(record: Record) -> None:
    """The least of the ratios of dmlpy's modes; other libraries have no model."""
    own, peer = (record.runs[place].model_copy(update={"estimate_us": 1000.0}) for place in (0, 2))
    graph = own.model_copy(update={"mode": "graph", "median_us": 800.0})
    other = record.runs[4]
    head, _, first, second, *_ = tables.markdown(record.model_copy(update={"runs": [own, graph, peer, other]})).splitlines()
    assert head.endswith("| dmlpy over floor | dmlpy over its model's estimate |")
    assert first.endswith(" | 0.8× |"), first
    assert second.endswith(" |  |"), second
    assert "model" not in tables.markdown(record)


def test_goals_are_compared_with_the_fastest_library(record: Record) -> None:
    """dmlpy's own other device is none; rows without another library do not count."""
    assert tables.goals_text(record) == (
        "In 2 of the 4 rows with another library dmlpy takes at most the time of the fastest of them; it takes more in "
        "lstm-64-b1-t100 forward FLOAT32 (4.00× that of ONNX Runtime), lstm-512-b64-t50 forward FLOAT32 (1.07× that of PyTorch)."
    )
    numpy = record.runs[1].model_copy(update={"subject": "dmlpy-numpy", "median_us": 1.0})
    faster = record.runs[0].model_copy(update={"median_us": 1.0})
    told = tables.goals_text(record.model_copy(update={"runs": [faster, numpy, record.runs[1]]}))
    assert told == "In 1 of the 1 rows with another library dmlpy takes at most the time of the fastest of them."
    assert tables.goals_text(record.model_copy(update={"runs": [faster, numpy]})) == ""


def test_goals_compared_with_one_thread(record: Record) -> None:
    own = record.runs[0].model_copy(update={"median_us": 100.0})
    for alone, met in ((91.0, 1), (90.0, 0)):
        one = own.model_copy(update={"subject": "dmlpy-one-thread", "median_us": alone})
        told = tables.goals_text(record.model_copy(update={"runs": [own, one]}))
        more = "" if met else "; it takes more in lstm-64-b1-t100 forward FLOAT32 (1.11× that of dmlpy on one thread)"
        assert told == f"In {met} of the 1 rows that were measured on one thread, too, dmlpy takes at most 1.1 times its time there{more}."


def test_memory_is_that_of_training(record: Record) -> None:
    assert tables.memory_markdown(record).splitlines() == [
        "| peak memory in training, beyond inputs and parameters | dmlpy 0.1.0 | PyTorch 2.13.0+cpu |",
        "| --- | --- | --- |",
        "| lstm-512-b64-t50, FLOAT32 | 157 MB | 210 MB |",
    ]
    assert tables.memory_markdown(record.model_copy(update={"runs": record.runs[:8]})) == ""


def test_the_terminals_table_marks_what_dmlpy_did_not_do(record: Record) -> None:
    table = tables.table(record)
    assert table.headings[:3] == ("shape", "pass", "dmlpy 0.1.0")
    assert table.marked == {4}
    assert table.rows[0][2:5] == ("1.20 ms (1.14–1.32)", "300 µs (285–330), 0.25×", "1.80 ms (0.99–3.42), 1.50×")
    assert "x batchnorm-32x64x56x56-nchw" in table.to_text()
    assert tables.reasons(record)[-1] == "onednn is absent: pip install onednn brings it"


def test_modes_and_types_have_their_place(record: Record) -> None:
    """Two modes: each peer's is compared with dmlpy's in the same mode, and the floor with dmlpy's faster one. Two types: a column."""
    own, peer = record.runs[0], record.runs[2]
    runs = [own, peer]
    runs += [own.model_copy(update={"mode": "graph", "median_us": 600.0}), peer.model_copy(update={"mode": "graph", "median_us": 900.0})]
    runs += [
        own.model_copy(update={"dtype": "FLOAT16"}),
        peer.model_copy(update={"dtype": "FLOAT16", "mode": "graph", "median_us": 2400.0}),
    ]
    head, _, first, second = tables.markdown(record.model_copy(update={"runs": runs})).splitlines()
    assert head == (
        "| shape | pass | type | dmlpy 0.1.0, eager | dmlpy 0.1.0, graph | PyTorch 2.13.0+cpu, eager | PyTorch 2.13.0+cpu, graph "
        "| dmlpy over floor |"
    )
    assert first.split(" | ")[2:] == [
        "FLOAT32",
        "1.20 ms",
        "600 µs",
        "1.50×",
        "1.50×",
        "7.5× |",
    ]
    # dmlpy has one mode only there: every mode of a peer is compared with it.
    assert second.split(" | ")[2:] == ["FLOAT16", "1.20 ms", "", "", "2.00×", "15.0× |"]


@pytest.mark.parametrize(
    ("us", "text"),
    [(0.5, "0.50 µs"), (9.994, "9.99 µs"), (9.996, "10.0 µs"), (99.96, "100 µs"), (999, "999 µs"), (1000, "1.00 ms"), (2.5e6, "2.50 s")],
)
def test_times_have_three_digits(us: float, text: str) -> None:
    assert tables.time_text(us) == text


def test_shapes_are_listed() -> None:
    shown = tables.listing(shapes.select(["lstm-256-b16-t*", "batchnorm-25600*"], "cpu"))
    assert shown.headings == ("key", "model", "title", "types", "passes", "GFLOP", "MB", "suite")
    assert shown.rows == (
        ("lstm-256-b16-t100", "", "recurrent layer, I = H", "FLOAT32", "forward, training", "1.68", "5.38", "cpu"),
        ("lstm-256-b16-t150", "6", "character language model", "FLOAT32, FLOAT16", "forward, training", "2.52", "7.02", "models"),
        ("batchnorm-25600x1024x1x1-nhwc", "13", "DeepSpeech-style, between layers", "FLOAT16", "forward, training", "", "105", "models"),
    )


# picture.py


def test_the_picture_is_the_same_each_time_and_names_its_record(record: Record) -> None:
    first, second = (picture.draw(record, "ab" * 32) for _ in range(2))
    assert first == second
    assert picture.hash_in(first) == "ab" * 32
    assert picture.hash_in("<svg/>") is None
    for text in (
        "lstm-64-b1-t100",
        "lstm-512-b64-t50, training",
        "PyTorch 2.13.0+cpu",
        ">1.20 ms<",
        ">2×<",
        ">floor<",
        "Time relative to dmlpy's: Some Processor, ",
    ):
        assert text in first  # text is text, not outlines
    assert "batchnorm" not in first  # dmlpy has no time there
    for colour in picture.COLOURS[:2]:
        assert colour.lower() in first


def test_lines_of_the_picture_hold_ratios_and_floors(record: Record) -> None:
    found = {line.label: line for line in picture.lines(record)}
    assert list(found) == ["lstm-64-b1-t100", "lstm-512-b64-t50", "lstm-512-b64-t50, training", "gru-reset-before-256-b16-t100"]
    line = found["lstm-512-b64-t50, training"]
    assert line.own_time == "450 ms"
    assert line.ratios == pytest.approx({("torch", "eager"): 3.2})
    assert line.floor == pytest.approx(330 / 450)


def test_where_nothing_can_be_drawn_it_is_said(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        picture.draw(record.model_copy(update={"runs": []}), "ab" * 32)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'dmlpy\[bench\]'"):
        picture.draw(record, "ab" * 32)


# readme.py


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """A folder with one record, named cpu."""
    folder = tmp_path / "records"
    folder.mkdir()
    shutil.copy(DATA / "bench_record.json", folder / "cpu.json")
    return folder


README = """# x

<!-- bench: cpu -->
old
<!-- end -->

between

<!-- bench: cuda -->
<!-- end -->
<!-- bench: cpu goals -->
<!-- end -->
<!-- bench: cuda goals -->
<!-- end -->
last
"""


def test_blocks_are_written_from_records(records: Path, record: Record) -> None:
    text = readme.rewritten(README, records)
    assert "old" not in text
    assert text.startswith(
        "# x\n\n<!-- bench: cpu -->\nSome Processor, 2 threads, 2026-01-02, dmlpy with NumPy 2.4.6. dmlpy's median time, "
    )
    assert tables.markdown(record) in text
    assert tables.memory_markdown(record) in text
    shown = "<!-- bench: cuda -->\nNo speed has been recorded on a GPU yet; `dmlpy bench --device cuda --save"
    assert f"](records/cpu.svg)\n<!-- end -->\n\nbetween\n\n{shown}" in text
    assert f"<!-- bench: cpu goals -->\n{tables.goals_text(record)}\n<!-- end -->" in text
    assert text.endswith("<!-- bench: cuda goals -->\nNot measured yet.\n<!-- end -->\nlast\n")
    assert readme.rewritten(text, records) == text


@pytest.mark.parametrize("text", ["# x\n", "<!-- bench: cpu -->\n", "<!-- bench: cpu -->\n<!-- bench: cuda -->\n<!-- end -->\n"])
def test_blocks_without_an_end_are_reported(text: str) -> None:
    with pytest.raises(ValueError, match="<!-- end -->"):
        readme.rewritten(text, DATA)


def test_the_command_writes_and_checks(records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    path = tmp_path / "README.md"
    path.write_text(README, "utf-8")
    monkeypatch.setattr(readme, "RECORDS", records)
    assert readme.main([str(path), "--check"]) == 1
    assert capsys.readouterr().out == f"{records / 'cpu.svg'} was not drawn from cpu.json\n{path} is not what the records say\n"
    assert path.read_text("utf-8") == README
    assert readme.main([str(path)]) == 0
    assert readme.main([str(path), "--check"]) == 0
    assert picture.hash_in((records / "cpu.svg").read_text("utf-8")) == picture.record_hash(records / "cpu.json")
    (records / "cpu.json").write_text((records / "cpu.json").read_text("utf-8").replace("Some Processor", "Another"), "utf-8")
    assert readme.main([str(path), "--check"]) == 1


@pytest.mark.parametrize(("text", "message"), [(None, "there is no file"), ("# x\n", "there are 0 lines")])
def test_the_command_reports_what_is_wrong(tmp_path: Path, capsys: Any, text: str | None, message: str) -> None:
    path = tmp_path / "README.md"
    if text is not None:
        path.write_text(text, "utf-8")
    with pytest.raises(SystemExit, match="2"):
        readme.main([str(path)])
    assert message in capsys.readouterr().err


def test_the_readmes_say_what_the_records_say() -> None:
    """Where this fails: python -m dmlpy.bench.readme."""
    assert readme.main(["--check"]) == 0


def test_predictions_are_the_models() -> None:
    """The floors that the page shows for an H200."""
    page = (readme.RECORDS / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| (\w+), H (\d+), B (\d+), (FLOAT\d+) \| ([\d.]+) \|", page, re.MULTILINE)
    assert len(rows) == 4
    machine = GpuModel.of(H100)  # the model knows no difference
    for cell, hidden, batch, dtype, floor in rows:
        gates: int = shapes.GATES[cell]
        arithmetic: Arithmetic = "half" if dtype == "FLOAT16" else "float"
        work = model.Work(gates, int(hidden), int(hidden), int(batch), 100, 1, arithmetic)
        assert float(floor) == pytest.approx(model.floor_us(work, machine), abs=0.005)


@pytest.mark.parametrize(
    "path", [DATA / "bench_record.json", *sorted({*readme.RECORDS.glob("*.json")} - {predictions.PREDICTIONS})], ids=lambda path: path.name
)
def test_records_are_of_known_shapes(path: Path) -> None:
    runs = Record.load(path).runs
    assert {run.shape.partition("@")[0] for run in runs} <= set(SHAPES) | set(CASES)  # an operator of another size has it behind its name
    assert any(run.subject == tables.OWN and run.status == "ok" for run in runs)
