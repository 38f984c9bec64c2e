// Where a page begins for who works by keyboard, or hears it. One that comes back with what is wrong in its form begins
// there, however far down: the first field that is wrong has the focus, else what is wrong with the whole form, so that
// it is seen and read out. One that says what was done, or shows what is shown once, begins with that, since nobody is
// told of a `status` that came with its page; where it begins in a field or a button, it is said of that.
"use strict";

(() => {
  const wrong = document.querySelector("main [aria-invalid=true]")
    ?? document.querySelector("main form :is(.problem, .errornote):not([hidden])");
  const said = document.querySelectorAll("main :is(.message[role=status], .new-key, .own-codes), .messagelist > li");
  const start = document.querySelector("[autofocus]");
  const first = wrong ?? said[0];
  if (!first || ![document.body, start].includes(document.activeElement)) return; // who was faster stays where they are
  if (first !== wrong && start) {
    const ids = Array.from(said, (each, number) => (each.id ||= `said-${number}`));
    start.setAttribute("aria-describedby", [...ids, start.getAttribute("aria-describedby")].join(" "));
    return;
  }
  if (first.tabIndex < 0) first.tabIndex = -1; // can have the focus, as a field can
  first.focus({ preventScroll: true });
  if (first === wrong) wrong.scrollIntoView({ block: "center" });
})();
