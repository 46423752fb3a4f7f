"""The site: its sources, written from the classes, and the HTML that Sphinx makes of them."""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
import zlib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.layout_picture import layout_svg
from dmlpy.description.registry import OPERATORS
from dmlpy.docs import markdown
from dmlpy.docs.build import NEEDED
from dmlpy.docs.executed import run_example, show_value
from dmlpy.docs.formulas import NOUNS, to_tex
from dmlpy.docs.links import between, links_from, relatives
from dmlpy.docs.mistakes import mistakes, shown
from dmlpy.docs.notebook import executed
from dmlpy.docs.operators import family_page, operator_page
from dmlpy.docs.pages import PAGES, ROOT, read_pages
from dmlpy.docs.reference import API, MODULES, _by_room
from dmlpy.inspection import catalog
from dmlpy.inspection.samples import sample
from tests.docs.built_site import built_site, page

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ENTRIES = {entry.kind.short_name(): entry for entry in catalog.operators()}
SAMPLE = ("LSTM", "GEMM", "REDUCE", "FUSED_BATCH_NORM_V3", "ROI_ALIGN", "SPLIT", "FILL_VALUE_SEQUENCE", "ACTIVATION_RELU")


def page_of(name: str) -> str:
    entry = ENTRIES[name]
    return operator_page(entry, mistakes(entry.kind))


# pages of operators


@pytest.mark.parametrize("name", SAMPLE)
def test_a_page_has_everything_in_the_class(name: str) -> None:
    kind, text = ENTRIES[name].kind, page_of(name)
    for member in kind.members():
        assert not member.name or f"{{dml-member}}`{kind.__name__}.{member.name}`" in text
        assert f"`{member.c_name}`" in text
    assert all(f"[`{rule}`](" in text for rule in kind.rules())
    assert f"{{py:class}} dmlpy.{kind.__name__}" in text
    assert f"{{c:struct}} {kind.c_name}" in text
    assert all(line in text for line in kind.formula.splitlines())
    assert all(f":::{{math}}\n\n{tex}\n:::" in text for tex in to_tex(kind.formula, kind.model_fields))
    assert text.count("<svg") >= 1
    for other in relatives(kind):
        assert f"]({other.short_name().lower()}.md)" in text


def test_a_page_says_that_no_device_runs_an_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operator runs: that none does is feigned."""
    monkeypatch.setattr("dmlpy.docs.operators.run_example", lambda kind: None)
    assert "No device runs it yet" in page_of("ROI_ALIGN_GRAD")


def test_a_page_names_devices_and_those_whose_results_agree() -> None:
    text = page_of("LSTM")
    assert "| runs on | numpy, cpu, cuda |" in text
    assert "| results compared with | ONNX Runtime, Keras |" in text
    assert "dmlpy's own" in page_of("FUSED_BATCH_NORM_V3")


@pytest.mark.parametrize("name", ["LSTM", "GEMM", "TOP_K", "GATHER", "RNN_TRAINING", "ELEMENT_WISE_ACOSH", "QUANTIZED_LINEAR_CONVOLUTION"])
def test_the_example_was_executed_and_its_values_are_shown(name: str) -> None:
    kind = ENTRIES[name].kind
    run = run_example(kind)
    assert run is not None
    scope: dict[str, object] = {}
    exec(run.code, scope)
    assert scope["desc"] == sample(kind)
    text = page_of(name)
    assert markdown.fence(run.code, "python") in text
    for place, value in run.outputs.items():
        assert show_value(place, value) in text
        assert not isinstance(value, np.ndarray) or value.dtype.kind != "f" or np.isfinite(value).all()


def test_the_first_matrix_of_a_large_array_is_shown() -> None:
    assert show_value("x", np.arange(3)) == "x: int64 [3]\n[0 1 2]"
    text = show_value("x", np.arange(200).reshape(2, 10, 10))
    assert text.splitlines()[0] == "x: int64 [2, 10, 10], of which x[0]"
    assert "99]" in text
    assert "199" not in text


def test_what_a_page_calls_a_mistake_is_one() -> None:
    for name in ("LSTM", "GEMM", "CUDNN_RNN_V3"):
        kind = ENTRIES[name].kind
        for mistake in shown(kind, mistakes(kind)):
            found = []
            try:
                found = eval(mistake.statement, {"dml": dml, "desc": sample(kind)})
            except dml.DescError as error:
                found = list(error.problems)
            assert mistake.code in {problem.code for problem in found}, mistake.statement
            assert all(problem.headline() in mistake.message for problem in found)


def test_a_family_lists_its_operators() -> None:
    entries = [entry for entry in ENTRIES.values() if entry.kind.family() == "recurrent"]
    text = family_page("recurrent", entries)
    assert "[`LSTM`](../lstm.md)" in text
    assert "LSTM <../lstm>" in text


def test_relatives_are_versions_training_forms_and_gradients() -> None:
    def names(kind: type[OperatorDesc]) -> set[str]:
        return {other.short_name() for other in relatives(kind)}

    assert names(dml.LSTMDesc) == {"LSTM_TRAINING", "LSTM_GRAD"}
    assert names(dml.FusedBatchNormV3Desc) == {"FUSED_BATCH_NORM_GRAD_V3"}
    assert names(dml.SliceDesc) == {"SLICE1", "SLICE_GRAD"}
    assert names(dml.GatherDesc) == set()


# Markdown and links


def test_text_has_no_meaning_in_markdown() -> None:
    assert markdown.escape("a*b [x](y) <z> | _t_") == r"a\*b \[x\](y) \<z\> \| \_t\_"
    assert markdown.prose("see `RNN` and 2*x\n\nnext") == "see `RNN` and 2\\*x\n\nnext"
    assert markdown.prose("see `RNN`", links_from("operators/lstm")) == "see [`RNN`](rnn.md)"
    assert markdown.prose("see `LSTMDesc`", links_from("operators/lstm")) == "see `LSTMDesc`", "its own page"
    assert markdown.table(("a", "b"), [("x|y", "`p|q`\n\nz")]).splitlines()[2] == r"| x\|y | `p\|q`<br>z |"
    assert markdown.fence("``` x").startswith("````text\n")
    assert between("operators/lstm", "reference/errors") == "../reference/errors.md"


def test_pages_link_to_documents_and_name_other_files(tmp_path: Path) -> None:
    (tmp_path / "dmlpy" / "bench" / "records").mkdir(parents=True)
    (tmp_path / "dmlpy" / "bench" / "records" / "cpu.svg").write_text("<svg/>")
    (tmp_path / "README.md").write_text(
        "[rooms](dmlpy/README.md#layers) [here](#x) [out](https://a.b) [run](examples/run.py) ![p](dmlpy/bench/records/cpu.svg)\n"
        "```text\n[rooms](dmlpy/README.md)\n```\n"
    )
    (tmp_path / "dmlpy" / "README.md").write_text("[start](../README.md) [`tests/`](../tests)")
    pages, missing = read_pages(tmp_path)
    start, rooms = pages
    assert start.text.splitlines()[0] == (
        "[rooms](guide/architecture.md#layers) [here](#x) [out](https://a.b) run (`examples/run.py`) "
        "![p](images/dmlpy-bench-records-cpu.svg)"
    )
    assert "[rooms](dmlpy/README.md)" in start.text, "code stays as it is"
    assert list(start.images) == ["images/dmlpy-bench-records-cpu.svg"]
    assert rooms.text == "[start](../index.md) `tests/`"
    assert set(missing) == set(PAGES) - {"README.md", "dmlpy/README.md"}


def test_a_wheel_has_pages_of_other_folders_in_the_package(tmp_path: Path) -> None:
    """As `force-include` in pyproject.toml puts them there."""
    (tmp_path / "dmlpy" / "schemas").mkdir(parents=True)
    (tmp_path / "dmlpy" / "schemas" / "README.md").write_text("# Schemas")
    assert [page.text for page in read_pages(tmp_path)[0] if page.path == "schemas/README.md"] == ["# Schemas"]


def test_a_diagram_that_is_a_chain_is_drawn_and_any_other_is_text(tmp_path: Path) -> None:
    nodes = 'flowchart TD\n    A["top <1>"]\n    B["bottom"]\n'
    (tmp_path / "README.md").write_text(f"```mermaid\n{nodes}    A --> B\n```\n\n```mermaid\n{nodes}    A --> C\n```\n")
    (page,), _ = read_pages(tmp_path)
    assert page.text == f'<ol class="dmlpy-chain"><li>top &lt;1&gt;</li><li>bottom</li></ol>\n\n```text\n{nodes}    A --> C\n```\n'


def test_every_page_of_the_checkout_is_on_the_site() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("dmlpy", ".github")
        for path in (ROOT / folder).rglob("*.md")
        if "records" not in path.parts and path.name != "PULL_REQUEST_TEMPLATE.md"
    }
    assert found <= set(PAGES), "add it to PAGES"


def test_every_public_name_has_a_page() -> None:
    assert set(_by_room()) == set(API)


# pictures of layouts


def cells(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg) if element.tag.endswith("text")]


@pytest.mark.parametrize(
    ("sizes", "strides", "held", "absent"),
    [
        (
            (2, 3),
            (3, 1),
            ["0", "1", "2", "3", "4", "5"],
            ["memory: the offset of each element, and the index of the entry that lies there"],
        ),
        ((2, 3), (1, 2), ["0", "2", "4", "1", "3", "5", "00", "10", "01"], []),
        ((2, 2), (4, 1), ["4", "5", "10", "11"], ["6", "20"]),
        ((2, 2), (0, 1), ["axis 0  size 2  stride 0  (broadcast)", "00", "01"], ["10"]),
        ((3, 2, 2), (4, 2, 1), ["[0, :, :]", "[1, :, :]", "… 3 in all"], ["[2, :, :]"]),
    ],
    ids=["packed", "permuted", "padded", "broadcast", "panels"],
)
def test_a_picture_shows_where_elements_lie(sizes: tuple[int, ...], strides: tuple[int, ...], held: list[str], absent: list[str]) -> None:
    found = cells(layout_svg(sizes, strides))
    assert [text for text in held if text not in found] == []
    assert [text for text in absent if text in found] == []


def test_a_picture_stays_small() -> None:
    svg = layout_svg((100, 200, 300, 400), (24_000_000, 120_000, 400, 1), axis_names=["1", "rows", "c", "d"])
    assert len(svg) < 30_000
    assert "axis 1  rows  size 200  stride 120000" in cells(svg)


def test_a_picture_of_any_tensor_takes_no_time() -> None:
    """Of 2^256 entries, 31 to the 8th of which lie among the first elements of memory."""
    found = cells(layout_svg((2**32 - 1,) * 8, (1,) * 8))
    assert [text for text in ("[0, 0, 0, 0, 0, 0, :, :]", "[0, 0, 0, 0, 0, 1, :, :]", "0,0,0,0,0,0,0,23") if text not in found] == []


def test_a_notebook_shows_the_picture_of_a_tensor() -> None:
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3])
    assert "<svg" in tensor._repr_html_()
    assert "FLOAT32 [2, 3]" in tensor._repr_html_()
    for wrong in (tensor.replace(sizes=[2, 0]), tensor.replace(strides=[1]), tensor.replace(strides=[3, -1])):
        assert "<svg" not in wrong._repr_html_()


# formulas


@pytest.mark.parametrize(
    ("formula", "tex"),
    [
        ("y = x / (1 + |x|)", [r"y = \frac{x}{1 + \left|x\right|}"]),
        ("y = alpha * (x - 1) / scale_x + beta", [r"y = \frac{\alpha \cdot \left(x - 1\right)}{\mathit{scale\_x}} + \beta"]),
        ("y[n] = sum over c, k of w[c, k] x[c]", [r"y_{n} = \sum_{c,k} w_{c , k} \,x_{c}"]),
        ("y = A B^T / sqrt(d + 1)", [r"y = \frac{A \,B^{\mathsf{T}}}{\sqrt{d + 1}}"]),
        ("y = 1 where x > 0, else -x", [r"y = \begin{cases} 1 & \text{where } x > 0 \\ - x & \text{otherwise} \end{cases}"]),
        ("i, f = g(x), c[t] = f * c[t-1]; h = c", ["i , f = g\\left(x\\right)", "c_{t} = f \\cdot c_{t - 1}", "h = c"]),
        ("y = floor(a / b)", [r"y = \left\lfloor{}\frac{a}{b}\right\rfloor"]),
        ("y = 2 ** (1 / P)", [r"y = 2^{\frac{1}{P}}"]),
        ("y = size of mask, output[0] | b", [r"y = \text{ size of } \mathit{mask} , \mathit{output}_{0} \mid b"]),
        ("da = what the step gave\nx = a xor b", [r"\mathit{da} = \text{ what the step gave}", r"x = a \operatorname{xor} b"]),
    ],
)  # fmt: skip
def test_a_formula_is_written_as_tex(formula: str, tex: list[str]) -> None:
    assert to_tex(formula, ("mask_tensor",)) == tex


def test_a_sign_without_a_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="a sign that TeX is not written for"):
        to_tex("y = x % 2")
    with pytest.raises(ValueError, match=r"lacks '\)'"):
        to_tex("y = (x + 2")


def test_every_formula_is_written_as_tex() -> None:
    """A word of English that WORDS does not list would be set as a name: it shows by having neither a digit, a capital nor a low line."""
    odd: dict[str, set[str]] = {}
    for kind in OPERATORS.values():
        members = {*kind.model_fields, *(re.sub("_tensors?$", "", name) for name in kind.model_fields)}
        left = set(re.findall(r"([A-Za-z_]\w*)(?:\[[^\]]*\])? \+?= ", kind.formula))
        for line in to_tex(kind.formula, kind.model_fields):
            assert line.count("{") == line.count("}")
            assert line.count(r"\left") == line.count(r"\right")
            names = {name.replace("\\_", "_") for name in re.findall(r"\\mathit\{([^{}]+)\}", line)}
            plain = {name for name in names if re.fullmatch("[a-z]{3,}", name)}
            if strange := plain - members - left - NOUNS - KNOWN:
                odd[kind.short_name()] = strange
    assert odd == {}


KNOWN_TEXT = """
    axis batch counter divisor indices key least mask most offset position scale sizes slope values variance window
"""
KNOWN = set(KNOWN_TEXT.split())
"""Names of formulas that are neither members nor defined in them: they are described in the text."""


# a notebook


def test_a_notebook_is_shown_with_what_its_cells_print_and_return(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "id": "a", "source": ["x = 2\n", "print(x)"]},
        {"cell_type": "code", "id": "b", "source": ["import dmlpy as dml\n", "dml.TensorDesc(data_type='FLOAT32', sizes=[x])"]},
        {"cell_type": "code", "id": "c", "source": ["'<b>'"]},
    ]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}), "utf-8")
    text = executed(tmp_path / "n.ipynb")
    assert text.startswith("# Title\ntext\n\n```python\nx = 2\nprint(x)\n```\n\n```text\n2\n```\n\n")
    assert re.search(r":::\{raw\} html\n\n<div class=\"dmlpy-output\">.*<svg", text, re.DOTALL)
    assert "<pre>&#x27;&lt;b&gt;&#x27;</pre>" in text


# the whole site


def test_the_extra_has_what_the_sites_code_imports() -> None:
    """The site of an environment that has the extra alone: what else it imports, it does without."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert {re.split(r"[\[>=<]", requirement)[0] for requirement in extras["docs"]} == set(NEEDED.values())
    own = {re.split(r"[\[>=<]", requirement)[0] for requirement in PROJECT["dependencies"]}
    for path in (ROOT / "dmlpy" / "docs").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for top in {name.partition(".")[0] for name in names} - {"dmlpy", "docutils"} - sys.stdlib_module_names:
                assert top in NEEDED or top in own, f"{path.name} imports {top}"


def test_every_package_with_public_names_has_a_page() -> None:
    found = set()
    for path in (ROOT / "dmlpy").glob("*/__init__.py"):
        text = path.read_text("utf-8")
        if "__all__" in text and path.parent.name not in {*API, "docs"}:
            found.add(path.parent.name)
    assert found <= {*MODULES, "directml"}, "add it to MODULES"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # Sphinx and its extensions announce what they will remove; what concerns pages is in `warnings`
def test_the_site_is_built_without_warnings() -> None:
    site = built_site() / "site"
    assert sum(1 for _ in site.rglob("*.html")) > len(OPERATORS)
    names = inventory(site / "objects.inv")
    for kind in OPERATORS.values():
        assert {f"dmlpy.{kind.__name__}", kind.c_name} <= names
        assert {f"dmlpy.{kind.__name__}.{name}" for name in kind.model_fields} <= names
    assert {f"dmlpy.{name}" for name in dml.__all__} <= names
    assert {"dmlpy.onnx.load", "dmlpy.onnx.Model.report", "dmlpy.onnx.export", "dmlpy.dask.map_blocks"} <= names
    lstm = page("operators/lstm")
    assert 'href="lstm_grad.html"' in lstm
    assert re.search(r'href="\.\./reference/errors\.html#size-equal"', lstm)
    index = (site / "searchindex.js").read_text(encoding="utf-8").lower()
    assert "lstm_operator_desc" in index
    assert "size.equal" in index, "codes are found by their names"


@pytest.mark.slow
def test_the_first_page_begins_the_contents_and_pictures_are_shown() -> None:
    start = page("index")
    captions = re.findall(r'<span class="caption-text">([^<]+)</span>', start)
    assert captions[0] == "Start here"
    assert captions[-2:] == ["Operators", "Reference"]
    first = start[start.index('caption-text">Start here') :]
    assert re.match(r'caption-text">Start here</span></p>\s*<ul[^>]*>\s*<li class="[^"]*\bcurrent\b[^"]*">\s*<a[^>]*>Overview</a>', first)
    gallery = page("guide/gallery")
    pictures = set(re.findall(r'src="\.\./_images/([^"]+)"', gallery))
    assert pictures == {f"dmlpy-docs-pictures-{path.name}" for path in (ROOT / "dmlpy/docs/pictures").iterdir()}
    tour = page("guide/tour")
    assert tour.count('class="dmlpy-output"') >= 5
    assert "Adding two marked numbers" in tour
    assert r"\frac{1}{1 + \exp" in page("operators/activation_sigmoid")


@pytest.mark.slow
def test_the_site_shows_nothing_of_the_machine_that_built_it() -> None:
    odd = re.compile(r"0x[0-9a-f]{6,}|/tmp/|/home/|/root/|" + re.escape(str(ROOT)))
    found = {
        path.name: match[0]
        for path in (built_site() / "site").rglob("*")
        if path.suffix in {".html", ".js"} and "_static" not in path.parts and (match := odd.search(path.read_text("utf-8")))
    }
    assert found == {}


def inventory(path: Path) -> set[str]:
    """The names in an inventory of Sphinx."""
    _, _, _, _, packed = path.read_bytes().split(b"\n", 4)
    return {line.split(" ")[0] for line in zlib.decompress(packed).decode().splitlines()}
