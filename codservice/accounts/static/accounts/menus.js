// An open menu closes by a press elsewhere, and by Escape, which leads back to it.
const openMenus = () => document.querySelectorAll("details.menu[open]");

document.addEventListener("click", ({ target }) => {
  for (const menu of openMenus()) menu.open = menu.contains(target);
});
document.addEventListener("keydown", ({ key, target }) => {
  if (key !== "Escape") return;
  target.closest("details.menu[open]")?.querySelector("summary").focus();
  for (const menu of openMenus()) menu.open = false;
});
