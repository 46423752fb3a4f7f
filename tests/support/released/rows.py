"""What the tables of released descs are written with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import dmlpy as dml
from dmlpy.description.descs import OperatorDesc

CHROMIUM, ONNX_RUNTIME, TENSORFLOW, WEBNN_NATIVE, DIRECTML = "chromium", "onnxruntime", "tensorflow", "webnn-native", "directmlx"


@dataclass(frozen=True)
class ReleasedDesc:
    """A desc that a program builds.

    Attributes:
        source: the program, as `dmlpy.evidence.sources` has it.
        level: the feature level at which the program uses it.
        what: the program's case.
        desc: the desc; outputs that it leaves open are inferred.
        verdict: what `check` says: `accepted` or `undocumented`.
    """

    source: str
    level: str
    what: str
    desc: OperatorDesc
    verdict: str = "accepted"

    @property
    def complete(self) -> OperatorDesc:
        """The desc with all outputs that the operator requires."""
        missing = [field.name for field in self.desc.outputs() if field.marker.required and getattr(self.desc, field.name) is None]
        return self.desc.with_outputs() if missing else self.desc


def tensor(data_type: str, *sizes: int, strides: list[int] | None = None, flags: str = "NONE") -> dml.TensorDesc:
    """A tensor's desc with sizes in order."""
    return dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides, flags=flags)


f32, f16, f64 = partial(tensor, "FLOAT32"), partial(tensor, "FLOAT16"), partial(tensor, "FLOAT64")
i64, i32, i16, i8, i4 = (partial(tensor, name) for name in ("INT64", "INT32", "INT16", "INT8", "INT4"))
u64, u32, u16, u8, u4 = (partial(tensor, name) for name in ("UINT64", "UINT32", "UINT16", "UINT8", "UINT4"))
