"""Which Windows runs this network as it is?

A small image classifier is described as a DirectML graph, without a GPU and without Windows; then every feature level is asked what it
objects to first. `--dot FILE` writes the graph for Graphviz.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import dmlpy as dml


def tensor(*sizes: int, data_type: str = "FLOAT32") -> dml.TensorDesc:
    return dml.TensorDesc(data_type=data_type, sizes=sizes)


def classifier(images: int = 4, classes: int = 10) -> dml.Graph:
    """Convolution, pooling, a dense layer and a softmax, over images of 3 x 28 x 28."""
    g = dml.GraphBuilder("classifier")
    x = g.input("images", tensor(images, 3, 28, 28))
    filters, bias = g.input("filters", tensor(16, 3, 5, 5)), g.input("bias", tensor(1, 16, 1, 1))
    x = g.add(
        dml.ConvolutionDesc,
        "convolution",
        input_tensor=x,
        filter_tensor=filters,
        bias_tensor=bias,
        strides=[1, 1],
        dilations=[1, 1],
        start_padding=[2, 2],
        end_padding=[2, 2],
        output_padding=[0, 0],
        group_count=1,
        fused_activation=dml.ActivationReluDesc(),
    )
    x = g.add(
        dml.MaxPoolingDesc,
        "pooling",
        input_tensor=x,
        strides=[2, 2],
        window_size=[2, 2],
        start_padding=[0, 0],
        end_padding=[0, 0],
    )
    # A reshape has no operator: the same bytes are read under another desc.
    x = x.viewed(tensor(images, 16 * 14 * 14))
    x = g.add(dml.GEMMDesc, "dense", a_tensor=x, b_tensor=g.input("weights", tensor(16 * 14 * 14, classes)))
    x = g.add(dml.ActivationSoftmax1Desc, "softmax", input_tensor=x, axes=[1])
    g.output("probabilities", x)
    return g.build()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dot", type=Path, help="where to write the graph for Graphviz")
    arguments = parser.parse_args()
    graph = classifier()
    for level in dml.FeatureLevel:
        problems = graph.check(level)
        print(f"{level}  {level.windows_version:15}  {problems[0].headline() if problems else 'takes it'}")
    if arguments.dot is not None:
        arguments.dot.write_text(graph.to_dot(), encoding="utf-8")


if __name__ == "__main__":
    main()
