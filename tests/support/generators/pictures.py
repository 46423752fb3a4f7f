"""The pictures of the gallery: `python -m tests.support.generators.pictures [--check]` draws them into `dmlpy/docs/pictures`.

With `--check` nothing is written: it fails if a picture would say something else. Graphviz and Matplotlib place things a little differently
from version to version, so texts are compared, not places.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import dmlpy as dml
from dmlpy import x
from dmlpy.description.layout_picture import layout_svg
from tests.support.folders import EXAMPLES, ROOT
from tests.support.generators import recording
from tests.support.scripts import example

FOLDER = ROOT / "dmlpy" / "docs" / "pictures"
WHITE = '<rect width="100%" height="100%" fill="white"/>'


def layout() -> str:
    """A tensor with its channels last."""
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 3, 2, 4], strides=[24, 1, 12, 3])
    picture = layout_svg(tensor.sizes, tensor.element_strides, axis_names=["batch", "channel", "height", "width"], label=tensor.summary())
    return _standing_alone(picture.replace("var(--dmlpy-picture, currentColor)", "#3a7bd5"))


def network(image: x.Expression) -> x.Expression:
    """A residual block with a pooling and a classifier behind it."""
    rng = np.random.default_rng(0)

    def convolved(value: x.Expression, filters: int, **options: Any) -> x.Expression:
        weights = rng.standard_normal((filters, value.tensor.sizes[1], 3, 3), np.float32)
        return x.convolution(value, weights, start_padding=[1, 1], end_padding=[1, 1], **options)

    with x.name_scope("stem"):
        stem = convolved(image, 16, fused_activation=dml.ActivationReluDesc())
    with x.name_scope("block"):
        block = x.activation_relu(convolved(convolved(stem, 16, fused_activation=dml.ActivationReluDesc()), 16) + stem)
    with x.name_scope("head"):
        pooled = x.average_pooling1(block, strides=[16, 16], window_size=[16, 16], include_padding=False)
        flat = pooled.reshape(1, 1, 1, 16)
        return x.activation_softmax1(x.gemm(flat, rng.standard_normal((1, 1, 16, 10), np.float32)), axes=[3])


def graph() -> str:
    """The network's graph, as Graphviz draws it."""
    drawn = x.graph(network(x.input("image", [1, 3, 16, 16])), name="network")._repr_svg_()
    if drawn is None:
        raise RuntimeError("the picture of a graph is drawn by Graphviz's program dot, which is not installed")
    return drawn[drawn.index("<svg") :]


def memory() -> str:
    """The memory of the super-resolution network on one thread: the scratch of a convolution grows with its threads."""
    superresolution = example("superresolution")
    with threadpool_limits(1, user_api="blas"):
        return _standing_alone(x.compile(superresolution.network(16, 16, "nchw"), "numpy").memory_svg())


def training() -> str:
    """The history of a network that learns to add two marked numbers."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from dmlpy.docs.notebook import figure_svg
    from dmlpy.keras import LSTM, Adam, Dense, Sequential

    rng = np.random.default_rng(0)
    numbers, marks = rng.random((800, 10), np.float32), np.zeros((800, 10), np.float32)
    np.put_along_axis(marks, np.argsort(rng.random((800, 10)))[:, :2], 1, axis=1)
    inputs, sums = np.stack([numbers, marks], axis=-1), (numbers * marks).sum(axis=1)
    model = Sequential(device="numpy", seed=0)
    model.add(LSTM(16, input_dim=2, input_length=10))
    model.add(Dense(1))
    model.compile(Adam(0.01), "mse")
    history = model.fit(inputs[:600], sums[:600], nb_epoch=20, validation_data=(inputs[600:], sums[600:]), verbose=0)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dmlpy"}):
        figure = Figure((7, 3.5))
        axes = history.plot(figure.add_subplot())
        axes.set(yscale="log", ylabel="mean squared error", title="An LSTM learns to add the two marked numbers of ten")
        return figure_svg(figure)


def terminal() -> str:
    """A session with the command line."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = (EXAMPLES / "rnn.json").read_text("utf-8")
        (folder / "rnn.json").write_text(text, "utf-8")
        wrong = text.replace('"Sizes": [1, 2, 5, 4] }', '"Sizes": [1, 2, 4, 5] }').replace('"ELU", "Alpha": 3.5', '"ELU"')
        (folder / "wrong.json").write_text(wrong, "utf-8")
        commands = ("dmlpy check wrong.json", "dmlpy run rnn.json --device numpy", "dmlpy explain size.equal")
        return recording.picture([(command, recording.output_of(command, folder)) for command in commands], "dmlpy")


def enlarged() -> bytes:
    """A picture of 32 x 32, with its pixels made larger, and beside it what the super-resolution example makes of it, twice."""
    from PIL import Image

    superresolution = example("superresolution")
    rows, columns = np.mgrid[0:32, 0:32] / 31 - 0.5
    rings = 0.5 + 0.5 * np.cos(26 * np.hypot(rows + 0.15, columns + 0.1))
    small = np.rint(255 * np.stack([rings, 0.5 + columns, 0.9 - 0.7 * rings * (0.5 + rows)], axis=-1)).astype(np.uint8)
    weights = superresolution.linear_weights()
    large = superresolution.enlarge(superresolution.enlarge(small, weights, "numpy"), weights, "numpy")
    gap = np.full((256, 16, 3), 255, np.uint8)
    beside = np.hstack([small.repeat(8, 0).repeat(8, 1), gap, large.repeat(2, 0).repeat(2, 1)])
    data = io.BytesIO()
    Image.fromarray(beside).save(data, "PNG", optimize=True)
    return data.getvalue()


PICTURES: Mapping[str, Callable[[], str | bytes]] = {
    "layout.svg": layout,
    "graph.svg": graph,
    "memory.svg": memory,
    "training.svg": training,
    "terminal.svg": terminal,
    "enlarged.png": enlarged,
}


def _standing_alone(picture: str) -> str:
    """A picture for pages as a file: on white, in black."""
    start = picture.index(">") + 1
    opening = picture[:start].replace('fill="currentColor"', 'fill="black" color="black"')
    return f"{opening}{WHITE}{picture[start:]}\n"


def texts(picture: str | bytes) -> list[str]:
    """The words of an SVG in their order; of a PNG its size."""
    if isinstance(picture, bytes):
        return [str(tuple(picture[16:24]))]
    inside = re.sub(r"<(style|metadata|defs)\b.*?</\1>|<!--.*?-->", "", picture, flags=re.DOTALL)
    return [unescape(text).strip() for text in re.findall(r">([^<>]+)<", inside) if text.strip()]


def stale(name: str) -> bool:
    """Whether a picture is missing or shows other words than it would."""
    path = FOLDER / name
    if not path.is_file():
        return True
    return texts(path.read_bytes() if path.suffix == ".png" else path.read_text("utf-8")) != texts(PICTURES[name]())


def main(arguments: Sequence[str]) -> int:
    """Runs the command and returns its exit status."""
    if "--check" in arguments:
        found = [name for name in PICTURES if stale(name)]
        print("\n".join(f"{name} is not current: python -m tests.support.generators.pictures" for name in found))
        return 1 if found else 0
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        if stale(name) or "--all" in arguments:
            picture = draw()
            (FOLDER / name).write_bytes(picture if isinstance(picture, bytes) else picture.encode())
            print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
