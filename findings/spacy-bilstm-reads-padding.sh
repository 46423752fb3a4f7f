#!/usr/bin/env bash
# spacy 3.8.18, thinc 8.3.14: what spacy.TorchBiLSTMEncoder.v1 makes of a text depends on the other texts of its batch, so nlp(text) and
# nlp.pipe(texts) give different vectors, and training sees a third kind.
#
# Thinc's PyTorchLSTM hands a padded array to torch.nn.LSTM without the lengths, so the backward direction begins in the padding: it has
# taken as many steps over zeros, which its biases make something of, as the longest text of the batch is longer. torch.nn's
# pack_padded_sequence is the remedy.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" spacy==3.8.18 torch
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import spacy
import thinc
from spacy.ml.models.tok2vec import BiLSTMEncoder

rng = np.random.default_rng(0)
encoder = BiLSTMEncoder(8, 1, 0.0).initialize()
long, short = (rng.standard_normal((length, 8)).astype("f") for length in (6, 2))
together, alone = encoder.predict([long, short])[1], encoder.predict([short])[0]
print("spacy", spacy.__version__, "thinc", thinc.about.__version__)
print("the short text beside a long one and alone: largest difference", np.abs(together - alone).max())
assert np.allclose(together[:, :4], alone[:, :4], atol=1e-6)  # forwards
assert np.abs(together[:, 4:] - alone[:, 4:]).max() > 1e-2  # backwards
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
