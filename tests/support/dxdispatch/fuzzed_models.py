"""Models to damage, and the places in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dmlpy.dxdispatch import text
from tests.support.descs import facts_reader, relation_descs
from tests.support.dxdispatch.models import rnn_model
from tests.support.folders import EXAMPLES
from tests.support.graphs import cases as graph_cases


def bases() -> list[dict[str, Any]]:
    """Valid models with all that they can hold, and the descs in them."""
    models = [text.read(path).data for path in sorted(EXAMPLES.glob("*.json"))]
    full = rnn_model()
    full["resources"] |= {
        "mixed": {"initialValues": [{"type": "UINT8", "value": 3}, {"type": "FLOAT32", "value": 1}]},
        "nibbles": {
            "initialValuesDataType": "INT4",
            "initialValues": {"valueCount": 7, "valueStart": -8, "valueDelta": 3},
            "sizeInBytes": 64,
        },
        "array": {"initialValues": {"sourcePath": "a.npy"}},
        "bytes": {"initialValuesDataType": "UINT8", "initialValues": {"sourcePath": "a.dat"}, "initialValuesOffsetInBytes": 16},
    }
    full["commands"][0]["bindings"]["WeightTensor"] = {"name": "w", "elementCount": 1, "elementOffset": 0, "elementSizeInBytes": 4}
    full["commands"] += [
        {"type": "print", "resource": "nibbles", "verbose": True},
        {"type": "writeFile", "resource": "y", "targetPath": "out/y.npy", "dimensions": [2, 2]},
        {"type": "writeFile", "resource": "bytes", "targetPath": "bytes.bin"},
    ]
    models += [full, full]
    return models + [entry for data in models for entry in data["dispatchables"].values()]


def places(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value below one."""
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def at(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


def descs_and_graphs() -> list[dict[str, Any]]:
    """Valid descs of all operators, nested and flat, and graphs."""
    described = [
        relation_descs.data(operator, members.members)
        for operator in sorted(facts_reader.relations())
        for members in relation_descs.valid_descs(operator)[:2]
    ]
    flat = [{"Type": data["Type"], **data["Desc"]} for data in described if "Type" not in data["Desc"]]
    return described + flat + [graph_cases.network().to_dict(), *(graph_cases.random_network(seed).to_dict() for seed in range(20))] * 3
