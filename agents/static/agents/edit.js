// Editing an order: the total as it will be, and places to choose from while typing.
"use strict";

(() => {
  const form = document.querySelector("form[data-surcharge]");
  const total = document.getElementById("total");

  // --- The total: in centimes, so that no binary fraction is met ---

  function centimes(text) {
    const plain = text.replace(/[\s٬]/g, "").replace(/[٠-٩۰-۹]/g, (digit) => digit.charCodeAt() % 16);
    const amount = /^(\d*)(?:[.,٫،](\d{0,2}))?$/.exec(plain);
    return amount && Number(amount[1] || 0) * 100 + Number((amount[2] || "").padEnd(2, "0"));
  }

  function show() {
    const [fee, discount] = [form.elements.shipping_fee, form.elements.discount].map((field) => centimes(field.value));
    if (fee === null || discount === null) return;
    let sum = fee + centimes(form.dataset.surcharge) - discount;
    for (const row of form.querySelectorAll("tr[data-price]")) {
      const [quantity, remove] = ["quantity", "remove"].map((kind) => row.querySelector(`[name^="${kind}-"]`));
      const now = remove.checked ? 0 : Number(quantity.value || 0);
      quantity.readOnly = remove.checked;
      row.classList.toggle("removed", now === 0);
      sum += now * centimes(row.dataset.price);
    }
    const dinars = String(Math.trunc(Math.abs(sum) / 100)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
    const rest = Math.abs(sum) % 100;
    total.value = (sum < 0 ? "-" : "") + dinars + (rest ? "." + String(rest).padStart(2, "0") : "");
  }

  form.addEventListener("input", show);
  show();

  // --- What the other buttons do: the page as it would come back, of which parts are taken over ---

  let asked = 0;
  async function ask(name, value) {
    const number = ++asked;
    const body = new URLSearchParams(new FormData(form));
    body.set(name, value);
    const answer = await fetch(location.pathname, { method: "POST", body, redirect: "manual" }).catch(() => null);
    if (!answer?.ok || number !== asked) return null;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (number !== asked) return null;
    move(page.querySelector("[data-places]").dataset.wilaya, body.get("commune"));
    return page;
  }

  function takeOver(page, parts) {
    for (const id of parts) {
      const [now, next] = [document.getElementById(id), page.getElementById(id)];
      if (!now || !next) continue;
      if (now.matches("input")) now.value = next.value;
      else now.replaceChildren(...next.childNodes);
    }
    show();
  }

  async function rewrite(name, value, parts) {
    const line = form.elements.instead?.value; // in whose place a product is put; else it gets the last one
    const page = await ask(name, value);
    if (!page) return;
    takeOver(page, parts);
    if (name !== "choose") return;
    const quantity = form.elements[`quantity-${line}`] ?? form.querySelector("#lines tr:last-child [name^=quantity]");
    quantity.focus();
    quantity.select();
  }

  const FEE = ["fee", "edit-shipping_fee", "edit-fee_for"];
  form.addEventListener("click", (event) => {
    const button = event.target.closest("button[name]");
    if (!button || pressing.isDead(button)) return;
    event.preventDefault();
    if (button.name !== "propose") clearTimeout(typing); // else the search would take the place of what was chosen
    rewrite(button.name, button.value, { search: ["found"], choose: ["lines", "found"], propose: FEE }[button.name]);
  });

  let typing;
  form.elements.q.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => rewrite("search", "1", ["found"]), 250);
  });
  form.elements.q.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    rewrite("search", "1", ["found"]);
  });

  form.addEventListener("change", async (event) => {
    if (event.target.name === "delivery_type") rewrite("propose", "1", FEE);
    if (event.target.name !== "wilaya") return;
    const page = await ask("propose", "1");
    if (!page || wilaya === feeFor) return;
    feeFor = wilaya;
    takeOver(page, FEE);
  });

  // --- Another wilaya, by its code: the same one in other words is none, nor is what cannot be read ---

  const places = form.querySelector("[data-places]");
  const communes = {}; // what was last written of each wilaya
  let wilaya = places.dataset.wilaya;
  let feeFor = wilaya;

  function move(code, written) {
    if (!code || code === wilaya) return;
    const { commune } = form.elements;
    if (commune.value === written) { // else it has been written since, of the new one
      communes[wilaya] = written;
      commune.value = communes[code] ?? "";
    }
    wilaya = code;
  }

  // --- Places: a combobox after the ARIA Authoring Practices ---

  const inArabic = document.documentElement.lang.startsWith("ar");

  function combobox(input, around) {
    const list = document.createElement("ul");
    list.id = input.id + "-list";
    list.hidden = true;
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", input.labels[0].textContent);
    input.after(list);
    for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"], ["aria-controls", list.id], ["aria-expanded", "false"]]) {
      input.setAttribute(name, value);
    }
    let asked = 0;
    let active = -1;
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
      asked++; // what is still being asked for opens no list any more
      input.value = option.dataset.name;
      open(false);
      if (!around) move(option.dataset.code, form.elements.commune.value);
      input.dispatchEvent(new Event("change", { bubbles: true }));
    }

    async function search() {
      const number = ++asked;
      const query = new URLSearchParams({ q: input.value, ...(around && { wilaya: around.value }) });
      const answer = await fetch(`${places.dataset.places}?${query}`, { redirect: "manual" }).catch(() => null);
      if (number !== asked) return;
      if (!answer?.ok) return open(false);
      const found = (await answer.json()).places;
      if (number !== asked || document.activeElement !== input) return;
      list.replaceChildren(...found.map((place, index) => {
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
        option.addEventListener("pointerdown", (event) => {
          event.preventDefault();
          choose(option);
        });
        return option;
      }));
      open(found.length > 0);
    }

    /** The active place, else the first of those that answer what is written: they may still be on their way. */
    async function take() {
      const last = searching;
      if (active < 0) await last;
      if (last === searching && !list.hidden) choose(list.children[Math.max(active, 0)]);
    }

    input.addEventListener("input", () => { searching = search(); });
    input.addEventListener("blur", () => open(false));
    input.addEventListener("keydown", (event) => {
      const count = list.children.length;
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        if (list.hidden) searching = search();
        else activate((active + (event.key === "ArrowDown" ? 1 : -1) + count) % count);
      } else if (event.key === "Enter") {
        event.preventDefault(); // chooses a place here, and saves nothing
        take();
      } else if (event.key === "Tab" && active >= 0) {
        choose(list.children[active]);
      } else if (event.key === "Escape" && !list.hidden) {
        event.stopPropagation();
        open(false);
      }
    });
  }

  combobox(form.elements.wilaya, null);
  combobox(form.elements.commune, form.elements.wilaya);

  form.querySelector("[aria-invalid]")?.focus(); // what was refused is written anew
})();
