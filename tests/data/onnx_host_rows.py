"""Nodes that no DirectML operator expresses, and that ONNX's reference implementation does not run as ONNX Runtime does."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_node_rows import node  # type: ignore[import-not-found, unused-ignore]
from onnx_operators import F32, I32, I64, normal, whole  # type: ignore[import-not-found, unused-ignore]


def integer_reductions() -> None:
    for operator in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp"):
        for kind in (I32, I64):
            x = whole("integer reduction", -6, 9, 3, 4, 5, dtype=kind)
            node(operator, [x, np.array([1], I64)], domain="", opset=18, known=[1], keepdims=0)
            node(operator, [x, np.array([0, 2], I64)], domain="", opset=18, known=[1])
            node(operator, [x * kind(2**27), np.array([-1], I64)], domain="", opset=18, known=[1])
            node(operator, [x], domain="", opset=18)
            for opset in (10, 11, 13):  # one of each version, with axes as an attribute
                node(operator, [x], domain="", opset=opset, axes=[0, -1])
                node(operator, [x * kind(2**27)], domain="", opset=opset, keepdims=0)


def suppressed() -> None:
    corners = np.random.default_rng(9).random((1, 8, 4), F32)
    boxes = np.concatenate([corners[..., :2], corners[..., :2] + corners[..., 2:]], 2)
    scores = np.random.default_rng(10).random((1, 2, 8), F32)
    scalars = np.array(3, I64), np.array(0.4, F32), np.array(0.5, F32)
    node("NonMaxSuppression", [boxes, scores, *scalars], domain="", opset=11)
    node("NonMaxSuppression", [boxes, scores, scalars[0], None, scalars[2]], domain="", opset=11)
    node("Det", [corners[0].reshape(2, 4, 4).astype(np.float16)], domain="", opset=22)


MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def forest(seed: int, trees: int, targets: int, per_leaf: int) -> dict[str, Any]:
    """Attributes of random trees over three features, of two levels at most; a tree may be a leaf."""
    rng = np.random.default_rng(seed)
    nodes: dict[str, list[Any]] = {}
    leaves: dict[str, list[Any]] = {}

    def grow(tree: int, number: int, depth: int) -> int:
        """Adds a node and all behind it; the first number that is free then."""
        is_leaf = depth == 0 or rng.random() < 0.2
        own = {
            "nodes_treeids": tree,
            "nodes_nodeids": number,
            "nodes_modes": "LEAF" if is_leaf else MODES[rng.integers(6)],
            "nodes_featureids": int(rng.integers(3)),
            "nodes_values": float(rng.integers(-2, 3)),
            "nodes_missing_value_tracks_true": int(rng.integers(2)),
        }
        for name, value in {**own, "nodes_truenodeids": 0, "nodes_falsenodeids": 0}.items():
            nodes.setdefault(name, []).append(value)
        place = len(nodes["nodes_treeids"]) - 1
        free = number + 1
        if is_leaf:
            for target in rng.choice(targets, per_leaf, replace=False).tolist():
                weight = float(F32(rng.standard_normal()))
                found = {"target_treeids": tree, "target_nodeids": number, "target_ids": target, "target_weights": weight}
                for name, value in found.items():
                    leaves.setdefault(name, []).append(value)
            return free
        for way in ("true", "false"):
            nodes[f"nodes_{way}nodeids"][place] = free
            free = grow(tree, free, depth - 1)
        return free

    for index in range(trees):
        grow(2 * index + 1, 0, 2)
    return {**nodes, **leaves, "n_targets": targets}


def trees() -> None:
    transforms = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
    for seed, how in enumerate(("SUM", "AVERAGE", "MIN", "MAX") * 4):
        targets = 1 + seed % 3
        own = forest(seed, 1 + seed % 4, targets, 1 + seed % 2 if targets > 1 else 1)
        more: dict[str, Any] = {"base_values": [0.25, -0.5, 0.75][:targets]} if seed % 2 else {}
        x = whole(f"trees {seed}", -2, 3, 6, 3, dtype=np.float64 if seed % 5 == 0 else F32)
        x[0, 0], x[3] = np.nan, np.nan
        own |= {"aggregate_function": how, "post_transform": transforms[seed // 4], **more}
        node("TreeEnsembleRegressor", [x], domain="ai.onnx.ml", **own)


def classifiers() -> None:
    """Labels are compared where ONNX Runtime's are those of the largest scores: not of two classes that both have weights, nor of one
    LOGISTIC score without negative weights."""
    transforms = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
    for seed, transform in enumerate(transforms * 4):
        classes = (3, 4, 2, 2)[seed // 4]
        own = forest(100 + seed, 1 + seed % 4, 1 if seed // 4 == 2 else classes, 1 if seed // 4 == 2 else classes)
        del own["n_targets"]
        own = {name.replace("target_", "class_"): given for name, given in own.items()}
        if seed // 4 == 2 and seed % 2:
            own["class_weights"] = [abs(weight) / 8 for weight in own["class_weights"]]
        more: dict[str, Any] = {"base_values": [0.25, -0.5, 0.75, 0.125][:classes]} if seed < 8 and seed % 2 else {}
        more |= {"base_values": [0.0625]} if seed // 4 == 2 and seed % 4 > 1 else {}
        x = whole(f"classes {seed}", -2, 3, 9, 3, dtype=np.float64 if seed % 5 == 0 else F32)
        x[0, 0], x[3] = np.nan, np.nan
        more |= {"classlabels_int64s": [7, -1, 3, 5][:classes], "post_transform": transform}
        node("TreeEnsembleClassifier", [x], [1] if seed > 11 or seed == 9 else [0, 1], domain="ai.onnx.ml", computed=2, **own, **more)


def unique() -> None:
    rows = whole("unique", 0, 2, 3, 2, 4, dtype=I64)
    for sorted_ in (0, 1):
        node("Unique", [rows], 4, domain="", sorted=sorted_)
        node("Unique", [rows[0]], 1, domain="", sorted=sorted_)
        for axis in (0, 1, -1):
            node("Unique", [rows.astype(F32)], 4, domain="", sorted=sorted_, axis=axis)
        node("Unique", [rows], (0, 2), computed=3, domain="", sorted=sorted_, axis=2)


def learned() -> None:
    """Features, scalings and scores of linear and kernel models."""

    def learning(operator: str, given: list[Any], outputs: int = 1, **attributes: Any) -> None:
        node(operator, given, outputs, domain="ai.onnx.ml", **attributes)

    rows = np.random.default_rng(12).standard_normal((5, 3)).astype(F32)
    rows[2] = 0
    whole_rows = whole("learned", -3, 4, 5, 3, dtype=I64)
    for x in (rows, rows[0], whole_rows, rows.astype(np.float64)):
        learning("Scaler", [x], offset=[1.0, 2.0, 3.0], scale=[0.5, 2.0, -1.0])
        learning("Scaler", [x], offset=[1.0], scale=[0.5])
        for norm in ("MAX", "L1", "L2"):
            learning("Normalizer", [x], norm=norm)
        learning("OneHotEncoder", [x], cats_int64s=[-1, 0, 1, 0])
        learning("ArrayFeatureExtractor", [x, np.array([[2, 0, 2, 1]], I64)])
    learning("OneHotEncoder", [whole_rows], cats_int64s=[*range(-3, 4)], zeros=0)
    learning("Binarizer", [rows], threshold=0.25)
    learning("Imputer", [rows], imputed_value_floats=[1.0, 2.0, 3.0])
    learning("Imputer", [whole_rows], imputed_value_int64s=[9], replaced_value_int64=1)
    for widths in ([3, 2], [2, 2], [4, 3]):
        learning("FeatureVectorizer", [rows, rows[:, :2]], inputdimensions=widths)
    columns = [1.0, 2.0, 3.0, -1.0, 0.0, 1.0, 0.5, 0.25, -1.0]
    learning("LinearRegressor", [rows], coefficients=columns[:3])
    for transform in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        for x in (rows[:2], whole_rows):
            scored = {"post_transform": transform, "intercepts": [0.125, 0.25, -0.5]}
            learning("LinearClassifier", [x], 2, coefficients=columns, classlabels_ints=[7, -9, 11], **scored)
            scored["intercepts"] = scored["intercepts"][:1]
            learning("LinearClassifier", [x], 2, coefficients=columns[:3], classlabels_ints=[7, -9], **scored)
        learning("LinearRegressor", [rows[:2]], coefficients=columns[:6], targets=2, intercepts=[0.5, -0.5], post_transform=transform)
        learning("LinearRegressor", [rows[0]], coefficients=columns[:3], intercepts=[0.5], post_transform=transform)
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        for one_class in (0, 1):
            own = {"kernel_type": kernel, "kernel_params": [0.5, 0.25, 3.0], "rho": [0.3], "one_class": one_class}
            learning("SVMRegressor", [rows], coefficients=[1.0, -2.0], n_supports=2, support_vectors=columns[:6], **own)
    learning("SVMRegressor", [rows], coefficients=columns[:3], rho=[0.3], kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0])


def machines() -> None:
    """SVMClassifier: scores and probabilities of two to four classes. Without support vectors, of classes with a row each."""
    x = np.random.default_rng(13).standard_normal((7, 3)).astype(F32)
    for classes, kernel in ((2, "LINEAR"), (2, "RBF"), (3, "POLY"), (4, "SIGMOID"), (4, "RBF")):
        counts = [2, 3, 1, 2][:classes]
        pairs = classes * (classes - 1) // 2
        sizes = {"support_vectors": 3 * sum(counts), "coefficients": (classes - 1) * sum(counts), "rho": pairs}
        own: dict[str, Any] = {name: normal(f"machines {kernel} {name}", size).tolist() for name, size in sizes.items()}
        own |= {"vectors_per_class": counts, "kernel_type": kernel, "kernel_params": [0.5, 0.25, 3.0]}
        own |= {"classlabels_ints": [7, -1, 3, 5][:classes]}
        shares = {"prob_a": (-np.abs(normal("machines a", pairs))).tolist(), "prob_b": normal("machines b", pairs).tolist()}
        for transform in ("NONE", "LOGISTIC", "SOFTMAX"):
            node("SVMClassifier", [x], 2, domain="ai.onnx.ml", post_transform=transform, **own)
        for given in (x, x[0], x.astype(np.float64)):
            node("SVMClassifier", [given], 2, domain="ai.onnx.ml", **own, **shares)
    own = {"coefficients": normal("machines rows", 9).tolist(), "classlabels_ints": [7, -1, 3], "rho": [0.25]}
    node("SVMClassifier", [x], 2, domain="ai.onnx.ml", kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0], **own)


def normalized() -> None:
    """Texts in another case, without stop words. Locales but C have all letters of Unicode; this script needs C.UTF-8."""
    texts = np.array(["The", "the", "", "a THE b", "\u00c9\u00df", "\u0130I", "Cat"], object)
    for action in ("LOWER", "UPPER", "NONE"):
        for sensitive in (0, 1):
            own = {"case_change_action": action, "is_case_sensitive": sensitive, "locale": "C.UTF-8" if sensitive else "C"}
            node("StringNormalizer", [texts], domain="", **own)
            node("StringNormalizer", [texts[None]], domain="", stopwords=["the", "cat", ""], **own)
    node("StringNormalizer", [texts[:2]], domain="", stopwords=["the"], locale="C")


ROWS = (unique, integer_reductions, suppressed, trees, classifiers, learned, machines, normalized)
