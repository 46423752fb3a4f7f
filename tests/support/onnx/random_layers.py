"""Recurrent layers, attention and matrix products in random graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dmlpy as dml
from tests.support.onnx.random_parts import Parts

FUSED: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: dml.ActivationReluDesc(),
    lambda: dml.ActivationTanhDesc(),
    lambda: dml.ActivationLeakyReluDesc(alpha=0.25),
    lambda: dml.ActivationScaledEluDesc(alpha=1.5, gamma=0.5),
    lambda: dml.ActivationSoftplusDesc(steepness=2.0),
    lambda: dml.ElementWiseClipDesc(min=-0.5, max=0.75),
)
_CELLS: tuple[tuple[Any, int], ...] = ((dml.RNNDesc, 1), (dml.GRUDesc, 3), (dml.LSTMDesc, 4))
_FUNCTIONS: tuple[Callable[[], Any], ...] = (
    lambda: dml.ActivationSigmoidDesc(),
    lambda: dml.ActivationTanhDesc(),
    lambda: dml.ActivationHardSigmoidDesc(alpha=0.2, beta=0.5),
    lambda: dml.ActivationLinearDesc(alpha=0.5, beta=0.1),
    lambda: dml.ActivationIdentityDesc(),
    lambda: dml.ActivationScaledTanhDesc(alpha=0.5, beta=1.5),
    lambda: dml.ActivationLeakyReluDesc(alpha=0.25),
    lambda: dml.ActivationEluDesc(alpha=0.5),
    lambda: dml.ActivationSoftsignDesc(),
)


class Layers(Parts):
    """The layers."""

    def recurrent(self, value: Any) -> Any:
        steps, batch, width = value.tensor.sizes[1:]
        one = (
            self.g.add(
                dml.ReduceDesc,
                input_tensor=value,
                output_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1, steps, batch, width]),
                function="SUM",
                axes=[0],
            )
            if value.tensor.sizes[0] > 1
            else value
        )
        kind, gates = self.draw.choice(_CELLS)
        direction = self.draw.choice(["FORWARD", "BACKWARD", "BIDIRECTIONAL"])
        ways, hidden = 2 if direction == "BIDIRECTIONAL" else 1, 3
        tensors = {
            "weight_tensor": self.input([1, ways, gates * hidden, width]),
            "recurrence_tensor": self.input([1, ways, gates * hidden, hidden]),
        }
        if self.draw.random() < 0.5:
            tensors["bias_tensor"] = self.input([1, 1, ways, 2 * gates * hidden])
        if self.draw.random() < 0.5:
            tensors["hidden_init_tensor"] = self.input([1, ways, batch, hidden])
        if self.draw.random() < 0.5:
            tensors["sequence_lengths_tensor"] = self.numbers(0, steps, [1, 1, 1, batch], "uint32")
        members: dict[str, Any] = {}
        if kind is dml.GRUDesc:
            members["linear_before_reset"] = self.draw.random() < 0.5
        if kind is dml.LSTMDesc:
            if self.draw.random() < 0.5:
                tensors["cell_mem_init_tensor"] = self.input([1, ways, batch, hidden])
            if self.draw.random() < 0.5:
                tensors["peephole_tensor"] = self.input([1, 1, ways, 3 * hidden])
            clips = self.draw.random() < 0.5
            members |= {
                "clip_threshold": 0.5 if clips else 0.0,
                "use_clip_threshold": clips,
                "couple_input_forget": self.draw.random() < 0.5,
            }
        count = {1: 1, 3: 2, 4: 3}[gates] * ways
        last = self.draw.random() < 0.5
        output = (
            {"output_single_tensor": self.laid([1, ways, batch, hidden])}
            if last
            else {"output_sequence_tensor": self.laid([steps, ways, batch, hidden])}
        )
        absent = {
            name: None
            for name in ("output_sequence_tensor", "output_single_tensor", "output_cell_single_tensor")
            if name in kind.model_fields
        }
        return self.g.add(
            kind,
            input_tensor=one,
            activation_descs=[self.draw.choice(_FUNCTIONS)() for _ in range(count)],
            direction=direction,
            **tensors,
            **members,
            **{**absent, **output},
        )

    def attention(self, value: Any) -> Any:
        batch, channels, length, width = value.tensor.sizes
        one = self.g.add(
            dml.ElementWiseIdentityDesc, input_tensor=value, output_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=value.tensor.sizes)
        )
        query = one.viewed(
            dml.TensorDesc(
                data_type="FLOAT32", sizes=[batch, channels * length, width], total_tensor_size_in_bytes=one.tensor.size_in_bytes
            )
        )
        keys = 4
        members: dict[str, Any] = {"key_tensor": self.input([batch, keys, width]), "value_tensor": self.input([batch, keys, width])}
        kind = self.draw.choice(["NONE", "BOOLEAN", "KEY_SEQUENCE_LENGTH", "KEY_SEQUENCE_END_START"])
        mask = {"BOOLEAN": [batch, 1, 1, keys], "KEY_SEQUENCE_LENGTH": [1, batch], "KEY_SEQUENCE_END_START": [2, batch]}.get(kind)
        if mask is not None:
            members["mask_tensor"] = self.numbers(0, 1 if kind == "BOOLEAN" else keys, mask, "int32")
        if self.draw.random() < 0.5:
            members["bias_tensor"] = self.input([3 * width])
        found = self.g.add(
            dml.MultiheadAttentionDesc,
            query_tensor=query,
            **members,
            scale=0.5,
            mask_filter_value=-100.0,
            head_count=1,
            mask_type=kind,
            output_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[batch, channels * length, width]),
            output_present_key_tensor=None,
            output_present_value_tensor=None,
        )
        return found.viewed(one.tensor.replace(total_tensor_size_in_bytes=found.tensor.size_in_bytes))

    def product(self, value: Any) -> Any:
        *batch, rows, columns = value.tensor.sizes
        turned = self.draw.random() < 0.5, self.draw.random() < 0.5
        inner, outer = (rows, columns) if turned[0] else (columns, rows)
        other = self.input([*batch, 3, inner] if turned[1] else [*batch, inner, 3])
        added = self.input([*batch, outer, 3]) if self.draw.random() < 0.5 else None
        names = ["TRANSPOSE" if own else "NONE" for own in turned]
        return self.g.add(
            dml.GEMMDesc,
            a_tensor=value,
            b_tensor=other,
            c_tensor=added,
            trans_a=names[0],
            trans_b=names[1],
            alpha=self.draw.choice([1.0, 0.5]),
            beta=self.draw.choice([1.0, -0.5]),
            fused_activation=self.draw.choice(FUSED[:5])(),
        )
