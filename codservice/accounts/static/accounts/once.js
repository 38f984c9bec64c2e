// A form is not sent again while its answer is on its way. Both would be carried out, and only the second answer seen:
// one without the key that is shown once, or one that calls the code or link just used invalid.
"use strict";

(() => {
  const ANSWERED = 10_000; // milliseconds; later it was stopped, or the answer is a file
  let sent = {};

  // Signing in or out, or switching the mode, makes the forms in other tabs out of date, however new. session.js
  // listens there.
  function tellOtherTabs() {
    localStorage.setItem("pages", Date.now());
  }

  document.addEventListener("submit", (event) => {
    if (event.target !== sent.form || performance.now() - sent.at >= ANSWERED) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  addEventListener("submit", (event) => {
    if (event.target.method !== "post" || event.defaultPrevented) return;
    sent = { form: event.target, at: performance.now() };
    tellOtherTabs();
  });

  // A page that is shown again as it was left, by going back, has its answer.
  addEventListener("pageshow", (event) => {
    if (event.persisted) sent = {};
  });

  // Nothing is sent if the person chooses to stay on the page (unsent.js).
  addEventListener("beforeunload", (event) => {
    setTimeout(() => { if (event.defaultPrevented) sent = {}; });
  });

  if (!document.querySelector("script[data-person]")) tellOtherTabs(); // last, as it fails where nothing can be stored
})();
