// A form is not sent again while its answer is on its way: both would be carried out and the second answer alone be seen,
// which has no key that is shown once, and calls a code or a link used up that has just let somebody in.
"use strict";

(() => {
  const ANSWERED = 10_000; // milliseconds: by then, or it was stopped, or the answer is a file
  let sent = { at: 0 };

  // Who signs out or in, or switches the mode, makes the forms in other tabs out of date, however new they are: session.js
  // hears it there.
  function tellOtherTabs() {
    localStorage.setItem("pages", Date.now());
  }

  document.addEventListener("submit", (event) => {
    if (event.target !== sent.form || Date.now() - sent.at >= ANSWERED) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  addEventListener("submit", (event) => {
    if (event.target.method !== "post" || event.defaultPrevented) return;
    sent = { form: event.target, at: Date.now() };
    tellOtherTabs();
  });
  if (!document.querySelector("script[data-person]")) tellOtherTabs();

  // Who was asked whether to leave (unsent.js), and stays, has sent nothing.
  addEventListener("beforeunload", (event) => {
    setTimeout(() => { if (event.defaultPrevented) sent = { at: 0 }; });
  });
})();
