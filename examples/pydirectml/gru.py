"""A bidirectional GRU over a few sequences, as pydirectml's users write it.

python -m dmlpy.pydirectml --device numpy examples/pydirectml/gru.py [--save FILE]
"""

import argparse

import numpy as np
import pydirectml as dml

STEPS, BATCH, INPUTS, HIDDEN = 6, 3, 4, 5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--save", help="writes the results to a file of NumPy")
    options = parser.parse_args()

    random = np.random.RandomState(7)
    device = dml.Device()
    graph = dml.GraphBuilder(device)
    arrays = {
        "input": random.normal(size=(1, STEPS, BATCH, INPUTS)),
        "weight": random.normal(size=(1, 2, 3 * HIDDEN, INPUTS)) / 2,
        "recurrence": random.normal(size=(1, 2, 3 * HIDDEN, HIDDEN)) / 2,
        "bias": random.normal(size=(1, 1, 2, 6 * HIDDEN)) / 4,
        "hidden_init": random.normal(size=(1, 2, BATCH, HIDDEN)),
    }
    tensors = {
        name: dml.input_tensor(graph, index, dml.TensorDesc(dml.TensorDataType.FLOAT32, list(array.shape)))
        for index, (name, array) in enumerate(arrays.items())
    }
    functions = [
        dml.FusedActivation(dml.OperatorType.ACTIVATION_SIGMOID),
        dml.FusedActivation(dml.OperatorType.ACTIVATION_TANH),
    ]
    outputs = dml.gru(
        tensors["input"],
        tensors["weight"],
        tensors["recurrence"],
        tensors["bias"],
        tensors["hidden_init"],
        None,
        functions * 2,
        dml.RecurrentNetworkDirection.BIDIRECTIONAL,
        True,
        dml.OutputOptions.Both,
    )
    mean = (outputs.sequence - 0.5) / 2.0

    model = graph.build(dml.ExecutionFlags.NONE, [mean, outputs.single])
    bindings = [dml.Binding(tensors[name], array) for name, array in arrays.items()]
    sequence, single = (np.array(data) for data in device.compute(model, bindings, [mean, outputs.single]))
    print("sequence", sequence.shape, f"{sequence.mean():.4f}")
    print("single", single.shape, " ".join(f"{value:.4f}" for value in single[0, :, 0, 0]))
    if options.save:
        np.savez(options.save, sequence=sequence, single=single)


if __name__ == "__main__":
    main()
