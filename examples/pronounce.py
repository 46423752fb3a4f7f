"""Prints the phonemes of English words: a GRU reads the letters, another one writes the sounds.

    python examples/pronounce.py "recurrent networks on any machine"

The network is that of the package g2p-en. Only the file with its trained weights is read; the package itself is never imported, because
it downloads dictionaries when it is. Its other requirements are therefore not needed:

    pip install --no-deps g2p-en==2.1.0
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import sys
import unicodedata
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.description.gate_order import GateOrder, reorder

Array = np.ndarray[Any, np.dtype[Any]]

GRAPHEMES = ("<pad>", "<unk>", "</s>", *"abcdefghijklmnopqrstuvwxyz")
ARPABET = """
AA0 AA1 AA2 AE0 AE1 AE2 AH0 AH1 AH2 AO0 AO1 AO2 AW0 AW1 AW2 AY0 AY1 AY2 B CH D DH EH0 EH1 EH2 ER0 ER1 ER2 EY0 EY1 EY2 F G HH
IH0 IH1 IH2 IY0 IY1 IY2 JH K L M N NG OW0 OW1 OW2 OY0 OY1 OY2 P R S SH T TH UH0 UH1 UH2 UW UW0 UW1 UW2 V W Y Z ZH"""
PHONEMES = ("<pad>", "<unk>", "<s>", "</s>", *ARPABET.split())
START, END = PHONEMES.index("<s>"), PHONEMES.index("</s>")
LONGEST = 20
"""Phonemes of a word at most, as in g2p-en."""


def find_weights() -> Path:
    """The file with the trained weights in the installed package g2p-en.

    Raises:
        FileNotFoundError: the package is not installed; the text says how to install it.
    """
    try:
        files = importlib.metadata.files("g2p-en") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "checkpoint20.npz":
            return Path(str(file.locate()))
    raise FileNotFoundError("the trained weights come with g2p-en: pip install --no-deps g2p-en==2.1.0, or name the file with --weights")


def load_weights(path: Path | None = None) -> dict[str, Array]:
    """The network's arrays by name, float32, in PyTorch's layout; from g2p-en's file if no path is given.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file holds something else.
    """
    path = find_weights() if path is None else path
    gru = ("emb", "w_ih", "w_hh", "b_ih", "b_hh")
    names = (*(f"{part}_{name}" for part in ("enc", "dec") for name in gru), "fc_w", "fc_b")
    try:
        with path.open("rb") as source, np.load(source, allow_pickle=False) as file:
            return {name: file[name] for name in names}
    except (EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not g2p-en's checkpoint20.npz: {error}") from error


class Pronouncer:
    """The network on one device.

    Args:
        weights: as from `load_weights`.
        device: as for `dmlpy.compile`.
    """

    def __init__(self, weights: Mapping[str, Array], device: dml.Device | str | None = None) -> None:
        self.device = dml.device(device)
        self._letters, self._sounds = weights["enc_emb"], weights["dec_emb"]
        self._to_logits, self._logits_bias = weights["fc_w"].T, weights["fc_b"]
        self._encoder, self._decoder = (self._gru_constants(weights, part) for part in ("enc", "dec"))
        self._hidden_size = weights["enc_w_hh"].shape[1]

    def _gru_constants(self, weights: Mapping[str, Array], part: str) -> dict[str, Any]:
        """What `GRUDesc` names weight, recurrence and bias: PyTorch's gates r, z, n in DirectML's order z, r, h."""
        weight, recurrence = (
            reorder(weights[f"{part}_{name}"], "GRU", GateOrder.CUDNN, GateOrder.DIRECTML, axis=0) for name in ("w_ih", "w_hh")
        )
        both_biases = np.concatenate([weights[f"{part}_b_ih"], weights[f"{part}_b_hh"]])
        bias = reorder(both_biases, "GRU", GateOrder.CUDNN, GateOrder.DIRECTML, axis=0, parts=2)
        constants = {
            "weight_tensor": weight[None, None],
            "recurrence_tensor": recurrence[None, None],
            "bias_tensor": bias[None, None, None],
        }
        return {name: self.device.from_host(array) for name, array in constants.items()}

    def _compile(self, constants: Mapping[str, Any], **inputs: Any) -> dml.CompiledOperator:
        """A forward GRU over these arrays that gives the last state only."""
        desc = dml.GRUDesc(
            **{name: dml.TensorDesc.of(array) for name, array in {**constants, **inputs}.items()},
            activation_descs=[dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()],
            direction="FORWARD",
            linear_before_reset=True,  # PyTorch's form: the reset gate multiplies the recurrent product
        ).with_outputs("output_single_tensor")
        return dml.compile(desc, self.device)

    def encode(self, words: Sequence[str]) -> Any:
        """The state after the last letter of each word, [1, 1, words, hidden], in the device's memory."""
        ends = GRAPHEMES.index("</s>")
        unknown = GRAPHEMES.index("<unk>")
        indices = [[GRAPHEMES.index(letter) if letter in GRAPHEMES else unknown for letter in word] + [ends] for word in words]
        lengths = np.array([len(word) for word in indices], np.uint32)
        padded = np.zeros((lengths.max(), len(words)), np.intp)
        for column, word in enumerate(indices):
            padded[: len(word), column] = word
        # One call for all words: each stops at its own length, what lies beyond is never read into its state.
        inputs = {
            "input_tensor": self.device.from_host(self._letters[padded][None]),
            "sequence_lengths_tensor": self.device.from_host(lengths[None, None, None]),
        }
        return self._compile(self._encoder, **inputs)(**self._encoder, **inputs).output_single_tensor

    def decode(self, state: Any) -> Iterator[Array]:
        """Greedy decoding: the logits of one phoneme of each word after the other, [words, phonemes].

        The decoder is a GRU of one step whose constants are packed once and whose memory is bound once. As an output may not be its
        own input, two states take turns, and so do two dispatches.
        """
        words = state.shape[2]
        sound = self.device.from_host(np.zeros((1, 1, words, self._sounds.shape[1]), np.float32))
        states = (state, self.device.from_host(np.zeros((1, 1, words, self._hidden_size), np.float32)))
        decoder = self._compile(self._decoder, input_tensor=sound, hidden_init_tensor=state).prepare(**self._decoder)
        steps = [
            decoder.bind({"input_tensor": sound, "hidden_init_tensor": before}, {"output_single_tensor": after})
            for before, after in (states, states[::-1])
        ]
        chosen = np.full(words, START)
        for count in range(LONGEST):
            _fill(sound, self._sounds[chosen][None, None])
            steps[count % 2]()
            hidden = self.device.to_host(states[(count + 1) % 2])[0, 0]
            logits = hidden @ self._to_logits + self._logits_bias
            yield logits
            chosen = logits.argmax(axis=1)

    def logits(self, words: Sequence[str]) -> list[Array]:
        """For each word the logits of its phonemes, [phonemes of the word, phonemes]; the last row is that of the end unless cut at 20."""
        if not words:
            return []
        rows: list[list[Array]] = [[] for _ in words]
        speaking = np.full(len(words), True)
        for logits in self.decode(self.encode(words)):
            for word in np.flatnonzero(speaking):
                rows[word].append(logits[word])
            speaking &= logits.argmax(axis=1) != END
            if not speaking.any():
                break
        return [np.stack(row) for row in rows]

    def __call__(self, words: Sequence[str]) -> list[list[str]]:
        """The phonemes of each word, in ARPABET with stress marks."""
        return [[PHONEMES[index] for index in logits.argmax(axis=1) if index != END] for logits in self.logits(words)]


def _fill(array: Any, values: Array) -> None:
    """Copies values from the host into an array that stays where it is."""
    if isinstance(array, np.ndarray):
        array[...] = values
    else:
        array.set(values)


def pronounce(words: Sequence[str], device: dml.Device | str | None = None, weights: Path | None = None) -> list[list[str]]:
    """The phonemes of lower-case words; letters other than a to z count as unknown."""
    return Pronouncer(load_weights(weights), device)(words)


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, accents and apostrophes left out."""
    plain = "".join(letter for letter in unicodedata.normalize("NFD", text) if unicodedata.category(letter) != "Mn")
    return [word for found in re.findall("[a-z'’]+", plain.lower()) if (word := re.sub("['’]", "", found))]


def main() -> int:
    parser = argparse.ArgumentParser(description="Prints the phonemes of English words.")
    parser.add_argument("text", nargs="+", help="English words")
    parser.add_argument("--device", help="cpu, numpy, cuda, cuda:1; left out: a GPU if one answers, else cpu")
    parser.add_argument("--weights", type=Path, help="checkpoint20.npz, if g2p-en is not installed")
    arguments = parser.parse_args()
    words = words_of(" ".join(arguments.text))
    try:
        phonemes = pronounce(words, arguments.device, arguments.weights)
    except (OSError, ValueError, dml.DmlError) as error:
        print(f"pronounce: {error}", file=sys.stderr)
        return 1
    width = max(map(len, words), default=0)
    for word, sounds in zip(words, phonemes, strict=True):
        print(f"{word:<{width}}  {' '.join(sounds)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
