// A field with places to choose from: a combobox by the ARIA Authoring Practices.
"use strict";

/**
 * Offers wilayas in the input or, with the field of a wilaya as `around`, its communes. Asks `address` for them.
 * `chosen` gets the code of a chosen place, before the input's change event.
 */
function combobox(input, address, { around, chosen }) {
  const inArabic = document.documentElement.lang.startsWith("ar");
  const list = document.createElement("ul");
  list.id = input.id + "-list";
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", input.labels[0].textContent);
  list.addEventListener("mousedown", (event) => event.preventDefault()); // the input keeps the focus
  list.addEventListener("pointerdown", ({ target }) => (pressed = target.closest("li")));
  list.addEventListener("pointercancel", () => (pressed = null)); // the list is scrolled
  list.addEventListener("click", ({ target }) => {
    const option = target.closest("li");
    if (option && option === (pressed ?? option)) choose(option); // not one that has just come under the finger
    pressed = null;
  });
  input.after(list);
  for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"], ["aria-controls", list.id], ["aria-expanded", "false"]]) {
    input.setAttribute(name, value);
  }
  let asked = 0;
  let active = -1;
  let pressed = null; // the place on which a finger or the mouse came down
  let searching = Promise.resolve();

  function open(isOpen) {
    list.hidden = !isOpen;
    input.setAttribute("aria-expanded", String(isOpen));
    activate(-1);
  }

  function activate(number) {
    active = number;
    [...list.children].forEach((option, index) => option.setAttribute("aria-selected", String(index === number)));
    const option = list.children[number];
    if (option) {
      input.setAttribute("aria-activedescendant", option.id);
      option.scrollIntoView({ block: "nearest" });
    } else {
      input.removeAttribute("aria-activedescendant");
    }
  }

  function choose(option) {
    asked++; // pending requests no longer open the list
    input.value = option.dataset.name;
    open(false);
    chosen?.(option.dataset.code);
    input.dispatchEvent(new Event("change", { bubbles: true }));
  }

  async function search() {
    const number = ++asked;
    const query = new URLSearchParams({ q: input.value, ...(around && { wilaya: around.value }) });
    const answer = await pressing.ask(`${address}?${query}`, { cache: "default" });
    const found = answer?.ok ? await answer.json().catch(() => null) : null;
    if (number !== asked || document.activeElement !== input) return;
    if (!found) return open(false);
    list.replaceChildren(...found.places.map((place, index) => {
      const option = document.createElement("li");
      option.id = `${list.id}-${index}`;
      option.setAttribute("role", "option");
      option.dataset.code = place.code;
      option.dataset.name = inArabic ? place.name_ar : place.name;
      for (const name of [place.name, place.name_ar]) {
        const part = document.createElement("bdi");
        part.textContent = name;
        option.append(part, " ");
      }
      return option;
    }));
    open(found.places.length > 0);
  }

  /** Choose the active place, or else the first match for what is typed, once it has arrived. */
  async function take() {
    const last = searching;
    if (active < 0) await last;
    if (last === searching && !list.hidden) choose(list.children[Math.max(active, 0)]);
  }

  input.addEventListener("input", () => {
    activate(-1); // it was a place of what was written before
    searching = search();
  });
  input.addEventListener("blur", () => open(false));
  input.addEventListener("keydown", (event) => {
    const count = list.children.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) searching = search();
      else activate(event.key === "ArrowDown" ? (active + 1) % count : (active > 0 ? active : count) - 1);
    } else if (event.key === "Enter") {
      event.preventDefault(); // choose a place; do not save
      take();
    } else if (event.key === "Tab" && active >= 0) {
      choose(list.children[active]);
    } else if (event.key === "Escape") {
      asked++; // a list that is still on its way does not open either
      open(false);
    }
  });
}
