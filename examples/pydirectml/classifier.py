"""A small image classifier, as pydirectml's users write it: padding, convolutions, two branches that are joined, pooling, a dense layer.

python -m dmlpy.pydirectml --device numpy examples/pydirectml/classifier.py [--save FILE]
"""

import argparse

import numpy as np
import pydirectml as dml


class Network:
    """The layers with their weights: each weight is an input of the graph that DirectML owns."""

    def __init__(self, device, seed=1):
        self.graph = dml.GraphBuilder(device)
        self.random = np.random.RandomState(seed)
        self.bindings = []

    def tensor(self, data, sizes, strides=None, owned=True):
        flags = dml.TensorFlags.OWNED_BY_DML if owned else dml.TensorFlags.NONE
        if strides is None:
            desc = dml.TensorDesc(dml.TensorDataType.FLOAT32, flags, sizes)
        else:
            desc = dml.TensorDesc(dml.TensorDataType.FLOAT32, flags, sizes, strides, data.size * 4, 0)
        expression = dml.input_tensor(self.graph, len(self.bindings), desc)
        self.bindings.append(dml.Binding(expression, data))
        return expression

    def weights(self, *sizes):
        # float64 on purpose: a Binding casts.
        return self.random.normal(0, np.sqrt(2 / np.prod(sizes[1:])), sizes)

    def convolution(self, x, channels, size, padding=0, stride=1):
        inputs = x.get_output_desc().sizes[1]
        filters = self.tensor(self.weights(channels, inputs, size, size), [channels, inputs, size, size])
        # [channels, 1, 1] holds all of the bias: its size in bytes is what counts.
        bias = self.tensor(self.random.normal(0, 0.1, (channels, 1, 1)), [1, channels, 1, 1])
        return dml.convolution(
            x,
            filters,
            bias,
            strides=[stride, stride],
            start_padding=[padding, padding],
            end_padding=[padding, padding],
            fused_activation=dml.FusedActivation(dml.OperatorType.ACTIVATION_RELU),
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--save", help="writes the image and the results to a file of NumPy")
    options = parser.parse_args()

    device = dml.Device(True, False)
    network = Network(device)
    image = np.random.RandomState(0).uniform(0, 255, (1, 3, 24, 24))
    x = network.tensor(image, [1, 3, 24, 24], owned=False)
    x = dml.value_scale_2d(x, 1 / 128, [-1.0, -1.0, -1.0])
    x = dml.padding(x, dml.PaddingMode.REFLECTION, 0, [0, 0, 1, 1], [0, 0, 1, 1])
    x = network.convolution(x, 8, 3, stride=2)
    squeezed = network.convolution(x, 4, 1)
    x = dml.join([network.convolution(squeezed, 6, 1), network.convolution(squeezed, 6, 3, padding=1)], 1)
    shift = network.tensor(np.linspace(-0.5, 0.5, 12).reshape(12, 1, 1), [1, 12, 12, 12], [12, 1, 0, 0])
    x = x * 0.5 + shift
    pooled = dml.max_pooling(x, [3, 3], [2, 2], output_indices=True)
    x = dml.local_response_normalization(pooled.values, True, 5, 1e-4, 0.75, 1.0)
    x = dml.average_pooling(x, [1, 1], [5, 5], [0, 0], [0, 0], False)
    x = dml.reinterpret(x, dml.TensorDataType.FLOAT32, [1, 1, 1, 12], [12, 12, 12, 1])
    scores = dml.gemm(
        x,
        network.tensor(network.weights(10, 12), [1, 1, 10, 12]),
        network.tensor(np.arange(10) / 10, [1, 1, 1, 10]),
        trans_b=dml.MatrixTransform.TRANSPOSE,
    )
    probabilities = dml.activation_soft_max(scores)
    unused = dml.activation_tanh(scores)  # no output needs it: it is left out

    model = network.graph.build(dml.ExecutionFlags.NONE, [probabilities, pooled.values])
    results = device.compute(model, network.bindings, [probabilities, pooled.values])
    found = np.array(results[0], np.float32).flatten()
    print(repr(device), "probabilities", " ".join(f"{value:.4f}" for value in found))
    print("best", int(found.argmax()), "of", unused.get_output_desc().sizes[-1])
    if options.save:
        np.savez(options.save, probabilities=np.array(results[0]), pooled=np.array(results[1]))


if __name__ == "__main__":
    main()
