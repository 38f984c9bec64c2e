// Who is about to leave a page on which they wrote something that is not sent is asked first, by the browser. Not asked is
// about what only searches or chooses, nor about passwords, which browsers fill in by themselves. A script that sends a
// form and then leads on itself gives it data-sent; a page that comes with what is not sent yet gives data-unsent.
"use strict";

(() => {
  const FORMS = "main form[method=post]:not(.filters, [data-sent], :has(.choose, [type=password]))";
  const WRONG = "[aria-invalid=true], :is(.problem, .errornote):not([hidden])";
  let sent = null; // the form whose answer takes the page's place
  let isCalling = false; // by a link that leads to no page

  /** Also what is not to be pressed just now. */
  function written(form) {
    const fields = form.querySelectorAll("input, select, textarea");
    return JSON.stringify([...fields].map(({ value, checked }) => [value, checked]));
  }

  /** Whether it is not as it came, or came with what was refused. */
  function isUnsent(form) {
    if (form.matches("[data-unsent]") || form.querySelector(WRONG)) return true;
    const untouched = form.cloneNode(true);
    untouched.reset();
    return written(form) !== written(untouched);
  }

  addEventListener("submit", (event) => {
    if (!event.defaultPrevented) sent = event.target;
  });

  addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    isCalling = Boolean(link) && !link.protocol.startsWith("http");
    setTimeout(() => { isCalling = false; });
  });

  addEventListener("beforeunload", (event) => {
    const left = [...document.querySelectorAll(FORMS)].filter((form) => form !== sent);
    sent = null;
    if (isCalling || !left.some(isUnsent)) return;
    event.preventDefault();
    event.returnValue = true; // for Chrome before version 119
    // Who stays may press again at once.
    setTimeout(() => { if (typeof pressing !== "undefined") pressing.set("sent", false); });
  });
})();
