// Editing an order: its new total, products, the fee, and the commune of another wilaya.
"use strict";

(() => {
  const form = document.querySelector("form[data-surcharge]");
  const total = document.getElementById("total");

  // --- The total, in centimes to avoid binary fractions ---

  const point = (0.5).toLocaleString(document.documentElement.lang)[1];

  function centimes(text) {
    // Arabic digits begin at U+0660 or U+06F0, so that the rest of a division by 16 is a digit's value.
    const plain = text.replace(/[\s٬]/g, "").replace(/[٠-٩۰-۹]/g, (digit) => digit.charCodeAt() % 16);
    const amount = /^(\d*)(?:[.,٫،](\d{0,2}))?$/.exec(plain);
    return amount && Number(amount[1] || 0) * 100 + Number((amount[2] || "").padEnd(2, "0"));
  }

  function showTotal() {
    const fee = centimes(form.elements.shipping_fee.value);
    const discount = centimes(form.elements.discount.value);
    if (fee === null || discount === null) {
      total.value = "…"; // the service reads more than this script
      return;
    }
    let sum = fee + centimes(form.dataset.surcharge) - discount;
    for (const row of form.querySelectorAll("tr[data-price]")) {
      const quantity = row.querySelector('[name^="quantity-"]');
      const remove = row.querySelector('[name^="remove-"]');
      const now = remove.checked ? 0 : Number(quantity.value || 0);
      quantity.readOnly = remove.checked;
      row.classList.toggle("removed", now === 0);
      sum += now * centimes(row.dataset.price);
    }
    const dinars = String(Math.trunc(Math.abs(sum) / 100)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
    const rest = Math.abs(sum) % 100;
    total.value = (sum < 0 ? "-" : "") + dinars + (rest ? point + String(rest).padStart(2, "0") : "");
  }

  form.addEventListener("input", showTotal);
  showTotal();

  // --- A change of wilaya, by code: another spelling or unreadable text is no change ---

  const shown = form.querySelector("[data-places]").dataset;
  const communes = {}; // what was last typed for each wilaya
  let { wilaya } = shown;
  let feeFor = wilaya; // the wilaya that the proposed fee is for

  function move(code, written) {
    if (!code || code === wilaya) return;
    const { commune } = form.elements;
    if (commune.value === written) { // not retyped since for the new wilaya
      communes[wilaya] = written;
      commune.value = communes[code] ?? "";
    }
    wilaya = code;
  }

  combobox(form.elements.wilaya, shown.places, { chosen: (code) => move(code, form.elements.commune.value) });
  combobox(form.elements.commune, shown.places, { around: form.elements.wilaya });

  // --- The other buttons: they fetch the page as it would come back, and take over parts of it ---

  const failed = document.getElementById("failed");

  function post(sent) {
    return pressing.ask(location.pathname, { method: "POST", body: sent });
  }

  /** The page and the fields sent for it. Without a page, it is null, and the agent is told unless it redirects. */
  async function ask(name, value) {
    const sent = new URLSearchParams(new FormData(form));
    sent.set(name, value);
    const answer = await post(sent);
    const text = answer?.ok ? await answer.text().catch(() => "") : "";
    if (!text && answer?.type !== "opaqueredirect") failed.textContent = failed.dataset.says;
    return { sent, page: text ? new DOMParser().parseFromString(text, "text/html") : null };
  }

  /** Take over a part of the page that came. What was typed there since sending stays, and so does the focus. */
  function take(now, next, sent) {
    let focused;
    for (const field of now.querySelectorAll("input, select")) {
      const again = next.querySelector(`[name="${field.name}"]`);
      if (!again) continue;
      if (field === document.activeElement) focused = again;
      const isBox = field.type === "checkbox";
      const isNew = isBox ? field.checked !== sent.has(field.name) : field.value !== sent.get(field.name);
      if (isNew) Object.assign(again, { value: field.value, checked: field.checked });
    }
    now.replaceChildren(...next.childNodes);
    Object.assign(now.dataset, next.dataset);
    focused?.focus();
  }

  // Products arrive one after the other, and saving waits for them. A search waits too, and is dropped for whatever
  // is asked next.

  let searches = 0;
  let coming = 0; // products
  let choosing = Promise.resolve();
  let saving = null; // by which button

  /** Show what was found; only the count is read out. */
  function offer(page, sent) {
    for (const part of ["said", "found"]) take(document.getElementById(part), page.getElementById(part), sent);
  }

  async function search() {
    const number = ++searches;
    failed.textContent = "";
    await choosing;
    if (number !== searches) return;
    const { sent, page } = await ask("search", "1");
    if (page && number === searches) offer(page, sent);
  }

  function choose(product) {
    const focused = document.activeElement;
    searches++;
    coming++;
    failed.textContent = "";
    choosing = choosing.then(async () => {
      const { sent, page } = await ask("choose", product).finally(() => coming--);
      if (page) return takeChosen(page, sent, focused);
      saving = null; // save nothing without it
      pressing.check();
    }).catch(() => { // a fault of this script, which must not keep anybody from saving
      saving = null;
      failed.textContent = failed.dataset.says;
    }).then(() => {
      if (coming) return;
      saving?.click();
      saving = null;
    });
  }

  /** The added or changed line. Its quantity gets the focus, unless the agent has moved on. */
  function takeChosen(page, sent, focused) {
    const isHere = [focused, document.body].includes(document.activeElement);
    form.dataset.unsent = "";
    offer(page, sent);
    const names = [...page.querySelectorAll("#lines [name^=quantity]")].map((field) => field.name);
    const name = names.find((each) => each === `quantity-${sent.get("instead")}` || !form.elements[each]);
    if (!name) return;
    const row = (each) => each.querySelector(`#lines [name="${name}"]`).closest("tr");
    if (form.elements[name]) take(row(document), row(page), sent);
    else document.getElementById("lines").append(row(page));
    showTotal();
    if (!isHere) return;
    form.elements[name].focus();
    form.elements[name].select();
  }

  addEventListener("submit", (event) => {
    if (event.target !== form || !coming) return;
    event.preventDefault();
    event.stopPropagation();
    saving = event.submitter;
  }, true);

  // Saving. Only a page may replace this one, because what is typed here is stored nowhere else. A redirect may lead to
  // the call, once saved or when the customer is not the agent's any more, or to the login. It does not say which.

  let isSaving = false;
  const leave = () => location.assign(form.querySelector(".bar a").href);

  /** What is saved of the form: all but the search for products. */
  function written() {
    const sent = new URLSearchParams(new FormData(form));
    sent.delete("q");
    return String(sent);
  }

  form.addEventListener("submit", async (event) => {
    if (event.defaultPrevented) return; // sent later
    event.preventDefault();
    if (isSaving) return; // pressed twice, where pressing.js sends at once
    const now = written();
    if (form.dataset.saved === now) { // pressed before the call's page has come
      pressing.endSending();
      return leave();
    }
    if ("saved" in form.dataset) {
      stop(); // the call's page would replace what was written since
      delete form.dataset.sent;
    }
    isSaving = true;
    failed.textContent = "";
    const answer = await post(new URLSearchParams(now));
    const isPage = answer?.ok || answer?.status === 422;
    const isElsewhere = answer?.type === "opaqueredirect";
    const isSaved = isElsewhere && await isStillHeld();
    isSaving = false;
    if (isPage || (isSaved && written() === now)) form.dataset.sent = ""; // else the browser asks before it leaves
    if (isPage) return form.submit(); // refused forms can be sent again safely
    if (isSaved) {
      form.dataset.saved = now;
      history.replaceState(null, ""); // a refused form's page too is fetched again, and not sent, by who goes back
      if (!("sent" in form.dataset)) pressing.endSending();
      return leave();
    }
    if (!answer || isSaved === null) failed.textContent = pressing.away; // perhaps saved
    else if (!isElsewhere) failed.textContent = failed.dataset.says;
    pressing.endSending();
    watch.look(); // says so if the customer or the session is gone
  });

  // Gone back to, to write more: what is saved has another version now.
  addEventListener("pageshow", ({ persisted }) => {
    if (!persisted) return;
    failed.textContent = "";
    if ("saved" in form.dataset) location.reload();
    else delete form.dataset.sent;
  });

  /** Whether the customer is still the agent's, who then is signed in too; null if no answer comes. */
  async function isStillHeld() {
    const answer = await pressing.ask(form.dataset.state);
    if (pressing.isLockedOut(answer)) return false;
    const state = answer?.ok ? await answer.json().catch(() => null) : null;
    return state && state.held;
  }

  // The fee: only the last request counts.

  let proposals = 0;
  let isFeeWanted = false; // in the same wilaya too

  async function propose(isWanted) {
    const number = ++proposals;
    failed.textContent = "";
    isFeeWanted ||= isWanted;
    const { sent, page } = await ask("propose", "1");
    if (!page || number !== proposals) return;
    move(page.querySelector("[data-places]").dataset.wilaya, sent.get("commune"));
    if (wilaya === feeFor && !isFeeWanted) return;
    feeFor = wilaya;
    isFeeWanted = false;
    take(document.getElementById("fee"), page.getElementById("fee"), sent);
    for (const name of ["shipping_fee", "shown_fee", "fee_for"]) {
      const field = form.elements[name];
      if (field.value === sent.get(name)) field.value = page.querySelector(`[name=${name}]`).value;
    }
    showTotal();
  }

  let typing; // the timer of the search for what is being typed
  const buttons = { search, choose, propose };
  form.addEventListener("click", (event) => {
    const button = event.target.closest("button[name]");
    if (!button || pressing.isDead(button)) return;
    event.preventDefault();
    if (button.name !== "propose") clearTimeout(typing); // or the search would replace what was chosen
    buttons[button.name](button.value);
  });

  form.elements.q.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(search, 250);
  });
  form.elements.q.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    search();
  });

  form.addEventListener("change", (event) => {
    if (event.target.name === "delivery_type") propose(true);
    if (event.target.name === "wilaya") propose(false);
  });

  form.querySelector("[aria-invalid]")?.focus(); // the refused field
})();
