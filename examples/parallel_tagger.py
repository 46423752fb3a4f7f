"""Trains a tagger that finds the words in a text without spaces, on several processes, and goes on where it was killed.

    python examples/parallel_tagger.py [--processes 2] [--steps 300] [--checkpoint tagger.pt]

Each letter is tagged as the first of a word or not, by an Embedding, a bidirectional dmlpy.torch.LSTM over packed sequences of different
lengths, and a Linear. PyTorch's DistributedDataParallel averages the gradients of the processes, which talk by gloo; with NCCL and a GPU
for each process the model is the same. The first process stores model, optimizer and step every few steps; called again after it was
killed, the program goes on from there and ends with the same loss. A run that ends removes the checkpoint.

The words come from comments and docstrings of the standard library. It prints the share of letters that are tagged right in text that it
was not trained on, beside that of always saying no. The exit status is 1 if the share does not reach --target. It needs PyTorch:

    pip install torch
"""

from __future__ import annotations

import argparse
import re
import sys
import sysconfig
import tempfile
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

import dmlpy.torch as dt

MODULES = """
argparse configparser difflib doctest enum inspect ipaddress mailbox optparse pydoc subprocess tarfile threading typing"""
HELD_OUT = "shutil"
SHORTEST, LONGEST = 3, 12
"""Words of a sequence."""
BATCH = 32
"""Sequences of a step, shared among the processes."""
LETTERS = 27
"""0 to 25, and one more that no text has."""


# The text


def read_words(*modules: str) -> list[str]:
    """The words of comments and texts in modules of the standard library, in lower case."""
    found: list[str] = []
    for name in modules:
        with (Path(sysconfig.get_paths()["stdlib"]) / f"{name}.py").open("rb") as source:
            for token in tokenize.tokenize(source.readline):
                if token.type in (tokenize.COMMENT, tokenize.STRING):
                    found += re.findall(r"\b[a-z]+\b", token.string.lower())
    return found


def sequence(words: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """The letters of words without spaces, [T], and a 1 for each word's first letter, [T]."""
    letters = [ord(letter) - ord("a") for word in words for letter in word]
    firsts = [float(place == 0) for word in words for place in range(len(word))]
    return torch.tensor(letters), torch.tensor(firsts)


def batch(words: Sequence[str], step: int, rank: int, processes: int) -> tuple[PackedSequence, PackedSequence]:
    """A process's sequences of a step and their tags. The step alone decides what all processes together read."""
    random = torch.Generator().manual_seed(step)
    places = torch.randint(len(words) - LONGEST, (BATCH,), generator=random).tolist()
    counts = torch.randint(SHORTEST, LONGEST + 1, (BATCH,), generator=random).tolist()
    pairs = [sequence(words[place : place + count]) for place, count in zip(places, counts, strict=True)][rank::processes]
    return pack_sequence([pair[0] for pair in pairs], False), pack_sequence([pair[1] for pair in pairs], False)


# The model


class Tagger(nn.Module):
    """Logits of the letters' tags."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(LETTERS, 16)
        self.rnn = dt.LSTM(16, hidden, bidirectional=True)
        self.head = nn.Linear(2 * hidden, 1)

    def forward(self, letters: PackedSequence) -> torch.Tensor:
        output, _ = self.rnn(letters._replace(data=self.embedding(letters.data)))
        found: torch.Tensor = self.head(output.data).squeeze(-1)
        return found


# The run


def work(rank: int, options: argparse.Namespace, store: str) -> None:
    """What each process does."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=options.processes)
    torch.manual_seed(options.seed)
    model = nn.parallel.DistributedDataParallel(Tagger(options.hidden))
    descent = torch.optim.Adam(model.parameters(), 0.01)
    first = 0
    if options.checkpoint.exists():
        stored: dict[str, Any] = torch.load(options.checkpoint)
        model.module.load_state_dict(stored["model"])
        descent.load_state_dict(stored["optimizer"])
        first = stored["step"]
        if rank == 0:
            print(f"goes on at step {first}", flush=True)
    words = read_words(*MODULES.split())
    loss = torch.zeros(())
    for step in range(first, options.steps):
        letters, tags = batch(words, step, rank, options.processes)
        descent.zero_grad()
        # The mean over all processes' letters: DistributedDataParallel divides by the number of processes.
        count = torch.tensor(float(len(tags.data)))
        torch.distributed.all_reduce(count)
        total = nn.functional.binary_cross_entropy_with_logits(model(letters), tags.data, reduction="sum")
        loss = total * options.processes / count
        loss.backward()
        descent.step()
        if rank == 0 and (step + 1) % options.every == 0:
            save(options.checkpoint, {"model": model.module.state_dict(), "optimizer": descent.state_dict(), "step": step + 1})
    torch.distributed.all_reduce(loss := loss.detach() / options.processes)
    if rank == 0:
        print(f"{options.processes} processes, {options.steps} steps: loss {loss.item():.6f}", flush=True)
        options.checkpoint.unlink(missing_ok=True)  # or the next run would have nothing to train
        report(model.module, options)
    torch.distributed.destroy_process_group()


def save(path: Path, state: dict[str, Any]) -> None:
    """Replaces a file at once, so that a process that is killed leaves the old one or the new one."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    torch.save(state, unfinished)
    unfinished.replace(path)


@torch.no_grad()
def report(model: nn.Module, options: argparse.Namespace) -> None:
    """Prints the shares and an example; exits with status 1 if the target was not reached."""
    words = read_words(HELD_OUT)
    right = letters = firsts = 0.0
    for given, tags in held_out(words):
        found = model(given) > 0
        right += (found == (tags.data > 0.5)).sum().item()
        firsts += tags.data.sum().item()
        letters += len(tags.data)
    share = right / letters
    print(f"tagged right: {100 * share:.1f}% of the letters of {HELD_OUT}.py; {100 * (1 - firsts / letters):.1f}% by always saying no")
    print(split("thisfunctioncopiesthefiletoanotherplace", model))
    reached = 100 * share >= options.target
    print(f"target of {options.target:.1f}%: {'reached' if reached else 'NOT reached'}", flush=True)
    if not reached:
        sys.exit(1)


def held_out(words: Sequence[str]) -> Iterator[tuple[PackedSequence, PackedSequence]]:
    for start in range(0, len(words) - 8, 8 * BATCH):
        pairs = [sequence(words[place : place + 8]) for place in range(start, min(start + 8 * BATCH, len(words)), 8)]
        yield pack_sequence([pair[0] for pair in pairs], False), pack_sequence([pair[1] for pair in pairs], False)


def split(text: str, model: nn.Module) -> str:
    """A text with a space before each letter that is tagged as the first of a word."""
    letters, _ = sequence([text])
    starts = (model(pack_sequence([letters])) > 0).tolist()
    return "".join(f" {letter}" if start else letter for letter, start in zip(text, starts, strict=True)).strip()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=300, help=f"updates, each on {BATCH} sequences (default %(default)s)")
    parser.add_argument("--hidden", type=int, default=64, help="units of each direction (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first weights (default %(default)s)")
    parser.add_argument("--every", type=int, default=20, help="steps between two checkpoints (default %(default)s)")
    parser.add_argument("--target", type=float, default=90.0, help="percent of the letters to tag right (default %(default)s)")
    parser.add_argument("--checkpoint", type=Path, default=Path("tagger.pt"), help="the checkpoint's file (default %(default)s)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        try:
            torch.multiprocessing.spawn(work, (options, f"{folder}/store"), nprocs=options.processes)
        except torch.multiprocessing.ProcessExitedException as error:
            return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
