// Single keys press what bears them (data-key), while nobody types; notes that have been sent leave no draft behind.
"use strict";

const DRAFTS = "draft:";
const DAY = 24 * 60 * 60 * 1000;

/** Digits and letters by their place on the keyboard: the same in every layout and script. */
function keyOf(event) {
  const place = /^(?:Digit|Numpad|Key)(.)$/.exec(event.code);
  return place && event.key.length === 1 ? place[1].toLowerCase() : event.key;
}

function isTyping(target) {
  return target.matches("textarea, select, [contenteditable], input:not([type=radio], [type=checkbox])");
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey || event.repeat || event.isComposing) return;
  if (event.key === "Escape") {
    document.querySelectorAll("details[name][open]").forEach((panel) => { panel.open = false; });
    document.activeElement.blur();
    return;
  }
  if (isTyping(event.target)) {
    // Enter in a panel presses the panel's own button.
    const button = event.key === "Enter" && event.target.matches("input") && event.target.closest(".panel")?.querySelector("button.wide");
    if (button) {
      event.preventDefault();
      button.click();
    }
    return;
  }
  const pressed = document.querySelector(`[data-key="${CSS.escape(keyOf(event))}"]`);
  if (!pressed || pressed.closest("fieldset:disabled") || !pressed.checkVisibility()) return;
  event.preventDefault();
  if (pressed.matches("textarea")) pressed.focus();
  else if (pressed.matches("summary")) turn(pressed.parentElement);
  else pressed.click();
});

/** At once: the next key may already be meant for the panel. The event `toggle` comes later. */
function turn(panel) {
  panel.open = !panel.open;
  if (panel.open) enter(panel);
  else panel.querySelector("summary").focus();
}

/** What opens is typed into. */
function enter(panel) {
  if (!panel.querySelector(".panel").contains(document.activeElement)) {
    panel.querySelector(".panel :is(select, button, input)").focus();
  }
}

document.addEventListener("toggle", (event) => {
  if (event.target.matches("details[name]") && event.target.open) enter(event.target);
}, true);

for (const message of document.querySelectorAll(".messagelist [class*=done-]")) {
  const done = [...message.classList].find((name) => name.startsWith("done-"));
  localStorage.removeItem(DRAFTS + done.slice("done-".length));
}
for (const name of Object.keys(localStorage).filter((name) => name.startsWith(DRAFTS))) {
  if (Date.now() - JSON.parse(localStorage.getItem(name)).at > DAY) localStorage.removeItem(name);
}
