"""Exports small PyTorch models to ONNX and stores them with their inputs and outputs: `python tests/data/recompute_exported_models.py`.

Needs PyTorch and onnxscript. Each model is exported twice, with dynamo and by the older exporter; weights are random and small.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

from tests.support.folders import EXPORTED_MODELS


class Tagger(nn.Module):
    """Labels for the words of a sentence: embedding, two bidirectional LSTM layers, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 8)
        self.lstm = nn.LSTM(8, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.labels = nn.Linear(12, 5)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.embedding(words))
        return torch.log_softmax(self.labels(states), dim=-1)


class Cnn(nn.Module):
    """A picture's class: convolutions with normalization, one depthwise, a residual, pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
        self.depthwise = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), nn.BatchNorm2d(8), nn.Hardswish())
        self.point = nn.Conv2d(8, 8, 1)
        self.classes = nn.Linear(8, 4)

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        seen = self.first(picture)
        seen = seen + self.point(self.depthwise(seen))
        pooled = nn.functional.max_pool2d(seen, 2)
        return torch.softmax(self.classes(nn.functional.adaptive_avg_pool2d(pooled, 1).flatten(1)), dim=1)


class Transformer(nn.Module):
    """Two encoder layers over embedded words, with a mask of what is padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, 16)
        self.position = nn.Parameter(torch.randn(1, 7, 16) * 0.1)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "query": nn.Linear(16, 48),
                    "out": nn.Linear(16, 16),
                    "norm1": nn.LayerNorm(16),
                    "norm2": nn.LayerNorm(16),
                    "up": nn.Linear(16, 32),
                    "down": nn.Linear(32, 16),
                }
            )
            for _ in range(2)
        )

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.embedding(words) + self.position
        batch, length, width = x.shape
        allowed = mask[:, None, None, :]
        layers: Any = self.layers
        for layer in layers:
            parts = layer["query"](layer["norm1"](x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
            attended = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], attn_mask=allowed)
            x = x + layer["out"](attended.transpose(1, 2).reshape(batch, length, width))
            x = x + layer["down"](nn.functional.gelu(layer["up"](layer["norm2"](x))))
        return x.mean(dim=1)


class Joint(nn.Module):
    """The joint network of an RNN transducer: the encoder's and the predictor's outputs, for each pair of steps."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 6)
        self.predictor = nn.GRU(6, 8, batch_first=True)
        self.encoder = nn.Linear(10, 8)
        self.out = nn.Linear(8, 12)

    def forward(self, sound: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        said, _ = self.predictor(self.embedding(labels))
        return torch.log_softmax(self.out(torch.tanh(self.encoder(sound)[:, :, None] + said[:, None])), dim=-1)


def cases() -> dict[str, tuple[nn.Module, dict[str, torch.Tensor]]]:
    """The models with example inputs."""
    torch.manual_seed(0)
    words = torch.randint(0, 30, (2, 9))
    mask = torch.tensor([[True] * 7, [True] * 5 + [False] * 2])
    return {
        "tagger": (Tagger(), {"words": words}),
        "cnn": (Cnn(), {"picture": torch.randn(2, 3, 16, 16)}),
        "transformer": (Transformer(), {"words": torch.randint(0, 40, (2, 7)), "mask": mask}),
        "joint": (Joint(), {"sound": torch.randn(1, 6, 10), "labels": torch.randint(0, 12, (1, 4))}),
    }


def main(folder: Path = EXPORTED_MODELS) -> None:
    """Writes the models and their arrays."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (module, inputs) in cases().items():
        module.eval()
        with torch.no_grad():
            for buffer in module.modules():
                if isinstance(buffer, nn.BatchNorm2d):
                    buffer.running_mean.normal_(0, 0.2)  # type: ignore[union-attr]
                    buffer.running_var.uniform_(0.5, 1.5)  # type: ignore[union-attr]
            result = module(*inputs.values())
        for exporter in (True, False):
            file = io.BytesIO()
            torch.onnx.export(module, tuple(inputs.values()), file, input_names=[*inputs], output_names=["result"], dynamo=exporter)
            proto = onnx.load_from_string(file.getvalue())
            _strip(proto)
            onnx.save(proto, folder / f"{name}_{'dynamo' if exporter else 'script'}.onnx")
        arrays: dict[str, Any] = {key: tensor.numpy() for key, tensor in inputs.items()}
        np.savez_compressed(folder / f"{name}.npz", result=result.numpy(), **arrays)


def _strip(proto: onnx.ModelProto) -> None:
    """Removes what identifies the machine: stack traces and paths."""
    del proto.metadata_props[:]
    proto.doc_string = ""
    for graph in [proto.graph]:
        del graph.metadata_props[:]
        for node in graph.node:
            del node.metadata_props[:]
            node.doc_string = ""
        for value in (*graph.value_info, *graph.input, *graph.output):
            del value.metadata_props[:]


if __name__ == "__main__":
    main()
