// The browser asks before leaving a page with something typed and not sent. Forms that only search or choose are left
// out, and those with passwords, which browsers fill in themselves. A script that sends a form and then redirects marks
// it with data-sent; a form that comes with something not sent yet has data-unsent.
"use strict";

(() => {
  const FORMS = "main form[method=post]:not(.filters, [data-sent])";
  const LEFT_OUT = ".choose, [type=password]";
  const WRONG = "[aria-invalid=true], :is(.problem, .errornote):not([hidden])";
  let sent = null; // the form whose answer replaces the page
  let isCalling = false; // by a link to no page

  /** Includes fields disabled just now. */
  function written(form) {
    const fields = form.querySelectorAll("input, select, textarea");
    return JSON.stringify([...fields].map(({ value, checked }) => [value, checked]));
  }

  /** Whether it has changed, or came back refused. */
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
    const left = [...document.querySelectorAll(FORMS)].filter((form) => form !== sent && !form.querySelector(LEFT_OUT));
    sent = null;
    if (isCalling || !left.some(isUnsent)) return;
    event.preventDefault();
    event.returnValue = true; // for Chrome before version 119
    // Those who stay can press at once.
    setTimeout(() => { if (typeof pressing !== "undefined") pressing.endSending(); });
  });
})();
