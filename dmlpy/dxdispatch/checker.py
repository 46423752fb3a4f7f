"""`check_file`: what is wrong with a file, be it a model or one desc."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dmlpy.checking import LATEST
from dmlpy.dxdispatch import text
from dmlpy.dxdispatch.examine import examine
from dmlpy.dxdispatch.files import Folders
from dmlpy.dxdispatch.model import from_dict, is_model
from dmlpy.dxdispatch.report import Finding, ModelError
from dmlpy.enums import FeatureLevel
from dmlpy.problems import Problem


@dataclass(frozen=True)
class Report:
    """The outcome of a check.

    Attributes:
        path: the file.
        feature_level: the cap that it was checked against.
        findings: problems by part of the file; empty when it is valid.
        warnings: what the file says that means nothing.
    """

    path: Path
    feature_level: FeatureLevel
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "file": str(self.path),
            "feature_level": str(self.feature_level),
            "valid": not self.findings,
            "findings": [finding.to_dict() for finding in self.findings],
            "warnings": list(self.warnings),
        }


def check_file(path: Path, feature_level: FeatureLevel = LATEST, *, strict: bool = False, input_path: Path | None = None) -> Report:
    """Checks a model or a single desc, nested or flat. The file's own syntax is part of the findings.

    Args:
        path: the file.
        feature_level: a cap, as for `dmlpy.check`.
        strict: as for `dmlpy.check`; models are always checked so.
        input_path: folder of the files that a model names, instead of its own.
    """
    try:
        data, twice = text.read(path)
        if is_model(data):
            model = from_dict(data, path, Folders.of(path, input_path), feature_level, twice)
            return Report(path, feature_level, (), model.warnings)
    except ModelError as error:
        return Report(path, feature_level, tuple(error.findings))
    findings = [Finding("", twice)] if twice else []
    if not any(key.lower() == "type" for key in data):
        expected = "a model (resources, dispatchables, commands) or a desc (Type, Desc)"
        findings.append(Finding("", (Problem("json.root", "file", "no model and no desc", expected),)))
        return Report(path, feature_level, tuple(findings))
    examined = examine(data, feature_level, strict=strict)
    if examined.problems:
        findings.append(examined.finding(""))
    return Report(path, feature_level, tuple(findings))
