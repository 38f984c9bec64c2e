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

// A menu that is open closes by a press elsewhere, and by Escape, which leads back to where it was opened.
function closeMenus(isMeant) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (isMeant(menu)) menu.open = false;
}

document.addEventListener("click", ({ target }) => closeMenus((menu) => !menu.contains(target)));
document.addEventListener("keydown", ({ key }) => {
  if (key !== "Escape") return;
  document.activeElement.closest("details.menu[open]")?.querySelector("summary").focus();
  closeMenus(() => true);
});
