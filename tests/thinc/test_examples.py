"""dmlpy.thinc in spaCy's pipelines, and the example that trains one."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tests.support.folders import ROOT
from tests.support.scripts import example, run
from tests.support.tools import require

require("thinc")

import catalogue
import thinc.api as thinc

import dmlpy.thinc as dt
from dmlpy.thinc.pytorch import nodes_of


def test_entry_points_name_what_is_registered() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    found = {}
    for group, names in points.items():
        registry = catalogue.Registry(group.split("_"))
        for name, place in names.items():
            module, _, attribute = place.partition(":")
            found[name] = getattr(importlib.import_module(module), attribute)
            assert registry.get(name) is found[name]
    assert found == {
        "dmlpy.BiLSTMEncoder.v1": dt.BiLSTMEncoder,
        **{f"dmlpy.{kind.__name__}.v1": kind for kind in (dt.GRU, dt.LSTM, dt.RNN)},
    }


def test_the_encoder_is_a_bidirectional_lstm() -> None:
    encoder: Any = dt.BiLSTMEncoder(width=8, depth=2, dropout=0.25)
    assert [encoder.get_dim(name) for name in ("nI", "nO", "depth", "dirs")] == [8, 8, 2, 2]
    assert encoder.attrs["dropout_rate"] == 0.25
    x = [np.ones((3, 8), np.float32)]
    for none in (0, cast(Any, np.int64(0))):
        assert dt.BiLSTMEncoder(width=8, depth=none, dropout=0.0).predict(x) is x


# examples/tagger.py


@pytest.mark.slow
def test_names_are_tagged_by_the_syntax_tree() -> None:
    require("spacy")
    tagger = example("tagger")
    source = "class A:\n    def f(self, x):\n        y = g(x, key=self.a.b(1))\n        return y\n"
    found = [pair for words, tags in tagger.statements(source) for pair in zip(words, tags, strict=True) if pair[1] != "other"]
    expected = "A/class f/function self/parameter x/parameter y/set g/call x/read key/argument self/read a/attribute b/call y/read"
    assert " ".join(map("/".join, found)) == expected


@pytest.mark.slow
def test_a_short_training_of_a_pipeline_is_stored_and_loaded(tmp_path: Path) -> None:
    require("spacy")
    command = ("--steps", "100", "--target", "0.95", "--output", str(tmp_path))
    printed = run("python", "examples/tagger.py", *command)
    accuracies = {
        name: float(share) for name, share in re.findall(r"^(most frequent tags|loaded pipeline) +(\d\.\d+)", printed, re.MULTILINE)
    }
    assert accuracies["loaded pipeline"] > max(0.95, accuracies["most frequent tags"])

    import spacy

    nlp = spacy.load(tmp_path / "model-best")
    tagger: Any = nlp.get_pipe("tagger")
    node = next(node for node in nodes_of(tagger.model) if node.name == "lstm")
    assert node.attrs["registry_name"] == "dmlpy.LSTM.v1"
    words = ["x", "=", "f", "(", "y", ")"]
    doc = spacy.tokens.Doc(nlp.vocab, words=words)
    alone = [token.tag_ for token in tagger(doc)]
    again = nlp.from_bytes(nlp.to_bytes()).get_pipe("tagger")(spacy.tokens.Doc(nlp.vocab, words=words))
    assert alone == [token.tag_ for token in again]


def test_a_config_of_thinc_trains_in_a_chain() -> None:
    config = thinc.Config().from_str(
        '[model]\n@layers = "chain.v1"\n\n[model.*.first]\n@layers = "dmlpy.RNN.v1"\nnO = 4\nnI = 3\nactivation = "relu"\n\n'
        '[model.*.second]\n@layers = "dmlpy.GRU.v1"\nnO = 6\nnI = 4\nbi = true\n'
    )
    model = thinc.registry.resolve(config)["model"].initialize()
    assert [layer.name for layer in model.layers] == ["rnn", "gru"]
    assert model.layers[0].attrs["activation"] == "relu"
