// A row of links that scrolls sideways, as on a phone: the current one is to be seen, and the whole of that to which the
// keyboard comes. Under a finger none moves away.
"use strict";

for (const here of document.querySelectorAll("nav > [aria-current]")) {
  const [row, link] = [here.parentElement, here].map((part) => part.getBoundingClientRect());
  here.parentElement.scrollBy({ left: (link.left + link.right - row.left - row.right) / 2, behavior: "instant" });
}

document.addEventListener("focusin", ({ target }) => {
  if (target.matches("nav > :focus-visible")) target.scrollIntoView({ block: "nearest", inline: "nearest" });
});
