"""A network of the kind that transfers styles, as pydirectml's users write it: instance normalization, a residual block, transposed
convolutions whose output sizes are given, and upsampling.

    python -m dmlpy.pydirectml --device numpy examples/pydirectml/style.py [--save FILE]
"""

import argparse

import numpy as np
import pydirectml as dml

SIZE = 15


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--save", help="writes the picture to a file of NumPy")
    options = parser.parse_args()

    random = np.random.RandomState(3)
    device = dml.Device()
    graph = dml.GraphBuilder(device)
    bindings = []

    def tensor(data, sizes, policy=dml.TensorPolicy.default):
        expression = dml.input_tensor(graph, len(bindings), dml.TensorDesc(dml.TensorDataType.FLOAT32, sizes, policy))
        bindings.append(dml.Binding(expression, data))
        return expression

    def normalized(x):
        channels = x.get_output_desc().sizes[1]
        scale, bias = (tensor(random.uniform(0.5, 1.5, channels), [1, channels, 1, 1]) for _ in range(2))
        return dml.mean_variance_normalization(x, scale, bias, [2, 3], True, 1e-5)

    def filters(*sizes):
        return tensor(random.normal(0, 1 / np.sqrt(np.prod(sizes[1:])), sizes), list(sizes))

    # The pixels lie in the order of a picture's file: height, width, channel.
    picture = tensor(random.uniform(0, 1, (1, SIZE, SIZE, 3)), [1, 3, SIZE, SIZE], dml.TensorPolicy.interleaved_channel)
    x = dml.padding(picture, dml.PaddingMode.EDGE, 0, [0, 0, 1, 1], [0, 0, 1, 1])
    x = dml.activation_relu(normalized(dml.convolution(x, filters(6, 3, 3, 3), strides=[2, 2])))
    block = dml.convolution(x, filters(6, 6, 3, 3), start_padding=[1, 1], end_padding=[1, 1])
    x = dml.add(normalized(block), x, dml.FusedActivation(dml.OperatorType.ACTIVATION_RELU))
    # Of a stride of 2 an output of 15 and one of 16 are possible; the sizes tell which.
    x = dml.convolution(
        x,
        filters(6, 4, 3, 3),
        direction=dml.ConvolutionDirection.BACKWARD,
        strides=[2, 2],
        start_padding=[1, 1],
        end_padding=[1, 1],
        output_sizes=[1, 4, 16, 16],
    )
    x = dml.up_sample_2d(dml.activation_tanh(normalized(x)), dml.Size2D(2, 2), dml.InterpolationMode.NEAREST_NEIGHBOR)
    x = dml.slice(x, [0, 0, 1, 1], [1, 4, 30, 30], [1, 1, 1, 1])
    x = dml.activation_sigmoid(dml.convolution(x, filters(3, 4, 3, 3), start_padding=[1, 1], end_padding=[1, 1]))
    result = x * 150.0 + 127.5

    model = graph.build(dml.ExecutionFlags.NONE, [result])
    (data,) = device.compute(model, bindings, [result])
    pixels = np.array(data)
    print("picture", pixels.shape, "mean", f"{pixels.mean():.2f}")
    if options.save:
        np.savez(options.save, picture=pixels)


if __name__ == "__main__":
    main()
