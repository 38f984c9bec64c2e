// The list's bar: counts the chosen orders, and can choose the whole page.
"use strict";

(() => {
  const form = document.querySelector("[data-choosing]");
  if (!form) return;
  const boxes = [...form.querySelectorAll("input[name=chosen]")];
  const [said, page, every] = ["[data-chosen]", "[data-page]", "[data-every]"].map((name) => form.querySelector(name));

  function show() {
    const chosen = boxes.filter((box) => box.checked).map((box) => box.value);
    for (const box of [...boxes, page]) box.disabled = every.checked;
    page.checked = chosen.length === boxes.length;
    page.indeterminate = chosen.length > 0 && !page.checked;
    form.toggleAttribute("data-none", !chosen.length && !every.checked);
    said.querySelector("bdi").textContent = every.checked ? every.dataset.every : chosen.length;
    history.replaceState({ chosen }, "");
  }

  // On the way back, browsers would restore the choice by place in the list, where another order may be by now.
  for (const box of boxes) box.checked = history.state?.chosen.includes(box.value);

  page.addEventListener("change", () => {
    for (const box of boxes) box.checked = page.checked;
  });
  form.addEventListener("change", show);
  addEventListener("pageshow", show); // browsers restore the rest of the form
  said.hidden = page.parentElement.hidden = false;
  show();
})();
