"""The reference pages: Python's names, enumerations, feature levels, and layouts of tensors."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import TYPE_CHECKING, Any

import dmlpy
from dmlpy.description.enums import DmlEnum, FeatureLevel
from dmlpy.description.layout_picture import layout_svg
from dmlpy.description.registry import OPERATORS
from dmlpy.description.structs import Struct
from dmlpy.description.tensors import TensorDesc
from dmlpy.directml.names import NAMES
from dmlpy.docs.links import links_from
from dmlpy.docs.markdown import code, directive, escape, fence, page, prose, table
from dmlpy.docs.operators import members_table
from dmlpy.inspection import catalog
from dmlpy.inspection.samples import source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

API: Mapping[str, tuple[str, str]] = {
    "compiler": ("Compile and run", "What runs a desc or a graph."),
    "devices": ("Devices and compiled operators", "What a desc is compiled for, and what compiling gives."),
    "description": (
        "Structs and memory",
        "The structs of directml.h besides those of operators, each of which takes both spellings of its members; memory of other "
        "libraries; elements of 4 bits, two to a byte.",
    ),
    "operators": ("Parameters of networks", "How the parameters of a stacked network lie in one tensor."),
    "inspection": ("Explanations", "An operator's members, rules and support as data."),
    "validation": ("Checks", "What finds the problems of a desc, and what a feature level supports."),
    "messages": ("Errors", "What dmlpy raises, and the problems that its errors carry."),
    "graphs": ("Graphs", "Graphs of operators."),
    "comparison": ("Comparing devices", "Names the first node of a graph where two devices part."),
    "reference": ("Definitions", "What an operator should give, computed plainly; every device is held to it."),
}
"""The packages with public names in `dmlpy`, each with its page's title and first sentence."""
MODULES: Mapping[str, str] = {
    name: f"dmlpy.{name}" for name in ("eager", "onnx", "nn", "x", "pydirectml", "dxdispatch", "keras", "torch", "thinc", "dask")
}
"""Packages with separate public names, by the name of their page."""
DIRECTML = "reference/api/directml"
"""The page of `dmlpy.directml`, which has a table in place of sections: its names are other names of what has pages."""

UNINDEXED = ("dmlpy.dxdispatch", "dmlpy.pydirectml")
"""Packages whose names are those of others too: links elsewhere lead to the others."""

_LAYOUTS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "Packed": ("The usual layout: the elements lie one after the other, the last axis fastest.", {"sizes": [2, 3, 4]}),
    "Permuted axes": ("The transposed view of an array: the same memory, read in another order.", {"sizes": [4, 3], "strides": [1, 4]}),
    "Padded rows": (
        "Rows that begin at multiples of 6 elements. The elements between them are not part of the tensor.",
        {"sizes": [3, 4], "strides": [6, 1]},
    ),
    "Broadcast": (
        "A stride of 0 repeats one entry along the axis. Inputs may be broadcast, outputs may not.",
        {"sizes": [3, 4], "strides": [0, 1]},
    ),
    "Interleaved channels": (
        "Sizes in the order N, C, H, W over memory in the order N, H, W, C.",
        {"sizes": [1, 3, 2, 4], "strides": [24, 1, 12, 3]},
    ),
}


def reference_pages() -> Iterator[tuple[str, str]]:
    """Each document with its text."""
    yield "reference/layouts", layouts_page()
    rooms = _by_room()
    for room, (title, text) in API.items():
        yield f"reference/api/{room}", page(title, text, *(_autodoc(f"dmlpy.{name}", getattr(dmlpy, name)) for name in rooms[room]))
    for name, module in MODULES.items():
        yield f"reference/api/{name}", _module_page(module)
    yield DIRECTML, directml_page()
    yield "reference/enumerations", enumerations_page()
    yield "reference/levels", levels_page()


def layouts_page() -> str:
    """The page on how sizes and strides define a tensor's layout."""
    text = (
        "A `TensorDesc` has sizes and, unless it is packed, strides: the elements from one entry to the next along each axis. The element "
        "at the index `[i, j]` lies `i * strides[0] + j * strides[1]` elements behind the tensor's address. In the pictures each cell "
        "holds that offset; a notebook shows the same picture for a `TensorDesc`."
    )
    parts = []
    for title, (sentence, members) in _LAYOUTS.items():
        tensor = TensorDesc(data_type="FLOAT32", **members)
        picture = (
            f'<div class="dmlpy-layouts"><figure>{layout_svg(tensor.sizes, tensor.element_strides, label=tensor.summary())}</figure></div>'
        )
        parts += [f"## {title}", sentence, fence(source(tensor), "python"), fence(tensor.summary()), picture]
    return page("Layouts of tensors", text, *parts)


def levels_page() -> str:
    """The page of each feature level's additions."""
    link = links_from("reference/levels")
    levels = catalog.levels()
    rows = ((f"[{item.level}](#{item.level})", item.level.directml_version, item.windows, len(item.operators)) for item in levels)
    overview = table(("level", "DirectML", "in-box", "new operators"), ([str(text) for text in row] for row in rows))
    parts = []
    for item in levels:
        parts += [f"## {escape(str(item.level))}"]
        parts += [f"DirectML {item.level.directml_version}" + (f", in {item.windows}." if item.windows else ".")]
        parts += ["New operators: " + ", ".join(prose(f"`{name}`", link) for name in item.operators) + "."] if item.operators else []
        parts += [_grown(item, link)] if item.grown else []
        parts += [f"Also: {prose(item.beyond_operators)}."] if item.beyond_operators else []
    intro = "A feature level contains all lower ones. `dml.check(desc, feature_level)` and `dml.compile` hold a desc to a level."
    return page("Feature levels", intro, overview, *parts)


def directml_page() -> str:
    """The page of the names of directml.h, with what each stands for."""
    link = links_from(DIRECTML)
    structs, others = [], []
    for name in sorted(NAMES):
        value = NAMES[name]
        if isinstance(value, type) and issubclass(value, Struct):
            structs.append((code(name), prose(f"`{value.__name__}`", link)))
        elif isinstance(value, type) or callable(value):
            others.append((code(name), code(getattr(value, "__name__", name))))
        else:
            others.append((code(name), code(value if isinstance(value, str) else repr(value))))
    intro = f"{_eval('.. automodule:: dmlpy.directml' + chr(10) + '   :no-members:')}"
    return page(
        code("dmlpy.directml"),
        intro,
        "## Structs",
        table(("in directml.h", "in dmlpy"), structs),
        "## Enumerations, constants and functions",
        table(("in directml.h", "in dmlpy"), others),
    )


def _grown(item: catalog.Level, link: Any) -> str:
    rows = ((prose(f"`{name}`", link), escape("; ".join(texts))) for name, texts in item.grown.items())
    return "Operators of lower levels that take more:\n\n" + table(("operator", "what it takes since"), rows)


def enumerations_page() -> str:
    """The page of every enumeration with its members."""
    kinds = [value for name in vars(dmlpy)["__all__"] if isinstance(value := getattr(dmlpy, name), type) and issubclass(value, DmlEnum)]
    parts = []
    for kind in sorted(kinds, key=lambda kind: kind.__name__):
        rows = [
            (code(member.name), code(member.c_name), code(f"{member.value:#x}" if isinstance(member, FeatureLevel) else str(int(member))))
            for member in kind
        ]
        parts += [
            f"## {kind.__name__}",
            directive("py:class", f"dmlpy.{kind.__name__}"),
            prose(inspect.getdoc(kind) or "", links_from("reference/enumerations")),
            table(("member", "in directml.h", "value"), rows),
        ]
    return page("Enumerations", "A member is accepted wherever its name is, in either spelling and in any case.", *parts)


def _by_room() -> dict[str, list[str]]:
    """The public names that other pages lack, by the package that defines them."""
    rooms: dict[str, list[str]] = {}
    described = set(OPERATORS.values())
    for name in sorted(vars(dmlpy)["__all__"], key=str.lower):
        value = getattr(dmlpy, name)
        if isinstance(value, ModuleType):
            continue  # it has a page of its own
        if value not in described and not (isinstance(value, type) and issubclass(value, DmlEnum)):
            rooms.setdefault(value.__module__.split(".")[1], []).append(name)
    return rooms


def _module_page(module: str) -> str:
    try:
        imported = importlib.import_module(module)
    except ImportError as error:
        return page(
            code(module),
            f"This site was built without {code(error.name or module)}; {code(f'help({module})')} shows what is missing here.",
        )
    names = sorted(imported.__all__, key=str.lower)
    return page(
        code(module),
        _eval(f".. automodule:: {module}\n   :no-members:"),
        *(_autodoc(f"{module}.{name}", getattr(imported, name), indexed=module not in UNINDEXED) for name in names),
    )


def _autodoc(name: str, value: Any, *, indexed: bool = True) -> str:
    """A section for a public name, filled by Sphinx from its docstring; other pages' links lead there if it is indexed."""
    if not isinstance(value, type):
        kind, options = ("autofunction" if callable(value) else "autodata"), ""
    else:
        fields = (
            ["model_config", "c_name", "c_counts", "unused", *value.model_fields]
            if issubclass(value, Struct)
            else ["with_traceback", "add_note"]
        )
        exclude = ", ".join(fields)
        kind, options = "autoclass", f"\n   :members:\n   :exclude-members: {exclude}\n   :show-inheritance:"
    options += "" if indexed else "\n   :no-index:"
    parts = [f"## {code(name.rpartition('.')[2])}", _eval(f".. {kind}:: {name}{options}")]
    if isinstance(value, type) and issubclass(value, Struct) and value.model_fields:
        parts.append(members_table(value, "reference/api/description"))
    return "\n\n".join(parts)


def _eval(text: str) -> str:
    return f"```{{eval-rst}}\n{text}\n```"
