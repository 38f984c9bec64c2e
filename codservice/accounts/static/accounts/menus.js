// A menu closes when something else is pressed or focused, and by Escape, which focuses it.
function shut({ target }) {
  for (const menu of document.querySelectorAll("details.menu[open]")) menu.open = menu.contains(target);
}

document.addEventListener("click", shut);
document.addEventListener("focusin", shut);
document.addEventListener("keydown", ({ key, target }) => {
  if (key !== "Escape") return;
  target.closest("details.menu[open]")?.querySelector("summary").focus();
  shut({});
});

// A field that stops its form can be seen, so that the browser says why.
document.addEventListener("invalid", ({ target }) => {
  const fold = target.closest("details");
  if (fold) fold.open = true;
}, true);
