// A page that comes back with what is wrong in its form begins there, however far down: the first field that is wrong has
// the focus, else what is wrong with the whole form, so that it is seen and read out.
"use strict";

(() => {
  const wrong = document.querySelector("main [aria-invalid=true]")
    ?? document.querySelector("main form :is(.problem, .errornote):not([hidden])");
  if (!wrong) return;
  if (wrong.tabIndex < 0) wrong.tabIndex = -1; // can have the focus, as a field can
  wrong.focus({ preventScroll: true });
  wrong.scrollIntoView({ block: "center" });
})();
