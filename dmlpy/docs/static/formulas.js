// Where MathJax cannot be loaded, as without a network, formulas are shown as plain text instead of TeX.
window.addEventListener("load", () => {
  if (window.MathJax && window.MathJax.version) return;
  for (const formula of document.querySelectorAll(".dmlpy-formula")) {
    const plain = formula.nextElementSibling;
    if (!plain || plain.tagName !== "DETAILS") continue;
    formula.hidden = true;
    plain.open = true;
  }
});
