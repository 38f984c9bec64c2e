// In a row of links that scrolls sideways, as on a phone, the current one is scrolled into view, and so is a link that
// the keyboard focuses. None moves under a finger.
"use strict";

for (const here of document.querySelectorAll("nav > [aria-current]")) {
  const [row, link] = [here.parentElement, here].map((part) => part.getBoundingClientRect());
  here.parentElement.scrollBy({ left: (link.left + link.right - row.left - row.right) / 2, behavior: "instant" });
}

document.addEventListener("focusin", ({ target }) => {
  if (target.matches("nav > :focus-visible")) target.scrollIntoView({ block: "nearest", inline: "nearest" });
});
