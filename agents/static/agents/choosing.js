// The list's bar: counts the chosen orders, and can choose the whole page.
"use strict";

(() => {
  const form = document.querySelector("[data-choosing]");
  if (!form) return;
  const boxes = [...form.querySelectorAll("input[name=chosen]")];
  const [said, page, every] = ["[data-chosen]", "[data-page]", "[data-every]"].map((name) => form.querySelector(name));

  function show() {
    const count = boxes.filter((box) => box.checked).length;
    for (const box of [...boxes, page]) box.disabled = every.checked;
    page.checked = count === boxes.length;
    page.indeterminate = count > 0 && count < boxes.length;
    form.toggleAttribute("data-none", !count && !every.checked);
    said.querySelector("bdi").textContent = every.checked ? every.dataset.every : count;
  }

  page.addEventListener("change", () => {
    for (const box of boxes) box.checked = page.checked;
  });
  form.addEventListener("change", show);
  addEventListener("pageshow", show); // on the way back, browsers restore the choice
  said.hidden = page.parentElement.hidden = false;
  show();
})();
