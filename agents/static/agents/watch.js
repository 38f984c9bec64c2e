// Checks whether what the page shows is still true, and renews the lease while the agent is at work. The form's
// data-state says where to ask; fieldsets with data-needs are disabled when it is not true any more.
"use strict";

const watch = (() => {
  const form = document.querySelector("form[data-state]");
  const news = document.getElementById("news");
  const lease = document.getElementById("lease");
  const said = form.dataset;
  let state = { held: true, changed: [], says: [] };
  let leaseEnds = Date.now() + said.lease * 1000;
  let lastKept = performance.now();

  // --- What the agent is told ---

  function chosen() {
    return new FormData(form).get("order");
  }

  let told = "";

  function show() {
    const { activeElement } = document;
    for (const part of document.querySelectorAll("fieldset[data-needs]")) {
      const changed = part.dataset.needs === "order" ? state.changed.includes(chosen()) : state.changed.length > 0;
      part.disabled = !state.held || changed || pressing.isShut();
    }
    pressing.resume?.(activeElement); // missing in the version before, which may serve pressing.js during an upgrade
    document.querySelectorAll("[data-order]").forEach((card) => {
      card.classList.toggle("changed", !state.held || state.changed.includes(card.dataset.order));
    });
    const text = state.says.join("\n");
    if (told !== text) { // what is written anew is read out anew
      told = news.firstElementChild.innerText = text;
      news.hidden = !text;
    }
    for (const note of document.querySelectorAll("p.errornote[role=alert]")) {
      if (state.says.some((each) => each.endsWith(note.textContent))) note.remove(); // why an edit was refused: said once
    }
  }

  function showLease() {
    const left = leaseEnds - Date.now();
    const warning = state.held && left < 60_000 ? said.warning : "";
    if (lease.textContent !== warning) lease.textContent = warning;
    if (state.held && left < 0) look();
  }

  // --- Asking the service ---

  /** The answer as JSON, or null if none comes. */
  async function ask(url, options) {
    const answer = await pressing.ask(url, options);
    if (pressing.isLockedOut(answer)) {
      // A form may also be refused because somebody else has signed in; a look, only for want of the role.
      state = { held: false, changed: [], says: [answer.status === 403 && !options ? said.noAccess : said.signedOut] };
      return null;
    }
    const found = answer?.ok ? await answer.json().catch(() => null) : null;
    if (!found && !pressing.isSent()) pressing.check();
    return found;
  }

  let asking = false;

  /** Ask now, unless a form is being sent, and show what is not true any more. */
  async function look() {
    if (asking || pressing.isSent()) return;
    asking = true;
    const seen = new URLSearchParams(new FormData(form).getAll("seen").map((value) => ["seen", value]));
    const answer = await ask(`${said.state}?${seen}`);
    asking = false;
    if (pressing.isSent()) return;
    if (answer) {
      state = answer;
      leaseEnds = Date.now() + answer.lease * 1000;
      if (answer.lease < said.lease - said.keptEvery) lastKept = -Infinity; // performance.now may not count a sleep
      for (const field of document.getElementsByName("csrfmiddlewaretoken")) {
        Object.assign(field, { value: answer.token, autocomplete: "off" }); // or Safari would restore it on the way back
      }
    }
    show();
    showLease();
  }

  async function keep() {
    if (!state.held || pressing.isSent() || performance.now() - lastKept < said.keptEvery * 1000) return;
    lastKept = performance.now();
    const answer = await ask(said.keep, { method: "POST", headers: { "X-CSRFToken": form.elements.csrfmiddlewaretoken.value } });
    if (answer?.held) {
      leaseEnds = Date.now() + answer.lease * 1000;
      showLease();
    } else {
      await look();
      lastKept = performance.now(); // whatever it found, no sooner again
    }
  }

  setInterval(look, said.polledEvery * 1000);
  setInterval(showLease, 1000);
  document.addEventListener("visibilitychange", () => document.hidden || look());
  for (const activity of ["keydown", "pointerdown", "pointermove"]) document.addEventListener(activity, keep, { passive: true });

  document.addEventListener("pressing", show);
  show();
  document.addEventListener("change", (event) => event.target.matches("[name=order]") && show());

  return { look };
})();
