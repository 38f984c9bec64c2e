// The call screen: choosing an order, drafts of what is typed, what to say.
"use strict";

(() => {
  const form = document.getElementById("outcome");

  // Focus the refused field once its panel can be used.
  document.addEventListener("pressing", () => {
    if (document.activeElement === document.body) form.querySelector("[aria-invalid]")?.focus();
  }, { once: true });

  // An open panel is for the order that was chosen when it opened, and so is a press until it is sent.
  const radios = [...document.querySelectorAll("input[type=radio][name=order]")];
  document.addEventListener("pressing", () => {
    for (const radio of radios) radio.disabled = pressing.isSent() && !radio.checked;
  });
  document.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !radios.length || isWithModifier(event) || isPanelOpen() || pressing.isSent()) return;
    if (isTyping(event.target) || event.target.matches("[type=radio]")) return;
    const forward = document.documentElement.dir === "rtl" ? -step : step;
    const now = radios.findIndex((radio) => radio.checked);
    const next = radios[(now + forward + radios.length) % radios.length];
    next.checked = true;
    next.closest("section").scrollIntoView({ block: "nearest" });
    next.dispatchEvent(new Event("change", { bubbles: true }));
  });

  // Whoever reloads, comes back or signs in anew gets the order at hand again.
  const again = document.querySelector("#news a");
  const remember = () => {
    again.search = `order=${new FormData(form).get("order")}`;
    history.replaceState(null, "", again.href);
  };
  document.addEventListener("change", ({ target }) => radios.includes(target) && remember());
  remember(); // of a form that came back, too, which no browser sends again by itself

  // Drafts. They and what follows fail where nothing can be stored, or no more.
  const draft = DRAFTS + form.dataset.draft;
  const fields = [...form.querySelectorAll("[dir=auto], [name=at]")];
  const { pause } = form.elements;

  function keep() {
    const said = Object.fromEntries(fields.map(({ name, value }) => [name, value]));
    const kept = { said, pause: pause.checked, state: form.dataset.state, at: Date.now() };
    if (kept.pause || Object.values(said).some(Boolean)) localStorage.setItem(draft, JSON.stringify(kept));
    else localStorage.removeItem(draft);
  }

  let kept = JSON.parse(localStorage.getItem(draft));
  // The answer to another call's outcome may have been lost.
  const note = kept?.said.note.trim();
  const isNoted = ({ textContent }) => `\n${textContent}`.endsWith(`\n${note}`);
  if (note && kept.state !== form.dataset.state && [...document.querySelectorAll(".log p")].some(isNoted)) kept = null;
  for (const field of fields) field.value ||= kept?.said[field.name] ?? "";
  pause.checked ||= Boolean(kept?.pause);
  form.addEventListener("input", keep);
  keep();

  // Open or closed as somebody left it; before, open on wide screens, which have a column for it.
  document.querySelectorAll("details.script").forEach((script) => {
    script.open = JSON.parse(localStorage.getItem("script")) ?? matchMedia("(min-width: 1500px)").matches;
    // Unlike `toggle`, which also comes of the line above, a press on it is a person's.
    script.querySelector("summary").addEventListener("click", () => localStorage.setItem("script", !script.open));
  });
})();
