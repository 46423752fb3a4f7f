"""The facts about directml.h under `tests/facts`, read as plain data. Nothing here looks at dmlpy's own classes."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "facts"


@cache
def operators() -> dict[str, dict[str, Any]]:
    """The operator catalogue by type name: `DML_OPERATOR_RNN`."""
    files = sorted((FOLDER / "operators").glob("*.json"))
    return {fact["operator"]: fact for fact in (json.loads(file.read_text(encoding="utf-8")) for file in files)}


@cache
def enums() -> dict[str, Any]:
    """Enumerations, constants, structs and results, as `enums.json` holds them."""
    data: dict[str, Any] = json.loads((FOLDER / "enums.json").read_text(encoding="utf-8"))
    return data


@cache
def relations() -> dict[str, Any]:
    """The catalogue's constraints, transcribed into data."""
    return tomllib.loads((FOLDER / "relations.toml").read_text(encoding="utf-8"))


@cache
def known_differences() -> list[dict[str, str]]:
    """Where dmlpy differs from the facts on purpose, each with its reason."""
    found: list[dict[str, str]] = tomllib.loads((FOLDER / "differences.toml").read_text(encoding="utf-8"))["difference"]
    return found


def python_name(c_name: str) -> str:
    """`InputTensor` as Python spells it, `input_tensor`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", c_name).lower()


def tensors(fact: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The tensor members of an operator's struct, in order."""
    return {field["name"]: field for field in fact["fields"] if field["type"] == "TENSOR_DESC"}


def usual_defaults(fact: dict[str, Any]) -> dict[str, str]:
    """The attributes' usual defaults, as the constraints write them."""
    found = {}
    for constraint in fact["constraints"]:
        if match := re.match(r"(\w+)\b.*usual default (\S+)", constraint):
            found[match[1]] = match[2]
    return found


def recurrent_activations(*, accepted: bool) -> list[str]:
    """Activation operators that every fusing operator fuses, so that a recurrent cell takes them; or all the others."""
    sets = enums()["sets"]
    fused = set(sets["fusable_activations"]) - set(sets["fusable_only_by"])
    names = [name for name in operators() if "_ACTIVATION_" in name]
    return [name for name in names if (name in fused) == accepted]
