// A page that comes back with what is wrong in its form begins there, however far down: the first field that is wrong has
// the focus, so that it and what is said of it are seen and read out.
"use strict";

(() => {
  const wrong = document.querySelector("main [aria-invalid=true]");
  wrong?.focus({ preventScroll: true });
  (wrong ?? document.querySelector("main form :is(.problem, .errornote)"))?.scrollIntoView({ block: "center" });
})();
