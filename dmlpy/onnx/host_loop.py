"""Loop on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto
from onnx.reference.ops.op_loop import Loop as ReferenceLoop

from dmlpy.onnx.elements import dtype_of
from dmlpy.onnx.values import of_proto


class Loop(ReferenceLoop):
    """Loop as ONNX defines it: each scan output has a dimension of its own for the iterations.

    The reference implementation puts rows of scalars into columns, and matrices one behind the other.
    """

    op_domain = ""

    def _run(
        self,
        M: Any,  # noqa: N803
        cond: Any,
        *args: Any,
        context: Any = None,
        body: Any = None,
        attributes: Any = None,
        bindings: Any = None,
    ) -> tuple[Any, ...]:
        own: Any = self  # the attributes, of which the class does not tell
        body, count, states = own.body, M, args
        names, results = body.input_names, body.output_names
        values = dict(context or {})
        rows: list[list[Any]] = [[] for _ in results[1 + len(states) :]]
        carried, step = list(states), 0
        goes_on = cond is None or bool(np.ravel(cond)[0])
        while goes_on and (count is None or step < int(np.ravel(count)[0])):
            values.update(zip(names, [np.asarray(step, np.int64), np.asarray(goes_on), *carried], strict=False))
            found = own._run_body(values, attributes=attributes, bindings=bindings)
            goes_on = bool(np.ravel(found[0])[0])
            carried = list(found[1 : 1 + len(states)])
            for row, value in zip(rows, found[1 + len(states) :], strict=True):
                row.append(value)
            step += 1
        declared = body.proto_.output[1 + len(states) :]
        return (*carried, *(np.stack(row) if row else _no_rows(item) for row, item in zip(rows, declared, strict=True)))


def _no_rows(item: Any) -> Any:
    """What a scan output is after no iterations; sizes that the body does not declare are 0."""
    row = of_proto(item.name, item.type)
    sizes = [size if isinstance(size, int) else 0 for size in row.sizes or ()]
    return np.empty([0, *sizes], dtype_of(row.element or TensorProto.FLOAT))
