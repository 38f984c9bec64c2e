// Sending a form after being signed out, or while the service is away, would lose what was typed. So the form's page is
// fetched first (data-here, if the address only takes forms). If that is the login, another person's page or the other
// mode's, or refused by now, or nothing answers, the form is not sent. Otherwise it is sent, with the current token
// unless the page is slow to come. If the form is not a minute old, and no other tab has sent something since (once.js),
// only the page's head is fetched; or nothing, if pressing.js asks or upload.js tries again. A form of a closed account
// always asks for the page, and may be sent once the account is open again.
"use strict";

(() => {
  if (!HTMLFormElement.prototype.requestSubmit) return; // Safari before version 16
  const said = document.currentScript.dataset;
  const mode = document.documentElement.dataset.mode;
  const FRESH = 60_000; // milliseconds
  let seen = Date.now();
  let isAsking = false;
  let isAsked = false; // the form being sent has found the service up
  addEventListener("storage", (event) => {
    if (event.key === "pages") seen = 0;
  });

  const isFrozen = (page) => "frozen" in page.documentElement.dataset;

  /** Why not to send the form; empty if it may be sent, or unknown. */
  async function whyNot(form, method) {
    const signal = AbortSignal.timeout?.(8000);
    const answer = await fetch(said.here ?? location.href, { method, cache: "no-store", signal });
    if (new URL(answer.url).pathname === said.login) return said.signedOut;
    if (answer.status === 429 || answer.status >= 500) return said.away;
    if (answer.status === 403) return said.noAccess;
    if (!answer.ok) return "";
    const text = await answer.text().catch((failure) => {
      if (failure.name !== "TimeoutError") throw failure;
      return ""; // the service answers, over a slow line
    });
    if (!text) return "";
    const page = new DOMParser().parseFromString(text, "text/html");
    if (page.querySelector("script[data-person]")?.dataset.person !== said.person) return said.signedOut;
    if (page.documentElement.dataset.mode !== mode) return said.otherMode;
    if (isFrozen(page) && !form.matches(".mode")) return said.frozen;
    if ("readOnly" in page.documentElement.dataset && !form.matches(".mode")) return said.noAccess;
    const token = page.querySelector("[name=csrfmiddlewaretoken]")?.value;
    for (const field of document.getElementsByName("csrfmiddlewaretoken")) {
      // Safari would restore it on the way back, after signing in anew too.
      Object.assign(field, { value: token ?? field.value, autocomplete: "off" });
    }
    return "";
  }

  function tell(form, why) {
    const message = document.createElement("p");
    const link = Object.assign(document.createElement("a"), { href: said.login, target: "_blank", textContent: said.link });
    message.id = "not-sent";
    message.className = "message error errornote";
    message.setAttribute("role", "alert");
    message.append(why, " ", why === said.signedOut ? link : "");
    form.append(message);
    message.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("submit", async (event) => {
    const { target: form, submitter } = event;
    const isFresh = !isFrozen(document) && Date.now() - seen < FRESH;
    if (isFresh && (typeof pressing !== "undefined" || "failed" in form.dataset)) return;
    if (typeof pressing !== "undefined" && pressing.isSent()) return; // on its way, from a fresh page
    if ((submitter?.formMethod || form.method) !== "post" || !form.closest("main") || isAsked) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (isAsking) return;
    isAsking = true;
    document.getElementById("not-sent")?.remove();
    const why = await whyNot(form, isFresh ? "HEAD" : "GET").catch(() => said.away);
    isAsking = false;
    const isTold = why === said.away && typeof pressing !== "undefined" && !(await pressing.check()); // by pressing.js
    if (why) return isTold || tell(form, why);
    seen = Date.now();
    delete document.documentElement.dataset.frozen;
    isAsked = true;
    form.requestSubmit(submitter); // comes back here at once, and a browser may be wrong that it is offline
    isAsked = false;
  }, true);
})();
