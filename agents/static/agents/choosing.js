// The list's bar: says how many orders are chosen, and chooses all of the page.
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
  addEventListener("pageshow", show); // a browser that comes back remembers what was chosen
  said.hidden = page.parentElement.hidden = false;
  show();
})();
