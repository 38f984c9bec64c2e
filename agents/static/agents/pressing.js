// When buttons work: not while a form is being sent, not while the service is out of reach, and not in the first
// data-settles milliseconds of a deciding screen (the service itself refuses early presses only of call outcomes).
"use strict";

const pressing = (() => {
  const said = document.currentScript.dataset;
  document.documentElement.dataset.keys = said.keys;
  // Why buttons do not work now: the screen is "new", a form is being "sent", the service is "away".
  const reasons = new Set();
  let isChecked = false; // the form being sent has found the service up
  let settling, rechecking, stopping; // timers
  let warning; // the notice while the service is away
  let interrupted = null; // the field that lost the focus because its part was disabled

  function set(reason, holds) {
    const { activeElement } = document;
    if (holds) reasons.add(reason);
    else reasons.delete(reason);
    if (reasons.size) document.documentElement.dataset.dead = [...reasons].join(" ");
    else delete document.documentElement.dataset.dead;
    for (const part of document.querySelectorAll("fieldset[data-rests]")) part.disabled = isShut();
    document.dispatchEvent(new Event("pressing"));
    resume(activeElement);
  }

  /** Give the focus back to a field that is usable again, or the next digit typed would press a button (keys.js). */
  function resume(focused) {
    if (focused.matches(":disabled")) interrupted = focused;
    if (!interrupted || interrupted.matches(":disabled")) return;
    if (focused === document.body) interrupted.focus();
    interrupted = null;
  }

  /** Whether buttons are shown as disabled. Not while sending, because disabled ones would not be sent. */
  const isShut = () => reasons.has("new") || reasons.has("away");

  /** The form has been answered, or is not sent after all. */
  const endSending = () => set("sent", false);

  function settle() {
    const screen = document.querySelector("[data-settles]");
    if (!screen) return;
    set("new", true);
    clearTimeout(settling);
    settling = setTimeout(() => set("new", false), Number(screen.dataset.settles));
  }

  function setAway(isAway) {
    clearTimeout(rechecking);
    if (isAway) rechecking = setTimeout(check, 3000);
    if (isAway === reasons.has("away")) return;
    set("away", isAway);
    if (isAway && !warning) {
      warning = document.createElement("div");
      warning.className = "away";
      warning.setAttribute("role", "alert");
      document.body.append(warning);
    }
    if (warning) warning.textContent = isAway ? said.away : "";
  }

  /** The service's answer, or null if none comes in time. A redirect means the login. */
  function ask(address, options) {
    const usual = { redirect: "manual", cache: "no-store", signal: AbortSignal.timeout?.(8000) };
    return fetch(address, { ...usual, ...options }).catch(() => null);
  }

  /** Whether the answer says that this person is signed out or has lost the role. */
  const isLockedOut = (answer) => answer?.type === "opaqueredirect" || answer?.status === 403;

  /** Is the service up? */
  async function check() {
    const answer = await ask(said.here, { method: "HEAD" }); // a browser may be wrong that it is offline
    setAway(!answer?.ok);
    return Boolean(answer?.ok);
  }

  addEventListener("offline", () => setAway(true));
  addEventListener("online", check);

  /** Whether a press on this does nothing. On a new screen, that is so only in its fieldsets. */
  function isDead(target) {
    return reasons.has("sent") || reasons.has("away") || (reasons.has("new") && Boolean(target?.closest("fieldset[data-needs]")));
  }

  function leads(link) {
    return link.origin === location.origin && link.target !== "_blank";
  }

  document.addEventListener("click", (event) => {
    const pressed = event.target.closest("button, input[type=submit], summary, a[href]");
    const isHarmless = !pressed || pressed.matches("button[type=button]") || (pressed.matches("a") && !leads(pressed));
    if (isHarmless || !isDead(pressed) || (pressed.matches("summary") && !reasons.has("new"))) return;
    event.preventDefault();
    event.stopPropagation();
  }, true);

  document.addEventListener("submit", async (event) => {
    const { target: form, submitter } = event;
    if (isChecked) return; // the second time: send it
    if (isDead(submitter)) {
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    if ((submitter?.formMethod || form.method) !== "post" || !form.requestSubmit) return; // as in Safari 15: send it
    event.preventDefault();
    clearTimeout(stopping); // of what was sent before
    set("sent", true);
    if (await check()) {
      isChecked = true;
      form.requestSubmit(submitter);
      isChecked = false;
      stopping = setTimeout(endSending, 30_000); // stopped, or no answer
    } else {
      endSending();
    }
  }, true);

  addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    endSending();
    settle();
  });
  if (!navigator.onLine) check();
  settle();

  return { away: said.away, ask, check, endSending, isDead, isLockedOut, isSent: () => reasons.has("sent"), isShut, resume };
})();
