"""The pages of operators and of their families, written from the classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.descs import FusableDesc, OperatorDesc
from dmlpy.description.layout_picture import layout_svg
from dmlpy.docs.errors import code_link
from dmlpy.docs.executed import run_example, show_value
from dmlpy.docs.formulas import to_tex
from dmlpy.docs.links import between, family_document, links_from, operator_document, relatives
from dmlpy.docs.markdown import code, directive, escape, fence, page, prose, table, toctree
from dmlpy.docs.mistakes import Mistake, shown
from dmlpy.inspection.explain import Explanation, explain
from dmlpy.inspection.samples import example, sample
from dmlpy.messages.naming import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dmlpy.description.structs import Struct
    from dmlpy.inspection import catalog

MICROSOFT = "https://learn.microsoft.com/windows/win32/api/directml/ns-directml-"
"""The address of Microsoft's page for a struct, without the struct's name in lower case."""
_MOST_PICTURES = 6


def operator_page(entry: catalog.CatalogEntry, mistakes: dict[str, Mistake]) -> str:
    """The page of one operator.

    Args:
        entry: the operator, with what runs and verifies it.
        mistakes: wrong descs of it, by code.
    """
    kind = entry.kind
    explanation = explain(kind.short_name())
    return page(
        escape(kind.short_name()),
        prose(_sentence(explanation.summary), links_from(operator_document(kind))),
        _names(kind),
        _facts(entry, explanation),
        _formula(kind, explanation.formula),
        f"## Members\n\n{members_table(kind, operator_document(kind))}",
        _sizes_and_rules(kind, explanation),
        f"## Types and dimensions\n\n{_support(explanation)}",
        _evidence(explanation),
        _example(kind),
        _layouts(kind),
        _errors(kind, shown(kind, mistakes)),
        _related(kind),
    )


def family_page(family: str, entries: Iterable[catalog.CatalogEntry]) -> str:
    """The page of a family: a table of its operators with links to their pages."""
    document = family_document(family)
    listed = list(entries)
    documents = [between(document, operator_document(entry.kind)).removesuffix(".md") for entry in listed]
    return page(
        family.capitalize(),
        f"{plural(len(listed), 'operator')}.",
        operators_table(listed, document),
        toctree((f"{entry.kind.short_name()} <{name}>" for entry, name in zip(listed, documents, strict=True)), hidden=True),
    )


def index_page(entries: Iterable[catalog.CatalogEntry], document: str) -> str:
    """The list of all operators."""
    listed = list(entries)
    added = sum(entry.kind.is_extension for entry in listed)
    families = sorted({entry.kind.family() for entry in listed})
    text = (
        f"{len(listed) - added} operators of DirectML and {added} of dmlpy's own, in {len(families)} families. The search box finds them "
        "by each of their names: `LSTM`, `DML_OPERATOR_LSTM`, `DML_LSTM_OPERATOR_DESC`, `LSTMDesc`."
    )
    return page(
        "Operators",
        text,
        operators_table(listed, document, with_family=True),
    )


def operators_table(entries: Iterable[catalog.CatalogEntry], document: str, *, with_family: bool = False) -> str:
    """A table with a row for each operator, with links relative to a document."""
    rows = []
    for entry in entries:
        kind = entry.kind
        row = [f"[{code(kind.short_name())}]({between(document, operator_document(kind))})"]
        row += [f"[{kind.family()}]({between(document, family_document(kind.family()))})"] if with_family else []
        row += [
            "dmlpy's own" if kind.is_extension else str(kind.introduced()),
            _devices(entry),
            escape(", ".join(entry.verified_against)),
            escape(entry.directml_says),
        ]
        rows.append(row)
    headings = ["operator", *(["family"] if with_family else []), "from level", "runs on", "results compared with", "DirectML says"]
    return table(headings, rows)


def _sentence(text: str) -> str:
    """Capitalizes a summary, unless it begins with a name."""
    first, space, rest = text.partition(" ")
    return (first.capitalize() if first.islower() and first.isalpha() and len(first) > 1 else first) + space + rest


def _devices(entry: catalog.CatalogEntry) -> str:
    return ", ".join(name for name, runs in entry.runs_on.items() if runs) or "described only"


def _names(kind: type[OperatorDesc]) -> str:
    """The struct's names in Python and in C, as targets for links, searches and other projects."""
    canonical = {"canonical": f"{kind.__module__}.{kind.__name__}"}
    return "\n\n".join([directive("py:class", f"dmlpy.{kind.__name__}", options=canonical), directive("c:struct", kind.c_name)])


def _facts(entry: catalog.CatalogEntry, explanation: Explanation) -> str:
    kind = entry.kind
    origin = f"[{code(kind.c_name)}]({MICROSOFT}{kind.c_name.lower()}) at Microsoft"
    since = f"{kind.introduced()} (DirectML {kind.introduced().directml_version})"
    rows = [
        ("type", code(kind.type_name)),
        ("family", f"[{kind.family()}]({between(operator_document(kind), family_document(kind.family()))})"),
        ("from feature level", "none: the operator is dmlpy's own" if kind.is_extension else since),
        ("runs on", _devices(entry)),
        ("results compared with", escape(", ".join(entry.verified_against)) or "the definition alone"),
        *([("DirectML says", escape(entry.directml_says))] if entry.directml_says else []),
        *([("largest error in FLOAT32", escape("; ".join(map(str, explanation.bounds))))] if explanation.bounds else []),
        ("in place", "an output may use the memory of an input of the same layout" if kind.in_place else "no"),
        ("inputs owned by DirectML", "may be flagged" if kind.accepts_owned else "may not be flagged"),
        *([] if not issubclass(kind, FusableDesc) else [("fused", "other structs may hold it; its tensors are null then")]),
        *([] if kind.is_extension else [("documented as", origin)]),
    ]
    return table(("", ""), rows)


def _formula(kind: type[OperatorDesc], formula: str) -> str:
    """The formula, set by MathJax; below it as plain text, for who copies it, and in its place where MathJax cannot be loaded."""
    if not formula:
        return ""
    lines = "\n\n".join(directive("math", body=tex) for tex in to_tex(formula, kind.model_fields))
    plain = f"<details><summary>As text</summary>\n\n{fence(formula)}\n\n</details>"
    return f"## Formula\n\n{directive('container', 'dmlpy-formula', lines, depth=4)}\n\n{plain}"


def members_table(kind: type[Struct], document: str) -> str:
    """The members of a struct, each with an anchor for links."""
    link = links_from(document)
    rows = []
    for field in kind.members():
        name = f"{{dml-member}}`{kind.__name__}.{field.name}`<br>{code(field.c_name)}" if field.name else code(field.c_name)
        need = field.kind if field.kind == "count" else f"{field.kind}, {'required' if field.required else 'optional'}"
        form = code(field.values) if field.values.startswith("[") else escape(field.values)
        rows.append((name, need, form, escape(field.types() if field.support else ""), prose(field.meaning, link)))
    return directive("container", "dmlpy-members", table(("member", "kind", "sizes or values", "types", "meaning"), rows))


def _sizes_and_rules(kind: type[OperatorDesc], explanation: Explanation) -> str:
    parts = []
    if explanation.sizes:
        parts += [
            "## Sizes that follow from others",
            table(("size", "formula"), ((code(name), code(text)) for name, text in explanation.sizes.items())),
        ]
    if explanation.rules:
        rows = ((f"{prose(text)}", code_link(name, operator_document(kind))) for name, text in explanation.rules.items())
        parts += ["## Rules beyond sizes and types", table(("rule", "error code"), rows)]
    return "\n\n".join(parts)


def _support(explanation: Explanation) -> str:
    levels = explanation.levels()
    return table(
        [escape(heading) for heading in levels.headings], ([escape(cell.removesuffix(" *")) for cell in row] for row in levels.rows)
    )


def _evidence(explanation: Explanation) -> str:
    """The facts that released programs show about the operator, and the types that sources disagree about."""
    parts = []
    if explanation.evidence:
        rows = [
            (escape(fact.span()), escape(" ".join(filter(None, (fact.text, fact.verdict())))), escape(fact.page), escape(fact.citation()))
            for fact in explanation.evidence
        ]
        parts += ["## What released programs show", table(("levels", "fact", "Microsoft's page", "source"), rows)]
    if explanation.undocumented:
        text = "`check` reports these types as undocumented, not as errors: a released program gives them to the operator."
        undocumented = [
            (escape(entry.span()), escape(f"{entry.field}: {entry.listed()}"), escape(f"{entry.sentence()}."), escape(entry.reason))
            for entry in explanation.undocumented
        ]
        parts += ["## Undocumented types", text, table(("levels", "types", "sources", "reason"), undocumented)]
    return "\n\n".join(parts)


def _example(kind: type[OperatorDesc]) -> str:
    run = run_example(kind)
    if run is None:
        return f"## Example\n\n{fence(example(kind), 'python')}\n\nNo device runs it yet: it is described and checked."
    inputs = "\n\n".join(show_value(name, value) for name, value in run.inputs.items())
    outputs = "\n\n".join(show_value(name, value) for name, value in run.outputs.items())
    return "\n\n".join(
        [
            "## Example",
            fence(run.code, "python"),
            f"<details><summary>Inputs</summary>\n\n{fence(inputs)}\n\n</details>" if inputs else "",
            "Outputs, computed by the NumPy device:",
            fence(outputs),
        ]
    )


def _layouts(kind: type[OperatorDesc]) -> str:
    """Pictures of the example's tensors; of tensors with equal layouts only the first has one."""
    pictures: list[str] = []
    seen = set()
    desc = sample(kind)
    for slot in desc.slots():
        if slot.tensor is None:
            continue
        shape = (slot.tensor.sizes, slot.tensor.element_strides)
        if shape in seen or len(pictures) == _MOST_PICTURES:
            continue
        seen.add(shape)
        terms = desc.aligned(slot, len(slot.tensor.sizes))
        names = [str(term) for term in terms] if terms else []
        picture = layout_svg(slot.tensor.sizes, slot.tensor.element_strides, axis_names=names, label=slot.tensor.summary())
        pictures.append(f"<figure><figcaption><code>{slot.place}</code></figcaption>{picture}</figure>")
    text = (
        "The tensors of the example in memory. A cell holds an element's offset, in elements, and is darker the further it is from the "
        "tensor's address. Of tensors with the same sizes and strides the first is drawn."
    )
    return "\n\n".join(["## Layouts", text, f'<div class="dmlpy-layouts">{"".join(pictures)}</div>'])


def _errors(kind: type[OperatorDesc], mistakes: list[Mistake]) -> str:
    if not mistakes:
        return ""
    document = operator_document(kind)
    parts = ["## Errors", "What `dml.check` answers where one member of the example's `desc` is changed:"]
    for mistake in mistakes:
        parts += [code_link(mistake.code, document), fence(mistake.statement, "python"), fence(mistake.message)]
    return "\n\n".join(parts)


def _related(kind: type[OperatorDesc]) -> str:
    others = list(_related_rows(kind))
    return f"## Related operators\n\n{table(('operator', 'what it is'), others)}" if others else ""


def _related_rows(kind: type[OperatorDesc]) -> Iterator[tuple[str, str]]:
    document = operator_document(kind)
    for other in relatives(kind):
        summary = other.description().split("\n\n")[0]
        yield (
            f"[{code(other.short_name())}]({between(document, operator_document(other))})",
            prose(_sentence(summary), links_from(document)),
        )
