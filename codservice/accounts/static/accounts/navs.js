// A row of links that scrolls sideways, as on a phone: the current one is to be seen.
"use strict";

for (const here of document.querySelectorAll("nav > [aria-current]")) {
  const [row, link] = [here.parentElement, here].map((part) => part.getBoundingClientRect());
  here.parentElement.scrollBy({ left: (link.left + link.right - row.left - row.right) / 2, behavior: "instant" });
}
