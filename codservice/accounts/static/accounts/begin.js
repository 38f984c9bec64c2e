// Where a page begins for people who use the keyboard or a screen reader. After a refused form, the first wrong field,
// or else the form's own error, gets the focus, so that it is seen and read out, however far down it is. A page that
// says what was done, or shows something once, begins with that, since screen readers ignore a `status` that comes with
// the page; if it has an autofocus element, that is described by it instead.
"use strict";

(() => {
  const wrong = document.querySelector("main [aria-invalid=true]")
    ?? document.querySelector("main form :is(.problem, .errornote):not([hidden])");
  if (wrong) history.replaceState(history.state, ""); // gone back to or reloaded, it is fetched and not sent again
  const said = document.querySelectorAll("main :is(.message[role=status], .new-key, .own-codes), .messagelist > li");
  const start = document.querySelector("[autofocus]");
  const first = wrong ?? said[0];
  if (!first || ![document.body, start].includes(document.activeElement)) return; // do not move a focus already set
  if (first !== wrong && start) {
    const ids = Array.from(said, (each, number) => (each.id ||= `said-${number}`));
    start.setAttribute("aria-describedby", [...ids, start.getAttribute("aria-describedby")].join(" "));
    return;
  }
  if (first.tabIndex < 0) first.tabIndex = -1; // to be focusable like a field
  first.focus({ preventScroll: true });
  if (first === wrong) wrong.scrollIntoView({ block: "center" });
})();
