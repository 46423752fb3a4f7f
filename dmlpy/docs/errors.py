"""The page of error codes: each with an example's code, and the error that it raised when the page was written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dmlpy.description.registry import OPERATORS
from dmlpy.docs.error_examples import Example, examples
from dmlpy.docs.links import between, error_anchor, error_document, operator_document
from dmlpy.docs.markdown import code, fence, page, prose, table
from dmlpy.docs.mistakes import Mistake

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc

SECTIONS: Mapping[str, str] = {
    "descs": "Descs",
    "rules": "Rules of single operators",
    "arrays": "Arrays, buffers and bindings",
    "graphs": "Graphs",
    "expressions": "Expressions",
    "models": "Files and models of DxDispatch",
    "onnx": "Models of ONNX",
    "keras": "Layers and models of dmlpy.keras",
    "dask": "Operators over chunked arrays",
}
"""The page's sections: those of `rules` list an operator's rules, the others the examples in the module of that name."""

MOST_FREQUENT: Mapping[str, str] = {
    "size.equal": "two sizes that have to be equal differ",
    "type.support": "the operator does not take this data type at this feature level",
    "type.equal": "tensors that share a data type have different ones",
    "dims.support": "the operator does not take this number of dimensions at this feature level",
    "tensor.missing": "a required tensor is not described",
    "array.shape": "an array does not have the sizes of its tensor",
}
"""The codes that people meet first, with which the page begins."""

_DUMP = "a dump of ONNX Runtime, a binary file, that is damaged or not as ONNX Runtime writes it"
WITHOUT_EXAMPLE: Mapping[str, str] = {
    "debug.stray": "an operator that writes beside its outputs: `dmlpy run --debug` looks for it",
    "derivative.forward": "a recurrent network of dmlpy.torch, where PyTorch differentiates in forward mode",
    "derivative.second": "the gradient of a recurrent network of dmlpy.torch, where PyTorch differentiates it",
    "file.changed": "a file that changes after a model was read, before it is used",
    "file.problems": "a model with so many problems that the rest is not looked for",
    "image.pillow": "a picture where Pillow is not installed",
    "onnx.file": "a file of an ONNX model that cannot be read",
    "onnx.input": "a node of an ONNX model that has an input which its lowering cannot take",
    "onnx.package": "an ONNX model where the package onnx is not installed",
    "onnx.protobuf": "a file that is not an ONNX model, or a damaged one",
    "onnx.sequence": "a sequence of an ONNX model whose tensors are not known before it runs",
    "onnx.size": "an ONNX model with more bodies within each other than are read, or sizes that no array or no memory has",
    "onnx.unforeseen": "a node of an ONNX model whose attributes or constant inputs are such that its lowering fails",
    "onnx.unroll": "a loop of an ONNX model with too many iterations to unroll",
    "operator.undefined": "an operator, or a part of one, whose semantics are not documented anywhere",
    **dict.fromkeys(("serialized.attributes", "serialized.constant", "serialized.edge"), _DUMP),
    **dict.fromkeys(("serialized.name", "serialized.nodes", "serialized.slots"), _DUMP),
}
"""Codes without an example on the page, each with the situation that leads to it."""

Broken = Mapping[str, Mapping[str, Mistake]]
"""The mistakes that an operator's desc can have, by its type name and the code."""


def errors_page(broken: Broken) -> str:
    """Writes the page.

    Raises:
        RuntimeError: an example does not raise the error that it illustrates.
    """
    entries = {section: dict(sorted(_entries(section, broken).items())) for section in SECTIONS}
    intro = (
        "Every problem has a code that programs can rely on: `error.problems[0].code`. Each is shown here with statements that lead to it, "
        "and the error as printed. `DescError`, `CompileError`, `BindError` and `DeviceError` carry problems; `dml.check` returns them. "
        "The search box finds a code by its name, and `dmlpy explain size.equal` shows the same in a terminal."
    )
    parts = [
        "These are the most frequent ones:",
        table(("code", "what it means"), ((code_link(name), prose(text)) for name, text in MOST_FREQUENT.items())),
    ]
    for section, title in SECTIONS.items():
        parts.append(f"## {title}")
        parts += [f"### {code(name)}\n\n{text}" for name, text in entries[section].items()]
    rows = [(code_link(name), SECTIONS[section]) for section, of_section in entries.items() for name in of_section]
    parts += [
        "## Without an example",
        table(("code", "what leads to it"), ((code(name), prose(text)) for name, text in WITHOUT_EXAMPLE.items())),
        "## All codes",
        f"{len(rows)} codes have an example:",
        table(("code", "concerns"), sorted(rows)),
    ]
    return page("Error codes", intro, *parts)


def code_link(name: str, document: str = error_document()) -> str:
    """Formats a code as a link to its place on the page, relative to a document."""
    address = "" if document == error_document() else between(document, error_document())
    return f"[{code(name)}]({address}#{error_anchor(name)})"


def _entries(section: str, broken: Broken) -> dict[str, str]:
    """A section's entries by code. Mistakes are not searched for codes with an example."""
    shown = {name: _of_example(name, example) for example in examples() if example.section == section for name in example.codes}
    known = {name for example in examples() for name in example.codes}
    if section in ("rules", "descs"):
        rules = {name for kind in OPERATORS.values() for name in kind.rules()}
        for name in {name for found in broken.values() for name in found} - known:
            if (name in rules) == (section == "rules"):
                shown[name] = _of_mistake(name, broken)
    return shown


def _of_example(name: str, example: Example) -> str:
    codes, message = example.message()
    if name not in codes:
        raise RuntimeError(f"the example of {name} gives {', '.join(codes)}")
    return f"{fence(example.code(), 'python')}\n\n{fence(message)}"


def _of_mistake(name: str, broken: Broken) -> str:
    """The mistake with the fewest other problems, among the operators with the shortest names."""
    kinds: Iterable[type[OperatorDesc]] = (OPERATORS[type_name] for type_name, found in broken.items() if name in found)
    kind = min(kinds, key=lambda kind: (broken[kind.type_name][name].problem_count, len(kind.short_name()), kind.short_name()))
    mistake, document = broken[kind.type_name][name], error_document()
    link = f"[{code(kind.short_name())}]({between(document, operator_document(kind))})"
    rule = kind.rules().get(name)
    stated = f"The rule: {prose(rule)}.\n\n" if rule else ""
    return f"{stated}With `desc` of the example of {link}:\n\n{fence(mistake.statement, 'python')}\n\n{fence(mistake.message)}"
